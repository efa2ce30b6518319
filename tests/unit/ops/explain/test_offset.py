"""What does `explain` answer for an offset, whatever became of its record?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafka_s3.engine.log.dead_letters import LetterSelection, read_ledger
from kafka_s3.engine.log.entry import EntryKind, Progress
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.offsets import Gap
from kafka_s3.ops.explain.answer import Answer, Outcome
from kafka_s3.ops.explain.inquiry import explain
from kafka_s3.ops.replay import make_replay
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, TIME, TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World, settings_of

NULLS = {"behavior.on.null.values": "ignore", "report.null.values.to.dlq": "false"}


def asked(world: World, offset: int, *, kafka: bool = True, topic: str = "orders") -> Answer:
    about = f"{topic}:0:{offset}"
    return explain(world.settings, about, store=world.store, kafka=world.kafka if kafka else None)


def drained(config: dict[str, Any], records: list[MemoryRecord]) -> World:
    world = World(config)
    for one in records:
        world.kafka.add(ORDERS, one)
    world.start()
    world.sink.poll()
    world.sink.drain()
    return world


def record(offset: int, value: object, timestamp: int = START_MS) -> MemoryRecord:
    text = value if isinstance(value, bytes) else None if value is None else json.dumps(value).encode()
    return MemoryRecord(offset, timestamp, None, text)


def keys(answer: Answer) -> list[str]:
    return [file.key for one in answer.accounts for file in one.files]


def test_a_record_in_an_object_with_entry_rule_and_directory() -> None:
    world = drained({"flush.size": "3"}, [record(n, {"n": n}) for n in range(7)])
    for kafka in (True, False):
        answer = asked(world, 4, kafka=kafka)
        assert (answer.outcome, keys(answer)) == (
            Outcome.OBJECT,
            ["topics/orders/partition=0/orders+0+0000000003.json"],
        )
        (reported,) = (answer.objects or {}).values()
        assert reported.rule == "flush.size=3: this many records of its Kafka partition were open"
        assert reported.directory == "partitioner.class=default, the number of the Kafka partition"
        assert reported.bucket == "as written"
    (entry,) = [entry for entry in world.entries() if entry.files]
    (stated,) = answer.document()["entries"]
    assert (stated["entry"], stated["committed_at"], stated["stands"]) == (entry.version, entry.committed_at, True)


def test_of_directories_that_interleave_the_one_that_the_pipeline_names() -> None:
    world = drained({"flush.size": "6", **FIELD}, [record(n, {"d": "ab"[n % 2]}) for n in range(6)])
    assert keys(asked(world, 2)) == ["topics/orders/d=a/orders+0+0000000000.json"]
    assert keys(asked(world, 3)) == ["topics/orders/d=b/orders+0+0000000001.json"]
    alone = asked(world, 3, kafka=False)
    assert len(keys(alone)) == 2
    assert "in one of these objects" in alone.text


def test_a_directory_of_a_time_is_reported_with_pattern_zone_and_extractor() -> None:
    world = drained({"flush.size": "1", **TIME}, [record(0, {"n": 0})])
    (reported,) = (asked(world, 0).objects or {}).values()
    assert reported.file.encoded_partition == "h=10"
    assert reported.directory == (
        "partitioner.class=time, path.format='h'=HH, partition.duration.ms=3600000, timezone=UTC, timestamp.extractor=Record"
    )


def test_a_dead_letter_with_its_reason_and_what_became_of_it() -> None:
    world = drained({"flush.size": "2", **TOLERANT}, [record(0, {"n": 0}), record(1, b"{"), record(2, {"n": 2})])
    answer = asked(world, 1)
    assert answer.outcome is Outcome.DEAD_LETTER
    assert "stage VALUE_CONVERTER" in answer.text
    (key,) = keys(answer)
    assert key.endswith("orders+0+0000000001.jsonl.gz")
    assert read_ledger(world.store, state_paths(world.settings)).files.keys() == {key}
    assert asked(world, 0).outcome is asked(world, 2).outcome is Outcome.OBJECT


def test_a_dead_letter_that_was_replayed_is_in_its_object_and_one_that_was_resolved_is_skipped() -> None:
    config = {"flush.size": "2", **TOLERANT}
    world = drained(config, [record(0, {"n": 0}), record(1, b"{"), record(2, b"["), record(3, {"n": 2})])
    texts = {**config, "value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    replay = make_replay(settings_of(texts), world.store, clock_ms=lambda: world.now)
    replay.run(LetterSelection(offset=1))
    replay.resolve(LetterSelection(offset=2), reason="a test of the producer")
    replayed, resolved = asked(world, 1), asked(world, 2)
    assert (replayed.outcome, resolved.outcome) == (Outcome.OBJECT, Outcome.SKIPPED)
    assert keys(replayed)[-1] == "topics/orders/partition=0/orders+0+0000000001.json"
    assert [one.outcome for one in replayed.accounts] == [Outcome.DEAD_LETTER, Outcome.OBJECT]
    assert "a test of the producer" in resolved.text


def test_a_record_that_a_rule_skipped_and_an_offset_without_record() -> None:
    world = drained({"flush.size": "2", **NULLS}, [record(0, {"n": 0}), record(1, None), record(3, {"n": 3})])
    skipped = asked(world, 1)
    assert skipped.outcome is Outcome.SKIPPED
    assert "behavior.on.null.values=ignore: it has no value" in skipped.text.lower()
    assert asked(world, 2).outcome is Outcome.NO_RECORD


def test_records_that_are_open_not_read_not_there_and_lost() -> None:
    world = drained(
        {"flush.size": "10", "tail.check.interval.ms": "0", **FIELD}, [record(n, {"d": "a"}) for n in range(4)]
    )
    answer = asked(world, 2)
    assert answer.outcome in (Outcome.OPEN, Outcome.NOT_READ)
    assert "It will be in directory d=a" in answer.text
    assert "flush.size=10" in answer.text
    assert asked(world, 4).outcome is Outcome.NOT_IN_KAFKA
    world.kafka.trim(ORDERS, start=3)
    assert asked(world, 1).outcome is Outcome.OPEN  # an open file holds it
    world.store.delete(state_paths(world.settings).open_files())
    assert asked(world, 1).outcome is Outcome.LOST


def test_beyond_retention_the_log_still_knows() -> None:
    world = drained({"flush.size": "2"}, [record(n, {"n": n}) for n in range(4)])
    world.kafka.trim(ORDERS, start=4)
    assert keys(asked(world, 1)) == ["topics/orders/partition=0/orders+0+0000000000.json"]


def test_what_was_before_the_sink_began_and_gaps() -> None:
    world = World({"flush.size": "1"})
    world.kafka.create(ORDERS, start=5)
    world.kafka.begins[ORDERS] = 5
    world.kafka.add(ORDERS, record(5, {"n": 5}))
    world.start()
    world.sink.poll()
    world.sink.drain()
    assert asked(world, 3).outcome is Outcome.BEFORE_START
    log = world.log()
    log.load()
    log.append(
        log.new_entry(EntryKind.POSITION, progress={ORDERS: Progress(9)}, gaps=(Gap(*ORDERS, 6, 8, "position"),))
    )
    answer = asked(world, 7)
    assert (answer.outcome, "offsets 6 to 8 are a gap: position" in answer.text) == (Outcome.GAP, True)
    log.append(log.new_entry(EntryKind.POSITION, progress={ORDERS: Progress(5)}))
    assert [one.current for one in asked(world, 5).accounts] == [False]


def test_a_topic_partition_that_nobody_knows_is_an_error_with_those_that_are() -> None:
    world = drained({"flush.size": "1"}, [record(0, {"n": 0})])
    with pytest.raises(ConfigError, match=r"payments-0.*Its log has: orders-0"):
        asked(world, 0, topic="payments")
