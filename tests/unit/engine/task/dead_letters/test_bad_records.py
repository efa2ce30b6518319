"""A dead letter holds the record exactly as consumed, in its file and in the topic (SEMANTICS A9.3)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.config.read import pairs
from kafka_s3.kafka.reader.settings import ReadScope
from kafka_s3.model.dead_letters import DeadLetter, LetterLines, context_headers, read_letters
from kafka_s3.model.errors import RecordError
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.pipeline import read_scope
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.examples import examples
from tests.support.letters import LETTERS
from tests.support.memory_world import ORDERS, START_MS, World, settings_of

Facts: TypeAlias = dict[str, Any]
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
OTHER = TopicPartition("orders", 1)
BYTES = st.none() | st.binary(max_size=20)


@settings(max_examples=examples(60))
@given(st.lists(LETTERS, max_size=4))
def test_a_dead_letter_file_gives_back_what_was_written(letters: list[DeadLetter]) -> None:
    lines = LetterLines()
    assert read_letters(b"".join([*map(lines.line, letters), lines.end()])) == letters


def test_the_context_headers_are_those_of_connect() -> None:
    letter = DeadLetter(
        "orders", 3, 42, None, None, None, (), "VALUE_CONVERTER", "some.Converter", "some.Exception", "it is bad"
    )

    assert dict(context_headers(letter, connector="sink")) == {
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"42",
        "__connect.errors.connector.name": b"sink",
        "__connect.errors.task.id": b"0",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"some.Converter",
        "__connect.errors.exception.class.name": b"some.Exception",
        "__connect.errors.exception.message": b"it is bad",
        "__connect.errors.exception.stacktrace": b"some.Exception: it is bad",
    }


BAD = MemoryRecord(1, START_MS + 5, b"\x00key", b"{oops", (("trace", b"\xff"), ("trace", None)))


def sent(world: World) -> None:
    world.add([0])
    world.kafka.add(ORDERS, BAD)
    world.add([2])


def test_a_bad_record_is_a_line_of_a_file_and_a_record_of_the_topic_as_it_was() -> None:
    world = World({"flush.size": "2", **TOLERANT, "errors.deadletterqueue.context.headers.enable": "true"})
    world.start()
    sent(world)
    world.sink.poll_and_commit()

    assert world.numbers() == {"topics/orders/partition=0/orders+0+0000000000.json": [0, 2]}
    (file,) = [file for entry in world.entries() for file in entry.files if file.role is Role.DEAD_LETTER]
    (letter,) = read_letters(world.store.get(file.key))
    assert (letter.offset, letter.key, letter.value, letter.headers, letter.timestamp) == (
        1,
        BAD.key,
        BAD.value,
        BAD.headers,
        BAD.timestamp,
    )
    (message,) = world.kafka.produced["dlq"]
    assert (message.key, message.value, message.timestamp) == (BAD.key, BAD.value, BAD.timestamp)
    assert message.headers[:2] == BAD.headers
    assert dict(message.headers[2:])["__connect.errors.offset"] == b"1"


def test_a_bad_record_of_the_open_tail_is_reported_once_however_often_the_tail_is_read() -> None:
    world = World({"flush.size": "100", **TOLERANT, "tail.check.interval.ms": "0"})
    world.start()
    sent(world)
    world.sink.poll_and_commit()
    assert world.numbers() == {}
    for offset in (3, 4):
        world.add([offset])
        world.sink.poll_and_commit()
    world.start()
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)

    assert list(world.numbers().values()) == [[0, 2, 3, 4]]
    assert [message.origin for message in world.kafka.produced["dlq"]] == [("orders", 0, 1)]
    assert world.log().load().totals.dead_letters == 1


def test_without_tolerance_the_sink_stops_at_the_record_and_shows_nothing_of_its_content() -> None:
    world = World({"flush.size": "1"})
    world.start()
    sent(world)

    with pytest.raises(RecordError, match=r"orders-0 offset 1, stage VALUE_CONVERTER.*errors\.tolerance=all") as caught:
        world.sink.poll_and_commit()
    assert "oops" not in str(caught.value)
    assert (list(world.numbers().values()), world.store.uploads) == ([[0]], {})


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Facts]]:
    """The facts of the log lines of failed records, whatever other tests have done to the product's logger."""
    logger = logging.getLogger("kafka_s3.followers.dead_letter_reporters")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [caplog.handler])
    return lambda: [record.facts for record in caplog.records if record.msg == "record failed"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("include", ["false", "true"])
def test_error_logging_says_where_and_why_a_record_failed_and_never_what_is_in_it(
    logged: Callable[[], list[Facts]], include: str
) -> None:
    log = {"errors.log.enable": "true", "errors.log.include.messages": include}
    world = World({"flush.size": "2", "errors.tolerance": "all", **log})
    world.start()
    sent(world)
    world.sink.poll_and_commit()
    world.sink.poll_and_commit()

    (facts,) = logged()
    assert (facts["sink"], facts["stage"], facts["class"]) == ("orders", "VALUE_CONVERTER", JSON_CONVERTER)
    coordinates = {"topic": "orders", "partition": 0, "offset": 1, "timestamp": BAD.timestamp}
    assert {name: facts.get(name) for name in coordinates} == (
        coordinates if include == "true" else dict.fromkeys(coordinates)
    )
    assert "oops" not in str(facts)
    world.start()
    world.sink.poll_and_commit()
    assert len(logged()) == 1  # a restart does not repeat them


def test_the_record_at_which_the_sink_stops_is_logged_too(logged: Callable[[], list[Facts]]) -> None:
    world = World({"flush.size": "1", "errors.log.enable": "true", "errors.log.include.messages": "true"})
    world.start()
    sent(world)
    with pytest.raises(RecordError):
        world.sink.poll_and_commit()
    assert [facts["offset"] for facts in logged()] == [1]


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ({}, False),
        ({"errors.tolerance": "all"}, True),
        ({"errors.log.enable": "true"}, True),
        ({"errors.deadletterqueue.topic.name": "dlq"}, True),
    ],
)
def test_keys_and_headers_are_read_wherever_a_record_may_become_a_dead_letter(
    config: dict[str, str], kept: bool
) -> None:
    given = {"flush.size": "1", "behavior.on.null.values": "ignore", **config}
    assert (read_scope(settings_of(given)) is ReadScope.ENVELOPES) is kept


