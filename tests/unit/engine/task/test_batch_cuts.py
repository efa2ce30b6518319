"""However Kafka's records are cut into batches, files close at the same records, for the same reason, with the same content."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from kafka_s3.engine.open_files import row_forms
from kafka_s3.engine.task import writer
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.files import Reason
from kafka_s3.model.tasks import Assignment, Delivery, TaskReport
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.store.memory import MemoryStore
from tests.support.configurations import FIELD, TIME, TOLERANT
from tests.support.examples import examples
from tests.support.memory_world import ORDERS, START_MS, pieces, settings_of

ALL = 520
SEEDS = ALL if examples(ALL) == ALL else ALL // 32
"""The same seeds in each run: the nightly run takes all of them, others a sixteenth."""
ROUTED = {
    "transforms": "t", "transforms.t.type": "io.confluent.connect.transforms.ExtractTopic$Value", "transforms.t.field": "to",
}  # fmt: skip


@pytest.mark.parametrize("routed", [True, False], ids=["several topics", "one topic"])
def test_how_records_are_cut_into_batches_does_not_decide_where_files_close(
    routed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_forms, "SMALL_TEXT", 200)
    made = cache(lambda config: make_pipeline(settings_of(json.loads(config))))
    reasons = set[Reason]()
    for seed in range(SEEDS):
        random = Random(seed)
        monkeypatch.setattr(writer, "MANY", random.choice([1, 64]))  # rows of many directories take another way
        config = {**_config(random), **(ROUTED if routed else {})}
        pipeline, records = made(json.dumps(config)), _records(random)
        whole = _written(pipeline, records, [])
        reasons |= {file[4] for file in whole[0]}
        cuts = random.sample(range(len(records)), random.randint(1, min(12, len(records))))
        assert _written(pipeline, records, cuts) == whole, f"seed {seed}, cuts {sorted(cuts)}, {config}"
    if SEEDS == ALL:  # a quarter of them need not meet every reason
        assert {Reason.MAX_OPEN_FILES, Reason.FLUSH_SIZE, Reason.FLUSH_BYTES, Reason.ROTATE_INTERVAL} <= reasons


def _config(random: Random) -> dict[str, str]:
    by_time = {**TIME, "path.format": "'h'=HH-mm", "partition.duration.ms": "60000", "rotate.interval.ms": "200000"}
    by_time["rotate.file.on.partition.change"] = random.choice(["true", "false"])
    rotation = {"flush.size": random.choice(["3", "9", "1000"]), "flush.bytes": random.choice(["-1", "1500"])}
    cap = {"partitioner.max.open.files": random.choice(["-1", "1", "2", "3", "4", "7"])}
    threads = {"s3.upload.threads": random.choice(["1", "1", "1", "4"])}
    return {**TOLERANT, **random.choice([FIELD, FIELD, by_time]), **rotation, **cap, **threads}


def _records(random: Random) -> list[tuple[int, int, bytes]]:
    """Offsets with gaps, times, and values: some are not JSON, some have no directory."""
    found, offset, time = [], random.randrange(50), START_MS
    targets = random.choice(["ABC", "A" * 20 + "BC"])
    for _ in range(random.choice([6, 20, 30, 150])):
        value: dict[str, Any] = {
            "to": random.choice(targets),
            "d": random.choice("abcdef"),
            "rest": "x" * random.randrange(60),
        }
        if random.random() < 0.05:
            del value["d"]
        text = json.dumps(value)
        found.append((offset, time, (text[:-1] if random.random() < 0.05 else text).encode()))
        offset, time = offset + random.choice([1, 1, 1, 2, 9]), time + random.randrange(-10_000, 30_000)
    return found


def _written(pipeline: Pipeline, records: list[tuple[int, int, bytes]], cuts: list[int]) -> tuple[Any, ...]:
    """What the log would say of a task's files, what they hold, and what the task counted."""
    store, (offsets, times, values) = MemoryStore(), zip(*records, strict=True)
    batch = pa.record_batch({
        "offset": pa.array(offsets, pa.int64()), "timestamp": pa.array(times, pa.int64()),
        "key": pa.nulls(len(records), pa.binary()), "value": pa.array(values, pa.binary()),
    })  # fmt: skip
    batches = (batch.slice(start, stop - start) for start, stop in pieces(len(records), cuts) if stop > start)
    wanted = Assignment(ORDERS, offsets[0], offsets[-1] + 1, (Delivery(START_MS, offsets[-1] + 1),))
    report = pipeline.process(wanted, batches, store)
    return _files(report, store), report.frontier, report.rows, report.tail, report.dead, report.skipped


def _files(report: TaskReport, store: MemoryStore) -> list[tuple[Any, ...]]:
    for file in report.files:
        store.complete_upload(file.upload)
    return [
        (file.key, file.first_offset, file.last_offset, file.records, file.reason, store.objects[file.key])
        for file in report.files
        if file.reason is not Reason.DEAD_LETTER
    ]
