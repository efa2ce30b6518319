"""What do Delta tables ask of the bucket? As many requests as delta-rs sends for each version of a table, by what they cost.

delta-rs goes to the bucket by itself, so its requests are not seen but counted by rule, as a proxy in front of a bucket saw them
(`tests/services/ops/test_simulate.py` looks again): a version is one object and some listings, and reads each log file since the last
checkpoint about twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.model.files import Role

CHECKPOINT_EVERY: Final = 100
"""Versions of a table between two checkpoints (`delta.checkpointInterval`, which is delta-rs' default here)."""
WRITES: Final = 6
"""One object of the table's log, and five listings of it."""
WRITES_OF_CHECKPOINT: Final = 3
READS: Final = 8
READS_OF_LOG_FILE: Final = 2
READS_OF_CHECKPOINT: Final = 14


def table_requests(entries: Iterable[CommitEntry]) -> tuple[int, int]:
    """Writing and reading requests of the tables over a log's objects: each entry is a version of each of its topics' tables.

    The footer of each object is read, and how far the tables have come is noted after each entry.
    """
    versions: Counter[str] = Counter()
    writes = reads = 0
    for entry in entries:
        values = [file for file in entry.files if file.role is Role.VALUE]
        reads, writes = reads + len(values), writes + bool(values)
        for topic in {file.topic for file in values}:
            since = versions[topic] % CHECKPOINT_EVERY
            last = since == CHECKPOINT_EVERY - 1
            first = versions[topic] > 0 and since == 0
            writes += WRITES + last * WRITES_OF_CHECKPOINT
            reads += READS + READS_OF_LOG_FILE * since * (1 + last) + first * READS_OF_CHECKPOINT
            versions[topic] += 1
    return writes, reads
