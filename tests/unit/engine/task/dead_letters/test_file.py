"""Dead letters stream into their upload: memory is bounded in bytes, and too many of them stop the task before they are all written."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from kafka_s3.engine.task.dead_letters import BadRecords, DeadLetterFile, DeadLetterLimit
from kafka_s3.model.dead_letters import DeadLetter, rejection
from kafka_s3.model.errors import RecordError
from kafka_s3.model.files import Reason
from kafka_s3.model.tasks import Assignment, Delivery, TaskReport
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import Body
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World, settings_of

MIB = 1 << 20


def letter(offset: int, content: bytes = b"{oops") -> DeadLetter:
    return DeadLetter(*ORDERS, offset, START_MS + offset % 7, b"key", content, (), "VALUE_CONVERTER", "c", "e", "bad")


def noise(offset: int) -> bytes:
    """1,000 bytes that do not compress."""
    return Random(offset).randbytes(1000)


def a_file(store: MemoryStore, folder: Path) -> DeadLetterFile:
    return DeadLetterFile(ORDERS, store, lambda offset: f"letters/{offset}", part_size=5 * MIB, folder=folder)


def test_the_file_is_named_by_its_first_letter_and_counts_what_is_in_it(tmp_path: Path) -> None:
    store = MemoryStore(lambda: 0)
    file = a_file(store, tmp_path)
    file.add([letter(5), letter(9)])
    file.add([letter(12)])
    row = file.finish()

    assert row is not None
    assert (row.key, row.first_offset, row.last_offset, row.records) == ("letters/5", 5, 12, 3)
    assert (row.min_timestamp, row.max_timestamp) == (START_MS + 2, START_MS + 5)
    store.complete_upload(row.upload)
    lines = gzip.decompress(store.get(row.key)).splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [5, 9, 12]
    assert (file.stages, file.offsets.ranges) == ({"VALUE_CONVERTER": 3}, ((5, 5), (9, 9), (12, 12)))


def test_without_letters_there_is_no_upload(tmp_path: Path) -> None:
    store = MemoryStore(lambda: 0)
    file = a_file(store, tmp_path)

    assert (file.finish(), file.memory(), store.uploads) == (None, 0, {})


def test_memory_is_that_of_a_part_and_of_the_offsets_and_can_be_given_back(tmp_path: Path) -> None:
    file = a_file(MemoryStore(lambda: 0), tmp_path)
    file.add([letter(offset, noise(offset)) for offset in range(2000)])
    held = file.memory()
    file.release()

    assert held > MIB
    assert file.memory() < MIB // 2
    file.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_task_spills_its_letters_as_soon_as_they_are_beyond_its_budget(tmp_path: Path) -> None:
    file = a_file(MemoryStore(lambda: 0), tmp_path)
    records = BadRecords(
        ORDERS, make_pipeline(settings_of(TOLERANT | {"flush.size": "3"})).policy, file, DeadLetterLimit(1.0, 2000)
    )
    file.add([letter(offset, noise(offset)) for offset in range(2000)])
    records.keep_within(4 * MIB, lambda: 0)
    assert list(tmp_path.iterdir()) == []
    records.keep_within(MIB, lambda: 0)
    assert file.memory() < MIB // 2
    assert [path.stat().st_size > MIB for path in tmp_path.iterdir()] == [True]


def test_many_dead_letters_need_no_memory_beside_the_budget() -> None:
    """3,000 letters of 1 KB were 15 MB as Python objects, their lines and their gzip."""
    config = {"flush.size": "3", **TOLERANT, "s3.part.size": str(5 * MIB), "writer.memory.bytes": str(MIB)}
    world = World(config, batch_size=500)
    for offset in range(3_000):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, noise(offset)))
    pipeline = make_pipeline(settings_of(config))

    def process(until: int) -> TaskReport:
        wanted = Assignment(ORDERS, 0, until, (Delivery(world.now, until),), close=Reason.FLUSH_NOW)
        return pipeline.process(wanted, world.kafka.batches(ORDERS, 0, until=until), _Forgetful(lambda: 0))

    process(10)  # what is loaded at first is no memory of letters
    tracemalloc.start()
    report = process(3_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(report.dead) == 3_000
    assert peak < 10 * MIB, f"{peak >> 20} MiB"  # the rows of the source in memory among them


def test_of_a_batch_that_is_bad_as_a_whole_only_a_portion_is_held(tmp_path: Path) -> None:
    """4,000 letters of 1 KB took 9 MiB at once."""
    rows = [{"offset": at, "timestamp": START_MS, "key": b"", "value": noise(at), "headers": []} for at in range(4_000)]
    batch = pa.RecordBatch.from_pylist(rows)
    policy = make_pipeline(settings_of(TOLERANT | {"flush.size": "3"})).policy
    file = a_file(_Forgetful(lambda: 0), tmp_path)
    tracemalloc.start()
    BadRecords(ORDERS, policy, file, DeadLetterLimit(1.0, len(batch))).handle(
        [rejection(at, "bad") for at in range(len(batch))], [], batch
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (len(file), file.offsets.ranges) == (len(batch), ((0, len(batch) - 1),))
    assert peak < 7 * MIB, f"{peak >> 20} MiB"  # a part of the upload among them


class _Forgetful(MemoryStore):
    """Takes parts and keeps none of them, as S3 does for the task."""

    def upload_part(self, key: str, upload_id: str, number: int, data: Body) -> str:
        return f"etag-{number}"


def test_a_task_stops_as_soon_as_its_dead_letters_are_too_many() -> None:
    config = {"flush.size": "1000000", **TOLERANT, "errors.deadletter.max.ratio": "0.1"}
    world = World(config, batch_size=100)
    for offset in range(10_000):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b"text"))
    read = []

    def counted(wanted: Assignment):
        for batch in world.kafka.batches(wanted.topic_partition, wanted.start, until=wanted.until):
            read.append(len(batch))
            yield batch

    wanted = Assignment(ORDERS, 0, 10_000, (Delivery(world.now, 10_000),))
    report = make_pipeline(settings_of(config)).process(wanted, counted(wanted), world.store)

    assert sum(read) == 1100
    assert (
        report.excess
        == "1100 of 10000 records of this batch would become dead letters, and errors.deadletter.max.ratio is 0.1."
    )
    assert report.commonest.startswith(
        "1100 times org.apache.kafka.connect.errors.DataException, for example orders-0 offset 0,"
    )
    assert (report.files, world.store.uploads) == ((), {})


def test_many_small_batches_are_counted_together() -> None:
    from kafka_s3.model.offsets import TopicPartition

    places = tuple(TopicPartition("orders", n) for n in range(3))
    world = World(
        {"flush.size": "1000", **TOLERANT, "errors.deadletter.max.ratio": "0.5", "tasks.max": "3"}, topics=places
    )
    world.start()
    for place in places:
        for offset in range(50):
            world.kafka.add(place, MemoryRecord(offset, START_MS, None, b"text"))

    world.sink.poll()
    with pytest.raises(RecordError, match=r"150 of 150 records.*Most often, in orders-0: 50 times"):
        world.sink.drain(close=Reason.FLUSH_NOW)
    assert world.store.uploads == {}
