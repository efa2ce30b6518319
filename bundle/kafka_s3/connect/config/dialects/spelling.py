"""In which of the three spellings is a configuration, and what does it say in self-managed keys? Or is it another product's?

The managed cloud's has a module of its own. Block-GZIP (SEMANTICS B1)::

    Block-GZIP key            becomes                       remarks
    connector.class           block.gzip.dialect            com.deviantart: original, com.spredfast: successor and its forks
    s3.bucket                 s3.bucket.name                required
    local.buffer.dir                                        required, then dropped: it is not used
    s3.endpoint               store.url
    s3.path_style             s3.path.style.access.enabled  false where it is not set
    s3.region                 s3.region
    s3.prefix                 block.gzip.prefix
    compressed_block_size     block.gzip.block.size
    format                    block.gzip.format             successor; a class by our name
    format.value.delimiter    block.gzip.value.delimiter    successor, text
    format.value.encoding     block.gzip.value.encoding     successor, text
    format.key.delimiter      block.gzip.key.delimiter      successor, text
    format.key.encoding       block.gzip.key.encoding       successor, text
    format.include.keys       block.gzip.include.keys       successor, binary
    layout                    block.gzip.layout             successor
    compressed_file_size      flush.bytes                   successor
    flush.interval.ms         block.gzip.file.interval.ms   successor
    flush.grace.period.ms     block.gzip.file.grace.ms      successor
    key.converter             the same                      AlreadyBytesConverter is ByteArrayConverter
    value.converter           the same                      the same; also the successor's where it is not set
    offset.flush.interval.ms  the same                      the timer at which files are closed
    (nothing)                 format.class, storage.class   block_gzip, S3Storage
    (nothing)                 block.gzip.zone               original: local, successor: UTC

All other keys stay as they are. The successor's keys mean nothing to the original and stay, too, so that they are warned of as unknown.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Final

from kafka_s3.connect.config.classes import BLOCK_GZIP_PACKAGES, CONVERTERS, MANAGED_CLOUD, SELF_MANAGED, STORAGES
from kafka_s3.connect.config.dialects import SpelledConfig
from kafka_s3.connect.config.dialects.managed_cloud import managed_cloud_translation
from kafka_s3.connect.config.option import InvalidValue, Option, did_you_mean, parse
from kafka_s3.connect.config.options.spellings import BLOCK_GZIP_FORMATS, BLOCK_GZIP_ROWS, LAYOUTS
from kafka_s3.connect.config.references import has_reference
from kafka_s3.model.errors import Problem

FORMAT_NAME: Final = "block_gzip"
SHARED: Final[Mapping[str, str]] = {
    "s3.bucket": "s3.bucket.name",
    "s3.endpoint": "store.url",
    "s3.path_style": "s3.path.style.access.enabled",
    "s3.region": "s3.region",
    "s3.prefix": "block.gzip.prefix",
    "compressed_block_size": "block.gzip.block.size",
}
SUCCESSORS: Final[Mapping[str, str]] = {
    "format": "block.gzip.format",
    "format.value.delimiter": "block.gzip.value.delimiter",
    "format.value.encoding": "block.gzip.value.encoding",
    "format.key.delimiter": "block.gzip.key.delimiter",
    "format.key.encoding": "block.gzip.key.encoding",
    "format.include.keys": "block.gzip.include.keys",
    "layout": "block.gzip.layout",
    "compressed_file_size": "flush.bytes",
    "flush.interval.ms": "block.gzip.file.interval.ms",
    "flush.grace.period.ms": "block.gzip.file.grace.ms",
}
"""What each key of the spelling becomes: keys of every release, and keys that the original does not have."""
REPLACED: Final[Mapping[str, str]] = {
    "s3.bucket.name": "s3.bucket",
    "store.url": "s3.endpoint",
    "s3.path.style.access.enabled": "s3.path_style",
    "format.class": "format",
}
"""Self-managed keys that this spelling does not have, and what it has instead."""
INSTEAD: Final = {theirs: ours for ours, theirs in REPLACED.items()}
_FLUSHED = "Files are closed by offset.flush.interval.ms, compressed_file_size, flush.interval.ms and flush.idle.ms."
_NAMED = "Files are called <prefix>/<date>/<topic>-<partition>-<offset>.gz: s3.prefix is the part that can be chosen."
_LINES = "Files are gzip of records by format and format.*.delimiter."
IDLE: Final[Mapping[str, str]] = {
    "flush.size": _FLUSHED,
    "topics.dir": _NAMED,
    "directory.delim": _NAMED,
    "file.delim": _NAMED,
    "s3.compression.type": _LINES,
    "s3.compression.level": _LINES,
    "avro.codec": _LINES,
    "parquet.codec": _LINES,
    "format.bytearray.extension": _LINES,
    "format.bytearray.separator": _LINES,
}
"""Self-managed keys that could be taken for keys of this spelling, and do nothing in it; what does it instead."""
PAD_WIDTH: Final = "filename.offset.zero.pad.width"
TEXT_ONLY: Final = ("format.value.delimiter", "format.value.encoding", "format.key.delimiter", "format.key.encoding")
ORIGINAL: Final = "com.deviantart.kafka_connect_s3.S3SinkConnector"
SUCCESSOR: Final = "com.spredfast.kafka.connect.s3.sink.S3SinkConnector"
_DROPPED: Final = frozenset({"local.buffer.dir", "connector.class"})
_TABLE: Final = {row.key: row for row in BLOCK_GZIP_ROWS}
_BYTES: Final = next(java for java, ours in CONVERTERS.items() if ours == "bytes")


def block_gzip_translation(texts: Mapping[str, str]) -> SpelledConfig:
    """The configuration in the product's own keys, with everything that is wrong with it in its own spelling."""
    dialect = _dialect(texts)
    # where the class does not say which, every key is looked at
    names = SHARED if dialect == "original" else {**SHARED, **SUCCESSORS}
    problems = (
        *_class_problems(texts, dialect),
        *_faults(texts, names),
        *_foreign(texts),
        *(_mismatched(texts) if dialect != "original" else ()),
    )
    at_fault = {problem.key for problem in problems}
    failed = frozenset(names.get(key, key) for key in at_fault)
    out = _renamed(texts, names) | _converters(texts, dialect) | _fixed(texts, dialect)
    kept = {key: text for key, text in out.items() if key not in failed}
    spelled = {ours: theirs for theirs, ours in names.items()}
    return SpelledConfig(kept, problems, failed, spelled, tuple(_without_effect(texts)))


