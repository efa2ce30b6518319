"""Which keys does kafka-s3 add to the original's? Those of the sink, of its tables, and of whoever is notified after each commit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kafka_s3.connect.config.option import (
    Accepted,
    InvalidValue,
    OneOf,
    OneOfAnyCase,
    Option,
    OptionGroup,
    Range,
    Type,
    Value,
    accepts,
    broker_list,
    did_you_mean,
)
from kafka_s3.connect.naming.partition_terms import partition_terms
from kafka_s3.connect.naming.state_terms import OFFSET, RECORD_KEY, delete_mark, key_terms, order_path, path_of
from kafka_s3.connect.naming.table_names import fault

_DELTA = OptionGroup.DELTA
_INT, _LONG, _TEXT, _FLAG = Type.INT, Type.LONG, Type.STRING, Type.BOOLEAN
_GROUP = OptionGroup.OURS
STATE_PREFIX: Final = "_kafka_s3"
_DECIMAL: Final = re.compile(r"[0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20}")


@accepts("0 to 1")
def ratio(value: Value) -> Value:
    """A share, written as a decimal number from 0 to 1."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value) and float(value) <= 1:
        return value
    raise InvalidValue("must be a number from 0 to 1.", "Half of the records is 0.5.")


@accepts("none, percent (also: url)")
def value_encoding(value: Value) -> Value:
    """How partition values are written; `url` is an older name of `percent`."""
    settled = "percent" if value == "url" else value
    if settled in ("none", "percent"):
        return settled
    raise InvalidValue("must be one of: none, percent.", did_you_mean(str(value), ("none", "percent")))


