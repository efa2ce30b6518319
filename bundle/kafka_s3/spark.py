"""How are a sink's committed records read as a DataFrame? By the commit log, in batch and as a stream; no listing of the bucket.

    orders = read_committed(spark, "s3-sink.json", "orders")

    spark.dataSource.register(KafkaS3)           # the same as a source, by its name
    spark.read.format("kafka_s3").option("topic", "orders").load("s3://bucket/_kafka_s3/orders-to-s3")
    spark.readStream.format("kafka_s3").options(config="s3-sink.json", topic="orders", maxEntriesPerTrigger=100).load()

Spark's Python workers read the objects with the sink's own readers and credentials, and hand Arrow batches over. Where Spark Connect is
used, its server and workers need this package.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from itertools import groupby, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafka_s3.connect.config.settings import REGION, Settings
from kafka_s3.connect.converters.whole_records import FIELD
from kafka_s3.engine.log.committed import (
    CommittedFile,
    committed_files,
    complete_through,
    end_of_merges,
    entries_between,
    entry_at,
    last_committed_by,
    rewrites_behind,
)
from kafka_s3.engine.log.dead_letters import FiledLetter, Ledger, LetterFile, Settled, letters_of
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.task.table_guard.columns import compare_columns, read_columns
from kafka_s3.followers.ddl.table import partition_keys
from kafka_s3.model.errors import ConfigError, LogDamaged, Problem, TableRefused
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.timing import now_ms
from kafka_s3.objects.batches import Bytes, Columns, OtherFields, object_schema, record_batches, settled
from kafka_s3.objects.readers import ObjectUnreadable, StoredObject
from kafka_s3.ops.restore.files import RowReading, StoredFile
from kafka_s3.run.spark.frames import frame_of
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "kafka_s3"
HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
LOOKED_INTO: Final = 64
"""So many objects are asked for their columns where the log does not say that they have the same."""
LOOKS: Final = 8
"""Objects that are asked at a time."""
PART_BYTES: Final = 128 << 20
OBJECT_COST: Final = 4 << 20
"""What opening an object costs, in bytes read: Spark's own figures of both."""
PARTS: Final = 32
"""A read of less than PARTS * PART_BYTES is cut in about so many parts."""
LOCAL_BYTES: Final = 16 << 20
LOCAL_RECORDS: Final = 500_000
"""Reads up to this size need no task: the driver holds their rows in memory."""
LOCAL_UNPACKED: Final = 256 << 20
"""Unless they unpack to more than this, which nobody knows before: then the tasks read them after all."""
_OF_4_2: Final = "pyspark.sql.streaming.datasource"
"""Where Spark 4.2 has what 4.0 has not: limits of a micro-batch, and streams that end with what is there."""
LOOK_AGAIN_S: Final = 1.0
"""A stream that has all looks at the bucket so often: a request."""

