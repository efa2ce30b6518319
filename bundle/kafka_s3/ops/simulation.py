"""What would a configuration make of a day of traffic? The real loop over a virtual clock that jumps from poll to poll, and a cluster of
sampled or made records that come again and again at a steady rate.

The bucket is a store in memory that counts requests, and forgets the content of objects that are complete.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.config.classes import FIELD_PARTITIONERS, REGISTRY_CONVERTERS
from kafka_s3.connect.config.option import Value
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.commands import look_every_ms
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.kafka.plain_reader import ENVELOPE
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import Upload
from kafka_s3.model.offsets import LogEnd, TopicPartition
from kafka_s3.model.protocols import MIRRORED, Message, Refusal, Topic
from kafka_s3.model.tasks import Assignment, TaskOutcome
from kafka_s3.ops.forecast import DAY_MS, Forecast, forecast_of, iceberg_requests, table_requests
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.run.wiring.delta import written_by_spark
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectStore

ROWS: Final = 16_384
WORDS: Final = (
    "order", "item", "price", "client", "street", "city", "note", "ready", "paid", "sent", "open", "return", "gift", "code", "blue",
    "green", "small", "large", "fast",
)  # fmt: skip
MADE: Final = 10_000
"""How many different records are made where none were sampled."""
SAMPLE_BYTES: Final = 64 << 20
"""What is kept of the sample of one topic-partition at most, keys and values together."""


@dataclass(frozen=True, slots=True)
class Load:
    """Traffic to simulate: streams by topic-partition, when it begins (epoch ms), and what is to be known of it."""

    streams: dict[TopicPartition, Stream]
    begun_ms: int
    notes: tuple[str, ...] = ()


def made_load(settings: Settings, *, rate: float, record_bytes: int, partitions: int, begun_ms: int) -> Load:
    """Records that are made, `rate` a second in all, spread evenly, from `begun_ms` (epoch ms) on.

    Raises ConfigError where the configuration needs real ones.
    """
    topics = settings.names("topics") or ("topic",)
    converter = settings.text("value.converter")
    needs = (
        "values of a schema registry" if converter in REGISTRY_CONVERTERS
        else "fields" if settings.text("partitioner.class") in FIELD_PARTITIONERS or settings.text("timestamp.extractor") == "RecordField"
        else "transforms of its fields" if settings.names("transforms") else ""
    )  # fmt: skip
    if needs:
        rule = f"makes records without {needs}, and this configuration needs them."
        raise ConfigError(
            [Problem("--record-bytes", str(record_bytes), rule, "Leave it out: the topic is sampled then.")]
        )
    topic_partitions = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
    stream = steady(made_sample(record_bytes), rate / len(topic_partitions))
    return Load(
        dict.fromkeys(topic_partitions, stream),
        begun_ms,
        ("Records are made of words and ids: sizes hold as far as yours compress like that.",),
    )


def sampled_load(
    settings: Settings, kafka: KafkaRecords, *, records: int, rate: float | None, otherwise_ms: int
) -> Load:
    """The newest records of the sink's topics, about so many, as they came, from the time of the first on.

    `rate` (a second, in all) is put over their own. Where no record has a time the traffic begins at `otherwise_ms`, epoch ms.
    Raises ConfigError where the topics are not there, or hold nothing to sample.
    """
    topics = settings.names("topics")
    if not topics:
        raise ConfigError(
            [Problem("topics", None, "names no topic to sample.", "Give --set topics=... with topics.regex.")]
        )
    found = kafka.describe(list(topics))
    if gone := [name for name in topics if name not in found]:
        rule = f"names topics that are not in Kafka, or may not be described: {', '.join(gone)}."
        remedy = "Correct it, create them, or leave them out: --set topics=..."
        raise ConfigError([Problem("topics", ",".join(topics), rule, remedy)])
    topic_partitions = [
        TopicPartition(name, number) for name, topic in sorted(found.items()) for number in topic.partitions
    ]
    starts, heads = kafka.starts(topic_partitions), kafka.heads(topic_partitions)
    filled = [tp for tp in topic_partitions if tp in starts and heads.get(tp, 0) > starts[tp]]
    if not filled:
        rule = f"({', '.join(topics)}) hold no records to sample."
        raise ConfigError([Problem("topics", ",".join(topics), rule, "Give --rate and --record-bytes.")])
    each = max(records // len(filled), 1)
    samples = {tp: _newest(kafka, tp, max(starts[tp], heads[tp] - each), heads[tp]) for tp in filled}
    firsts = [pc.min(sample.column("timestamp")).as_py() for sample in samples.values()]
    begun_ms = min((first for first in firsts if first is not None), default=otherwise_ms)
    streams = {tp: as_it_came(sample, begun_ms=begun_ms) for tp, sample in samples.items() if len(sample)}
    return Load(_at_rate(streams, rate), begun_ms, _sample_notes(settings, streams, rate))


def _newest(kafka: KafkaRecords, tp: TopicPartition, start: int, until: int) -> pa.RecordBatch:
    taken, size = [], 0
    for batch in kafka.batches(tp, start, until=until):
        taken.append(pa.RecordBatch.from_arrays([batch.column(name) for name in ENVELOPE.names], schema=ENVELOPE))
        size += batch.nbytes
        if size > SAMPLE_BYTES:
            break
    return (
        pa.Table.from_batches(taken, schema=ENVELOPE).combine_chunks().to_batches()[0]
        if taken
        else pa.RecordBatch.from_pylist([], ENVELOPE)
    )


def _at_rate(streams: dict[TopicPartition, Stream], rate: float | None) -> dict[TopicPartition, Stream]:
    if rate is None:
        return streams
    whole = sum(stream.per_second for stream in streams.values())
    return {tp: stream.at_rate(stream.per_second * rate / whole) for tp, stream in streams.items()}


def _sample_notes(settings: Settings, streams: dict[TopicPartition, Stream], rate: float | None) -> tuple[str, ...]:
    found = [
        f"Sampled {sum(len(one.sample) for one in streams.values()):,} records of {len(streams)} topic-partitions."
    ]
    if rate is None:
        pace = sum(one.per_second for one in streams.values())
        found.append(f"They came at {pace:,.1f} records a second; --rate simulates another pace.")
    if settings.text("timestamp.extractor") == "RecordField":
        found.append(
            "Times in the values are those of the sample: directories and intervals by them come of the sample alone."
        )
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Stream:
    """The records of one topic-partition: a sample that comes again and again, each record as long after the first as in the sample.

    `times_us` are the records' own times since the traffic began, microseconds, not always in order; after `period_us` the sample comes
    again. A record comes at its own time, or with the one before it where that is later.
    """

    sample: pa.RecordBatch
    times_us: np.ndarray[Any, np.dtype[np.int64]]
    period_us: int

    @property
    def per_second(self) -> float:
        """Records a second."""
        return len(self.sample) * 1_000_000 / self.period_us

    def at_rate(self, per_second: float) -> Stream:
        """The same records at another pace."""
        pace = self.per_second / per_second
        return Stream(self.sample, np.rint(self.times_us * pace).astype(np.int64), max(round(self.period_us * pace), 1))

    @cached_property
    def _arrivals_us(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.maximum.accumulate(self.times_us)

    def until(self, elapsed_ms: int) -> int:
        """How many records have come before that time, ms since the traffic began."""
        first = int(self.times_us.min())
        cycle, rest = divmod(max(elapsed_ms * 1000 - first, 0), self.period_us)
        return cycle * len(self.sample) + int(np.searchsorted(self._arrivals_us, rest + first))

    def rows(self, start: int, until: int, *, begun_ms: int) -> pa.RecordBatch:
        """Records `[start, until)` with their own times, epoch ms."""
        offsets = np.arange(start, until, dtype=np.int64)
        cycles, rows = np.divmod(offsets, len(self.sample))
        times = begun_ms + (cycles * self.period_us + self.times_us[rows]) // 1000
        taken = self.sample.take(pa.array(rows))
        columns = [
            pa.array(offsets),
            pa.array(times),
            taken.column("key"),
            taken.column("value"),
            taken.column("headers"),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=ENVELOPE)


def steady(sample: pa.RecordBatch, per_second: float) -> Stream:
    """The sample at equal intervals, the first record at once."""
    times = np.rint(np.arange(len(sample)) * (1_000_000 / per_second)).astype(np.int64)
    return Stream(sample, times, max(round(len(sample) * 1_000_000 / per_second), 1))


def as_it_came(sample: pa.RecordBatch, *, begun_ms: int) -> Stream:
    """The sample with the intervals between its own times, one record a second where these do not say it.

    Its first record comes where it came between two others, of traffic that has run since `begun_ms` (epoch ms) or longer.
    """
    times = sample.column("timestamp")
    bounds = pc.min_max(times).as_py()
    if times.null_count or bounds["max"] == bounds["min"]:
        return steady(sample, 1)
    own = times.to_numpy() * 1000
    between = (int(own.max()) - int(own.min())) / (len(sample) - 1)
    phase = int((int(own.min()) - begun_ms * 1000) % between)
    return Stream(sample, own - own.min() + phase, round(between * len(sample)))


@dataclass
class Traffic:
    """A cluster whose topic-partitions get their streams from `begun_ms` on, and the engine that reads them. Nothing is ever lost in it."""

    streams: Mapping[TopicPartition, Stream]
    begun_ms: int
    clock_ms: Callable[[], int]
    pipeline: Pipeline
    store: ObjectStore
    groups: dict[TopicPartition, int] = field(default_factory=dict)

    def cluster_id(self) -> str:
        """A fixed id."""
        return "simulated"

    def topic_names(self) -> list[str]:
        """The topics with a stream."""
        return sorted({tp.topic for tp in self.streams})

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """Topics by name."""
        found = {}
        for name in names:
            partitions = tuple(sorted(tp.partition for tp in self.streams if tp.topic == name))
            if partitions:
                found[name] = Topic(name, f"id-{name}", partitions)
        return found

    def heads(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """One past the last record that has come before now."""
        elapsed = self.clock_ms() - self.begun_ms
        return {tp: self.streams[tp].until(elapsed) for tp in partitions if tp in self.streams}

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """The same, in the one leader epoch there is."""
        return {tp: LogEnd(head, 0) for tp, head in self.heads(partitions).items()}

    def cut_before(self, positions: Mapping[TopicPartition, LogEnd]) -> dict[TopicPartition, int]:
        """No log is ever cut."""
        return {}

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Everything is kept."""
        return {tp: 0 for tp in partitions if tp in self.streams}

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first record that comes at a time or later."""
        heads = self.heads(times)
        found: dict[TopicPartition, int | None] = {}
        for tp, ms in times.items():
            if tp in heads:
                offset = self.streams[tp].until(ms - self.begun_ms)
                found[tp] = offset if offset < heads[tp] else None
        return found

    def group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What the sink has committed."""
        return {tp: self.groups[tp] for tp in partitions if tp in self.groups}

    def group_progress(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The same, each with its metadata."""
        return {tp: (offset, MIRRORED) for tp, offset in self.group_offsets(group, partitions).items()}

    def group_members(self, group: str) -> list[str]:
        """Nobody else is there."""
        return []

    def commit_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Notes the offsets."""
        self.groups.update(offsets)

    def produce(self, topic: str, messages: Iterable[Message], *, replication: int) -> list[Refusal]:
        """Takes all messages."""
        return []

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One outcome per assignment, by the product's own pipeline."""
        return [self.pipeline.outcome(wanted, self._batches(wanted), self.store) for wanted in assignments]

    def _batches(self, wanted: Assignment) -> Iterator[pa.RecordBatch]:
        stream = self.streams[wanted.topic_partition]
        for at in range(wanted.first_unread, wanted.until, ROWS):
            yield stream.rows(at, min(at + ROWS, wanted.until), begun_ms=self.begun_ms)


@lru_cache(maxsize=4)  # the same size has the same documents
def made_sample(record_bytes: int) -> pa.RecordBatch:
    """JSON documents of that size in bytes, each with a number, an id and a text; they compress as texts with ids do, not like noise."""
    chance, rows = random.Random(0), []
    for number in range(MADE):
        head = {"number": number, "id": f"{chance.getrandbits(64):016x}"}
        left = max(record_bytes - len(json.dumps(head, separators=(",", ":"))) - len(',"text":""'), 0)
        text = " ".join(chance.choices(WORDS, k=left // 4 + 1))[:left]
        value = json.dumps({**head, "text": text}, separators=(",", ":")).encode()
        rows.append({"offset": number, "timestamp": 0, "key": str(head["id"]).encode(), "value": value, "headers": []})
    return pa.RecordBatch.from_pylist(rows, schema=ENVELOPE)


READING: Final = frozenset({"get", "head"})
FREE: Final = frozenset({"delete", "abort"})
"""What S3 does not charge for; everything that is neither counts as writing, listings too."""
KINDS: Final = {
    "put": "put", "put_new": "put", "get": "get", "head": "head", "list": "list", "upload_exists": "list", "delete": "delete",
    "create_upload": "create upload", "upload_part": "upload part", "abort_upload": "abort", "tag": "tag",
}  # fmt: skip
"""What a verb of the store is as a request."""
MOST_RECORDS: Final = 3_000_000
SHORTEST_MS: Final = 60_000
MOST_POLLS: Final = 20_000
"""What one simulation does at most, unless its window is given: so many records, in no less than a minute, looked at so often."""
OURSELVES: Final[dict[str, Value]] = {
    "name": "simulated",
    "delta.enable": False,
    "iceberg.enable": False,
    "compact.enable": False,
    "glue.database.name": "",
    "notification.class": "",
}
"""What a simulated sink is set to, whatever the configuration says."""


def simulate(
    settings: Settings,
    streams: Mapping[TopicPartition, Stream],
    *,
    begun_ms: int,
    window_ms: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Forecast:
    """The forecast of one window of traffic from `begun_ms` (epoch ms) on. Raises what the sink raises: RecordError, RegistryError.

    `progress` is called with how many ms of the window are done. Nobody outside is notified: Glue and notifications are left out. Tables
    are not kept; their requests are counted, but for those of one that Spark writes.
    """
    plain = replace(settings, values={**settings.values, **OURSELVES})
    store, clock = CountingStore(), _Clock(begun_ms)
    traffic = Traffic(streams, begun_ms, clock, make_pipeline(plain), store)
    sink = build_sink(plain, traffic, source=traffic, store=store, clock_ms=clock)
    sink.open()
    step = max(plain.number("poll.interval.ms"), -(-window_ms // MOST_POLLS))
    while clock.now_ms < begun_ms + window_ms:
        clock.now_ms = min(clock.now_ms + step, begun_ms + window_ms)
        sink.poll_and_commit()
        progress(clock.now_ms - begun_ms)
    writes, reads = store.writes, store.reads
    log = CommitLog(store, state_paths(plain), clock_ms=clock)
    beat_ms = plain.number("heartbeat.interval.ms")
    heartbeats, looks = window_ms // beat_ms, window_ms // beat_ms + window_ms // look_every_ms(beat_ms)
    if settings.flag("delta.enable") and not written_by_spark(settings):
        of_tables = table_requests(log.entries())
        writes, reads = writes + of_tables[0], reads + of_tables[1]
    if settings.flag("iceberg.enable"):
        of_tables = iceberg_requests(log.entries())
        writes, reads = writes + of_tables[0], reads + of_tables[1]
    return forecast_of(
        log.entries(),
        window_ms=window_ms,
        records=sum(stream.until(window_ms) for stream in streams.values()),
        writes=writes + heartbeats,
        reads=reads + looks,
    )


def window_of(streams: Mapping[TopicPartition, Stream]) -> int:
    """How long a time is simulated where nobody says it, ms: a day, or less where that would be too many records."""
    rate = sum(stream.per_second for stream in streams.values())
    return max(min(DAY_MS, int(MOST_RECORDS / rate * 1000)), SHORTEST_MS)


class CountingStore(MemoryStore):
    """The contract is `store.ObjectStore`'s, but for the content of completed uploads: it is gone. `requests` counts calls by kind."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: Counter[str] = Counter()

    @property
    def writes(self) -> int:
        """Requests at the price of writing."""
        return sum(count for kind, count in self.requests.items() if kind not in READING | FREE)

    @property
    def reads(self) -> int:
        """Requests at the price of reading."""
        return sum(self.requests[kind] for kind in READING)

    def complete_upload(self, upload: Upload) -> None:
        """As `store.ObjectStore`; then the content is forgotten."""
        self.requests["complete upload"] += 1
        super().complete_upload(upload)
        super().put(upload.key, b"")


def _counted(verb: str, kind: str) -> Callable[..., Any]:
    ask = getattr(MemoryStore, verb)

    def call(self: CountingStore, *given: Any, **named: Any) -> Any:
        self.requests[kind] += 1
        return ask(self, *given, **named)

    return call


for _verb, _kind in KINDS.items():
    setattr(CountingStore, _verb, _counted(_verb, _kind))


@dataclass
class _Clock:
    """A time that the simulation moves, epoch ms."""

    now_ms: int

    def __call__(self) -> int:
        return self.now_ms