SINK: Final = (
    Option("kafka.bootstrap.servers", _TEXT, None, "The brokers, `host:port,host:port`. Taken from bootstrap.servers of Connect's worker "
           "file if that is given.", _GROUP, valid=broker_list, required=True, example="broker-1:9092,broker-2:9092"),
    Option("compatibility.strict", _FLAG, "false", "Behave as the original in every respect, failures included.", _GROUP),
    Option("state.prefix", _TEXT, STATE_PREFIX, "Folder of the commit log in the bucket.", _GROUP),
    Option("flush.bytes", _LONG, "-1", "Encoded bytes of a Kafka partition's open files at which they are closed; 0 and less is off.",
           _GROUP),
    Option("flush.idle.ms", _LONG, "-1", "Close open files when no new record has arrived for this long; 0 and less is off.", _GROUP),
    Option("poll.interval.ms", _LONG, "1000", "Pause between looks at the brokers.", _GROUP, valid=Range(10)),
    Option("kafka.reader", _TEXT, "auto", "Who reads the records: Spark's tasks by themselves with librdkafka (`tasks`), at half the CPU "
           "and less; or Spark's own Kafka source (`spark`), for tasks that have no way to the brokers and for logins that only Java's "
           "client has. `auto` tries at the start whether tasks can, and says what it chose and why.", _GROUP,
           valid=OneOf(("auto", "tasks", "spark"))),
    Option("tasks.run.on", _TEXT, "executors", "Where records become objects: in Spark's tasks, or in the driver, where tasks have no "
           "network (serverless compute).", _GROUP, valid=OneOf(("executors", "driver"))),
    Option("heartbeat.interval.ms", _LONG, "10000", "How often the running sink reports its state to the bucket; after three "
           "intervals without a report it counts as stale. It looks for commands three times in an interval, at most once a "
           "second.", _GROUP,
           valid=Range(100)),
    Option("health.lag.max.records", _LONG, "0", "Above this lag, or with an unknown one, status, check, list and the dashboard "
           "call a sink DEGRADED; 0 is off.", _GROUP, valid=Range(0)),
    Option("health.delay.max.ms", _LONG, "0", "The age that 95 % of a commit's records may have when it is made; with older ones the sink "
           "is DEGRADED. 0 is off.", _GROUP, valid=Range(0)),
    Option("health.deadletter.max.ratio", _TEXT, "0.05", "Share of the records of the last hour that may become dead letters; with more "
           "the sink is DEGRADED, and goes on. 1 is off.", _GROUP, valid=ratio),
    Option("metrics.prometheus.port", _INT, "0", "Port at which the sink's process serves its metrics to Prometheus, on all interfaces; 0 "
           "is off. Needs the extra `metrics`.", _GROUP, valid=Range(0, 65535)),
    Option("metrics.otlp.enable", _FLAG, "false", "Send the same metrics to an OpenTelemetry collector by OTLP over HTTP: address, headers "
           "and interval are those of the variables `OTEL_*`. Needs the extra `otlp`.", _GROUP),
    Option("tail.check.interval.ms", _LONG, "60000", "How long records may wait unexamined in the open tail; 0 under compatibility.strict.",
           _GROUP, valid=Range(0)),
    Option("tail.state.enable", _FLAG, "true", "Keep open files in the bucket between two tasks, so that each record is read once. "
           "Off for buckets that let nobody delete: then the open tail is read again from Kafka at each poll.", _GROUP),
    Option("tail.read.records", _LONG, "500000", "With tail.state.enable: this many unread records of a Kafka partition are worth a task; "
           "0 is off.", _GROUP, valid=Range(0)),
    Option("tail.read.bytes", _LONG, "67108864", "With tail.state.enable: this many unread bytes of a Kafka partition, by the size of its "
           "last records, are worth a task; 0 is off.", _GROUP, valid=Range(0)),
    Option("topics.refresh.interval.ms", _LONG, "30000", "How often topics and partitions are looked up.", _GROUP, valid=Range(1)),
    Option("commit.max.files", _INT, "5000", "About how many files one task closes, and one entry of the commit log holds, at most; the "
           "rest follows in the same round.", _GROUP, valid=Range(1)),
    Option("behavior.on.lost.offsets", _TEXT, "fail", "What happens when records that must be read are no longer in Kafka: stop, or record "
           "a gap and go on.", _GROUP, valid=OneOf(("fail", "gap"))),
    Option("behavior.on.earlier.writer", _TEXT, "fail", "What happens at a start if a topic has no position in the commit log, but a "
           "connector or another sink has committed offsets of it or written objects of this sink's form: refuse, or begin anew beside "
           "what is there.", _GROUP, valid=OneOf(("fail", "ignore")), since="0.2.0"),
    Option("errors.stop.scope", _TEXT, "partition", "How far a stop reaches (a bad record without tolerance, lost offsets under `fail`, a "
           "schema that a Delta table refuses): `partition` stops that Kafka partition, and the others go on; `sink` stops the sink once "
           "the others' files are committed.", _GROUP, valid=OneOf(("partition", "sink"))),
    Option("spark.idle.ms", _LONG, "180000", "After this long without records a Spark that runs on this machine only stops, and frees its "
           "memory; it starts again with the next records, which takes some seconds. 0: never.", _GROUP, valid=Range(0),
           since="0.2.0"),
    Option("task.timeout.ms", _LONG, "300000", "How long one task may take. It stops reading after three quarters of that, and reports "
           "what it has; one that does not end is given up, and what it had to read is tried again alone.", _GROUP, valid=Range(1000)),
    Option("errors.deadletter.max.ratio", _TEXT, "1", "Share of the records of one batch (of 100 records or more) that may become dead "
           "letters; with more the sink stops before it commits. 1 is off.", _GROUP, valid=ratio),
    Option("value.schema", _TEXT, "", "A Connect schema, as the JSON converter writes it in an envelope, for schemaless JSON that is "
           "written as Parquet.", _GROUP),
    Option("value.schema.inference", _FLAG, "false", "Infer the schema of schemaless JSON that is written as Parquet.", _GROUP),
    Option("schema.compatibility.unify", _FLAG, "false", "Let compatible schema versions share a file under a schema that holds them all, "
           "instead of closing the file at every flip.", _GROUP),
    Option("record.metadata.enable", _FLAG, "false", "Add the struct `_kafka` (topic, partition, offset, timestamp, key, headers) to every "
           "value.", _GROUP),
    Option("partition.value.encoding", _TEXT, "none", "How FieldPartitioner writes values: as they are, like the original, where a slash "
           "makes more directories; or percent-encoded, all but letters, digits and `-._~`. Either way a key that would leave the prefix, "
           "or touch a `_delta_log` or state.prefix, is never written: its record is a dead letter.", _GROUP, valid=value_encoding),
    Option("consumer.group.mirror.enable", _FLAG, "true", "Commit the objects' offsets to the consumer group, for monitoring.", _GROUP),
    Option("writer.memory.bytes", _LONG, "134217728", "Memory for open files, per task.", _GROUP, valid=Range(1048576)),
    Option("s3.upload.threads", _INT, "4", "Parts that one task sends at the same time.", _GROUP, valid=Range(1, 64)),
)  # fmt: skip
MODES: Final = ("addNewColumns", "failOnNewColumns", "rescue", "none")
WRITERS: Final = ("delta-rs", "spark")


