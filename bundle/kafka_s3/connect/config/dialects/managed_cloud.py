"""What does the managed cloud spelling mean in self-managed keys? (SEMANTICS A1.5).

Three things the managed cloud knows by itself, and has to be given here: the brokers, a service account's login, the schema registry. They
are taken from `kafka.endpoint`, and from Connect's worker file, where the configuration does not say them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kafka_s3.connect.config.classes import (
    CONVERTERS,
    FORMATS,
    PARTITIONERS,
    REGISTRY_CONVERTERS,
    STORAGES,
    TIME_PARTITIONERS,
)
from kafka_s3.connect.config.dialects import SpelledConfig
from kafka_s3.connect.config.option import InvalidValue, OptionStatus, check_filled_in, default_of, parse, unsupported
from kafka_s3.connect.config.options.client import CONSUMER
from kafka_s3.connect.config.options.connector import SHORT_ZONES
from kafka_s3.connect.config.options.spellings import ACCESS_KEYS, IAM_ROLES, SERVICE_ACCOUNT
from kafka_s3.connect.config.options.table import CLOUD, EXACT
from kafka_s3.connect.config.references import has_reference
from kafka_s3.model.errors import Problem

JAAS: Final = f"{CONSUMER}sasl.jaas.config"
BROKERS: Final = "kafka.bootstrap.servers"
AFFECTS: Final[Mapping[str, tuple[str, ...]]] = {
    **{key: () for key, row in CLOUD.items() if row.status is not OptionStatus.ACTED_ON},
    "kafka.auth.mode": (),
    "authentication.method": (),
    "kafka.api.key": (JAAS,),
    "kafka.api.secret": (JAAS,),
    "kafka.endpoint": (BROKERS,),
    "input.data.format": ("value.converter", "value.converter.schemas.enable"),
    "input.key.format": ("key.converter", "key.converter.schemas.enable"),
    "output.data.format": ("format.class",),
    "output.keys.format": ("keys.format.class",),
    "output.headers.format": ("headers.format.class",),
    "compression.codec": ("s3.compression.type", "avro.codec"),
    "time.interval": ("partition.duration.ms", "path.format", "rotate.interval.ms"),
    "timestamp.field": ("timestamp.extractor", "timestamp.field"),
    "subject.name.strategy": ("value.converter.value.subject.name.strategy", "key.converter.key.subject.name.strategy"),
    "value.subject.name.strategy": ("value.converter.value.subject.name.strategy",),
    "key.subject.name.strategy": ("key.converter.key.subject.name.strategy",),
    "max.poll.records": (f"{CONSUMER}max.poll.records",),
    "max.poll.interval.ms": (f"{CONSUMER}max.poll.interval.ms",),
}
"""Which self-managed keys a cloud key stands for, where it is not the one of the same name."""
REPLACED: Final = {
    "format.class": "output.data.format",
    "value.converter": "input.data.format",
    "partition.duration.ms": "time.interval",
    "timestamp.extractor": "timestamp.field",
    "s3.compression.type": "compression.codec",
    "avro.codec": "compression.codec",
}
"""Self-managed keys that the managed cloud spelling does not have, and what it has instead."""
SAME: Final = ("subject.name.strategy", "value.subject.name.strategy", "key.subject.name.strategy", "max.poll.records",
                "max.poll.interval.ms")  # fmt: skip
"""Cloud keys whose value is that of the keys they stand for; a later one wins."""
OF_REGISTRY: Final = ("schema.registry.", "basic.auth.", "bearer.auth.")
"""How the names of a converter's settings begin that say which registry, and how it knows us."""


def translations(key: str) -> tuple[str, ...]:
    """The self-managed keys that take a key's value; those of the registry go to keys as well as to values."""
    prefix = "value.converter."
    if key.startswith(tuple(prefix + name for name in OF_REGISTRY)):
        return (key.replace(prefix, "key.converter.", 1),)
    return AFFECTS.get(key, ())


