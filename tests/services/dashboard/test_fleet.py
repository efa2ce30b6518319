"""The page of all sinks, in a real browser: at a desk, on a wall, on a phone; sixteen and sixty sinks in all states."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest

from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.timing import now_ms
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.browser import SHOTS, Browser, chromium, require_chromium, served
from tests.support.fleet import wall_objects
from tests.support.numbers import numbers

ROWS = "return Array.from(document.querySelectorAll('.fleet .row')).map(one => [one.dataset.sink, one.innerText])"
OUTSIDE = """
const seen = one => { const at = one.getBoundingClientRect();
  return at.top >= 0 && at.left >= 0 && at.bottom <= innerHeight && at.right <= innerWidth; };
return Array.from(document.querySelectorAll('.fleet .row, .fleet .tile')).filter(one => !seen(one)).length;
"""
CUT = """
const cut = one => one.scrollWidth > one.clientWidth + 1 || getComputedStyle(one).textOverflow === 'ellipsis';
return Array.from(document.querySelectorAll('.fleet .cell')).filter(one => one.offsetParent).filter(cut).map(one => one.innerText);
"""
SIZE = "return parseFloat(getComputedStyle(document.querySelector('.fleet .look .why')).fontSize)"
SCROLLING = """
return Array.from(document.querySelectorAll('.fleet, .fleet *')).filter(one => one.scrollHeight > one.clientHeight + 2
  && ['auto', 'scroll'].includes(getComputedStyle(one).overflowY)).length;
"""


@pytest.fixture(scope="module", params=[60, pytest.param(16, marks=pytest.mark.nightly)])
def browser(
    request: pytest.FixtureRequest, s3: EmbeddedS3, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    require_chromium()
    bucket, folder = f"bucket-{next(numbers)}", tmp_path_factory.mktemp("fleet")
    client = boto3.client("s3", endpoint_url=s3.endpoint_url)
    s3.create_bucket(bucket)
    with ThreadPoolExecutor(8) as pool:
        found = wall_objects(request.param, now_ms=now_ms())
        list(pool.map(lambda item: client.put_object(Bucket=bucket, Key=item[0], Body=item[1]), found))
    place = ["--bucket", bucket, "--store-url", s3.endpoint_url, "--region", "us-east-1"]
    with served(place, {}, folder / "server.log") as url, chromium(url, folder) as made:
        made.bucket, made.client, made.sinks = bucket, client, request.param  # type: ignore[attr-defined]
        yield made
    client.close()
    assert "Traceback" not in (folder / "server.log").read_text()


def opened(browser: Any, *, size: tuple[int, int], **address: str) -> Any:
    browser.screen(*size)
    browser.visit("", **address)
    browser.until(lambda: len(browser.driver.execute_script(ROWS)) == browser.sinks, what="every sink")
    return browser


def shots() -> Path:
    SHOTS.mkdir(parents=True, exist_ok=True)
    return SHOTS


@pytest.mark.nightly
def test_a_wall_shows_every_sink_at_once_and_can_be_read_from_three_metres(browser: Any) -> None:
    opened(browser, size=(1920, 1080), kiosk="true")
    assert browser.driver.execute_script(OUTSIDE) == 0
    assert browser.driver.execute_script(SCROLLING) == 0
    assert browser.driver.execute_script(CUT) == []
    assert browser.driver.execute_script(SIZE) >= (24 if browser.sinks == 16 else 17)
    assert not browser.driver.execute_script("return document.querySelector('[data-testid=stSidebar]')?.offsetParent")
    assert [one.text.split() for one in browser.find(".fleet .tile")][:5] == [
        ["1", "FAILED"], ["1", "STALE"], ["0", "UNKNOWN"], ["4", "DEGRADED"], ["0", "PROVISIONING"],
    ]  # fmt: skip
    names = [name for name, _ in browser.driver.execute_script(ROWS)]
    assert names[:3] == ["payments", "shipments-of-all-regions", "clicks-behind"]
    assert browser.troubles() == []
    browser.driver.save_screenshot(str(shots() / f"wall-{browser.sinks}.png"))


def test_on_a_phone_a_sink_has_state_name_lag_and_reason(browser: Any) -> None:
    opened(browser, size=(390, 844))
    text = dict(browser.driver.execute_script(ROWS))["sessions"]
    assert text.split("\n") == ["DEGRADED", "sessions", "248 or more", "Topic sessions-eu is not in Kafka."]
    assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= 390
    assert browser.driver.execute_script(CUT) == []


def test_a_click_on_a_row_opens_the_sink_and_back_the_fleet(browser: Any) -> None:
    opened(browser, size=(1366, 768))
    before = browser.driver.execute_script("window.same = true; return location.pathname")
    browser.press(".fleet .row[data-sink=clicks-behind]")
    browser.until(lambda: "Overview \u00b7 clicks-behind" in browser.text(), what="the sink's page")
    browser.until(lambda: "sink=clicks-behind" in browser.driver.current_url, what="the sink in the address")
    assert browser.driver.execute_script("return window.same"), "the page was not loaded anew"
    browser.driver.back()
    browser.until(lambda: len(browser.find(".fleet .row")) == browser.sinks, what="the fleet")
    assert browser.driver.execute_script("return location.pathname") == before


def test_a_refresh_changes_what_has_changed_and_draws_nothing_again(browser: Any) -> None:
    opened(browser, size=(1920, 1080), kiosk="true")
    browser.driver.execute_script("window.rows = Array.from(document.querySelectorAll('.fleet .row'))")
    _, beat = next(one for one in wall_objects(1, now_ms=now_ms()) if one[0].endswith("heartbeat.json"))
    beat = beat.replace(b'"open_problems":[]', b'"standing":["topic news is not in Kafka"]')
    paths = StatePaths("_kafka_s3", "orders-00")
    browser.client.put_object(Bucket=browser.bucket, Key=paths.heartbeat(), Body=beat)
    text = "Topic news is not in Kafka."
    browser.until(lambda: text in dict(browser.driver.execute_script(ROWS))["orders-00"], what="what is wrong now")
    assert browser.driver.execute_script("return window.rows.every(one => one.isConnected)")
    assert browser.driver.execute_script(OUTSIDE) == 0
    assert browser.troubles() == []


@pytest.mark.parametrize("pace", ["off", pytest.param("1 min", marks=pytest.mark.nightly)])
def test_a_look_grows_older_on_the_page_and_a_slow_pace_is_no_silence(browser: Any, pace: str) -> None:
    """With refresh off a page said for ever "seen 0 s ago", and after 15 s that the dashboard did not answer."""
    opened(browser, size=(1366, 768), refresh=pace)
    began = time.monotonic()
    browser.until(lambda: time.monotonic() - began > 18, what="longer than the pace of a wall")
    said = browser.find(".fleet .seen")[0].text
    assert said.startswith(f"{browser.sinks} sinks in ")
    assert 15 <= int(said.rpartition(" s ago")[0].rpartition(" ")[2]) < 60


def test_names_and_reasons_of_strangers_stay_text(browser: Any) -> None:
    opened(browser, size=(1366, 768))
    text = dict(browser.driver.execute_script(ROWS))["<b>hostile&amp;"]
    assert "Tries again: <img src=x onerror=alert(1)>" in text
    assert browser.find(".fleet img, .fleet .row b") == []


@pytest.mark.nightly
def test_charts_mark_when_the_state_changed(browser: Any) -> None:
    browser.screen(1366, 900)
    browser.visit("overview", sink="sessions", refresh="off")
    browser.until(lambda: "Marks: a change of state" in browser.text(), what="what the marks mean")
    assert browser.troubles() == []
