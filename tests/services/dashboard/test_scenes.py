"""What a person sees in a browser while things change, or are foreign: no old look that calls itself new, no link that is not ours."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from kafka_s3.engine.control.heartbeat import Phase
from kafka_s3_dashboard.reading.history import FRESH_MS
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.browser import Browser, chromium, require_chromium, served
from tests.support.filled import beat, copied, worked
from tests.support.memory_world import World
from tests.support.numbers import numbers
from tests.support.s3_proxy import ANYTHING, LateAnswer, Proxy, Rule

FOREIGN = (
    "[a](http://evil.example/) http://evil.example/x www.evil.example me@evil.example :material/delete: :smile: a -> b <b>x</b> "
    "**bold** `code` :red[red]"
)
JOINER = "\u2060"
AGE = re.compile(r"seen (\d+) s ago")
DRAWN_S = 3
"""How much younger than it is an age may be in the browser: whole seconds, drawn once a second, on a machine with more to do."""
LINKS = """return Array.from(document.querySelectorAll('[data-testid=stMain] a[href]')).map(one => one.href)"""


class Shown:
    """A sink whose state lies in a bucket behind a proxy, and a browser on its dashboard."""

    def __init__(self, world: World, client: Any, bucket: str, *, proxy: Proxy, browser: Browser) -> None:
        self.world, self.client, self.bucket, self.proxy, self.browser = world, client, bucket, proxy, browser

    def beat(self, **more: Any) -> None:
        """The sink says how it is."""
        self.world.now = time.time_ns() // 1_000_000
        beat(self.world, **more)
        copied(self.world.store, self.client, self.bucket, below="_kafka_s3/orders/heartbeat")

    def left(self) -> None:
        """Nobody looks, for longer than a look is new."""
        self.browser.driver.get("about:blank")
        time.sleep(FRESH_MS / 1000 + 2)


@pytest.fixture(scope="module")
def shown(s3: EmbeddedS3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    require_chromium()
    bucket, folder = f"bucket-{next(numbers)}", tmp_path_factory.mktemp("scenes")
    s3.create_bucket(bucket)
    client = boto3.client("s3", endpoint_url=s3.endpoint_url)
    world = worked(hours=3)
    copied(world.store, client, bucket)
    with Proxy(s3.endpoint_url) as proxy:
        arguments = ["orders", "--bucket", bucket, "--store-url", proxy.url, "--region", "us-east-1"]
        with served(arguments, {}, folder / "server.log") as url, chromium(url, folder) as browser:
            yield Shown(world, client, bucket, proxy=proxy, browser=browser)
    client.close()
    assert "Traceback" not in (folder / "server.log").read_text()


def test_a_sink_that_failed_while_nobody_looked_is_never_shown_as_well_under_a_new_look(shown: Shown) -> None:
    """Up to a minute the page said RUNNING under "seen 0 s ago"."""
    browser = shown.browser
    shown.beat()
    browser.visit(
        range="everything", refresh="5 s"
    )  # the server's last look may be older than this heartbeat, and new enough to be shown
    browser.until(lambda: "RUNNING" in browser.text(), what="the sink at work")
    shown.left()
    failed_s = time.monotonic()
    shown.beat(phase=Phase.FAILED, failure="RecordError: not JSON")
    shown.proxy.add(Rule(ANYTHING, LateAnswer(0.7), times=None))
    browser.driver.get(f"{browser.url}/overview?range=everything&refresh=1%20min")
    try:
        while "FAILED" not in (text := browser.text()):
            if "RUNNING" in text and (age := AGE.search(text)):
                assert int(age[1]) + DRAWN_S >= time.monotonic() - failed_s, text[:500]
            assert time.monotonic() - failed_s < 60, text[:500]
            time.sleep(0.1)
    finally:
        shown.proxy.clear()
    browser.until(lambda: "RUNNING" not in browser.text(), what="one look")


def test_foreign_text_makes_no_link_no_icon_and_no_markup(shown: Shown) -> None:
    browser = shown.browser
    shown.beat(phase=Phase.FAILED, failure=FOREIGN, warning=FOREIGN, warned_ms=shown.world.now)
    browser.visit(range="everything")
    browser.until(lambda: "evil.example" in browser.text(), what="the text of the sink")
    assert FOREIGN in browser.text().replace(JOINER, "")
    assert [one for one in browser.driver.execute_script(LINKS) if "evil" in one] == []
    for page, more in (
        ("layout", {"at": "orders/:material/delete:"}),
        ("dead-letters", {"letters": "true", "pattern": FOREIGN}),
    ):
        browser.visit(page, range="everything", **more)
        assert [one for one in browser.driver.execute_script(LINKS) if "evil" in one] == []


def test_a_directory_shows_its_files_and_going_back_keeps_where_one_was(shown: Shown) -> None:
    browser, at = shown.browser, "orders/year=2024/month=01/day=15/hour=10"
    browser.visit("layout", range="everything", at="orders/year=2024/month=01/day=15", heat="bytes")
    browser.shot("layout-day")
    browser.visit("layout", range="everything", at=at, heat="bytes")
    browser.until(lambda: "closed" in browser.text() and "by flush.size" in browser.text(), what="why its files closed")
    browser.shot("layout-files")
    browser.press("[data-testid=stPageLink] a", 1)
    browser.until(lambda: "/overview" in browser.driver.current_url, what="another page")
    browser.drawn("overview")
    browser.driver.back()
    browser.until(lambda: "by flush.size" in browser.text(), what="the directory again")
    assert "heat=bytes" in browser.driver.current_url
