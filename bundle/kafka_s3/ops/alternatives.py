"""What would other settings make of the traffic that the log shows? `simulate` for each of them, over few enough records to answer soon.

Made records come evenly, so all partitions are alike, and so are directories that get records at the same time: one partition and a few
directories are simulated, and count for all. Where there are more than RECORDS, one simulated record stands for several, and a limit in
records or bytes becomes as many times smaller. What the sink does with schemas, late and broken records is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from kafka_s3.connect.config.classes import FIELD_PARTITIONERS, PARTITIONERS, PATTERN_PARTITIONERS, TIME_PARTITIONERS
from kafka_s3.connect.config.option import Value
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import validate
from kafka_s3.kafka.plain_reader import ENVELOPE
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.forecast import DAY_MS, Forecast
from kafka_s3.ops.simulation import simulate, steady

RECORDS: Final = 20_000
"""Of one simulation, about: the sink looks at the size of files after each 64 records, which has to be a small part of a file."""
POLLS: Final = 100
DIRECTORIES: Final = 20
STEPS_MS: Final = (
    10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000,
)  # fmt: skip
"""Pauses between polls: whole parts of a second, a minute and an hour, as most intervals are."""
FILES: Final = 30
"""So many files of each directory, as they come today, are a window long enough."""
TIMES: Final = 10
"""A limit is raised to so many times what it is."""
BEGUN_MS: Final = 1_705_276_800_000
"""2024-01-15T00:00:00Z: simulated traffic begins with a day."""
LIMITS: Final = ("flush.size", "flush.bytes", "rotate.interval.ms", "rotate.schedule.interval.ms", "flush.idle.ms")
RULES: Final = (
    *LIMITS, "rotate.file.on.partition.change", "partitioner.max.open.files", "timezone", "locale", "path.format", "partition.duration.ms",
)  # fmt: skip
"""What decides when a file closes: all that is taken over of the sink's settings, beside its partitioner."""
FIELD: Final = "directory"
"""The field whose values are the directories of a partitioner that is not by time."""
FEWER: Final = "directories"
"""Stands for a key where fewer directories at a time are the change: which key that is depends on the partitioner."""
_JAVA: Final = {ours: java for java, ours in PARTITIONERS.items()}
_PLAIN: Final = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector", "name": "simulated", "topics": "topic", "s3.bucket.name": "simulated",
    "kafka.bootstrap.servers": "simulated:9092", "flush.size": "1", "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false", "timestamp.extractor": "Record", "path.format": "'d'=dd", "partition.duration.ms": "1000",
    "locale": "en", "timezone": "UTC", "partition.field.name": FIELD,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicPace:
    """Of one topic as its log shows it: records a second and bytes of a record as written, in all its partitions.

    `directories` get records of a partition at the same time; `files` come a day.
    """

    per_second: float
    record_bytes: float
    partitions: int
    directories: int
    files: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """What a day makes where `changes` are set: files and their mean size in bytes, None where none closed; and why they close."""

    changes: Mapping[str, str]
    files: float | None
    file_bytes: float | None
    delay_ms: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Thinned:
    """What `simulate` gets. One of its records stands for `times` real ones, one of its directories for `alike`."""

    settings: Settings
    sample: pa.RecordBatch
    per_second: float
    window_ms: int
    times: float
    alike: float

    def forecast(self, progress: Callable[[int], None]) -> Forecast:
        """`simulate`'s own answer."""
        streams = {TopicPartition("topic", 0): steady(self.sample, self.per_second)}
        return simulate(self.settings, streams, begun_ms=BEGUN_MS, window_ms=self.window_ms, progress=progress)


def alternatives(
    rules: Mapping[str, Value], pace: TopicPace, *, progress: Callable[[int], None] = lambda done: None
) -> Iterator[Alternative]:
    """What these rules make of the traffic, and then what each change makes of it, simulated when it is asked for.

    `rules` are those of `rules_of`.
    """
    if rules["partitioner.class"] in TIME_PARTITIONERS - FIELD_PARTITIONERS:
        pace = replace(pace, directories=1)  # times come one after the other; those that are late are left out
    yield _alternative({}, rules, pace, progress)
    for changes, directories in changed(rules, pace.directories):
        given = {key: value for key, value in changes.items() if key in rules}
        yield _alternative(changes, {**rules, **given}, replace(pace, directories=directories), progress)


def rules_of(settings: Settings) -> dict[str, Value]:
    """What the settings say of RULES and the partitioner."""
    return {key: settings.values[key] for key in (*RULES, "partitioner.class")}


