"""A dead letter holds the record exactly as consumed, in its file and in the topic (SEMANTICS A9.3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_world import ORDERS, START_MS, TOLERANT, World

from kafka_s3.dead_letters import DeadLetter, context_headers, read_lines, write_lines
from kafka_s3.embedded.memory import MemoryRecord
from kafka_s3.errors import RecordError
from kafka_s3.model import Reason, Role

BYTES = st.none() | st.binary(max_size=20)
LETTERS = st.builds(
    DeadLetter, topic=st.text(max_size=5), partition=st.integers(0, 9), offset=st.integers(0, 2**63), timestamp=st.none() | st.integers(0),
    key=BYTES, value=BYTES, headers=st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple), stage=st.text(max_size=5),
    component=st.text(max_size=5), exception=st.text(max_size=5), message=st.text(),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(LETTERS, max_size=4))
def test_a_dead_letter_file_gives_back_what_was_written(letters: list[DeadLetter]) -> None:
    assert read_lines(write_lines(letters)) == letters


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
    world.sink.cycle()

    assert world.numbers() == {"topics/orders/partition=0/orders+0+0000000000.json": [0, 2]}
    (file,) = [file for entry in world.entries() for file in entry.files if file.role is Role.DEAD_LETTER]
    (letter,) = read_lines(world.store.get(file.key))
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
    world.sink.cycle()
    assert world.numbers() == {}
    for offset in (3, 4):
        world.add([offset])
        world.sink.cycle()
    world.start()
    world.sink.look()
    world.sink.drain(close=Reason.FLUSH_NOW)

    assert list(world.numbers().values()) == [[0, 2, 3, 4]]
    assert [message.origin for message in world.kafka.produced["dlq"]] == [("orders", 0, 1)]
    assert world.log().load().totals.dead_letters == 1


def test_without_tolerance_the_sink_stops_at_the_record_and_commits_nothing_of_the_batch() -> None:
    world = World({"flush.size": "1"})
    world.start()
    sent(world)

    with pytest.raises(RecordError, match=r"orders-0 offset 1, stage VALUE_CONVERTER.*errors\.tolerance=all") as caught:
        world.sink.cycle()
    assert "oops" not in str(caught.value)
    assert (world.objects(), world.store.uploads) == ({}, {})


def test_a_record_at_which_the_sink_stops_goes_to_the_topic_first() -> None:
    world = World({"flush.size": "1", "errors.deadletterqueue.topic.name": "dlq"})
    world.start()
    sent(world)

    with pytest.raises(RecordError):
        world.sink.cycle()
    assert [message.value for message in world.kafka.produced["dlq"]] == [BAD.value]
