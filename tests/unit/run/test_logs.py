"""The engine logs what it does and why, in facts, and never a secret."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_s3.connect.config.settings import masking
from kafka_s3.model.errors import Fenced, RecordError, StorageUnavailable
from kafka_s3.run.logs import LogFormat, LogObserver, log_to_stderr, logged_as_json, mask_logs
from kafka_s3.store.s3_errors import Retrier
from kafka_s3_testing.faults import Fault, raising
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.memory_world import ORDERS, START_MS, World, settings_of

FIRST = "topics/orders/partition=0/orders+0+0000000000.json"


@pytest.fixture(autouse=True)
def product() -> Iterator[logging.Logger]:
    """The product's logger, put back as it was."""
    logger = logging.getLogger("kafka_s3")
    before = logger.handlers, logger.level, logger.propagate
    yield logger
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def reported(capsys: pytest.CaptureFixture[str], event: str) -> list[dict[str, Any]]:
    return [line for line in lines(capsys) if line["event"] == event]


def worked() -> World:
    world = World({"flush.size": "3"})
    world.start()
    world.add(range(4))
    world.sink.poll_and_commit()
    return world


@pytest.mark.parametrize(
    ("event", "logger", "facts"),
    [
        ("claimed", "engine.log.log", {"epoch": 1, "version": 0}),
        (
            "planned",
            "engine.loop.planner",
            {"partition": "orders-0", "start": 0, "until": 4, "reason": "flush.size may be reached"},
        ),
        ("task done", "engine.loop.sink", {"read": 4, "frontier": 3, "pending": 1}),
        ("file closed", "engine.loop.sink", {"key": FIRST, "reason": "flush.size", "first": 0, "last": 2}),
        ("committed", "engine.loop.committer", {"version": 2, "kind": "data", "files": 1, "read": 3}),
        ("published", "engine.loop.committer", {"version": 2, "objects": 1}),
        ("group offsets committed", "followers.group_offsets", {"group": "connect-orders", "partitions": 1}),
    ],
)
def test_each_step_is_reported_with_its_facts(
    event: str, logger: str, facts: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr(LogFormat.JSON, verbosity=2)
    worked()
    found = [line for line in reported(capsys, event) if facts.items() <= line.items()]

    assert found[0]["logger"] == f"kafka_s3.{logger}"


def test_a_fenced_driver_says_by_whom(capsys: pytest.CaptureFixture[str]) -> None:
    world = worked()
    first = world.sink
    world.start()
    world.add(range(4, 9))
    log_to_stderr(LogFormat.JSON, verbosity=1)
    with pytest.raises(Fenced):
        first.poll_and_commit()
    (line,) = reported(capsys, "fenced")

    assert (line["epoch"], line["by_epoch"], line["level"]) == (1, 2, "info")


def test_a_request_that_is_tried_again_is_reported_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(LogFormat.JSON, verbosity=1)
    answers = iter([StorageUnavailable("SlowDown"), StorageUnavailable("timed out"), None])

    def request() -> None:
        if (error := next(answers)) is not None:
            raise error

    Retrier(3, 200, sleep=lambda _: None, jitter=lambda: 1.0).run(request)

    found = [(line["attempt"], line["wait_s"], line["reason"]) for line in reported(capsys, "request is tried again")]
    assert found == [(1, 0.2, "SlowDown"), (2, 0.4, "timed out")]


@pytest.mark.parametrize(
    ("verbosity", "levels"), [(0, set()), (1, {"info"}), (2, {"info", "debug"}), (5, {"info", "debug"})]
)
def test_without_v_there_are_progress_and_warnings_only(
    verbosity: int, levels: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr(LogFormat.JSON, verbosity=verbosity)
    worked()
    LogObserver().warned("the bucket does not answer")
    found = lines(capsys)

    assert {line["level"] for line in found if line["logger"] != "kafka_s3.progress"} == levels
    assert [line["reason"] for line in found if line["event"] == "trying again"] == ["the bucket does not answer"]


@pytest.mark.parametrize("form", list(LogFormat))
def test_no_secret_is_in_a_line_whoever_put_it_there(form: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    secret = 'p"ss\\word'
    settings = settings_of({"flush.size": "3", "aws.access.key.id": "AKIA", "aws.secret.access.key": secret})
    log_to_stderr(form, verbosity=2)
    mask_logs(masking(settings))
    log = logging.getLogger("kafka_s3.some.module")
    log.info("sent %s", secret)
    deep = {secret: [secret, 7]}
    facts = {"reason": f"bad {secret}", "deep": deep, "error": ValueError(secret), "n": 1, "ok": True}
    log.debug("facts", extra={"facts": facts})
    text = capsys.readouterr().err

    assert "ss\\" not in text
    assert text.count("****") == 5
    if form is LogFormat.JSON:
        line = json.loads(text.splitlines()[1])
        assert (line["n"], line["ok"], line["deep"]) == (1, True, {"****": ["****", 7]})


def rounds(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return reported(capsys, "round")


def test_the_line_of_a_round_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    """With what was open before."""
    log_to_stderr(LogFormat.JSON)
    world = World({"flush.size": "3", "errors.tolerance": "all"})
    world.start(observer=LogObserver())
    before = 0
    for amount in (5, 3, 3):
        at = world.kafka.heads([ORDERS])[ORDERS]
        world.add(range(at, at + amount))
        world.kafka.add(ORDERS, MemoryRecord(at + amount, START_MS, None, b"{broken"))
        world.sink.poll_and_commit()
        (line,) = rounds(capsys)
        assert before + line["read"] == line["written"] + line["dead_letters"] + line["skipped"] + line["open"], line
        before = line["open"]
        assert before


def test_an_outage_has_a_line_when_it_is_over_and_a_run_when_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(LogFormat.JSON)
    world = World({"flush.size": "1"})
    observer = LogObserver()
    away = [StorageUnavailable("S3 is away.")]
    world.start([Fault("create_upload", lambda _: raising(away[0])("") if away else None, nth=None)], observer)
    world.add(range(1))
    assert not world.sink.poll_and_commit()
    away.clear()
    world.now += 5000
    assert world.sink.poll_and_commit()
    observer.stopped()
    found = lines(capsys)
    assert [line["event"] for line in found] == ["started", "trying again", "round", "recovered", "stopped"]
    assert found[3]["after_s"] == 5.0
    assert (found[4]["rounds"], found[4]["read"]) == (1, 1)


def test_within_a_long_round_a_line_now_and_then_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    log_to_stderr(LogFormat.JSON)
    observer = LogObserver(clock=lambda: now[0])
    for now[0] in (0.0, 1.0, 4.9, 5.0):
        observer.reading(int(now[0] * 10), 100)
    assert [(line["records"], line["of"]) for line in reported(capsys, "reading")] == [(0, 100), (50, 100)]


def test_what_ends_a_sink_is_a_json_line_with_the_record_that_did_it(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(LogFormat.JSON)
    world = World({"flush.size": "1"})
    world.start()
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, b"{broken"))
    with pytest.raises(RecordError) as stopped:
        world.sink.poll_and_commit()
    assert logged_as_json(stopped.value)
    (line,) = reported(capsys, "failed")
    about = {name: line[name] for name in ("error", "topic", "partition", "offset", "stage")}
    assert about == {"error": "RecordError", "topic": "orders", "partition": 0, "offset": 0, "stage": "VALUE_CONVERTER"}
    log_to_stderr(LogFormat.TEXT)
    assert not logged_as_json(stopped.value)


def test_bad_records_are_one_line_a_second_for_each_stage_and_under_strict_one_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_to_stderr(LogFormat.JSON)
    world = World({"flush.size": "1", "errors.tolerance": "all", "errors.log.enable": "true"})
    world.start()
    for offset in range(40):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b"{broken"))
    world.sink.poll_and_commit()
    assert [line["records"] for line in reported(capsys, "record failed")] == [40]