KEY: Final = "_key"
METADATA: Final = StructType([
    StructField("_topic", StringType()), StructField("_partition", IntegerType()), StructField("_offset", LongType()),
    StructField("_first_offset", LongType()), StructField("_last_offset", LongType()), StructField("_row", LongType()),
    StructField("_entry", LongType()), StructField("_object", StringType()),
])  # fmt: skip
"""`_offset` is null where the log does not say it: with `_first_offset`, `_row` has the same order within a topic-partition's object."""
LETTER: Final = StructType([
    StructField("topic", StringType()), StructField("partition", IntegerType()), StructField("offset", LongType()),
    StructField("timestamp", TimestampType()), StructField("key", BinaryType()), StructField("value", BinaryType()),
    StructField("headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))),
    StructField("stage", StringType()), StructField("component", StringType()), StructField("exception", StringType()),
    StructField("message", StringType()), StructField("state", StringType()), StructField("entry", LongType()),
])  # fmt: skip
DEAD_LETTER: Final = "_dead_letter"
"""The column of dead letters beside records."""


def read_committed(
    spark: SparkSession,
    config_or_place: str | Path | Mapping[str, str],
    topic: str,
    *,
    since_entry: int | None = None,
    until_entry: int | None = None,
    as_of: datetime | str | None = None,
    with_dead_letters: bool | Literal["only"] = False,
    with_metadata: bool = False,
    with_keys: bool = False,
    schema: StructType | str | None = None,
) -> DataFrame:
    """The records of a topic that the log's entries from `since_entry` to `until_entry` committed, both included; each once.

    What is meant is fixed with the call: entries that come later are not in it. Without `until_entry` these are all whose objects are
    visible; with `as_of` those committed at that time or before. `config_or_place` is the sink's configuration (file or settings), or its
    state, `s3://bucket/_kafka_s3/sink`. `with_metadata` adds the columns of METADATA, `with_keys` the column `_key`, and a row for each
    tombstone that was stored. `with_dead_letters` adds a row for each dead letter, in the column `_dead_letter`; "only" gives them alone.

    Raises ConfigError for an unknown sink, topic or entry, LogDamaged, StorageError; while rows are read Spark's errors, with our text.
    """
    location = location_of(config_or_place)
    wanted = WantedRecords(topic, since_entry, until_entry, None if as_of is None else _time("as_of", as_of))
    letters = "only" if with_dead_letters == "only" else "with" if with_dead_letters else "none"
    options: dict[str, str | int | bool | None] = {
        "topic": topic, "sinceEntry": since_entry or 0, "untilEntry": last_wanted(location.log(), wanted), "deadLetters": letters,
        "withMetadata": with_metadata, "withKeys": with_keys,
    }  # fmt: skip
    found = spark.read.format(register(spark, location)).options(**options)
    return (found if schema is None else found.schema(schema)).load()


def register(spark: SparkSession, sink: str | Path | Mapping[str, str] | SinkLocation | None = None) -> str:
    """Makes the source known to a session, and gives its name for `format`.

    With a configuration the source is that of its sink, under a name of its own: secrets travel to Spark's workers as in the sink itself,
    and are no options, which a plan may show. Without, the name is `kafka_s3`, and options name the sink.
    """
    source = KafkaS3
    if sink is not None:
        source = _bound(sink if isinstance(sink, SinkLocation) else location_of(sink))
    spark.dataSource.register(source)
    return source.name()


def _bound(location: SinkLocation) -> type[KafkaS3]:
    """The source of one sink, by a name that is the same for the same sink."""
    digest = hashlib.sha256(pickle.dumps(location)).hexdigest()[:16]

    class Bound(KafkaS3):
        given = location

        @classmethod
        def name(cls) -> str:
            return f"{NAME}_{digest}"

    return Bound


# ------------------------------------------------------------ which sink, and which of its entries


@dataclass(frozen=True, slots=True)
class SinkLocation:
    """A sink's log and objects: where they are, and how rows of bytes are separated. It is picklable; its text shows no secret."""

    bucket: str
    store: ObjectStore = field(repr=False)
    paths: StatePaths
    reading: RowReading

    def log(self) -> CommitLog:
        """The log, loaded. Raises ConfigError where there is none, LogDamaged, StorageError."""
        log = CommitLog(self.store, self.paths, clock_ms=now_ms)
        log.load()
        if log.last is None:
            bucket = f"s3://{self.bucket}/{self.paths.root}"
            raise _problem(
                "sink", self.paths.sink, f"has no commit log in {bucket}.", "Run it first, or check the name."
            )
        return log


def location_of(
    given: str | Path | Mapping[str, str],
    *,
    region: str | None = None,
    store_url: str | None = None,
    service_credential: str | None = None,
) -> SinkLocation:
    """The sink of a configuration, its references resolved here, or of a location: `s3://bucket/<state.prefix>/<sink>`.

    A location's region, address and service credential are by default KAFKA_S3_REGION, KAFKA_S3_STORE_URL and KAFKA_S3_SERVICE_CREDENTIAL,
    as for the commands; AWS's credentials are found as every tool finds them. Raises ConfigError.
    """
    if isinstance(given, str) and given.startswith(("s3://", "s3a://")):
        names = {"region": region, "store_url": store_url, "service_credential": service_credential}
        return _named_location(
            given, {name: text or os.environ.get(f"KAFKA_S3_{name.upper()}") for name, text in names.items()}
        )
    # here: what follows is for whoever asks, and Spark's workers, which import this module, need none of it
    from kafka_s3.connect.config.read import read_config
    from kafka_s3.connect.config.validate import resolved, validate

    texts = given if isinstance(given, Mapping) else read_config(given).texts
    return location_of_settings(resolved(validate(texts).usable()))


def location_of_settings(settings: Settings) -> SinkLocation:
    """The sink of resolved settings."""
    from kafka_s3.ops.restore.plan import reading_of
    from kafka_s3.run.wiring.bucket import store_options
    from kafka_s3.run.wiring.pipeline import state_paths

    options = store_options(settings)
    return SinkLocation(options.bucket, S3Store(options), state_paths(settings), reading_of(settings))


def _named_location(url: str, named: Mapping[str, str | None]) -> SinkLocation:
    """How its bytes are read, the settings say that the sink noted last; where it noted none, the defaults."""
    from kafka_s3.connect.config.validate import validate
    from kafka_s3.engine.control.stored_settings import read_notes
    from kafka_s3.ops.restore.plan import reading_of
    from kafka_s3.run.wiring.bucket import named_folder

    parts = urlsplit(url)
    prefix, _, sink = parts.path.strip("/").rpartition("/")
    if not (parts.netloc and prefix and sink):
        raise _problem("location", url, "does not name a sink's state.", "Write s3://bucket/_kafka_s3/sink.")
    folder = named_folder(
        parts.netloc, prefix, region=named["region"] or REGION, store_url=named["store_url"],
        service_credential=named["service_credential"],
    )  # fmt: skip
    paths = folder.known(sink)
    notes = read_notes(folder.store, paths)
    return SinkLocation(
        folder.bucket, folder.store, paths, reading_of(validate(notes[-1].set if notes else {}).settings)
    )


@dataclass(frozen=True, slots=True)
class WantedRecords:
    """Which records, and with what beside them; `letters` is `none`, `with` or `only`."""

    topic: str
    since: int | None = None
    until: int | None = None
    as_of: datetime | None = None
    letters: str = "none"
    metadata: bool = False
    keys: bool = False

    @property
    def first(self) -> int:
        """The first entry."""
        return self.since or 0

    def columns(self) -> list[StructField]:
        """What is beside the records' own columns."""
        found = list(METADATA) if self.metadata else []
        found += [StructField(KEY, BinaryType())] if self.keys else []
        return [*found, *([StructField(DEAD_LETTER, LETTER)] if self.letters == "with" else [])]


def last_wanted(log: CommitLog, wanted: WantedRecords) -> int:
    """The last entry that is read of a log. Raises ConfigError for a topic or an entry that it does not have, LogDamaged, StorageError."""
    end = complete_through(log)
    topics = sorted({tp.topic for tp in log.state.progress} | set(log.state.topic_ids))
    if wanted.topic not in topics:
        raise _problem(
            "topic", wanted.topic, "is not a topic of this sink's log.", f"It has {', '.join(topics) or 'none yet'}."
        )
    for name, version, most in (("since_entry", wanted.since, end + 1), ("until_entry", wanted.until, end)):
        if version is not None and not 0 <= version <= most:
            raise _problem(
                name, str(version), f"is not an entry that can be read: {_extent(log, end)}", "Choose one of these."
            )
    if wanted.until is not None and wanted.as_of is not None:
        raise _problem("as_of", str(wanted.as_of), "and until_entry both say where to end.", "Give one of them.")
    if wanted.as_of is not None:
        found = last_committed_by(log, wanted.as_of, until=end)
        if found < wanted.first:
            first = entry_at(log.store, log.paths, wanted.first).committed_at
            raise _problem(
                "as_of",
                wanted.as_of.isoformat(),
                f"is before entry {wanted.first}, of {first}.",
                "Choose a later time.",
            )
        return found
    return end if wanted.until is None else wanted.until


def _extent(log: CommitLog, end: int) -> str:
    assert log.last is not None
    pending = f" The objects of entry {end + 1} are not all visible yet." if log.last.version > end else ""
    return f"the log has entries 0 to {end}.{pending}"


def _time(name: str, given: datetime | str) -> datetime:
    try:
        found = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise _problem(name, str(given), "is not a time.", "Write 2025-01-31T10:00:00Z.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _problem(key: str, value: str | None, rule: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(key, value, rule, remedy)])


# ------------------------------------------------------------ the columns of a topic


def topic_schema(location: SinkLocation, wanted: WantedRecords) -> StructType:
    """The columns of the wanted records, the newest object's first; every one may be null. Raises TableRefused, ConfigError, LogDamaged.

    Types widen as Delta's do. Objects of one schema of a registry are asked once; of others the newest and the oldest.
    """
    if wanted.letters == "only":
        return LETTER
    log = location.log()
    until = last_wanted(log, wanted)
    files = _values(log, wanted.first, until, wanted.topic) or _values(log, 0, until, wanted.topic)
    if not files and wanted.letters == "none":
        raise TableRefused(
            f"Topic {wanted.topic} has no object of values up to entry {until}, so that its columns are not known. Give the schema."
        )
    own = _united_columns(location, files)
    named = [
        file.encoded_partition for file in files if file.format != "block_gzip"
    ]  # whose objects are in no such directory
    keys = partition_keys(list(dict.fromkeys(named)), own)
    beside = wanted.columns()
    taken, spelt = {one.name for one in beside}, {name.lower() for name in own}
    return StructType([
        *(one for name, one in own.items() if name not in taken),
        *(StructField(key.name, StringType()) for key in keys if key.name.lower() not in spelt),
        *beside,
    ])  # fmt: skip


def records_of_entries(spark: SparkSession, location: SinkLocation, wanted: WantedRecords) -> tuple[DataFrame, bool]:
    """The wanted records with the columns that they have themselves, not their directories; and whether this process has read them.

    It does where they are few: Spark's Python workers take longer to begin. Raises TableRefused, ConfigError, LogDamaged, StorageError.
    """
    log = location.log()
    until = last_wanted(log, wanted)
    files = _values(log, wanted.first, until, wanted.topic)
    own = StructType([*_united_columns(location, files or _values(log, 0, until, wanted.topic)).values()])
    rows = Rows(location, wanted, own, OtherFields.REFUSED)
    parts = rows.parts(log, wanted.first, until)
    read = [one for part in parts for one in part.files]
    if sum(one.facts.upload.size for one in read) <= LOCAL_BYTES and sum(one.rows for one in read) <= LOCAL_RECORDS:
        batches = _read_here(rows, read, most=LOCAL_UNPACKED)
        if batches is not None:
            return frame_of(spark, pa.Table.from_batches(batches, arrow_schema(own)), own), True
    options: dict[str, str | int] = {"topic": wanted.topic, "sinceEntry": wanted.first, "untilEntry": until}
    records = spark.read.format(register(spark, location)).options(**options).load()
    return records.select(*(f"`{name.replace('`', '``')}`" for name in own.fieldNames())), False


def _read_here(rows: Rows, files: Sequence[CommittedFile], *, most: int) -> list[pa.RecordBatch] | None:
    """The rows of some files, in their order; None where they take more than so many bytes of memory. Several are read at a time."""
    held: list[int] = []

    def read(one: CommittedFile) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        for batch in rows.read(Part(files=(one,))):
            held.append(batch.nbytes)
            if sum(held) > most:
                break
            found.append(batch)
        return found

    with ThreadPool(LOOKS) as pool:
        found = list(pool.each(read, files))
    return None if sum(held) > most else [batch for some in found for batch in some]


def _values(log: CommitLog, first: int, last: int, topic: str) -> list[DataFile]:
    found = committed_files(entries_between(log, first, last), topic, later=rewrites_behind(log, last))
    return [one.values for one in reversed(found) if one.values is not None]


def _united_columns(location: SinkLocation, files: Sequence[DataFile]) -> dict[str, StructField]:
    looked = _to_look_into(files)
    with ThreadPool(LOOKS) as pool:
        found = settled(list(pool.each(lambda file: object_schema(location.store, _stored(file)), looked)))
    united, name = read_columns('{"fields":[]}'), ""
    for file, one in zip(looked, found, strict=True):
        fitted = compare_columns(
            united, read_columns(from_arrow_schema(one, prefer_timestamp_ntz=False).json()).plain()
        )
        if fitted.conflicts:
            raise TableRefused(
                f"No type holds a column of both {file.key} and {name}: {'; '.join(fitted.conflicts.values())}. Give the schema with the "
                "type that is wanted (a string takes any number and text), or read fewer entries."
            )
        united, name = fitted.columns, name or file.key
    types = StructType.fromJson(json.loads(united.schema_string()))
    return {one.name: StructField(one.name, one.dataType) for one in types}


def _to_look_into(files: Sequence[DataFile]) -> list[DataFile]:
    """One object of each schema that has a name, and the newest and the oldest of others: the newest first."""
    chosen: dict[tuple[str, str, int], DataFile] = {}
    unnamed = 0
    half = LOOKED_INTO // 2
    total = sum(not _is_named(file) for file in files)
    for file in files:
        if _is_named(file):
            chosen.setdefault((file.format, file.schema, -1), file)
        else:
            if unnamed < half or unnamed >= total - half:
                chosen[file.format, "", unnamed] = file
            unnamed += 1
    return list(chosen.values())


def _is_named(file: DataFile) -> bool:
    """Whether the objects of the same name have the same columns: a name with a version."""
    return file.format != "json" and " v" in file.schema


def _stored(file: DataFile) -> StoredObject:
    return StoredObject(file.key, file.upload.size, file.format)


# ------------------------------------------------------------ the source


class KafkaS3(DataSource):
    """The source `kafka_s3`. Its options: `config` (a file that the driver sees) or the path of `load` (the sink's state), `topic`, and the
    others in OPTIONS. Bound to a sink by `register`, it takes them without the first.
    """

    given: SinkLocation | None = None

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        own = {name.lower(): name for name in OPTIONS}
        for name in options:
            if name.lower() not in own:
                raise _problem(name, options[name], "is not an option of this source.", f"Known: {', '.join(OPTIONS)}.")
        self._options = {name.lower(): text for name, text in options.items()}
        self._location = self.given or self._named_location()
        self._wanted = self._wishes()
        self._others = OtherFields.IGNORED

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return NAME

    def schema(self) -> StructType:
        """The columns as they are found now; fields that come later stop the read, so that none is lost."""
        self._others = OtherFields.REFUSED
        return topic_schema(self._location, self._wanted)

    def reader(self, schema: StructType) -> CommittedReader:
        """What reads a batch."""
        return CommittedReader(self._rows(schema))

    def streamReader(self, schema: StructType) -> CommittedStream:  # noqa: N802
        """What reads a stream."""
        if self._wanted.until is not None or self._wanted.as_of is not None or self._wanted.since is not None:
            rule = "is for a batch: a stream has no end, and begins at startingEntry or startingTime."
            raise _problem("untilEntry, asOf, sinceEntry", None, rule, "Leave it out.")
        return CommittedStream(self._rows(schema), self._start(), self._whole("maxEntriesPerTrigger", 1))

    def _rows(self, schema: StructType) -> Rows:
        return Rows(self._location, self._wanted, schema, self._others)

    def _named_location(self) -> SinkLocation:
        config, location = self._text("config"), self._text("path")
        if (config is None) == (location is None):
            rule = "must be given, or the location of the sink's state as the path of load, and not both."
            raise _problem("config", config, rule, 'load("s3://bucket/_kafka_s3/sink"), or .option("config", FILE).')
        named = {name: self._text(option) for name, option in _OF_A_PLACE.items()}
        return location_of(config or location or "", **named)

    def _wishes(self) -> WantedRecords:
        topic = self._text("topic")
        if topic is None:
            raise _problem("topic", None, "is needed.", '.option("topic", "orders")')
        as_of, letters = self._text("asOf"), self._text("deadLetters") or "none"
        if letters not in ("none", "with", "only"):
            raise _problem("deadLetters", letters, "is not known.", "none, with (beside the records), or only.")
        return WantedRecords(
            topic,
            self._whole("sinceEntry"),
            self._whole("untilEntry"),
            None if as_of is None else _time("asOf", as_of),
            letters,
            self._flag("withMetadata"),
            self._flag("withKeys"),
        )

    def _start(self) -> StreamStart:
        entry, at = self._text("startingEntry"), self._text("startingTime")
        if entry is not None and at is not None:
            raise _problem("startingTime", at, "and startingEntry both say where to begin.", "Give one of them.")
        if at is not None:
            return StreamStart(time=_time("startingTime", at))
        if entry in (None, "earliest"):
            return StreamStart()
        return StreamStart(now=True) if entry == "now" else StreamStart(entry=self._whole("startingEntry"))

    def _text(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def _whole(self, name: str, least: int = 0) -> int | None:
        text = self._text(name)
        if text is not None and not (text.isascii() and text.isdigit() and int(text) >= least):
            raise _problem(name, text, f"must be a whole number from {least} on.", "Write one.")
        return None if text is None else int(text)

    def _flag(self, name: str) -> bool:
        text = (self._text(name) or "false").lower()
        if text not in ("true", "false"):
            raise _problem(name, text, "must be true or false.", "Write one of them.")
        return text == "true"


_OF_A_PLACE: Final = {"region": "region", "store_url": "storeUrl", "service_credential": "serviceCredential"}
OPTIONS: Final = (
    "config", "path", *_OF_A_PLACE.values(), "topic", "sinceEntry", "untilEntry", "asOf", "deadLetters", "withMetadata", "withKeys",
    "startingEntry", "startingTime", "maxEntriesPerTrigger",
)  # fmt: skip


@dataclass(frozen=True)
class Part(InputPartition):
    """What one task reads: files of records, and of dead letters with what settled some of them."""

    files: tuple[CommittedFile, ...] = ()
    letters: tuple[LetterFile, ...] = ()
    settled: Mapping[TopicPartition, Sequence[Settled]] = field(default_factory=dict)


class CommittedReader(DataSourceReader):
    """Reads a stretch of the log as a batch."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        """A part for some MiB of objects each."""
        log, wanted = self._rows.location.log(), self._rows.wanted
        return self._rows.parts(log, wanted.first, last_wanted(log, wanted))

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a part; there is none where nothing is to be read."""
        return self._rows.read(partition)


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Where a stream begins that has no checkpoint: with an entry (the first one by default), a time, or what comes from now on."""

    entry: int | None = None
    time: datetime | None = None
    now: bool = False


class CommittedStream(DataSourceStreamReader):
    """Reads the log as a stream. Its offsets are entries: `{"entry": 41, "commit": <its id>}` is behind entry 41, of that very log."""

    def __init__(self, rows: Rows, start: StreamStart, most: int | None) -> None:
        self._rows = rows
        self._start = start
        self._most = most
        self._log: CommitLog | None = None
        self._position: int | None = None
        self._last: int | None = None
        self._begun: dict[str, Any] | None = None
        self._end: dict[str, Any] | None = None
        self._complete = -1
        self._had_all_at = float("-inf")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Behind the entry before the first one that is wanted."""
        if self._begun is None:
            self._begun = self._offset(self._first() - 1)
        return self._begun

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Behind the last entry whose objects are visible, or so many entries further, and those whose objects were merged with theirs.

        Spark 4.2 says how far the stream has come, and its limit, which is none where all is wanted at once; Spark 4.0 says neither. A
        stream that begins now gets what is there as its first, empty batch: a start that dies before its first commit would otherwise
        begin with another `now`.
        """
        begins = self._position is None and (start is None or start == self._begun)
        if start is not None:
            self._position = int(start["entry"])
        elif self._position is None:
            self._position = int(self.initialOffset()["entry"])
        if begins and self._start.now:
            return self.initialOffset()
        end = self._end_behind(self._position)
        if self._most is not None and not (_LIMITS and isinstance(limit, _LIMITS.ReadAllAvailable)):
            end = min(end, self._position + self._most)
            first, topic = self._position + 1, self._rows.wanted.topic
            end = end_of_merges(self._known_log(), first, end, until=self._complete, topic=topic)
        if self._last is not None:
            end = max(min(end, self._last), self._position)
        if self._end is None or self._end["entry"] != end:
            self._end = self._offset(end)
        return self._end

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """What Spark 4.2 hands to `latestOffset`, unless the trigger wants all. It has no limit of entries: one of files stands for it."""
        return _LIMITS.ReadAllAvailable() if self._most is None else _LIMITS.ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Spark 4.2 asks for this with `trigger(availableNow=True)`: it ends with what is there now, in as many batches as it takes."""
        self._last = complete_through(self._known_log())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The parts of what lies between two offsets. Raises LogDamaged where they are of another log."""
        self._position = int(end["entry"])
        if end["entry"] < start["entry"] and not self._start.now:
            rule = "needs a Spark that says behind a checkpoint how far the stream has come, as 4.0 does; this one does not."
            raise _problem("maxEntriesPerTrigger", str(self._most), rule, "Leave it out.")
        if end["entry"] <= start["entry"]:
            return []
        for offset in (start, end):
            self._check(offset)
        return self._rows.parts(self._known_log(), start["entry"] + 1, end["entry"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        return self._rows.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept but in Spark's checkpoint."""

    def stop(self) -> None:
        """Nothing has to be closed."""

    def __getstate__(self) -> dict[str, Any]:
        """Tasks need how rows are read, no log."""
        return {**self.__dict__, "_log": None}

    def _first(self) -> int:
        log, start = self._known_log(), self._start
        end = last_wanted(log, self._rows.wanted)
        if start.now:
            return end + 1
        if start.time is not None:
            if start.time.timestamp() * 1000 > now_ms():
                rule = "is still to come: what is committed until then would have to be left out."
                raise _problem("startingTime", start.time.isoformat(), rule, "startingEntry=now begins now.")
            return last_committed_by(log, start.time - timedelta(microseconds=1), until=end) + 1
        if start.entry is not None and start.entry > end + 1:
            rule = f"is not an entry that a stream can begin with: {_extent(log, end)}"
            raise _problem("startingEntry", str(start.entry), rule, f"{end + 1} is the next one.")
        return start.entry or 0

    def _offset(self, entry: int) -> dict[str, Any]:
        if entry < 0:
            return {"entry": -1, "commit": ""}
        location = self._rows.location
        return {"entry": entry, "commit": entry_at(location.store, location.paths, entry).commit_id}

    def _check(self, offset: Mapping[str, Any]) -> None:
        if offset["entry"] >= 0 and self._offset(offset["entry"])["commit"] != offset["commit"]:
            key = self._rows.location.paths.commit(offset["entry"])
            raise LogDamaged(
                f"{key} is not the entry that the stream's checkpoint means: the sink's log was deleted and started again. Start the "
                "stream again, too, with another checkpointLocation."
            )

    def _end_behind(self, position: int) -> int:
        """The last entry that can be read. A stream that has them all waits a moment before it looks again: a small request."""
        time.sleep(max(0.0, self._had_all_at + LOOK_AGAIN_S - time.monotonic()))
        log = self._known_log()
        log.catch_up()
        if self._complete < log.state.version:
            self._complete = complete_through(log)
        if self._complete <= position:
            self._had_all_at = time.monotonic()
        return max(self._complete, position)

    def _known_log(self) -> CommitLog:
        if self._log is None:
            self._log = self._rows.location.log()
        return self._log


_LIMITS: Final[Any] = import_module(_OF_4_2) if find_spec(_OF_4_2) else None
if _LIMITS is not None:
    _LIMITS.SupportsTriggerAvailableNow.register(CommittedStream)


# ------------------------------------------------------------ rows


@dataclass(frozen=True)
class Rows:
    """How the rows of a sink's files are read, with which columns."""

    location: SinkLocation
    wanted: WantedRecords
    schema: StructType
    others: OtherFields

    def parts(self, log: CommitLog, first: int, last: int) -> list[Part]:
        """What the tasks of a read of these entries get: about as many bytes each, files of a topic-partition in their order."""
        ledger, topic = Ledger(), self.wanted.topic

        def seen() -> Iterator[CommitEntry]:
            for entry in entries_between(log, first, last):
                if self.wanted.letters != "none":
                    ledger.add(entry)
                yield entry

        files = committed_files(seen(), topic, later=rewrites_behind(log, last))
        if self.wanted.letters == "only":
            files = []
        files = [one for one in files if one.values is not None or self._has_keys]
        found = [Part(files=some) for some in _shares(files)]
        letters = tuple(one for one in ledger.files.values() if one.file.topic == topic)
        if letters:
            settled = {tp: tuple(some) for tp, some in ledger.settled.items() if tp.topic == topic}
            found.append(Part(letters=letters, settled=settled))
        return found

    def read(self, part: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a part, as batches with exactly the columns of the schema. Raises ObjectUnreadable, StorageError, LogDamaged."""
        if not isinstance(part, Part):
            return
        for _, slices in groupby(part.files, lambda one: one.facts.key):
            yield from self._records(tuple(slices))
        for letter in part.letters:
            filed = letters_of(self.location.store, letter, part.settled)
            while some := list(islice(filed, LETTERS_AT_ONCE)):
                yield self._letter_batch(some)

    @property
    def _has_keys(self) -> bool:
        return KEY in self.schema.names

    def _records(self, slices: Sequence[CommittedFile]) -> Iterator[pa.RecordBatch]:
        """The rows of one object that count: of some of its slices, in their order."""
        target, one = arrow_schema(self.schema), slices[0]
        each = [FileColumns(some, target) for some in slices]
        columns = max(each, key=lambda some: len(some.of_records))
        keys, keys_at = self._keys(one) if self._has_keys else iter(()), 0
        count, wanted = 0, _records_of_object(one)
        for batch in self._values(one, columns):
            for some, own in zip(slices, each, strict=True):
                first = _first_row(some)
                begin, end = max(first, count), min(first + some.rows, count + len(batch))
                if begin < end:
                    deque(islice(keys, begin - keys_at), maxlen=0)
                    yield own.complete(batch[begin - count : end - count], begin - first, keys)
                    keys_at = end
            count += len(batch)
        if count != wanted:
            raise ObjectUnreadable(
                f"{one.facts.key} holds {count:,} records, and entry {one.entry} of the log counts {wanted:,}. It was written over since: "
                "a later entry names it again, or somebody else did. kafka-s3 verify says which."
            )

    def _values(self, one: CommittedFile, columns: FileColumns) -> Iterator[pa.RecordBatch]:
        records = _records_of_object(one)
        if one.values is None:  # tombstones
            for at in range(0, records, TOMBSTONES_AT_ONCE):
                yield columns.nulls(min(TOMBSTONES_AT_ONCE, records - at))
            return
        wanted = Columns(columns.of_records, self.others, columns.directories)
        form = Bytes(self.location.reading.separator, self.location.reading.framing)
        yield from record_batches(self.location.store, _stored(one.values), wanted, records=records, form=form)

    def _keys(self, one: CommittedFile) -> Iterator[bytes | None]:
        """The keys of an object's records, by their positions; nulls where it has none."""
        role, file = (Role.KEY, one.keys) if one.keys is not None else (Role.VALUE, one.values)
        records = _records_of_object(one)
        if file is None or (role is Role.VALUE and file.format != "block_gzip"):
            return repeat(None, records)
        stored = StoredFile(file.topic_partition, file.first_offset, "", {role: _stored(file)}, records)
        return (message.key for message in self.location.reading.messages(self.location.store, stored))

    def _letter_batch(self, some: Sequence[FiledLetter]) -> pa.RecordBatch:
        target = arrow_schema(self.schema)
        letters = pa.array(
            [_letter_row(one) for one in some], arrow_schema(StructType([StructField("x", LETTER)]))[0].type
        )
        if self.wanted.letters == "only":
            by_name = {field.name: letters.field(n) for n, field in enumerate(letters.type)}
        else:
            by_name = {DEAD_LETTER: letters}
            by_name["_topic"], by_name["_partition"], by_name["_offset"] = (letters.field(n) for n in range(3))
        arrays = [by_name.get(one.name, pa.nulls(len(some), one.type)).cast(one.type) for one in target]
        return pa.RecordBatch.from_arrays(arrays, schema=target)


def _first_row(one: CommittedFile) -> int:
    """How many records of its object come before those of a file."""
    return 0 if one.facts.place is None else one.facts.place[0]


def _records_of_object(one: CommittedFile) -> int:
    return one.facts.records if one.facts.place is None else one.facts.place[1]


_UTC: Final[Mapping[str, Any]] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns in Arrow, with times in UTC: Spark 4.0 takes that for granted, Spark 4.2 wants it said."""
    return to_arrow_schema(schema, **_UTC)


LETTERS_AT_ONCE: Final = 100
TOMBSTONES_AT_ONCE: Final = 8192


def _letter_row(filed: FiledLetter) -> dict[str, Any]:
    letter = filed.letter
    return {
        **{name: getattr(letter, name) for name in ("topic", "partition", "offset", "key", "value", "stage", "component", "exception")},
        "timestamp": None if letter.timestamp is None else letter.timestamp * 1000,
        "headers": [{"key": name, "value": value} for name, value in letter.headers],
        "message": letter.message, "state": str(filed.state), "entry": filed.entry,
    }  # fmt: skip


class FileColumns:
    """The columns of a read for one file: those that its records have to give, and those that the log and the directory say."""

    def __init__(self, one: CommittedFile, target: pa.Schema) -> None:
        self._target, file = target, one.facts
        named = (part.partition("=") for part in file.encoded_partition.split("/") if "=" in part)
        self.directories = {name: None if text == HIVE_NULL else unquote(text) for name, _, text in named}
        self._fixed: dict[str, Any] = {
            "_topic": file.topic, "_partition": file.partition, "_first_offset": file.first_offset,
            "_last_offset": file.last_offset, "_entry": one.entry, "_object": file.key, DEAD_LETTER: None,
        }  # fmt: skip
        self._first, self._erased, self._row = one.first_offset, one.erased, _first_row(one)
        made = {*self._fixed, "_offset", "_row", KEY}
        own = [field for field in target if field.name not in made]
        if self._first is None and "_offset" in target.names and FIELD not in target.names:
            own.append(pa.field(FIELD, pa.struct([("offset", pa.int64())])))
        self.of_records = pa.schema(own or [pa.field("", pa.null())])  # a batch without columns would have no length

    def nulls(self, count: int) -> pa.RecordBatch:
        """A batch of records without values."""
        return pa.RecordBatch.from_arrays(
            [pa.nulls(count, field.type) for field in self.of_records], schema=self.of_records
        )

    def complete(self, batch: pa.RecordBatch, before: int, keys: Iterator[bytes | None]) -> pa.RecordBatch:
        """A batch with all columns; `before` is how many records come before it."""
        count = len(batch)
        begin = self._row + before
        rows = pa.array(range(begin, begin + count), pa.int64())
        arrays = []
        for column in self._target:
            if column.name in self._fixed:
                value = pa.scalar(
                    self._fixed[column.name], pa.string() if isinstance(self._fixed[column.name], str) else None
                )
                arrays.append(pa.repeat(value.cast(column.type), count))
            elif column.name == "_row":
                arrays.append(rows.cast(column.type))
            elif column.name == "_offset":
                arrays.append(self._offsets(batch, before).cast(column.type))
            elif column.name == KEY:
                arrays.append(pa.array(list(islice(keys, count)), pa.binary()).cast(column.type))
            else:
                arrays.append(batch.column(column.name))
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def _offsets(self, batch: pa.RecordBatch, before: int) -> pa.Array:
        """Each record's offset: a file without gaps, but for erased records, says it by its first, a record with metadata by itself."""
        if self._first is not None:
            found = np.arange(self._first + before, self._first + before + len(batch))
            for first, last in self._erased.ranges:
                found[found >= first] += last - first + 1
            return pa.array(found, pa.int64())
        kind = batch.schema.field(FIELD).type
        if pa.types.is_struct(kind) and kind.get_field_index("offset") >= 0:
            return pc.struct_field(batch.column(FIELD), "offset")  # null where the struct is
        return pa.nulls(len(batch), pa.int64())


def _shares(files: Sequence[CommittedFile]) -> Iterator[tuple[CommittedFile, ...]]:
    """Consecutive files, about PART_BYTES together, fewer where there are few; an object counts as what opening it costs at least. All
    slices of an object are together.
    """
    objects: dict[str, list[CommittedFile]] = {}
    for one in files:
        objects.setdefault(one.facts.key, []).append(one)
    slices = [sorted(some, key=_first_row) for some in objects.values()]
    slices.sort(key=lambda some: (some[0].facts.topic_partition, some[0].entry, some[0].facts.first_offset))
    costs = [max(some[0].facts.upload.size, OBJECT_COST) for some in slices]
    most = min(PART_BYTES, max(OBJECT_COST, sum(costs) // PARTS))
    some, size = list[CommittedFile](), 0
    for own, cost in zip(slices, costs, strict=True):
        if some and size + cost > most:
            yield tuple(some)
            some, size = [], 0
        some += own
        size += cost
    if some:
        yield tuple(some)