@accepts("catalog.schema.table, where ${topic} stands for the topic; blank: no name")
def name_of_tables(value: Value) -> Value:
    """A pattern of table names, or nothing."""
    if value and (rule := fault(str(value))):
        raise InvalidValue(rule, "For example main.raw.${topic}.")
    return value


DELTA: Final = (
    Option("delta.enable", Type.BOOLEAN, "false", "Keep a Delta table beside each topic's Parquet objects, at `<topics.dir>/<topic>/`, "
           "over the same objects. May be switched on at any time: the table is then made from the whole commit log.", _DELTA),
    Option("delta.schema.evolution.mode", Type.STRING, "addNewColumns", "What happens when records have columns that the table does not "
           "have, or of wider types: the table gets them, the sink stops before the commit, they are kept as JSON in the column "
           "`_rescued_data`, or they stay in the objects alone.", _DELTA, valid=OneOfAnyCase(MODES)),
    Option("delta.table.name", Type.STRING, "", "The name under which each table is registered in the catalog of the Spark that runs the "
           "sink, once it is there. A name that is taken is left as it is. A sink of several topics needs `${topic}` in it.", _DELTA,
           valid=name_of_tables),
    Option("delta.writer", Type.STRING, "delta-rs", "Who writes the tables. `delta-rs` adds the objects themselves to a table beside them. "
           "`spark` appends a copy of their records to the table `delta.table.name`, wherever it lies: for managed tables, and those with "
           "features that delta-rs does not write.", _DELTA, valid=OneOfAnyCase(WRITERS)),
    Option("delta.spark.bucket.url", Type.STRING, "", "Where Spark finds the bucket, for `delta.table.name` and `delta.writer=spark`. "
           "Blank: `s3://<bucket>`, as on Databricks; elsewhere `s3a://<bucket>`, with the library hadoop-aws.", _DELTA),
)  # fmt: skip
_ICEBERG = OptionGroup.ICEBERG
CATALOGS: Final = ("rest", "glue", "hive", "sql")


@accepts("terms such as day(ts), bucket(16, id), country; blank: the directories")
def partitioning(value: Value) -> Value:
    """Terms of a partitioning, or nothing."""
    try:
        partition_terms(str(value or ""))
    except ValueError as error:
        raise InvalidValue(str(error), "For example day(ts), bucket(16, id), country.") from None
    return value


