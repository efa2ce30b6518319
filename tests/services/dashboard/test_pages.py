"""Every page in every state, drawn by Streamlit's own test runner against a real S3 server. What a page shows is what the log says."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from kafka_s3.connect.config.validate import validate
from kafka_s3.engine.control.heartbeat import Phase
from kafka_s3.engine.control.stored_settings import note_settings, store_config
from kafka_s3.engine.log.dead_letters import LetterSelection, LetterState, read_ledger
from kafka_s3.engine.log.dead_letters import letters as read_letters
from kafka_s3.engine.log.entry import iso_ms
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers.progress import note_positions, read_positions
from kafka_s3.followers.state import StateNote, StateNotes
from kafka_s3.ops.erasure.forgetting import Forgetting
from kafka_s3.ops.erasure.subjects import subjects_of
from kafka_s3.ops.positions import epoch_ms
from kafka_s3.run.wiring.bucket import stored_config
from kafka_s3.run.wiring.pipeline import noted_settings
from kafka_s3.store.memory import MemoryStore
from kafka_s3_dashboard.figures import letter_tables
from kafka_s3_dashboard.reading import history, letters
from kafka_s3_testing.services.memory import MemoryRecord
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.filled import FORMULA, HOURLY, INJECTION, Tabled, beat, copied, worked, world
from tests.support.iceberg_world import IcebergWorld
from tests.support.memory_world import BASE, ORDERS, START_MS, World
from tests.support.numbers import numbers
from tests.support.repository import DASHBOARD
from tests.support.rewriting import ask_for_compaction
from tests.support.s3_proxy import ANYTHING, LateAnswer, Proxy, Refuse, Rule, Which

PATIENCE_S = 200
"""Readers may take their time on a busy machine."""
TRACES = ("Traceback", 'File "/', "KeyError", "NoneType")
Open = Callable[..., AppTest]


@pytest.fixture(scope="module")
def made() -> World:
    found = worked()
    found.now = time.time_ns() // 1_000_000
    beat(found)
    return found


@pytest.fixture(scope="module")
def damaged() -> World:
    """The same log, and an entry of it that cannot be read."""
    found = worked()
    found.store.put(StatePaths("_kafka_s3", "orders").commit(5), b"{broken")
    return found


@pytest.fixture(scope="module")
def hostile() -> World:
    """A log whose heartbeat and control object somebody else has written."""
    found = worked(hours=2)
    found.now = time.time_ns() // 1_000_000
    beat(
        found,
        phase=Phase.FAILED,
        failure=HOSTILE,
        warning=HOSTILE,
        warned_ms=found.now,
        open_problems=(HOSTILE,),
        troubled=True,
    )
    request = {"format": 1, "paused": True, "request": HOSTILE, "requested_at": HOSTILE, "requested_by": HOSTILE}
    found.store.put(StatePaths("_kafka_s3", "orders").control(), json.dumps(request).encode())
    return found


@pytest.fixture(scope="module")
def client(s3: EmbeddedS3) -> Iterator[Any]:
    found = boto3.client("s3", endpoint_url=s3.endpoint_url)
    yield found
    found.close()


@pytest.fixture(scope="module")
def filled(s3: EmbeddedS3, client: Any) -> Iterator[Callable[[MemoryStore], str]]:
    """The bucket that holds a store's objects, filled once for all tests; what the dashboard has read of it stays."""
    st.cache_resource.clear()
    made: dict[int, tuple[MemoryStore, str]] = {}

    def bucket_of(store: MemoryStore) -> str:
        if id(store) not in made:
            made[id(store)] = (store, f"bucket-{next(numbers)}")
            s3.create_bucket(made[id(store)][1])
            copied(store, client, made[id(store)][1])
        return made[id(store)][1]

    yield bucket_of
    st.cache_resource.clear()


PAGES: dict[str, str] = {}
"""The runner's names of the pages, by their addresses; the first run tells."""


