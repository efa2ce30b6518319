"""What a team relies on when it reads the dashboard, each with its scene in a real browser: nothing wrong is green, nothing is invented,
commands act on what is shown, and what is asked most is two clicks away.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import boto3
import pytest

from kafka_s3.connect.config.validate import validate
from kafka_s3.engine.control.catch_up import CatchUp
from kafka_s3.engine.control.heartbeat import Phase, StateSince
from kafka_s3.engine.control.stored_settings import note_settings
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers.progress import note_positions, read_positions
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.pipeline import noted_settings
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.browser import Browser, chromium, require_chromium, served
from tests.support.configurations import PARTITIONER, TOLERANT
from tests.support.filled import HOUR_MS, HOURLY, beat, copied, with_table, worked
from tests.support.memory_world import BASE, ORDERS, START_MS, World
from tests.support.numbers import numbers
from tests.support.rewriting import ask_for_compaction

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3

MINUTE_MS = 60_000
BY_TENANT = {"partitioner.class": f"{PARTITIONER}FieldPartitioner", "partition.field.name": "tenant"}
FAILURE = "RecordError: orders-0 offset 28 is not JSON"
HELD = "column n is long, in the table string"
SECRET = "Bearer-4711"
GREEN = "[data-testid=stAlertContentSuccess]"
CODE = "return Array.from(document.querySelectorAll('[data-testid=stCode] code')).map(one => one.innerText)"
EMPTY_HEADINGS = """
const shown = Array.from(document.querySelectorAll('[data-testid=stMain] [data-testid=stElementContainer]'))
  .filter(one => one.getClientRects().length && one.getBoundingClientRect().height > 0);
const heading = one => one?.querySelector('[data-testid=stHeading] h3');
return shown.filter((one, at) => heading(one) && (!shown[at + 1] || heading(shown[at + 1]))).map(one => one.innerText);
"""
ROWS_OF_TILES = """
const rows = {};
for (const one of document.querySelectorAll('[class*=st-key-tiles] [data-testid=stMetric]'))
  rows[Math.round(one.getBoundingClientRect().top)] = (rows[Math.round(one.getBoundingClientRect().top)] || 0) + 1;
return Object.values(rows);
"""


def of_documents(name: str, documents: Iterable[tuple[int, bytes]], *, hours: int = 1, **config: str) -> World:
    """A sink that has written these documents, each with its time, and has noted its settings."""
    made = World({**BASE, "name": name, **config})
    sink = made.start()
    for offset, (at_ms, value) in enumerate(documents):
        made.kafka.add(ORDERS, MemoryRecord(offset, at_ms, None, value, (("Authorization", SECRET.encode()),)))
    sink.poll_and_commit()
    made.now += hours * HOUR_MS
    sink.poll_and_commit()
    return made


def noted(made: World, config: dict[str, str]) -> World:
    settings = validate({**BASE, **config}).usable()
    note_settings(made.store, StatePaths("_kafka_s3", config["name"]), noted_settings(settings, epoch=1, at_ms=1))
    return made


def damaged() -> World:
    made = worked(name="damaged")
    made.store.put(StatePaths("_kafka_s3", "damaged").commit(5), b"{broken")
    return made


def by_tenants(name: str, sizes: dict[str, int]) -> World:
    documents = [
        (START_MS, json.dumps({"tenant": tenant, "n": n}).encode())
        for tenant, size in sizes.items()
        for n in range(size)
    ]
    config = {
        "state.prefix": "_kafka_s3",
        "flush.size": "50",
        "rotate.schedule.interval.ms": "60000",
        "timezone": "UTC",
        **BY_TENANT,
    }
    return noted(of_documents(name, documents, **config), {"name": name, **config})


def turning() -> World:
    """Two schemas without names take turns."""

    def document(n: int) -> bytes:
        fields = [
            {"field": "n", "type": "int64"},
            *([{"field": "m", "type": "string", "optional": True}] if n % 4 // 2 else []),
        ]
        return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": {"n": n}}).encode()

    config = {
        "state.prefix": "_kafka_s3", "flush.size": "100", "value.converter.schemas.enable": "true", "timezone": "UTC",
        "format.class": "io.confluent.connect.s3.format.avro.AvroFormat", "rotate.schedule.interval.ms": "60000",
    }  # fmt: skip
    return of_documents("turning", ((START_MS, document(n)) for n in range(40)), **config)


def young() -> World:
    """Twelve minutes of work, with a file every few seconds."""
    config = {"name": "young", "state.prefix": "_kafka_s3", "flush.size": "3", **TOLERANT}
    made = World({**BASE, **config})
    sink = made.start()
    for minute in range(13):
        for number in range(12):
            value = b"{broken" if (minute, number) == (2, 5) else b'{"n":%d}' % number
            at = made.now + number * 5000
            made.kafka.add(
                ORDERS, MemoryRecord(12 * minute + number, at, None, value, (("Authorization", SECRET.encode()),))
            )
        made.now += MINUTE_MS
        sink.poll_and_commit()
    return noted(made, config)


def compacted() -> World:
    made = of_documents(
        "compacted",
        ((START_MS, b'{"n":%d}' % n) for n in range(30)),
        **{"flush.size": "3", "state.prefix": "_kafka_s3"},
    )
    made.now += HOUR_MS
    ask_for_compaction(made, made.store)
    made.sink.rewrites.notice(str(made.now))
    made.sink.poll_and_commit()
    return made


def year() -> World:
    days = ((START_MS + day * 24 * HOUR_MS, b'{"n":%d}' % day) for day in range(370))
    hourly = {name: text for name, text in HOURLY.items() if name != "topics"}
    return of_documents("year", days, hours=3, **hourly)


def seen(made: World, now: int) -> World:
    """A sink that beats now: of the damaged and the table's, as if it were well."""
    made.now = now
    beat(made, lag={ORDERS: 0})
    return made


