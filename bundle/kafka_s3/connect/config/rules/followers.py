"""Which configurations cannot have a Delta table, an Iceberg table, a state table, Glue tables, done-markers or notifications?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kafka_s3.connect.config.classes import BLOCK_GZIP_FORMAT, REGISTRY_CONVERTERS, known_notifiers
from kafka_s3.connect.config.rules import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import configured_steps
from kafka_s3.connect.naming.partition_terms import partition_terms
from kafka_s3.connect.naming.state_terms import TOMBSTONE, key_terms
from kafka_s3.connect.naming.table_names import TOPIC
from kafka_s3.model.errors import Problem

TABLE_NAME: Final = "delta.table.name"
TABLES: Final = ("delta.enable", "iceberg.enable")
PARQUET: Final = "io.confluent.connect.s3.format.parquet.ParquetFormat"


def _tables_are_made_of_parquet(settings: Settings) -> Iterator[Problem]:
    for enable in _enabled(settings):
        if settings.text("format.class") != "parquet":
            rule = f"needs Parquet objects; format.class is {settings.text('format.class')}."
            yield problem(enable, rule, f"Set format.class={PARQUET}, or {enable}=false.")


def _enabled(settings: Settings) -> list[str]:
    return [key for key in TABLES if settings.flag(key)]


def _tables_have_folders(settings: Settings) -> Iterator[Problem]:
    enabled = _enabled(settings)
    if not enabled:
        return
    for key, fits in (
        ("directory.delim", settings.text("directory.delim") == "/"),
        ("file.delim", "/" not in settings.text("file.delim")),
    ):
        if not fits:
            rule = f"leaves the objects of a topic in no folder of their own, which {enabled[0]}=true needs."
            yield problem(key, rule, f"Leave it out, or set {enabled[0]}=false.")


ICEBERG: Final = "iceberg.enable"
CATALOG: Final = "iceberg.catalog."
_ELSEWHERE: Final = re.compile(r"(uri|url|endpoint|impl|path|file|cert|key|profile-name)$")
"""How properties of catalogs end that name an address, a file or a class."""


def _a_catalog_is_named(settings: Settings) -> Iterator[Problem]:
    kind, uri = settings.text(f"{CATALOG}type"), settings.text(f"{CATALOG}uri")
    if not settings.flag(ICEBERG):
        return
    if not kind:
        yield problem(f"{CATALOG}type", "is needed with iceberg.enable=true.", "One of rest, glue, hive, sql.")
    elif kind != "glue" and not uri:
        example = {"sql": "postgresql+psycopg2://host/catalog", "hive": "thrift://host:9083"}.get(kind, "https://host")
        yield problem(f"{CATALOG}uri", f"is needed with {CATALOG}type={kind}.", f"For example {example}.")


def _the_operator_names_locations(settings: Settings) -> Iterator[Problem]:
    """The catalog's own address is beside its credentials; others could send an operator's secrets anywhere."""
    for key, text in settings.source.items():
        name = key.removeprefix(CATALOG)
        if name == key or name in ("uri", "type", "warehouse") or not _ELSEWHERE.search(name):
            continue
        if settings.worker.get(key) != text:
            rule = "names an address, a file or a class: only the operator's worker file may set it."
            yield problem(key, rule, "Set it there, and give the file with --worker, or leave it out.")


def _warehouse_is_in_s3(settings: Settings) -> Iterator[Problem]:
    where, kind = settings.text(f"{CATALOG}warehouse"), settings.text(f"{CATALOG}type")
    if settings.flag(ICEBERG) and where and kind != "rest" and not re.match(r"s3[an]?://[^/]+", where):
        yield problem(f"{CATALOG}warehouse", "must be in S3.", "For example s3://bucket/warehouse.")


def _each_iceberg_table_has_a_name(settings: Settings) -> Iterator[Problem]:
    name = settings.text("iceberg.table.name")
    if not settings.flag(ICEBERG) or (name and TOPIC in name):
        return
    several = settings.optional_text("topics.regex") or len(settings.names("topics")) > 1
    if not name or several:
        rule = "is the name of one table, but the sink may have several topics." if name else "must not be blank."
        yield problem("iceberg.table.name", rule, "Put ${topic} into it, for example kafka.${topic}.")


MODE_KEYS: Final = ("delta.schema.evolution.mode", "iceberg.schema.evolution.mode")


def _one_guard_decides(settings: Settings) -> Iterator[Problem]:
    both = [settings.text(key) for key in MODE_KEYS]
    if len(_enabled(settings)) == len(TABLES) and both[0] != both[1]:
        rule = f"is {both[1]}, but {MODE_KEYS[0]} is {both[0]}: the same objects are in both tables."
        yield problem(MODE_KEYS[1], rule, "Give both keys the same value.")


def _partitions_can_be_known(settings: Settings) -> Iterator[Problem]:
    """A file is in a partition only where all of its records are: its directory must be at least as narrow as the term."""
    key = "iceberg.partition.by"
    if not settings.flag(ICEBERG):
        return
    partitioner = settings.text("partitioner.class")
    for term in partition_terms(settings.text(key)):
        if partitioner == "default" and not (term.transform == "identity" and term.column == "partition"):
            rule = f"has {term}, but partitioner.class=DefaultPartitioner puts records of all values into one file."
            yield problem(
                key, rule, "Take a partitioner by time or by field that keeps them apart, or leave the term out."
            )


def _spark_writes_to_names(settings: Settings) -> Iterator[Problem]:
    if settings.flag("delta.enable") and settings.text("delta.writer") == "spark" and not settings.text(TABLE_NAME):
        yield problem(TABLE_NAME, "is needed with delta.writer=spark.", "For example main.raw.${topic}.")


def _each_table_has_a_name(settings: Settings) -> Iterator[Problem]:
    name = settings.text(TABLE_NAME)
    if not settings.flag("delta.enable") or not name or TOPIC in name:
        return
    if settings.optional_text("topics.regex") or len(settings.names("topics")) > 1:
        rule = "is the name of one table, but the sink may have several topics."
        yield problem(TABLE_NAME, rule, "Put ${topic} into it, for example main.raw.${topic}.")


STATE: Final = "state.enable"
STATE_TABLE: Final = "state.table"
METADATA: Final = "record.metadata.enable"


def _state_has_a_table(settings: Settings) -> Iterator[Problem]:
    name = settings.text(STATE_TABLE)
    if not settings.flag(STATE):
        return
    if not name:
        yield problem(STATE_TABLE, "is needed with state.enable=true.", "For example main.state.${topic}.")
    elif TOPIC not in name and (settings.optional_text("topics.regex") or len(settings.names("topics")) > 1):
        rule = "is the name of one table, but the sink may have several topics."
        yield problem(STATE_TABLE, rule, "Put ${topic} into it, for example main.state.${topic}.")
    elif settings.flag("delta.enable") and name == settings.text(TABLE_NAME):
        rule = "is the name of the table of all records, too."
        yield problem(
            STATE_TABLE, rule, f"Give them different names: {TABLE_NAME} is the history, {STATE_TABLE} the state."
        )


def _state_knows_offsets(settings: Settings) -> Iterator[Problem]:
    if not settings.flag(STATE):
        return
    if not settings.flag(METADATA):
        rule = "must be true with state.enable=true: the newest record of a key is found by the offset that each record then has."
        yield problem(
            METADATA, rule, f"Set {METADATA}=true; records that were written before it cannot be in the state."
        )
    if settings.text("format.class") not in ("parquet", "avro"):
        rule = f"needs objects whose columns have types; format.class is {settings.text('format.class')}."
        yield problem(
            STATE,
            rule,
            "Write Parquet or Avro (schemaless JSON: Parquet with value.schema.inference=true), or leave it out.",
        )


def _state_keys_can_be_compared(settings: Settings) -> Iterator[Problem]:
    terms = key_terms(settings.names("state.key"))
    if not settings.flag(STATE) or not any(term.of_record for term in terms):
        return
    converter = settings.text("key.converter")
    if converter in REGISTRY_CONVERTERS:
        rule = "takes the key as bytes, which begin with the number of a schema: with a new version each key would be another one."
        yield problem("state.key", rule, "Name the fields of the value that are the key, for example state.key=id.")
    elif converter != "json" and any(term.of_record and term.path for term in terms):
        rule = f"names a field of the record's key, which must be JSON; key.converter is {converter}."
        yield problem(
            "state.key",
            rule,
            "Set key.converter=org.apache.kafka.connect.json.JsonConverter, or take fields of the value.",
        )


def _tombstones_are_records(settings: Settings) -> Iterator[Problem]:
    """A tombstone has no value, so no object says its offset, unless it is made a record of."""
    if not settings.flag(STATE) or TOMBSTONE not in settings.names("state.delete.on"):
        return
    steps = (one.transform for one in configured_steps(settings).steps)
    if not any(one.kind == "tombstone_handler" and one.text("behavior") == "rewrite" for one in steps):
        rule = "takes tombstones, whose offsets no object says."
        remedy = (
            "Make records of them: transforms=tombstones, transforms.tombstones.type=io.confluent.connect.transforms.TombstoneHandler, "
            "transforms.tombstones.behavior=rewrite. Of Debezium's changes take __deleted=true or op=d."
        )
        yield problem("state.delete.on", rule, remedy)
    if not all(term.of_record for term in key_terms(settings.names("state.key"))):
        rule = "names fields of the value, and tombstones have none."
        yield problem(
            "state.key", rule, "Take state.key=record key, or another mark than tombstone in state.delete.on."
        )


GLUE: Final = "glue.database.name"
MARKER: Final = "done.marker.name"
COMPACT: Final = "compact.enable"
SORT: Final = "compact.sort.by"
ACROSS: Final = "compact.across.partitions"
NOTIFIER: Final = "notification.class"
WITH_COLUMNS: Final = ("parquet", "avro", "json")
BY_TIME: Final = ("time", "daily", "hourly")


def _glue_needs_columns(settings: Settings) -> Iterator[Problem]:
    if settings.text(GLUE) and settings.text("format.class") not in WITH_COLUMNS:
        rule = f"needs objects with columns; format.class is {settings.text('format.class')}."
        yield problem(GLUE, rule, "Write Parquet, Avro or JSON, or leave it out.")


def _glue_needs_folders(settings: Settings) -> Iterator[Problem]:
    if settings.text(GLUE) and settings.text("directory.delim") != "/":
        yield problem(GLUE, "needs folders: directory.delim is not /.", "Leave one of them out.")


def _markers_need_record_times(settings: Settings) -> Iterator[Problem]:
    known = settings.text("partitioner.class") in BY_TIME and settings.text("timestamp.extractor") == "Record"
    if settings.text(MARKER) and not known:
        rule = "needs directories by the records' own times: the log knows no others."
        yield problem(MARKER, rule, "Take a time partitioner with timestamp.extractor=Record, or leave it out.")


def why_not_compacted(settings: Settings) -> str | None:
    """Why the files of a sink cannot be put together; None where they can."""
    if settings.text("format.class") == BLOCK_GZIP_FORMAT:
        return "is not possible with Block-GZIP, whose readers find records by the names of files and their indexes."
    return None


LARGER_FILES: Final = "Leave it out. Files become larger by offset.flush.interval.ms and block.gzip.file.interval.ms."


def _own_compaction_has_a_format(settings: Settings) -> Iterator[Problem]:
    why = why_not_compacted(settings)
    for key in (COMPACT, ACROSS):
        if why is not None and settings.flag(key):
            yield problem(key, why, LARGER_FILES)


def _own_compaction_knows_directories(settings: Settings) -> Iterator[Problem]:
    known = settings.text("partitioner.class") in BY_TIME and settings.text("timestamp.extractor") == "Record"
    if settings.flag(COMPACT) and not known and why_not_compacted(settings) is None:
        rule = "needs directories by the records' own times, to know when one is complete."
        remedy = "Take a time partitioner with timestamp.extractor=Record, or run kafka-s3 compact by a clock."
        yield problem(COMPACT, rule, remedy)


def _own_compaction_has_memory(settings: Settings) -> Iterator[Problem]:
    most = settings.number("writer.memory.bytes") // 3
    if settings.flag(COMPACT) and settings.number("compact.target.bytes") > most:
        rule = "is above a third of writer.memory.bytes: originals, object and proof are in memory together."
        yield problem("compact.target.bytes", rule, "Set it lower, or writer.memory.bytes higher.")


def why_not_sorted(settings: Settings) -> str | None:
    """Why the rows of a sink's objects cannot be sorted; None where they can."""
    if settings.text("format.class") != "parquet":
        return f"sorts the rows of Parquet alone; format.class is {settings.text('format.class')}."
    if settings.flag("store.kafka.keys") or settings.flag("store.kafka.headers"):
        return "sorts values, and the objects of keys and headers beside them have the order of offsets."
    return None