ICEBERG: Final = (
    Option("iceberg.enable", Type.BOOLEAN, "false", "Keep an Iceberg table of each topic's Parquet objects, over the same objects. May be "
           "switched on at any time: the table is then made from the whole commit log. Goes together with `delta.enable`.", _ICEBERG),
    Option("iceberg.catalog.type", Type.STRING, "", "The catalog that holds the tables. Needed with `iceberg.enable`.", _ICEBERG,
           valid=OneOfAnyCase(("", *CATALOGS))),
    Option("iceberg.catalog.uri", Type.STRING, "", "The catalog's address: of REST and Hive, or of the database (SQL). AWS Glue "
           "needs none.", _ICEBERG, example="https://catalog.example.com"),
    Option("iceberg.catalog.credential", Type.PASSWORD, None, "Of a REST catalog: `client-id:client-secret`.", _ICEBERG),
    Option("iceberg.catalog.token", Type.PASSWORD, None, "Of a REST catalog: a bearer token.", _ICEBERG),
    Option("iceberg.catalog.warehouse", Type.STRING, "", "Where the catalog puts a table's own metadata, or the name of a REST catalog's "
           "warehouse. Blank: `s3://<bucket>/iceberg`, of REST what the server says. Objects stay where they are.", _ICEBERG),
    Option("iceberg.catalog.*", Type.STRING, None, "Any other property of the catalog, as pyiceberg calls it: `scope`, `glue.id`. "
           "S3 settings are the sink's own. Files, other addresses and classes come from the operator's worker file.", _ICEBERG),
    Option("iceberg.table.name", Type.STRING, "kafka.${topic}", "The name of each table: namespace and table. Dots and dashes of a topic "
           "become underscores. A sink of several topics needs `${topic}` in it.", _ICEBERG, valid=name_of_tables),
    Option("iceberg.schema.evolution.mode", Type.STRING, "addNewColumns", "What happens when records have columns that the table does "
           "not have, or of wider types; as `delta.schema.evolution.mode`, which must be the same where both are on.", _ICEBERG,
           valid=OneOfAnyCase(MODES)),
    Option("iceberg.partition.by", Type.STRING, "", "How tables are partitioned: `day(ts)`, `hour(_kafka.timestamp)`, `bucket(16, id)`, "
           "names of directories. A file whose values lie in several partitions is added without. Blank: by the directories.", _ICEBERG,
           valid=partitioning),
)  # fmt: skip
_STATE = OptionGroup.STATE


def _terms(text: str, read: Callable[[tuple[str, ...]], object], example: str) -> Accepted:
    """Lists that `read` takes."""

    def accept(value: Value) -> Value:
        try:
            read(tuple(value) if isinstance(value, tuple) else (str(value),))
        except ValueError as error:
            raise InvalidValue(str(error), f"For example {example}.") from None
        return value

    return Accepted(text, accept)


