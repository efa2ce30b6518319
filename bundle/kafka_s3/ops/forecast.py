"""Estimate what a configuration makes of a day of traffic: files, their size and delay, requests and the price of a month.

It is arithmetic over rates. A topic-partition closes its files after the time in which the first rule is met, or at a mark of the clock.
What rules find in the records themselves (times out of order, schemas that alternate, uneven directories) comes from a sample that has
passed through the sink's own pipeline once (`ops/sampling.py`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_s3.connect.config.classes import TIME_PARTITIONERS
from kafka_s3.connect.config.option import Value
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.commands import look_every_ms
from kafka_s3.model.files import Reason
from kafka_s3.run.wiring.delta import written_by_spark

DAY_MS: Final = 86_400_000
DAYS: Final = 365 / 12
"""Days of a month."""
GIB: Final = 1 << 30
UNITS_MS: Final = {
    "s": 1000,
    "m": 60_000,
    "HhKk": 3_600_000,
    "dDeE": DAY_MS,
    "w": 7 * DAY_MS,
    "M": 30 * DAY_MS,
    "yYx": 365 * DAY_MS,
}
"""How long a letter of a path format stays the same, the shortest first."""
PERIODS_MS: Final = {"hourly": 3_600_000, "daily": DAY_MS}
CHECKPOINT_EVERY: Final = 100
"""Versions of a Delta table between two checkpoints (`delta.checkpointInterval`, which is delta-rs' default here)."""
MERGED_MANIFESTS: Final = 10
"""Snapshots of an Iceberg table between two that merge manifests, each of which is read for it."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a provider in one currency: per 1,000 writing requests, per 1,000 reading ones, per GiB and month."""

    per_thousand_writes: float = 0.005
    per_thousand_reads: float = 0.0004
    per_gib_month: float = 0.023


@dataclass(frozen=True, slots=True)
class PartitionPace:
    """Traffic of one topic-partition: records a second, those of them that are written, and bytes of a record in its file.

    `directories` get records at the same time, the one with the most gets `largest_share` of them. `closings` are how many files each
    rule closed in a sample, per record. A file has `objects` objects (sidecars) with `object_bytes` bytes a record in all of them.
    """

    topic: str
    per_second: float
    record_bytes: float
    directories: int = 1
    largest_share: float = 1.0
    closings: Mapping[Reason, float] = field(default_factory=dict)
    written_share: float = 1.0
    dead_share: float = 0.0
    objects: float = 1.0
    object_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Closings:
    """What one topic-partition makes in a day: how often its files close, how many files that makes by reason, and how old records get.

    `shared` says that the clock closes them, for all topic-partitions at once.
    """

    times: float = 0.0
    files: Mapping[Reason, float] = field(default_factory=dict)
    longest_ms: float = 0.0
    shared: bool = False


def closings(rules: Mapping[str, Value], pace: PartitionPace) -> Closings:
    """Return what the rules, by their keys, make of a topic-partition's traffic in a day: what they say, or more if a sample shows more."""
    by_rule = _by_rule(rules, pace)
    records = pace.per_second * DAY_MS / 1000
    seen = {reason: share * records for reason, share in pace.closings.items()}
    if sum(seen.values()) <= sum(by_rule.files.values()):
        return by_rule
    times = sum(seen.values()) / pace.directories
    return Closings(times, seen, DAY_MS / times)


def _by_rule(rules: Mapping[str, Value], pace: PartitionPace) -> Closings:
    per_ms = pace.per_second * pace.written_share / 1000
    if per_ms <= 0:
        return Closings()
    length_ms = period_ms(rules)
    marks = _marks(rules, length_ms)
    timer, timer_ms = min(_timers(rules, pace, per_ms, length_ms), key=lambda item: item[1])
    mark, mark_ms = min(marks.items(), key=lambda item: item[1], default=(Reason.ROTATE_SCHEDULE, math.inf))
    if min(timer_ms, mark_ms) == math.inf:
        return Closings()

    def count_files(since_ms: float, *, aligned: bool) -> float:
        """Return how many files a rotation closes that comes `since_ms` after the one before."""
        passed = since_ms / length_ms
        lengths = max(passed, 1.0) if aligned else 1.0 if Reason.PARTITION_CHANGE in marks else 1.0 + passed
        return min(pace.directories * lengths, max(per_ms * since_ms, 1.0))

    if timer_ms >= mark_ms:
        times = DAY_MS / mark_ms
        return Closings(times, {mark: times * count_files(mark_ms, aligned=True)}, mark_ms, shared=True)
    if mark_ms == math.inf and timer is Reason.FLUSH_SIZE and length_ms < math.inf:
        full, left_ms = divmod(length_ms, timer_ms)  # records of a new directory are counted from its first one on
        count = DAY_MS / length_ms * pace.directories * (full + (left_ms * per_ms >= 1))
        return Closings(DAY_MS / length_ms * full, {timer: count}, 2 * timer_ms)
    if mark_ms == math.inf:
        times = DAY_MS / timer_ms
        return Closings(times, {timer: times * count_files(timer_ms, aligned=False)}, timer_ms)
    full = math.floor(mark_ms / timer_ms + 1e-9)
    left_ms = mark_ms - full * timer_ms
    files = {timer: DAY_MS / mark_ms * full * count_files(timer_ms, aligned=False)}
    if left_ms * per_ms >= 1:
        files[mark] = DAY_MS / mark_ms * count_files(left_ms, aligned=False)
    return Closings(DAY_MS / mark_ms * (full + (mark in files)), files, timer_ms)


def period_ms(rules: Mapping[str, Value]) -> float:
    """Return how long records of now go to the same directories."""
    partitioner = str(rules["partitioner.class"])
    if partitioner not in TIME_PARTITIONERS:
        return math.inf
    if partitioner in PERIODS_MS:
        return PERIODS_MS[partitioner]
    pattern = re.sub("'[^']*'", "", str(rules["path.format"] or ""))
    unit_ms = next((length for letters, length in UNITS_MS.items() if set(letters) & set(pattern)), math.inf)
    return max(_limit(rules, "partition.duration.ms"), unit_ms)


def _marks(rules: Mapping[str, Value], length_ms: float) -> dict[Reason, float]:
    """Return the rules of the clock, each with the time between two of its marks."""
    schedule_ms = _limit(rules, "rotate.schedule.interval.ms")
    marks = {Reason.ROTATE_SCHEDULE: min(schedule_ms, DAY_MS)} if schedule_ms < math.inf else {}
    if _closes_on_change(rules) and length_ms < math.inf:
        marks[Reason.PARTITION_CHANGE] = length_ms
    return marks


def _timers(
    rules: Mapping[str, Value], pace: PartitionPace, per_ms: float, length_ms: float
) -> Iterator[tuple[Reason, float]]:
    """Yield the rules that count from the first record of a file, each with the time that it takes."""
    size_ms = _limit(rules, "flush.size") / (per_ms * pace.largest_share)
    if size_ms <= length_ms:  # else the directory gets no more records before it is full
        yield Reason.FLUSH_SIZE, size_ms
    yield Reason.FLUSH_BYTES, _limit(rules, "flush.bytes") / (per_ms * pace.record_bytes)
    if length_ms < math.inf:
        yield Reason.ROTATE_INTERVAL, _limit(rules, "rotate.interval.ms") + 1 / per_ms
        if _closes_on_change(rules) and pace.directories > 1:
            yield Reason.PARTITION_CHANGE, 1 / per_ms
    idle_ms = _limit(rules, "flush.idle.ms")
    if idle_ms < 1 / per_ms:  # each record is written by itself, before the next one comes
        yield Reason.FLUSH_IDLE, 1 / per_ms
    if (most := _limit(rules, "partitioner.max.open.files")) < pace.directories:
        yield Reason.MAX_OPEN_FILES, most / per_ms


def _closes_on_change(rules: Mapping[str, Value]) -> bool:
    return bool(rules["rotate.file.on.partition.change"]) and _limit(rules, "rotate.interval.ms") < math.inf


def _limit(rules: Mapping[str, Value], key: str) -> float:
    value = rules[key]
    return value if isinstance(value, int) and value > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Forecast:
    """Numbers of a day. `file_bytes` is the mean size of a file with records, in bytes; a record is visible after `delay_ms` at most.

    `files` counts files with records, `objects` their sidecars, too. `reasons` are the files by what closes them. `writes` and `reads`
    are requests to the bucket, by what they cost.
    """

    records: float
    dead_letters: float
    files: float
    objects: float
    bytes: float
    entries: float
    file_bytes: float
    delay_ms: float
    reasons: Mapping[str, float]
    writes: float
    reads: float

    def month(self, prices: Prices) -> dict[str, float]:
        """Return the price of a month's requests, and what it costs to keep a month's objects for a month."""
        writes = self.writes * DAYS / 1000 * prices.per_thousand_writes
        reads = self.reads * DAYS / 1000 * prices.per_thousand_reads
        storage = self.bytes * DAYS / GIB * prices.per_gib_month
        return {"writes": writes, "reads": reads, "storage": storage, "total": writes + reads + storage}

    def document(self, prices: Prices) -> dict[str, Any]:
        """Return the numbers for programs: those of a day, and the price of a month."""
        day = {
            name: getattr(self, name)
            for name in ("records", "dead_letters", "files", "objects", "bytes", "entries", "writes", "reads")
        }
        return {
            "per_day": day,
            "file_bytes": self.file_bytes,
            "delay_ms": self.delay_ms,
            "reasons": dict(self.reasons),
            "month": self.month(prices),
        }


def forecast(settings: Settings, paces: Collection[PartitionPace]) -> Forecast:
    """Return what a sink makes in a day of the traffic of its topic-partitions."""
    rules = settings.values
    by_pace = [(pace, closings(rules, pace)) for pace in paces]
    reasons = Counter[str]()
    for _, closed in by_pace:
        reasons.update({str(reason): files for reason, files in closed.files.items()})
    files = sum(reasons.values())
    written = [pace.per_second * pace.written_share * DAY_MS / 1000 if closed.times else 0 for pace, closed in by_pace]
    objects = sum(sum(closed.files.values()) * pace.objects for pace, closed in by_pace)
    bytes_ = sum(
        records * (pace.record_bytes if pace.object_bytes is None else pace.object_bytes)
        for records, (pace, _) in zip(written, by_pace, strict=True)
    )
    in_files = sum(records * pace.record_bytes for records, (pace, _) in zip(written, by_pace, strict=True))
    polls = DAY_MS / settings.number("poll.interval.ms")
    together = max((closed.times for _, closed in by_pace if closed.shared), default=0.0)
    letters = min(polls, sum(pace.per_second * pace.dead_share for pace in paces) * DAY_MS / 1000)
    entries = min(polls, together + letters + sum(closed.times for _, closed in by_pace if not closed.shared))
    part_bytes = settings.number("s3.part.size")
    parts = max(math.ceil(bytes_ / objects / part_bytes), 1) if objects else 0
    states, rounds = _states(settings, by_pace)
    beats = DAY_MS / settings.number("heartbeat.interval.ms")
    looks = DAY_MS / look_every_ms(settings.number("heartbeat.interval.ms"))
    writes = objects * (2 + parts) + letters * 3 + 2 * entries + states + rounds + beats
    reads = entries + states + rounds + beats + looks
    versions = _versions(by_pace, polls)
    if settings.flag("delta.enable") and not written_by_spark(settings):
        of_tables = delta_requests(versions, files, entries)
        writes, reads = writes + of_tables[0], reads + of_tables[1]
    if settings.flag("iceberg.enable"):
        of_tables = iceberg_requests(versions, files, entries)
        writes, reads = writes + of_tables[0], reads + of_tables[1]
    return Forecast(
        records=sum(pace.per_second for pace in paces) * DAY_MS / 1000,
        dead_letters=sum(pace.per_second * pace.dead_share for pace in paces) * DAY_MS / 1000,
        files=files,
        objects=objects,
        bytes=bytes_,
        entries=entries,
        file_bytes=in_files / files if files else 0,
        delay_ms=max((closed.longest_ms for _, closed in by_pace), default=0),
        reasons=dict(reasons.most_common()),
        writes=writes,
        reads=reads,
    )


def _states(settings: Settings, by_pace: Collection[tuple[PartitionPace, Closings]]) -> tuple[float, float]:
    """Return how often a day open files are kept in the bucket: states of topic-partitions, and rounds that keep some."""
    check_ms = settings.number("tail.check.interval.ms")
    if not settings.flag("tail.state.enable") or check_ms <= 0:
        return 0, 0
    kept = [
        min(DAY_MS / check_ms, pace.per_second * DAY_MS / 1000)
        for pace, closed in by_pace
        if closed.longest_ms > check_ms or not closed.times
    ]
    return sum(kept), max(kept, default=0)


def _versions(by_pace: Collection[tuple[PartitionPace, Closings]], polls: float) -> float:
    """Return how many versions a day the tables of all topics get: an entry is a version of each of its topics' tables."""
    together, apart = Counter[str](), Counter[str]()
    for pace, closed in by_pace:
        if closed.shared:
            together[pace.topic] = max(together[pace.topic], closed.times)  # type: ignore[assignment]
        else:
            apart[pace.topic] += closed.times  # type: ignore[assignment]
    return sum(min(polls, together[topic] + apart[topic]) for topic in together.keys() | apart.keys())


def delta_requests(
    versions: float, objects: float, entries: float, *, log_files: float = (CHECKPOINT_EVERY - 1) / 2
) -> tuple[float, float]:
    """Return the writing and reading requests of Delta tables, as a proxy in front of a bucket saw delta-rs send them.

    A version is one object and five listings, and reads the `log_files` since the last checkpoint about twice. The footer of each object
    is read, and how far the tables have come is noted after each entry.
    """
    writes = entries + versions * (6 + 3 / CHECKPOINT_EVERY)
    reads = objects + versions * (8 + 2 * log_files * (1 + 1 / CHECKPOINT_EVERY) + 14 / CHECKPOINT_EVERY)
    return writes, reads


def iceberg_requests(snapshots: float, objects: float, entries: float) -> tuple[float, float]:
    """Return the same of Iceberg tables. Requests to the catalog are not counted.

    A snapshot writes a manifest, the list of manifests and the metadata file, and reads the metadata file three times and the list once.
    """
    merges = snapshots / MERGED_MANIFESTS
    return entries + snapshots * 3 + merges, objects + snapshots * 4 + merges * MERGED_MANIFESTS
