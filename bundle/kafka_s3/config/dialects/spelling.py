"""In which of the three spellings is a configuration, and what does the managed cloud one mean in self-managed keys? (SEMANTICS A1.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kafka_s3.config.classes import BLOCK_GZIP_PACKAGES, CONVERTERS, FORMATS, MANAGED_CLOUD, PARTITIONERS, STORAGES
from kafka_s3.config.dialects.block_gzip import block_gzip_translation
from kafka_s3.config.option import InvalidValue, parse, unsupported
from kafka_s3.config.options.table import CLOUD
from kafka_s3.config.references import has_reference
from kafka_s3.model.errors import Problem

JAAS: Final = "consumer.override.sasl.jaas.config"
AFFECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka.auth.mode": (),
    "kafka.api.key": (JAAS,),
    "kafka.api.secret": (JAAS,),
    "input.data.format": ("value.converter", "value.converter.schemas.enable"),
    "output.data.format": ("format.class",),
    "compression.codec": ("s3.compression.type", "avro.codec"),
    "time.interval": ("partition.duration.ms", "path.format", "rotate.interval.ms"),
    "timestamp.field": ("timestamp.extractor", "timestamp.field"),
}
"""Which self-managed keys a cloud key stands for, where it is not the one of the same name."""
REPLACED: Final = {
    "format.class": "output.data.format",
    "value.converter": "input.data.format",
    "value.converter.schemas.enable": "input.data.format",
    "partitioner.class": "time.interval",
    "partition.duration.ms": "time.interval",
    "timestamp.extractor": "timestamp.field",
    "s3.compression.type": "compression.codec",
    "avro.codec": "compression.codec",
}
"""Self-managed keys that the managed cloud spelling does not have, and what it has instead."""
HOUR_MS: Final = 3_600_000
LENGTHS: Final = {"DAILY": 24 * HOUR_MS, "HOURLY": HOUR_MS}
PATHS: Final = {"DAILY": "'year'=YYYY/'month'=MM/'day'=dd", "HOURLY": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"}
_JAVA_FORMAT = {ours: java for java, ours in FORMATS.items()}
_JAVA_CONVERTER = {ours: java for java, ours in CONVERTERS.items()}
_INPUTS = {"AVRO": "avro", "JSON_SR": "json_schema", "PROTOBUF": "protobuf", "JSON": "json", "BYTES": "bytes"}


class Dialect(StrEnum):
    """The spellings of a sink's configuration."""

    SELF_MANAGED = "self-managed"
    MANAGED_CLOUD = "managed cloud"
    BLOCK_GZIP = "Block-GZIP"


@dataclass(frozen=True, slots=True)
class SpelledConfig:
    """A configuration in self-managed keys. `failed` are those whose cloud key is at fault; `spelled` gives the cloud key of a key."""

    texts: Mapping[str, str]
    problems: tuple[Problem, ...] = ()
    failed: frozenset[str] = frozenset()
    spelled: Mapping[str, str] = field(default_factory=dict)


def dialect_of(texts: Mapping[str, str]) -> Dialect:
    """The spelling, told by the connector's class, or by keys that only Block-GZIP has."""
    connector = texts.get("connector.class", "").strip()
    if connector == MANAGED_CLOUD:
        return Dialect.MANAGED_CLOUD
    if connector.startswith(BLOCK_GZIP_PACKAGES) or {"s3.bucket", "local.buffer.dir"} <= texts.keys():
        return Dialect.BLOCK_GZIP
    return Dialect.SELF_MANAGED


def self_managed(texts: Mapping[str, str]) -> SpelledConfig:
    """The configuration in self-managed keys, with the faults that only its own spelling shows."""
    match dialect_of(texts):
        case Dialect.MANAGED_CLOUD:
            return _from_cloud(texts)
        case Dialect.BLOCK_GZIP:
            found = block_gzip_translation(texts)
            return SpelledConfig(found.texts, found.problems, found.failed, found.spelled)
        case _:
            return SpelledConfig(texts)


