"""The engine tells what it does and why, in facts, and never a secret."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_s3.config.masking import masking
from kafka_s3.model.errors import Fenced, StorageUnavailable
from kafka_s3.storage.retry import Retrier
from kafka_s3.tools.logs import LogFormat, LogObserver, log_to_stderr, mask_logs
from tests.support.memory_world import World, settings_of

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


def told(capsys: pytest.CaptureFixture[str], event: str) -> list[dict[str, Any]]:
    return [line for line in lines(capsys) if line["event"] == event]


def worked() -> World:
    world = World({"flush.size": "3"})
    world.start()
    world.add(range(4))
    world.sink.cycle()
    return world


@pytest.mark.parametrize(
    ("event", "logger", "facts"),
    [
        ("claimed", "commit.log", {"epoch": 1, "version": 0}),
        (
            "planned",
            "driver.planner",
            {"partition": "orders-0", "start": 0, "until": 4, "reason": "flush.size may be reached"},
        ),
        ("task done", "driver.entries", {"read": 4, "frontier": 3, "pending": 1}),
        ("file closed", "driver.entries", {"key": FIRST, "reason": "flush.size", "first": 0, "last": 2}),
        ("committed", "driver.committer", {"version": 2, "kind": "data", "files": 1, "read": 3}),
        ("published", "driver.committer", {"version": 2, "files": 1}),
        ("group offsets committed", "driver.group_offsets", {"group": "connect-orders", "partitions": 1}),
    ],
)
def test_each_step_is_told_with_its_facts(
    event: str, logger: str, facts: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr(LogFormat.JSON, verbosity=2)
    worked()
    found = [line for line in told(capsys, event) if facts.items() <= line.items()]

    assert found[0]["logger"] == f"kafka_s3.{logger}"


def test_a_fenced_driver_says_by_whom(capsys: pytest.CaptureFixture[str]) -> None:
    world = worked()
    first = world.sink
    world.start()
    world.add(range(4, 9))
    log_to_stderr(LogFormat.JSON, verbosity=1)
    with pytest.raises(Fenced):
        first.cycle()
    (line,) = told(capsys, "fenced")

    assert (line["epoch"], line["by_epoch"], line["level"]) == (1, 2, "info")


def test_a_request_that_is_tried_again_is_told_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(LogFormat.JSON, verbosity=1)
    answers = iter([StorageUnavailable("SlowDown"), StorageUnavailable("timed out"), None])

    def request() -> None:
        if (error := next(answers)) is not None:
            raise error

    Retrier(3, 200, sleep=lambda _: None, jitter=lambda: 1.0).run(request)

    found = [(line["attempt"], line["wait_s"], line["reason"]) for line in told(capsys, "request is tried again")]
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