STATE: Final = (
    Option("state.enable", Type.BOOLEAN, "false", "Keep a table with the newest value of every key, beside the topic's objects. May "
           "be switched on at any time: the table is then made from the whole commit log.", _STATE),
    Option("state.table", Type.STRING, "", "The table's name in the catalog of the Spark that writes it. A sink of several topics needs "
           "`${topic}` in it. Deleted keys are remembered in a second table, `<name>__deleted`. Needed with `state.enable`.", _STATE,
           valid=name_of_tables),
    Option("state.table.format", Type.STRING, "delta", "Of which format a table is made that is not there. One that is there may be of "
           "either.", _STATE, valid=OneOf(("delta", "iceberg"))),
    Option("state.key", Type.LIST, RECORD_KEY, "What a row is of: Kafka's own key, fields of one that is JSON (`record key.id`), or fields "
           "of the value (`customer.id`).", _STATE, valid=_terms("record key, record key.<field>, or fields", key_terms, "id")),
    Option("state.delete.on", Type.LIST, "", "Which records delete their key: `tombstone`, or a field of the value with the text that it "
           "then has. Blank: none.", _STATE, example="__deleted=true",
           valid=_terms("tombstone, or field=text", lambda texts: [*map(delete_mark, texts)], "op=d or __deleted=true")),
    Option("state.order.by", Type.STRING, OFFSET, "By what the newest record of a key is found: the offset, or a field such as "
           "`source.lsn` or `ts_ms`, where keys move between partitions. Of equal ones the larger offset wins.", _STATE,
           valid=_terms("offset, or a field", lambda texts: order_path(texts[0]), "ts_ms")),
    Option("state.columns", Type.LIST, "", "The value's columns that the table has; `after.*` are the fields of `after`. Blank: all.",
           _STATE,
           valid=_terms("fields", lambda texts: [*map(path_of, texts)], "id, status, after.*")),
    Option("state.run.on", Type.STRING, "sink", "Who keeps the tables: the running sink's own Spark, or `job`: nobody but `kafka-s3 state "
           "run` and the bundle's job.", _STATE, valid=OneOf(("sink", "job"))),
    Option("state.interval.ms", Type.LONG, "60000", "With `state.run.on=sink`: how long entries of the log wait before they are merged "
           "together.", _STATE, valid=Range(0)),
    Option("state.interval.entries", Type.INT, "1000", "With `state.run.on=sink`: this many entries are merged at once, before that time "
           "is over.", _STATE, valid=Range(1)),
    Option("state.delete.retention.ms", Type.LONG, "604800000", "How long a deleted key is remembered, so that an older record that comes "
           "late does not bring it back.", _STATE, valid=Range(0)),
    Option("state.schema.evolution.mode", Type.STRING, "addNewColumns", "What happens when records have columns that the table does not "
           "have: it gets them, it is held, they are kept as JSON in `_rescued_data`, or they are left out.", _STATE,
           valid=OneOfAnyCase(MODES)),
)  # fmt: skip
FOLLOWERS: Final = (
    Option("glue.database.name", Type.STRING, "", "A database of the AWS Glue Data Catalog in which each topic is kept as a table: its "
           "columns, and each directory as a partition, after each commit. It has to be there. May be set at any time: the log has what "
           "came before. Blank: none.", _GROUP),
    Option("done.marker.name", Type.STRING, "", "An object of that name is written into each directory of a time when it is complete, for "
           "example `_SUCCESS`: its time is over, and every topic-partition has committed a later record, or has none that is not "
           "committed. Needs a time partitioner and `timestamp.extractor=Record`. Blank: none.", _GROUP),
    Option("notification.class", Type.STRING, "", "Who gets a message for each commit: `webhook`, `sns`, `sqs`, or the name of "
           "an entry point of the group `kafka_s3.notifications`: a callable taking the settings and returning an object with "
           "`send(message)`. Blank: nobody.", _GROUP),
    Option("notification.target", Type.STRING, "", "The webhook's address, the ARN of SNS's topic, or the URL of SQS's queue.", _GROUP),
    Option("aws.endpoint.url", Type.STRING, "", "Address of a service that speaks the language of Glue, SNS and SQS. Blank: AWS in "
           "`s3.region`. The credentials are those of S3.", _GROUP),
)  # fmt: skip
REWRITES: Final = (
    Option("compact.enable", Type.BOOLEAN, "false", "Merge the small files of each directory of a time when it is complete, as "
           "`kafka-s3 compact` does at any time: its time is over, and every topic-partition has committed a later record, or has none "
           "that is not committed. Needs a time partitioner and `timestamp.extractor=Record`, and the right to delete. Until "
           "`rewrite.grace.ms` is over a listing shows the records twice.", _GROUP),
    Option("compact.target.bytes", Type.LONG, "26214400", "Roughly how large an object becomes with `compact.enable`, at most a third of "
           "`writer.memory.bytes`. Files that find no neighbour to share so much with are left alone.", _GROUP, valid=Range(1)),
    Option("compact.sort.by", Type.LIST, "", "Columns by which a compaction sorts the rows of a Parquet object, with dots for members of "
           "structs, nulls last; columns that a topic has not are passed over. The object keeps no order of offsets then.", _GROUP),
    Option("compact.across.partitions", Type.BOOLEAN, "false", "A compaction puts files of all Kafka partitions of a topic together, not "
           "only those of one: for topics of many partitions, each of which has little in a directory.", _GROUP),
    Option("rewrite.grace.ms", _LONG, "86400000", "How long objects stay in the bucket after others have taken their place (`kafka-s3 "
           "compact`): until then a listing shows their records twice, and after it the sink deletes them.", _GROUP, valid=Range(0)),
)  # fmt: skip
ROWS: Final = (*SINK, *DELTA, *FOLLOWERS, *(replace(row, since="0.2.0") for row in (*ICEBERG, *STATE, *REWRITES)))