def _objects_can_be_sorted(settings: Settings) -> Iterator[Problem]:
    why = why_not_sorted(settings) if settings.names(SORT) else None
    if why is not None:
        yield problem(SORT, why, "Leave it out, or write Parquet with record.metadata.enable in place of such objects.")


def why_not_across(settings: Settings) -> str | None:
    """Why files of several Kafka partitions cannot become one; None where they can."""
    if settings.text("partitioner.class") == "default":
        return "puts files of a directory together, and partitioner.class=DefaultPartitioner gives each Kafka partition its own."
    if settings.names(SORT):
        return f"needs to know which rows are of which partition, and {SORT} mixes them."
    return None


def _partitions_share_directories(settings: Settings) -> Iterator[Problem]:
    why = why_not_across(settings) if settings.flag(ACROSS) and why_not_compacted(settings) is None else None
    if why is not None:
        yield problem(ACROSS, why, "Leave it out, or the other key.")


def _markers_are_passed_over(settings: Settings) -> Iterator[Problem]:
    name = settings.text(MARKER)
    if name and (not name.startswith(("_", ".")) or "/" in name):
        yield problem(MARKER, "would be read as data by query engines.", "Begin it with _ and take no slash: _SUCCESS.")


def _notifications_are_taken(settings: Settings) -> Iterator[Problem]:
    name, target = settings.text(NOTIFIER), settings.text("notification.target")
    if not name:
        return
    known = known_notifiers()
    if name not in known:
        yield problem(NOTIFIER, "is not known.", f"The known ones are {', '.join(known)}.")
    wanted = {"webhook": ("http://", "https://"), "sns": ("arn:",), "sqs": ("http://", "https://")}.get(name, ("",))
    if not target.startswith(wanted):
        yield problem("notification.target", f"is not a target of {name}.", f"It begins with {' or '.join(wanted)}.")