@pytest.fixture
def visit(s3: EmbeddedS3, filled: Callable[[MemoryStore], str], monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens the dashboard on a bucket with these objects, at a page, with an address."""
    monkeypatch.setenv("KAFKA_S3_STORE_URL", s3.endpoint_url)
    monkeypatch.setenv("KAFKA_S3_REGION", "us-east-1")
    # Streamlit's runner looks through every installed package at each run, which takes longer than the page; a server does it once.
    monkeypatch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", list)

    def start(store: MemoryStore | None = None, page: str = "overview", **address: str | list[str]) -> AppTest:
        if store is not None:
            monkeypatch.setenv("KAFKA_S3_BUCKET", filled(store))
        test = AppTest.from_file(str(DASHBOARD / "app.py"), default_timeout=60)
        for name, value in {"range": "everything", **address}.items():
            test.query_params[name] = value
        return turned(test, page).run()

    return start


def turned(test: AppTest, page: str) -> AppTest:
    """The visitor on another page. The runner's own `switch_page` knows pages that are files; these are functions."""
    if page and page not in PAGES:
        test.run()
        PAGES.update(
            {info["url_pathname"]: key for key, info in test._registered_pages.items() if info.get("url_pathname")}
        )
    if page:
        test._page_hash = PAGES[page]
    return test


def texts(test: AppTest) -> str:
    """Everything that the page says outside of tables and charts."""
    kinds = ("title", "subheader", "markdown", "caption", "info", "warning", "error", "success", "code", "text")
    return "\n".join(str(one.value) for kind in kinds for one in getattr(test.main, kind))


def settled(test: AppTest, holds: Callable[[AppTest], bool]) -> AppTest:
    """The page as it is when the readers behind it have come so far."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(test):
        assert time.monotonic() < deadline, texts(test)
        time.sleep(0.1)
        test.run()
    return test


def sinks_of(test: AppTest) -> list[dict[str, Any]]:
    """The rows of the page of all sinks."""
    found = test.get("bidi_component")
    return list(json.loads(found[0].proto.json)["rows"]) if found else []


def clean(test: AppTest) -> AppTest:
    """No page ever shows a stack trace, or gives up."""
    assert not test.exception
    assert not any(trace in texts(test) for trace in TRACES), texts(test)
    assert "could not be drawn" not in texts(test)
    return test


def figure(test: AppTest, label: str) -> str:
    """The value of a figure, once it is there."""
    settled(test, lambda now: any(metric.label == label for metric in now.metric))
    return str(next(metric.value for metric in test.metric if metric.label == label))


def frame(test: AppTest, *columns: str) -> Any:
    """The table with these columns, once it is there."""

    def found(now: AppTest) -> list[Any]:
        return [table.value for table in now.dataframe if set(columns) <= set(table.value.columns)]

    return found(settled(test, lambda now: bool(found(now))))[0]


def by_name(s3: EmbeddedS3) -> str:
    """How commands name the sink where the dashboard was started with a bucket."""
    return f"orders --bucket {os.environ['KAFKA_S3_BUCKET']} --store-url {s3.endpoint_url} --region us-east-1"


def data_ms(at: Any) -> int:
    return round(at.timestamp() * 1000)


def test_the_overview_has_the_figures_of_the_log(visit: Open, made: World) -> None:
    test = clean(visit(made.store))
    totals = made.log().load().totals
    assert figure(test, "Records written") == f"{totals.written:,}"
    assert figure(test, "Dead letters") == "3"
    assert figure(test, "Lag") == "0"
    assert "RUNNING" in texts(test)
    assert frame(test, "topic", "complete")["topic"].tolist() == ["orders", "payments"]


def test_rotation_counts_the_files_of_the_log(visit: Open, made: World) -> None:
    test = clean(visit(made.store, "rotation"))
    files = [file for entry in made.entries() for file in entry.files if file.role == "value"]
    assert figure(test, "Files") == f"{len(files)}"
    reasons = frame(test, "reason", "share")
    assert dict(zip(reasons["reason"], reasons["files"], strict=True)) == {
        reason: sum(str(file.reason) == reason for file in files) for reason in {str(file.reason) for file in files}
    }
    assert "no ground for a month" in texts(test)  # it worked for eight hours
    assert "no other setting can be compared" in texts(test)  # there is no configuration here
    steps = frame(test, "reasons", "files", "records")
    assert steps["files"].sum() == len(files)
    at = data_ms(steps["at"].iloc[0])
    opened = clean(visit(made.store, "rotation", made=str(at)))
    listed = frame(opened, "reason", "first_offset")
    assert len(listed) == steps["files"].iloc[0]
    assert sorted(listed["name"]) == sorted(
        file.key.rpartition("/")[2] for entry in made.entries() if iso_ms(entry.committed_at) >= at for file in entry.files
        if file.role == "value"
    )  # fmt: skip


def test_rotation_shows_compactions_and_erasures_apart_from_files_that_were_written(visit: Open) -> None:
    made = worked(hours=2)
    files = len([file for entry in made.entries() for file in entry.files if file.role == "value"])
    ask_for_compaction(made, made.store)
    made.sink.rewrites.look()
    assert made.sink.poll_and_commit()
    made.now += 3 * 60_000
    work = Forgetting(made.settings, made.store, subjects_of(None, "n = 1", None), lambda: made.now, pytest.fail)
    searched = work.search()
    assert list(work.run(searched))
    test = clean(visit(made.store, "rotation"))
    assert figure(test, "Files") == f"{files}"
    before, _, after = figure(test, "Compacted").partition(" to ")
    assert int(before) > int(after) > 0
    assert figure(test, "Erased") == f"{searched.found.records + searched.found.letters}"


def test_advice_and_a_price_come_with_a_day_of_commits(visit: Open) -> None:
    made = worked(hours=30)
    test = clean(visit(made.store, "rotation"))
    assert figure(test, "Writing, a month")
    assert "no ground for a month" not in texts(test)


def test_dead_letters_are_counted_from_the_log_and_read_only_when_asked_for(
    visit: Open, made: World, client: Any
) -> None:
    test = clean(visit(made.store, "dead-letters"))
    assert (figure(test, "Dead letters"), figure(test, "Open")) == ("3", "3")
    assert INJECTION.decode() not in texts(test)
    assert "nothing of any record is read" in texts(test)


def test_a_script_in_a_dead_letter_stays_text_and_its_formula_cannot_calculate(
    visit: Open, made: World, s3: EmbeddedS3
) -> None:
    test = clean(visit(made.store, "dead-letters", letters="true", partition="0", offset="28", topics="orders"))
    shown = next(block.value for block in test.code if "record:" in block.value)
    assert f"value: {INJECTION.decode()}" in shown
    assert f"key: {FORMULA.decode()}" in shown
    assert frame(test, "offset", "message")["key"].tolist() == [f"'{FORMULA.decode()}"]
    assert not any(INJECTION.decode() in str(one.value) for one in test.markdown)
    assert f"replay {by_name(s3)} --topic orders --partition 0 --offset 28 --dry-run" in texts(test)
    assert frame(test, "pattern", "letters")["letters"].tolist() == [1]


def test_a_letter_in_the_link_is_shown_whatever_else_is_found_with_commands_of_its_own(
    visit: Open, made: World, s3: EmbeddedS3
) -> None:
    test = clean(visit(made.store, "dead-letters", letters="true", letter="orders-0-28", text="no such text"))
    shown = next(block.value for block in test.code if "record:" in block.value)
    assert f"value: {INJECTION.decode()}" in shown
    assert "No dead letter that was read fits these filters" in texts(test)
    assert f"replay {by_name(s3)} --topic orders --partition 0 --offset 28 --dry-run" in texts(test)
    found = clean(visit(made.store, "dead-letters", letters="true", text="owned"))
    assert frame(found, "offset", "message")["offset"].tolist() == [28]
    assert frame(found, "pattern", "letters")["example"].tolist() == ["orders-0-28"]
    assert "without these filters they are shown here" in texts(found)
    between = clean(visit(made.store, "dead-letters", letters="true", offset="29", last="40"))
    assert 28 not in frame(between, "offset", "message")["offset"].tolist()


def test_every_letter_is_on_some_page_and_one_that_is_not_there_is_reported(
    visit: Open, made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "MOST_LETTERS", 2)
    test = clean(visit(made.store, "dead-letters", letters="true", letter="orders-0-4711", state="any"))
    assert "No dead letter of the log is orders-0-4711" in texts(
        settled(test, lambda now: "No dead letter" in texts(now))
    ).replace("\\", "")
    first = frame(test, "offset", "message")
    assert frame(test, "pattern", "letters")["letters"].sum() == 3
    test.button(key="older").click().run()
    settled(test, lambda now: "Page 2" in texts(now))
    second = frame(clean(test), "offset", "message")
    assert (len(first), len(second), test.button(key="older").disabled) == (2, 1, True)
    test.button(key="newer").click().run()
    assert frame(clean(test), "offset", "message")["offset"].tolist() == first["offset"].tolist()


def test_fields_that_are_masked_are_nowhere_on_the_page(
    visit: Open, made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_S3_DASHBOARD_MASK_FIELDS", "n, email")
    test = clean(visit(made.store, "dead-letters", letters="true", letter="orders-0-28"))
    settled(test, lambda now: any("record:" in block.value for block in now.code))
    assert "owned" not in texts(clean(test))
    assert frame(test, "offset", "message")["value"].tolist() == ["****"] * 3
    found = clean(visit(made.store, "dead-letters", letters="true", text="owned"))
    assert "No dead letter that was read fits these filters" in texts(settled(found, lambda now: "fits" in texts(now)))


def test_the_layout_shows_the_tree_the_gap_and_the_late_file(visit: Open, made: World) -> None:
    test = clean(visit(made.store, "layout", at="orders/year=2024/month=01/day=15"))
    assert frame(test, "name", "directories")["name"].tolist() == [f"hour={hour}" for hour in (10, 11, 12, 14, 15)]
    assert frame(test, "share", "partition")["share"].tolist()[0] == 1.0  # payments has one
    heat = json.loads(next(one.proto.spec for one in test.get("vega_lite_chart") if "viridis" in one.proto.spec))
    assert heat["encoding"]["y"]["sort"] == ["2024-01-15"]
    assert frame(test, "missing", "unit")["missing"].tolist() == [1, 1]
    assert frame(test, "behind")["encoded"].tolist() == ["year=2024/month=01/day=15/hour=11"]
    assert any("CREATE EXTERNAL TABLE `orders`" in block.value for block in test.code)


def test_a_place_that_is_not_there_or_not_among_the_chosen_topics_shows_the_topics(visit: Open, made: World) -> None:
    """The page could not be drawn, once another topic was chosen than the one whose directory was looked at."""
    for more in ({"at": "orders/year=2031"}, {"at": "orders/year=2024", "topics": "payments"}):
        test = clean(visit(made.store, "layout", **more))
        expected = ["payments"] if "topics" in more else ["orders", "payments"]
        assert frame(test, "name", "directories")["name"].tolist() == expected


def test_commits_lists_every_entry_and_opens_one(visit: Open, made: World) -> None:
    entries = made.entries()
    opened = next(entry for entry in entries[::-1] if entry.files)
    test = clean(visit(made.store, "commits", entry=str(opened.version)))
    assert frame(test, "version", "reasons")["version"].tolist() == [entry.version for entry in entries[::-1]]
    assert frame(test, "key", "first")["key"].tolist() == [file.key for file in opened.files]
    test.button_group(key="kinds").select("epoch").run()
    assert frame(clean(test), "version", "reasons")["version"].tolist() == [0]


def test_a_configuration_in_the_bucket_is_shown_with_its_secrets_masked(
    visit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASHBOARD_TEST_SECRET", "hunter2-hunter2")
    other = worked(hours=1)
    config = {**BASE, **HOURLY, "aws.access.key.id": "AKIA", "aws.secret.access.key": "${env:DASHBOARD_TEST_SECRET}"}
    assert store_config(
        other.store, StatePaths("_kafka_s3", "orders"), stored_config(validate(config).usable(), now_ms=other.now)
    )
    test = clean(visit(other.store, "configuration"))
    shown = frame(test, "key", "value").set_index("key")["value"]
    assert (shown["flush.size"], shown["aws.secret.access.key"]) == ("5", "****")
    assert "hunter2" not in str(test)
    assert set(shown.index) <= set(config)  # only what is set
    test.text_input(key="search").set_value("poll.inter").run()
    assert "No such setting" in texts(clean(test))
    test.toggle(key="defaults").set_value(True).run()
    assert frame(clean(test), "key", "value")["key"].tolist() == ["poll.interval.ms"]


def test_the_bucket_alone_says_what_is_in_effect_and_what_changed(visit: Open) -> None:
    made, paths = worked(hours=1), StatePaths("_kafka_s3", "orders")
    for epoch, more in ((1, {}), (2, {"flush.size": "7", "timezone": "Asia/Kolkata"})):
        note_settings(
            made.store, paths, noted_settings(validate({**BASE, **HOURLY, **more}).usable(), epoch=epoch, at_ms=epoch)
        )
    test = clean(visit(made.store, "configuration"))
    assert frame(test, "key", "value").set_index("key")["value"]["flush.size"] == "7"
    changed = frame(test, "before", "after").set_index("key")
    assert changed.loc["flush.size", ["epoch", "before", "after"]].tolist() == [2, "5", "7"]
    assert "In effect since" in texts(test)
    clean(turned(test, "layout").run())
    assert "clock of Asia/Kolkata" in texts(test).replace("\\", "")


def test_started_with_a_configuration_its_settings_are_shown_and_commands_name_it_without_secrets(
    visit: Open, made: World, s3: EmbeddedS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my sink.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in {**BASE, **HOURLY}.items()))
    visit(made.store)
    overrides = [
        f"s3.bucket.name={os.environ['KAFKA_S3_BUCKET']}", f"store.url={s3.endpoint_url}", "aws.access.key.id=kafka-s3-local",
        "aws.secret.access.key=kafka-s3-local-secret", "flush.size=6",
    ]  # fmt: skip
    monkeypatch.setenv("KAFKA_S3_DASHBOARD_CONFIG", str(file))
    monkeypatch.setenv("KAFKA_S3_DASHBOARD_SET", json.dumps(overrides))
    test = clean(visit(page="configuration"))
    assert frame(test, "key", "value").set_index("key")["value"]["flush.size"] == "6"
    clean(turned(test, "dead-letters").run())
    test.toggle(key="letters").set_value(True).run()
    replay = next(block.value for block in clean(test).code if "replay" in block.value).splitlines()[1]
    assert replay.startswith(f"kafka-s3 dead-letters replay '{file}' --set s3.bucket.name=bucket-")
    assert "--set aws.secret.access.key=... --set flush.size=6 --until 2024-01-15T17:00:00.001Z" in replay


def test_without_a_configuration_the_page_says_how_to_see_it(visit: Open, made: World) -> None:
    test = clean(visit(made.store, "configuration"))
    assert "kafka-s3 dashboard CONFIG" in texts(test)


def test_filters_narrow_every_number(visit: Open, made: World) -> None:
    test = clean(visit(made.store, topics="payments"))
    files = [
        file for entry in made.entries() for file in entry.files if file.role == "value" and file.topic == "payments"
    ]
    assert figure(test, "Records written") == f"{sum(file.records for file in files):,}"
    assert frame(test, "topic", "complete")["topic"].tolist() == ["payments"]
    test.multiselect(key="topics").set_value([]).run()
    assert figure(clean(test), "Records written") == f"{made.log().load().totals.written:,}"


@pytest.mark.parametrize("page", ["overview", "rotation"])
def test_another_topic_puts_its_numbers_into_the_charts_that_are_there(visit: Open, made: World, page: str) -> None:
    """Streamlit makes a chart anew where its document or its description is another: that takes several times as long."""

    def charts(test: AppTest) -> list[tuple[str, str, str]]:
        return [(one.proto.id, one.proto.spec, one.proto.alt) for one in clean(test).get("vega_lite_chart")]

    test = settled(visit(made.store, page, topics="orders"), lambda now: len(charts(now)) > 2)
    before = charts(test)
    test.multiselect(key="topics").set_value([]).run()
    assert charts(test) == before


def test_times_are_shown_in_the_chosen_zone(visit: Open, made: World) -> None:
    test = clean(visit(made.store, "commits", zone="Asia/Kolkata"))
    assert str(frame(test, "version", "reasons")["at"].dtype.tz) == "Asia/Kolkata"


def test_versions_of_delta_tables_stand_beside_their_entries(
    visit: Open, tabled: Tabled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_S3_BUCKET", tabled.bucket)
    monkeypatch.setenv("KAFKA_S3_DASHBOARD_SINK", "orders")
    test = clean(visit(page="commits"))
    shown = frame(test, "version", "delta").set_index("version")["delta"]
    assert {entry: text for entry, text in shown.items() if text} == {
        version: f"orders v{number}" for number, version in enumerate(tabled.entries)
    }
    clean(turned(test, "tables").run())
    assert figure(test, "Rows in the table") == figure(test, "Rows in the log") == "6"
    assert frame(test, "verdict", "position")["verdict"].tolist() == ["complete"]
    assert frame(test, "files", "rows")["rows"].tolist() == ["6", "6", "6"]
    assert frame(test, "operation", "entries")["entries"].tolist() == [str(entry) for entry in tabled.entries[::-1]]
    clean(turned(test, "layout").run())
    settled(test, lambda now: any("TableType" in block.value for block in now.code))
    glue = json.loads(next(block.value for block in test.code if "TableType" in block.value))
    columns = {one["Name"]: one["Type"] for one in glue["StorageDescriptor"]["Columns"]}
    assert columns == {"n": "bigint", "partition": "string"}
    assert glue["Parameters"]["table_type"] == "DELTA"


# ------------------------------------------------------------ states


@pytest.mark.parametrize("page", ["overview", "rotation", "dead-letters", "layout", "commits"])
def test_a_time_without_commits_names_the_last_one(visit: Open, made: World, page: str) -> None:
    test = clean(visit(made.store, page, range="1 hour"))
    assert "Nothing was committed in this time. The last commit was at 2024-01-15 17:00:00" in texts(test).replace(
        "\\", ""
    )


def test_an_empty_bucket_says_how_to_begin(visit: Open) -> None:
    test = settled(clean(visit(MemoryStore())), lambda now: "No sink keeps its state" in texts(now))
    assert "kafka-s3 run sink.json" in texts(clean(test))


def test_a_bucket_that_is_not_there_is_named_with_the_way_out(visit: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_S3_BUCKET", "no-such-bucket")
    test = settled(visit(), lambda now: "NoSuchBucket" in texts(now))
    assert "Create the bucket" in texts(clean(test))


@pytest.mark.parametrize(
    ("which", "right"),
    [
        pytest.param(ANYTHING, "s3:GetObject", id="everything"),
        pytest.param(Which("GET", having=("list-type",)), "s3:ListBucket", id="listing"),
        pytest.param(Which("GET", lacking=("list-type",)), "s3:GetObject", id="objects"),
    ],
)
def test_without_permission_the_missing_right_is_named(
    visit: Open, made: World, s3: EmbeddedS3, monkeypatch: pytest.MonkeyPatch, which: Which, right: str
) -> None:
    with Proxy(s3.endpoint_url) as proxy:
        proxy.add(Rule(which, Refuse(403, "AccessDenied", "Access Denied"), times=None))
        monkeypatch.setenv("KAFKA_S3_STORE_URL", proxy.url)
        test = settled(visit(made.store, sink="orders"), lambda now: "AccessDenied" in texts(now))
        assert "The bucket cannot be read" in texts(clean(test))
        assert any(right in block.value for block in test.code)


def test_a_bucket_that_falls_silent_is_the_dashboards_own_blindness_and_no_page_waits_for_it(
    visit: Open, made: World, s3: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(s3.endpoint_url) as proxy:
        monkeypatch.setenv("KAFKA_S3_STORE_URL", proxy.url)
        test = settled(visit(made.store), lambda now: "RUNNING" in texts(now) and "seen" in texts(now))
        proxy.add(Rule(ANYTHING, LateAnswer(12), times=None))
        settled(test, lambda now: "does not see the bucket" in texts(now))
        assert "RUNNING" in texts(clean(test))  # as it was seen last
        for page in ("rotation", "layout", "tables", "commits", "configuration"):
            clean(turned(test, page).run())
            assert "does not see the bucket" in texts(test)


def test_a_bucket_that_is_silent_from_the_start_is_reported_before_any_request_gives_up(
    visit: Open, s3: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(s3.endpoint_url) as proxy:
        proxy.add(Rule(ANYTHING, LateAnswer(3), times=None))
        monkeypatch.setenv("KAFKA_S3_STORE_URL", proxy.url)
        test = settled(visit(MemoryStore()), lambda now: "does not see the bucket" in texts(now))
        assert "Looking for sinks" in texts(clean(test))


def test_a_sink_that_only_was_created_has_all_its_pages(visit: Open) -> None:
    store, config = MemoryStore(), {**BASE, **HOURLY}
    store_config(store, StatePaths("_kafka_s3", "orders"), stored_config(validate(config).usable(), now_ms=0))
    test = clean(settled(visit(store), lambda now: "has committed nothing yet" in texts(now)))
    clean(turned(test, "configuration").run())
    assert frame(test, "key", "value").set_index("key")["value"]["flush.size"] == "5"


def test_what_nobody_knows_is_not_zero_and_the_worst_sink_is_open_first(visit: Open) -> None:
    store = MemoryStore()
    for name, phase in (("a-well", Phase.RUNNING), ("b-failed", Phase.FAILED)):
        one = worked(hours=2, name=name)
        one.now = time.time_ns() // 1_000_000
        beat(one, phase=phase, looked_ms=one.now, failure="RecordError: not JSON" if phase is Phase.FAILED else "")
        for key, data in one.store.objects.items():
            store.put(key, data)
    test = clean(visit(store))
    settled(test, lambda now: now.selectbox(key="sink").options == ["b-failed", "a-well"] or "b-failed" in texts(now))
    test = clean(visit(store))  # another visitor
    assert test.selectbox(key="sink").value == "b-failed"
    assert figure(test, "Lag") == "unknown"
    assert frame(test, "topic", "complete")["lag"].isna().all()
    assert not any("no failure" in one.value for one in test.info)
    assert any("not JSON" in one.value for one in test.error)


HOSTILE = "![x](http://evil.example/) <script>alert(1)</script> [/x] \x1b[31m\x1b]0;owned\x07\u202e"


@pytest.mark.parametrize(
    "page", ["overview", "rotation", "dead-letters", "layout", "commits", "configuration", "tables"]
)
def test_what_others_write_into_the_state_is_text_on_every_page(visit: Open, hostile: World, page: str) -> None:
    test = clean(visit(hostile.store, page))
    spoken = [
        str(one.value)
        for part in (test.main, test.sidebar)
        for kind in ("title", "subheader", "markdown", "caption", "info", "warning", "error", "success")
        for one in getattr(part, kind)
    ]
    cells = [str(cell) for table in test.dataframe for cell in table.value.astype(str).to_numpy().ravel()]
    assert not any("![x](" in text or re.search(r"(?<!\\)<script", text) for text in spoken), spoken
    assert not any(char in text for text in (*spoken, *cells, texts(test)) for char in "\x1b\x07\u202e")


def test_what_a_heartbeat_says_is_on_the_overview_as_text(visit: Open, hostile: World) -> None:
    test = settled(clean(visit(hostile.store)), lambda now: "alert" in texts(now))
    assert "\\x1b" in texts(test)


def test_a_permission_that_is_taken_away_leaves_what_was_read_and_says_that_it_is_old(
    visit: Open, made: World, s3: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(s3.endpoint_url) as proxy:
        monkeypatch.setenv("KAFKA_S3_STORE_URL", proxy.url)
        test = settled(visit(made.store), lambda now: "RUNNING" in texts(now))
        proxy.add(Rule(ANYTHING, Refuse(403, "AccessDenied", "Access Denied"), times=None))
        settled(test, lambda now: "does not see the bucket" in texts(now))
        assert figure(clean(test), "Records written") == f"{made.log().load().totals.written:,}"


def test_where_a_login_is_asked_for_nothing_is_shown_before_it(
    visit: Open, made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_S3_DASHBOARD_LOGIN", "oidc")
    test = clean(visit(made.store))
    assert "no section [auth]" in texts(test)
    test.user = {"is_logged_in": False}
    test.run()
    assert [one.label for one in test.button] == ["Log in"]
    assert not test.sidebar.selectbox
    assert "orders" not in texts(test)
    test.user = {"is_logged_in": True, "email": "me@example.com"}
    assert figure(clean(test.run()), "Records written")
    monkeypatch.setenv("KAFKA_S3_DASHBOARD_LOGIN", "basic")
    assert "is not known" in texts(clean(visit(made.store)))


def test_no_bucket_at_all_says_which_variable_is_missing(visit: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_S3_BUCKET", raising=False)
    assert "KAFKA_S3_BUCKET" in texts(clean(visit()))


def test_a_sink_that_is_not_there_differs_from_one_that_has_committed_nothing(visit: Open) -> None:
    made = world()
    beat(made)
    clean(settled(visit(made.store), lambda now: "has committed nothing yet" in texts(now)))
    clean(settled(visit(made.store, sink="other"), lambda now: "There is no sink" in texts(now)))


@pytest.mark.parametrize(
    "page", ["overview", "rotation", "dead-letters", "layout", "tables", "commits", "configuration"]
)
def test_a_damaged_entry_is_named_and_the_rest_is_shown(visit: Open, damaged: World, page: str) -> None:
    test = clean(visit(damaged.store, page))
    settled(test, lambda now: "cannot be read" in texts(now))
    assert "commits/00000000000000000005.json" in texts(clean(test)).replace("\\", "")


def test_a_damaged_entry_is_reported_in_the_table_of_sinks_too_and_what_it_hides_is_unknown(visit: Open) -> None:
    made = worked(hours=2)
    made.now = time.time_ns() // 1_000_000
    beat(made)
    made.store.put(StatePaths("_kafka_s3", "orders").commit(1), b"{broken")
    test = clean(visit(made.store))
    assert figure(test, "Last commit") == "unknown"
    test = settled(clean(visit(made.store, "")), lambda now: bool(sinks_of(now)))
    assert [(one["sink"], one["state"]) for one in sinks_of(test)] == [("orders", "DEGRADED")]


def test_a_bucket_that_is_being_written_grows_on_the_page(visit: Open, s3: EmbeddedS3, client: Any) -> None:
    made = worked(hours=2)
    test = clean(visit(made.store))
    before = figure(test, "Records written")
    made.add(range(100, 120))
    made.now += 10 * 3_600_000
    made.sink.poll_and_commit()
    copied(made.store, client, os.environ["KAFKA_S3_BUCKET"], below="_kafka_s3/")
    settled(test, lambda now: figure(now, "Records written") != before)
    assert figure(clean(test), "Records written") == f"{made.log().load().totals.written:,}"


# ------------------------------------------------------------ no false all-clear, no invented time


def test_commands_cover_what_is_shown_and_no_letter_more(visit: Open, made: World, s3: EmbeddedS3) -> None:
    """Six hours and two topics were chosen, and the printed command acted on every letter of the log."""
    test = clean(visit(
        made.store, "dead-letters", letters="true", topics=["orders", "payments"], range="from - to", to="2024-01-15T14:30",
        **{"from": "2024-01-15T11:00"},
    ))  # fmt: skip
    settled(test, lambda now: any("replay" in block.value for block in now.code))
    resolve = next(block.value for block in clean(test).code if "replay" in block.value).splitlines()[-1]
    words = shlex.split(resolve)
    assert words[:5] == ["kafka-s3", "dead-letters", "resolve", *by_name(s3).split()[:2]]
    options = words[words.index("--topic") :]
    assert options[:8] == [
        "--topic", "orders", "--topic", "payments", "--since", "2024-01-15T11:00:00.000Z", "--until", "2024-01-15T14:30:00.000Z",
    ]  # fmt: skip
    shown = len(frame(test, "offset", "message"))
    selection = LetterSelection(
        topics=frozenset({"orders", "payments"}), since_ms=epoch_ms(options[5]), until_ms=epoch_ms(options[7]),
        states=frozenset({LetterState.OPEN}),
    )  # fmt: skip
    paths = StatePaths("_kafka_s3", "orders")
    assert (
        len(list(read_letters(read_ledger(made.store, paths), made.store, selection=selection, missing=print)))
        == shown
        == 3
    )
    for more, why in (({"text": "owned"}, "without these filters"), ({"state": "replayed"}, "No dead letter")):
        other = settled(visit(made.store, "dead-letters", letters="true", **more), lambda now: why in texts(now))  # noqa: B023
        assert not any("--until" in block.value for block in clean(other).code)


def test_messages_filter_the_letters(visit: Open, made: World) -> None:
    test = clean(visit(made.store, "dead-letters", letters="true"))
    patterns = frame(test, "pattern", "letters")
    chosen = patterns["example"].iloc[0]
    pattern = letter_tables.pattern_of(
        next(
            one.letter.message
            for one in read_letters(
                read_ledger(made.store, StatePaths("_kafka_s3", "orders")),
                made.store,
                selection=LetterSelection(),
                missing=print,
            )
            if letter_tables.name_of(one.letter) == chosen
        )
    )
    test = clean(visit(made.store, "dead-letters", letters="true", pattern=pattern))
    assert len(frame(test, "offset", "message")) == patterns["letters"].iloc[0]
    assert (
        frame(test, "pattern", "letters")["letters"].tolist() == patterns["letters"].tolist()
    )  # the others can still be chosen
    test.button(key="all-messages").click().run()
    assert len(frame(clean(test), "offset", "message")) == 3


def test_a_damaged_log_is_not_green_and_says_which_offsets_the_entry_held(visit: Open) -> None:
    made = worked(hours=6)
    made.now = time.time_ns() // 1_000_000
    beat(made)
    version = next(one.version for one in made.entries() if one.files)
    made.store.put(StatePaths("_kafka_s3", "orders").commit(version), b"{broken")
    test = settled(visit(made.store), lambda now: "cannot be read" in texts(now) and "DEGRADED" in texts(now))
    assert not test.success
    assert not any("Nothing in this time" in one.value for one in test.info)
    first = min(file.first_offset for file in worked(hours=6).entries()[version].files if file.topic == "orders")
    assert f"orders-0 {first} to" in texts(test).replace("\\", "")


@pytest.mark.parametrize(
    ("config", "name"),
    [({"partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner", "partition.field.name": "tenant"}, "t01971"),
     ({}, None)],
)  # fmt: skip
def test_directories_are_times_only_where_the_partitioner_is_one(
    visit: Open, config: dict[str, str], name: str | None
) -> None:
    """`tenant=t01971` was "behind by 1102303 d"."""
    settings = {**BASE, **HOURLY, **config}
    made = World(settings, topics=(ORDERS,))
    sink = made.start()
    for offset in range(12):
        value = json.dumps({"tenant": f"t0{1971 + offset * 7 % 13}", "n": offset}).encode()
        made.kafka.add(ORDERS, MemoryRecord(offset, made.now + offset * 3_600_000, None, value))
    sink.poll_and_commit()
    made.now += 30 * 3_600_000
    sink.poll_and_commit()
    note_settings(
        made.store, StatePaths("_kafka_s3", "orders"), noted_settings(validate(settings).usable(), epoch=1, at_ms=1)
    )
    test = clean(visit(made.store, "layout"))
    said = texts(settled(test, lambda now: "Kafka partitions" in texts(now)))
    if name is None:
        assert "No directory of time is missing" in said
        return
    assert "Directories are not times" in said
    assert "Late files" not in said
    boxes = next(one.proto.spec for one in test.get("vega_lite_chart") if "middle_x" in one.proto.spec)
    assert boxes
    at = clean(visit(made.store, "layout", at=f"orders/tenant={name}"))
    listed = frame(at, "reason", "first_offset")
    assert set(listed["encoded"]) == {f"tenant={name}"}
    assert "closed" in texts(at)


def test_a_table_that_refuses_says_so_why_and_since_when_and_ends_with_no_tick(visit: Open, tabled: Tabled) -> None:
    """390 of 700 rows were missing, and the page ended with "every object is in the table"."""
    os.environ["KAFKA_S3_BUCKET"], before = tabled.bucket, os.environ.get("KAFKA_S3_BUCKET", "")
    paths = StatePaths("_kafka_s3", "orders")
    key = paths.follower("delta")
    noted = read_positions(tabled.store, key)
    held = replace(noted, version=tabled.entries[-1], behind={}, held={})
    held.hold("orders", after=tabled.entries[0], why="column n is long, in the table string", now_ms=START_MS)
    try:
        note_positions(tabled.store, key, held)
        test = settled(visit(page="tables", sink="orders"), lambda now: "refuses" in texts(now))
        said = texts(clean(test))
        assert "4 records in 2 objects of 2 entries of the log are not in it" in said
        assert "column n is long" in said
        shown = frame(test, "verdict", "why")
        assert shown["verdict"].tolist() == ["refuses"]
        assert data_ms(shown["since"].iloc[0]) == START_MS
        assert not test.success
        assert not any("every object" in one.value for one in test.info)
    finally:
        note_positions(tabled.store, key, noted)
        os.environ["KAFKA_S3_BUCKET"] = before


def test_state_tables_show_how_far_they_have_come_and_what_holds_them(visit: Open) -> None:
    found = worked(hours=1)
    notes = StateNotes(found.store, StatePaths("_kafka_s3", "orders"), "main.state.${topic}")
    note = StateNote(
        "id", "main.state.orders", "", "g", 3, "", START_MS, changed=12, before_ms=START_MS - 120_000, rows=4_000
    )
    notes.put("orders", replace(note, why="column n is <b>long</b>", since_ms=START_MS))
    test = clean(visit(found.store, "tables", sink="orders"))
    [row] = frame(test, "keys", "pace").to_dict("records")
    assert (row["table"], row["position"], row["keys"], row["pace"]) == ("main.state.orders", 3, 4_000, 6.0)
    assert data_ms(row["merged"]) == START_MS
    [held] = [one.value for one in test.error if "The state of orders does not follow" in one.value]
    assert "<b>" not in held


def test_an_iceberg_table_shows_snapshots_schemas_and_files_a_partition(
    visit: Open, s3: EmbeddedS3, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = f"bucket-{next(numbers)}"
    world = IcebergWorld(tmp_path, **{"s3.bucket.name": bucket})
    world.add(*({"n": n} for n in range(4)))
    world.run()
    world.add({"n": 4, "note": "late"}, {"n": 5})
    world.run()
    s3.create_bucket(bucket)
    assert isinstance(world.store, MemoryStore)
    copied(world.store, client, bucket)
    monkeypatch.setenv("KAFKA_S3_BUCKET", bucket)
    test = settled(visit(page="tables", sink="orders"), lambda now: "Iceberg table of orders" in texts(now))
    clean(test)
    assert {one.label: one.value for one in test.metric} == {
        "Snapshots": "2", "Rows in the table": "6", "Files in the table": "3", "Rows in the log": "6", "Schemas": "2",
        "Partitioned by": "partition", "Last snapshot": test.metric[-1].value,
    }  # fmt: skip
    assert frame(test, "operation", "rows")["rows"].tolist() == [2, 4]
    assert frame(test, "change")["change"].tolist() == ["new note: string", "the first that was read"]
    assert frame(test, "directory", "files")[["directory", "files"]].to_numpy().tolist() == [["partition=0", 3]]
    assert "The table is complete through entry 4 of the log." in texts(test)


def test_a_look_that_is_old_is_waited_for_when_a_page_is_opened(visit: Open, client: Any) -> None:
    """A sink failed while nobody looked, and the page showed the last visitor's look under "seen 0 s ago"."""
    made = worked(hours=1)
    made.now = time.time_ns() // 1_000_000
    beat(made)
    test = settled(visit(made.store), lambda now: "RUNNING" in texts(now))
    made.now = time.time_ns() // 1_000_000
    beat(made, phase=Phase.FAILED, failure="RecordError: not JSON")
    copied(made.store, client, os.environ["KAFKA_S3_BUCKET"], below="_kafka_s3/orders/heartbeat")
    time.sleep(history.FRESH_MS / 1000 + 1)
    test = clean(visit(made.store))  # the next visitor, one look
    assert "FAILED" in texts(test)
    assert "RUNNING" not in texts(test)
