"""A long commit log: as many entries and files as a sink makes in months, written as the product writes them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.fold import LogState, checkpoint_json
from kafka_s3.engine.log.log import CHECKPOINT_EVERY
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.files import DataFile, DeadLetterCount, Reason, Role, Totals, Upload, counted
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.store.memory import MemoryStore

PARTITIONS = tuple(TopicPartition(topic, number) for topic in ("clicks", "orders") for number in range(5))
MINUTE_MS = 60_000
REASONS = (Reason.FLUSH_SIZE, Reason.ROTATE_INTERVAL, Reason.PARTITION_CHANGE)


def entries(count: int, files: int, *, until_ms: int) -> Iterator[CommitEntry]:
    """`count` entries a minute apart, the last one at `until_ms`; each with `files` files, every tenth with a dead letter."""
    jitter = random.Random(7)
    offsets = dict.fromkeys(PARTITIONS, 0)
    for version in range(count):
        at_ms = until_ms - (count - 1 - version) * MINUTE_MS
        made = [_file(PARTITIONS[number % len(PARTITIONS)], offsets, at_ms, jitter) for number in range(files)]
        bad = version % 10 == 9
        if bad:
            made.append(_dead(PARTITIONS[0], offsets))
        values = counted(made)
        written = sum(file.records for file in values)
        yield CommitEntry(
            version=version, commit_id=f"commit-{version}", epoch=1, sink="big", kind=EntryKind.DATA,
            committed_at=datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            cluster_id="cluster", driver="host/1", progress={tp: Progress(offset, offset) for tp, offset in offsets.items()},
            files=tuple(made), dead_letters={PARTITIONS[0]: DeadLetterCount(1, {"VALUE_CONVERTER": 1})} if bad else {},
            totals=Totals(written + bad, written, int(bad), 0, len(values), sum(file.bytes for file in values)),
        )  # fmt: skip


def _file(tp: TopicPartition, offsets: dict[TopicPartition, int], at_ms: int, jitter: random.Random) -> DataFile:
    first, records = offsets[tp], jitter.randint(50, 5000)
    offsets[tp] += records
    encoded = f"{datetime.fromtimestamp(at_ms / 1000, UTC):year=%Y/month=%m/day=%d/hour=%H}"
    key = f"topics/{tp.topic}/{encoded}/{tp.topic}+{tp.partition}+{first:010d}.parquet"
    size = records * jitter.randint(60, 90)
    return DataFile(
        key, *tp, first, first + records - 1, records, size, at_ms - 90_000, at_ms - 1000, encoded, "order v3", "parquet",
        jitter.choice(REASONS), Upload(key, f"upload-{first}-{tp}", ("0123456789abcdef0123456789abcdef",), size),
    )  # fmt: skip


def _dead(tp: TopicPartition, offsets: dict[TopicPartition, int]) -> DataFile:
    offset = offsets[tp]
    offsets[tp] += 1
    key = StatePaths("_kafka_s3", "big").dead_letters(tp, offset)
    return DataFile(
        key,
        *tp,
        offset,
        offset,
        1,
        300,
        None,
        None,
        "",
        "",
        "jsonl",
        Reason.DEAD_LETTER,
        Upload(key, "u", ("e",), 300),
        Role.DEAD_LETTER,
    )


def big_log(count: int, files: int, *, until_ms: int) -> MemoryStore:
    """A bucket in memory that holds nothing but such a log and its checkpoints."""
    store = MemoryStore(lambda: until_ms)
    for key, content in _objects(count, files, until_ms):
        store.put(key, content)
    return store


@cache
def _objects(count: int, files: int, until_ms: int) -> tuple[tuple[str, bytes], ...]:
    """Its keys and contents: many tests want the same log."""
    found: list[tuple[str, bytes]] = []
    paths, state = StatePaths("_kafka_s3", "big"), LogState()
    for entry in entries(count, files, until_ms=until_ms):
        found.append((paths.commit(entry.version), entry.to_json()))
        state = state.after(entry)
        if entry.version % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
            found.append((paths.checkpoint(entry.version), checkpoint_json(state, entry)))
    return tuple(found)