PROBLEMS: Final = (
    Rule((TABLE_NAME, "delta.enable", "delta.writer"), _spark_writes_to_names),
    Rule((TABLE_NAME, "delta.enable", "topics", "topics.regex"), _each_table_has_a_name),
    Rule((*TABLES, "format.class"), _tables_are_made_of_parquet),
    Rule((*TABLES, "directory.delim", "file.delim"), _tables_have_folders),
    Rule((ICEBERG, f"{CATALOG}type", f"{CATALOG}uri"), _a_catalog_is_named),
    Rule((), _the_operator_names_locations),
    Rule((ICEBERG, f"{CATALOG}type", f"{CATALOG}warehouse"), _warehouse_is_in_s3),
    Rule((ICEBERG, "iceberg.table.name", "topics", "topics.regex"), _each_iceberg_table_has_a_name),
    Rule((*TABLES, *MODE_KEYS), _one_guard_decides),
    Rule((ICEBERG, "iceberg.partition.by", "partitioner.class"), _partitions_can_be_known),
    Rule((STATE, STATE_TABLE, TABLE_NAME, "delta.enable", "topics", "topics.regex"), _state_has_a_table),
    Rule((STATE, METADATA, "format.class"), _state_knows_offsets),
    Rule((STATE, "state.key", "key.converter"), _state_keys_can_be_compared),
    Rule((STATE, "state.key", "state.delete.on", "transforms", "predicates"), _tombstones_are_records),
    Rule((GLUE, "format.class"), _glue_needs_columns),
    Rule((GLUE, "directory.delim"), _glue_needs_folders),
    Rule((MARKER, "partitioner.class", "timestamp.extractor"), _markers_need_record_times),
    Rule((MARKER,), _markers_are_passed_over),
    Rule((COMPACT, ACROSS, "format.class"), _own_compaction_has_a_format),
    Rule((COMPACT, "partitioner.class", "timestamp.extractor"), _own_compaction_knows_directories),
    Rule((COMPACT, "compact.target.bytes", "writer.memory.bytes"), _own_compaction_has_memory),
    Rule((SORT, "format.class", "store.kafka.keys", "store.kafka.headers"), _objects_can_be_sorted),
    Rule((ACROSS, "partitioner.class", SORT), _partitions_share_directories),
    Rule((NOTIFIER, "notification.target"), _notifications_are_taken),
)