def test_the_stop_says_where_why_and_how_to_go_on() -> None:
    world = World({"flush.size": "9"})
    world.start()
    sent(world)
    world.sink.poll()
    with pytest.raises(RecordError) as caught:
        world.sink.drain()
    for words in (
        "Sink orders cannot pass over orders-0 offset 1, stage VALUE_CONVERTER: ",
        "The next offset of orders-0 is 0: all files that closed before that record are committed.",
        "kafka-s3 run CONFIG --set errors.tolerance=all",
        "kafka-s3 position set CONFIG orders 0 2, which gives up 1 other record that is in no object yet, too (offsets 0 to 0).",
    ):
        assert words in str(caught.value)


def test_one_stop_names_the_settings_for_all_bad_records_of_all_partitions() -> None:
    """With what the error says, and nothing else, the second run goes through."""
    records = {ORDERS: [b"{}", b"{oops", b"{}"], OTHER: [b"{}", None]}
    config = {"flush.size": "1"}

    def world(more: dict[str, str]) -> World:
        found = World({**config, **more}, topics=(ORDERS, OTHER))
        for place, values in records.items():
            for offset, value in enumerate(values):
                found.kafka.add(place, MemoryRecord(offset, START_MS, None, value))
        found.start()
        found.sink.poll()
        return found

    with pytest.raises(RecordError) as caught:
        world({}).sink.drain()
    *_, command = re.findall(r"kafka-s3 run CONFIG (.*?)\.(?: |$)", str(caught.value))
    second = world(pairs(command.removeprefix("--set ").split(" --set ")))
    second.sink.drain()
    assert second.log().load().totals.dead_letters == 1
    assert second.log().load().totals.skipped == 1


def test_a_record_at_which_the_sink_stops_goes_to_the_topic_first() -> None:
    world = World({"flush.size": "1", "errors.deadletterqueue.topic.name": "dlq"})
    world.start()
    sent(world)

    with pytest.raises(RecordError):
        world.sink.poll_and_commit()
    assert [message.value for message in world.kafka.produced["dlq"]] == [BAD.value]