@pytest.fixture(scope="module")
def browser(s3: EmbeddedS3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require_chromium()
    bucket, folder, now = f"bucket-{next(numbers)}", tmp_path_factory.mktemp("clauses"), now_ms()
    tabled = with_table(s3, bucket)
    client = boto3.client("s3", endpoint_url=s3.endpoint_url)
    key = StatePaths("_kafka_s3", "orders").follower("delta")
    held = replace(read_positions(tabled.store, key), version=tabled.entries[-1], behind={}, held={})
    held.hold("orders", after=tabled.entries[0], why=HELD, now_ms=now - 2 * HOUR_MS)
    note_positions(tabled.store, key, held)
    late, failed, shop = worked(hours=2, name="late"), worked(hours=2, name="failed"), worked(name="shop")
    for made in (late, failed, shop):
        made.now = now
    states = (
        StateSince(now - 30 * HOUR_MS, "RUNNING"),
        StateSince(now - 25 * MINUTE_MS, "DEGRADED", "it is far behind"),
    )
    beat(
        late, lag={ORDERS: 31_677_000}, states=states, open_problems=("topic news is not in Kafka",), warning=HELD, warned_ms=now,
        catch_up=CatchUp(now - 2 * HOUR_MS, 31_677_000, 41_000.0, 5_200.0, now + 1_347_000),
    )  # fmt: skip
    beat(failed, phase=Phase.FAILED, failure=FAILURE, states=(StateSince(now - HOUR_MS, "FAILED", FAILURE),))
    beat(shop)
    made_of = [
        late, failed, shop, seen(damaged(), now), by_tenants("tenants", {f"t0{1971 + n % 9}": 3 + n for n in range(9)}),
        by_tenants("wide", {**{f"t{n:04d}": 1 for n in range(1_100)}, "t9999": 40}), turning(), seen(young(), now), compacted(), year(),
    ]  # fmt: skip
    for world in made_of:
        copied(world.store, client, bucket)
    client.close()
    arguments = ["--bucket", bucket, "--store-url", s3.endpoint_url, "--region", "us-east-1"]
    with served(arguments, {}, folder / "server.log") as url, chromium(url, folder) as opened:
        opened.screen(1360, 1000)
        yield opened
    assert "Traceback" not in (folder / "server.log").read_text()


def visit(browser: Browser, page: str, sink: str, **more: str) -> Browser:
    browser.visit(page, **{"sink": sink, "range": "everything", "refresh": "off", **more})
    return browser


def test_commands_name_topics_time_and_bucket_of_what_is_shown(browser: Browser) -> None:
    span = {"range": "from - to", "from": "2024-01-15T11:00", "to": "2024-01-15T14:30"}
    address = urlencode(
        {"sink": "shop", "refresh": "off", "letters": "true", **span, "topics": ["orders", "payments"]}, doseq=True
    )
    browser.driver.get(f"{browser.url}/dead-letters?{address}")
    browser.until(lambda: any("resolve" in one for one in browser.driver.execute_script(CODE)), what="the commands")
    words = shlex.split(next(one for one in browser.driver.execute_script(CODE) if "resolve" in one).splitlines()[-1])
    assert words[3:5] == ["shop", "--bucket"]
    at = words.index("--topic")
    assert words[at : at + 8] == [
        "--topic", "orders", "--topic", "payments", "--since", "2024-01-15T11:00:00.000Z", "--until", "2024-01-15T14:30:00.000Z",
    ]  # fmt: skip


def test_a_damaged_log_is_nowhere_green_and_nothing_of_it_is_complete(browser: Browser) -> None:
    for page in ("overview", "tables", "commits"):
        visit(browser, page, "damaged")
        browser.until(lambda: "cannot be read" in browser.text(), what="the damage")
        assert browser.find(GREEN) == []
    visit(browser, "overview", "damaged")
    browser.until(lambda: "DEGRADED" in browser.text(), what="its state")
    assert re.search(r"orders-0 \d+ to \d+", browser.text())
    assert browser.figures()["Complete through"] == "unknown"
    browser.visit("")
    browser.until(lambda: "damaged" in browser.text(), what="the fleet")
    assert browser.find(".fleet .row[data-sink=damaged][data-state=DEGRADED]")


def test_a_table_that_refuses_says_why_and_since_when_and_hides_no_lag(browser: Browser) -> None:
    visit(browser, "tables", "orders")
    browser.until(lambda: "refuses, since" in browser.text(), what="that it refuses")
    text = browser.text()
    assert HELD in text
    assert "4 records in 2 objects of 2 entries of the log are not in it" in text
    assert "every object is in the table" not in text
    assert browser.find(GREEN) == []
    name = "Tables and whether they are complete"
    browser.until(lambda: bool(browser.grid(name)), what="the verdicts")
    [row] = browser.grid(name)
    assert (row["Verdict"], row["Why"]) == ("refuses", HELD)
    visit(browser, "overview", "late")
    assert browser.figures()["Lag"].startswith("31,677,000")


@pytest.mark.nightly
def test_schemas_without_names_that_take_turns_are_no_all_clear(browser: Browser) -> None:
    visit(browser, "commits", "turning")
    browser.until(
        lambda: bool(browser.grid("Schemas that followed each other, most changes first")), what="the changes"
    )
    assert "kept its schema" not in browser.text()


@pytest.mark.nightly
def test_directories_of_tenants_are_no_times(browser: Browser) -> None:
    visit(browser, "layout", "tenants")
    browser.until(lambda: "Directories are not times" in browser.text(), what="what they are")
    assert "Late files" not in browser.text()
    assert "behind by" not in browser.text().lower()
    assert browser.find("[aria-label^='Treemap'], [data-testid=stVegaLiteChart]")
    visit(browser, "layout", "tenants", at="orders/tenant=t01971")
    browser.until(lambda: bool(browser.grid("Files of this directory, newest first")), what="its files")


@pytest.mark.nightly
def test_the_largest_of_many_directories_comes_first_though_others_are_cut(browser: Browser) -> None:
    visit(browser, "layout", "wide", at="orders")
    browser.until(lambda: bool(browser.grid("Directories of this level")), what="the directories")
    assert browser.grid("Directories of this level")[0]["Directory"] == "tenant=t9999"
    assert "first 1,000 of 1,101" in browser.text() or "largest 1,000 of 1,101" in browser.text()


def test_since_when_what_was_before_and_when_it_has_caught_up_are_on_the_first_page_of_a_sink(browser: Browser) -> None:
    visit(browser, "overview", "late")
    assert re.search(r"DEGRADED for 2\d min.*Before that RUNNING for 1 d 5 h", browser.text())
    assert re.fullmatch(r"in 2\d min", browser.figures()["Catches up"])
    assert not re.search(r"DEGRADED works", browser.text())
    browser.unfold("All states")
    browser.until(lambda: len(browser.grid("States of the sink, newest first")) == 2, what="the states")
    assert browser.grid("States of the sink, newest first")[0]["Why"] == "it is far behind"


def test_the_files_of_an_hour_and_why_each_closed_are_a_click_away(browser: Browser) -> None:
    visit(browser, "rotation", "shop", **{"range": "from - to", "from": "2024-01-15T10:00", "to": "2024-01-15T18:00"})
    steps, files = "Files by the time of their commit, newest first", "Files of this time, newest first"
    browser.until(lambda: len(browser.grid(steps)) > 2, what="the times")
    [step] = browser.grid(steps)[1:2]
    browser.pick(steps, 1)
    browser.until(lambda: bool(browser.grid(files)), what="its files")
    assert len(browser.grid(files)) == int(step["Files"])
    assert {row["Why closed"] for row in browser.grid(files)} <= {
        "flush.size",
        "rotate.schedule.interval.ms",
        "partition.change",
    }
    assert "made=" in browser.driver.current_url


@pytest.mark.nightly
def test_small_files_are_explained_from_ten_minutes_on_with_what_each_setting_would_make(browser: Browser) -> None:
    visit(browser, "rotation", "young")
    name = "Files of orders under other settings"
    browser.until(lambda: len(browser.grid(name)) > 1, what="other settings", seconds=120)
    as_it_is, raised = browser.grid(name)[:2]
    assert (as_it_is["Set"], raised["Set"]) == ("as it is", "flush.size=30")
    files = [float(row["Files a day"].replace(",", "")) for row in (as_it_is, raised)]
    assert files[0] == pytest.approx(10 * files[1], rel=0.05)
    assert "At best" not in browser.text()


def test_a_click_on_a_message_shows_its_letters_alone_and_secret_headers_stay_masked(browser: Browser) -> None:
    letters, patterns = "Dead letters, page 1", "Dead letters by what their messages have in common"
    visit(browser, "dead-letters", "shop", letters="true")
    browser.until(lambda: len(browser.grid(letters)) == 3 and len(browser.grid(patterns)) == 2, what="three letters")
    assert "Partition" not in browser.grid(letters)[0], "all are of partition 0"
    browser.pick(patterns, 0)
    browser.until(lambda: len(browser.grid(letters)) == 2, what="the letters of the chosen message")
    visit(browser, "dead-letters", "young", letters="true", letter="orders-0-29")
    browser.until(lambda: "Authorization" in browser.text(), what="the letter's headers")
    assert SECRET not in browser.text()


def test_a_failure_is_said_once_and_no_heading_is_empty(browser: Browser) -> None:
    visit(browser, "overview", "failed")
    browser.until(lambda: FAILURE in browser.text(), what="the failure")
    assert browser.text().count(FAILURE) == 1
    for sink, page in (
        ("failed", "overview"), ("late", "overview"), ("damaged", "overview"), ("young", "rotation"), ("compacted", "layout"),
        ("turning", "commits"), ("orders", "tables"), ("shop", "dead-letters"),
    ):  # fmt: skip
        visit(browser, page, sink)
        assert browser.driver.execute_script(EMPTY_HEADINGS) == [], (sink, page)


def test_a_lag_in_time_is_in_hours_and_minutes(browser: Browser) -> None:
    visit(browser, "overview", "late")
    name = "Topics with completeness and lag"
    browser.until(lambda: bool(browser.grid(name)), what="the topics")
    rows = browser.grid(name)
    assert rows[0]["Topic"] == "orders"
    assert re.fullmatch(r"(\d+ d )?\d+ h( \d+ min)?|\d+ d", rows[0]["Lag, time"])


@pytest.mark.parametrize("width", [*(pytest.param(n, marks=pytest.mark.nightly) for n in (1920, 1280)), 390])
def test_tiles_wrap_evenly(browser: Browser, width: int) -> None:
    browser.screen(width, 1000)
    try:
        for page in ("overview", "rotation"):
            visit(browser, page, "shop")
            browser.until(lambda: bool(browser.driver.execute_script(ROWS_OF_TILES)), what="the tiles")
            assert len(set(browser.driver.execute_script(ROWS_OF_TILES))) == 1
    finally:
        browser.screen(1360, 1000)


@pytest.mark.nightly
def test_the_map_of_a_year_fits_a_screen(browser: Browser) -> None:
    visit(browser, "layout", "year")
    browser.until(lambda: "Colour by" in browser.text(), what="the map")
    chart = browser.find("[data-testid=stVegaLiteChart]")[0]
    assert chart.size["height"] <= 900
    assert chart.size["width"] <= 1360


@pytest.mark.nightly
def test_compacted_objects_are_counted_apart_from_those_that_were_written(browser: Browser) -> None:
    visit(browser, "rotation", "compacted")
    browser.until(lambda: "Compacted" in browser.figures(), what="what was compacted")
    assert (browser.figures()["Files"], browser.figures()["Compacted"]) == ("10", "10 to 1")
    assert "Size of objects before" in browser.text()
    visit(browser, "layout", "compacted")
    browser.until(lambda: bool(browser.grid("Directories of this level")), what="the directories")
    assert browser.grid("Directories of this level")[0]["Files"] == "1"
