"""What came of a simulation? Files a day, their sizes, how late records become visible, requests, and the price of a month.

delta-rs goes to the bucket by itself, so its requests are counted by rule, as a proxy in front of a bucket saw them
(`tests/services/ops/test_simulate.py` looks again): a version of a table is one object and some listings, and reads each log file since
the last checkpoint about twice. Those of Iceberg tables are counted by rule, too, for a simulation has no catalog
(`tests/unit/followers/iceberg/test_cost.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.model.files import Role, counted

CHECKPOINT_EVERY: Final = 100
"""Versions of a table between two checkpoints (`delta.checkpointInterval`, which is delta-rs' default here)."""
WRITES: Final = 6
"""One object of the table's log, and five listings of it."""
WRITES_OF_CHECKPOINT: Final = 3
READS: Final = 8
READS_OF_LOG_FILE: Final = 2
READS_OF_CHECKPOINT: Final = 14
SNAPSHOT_WRITES: Final = 3
"""A manifest, the list of manifests, the metadata file."""
SNAPSHOT_READS: Final = 4
"""The metadata file, for the columns that records must fit, for the plan and by the commit; and the list of manifests."""
MERGED_MANIFESTS: Final = 10
"""Snapshots of an Iceberg table between two that merge manifests, each of which is read for it."""
DAY_MS: Final = 86_400_000
DAYS: Final = 365 / 12
"""Days of a month."""
GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Prices:
    """What a provider asks, in one currency: per 1,000 writing requests, per 1,000 reading ones, per GiB and month."""

    per_thousand_writes: float = 0.005
    per_thousand_reads: float = 0.0004
    per_gib_month: float = 0.023


@dataclass(frozen=True, slots=True)
class Forecast:
    """Numbers of the simulated `window_ms`, in which `records` came. `sizes` and `delays_ms` are middle, 95 % and largest.

    `sizes` are those of objects with records, in bytes; a delay is how long after its own time a record becomes visible, and what is still
    open at the end counts in neither. `writes` and `reads` are requests to the bucket, by what they cost.
    """

    window_ms: int
    records: int
    written: int
    dead_letters: int
    skipped: int
    files: int
    objects: int
    bytes: int
    entries: int
    sizes: tuple[int, int, int]
    delays_ms: tuple[int, int, int]
    reasons: Mapping[str, int]
    writes: int
    reads: int

    def per_day(self, count: float) -> float:
        """A count of the window, for a day."""
        return count * DAY_MS / self.window_ms

    def month(self, prices: Prices) -> dict[str, float]:
        """The price of a month's requests, and what it costs to keep a month's objects for a month."""
        writes = self.per_day(self.writes) * DAYS / 1000 * prices.per_thousand_writes
        reads = self.per_day(self.reads) * DAYS / 1000 * prices.per_thousand_reads
        storage = self.per_day(self.bytes) * DAYS / GIB * prices.per_gib_month
        return {"writes": writes, "reads": reads, "storage": storage, "total": writes + reads + storage}

    def document(self, prices: Prices) -> dict[str, Any]:
        """For programs: what was simulated, and the same for a day and a month."""
        names = ("middle", "95_percent", "largest")
        return {
            "window_ms": self.window_ms, "records": self.records, "written": self.written, "dead_letters": self.dead_letters,
            "skipped": self.skipped, "files": self.files, "objects": self.objects, "bytes": self.bytes, "entries": self.entries,
            "writes": self.writes, "reads": self.reads, "reasons": dict(self.reasons),
            "size_bytes": dict(zip(names, self.sizes, strict=True)), "delay_ms": dict(zip(names, self.delays_ms, strict=True)),
            "per_day": {
                name: self.per_day(getattr(self, name)) for name in ("records", "files", "objects", "bytes", "entries", "writes", "reads")
            },
            "month": self.month(prices),
        }  # fmt: skip


def forecast_of(entries: Iterable[CommitEntry], *, window_ms: int, records: int, writes: int, reads: int) -> Forecast:
    """The forecast of a simulated log, one entry in memory at a time. Delays are between each file's records, spread evenly."""
    files = objects = bytes_ = commits = written = dead = skipped = 0
    sizes: list[int] = []
    delays: list[tuple[int, int, int]] = []
    reasons: Counter[str] = Counter()
    for entry in entries:
        if entry.kind is not EntryKind.DATA:
            continue
        at = round(datetime.fromisoformat(entry.committed_at).timestamp() * 1000)
        commits, objects = commits + 1, objects + len(entry.files)
        bytes_ += sum(file.bytes for file in entry.files)
        written, dead, skipped = (
            written + entry.totals.written, dead + entry.totals.dead_letters, skipped + entry.totals.skipped,
        )  # fmt: skip
        for file in counted(entry.files):
            files += 1
            sizes.append(file.bytes)
            reasons[str(file.reason)] += 1
            if file.min_timestamp is not None and file.max_timestamp is not None:
                delays.append((at - file.max_timestamp, at - file.min_timestamp, file.records))
    return Forecast(
        window_ms, records, written, dead, skipped, files, objects, bytes_, commits, _spread(sizes), _delays(delays),
        dict(reasons.most_common()), writes, reads,
    )  # fmt: skip


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


def iceberg_requests(entries: Iterable[CommitEntry]) -> tuple[int, int]:
    """The same of Iceberg tables: each entry is a snapshot of each of its topics' tables. Requests to the catalog are not counted."""
    versions: Counter[str] = Counter()
    writes = reads = 0
    for entry in entries:
        values = [file for file in entry.files if file.role is Role.VALUE]
        reads, writes = reads + len(values), writes + bool(values)
        for topic in {file.topic for file in values}:
            versions[topic] += 1
            merges = versions[topic] % MERGED_MANIFESTS == 0
            writes += SNAPSHOT_WRITES + merges
            reads += SNAPSHOT_READS + merges * MERGED_MANIFESTS
    return writes, reads


def _spread(values: list[int]) -> tuple[int, int, int]:
    if not values:
        return 0, 0, 0
    middle, high, most = np.quantile(np.array(values), [0.5, 0.95, 1.0], method="inverted_cdf").tolist()
    return int(middle), int(high), int(most)


def _delays(files: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    """Quantiles over records: each file stands for ten places between its shortest and longest delay, weighted by its records."""
    if not files:
        return 0, 0, 0
    found = np.array(files, float)
    shares = np.linspace(0, 1, 10)
    delays = (found[:, :1] + (found[:, 1:2] - found[:, :1]) * shares).ravel()
    weights = np.repeat(found[:, 2], len(shares))
    order = np.argsort(delays)
    sums = np.cumsum(weights[order])
    middle, high = (delays[order][np.searchsorted(sums, sums[-1] * share)] for share in (0.5, 0.95))
    return round(float(middle)), round(float(high)), round(float(found[:, 1].max()))
