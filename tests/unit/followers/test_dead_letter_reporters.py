"""Followers come after the commit and catch up; none of them holds another, or the sink."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from kafka_s3.followers.dead_letter_reporters import DeadLetterTopic
from kafka_s3.followers.group_offsets import GroupOffsets
from kafka_s3.model.dead_letters import DeadLetter, context_headers
from kafka_s3.model.errors import Fenced, KafkaUnavailable, SinkError, StorageError, StorageUnavailable
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3_testing.faults import Fault, failure, raising
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from tests.support.configurations import TIME, TOLERANT
from tests.support.memory_world import ORDERS, World
from tests.support.observers import Warnings

GROUP = "connect-orders"
TAGS = {"s3.object.tagging": "true"}
MANY = tuple(TopicPartition("orders", number) for number in range(12))
FIRST = "topics/orders/partition=0/orders+0+0000000000.json"


def watched(world: World) -> Warnings:
    """What the sink warns of, which starts."""
    seen = Warnings()
    world.start(observer=seen)
    return seen


def bad(world: World, offset: int) -> None:
    world.kafka.add(ORDERS, MemoryRecord(offset, world.now, None, b"{"))


def letter_keys(world: World) -> list[str]:
    return [file.key for entry in world.entries() for file in entry.files if file.role is Role.DEAD_LETTER]


# ------------------------------------------------------------ group offsets


def test_only_offsets_that_changed_are_committed_and_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({"flush.size": "1", "tasks.max": "1"}, topics=MANY)
    world.start()
    commits: list[Mapping[TopicPartition, int]] = []
    commit_group = MemoryKafka.commit_group

    def noting(self: MemoryKafka, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        commits.append(dict(offsets))
        commit_group(self, group, offsets)

    monkeypatch.setattr(MemoryKafka, "commit_group", noting)
    for tp in MANY:
        world.add(range(2), tp=tp)
    world.sink.poll_and_commit()
    assert commits == [dict.fromkeys(MANY, 2)]  # twelve turns, twelve entries
    world.add([2], tp=MANY[3])
    world.sink.poll_and_commit()
    world.sink.poll_and_commit()
    assert commits[1:] == [{MANY[3]: 3}]


def test_a_driver_that_was_replaced_lowers_no_offset() -> None:
    world = World({"flush.size": "1"})
    zombie = world.start()
    world.add(range(2))
    zombie.poll_and_commit()
    log = zombie.log
    world.start()
    world.add(range(2, 5))
    world.sink.poll_and_commit()

    with pytest.raises(Fenced):
        GroupOffsets(world.kafka, GROUP, strict=False).catch_up(log)
    assert world.kafka.groups[GROUP] == {ORDERS: 5}


def test_offsets_that_something_else_has_moved_are_put_right_by_the_next_round() -> None:
    second = TopicPartition("orders", 1)
    world = World({"flush.size": "1"}, topics=(ORDERS, second))
    world.start()
    world.add(range(3))
    world.sink.poll_and_commit()
    world.kafka.groups[GROUP][ORDERS] = 1
    world.add([0], tp=second)
    world.sink.poll_and_commit()

    assert world.kafka.groups[GROUP] == {ORDERS: 3, second: 1}


def test_a_group_that_was_reset_by_hand_is_a_warning_with_both_offsets_and_the_command_that_moves_the_sink() -> None:
    world = World({"flush.size": "1"}, topics=MANY)
    world.start()
    for tp in MANY:
        world.add(range(3), tp=tp)
    world.sink.poll_and_commit()
    for tp in MANY[:5]:
        world.kafka.groups[GROUP][tp] = 1

    warned = watched(world).texts[0]
    assert f"{GROUP} was set by another program: orders-0 at 1, the sink at 3; orders-1 at 1" in warned
    assert "and 2 more" in warned
    assert "`kafka-s3 position set CONFIG orders 0 1`" in warned
    assert world.kafka.groups[GROUP] == dict.fromkeys(MANY, 3)
    assert watched(world).texts == []


def test_a_group_that_is_behind_after_a_crash_or_was_mirrored_by_an_earlier_version_is_no_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World({"flush.size": "1"})
    world.start()
    world.add([0])
    world.sink.poll_and_commit()
    world.kafka.mirrored.clear()  # an earlier version left no metadata
    assert watched(world).texts == []
    world.add([1])
    with monkeypatch.context() as patch:
        patch.setattr(MemoryKafka, "commit_group", lambda *_: raise_(KafkaUnavailable("coordinator is away.")))
        world.sink.poll_and_commit()
    assert world.kafka.groups[GROUP] == {ORDERS: 1}
    assert watched(world).texts == []
    assert world.kafka.groups[GROUP] == {ORDERS: 2}


def test_a_group_that_cannot_be_committed_follows_after_the_next_round_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World({"flush.size": "1"})
    seen = watched(world)
    world.add([0])
    with monkeypatch.context() as patch:
        patch.setattr(MemoryKafka, "commit_group", lambda *_: raise_(KafkaUnavailable("coordinator is away.")))
        assert world.sink.poll_and_commit()
    assert "coordinator is away" in seen.texts[0]
    assert world.sink.poll_and_commit()  # nothing new, and sent all the same

    assert world.kafka.groups[GROUP] == {ORDERS: 1}


def raise_(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("call", ["commit_group", "produce"])
def test_what_fails_only_after_long_is_left_alone_for_long_and_holds_no_round(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World({"flush.size": "1", **TOLERANT})
    seen, tried = watched(world), list[int]()

    def answers_late(*_: object, **__: object) -> None:
        tried.append(world.now)
        world.now += 30_000
        raise KafkaUnavailable("no answer within 30 s.")

    monkeypatch.setattr(MemoryKafka, call, answers_late)
    bad(world, 0)
    for offset in range(1, 25):
        world.add([offset])
        assert world.sink.poll_and_commit()
        world.now += 40_000

    pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert 2 <= len(tried) <= 6
    assert len(seen.texts) == 1
    assert all(pause >= 300_000 for pause in pauses), "a tenth of the time at most"
    assert len(world.numbers()) == 24


# ------------------------------------------------------------ dead letter topic


@pytest.mark.parametrize("damage", ["gone", "damaged"])
def test_a_dead_letter_topic_that_is_switched_on_later_gets_all_that_is_kept(damage: str) -> None:
    world = World({"flush.size": "1", "errors.tolerance": "all"})
    world.start()
    for offset in range(3):
        bad(world, offset)
        world.sink.poll_and_commit()
        world.now += 60_000
        world.sink.poll_and_commit()
    first, *_ = letter_keys(world)
    if damage == "gone":
        world.store.delete(first)
    else:
        world.store.put(first, b"not gzip")
    world.settings = World({"flush.size": "1", **TOLERANT}).settings
    world.start()  # it was the end of the sink
    world.add([3])
    assert world.sink.poll_and_commit()

    assert [message.origin[2] for message in world.kafka.produced["dlq"] if message.origin] == [1, 2]


def test_letters_that_could_not_be_sent_are_sent_in_the_next_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({"flush.size": "1", **TOLERANT})
    seen = watched(world)
    bad(world, 0)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryKafka, "produce", lambda *_, **__: raise_(KafkaUnavailable("no broker.")))
        world.sink.poll_and_commit()
    assert "dead letter topic: no broker." in seen.texts[0]
    assert world.sink.poll_and_commit()  # nothing is committed in it

    assert len(world.kafka.produced["dlq"]) == 1


@pytest.mark.parametrize("error", [StorageUnavailable("away."), StorageError("refused.")])
def test_an_error_of_one_follower_holds_neither_another_nor_the_sink(error: SinkError) -> None:
    world = World({"flush.size": "1", **TOLERANT, **TAGS})
    world.start([
        Fault("get", raising(error), nth=None, matches=lambda key: "dead-letter" in key),
    ])  # fmt: skip
    world.add(range(2))
    assert world.sink.poll_and_commit()

    assert world.store.tags[FIRST]["recordCount"] == "1"
    assert world.kafka.groups[GROUP] == {ORDERS: 2}


# ------------------------------------------------------------ tags


@pytest.mark.parametrize("restarts", [True, False])
def test_tags_that_did_not_answer_are_put_at_the_next_chance(restarts: bool) -> None:
    world = World({"flush.size": "1", **TAGS})
    world.start([failure("tag", 1)])
    world.add([0])
    assert world.sink.poll_and_commit()
    assert FIRST not in world.store.tags
    if restarts:
        world.start()
    else:
        assert world.sink.poll_and_commit()

    assert world.store.tags[FIRST] == {"startOffset": "0", "endOffset": "0", "recordCount": "1"}


def test_a_driver_that_dies_before_it_tags_leaves_that_to_the_next() -> None:
    world = World({"flush.size": "1", **TAGS})
    world.start([failure("complete_upload", None)])
    world.add([0])
    assert not world.sink.poll_and_commit()
    world.start()

    assert world.store.tags[FIRST]["startOffset"] == "0"


@pytest.mark.parametrize("gone", [True, False])
def test_refused_tags_are_a_warning_once_and_what_is_gone_needs_none(gone: bool) -> None:
    world = World({"flush.size": "1", **TAGS})
    error = StorageError("AccessDenied.")
    world.start([] if gone else [failure("tag", None, error=error)])
    if gone:
        world.start([Fault("tag", world.store.delete, nth=None)])
    world.add(range(2))
    world.sink.poll_and_commit()
    world.sink.poll_and_commit()

    tagged = [key for verb, key in world.calls if verb == "tag"]
    assert len(tagged) == 2
    assert json.loads(world.store.get("_kafka_s3/orders/followers/tags.json")) == {
        "version": world.log().load().version
    }


def test_where_tags_must_succeed_a_refusal_stops_the_sink_after_the_others_had_their_turn() -> None:
    world = World({"flush.size": "1", **TOLERANT, **TAGS, "s3.object.behavior.on.tagging.error": "fail"})
    world.start([failure("tag", None, error=StorageError("AccessDenied."))])
    bad(world, 0)
    world.add([1])
    with pytest.raises(StorageError, match="AccessDenied"):
        world.sink.poll_and_commit()

    assert len(world.kafka.produced["dlq"]) == 1
    assert list(world.numbers().values()) == [[1]]


def test_objects_of_before_tags_were_switched_on_stay_as_they_are() -> None:
    world = World({"flush.size": "1"})
    world.start()
    world.add([0])
    world.sink.poll_and_commit()
    world.settings = World({"flush.size": "1", **TAGS}).settings
    world.start()
    world.add([1])
    world.sink.poll_and_commit()

    assert [key[-6:-5] for key in world.store.tags] == ["1"]


def test_a_reason_that_quotes_half_a_surrogate_pair_is_reported_as_java_would() -> None:
    """Encoding it raised an error that is none of ours, in each cycle and at each start."""
    by_field = {**TIME, "timestamp.extractor": "RecordField", "timestamp.field": "at"}
    world = World({**by_field, **TOLERANT, "errors.deadletterqueue.context.headers.enable": "true", "flush.size": "1"})
    world.start()
    world.kafka.add(ORDERS, MemoryRecord(0, world.now, None, rb'{"at": "\ud800"}'))
    world.sink.poll_and_commit()

    (message,) = world.kafka.produced["dlq"]
    assert b'"?"' in dict(message.headers)["__connect.errors.exception.message"]
    letter = DeadLetter(
        *ORDERS, 0, None, None, None, (), "stage", "component", "exception", "of an earlier version: \ud800"
    )
    assert dict(context_headers(letter, connector="orders"))["__connect.errors.exception.message"].endswith(b": ?")


# ------------------------------------------------------------ what the topic does not take


def test_a_dead_letter_whose_time_the_topic_does_not_take_is_sent_with_its_time_in_a_header() -> None:
    world = World({**TOLERANT, "flush.size": "2"})
    world.kafka.refuses = lambda message: "timestamp out of range" if (message.timestamp or 0) > world.now else ""
    seen = watched(world)
    for offset, ahead in enumerate((0, 10**15, 0)):
        world.kafka.add(ORDERS, MemoryRecord(offset, world.now + ahead, None, b"{"))
    world.sink.poll_and_commit()

    sent = {message.origin[2]: message for message in world.kafka.produced["dlq"] if message.origin}
    assert sorted(sent) == [0, 1, 2]
    assert sent[1].timestamp is None
    assert ("kafka_s3.timestamp", str(world.now + 10**15).encode()) in sent[1].headers
    assert sent[2].timestamp == world.now
    assert seen.texts == []


def test_a_dead_letter_that_the_topic_does_not_take_at_all_is_reported_and_holds_no_other() -> None:
    world = World({**TOLERANT, "flush.size": "2"})
    world.kafka.refuses = lambda message: "Message size too large" if message.value == b"{large" else ""
    world.start()
    warnings = Warnings()
    (topic,) = (one for one in world.sink.followers.all if isinstance(one, DeadLetterTopic))
    world.sink.followers.all = [replace(topic, warn=warnings.warned)]
    for offset, value in enumerate((b"{", b"{large", b"{")):
        world.kafka.add(ORDERS, MemoryRecord(offset, world.now, None, value))
    world.sink.poll_and_commit()

    assert [message.origin for message in world.kafka.produced["dlq"]] == [("orders", 0, 0), ("orders", 0, 2)]
    assert warnings.texts == [
        "dead letter topic: dlq does not take orders-0 offset 1: Message size too large. It stays in its dead letter file."
    ]
    bad(world, 3)
    world.sink.poll_and_commit()
    assert len(warnings.texts) == 1  # it is not tried for ever