def _dialect(texts: Mapping[str, str]) -> str | None:
    """Whose connector it is, None where its class does not say which."""
    connector = texts.get("connector.class", "").strip()
    return {ORIGINAL: "original", SUCCESSOR: "successor"}.get(connector)


def _class_problems(texts: Mapping[str, str], dialect: str | None) -> Iterator[Problem]:
    given = texts.get("connector.class")
    if dialect is None and not has_reference(given or ""):
        rule = "does not say which Block-GZIP sink is meant." if given else "is required."
        near = did_you_mean(given or "", (ORIGINAL, SUCCESSOR))
        yield Problem("connector.class", None, rule, f"{near} Write one of: {ORIGINAL}, {SUCCESSOR}.".strip())


def _faults(texts: Mapping[str, str], names: Mapping[str, str]) -> Iterator[Problem]:
    for key, option in _TABLE.items():
        text = texts.get(key)
        if text is None:
            if option.required:
                yield Problem(key, None, "is required in the Block-GZIP spelling.", option.doc)
        elif (key in names or option.required) and not has_reference(text):
            yield from _fault(option, text)


def _fault(option: Option, text: str) -> Iterator[Problem]:
    try:
        parse(option, text)
    except InvalidValue as unfit:
        yield Problem(option.key, None, unfit.rule, unfit.remedy)


def _foreign(texts: Mapping[str, str]) -> Iterator[Problem]:
    for key, instead in REPLACED.items():
        if key in texts:
            yield Problem(key, None, "is not a key of the Block-GZIP spelling.", f"Use {instead}.")
    if PAD_WIDTH in texts:
        rule = "is not a key of the Block-GZIP spelling, whose names give partitions 5 digits and offsets 12."
        yield Problem(PAD_WIDTH, None, rule, "Leave it out.")


def _without_effect(texts: Mapping[str, str]) -> Iterator[Problem]:
    for key, instead in IDLE.items():
        if key in texts:
            yield Problem(key, None, "has no effect in the Block-GZIP spelling.", instead)


def _mismatched(texts: Mapping[str, str]) -> Iterator[Problem]:
    """Settings of the format that is not the one chosen; the successor itself refuses an encoding without its delimiter only."""
    given = texts.get("format", "text").strip()
    if has_reference(given):
        return
    if BLOCK_GZIP_FORMATS.get(given, given) == "binary":
        for key in (key for key in TEXT_ONLY if key in texts):
            yield Problem(key, None, "goes with format=text only.", "Leave it out, or set format=text.")
    elif "format.key.encoding" in texts and "format.key.delimiter" not in texts:
        yield Problem(
            "format.key.encoding", None, "goes with format.key.delimiter.", "Set that, too, or leave both out."
        )
    if (
        BLOCK_GZIP_FORMATS.get(given, given) == "text"
        and texts.get("format.include.keys", "").strip().lower() == "true"
    ):
        rule = "goes with format=binary only."
        yield Problem("format.include.keys", None, rule, "In text, format.key.delimiter asks for keys.")