PROTOCOL: Final = f"{CONSUMER}security.protocol"
DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_LOGIN: Final = ("kafka.api.key", "kafka.api.secret")
_STATIC: Final = ("aws.access.key.id", "aws.secret.access.key")
HOUR_MS: Final = 3_600_000
LENGTHS: Final = {"DAILY": 24 * HOUR_MS, "HOURLY": HOUR_MS}
PATHS: Final = {"DAILY": "'year'=YYYY/'month'=MM/'day'=dd", "HOURLY": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"}
_JAVA_FORMAT = {"BYTES" if ours == "bytearray" else ours.upper(): java for java, ours in FORMATS.items()}
_JAVA_CONVERTER = {ours: java for java, ours in CONVERTERS.items()}
_INPUTS = {"AVRO": "avro", "JSON_SR": "json_schema", "PROTOBUF": "protobuf", "JSON": "json", "BYTES": "bytes",
           "STRING": "string"}  # fmt: skip


def managed_cloud_translation(texts: Mapping[str, str], worker: Mapping[str, str]) -> SpelledConfig:
    """The configuration in self-managed keys, with what is wrong and odd about it in its own spelling."""
    problems = [*_faults(texts, worker), *_foreign(texts)]
    at_fault = {problem.key for problem in problems}
    if not at_fault & {"input.data.format", "output.data.format"}:
        problems += [
            *(_codec_of_other_format(texts) if "compression.codec" not in at_fault else ()),
            *_formats_that_do_not_meet(texts),
        ]
    if not at_fault & {"input.key.format", "output.keys.format", "store.kafka.keys"}:
        problems += _keys_that_are_no_bytes(texts)
    at_fault = {problem.key for problem in problems}
    failed = {key for cloud in at_fault for key in AFFECTS.get(cloud, (cloud,))}
    out = {key: text for key, text in texts.items() if key not in AFFECTS and key not in REPLACED}
    for part in (_fixed(), _credentials(texts, worker), _brokers(texts), _formats(texts), _same(texts), _time(texts),
                 _dead_letters(texts)):  # fmt: skip
        out |= {key: text for key, text in part.items() if key not in out}
    for cloud, keys in AFFECTS.items():
        if has_reference(texts.get(cloud, "")) and not cloud.startswith("kafka."):
            out |= dict.fromkeys(keys, texts[cloud])
    out |= _replaced(texts) | _registry(out, worker)
    kept = {key: text for key, text in out.items() if key not in failed}
    return SpelledConfig(
        kept, tuple(problems), frozenset(failed), _spelled(texts), tuple(_oddities(texts, out, worker))
    )


def _faults(texts: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[Problem]:
    elsewhere = _given_elsewhere(texts, worker)
    for key, option in CLOUD.items():
        text = texts.get(key)
        if text is None:
            if option.required and key not in elsewhere:
                yield Problem(key, None, "is required in the managed cloud spelling.", _how(key, texts))
        elif not has_reference(text) and not (key == "rotate.schedule.interval.ms" and text.strip() == "-1"):
            try:
                check_filled_in(option, text)
                unfit = unsupported(option, parse(option, text))
            except InvalidValue as error:
                unfit = error
            if unfit:
                yield Problem(key, None, unfit.rule, unfit.remedy)


def _given_elsewhere(texts: Mapping[str, str], worker: Mapping[str, str]) -> tuple[str, ...]:
    """Required keys that are not, because something else says the same."""
    login = _LOGIN if JAAS in texts or JAAS in worker else ()
    roles = _STATIC if texts.get("authentication.method", "").strip() == IAM_ROLES else ()
    return (*login, *roles, *(() if _by_time(texts) else ("time.interval",)))


def _how(key: str, texts: Mapping[str, str]) -> str:
    choices = CLOUD[key].valid.text
    if key in _LOGIN and texts.get("kafka.auth.mode", "").strip() == SERVICE_ACCOUNT:
        return (
            "A service account is known inside the managed cloud only: make an API key for it, and give it with --set "
            f"{key}=${{env:NAME}}; or give the login in the file of --worker."
        )
    return f"Set it to one of: {choices}." if choices else "Set it."


def _by_time(texts: Mapping[str, str]) -> bool:
    given = texts.get("partitioner.class")
    try:
        return given is None or parse(EXACT["partitioner.class"], given) in TIME_PARTITIONERS
    except InvalidValue:
        return False


def _foreign(texts: Mapping[str, str]) -> Iterator[Problem]:
    for key, instead in REPLACED.items():
        if key in texts:
            remedy = f"Use {instead}, or connector.class=S3SinkConnector."
            yield Problem(key, None, "is not a key of the managed cloud spelling.", remedy)


def _codec_of_other_format(texts: Mapping[str, str]) -> Iterator[Problem]:
    codec, output = texts.get("compression.codec", "").strip(), texts["output.data.format"].strip()
    if codec and not has_reference(codec + output) and codec.partition(" ")[0] != output:
        yield Problem(
            "compression.codec", None, f"must match output.data.format, which is {output}.", "Leave it out for none."
        )


def _formats_that_do_not_meet(texts: Mapping[str, str]) -> Iterator[Problem]:
    given, made = (texts[key].strip() for key in ("input.data.format", "output.data.format"))
    if made == "BYTES" and given in _INPUTS and given != "BYTES":
        rule = f"BYTES takes input.data.format=BYTES only: values of {given} are none, and each would be a dead letter."
        yield Problem("output.data.format", None, rule, "Use output.data.format=JSON, or input.data.format=BYTES.")
    if made == "AVRO" and given == "JSON" and texts.get("value.converter.schemas.enable", "").strip().lower() != "true":
        rule = "AVRO does not take input.data.format=JSON, which has no schema, as in the managed connector."
        yield Problem("output.data.format", None, rule, "Use output.data.format=JSON, or an input with a schema.")


def _keys_that_are_no_bytes(texts: Mapping[str, str]) -> Iterator[Problem]:
    given, made = _key_format(texts), texts.get("output.keys.format", "").strip()
    stored = texts.get("store.kafka.keys", "").strip().lower() == "true"
    if stored and made == "BYTES" and given in _INPUTS and given != "BYTES":
        rule = f"BYTES takes input.key.format=BYTES only: keys of {given} are none, and each record would be a dead letter."
        yield Problem(
            "output.keys.format", None, rule, "Set input.key.format=BYTES (the same bytes, as they are), or use JSON."
        )


def _key_format(texts: Mapping[str, str]) -> str:
    """How keys are read. Where nobody says so and they are stored as bytes, as bytes: those of a text are the text's own."""
    given, row = texts.get("input.key.format", "").strip(), CLOUD["input.key.format"]
    as_bytes = texts.get("output.keys.format", "").strip() == "BYTES" and not _by_key(texts)
    return given or ("BYTES" if as_bytes else str(row.default))


def _by_key(texts: Mapping[str, str]) -> bool:
    return texts.get("partitioner.class", "").strip() == "key"


def _fixed() -> dict[str, str]:
    return {
        "storage.class": next(iter(STORAGES)),
        "partitioner.class": next(java for java, ours in PARTITIONERS.items() if ours == "time"),
        **{key: CLOUD[key].default or "" for key in ("flush.size", "timezone", "locale", "s3.compression.level")},
    }


def _credentials(texts: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    if not any(key in texts for key in _LOGIN) and (JAAS in texts or JAAS in worker):
        return {}
    user, password = (_quoted(texts.get(key, "").strip()) for key in _LOGIN)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        PROTOCOL: "SASL_SSL",
        f"{CONSUMER}sasl.mechanism": "PLAIN",
        JAAS: f"{module} required username={user} password={password};",
    }


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _brokers(texts: Mapping[str, str]) -> dict[str, str]:
    endpoint = texts.get("kafka.endpoint", "").strip()
    return {BROKERS: endpoint.rpartition("://")[2]} if endpoint else {}


def _formats(texts: Mapping[str, str]) -> dict[str, str]:
    given = {key: texts.get(key, "").strip() or str(CLOUD[key].default or "") for key in AFFECTS if key in CLOUD}
    given["input.key.format"] = _key_format(texts)
    codec = given["compression.codec"].rpartition(" ")[2]
    return {
        "value.converter": _converter(given["input.data.format"]),
        "value.converter.schemas.enable": "false",
        "key.converter": _converter(given["input.key.format"]),
        **({"key.converter.schemas.enable": "false"} if given["input.key.format"] == "JSON" else {}),
        "format.class": _JAVA_FORMAT.get(given["output.data.format"], ""),
        "keys.format.class": _JAVA_FORMAT.get(given["output.keys.format"], ""),
        "headers.format.class": _JAVA_FORMAT.get(given["output.headers.format"], ""),
        **({"s3.compression.type": "gzip"} if codec == "gzip" else {"avro.codec": codec} if codec else {}),
    }


def _converter(given: str) -> str:
    return _JAVA_CONVERTER.get(_INPUTS.get(given, ""), "")


def _same(texts: Mapping[str, str]) -> dict[str, str]:
    made = _formats(texts)
    without = [
        f"{side}." for side in ("value.converter", "key.converter") if _ours(made[side]) not in REGISTRY_CONVERTERS
    ]
    given = {key: texts[cloud] for cloud in SAME if cloud in texts for key in AFFECTS[cloud]}
    return {key: text for key, text in given.items() if not key.startswith(tuple(without))}


def _time(texts: Mapping[str, str]) -> dict[str, str]:
    interval = texts.get("time.interval", "").strip()
    timestamp = texts.get("timestamp.field", "").strip()
    length = LENGTHS.get(interval, HOUR_MS)
    buckets = {
        "partition.duration.ms": str(length),
        "rotate.interval.ms": str(length),
        "path.format": PATHS.get(interval, PATHS["HOURLY"]),
    }
    return {
        **(buckets if _by_time(texts) else {}),
        "timestamp.extractor": "RecordField" if timestamp else "Record",
        **({"timestamp.field": timestamp} if timestamp else {}),
    }


def _dead_letters(texts: Mapping[str, str]) -> dict[str, str]:
    return {  # the managed cloud makes a dead letter topic for every connector
        "errors.tolerance": "all",
        DEAD_LETTERS: f"dlq-{_topic_part(texts)}",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


def _topic_part(texts: Mapping[str, str]) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", texts.get("name", "").strip())


def _replaced(texts: Mapping[str, str]) -> dict[str, str]:
    """Values that the managed cloud understands in a way of its own."""
    zone = SHORT_ZONES.get(texts.get("timezone", "").strip().upper())
    letters = texts.get(DEAD_LETTERS, "")
    return {
        **({"timezone": zone} if zone else {}),
        **({DEAD_LETTERS: letters.replace("${connector}", _topic_part(texts))} if "${connector}" in letters else {}),
    }


def _registry(out: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """One registry for values and keys: the configuration's, else the worker's."""
    converters = {side: _ours(out.get(f"{side}.converter", "")) for side in ("value", "key")}
    known = {**_registry_settings(worker, "value"), **_registry_settings(out, "value")}
    return {
        f"{side}.converter.{name}": text
        for side, converter in converters.items()
        if converter in REGISTRY_CONVERTERS
        for name, text in {**known, **_registry_settings(out, side)}.items()
    }


def _registry_settings(texts: Mapping[str, str], side: str) -> dict[str, str]:
    prefix = f"{side}.converter."
    named = {key.removeprefix(prefix): text for key, text in texts.items() if key.startswith(prefix)}
    return {name: text for name, text in named.items() if name.startswith(OF_REGISTRY)}


def _ours(java: str) -> str:
    return CONVERTERS.get(java, "")


def _spelled(texts: Mapping[str, str]) -> dict[str, str]:
    names = {**REPLACED, "keys.format.class": "output.keys.format", "headers.format.class": "output.headers.format"}
    names |= {ours: cloud for cloud in SAME if cloud in texts for ours in AFFECTS[cloud]}
    return {
        **names,
        "key.converter": "input.key.format",
        JAAS: "kafka.api.secret",
        **({BROKERS: "kafka.endpoint"} if "kafka.endpoint" in texts else {}),
    }


def _oddities(texts: Mapping[str, str], out: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[Problem]:
    for key, option in CLOUD.items():
        if key in texts and option.status is OptionStatus.INFORMATIONAL and texts[key].strip() != default_of(option):
            yield Problem(key, None, "has no effect.", option.note)
    zone = _replaced(texts).get("timezone")
    if zone:
        yield Problem("timezone", None, f"is not a zone id; {zone} is meant.", f"Write {zone}.")
    if texts.get("authentication.method", ACCESS_KEYS).strip() == IAM_ROLES:
        rule = "takes the credentials of this machine here: the managed cloud's integration is not known outside of it."
        provider = (
            "s3.credentials.provider.class=AwsAssumeRoleCredentialsProvider with s3.credentials.provider.sts.role.*"
        )
        yield Problem("authentication.method", None, rule, f"Give the machine the role, or set {provider}.")
    if not _by_time(texts) and "time.interval" in texts:
        yield Problem("time.interval", None, "has no effect: the partitioner does not use time.", "Leave it out.")
    url = "value.converter.schema.registry.url"
    if url in worker and url not in texts and _ours(out.get("value.converter", "")) in REGISTRY_CONVERTERS:
        rule = "is the worker's: the managed cloud knows its registry by itself, and here the configuration names it."
        yield Problem(url, None, rule, f"Set {url} to say another.")
