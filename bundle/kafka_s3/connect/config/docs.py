"""What does the reference of the configuration say? Pages by what a reader looks for, made from the option table.

`python -m kafka_s3.connect.config.docs FOLDER` writes them; the folder is `docs` where none is named.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka_s3.connect.config.dialects.managed_cloud import REPLACED as CLOUD_REPLACED
from kafka_s3.connect.config.dialects.spelling import IDLE
from kafka_s3.connect.config.dialects.spelling import REPLACED as BLOCK_GZIP_REPLACED
from kafka_s3.connect.config.option import KnownClass, Option, OptionGroup, OptionStatus, Type
from kafka_s3.connect.config.options.connector import SHORT_ZONES
from kafka_s3.connect.config.options.table import BLOCK_GZIP_OPTIONS, CLOUD_OPTIONS, EXACT, OPTIONS, TRANSFORM_OPTIONS
from kafka_s3.connect.config.read import IGNORED, IGNORED_PREFIXES, TAKEN

_SHORT: Final = ", ".join(f"`{short}` ({zone})" for short, zone in SHORT_ZONES.items())
MADE: Final = "<!-- Made from the option table by `python -m kafka_s3.connect.config.docs`; do not edit by hand. -->"
INTRODUCTION: Final = f"""# Configuration

{MADE}