def _renamed(texts: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    out = {names.get(key, key): text for key, text in texts.items() if key not in _DROPPED}
    layout = out.get("block.gzip.layout", "").strip()
    return out | ({"block.gzip.layout": LAYOUTS[layout]} if layout in LAYOUTS else {})


def _converters(texts: Mapping[str, str], dialect: str | None) -> dict[str, str]:
    """Converters by Connect's own names; without one of its own, the successor takes values as the bytes they are."""
    given = {key: texts[key].strip() for key in ("key.converter", "value.converter") if key in texts}
    if dialect != "original":
        given.setdefault("value.converter", _BYTES)
    return {key: _BYTES if CONVERTERS.get(java) == "bytes" else java for key, java in given.items()}


def _fixed(texts: Mapping[str, str], dialect: str | None) -> dict[str, str]:
    return {
        "connector.class": SELF_MANAGED,
        "storage.class": next(iter(STORAGES)),
        "format.class": FORMAT_NAME,
        "s3.path.style.access.enabled": texts.get("s3.path_style", "false"),
        "block.gzip.dialect": dialect or "successor",
        "block.gzip.zone": "local" if dialect == "original" else "UTC",
    }


_MISSPELT: Final = 0.9
"""Classes of one vendor are alike by their long package already: that much of the whole is less than a word."""
_PACKAGE: Final = SELF_MANAGED.rpartition(".")[0]
_CLASS: Final = f"connector.class={SELF_MANAGED}"
_LENSES = (
    "Lenses", f"Set {_CLASS}, and say with s3.bucket.name, topics.dir, partitioner.class, format.class and flush.size what "
    "connect.s3.kcql says now.")  # fmt: skip
_SOURCE = ("Confluent's S3 source", "It reads objects into Kafka, which this product does not do.")
OTHERS: Final[Mapping[str, tuple[str, str]]] = {
    "io.lenses.": _LENSES,
    "com.datamountaineer.": _LENSES,
    "io.aiven.": ("Aiven", f"Set {_CLASS}, s3.bucket.name for aws.s3.bucket.name, s3.region for aws.s3.region, topics.dir and "
                  "partitioner.class for file.name.template, format.class for format.output.type, and flush.size."),
    "org.apache.camel.": ("Camel", f"Set {_CLASS}, s3.bucket.name and s3.region for camel.kamelet.aws-s3-sink.bucketNameOrArn and "
                          "region, format.class and flush.size."),
    "com.redpanda.": ("Redpanda", f"Set {_CLASS}, s3.bucket.name for aws.s3.bucket.name, s3.region for aws.s3.region, format.class for "
                      "format.output.type, and flush.size."),
    "com.cloudera.": ("Cloudera", f"Set {_CLASS}, s3.bucket.name for aws.s3.bucket, store.url for aws.s3.service_endpoint, format.class "
                      "for output.writer, and flush.size."),
    "io.confluent.connect.s3.source.": _SOURCE,
    "S3_SOURCE": _SOURCE,
    "S3Source": _SOURCE,
    "io.confluent.connect.gcs.": ("Confluent's GCS", f"Set {_CLASS}, s3.* for gcs.*, and store.url=https://storage.googleapis.com."),
    "io.confluent.connect.azure.": ("Confluent's Azure", "It writes to Azure storage, which has no S3 interface."),
    "io.confluent.connect.hdfs": ("Confluent's HDFS", f"Set {_CLASS}, s3.bucket.name for hdfs.url, and format.class of the S3 sink."),
    "org.apache.iceberg.": ("Iceberg", "Here a sink of Parquet objects keeps Iceberg tables of them with iceberg.enable=true."),
    "io.tabular.": ("Iceberg", "Here a sink of Parquet objects keeps Iceberg tables of them with iceberg.enable=true."),
}  # fmt: skip
"""By how the class begins: whose connector it is, and what to change."""


def another_products(texts: Mapping[str, str]) -> Problem | None:
    """What to say of a configuration of another product: one thing, for its other keys are not ours to judge."""
    connector = texts.get("connector.class", "").strip()
    found = next((other for prefix, other in OTHERS.items() if connector.startswith(prefix)), None)
    if found is not None:
        vendor, change = found
        return Problem("connector.class", None, f"is a connector of another product: {vendor}.", change)
    if _may_be_ours(connector):
        return None
    change = f"Set {_CLASS}, and its keys in place of that connector's."
    return Problem("connector.class", None, "is a connector of another product.", change)


def _may_be_ours(connector: str) -> bool:
    """Whether it is one whose place this product takes, perhaps misspelt, or a name without a package."""
    if "." not in connector or has_reference(connector) or connector.startswith((_PACKAGE, *BLOCK_GZIP_PACKAGES)):
        return True
    return bool(difflib.get_close_matches(connector.lower(), [SELF_MANAGED.lower()], cutoff=_MISSPELT))


def self_managed(texts: Mapping[str, str], worker: Mapping[str, str]) -> SpelledConfig:
    """The configuration in self-managed keys, with what only its own spelling shows. `worker` are the settings of `read_worker`.

    The connector's class says the spelling, or keys that only Block-GZIP has.
    """
    connector = texts.get("connector.class", "").strip()
    if connector == MANAGED_CLOUD:
        return managed_cloud_translation(texts, worker)
    if connector.startswith(BLOCK_GZIP_PACKAGES) or {"s3.bucket", "local.buffer.dir"} <= texts.keys():
        return block_gzip_translation(texts)
    return SpelledConfig(texts)