def _from_cloud(texts: Mapping[str, str]) -> SpelledConfig:
    problems = [*_faults(texts), *_foreign(texts)]
    if not problems:
        problems += _codec_of_other_format(texts)
    at_fault = {problem.key for problem in problems}
    failed = {key for cloud in at_fault for key in AFFECTS.get(cloud, (cloud,))}
    out = {key: text for key, text in texts.items() if key not in AFFECTS and key not in REPLACED}
    for part in (_fixed(), _credentials(texts), _formats(texts), _time(texts), _dead_letters(texts)):
        out |= {key: text for key, text in part.items() if key not in out}
    for cloud, keys in AFFECTS.items():
        if has_reference(texts.get(cloud, "")) and cloud in CLOUD and not cloud.startswith("kafka."):
            out |= dict.fromkeys(keys, texts[cloud])
    kept = {key: text for key, text in out.items() if key not in failed}
    return SpelledConfig(kept, tuple(problems), frozenset(failed), {**REPLACED, JAAS: "kafka.api.secret"})


def _faults(texts: Mapping[str, str]) -> Iterator[Problem]:
    for key, option in CLOUD.items():
        text = texts.get(key)
        if text is None:
            if option.required:
                yield Problem(key, None, "is required in the managed cloud spelling.", _choices(option.valid.text))
        elif not has_reference(text) and not (key == "rotate.schedule.interval.ms" and text.strip() == "-1"):
            try:
                unfit = unsupported(option, parse(option, text))
            except InvalidValue as error:
                unfit = error
            if unfit:
                yield Problem(key, None, unfit.rule, unfit.remedy)


def _choices(text: str) -> str:
    return f"Set it to one of: {text}." if text else "Set it."


def _foreign(texts: Mapping[str, str]) -> Iterator[Problem]:
    for key, instead in REPLACED.items():
        if key in texts:
            yield Problem(
                key,
                None,
                "is not a key of the managed cloud spelling.",
                f"Use {instead}, or connector.class=S3SinkConnector.",
            )


def _codec_of_other_format(texts: Mapping[str, str]) -> Iterator[Problem]:
    codec, output = texts.get("compression.codec", "").strip(), texts["output.data.format"].strip()
    if codec and not has_reference(codec + output) and codec.partition(" ")[0] != output:
        yield Problem(
            "compression.codec", None, f"must match output.data.format, which is {output}.", "Leave it out for none."
        )


def _fixed() -> dict[str, str]:
    return {
        "storage.class": next(iter(STORAGES)),
        "partitioner.class": next(java for java, ours in PARTITIONERS.items() if ours == "time"),
        "key.converter": _JAVA_CONVERTER["string"],
        **{key: CLOUD[key].default or "" for key in ("flush.size", "timezone", "locale", "s3.compression.level")},
    }


def _credentials(texts: Mapping[str, str]) -> dict[str, str]:
    user, password = (_quoted(texts.get(key, "").strip()) for key in ("kafka.api.key", "kafka.api.secret"))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "consumer.override.security.protocol": "SASL_SSL",
        "consumer.override.sasl.mechanism": "PLAIN",
        JAAS: f"{module} required username={user} password={password};",
    }


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _formats(texts: Mapping[str, str]) -> dict[str, str]:
    values = {
        key: texts.get(key, "").strip() for key in ("input.data.format", "output.data.format", "compression.codec")
    }
    codec = values["compression.codec"].rpartition(" ")[2]
    return {
        "value.converter": _JAVA_CONVERTER.get(_INPUTS.get(values["input.data.format"], ""), ""),
        "value.converter.schemas.enable": "false",
        "format.class": _JAVA_FORMAT.get(
            {"BYTES": "bytearray"}.get(values["output.data.format"], values["output.data.format"].lower()), ""
        ),
        **({"s3.compression.type": "gzip"} if codec == "gzip" else {"avro.codec": codec} if codec else {}),
    }


def _time(texts: Mapping[str, str]) -> dict[str, str]:
    interval = texts.get("time.interval", "").strip()
    timestamp = texts.get("timestamp.field", "").strip()
    length = LENGTHS.get(interval, HOUR_MS)
    return {
        "partition.duration.ms": str(length),
        "rotate.interval.ms": str(length),
        "path.format": PATHS.get(interval, PATHS["HOURLY"]),
        "timestamp.extractor": "RecordField" if timestamp else "Record",
        **({"timestamp.field": timestamp} if timestamp else {}),
    }


def _dead_letters(texts: Mapping[str, str]) -> dict[str, str]:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", texts.get("name", "").strip())
    return {  # the managed cloud makes a dead letter topic for every connector
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"dlq-{name}",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