def changed(rules: Mapping[str, Value], directories: int) -> Iterator[tuple[dict[str, Value], int]]:
    """What could be set otherwise for larger files: each limit, all limits, then directories; with how many of these come of it."""
    limits = {key: _raised(key, rules[key]) for key in LIMITS if 0 < _number(rules[key]) < _raised(key, rules[key])}
    for key, value in limits.items():
        yield {key: value}, directories
    if len(limits) > 1:
        yield dict(limits), directories
    partitioner, above = rules["partitioner.class"], str(rules["path.format"] or "").rpartition("/")[0]
    by_time, interval = partitioner in TIME_PARTITIONERS, _number(rules["rotate.interval.ms"])
    if by_time and rules["rotate.file.on.partition.change"] and interval > 0:
        yield {"rotate.file.on.partition.change": False}, directories
    if partitioner == "hourly":
        yield {"partitioner.class": "daily"}, directories
    if partitioner in PATTERN_PARTITIONERS and above:
        yield {"path.format": above}, directories
    if directories > 1:
        yield {FEWER: f"1/{TIMES}"}, max(directories // TIMES, 1)


def window_of(pace: TopicPace) -> int:
    """How long a time is simulated, ms: until about FILES of each directory have come, at most a day."""
    return round(min(max(FILES * pace.partitions * pace.directories / pace.files * DAY_MS, 1000), DAY_MS))


def thinned(rules: Mapping[str, Value], pace: TopicPace, *, window_ms: int) -> Thinned:
    """What is simulated of one of the topic's partitions under these rules."""
    own, directories = pace.per_second / pace.partitions, min(pace.directories, DIRECTORIES)
    sample, size = _sample(directories), _number(rules["flush.size"])
    times = max(own * window_ms / 1000 / RECORDS, 1)
    if size > 0:
        times = size / max(size // times, min(directories, size))  # so many whole records close the files
    values = {key: rules[key] for key in RULES if rules[key] is not None} | {
        "flush.size": _fewer(size, times),
        "flush.bytes": _fewer(rules["flush.bytes"], times * pace.record_bytes / _written(sample)),
        "partitioner.max.open.files": _fewer(rules["partitioner.max.open.files"], pace.directories / directories),
        "poll.interval.ms": max(step for step in STEPS_MS if step <= max(window_ms / POLLS, STEPS_MS[0])),
    }
    if own * _number(rules["flush.idle.ms"]) > 1000:  # records come more often than that: the partition is never idle
        values["flush.idle.ms"] = -1
    settings = _settings(_partitioner(str(rules["partitioner.class"]), directories), values)
    return Thinned(settings, sample, own / times, window_ms, times, pace.directories / directories)


def _alternative(
    changes: Mapping[str, Value], rules: Mapping[str, Value], pace: TopicPace, progress: Callable[[int], None]
) -> Alternative:
    given, found = _closed(rules, pace, progress)
    texts = {key: _text(value) for key, value in changes.items()}
    if not found.files:
        return Alternative(texts, None, None, 0, {})
    per_file = max(found.written * given.times / (found.files * given.alike), 1)
    files = pace.per_second * DAY_MS / 1000 / per_file
    return Alternative(texts, files, per_file * pace.record_bytes, found.delays_ms[1], found.reasons)


def _closed(rules: Mapping[str, Value], pace: TopicPace, progress: Callable[[int], None]) -> tuple[Thinned, Forecast]:
    """What was simulated, and what it made: until files closed, or a day had passed."""
    window_ms = window_of(pace)
    while True:
        given = thinned(rules, pace, window_ms=window_ms)
        found = given.forecast(progress)
        if found.files or window_ms >= DAY_MS:
            return given, found
        window_ms = min(window_ms * TIMES, DAY_MS)


def _raised(key: str, value: Value) -> int:
    raised = _number(value) * TIMES
    return min(raised, DAY_MS) if key.endswith(".ms") else raised


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else _JAVA.get(str(value), str(value))


def _fewer(limit: Value, times: float) -> int:
    number = _number(limit)
    return max(round(number / times), 1) if number > 0 else number


def _partitioner(name: str, directories: int) -> str:
    if directories > 1:
        return "field_and_time" if name in TIME_PARTITIONERS else "field"
    if name in FIELD_PARTITIONERS or name not in TIME_PARTITIONERS:
        return "time" if name in TIME_PARTITIONERS else "default"
    return name


def _settings(partitioner: str, values: Mapping[str, Value]) -> Settings:
    plain = validate({**_PLAIN, "partitioner.class": _JAVA[partitioner]}, worker={}).settings
    assert plain is not None, "the plain configuration is one of our own"
    return replace(plain, values={**plain.values, **values})


def _sample(directories: int) -> pa.RecordBatch:
    """A document for each directory, in turn, all of one length."""
    values = [b'{"%s":"%06d","text":"%s"}' % (FIELD.encode(), number, b"x" * 24) for number in range(directories)]
    rows = [{"offset": n, "timestamp": 0, "key": b"", "value": value, "headers": []} for n, value in enumerate(values)]
    return pa.RecordBatch.from_pylist(rows, ENVELOPE)


def _written(sample: pa.RecordBatch) -> int:
    """Bytes of a document in an object: a line."""
    return len(sample.column("value")[0].as_py()) + 1