A sink is configured by the file of the connector that it replaces: JSON (a plain map, or `{{"name": ..., "config": {{...}}}}`), Java
properties, or YAML (the same maps, or Strimzi's `KafkaConnector`). Of several equal keys the last counts, with a warning.
`kafka-s3 validate FILE` reports every problem at once, and `kafka-s3 new` writes a first file."""

STATUS: Final = """## How to read the tables

The status of a key says what this version does with it:

* **acted on**: does what it does in the original.
* **informational**: accepted without effect, for the reason given.
* **not yet**: the original acts on it and this version does not; any value but the default is refused.
* **refused**: never supported; the text says what to do instead.

A key that is in no table is ignored with a warning, unless a [plugin](own-partitioners.md) declares it; `kafka-s3 validate --strict` makes
it an error. Java class names of the original are resolved to built-in parts by name; no Java class is ever loaded.
`kafka-s3 catalog describe S3SinkConnector` prints every key in a terminal, with an example."""

REFERENCES: Final = """## References to secrets

A value may hold references, also inside longer text. They are resolved when a run starts. The values they give are never shown, but for
brokers, bucket, region, topics, folders and the name where they come from `${env:}`.

| Reference | Stands for |
|---|---|
| `${env:NAME}` | the environment variable `NAME` |
| `${file:/path:key}` | the key of a properties file |
| `${file:/path}` | the whole file, without surrounding blanks |
| `${secrets:scope/key}`, `${secret:scope/key}` | the variable `KAFKA_S3_SECRET_<SCOPE>_<KEY>` (upper case, everything but letters \
and digits as `_`), else the file `<scope>/<key>` below the directory in `KAFKA_S3_SECRETS_DIR`, else the Databricks secret |"""

TRANSFORMS: Final = """What each class does, and where it differs: [transforms](transforms.md). The class of a row is in \
brackets; `$Key` and `$Value` take the same settings."""

CONVERTERS: Final = """Which registries there are, and how they are used: [registries](registries.md). The rows below `value.converter.` \
exist below `key.converter.` as well, with the same meaning. A converter ignores, with a warning, what only others read."""


def _named(replaced: Mapping[str, str]) -> str:
    """Keys that a spelling does not have, each with what it has instead."""
    return ", ".join(f"`{key}` (here `{instead}`)" for key, instead in replaced.items())


CLOUD: Final = f"""A configuration with `connector.class=S3_SINK` is read in this spelling. Keys that are not in this table mean \
what they mean in the other tables, but for these, which are refused: {_named(CLOUD_REPLACED)}. `kafka.bootstrap.servers` has to be added. \
The partitioner is TimeBasedPartitioner unless `partitioner.class` names another; `partition.duration.ms` cannot be set: it is the \
length of `time.interval`, an hour or a day. `timezone` is `UTC` and `locale` is `en` where they are not set (they have no default \
in the other tables). Of the short names of zones {_SHORT} stand for the zones that they mean, with a warning. \
Records that cannot be written go to the dead letter topic `dlq-<name>`, \
unless `errors.deadletterqueue.topic.name` names another one; \
`${{connector}}` in it stands for the name. What the managed cloud knows by itself is \
taken from the worker file: the brokers, the login of a service account, and the schema registry of `value.converter.*`."""


_IDLE_KEYS = ", ".join(f"`{key}`" for key in IDLE)
BLOCK_GZIP: Final = f"""A configuration whose `connector.class` is of one of the packages `com.deviantart` and `com.spredfast`, or that \
has `s3.bucket` and `local.buffer.dir`, is read in this spelling. What the files are: [Block-GZIP](block-gzip.md). Topics, converters, \
transforms, errors and credentials have the keys of the other tables. The keys that the others call {_named(BLOCK_GZIP_REPLACED)} are \
refused, and so is `filename.offset.zero.pad.width`. These have no effect, with a warning: {_IDLE_KEYS}."""
OWN_BLOCK_GZIP: Final = """What that becomes, and what a configuration with `format.class=block_gzip` may set."""


MOST: Final = (
    "name", "topics", "kafka.bootstrap.servers", "value.converter", "value.converter.schemas.enable", "s3.bucket.name", "s3.region",
    "format.class", "flush.size", "flush.idle.ms", "rotate.interval.ms", "partitioner.class", "path.format", "timezone",
    "timestamp.extractor", "errors.tolerance", "behavior.on.null.values",
)  # fmt: skip
"""The keys that a first configuration is made of."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A table: the rows of groups, and rows of kafka-s3's own by their keys, which are where a reader looks for them; or these `rows`."""

    title: str
    groups: tuple[OptionGroup, ...]
    ours: tuple[str, ...] = ()
    about: str = ""
    rows: tuple[Option, ...] = ()

    def options(self) -> list[Option]:
        """The rows, in the order of the table. What key converters take is not listed twice."""
        if self.rows:
            return list(self.rows)
        found = [row for row in (*OPTIONS, *TRANSFORM_OPTIONS, *CLOUD_OPTIONS) if row.group in self.groups]
        found += [row for row in OPTIONS if row.group is OptionGroup.OURS and row.key in self.ours]
        return [row for row in found if not row.key.startswith("key.converter.")]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the reference: its file, and what a reader finds there."""

    file: str
    title: str
    finds: str
    chapters: tuple[Chapter, ...]


_G = OptionGroup
PAGES: Final = (
    Page("configuration-reading.md", "Topics, brokers, logins", "which topics are read, from which brokers, with which login", (
        Chapter("Connector and topics", (_G.FRAMEWORK,),
                ("topics.refresh.interval.ms", "behavior.on.earlier.writer", "behavior.on.lost.offsets",
                 "consumer.group.mirror.enable")),
        Chapter("Kafka", (_G.KAFKA,), ("kafka.bootstrap.servers", "kafka.reader", "poll.interval.ms"),
                "Logins step by step: [logins](logins.md)."),
    )),
    Page("configuration-converters.md", "Converters and registries", "how bytes become values: JSON, Avro, Protobuf, schemas, registries", (
        Chapter("Converters", (_G.CONVERTERS,), ("value.schema", "value.schema.inference", "record.metadata.enable"), CONVERTERS),
    )),
    Page("configuration-transforms.md", "Transforms", "how records are changed, dropped or sent to another topic on the way", (
        Chapter("Transforms and predicates", (_G.TRANSFORMS,), (), TRANSFORMS),
    )),
    Page("configuration-files.md", "Files: when, where, what",
         "when files close, where they lie, what they are called, which format they have", (
        Chapter("Rotation and object names", (_G.ROTATION,), (
            "flush.bytes", "flush.idle.ms", "schema.compatibility.unify", "tail.check.interval.ms", "tail.state.enable",
            "tail.read.records", "tail.read.bytes")),
        Chapter("Partitioner", (_G.PARTITIONER,), ("partition.value.encoding",), "By example: [directories and names](partitioners.md)."),
        Chapter("Formats", (_G.FORMAT,)),
        Chapter("Null values, keys and headers", (_G.RECORDS,)),
        Chapter("Delta tables", (_G.DELTA,), (), "What a table is for: [Delta tables](delta.md)."),
        Chapter("Iceberg tables", (_G.ICEBERG,), (), "Which format for whom, and what tables do: [tables](tables.md)."),
        Chapter("State tables", (_G.STATE,), (), "The newest value of every key: [state tables](state.md)."),
    )),
    Page("configuration-bucket.md", "Bucket, credentials, encryption", "which bucket, with which credentials, encryption and retries", (
        Chapter("S3", (_G.STORAGE,), ("state.prefix", "s3.upload.threads")),
    )),
    Page("configuration-errors.md", "Errors and dead letters", "what becomes of bad records, and how long the sink waits for others", (
        Chapter("Errors and dead letters", (_G.ERRORS,), ("errors.stop.scope", "errors.deadletter.max.ratio"),
                "Null values have a key of their own, [`behavior.on.null.values`](configuration-files.md#null-values-keys-and-headers)."),
    )),
    Page("configuration-running.md", "Running, health, notifications", "how a sink runs, what it reports, and who is notified of objects", (
        Chapter("Running", (), ("compatibility.strict", "tasks.run.on", "commit.max.files", "task.timeout.ms", "writer.memory.bytes",
                                 "spark.idle.ms", "rewrite.grace.ms")),
        Chapter("Health and metrics", (), (
            "heartbeat.interval.ms", "health.lag.max.records", "health.delay.max.ms", "health.deadletter.max.ratio",
            "metrics.prometheus.port", "metrics.otlp.enable")),
        Chapter("After each commit", (), (
            "glue.database.name", "done.marker.name", "compact.enable", "compact.target.bytes", "compact.sort.by",
            "compact.across.partitions",
            "notification.class", "notification.target", "aws.endpoint.url"),
            "With examples: [followers](followers.md)."),
    )),
    Page("configuration-spellings.md", "Other spellings, and Connect's worker file",
         "keys of the managed cloud connector and of Block-GZIP; what a worker file adds", (
        Chapter("Block-GZIP spelling", (), (), BLOCK_GZIP, BLOCK_GZIP_OPTIONS),
        Chapter("Block-GZIP in our own keys", (_G.BLOCK_GZIP,), (), OWN_BLOCK_GZIP),
        Chapter("Managed cloud spelling", (_G.CLOUD,), (), CLOUD),
    )),
)  # fmt: skip


def pages() -> Mapping[str, str]:
    """The pages by file name, in Markdown."""
    found = {page.file: _page(page) for page in PAGES}
    found["configuration-spellings.md"] += f"\n## Connect's worker file\n\n{_worker()}\n"
    return {"configuration.md": _index(), **found}


def _index() -> str:
    where = [f"| [{page.title}]({page.file}) | {page.finds} |" for page in PAGES]
    find = "\n".join(["## Where to find a key", "", "| page | what is there |", "|---|---|", *where])
    most = f"## The keys of a first configuration\n\n{_table(EXACT[key] for key in MOST)}"
    return "\n\n".join([INTRODUCTION, find, most, STATUS, REFERENCES]) + "\n"


def _page(page: Page) -> str:
    top = f"# {page.title}\n\n{MADE}\n\nHere is {page.finds}. All pages, and what a status means: [configuration](configuration.md)."
    return "\n\n".join([top, *map(_chapter, page.chapters)]) + "\n"


def _chapter(chapter: Chapter) -> str:
    about = f"{chapter.about}\n\n" if chapter.about else ""
    return f"## {chapter.title}\n\n{about}{_table(chapter.options())}"


def _table(options: Iterable[Option]) -> str:
    head = "| Key | Type | Default | Values | Status | Since | Meaning |\n|---|---|---|---|---|---|---|"
    return "\n".join([head, *(_row(option) for option in options)])


def _row(option: Option) -> str:
    cells = (
        f"`{option.key}`",
        option.type,
        _default(option),
        _values(option),
        _status(option),
        option.since,
        option.doc,
    )
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "\\n") for cell in cells) + " |"


def _default(option: Option) -> str:
    if option.required:
        return "required"
    if option.default is None:
        return ""
    return _code(option.default.rpartition(".")[2] if option.type is Type.CLASS else option.default)


def _code(text: str) -> str:
    return {"": "blank", "\n": "line feed"}.get(text) or f"`{text}`"


def _values(option: Option) -> str:
    if isinstance(option.valid, KnownClass):
        names = dict.fromkeys(name.rpartition(".")[2] for name in option.valid.names)
        return ", ".join(f"`{name}`" for name in names)
    return option.valid.text


def _status(option: Option) -> str:
    text = str(option.status)
    if option.status is not OptionStatus.ACTED_ON:
        return f"{text}: {option.note}" if option.note else text
    return f"{text}; not yet: {', '.join(option.not_yet)}. {option.note}" if option.not_yet else text


def _worker() -> str:
    taken = ", ".join(f"`{key}`" for key in TAKEN)
    ignored = ", ".join(f"`{key}`" for key in sorted((*IGNORED, *(f"{prefix}*" for prefix in IGNORED_PREFIXES))))
    return f"""The worker's properties can be given beside the connector's file. The connector's own settings win; a connector that names
a converter gets none of the worker's settings of that converter.

* Taken: {taken}, `consumer.*` (as `consumer.override.*`), and `security.protocol`, `sasl.*`, `ssl.*` where there is no `consumer.` form.
* Without meaning for a sink, and ignored: {ignored}.
* Other keys are ignored with a warning."""


def main() -> None:
    """Writes the pages."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
