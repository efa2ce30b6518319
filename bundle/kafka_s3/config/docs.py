"""What does the reference page of the configuration say? It is made from the option table: `python -m kafka_s3.config.docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from kafka_s3.config import worker
from kafka_s3.config.option import Option, OptionGroup, OptionStatus, Type
from kafka_s3.config.options.table import CLOUD_OPTIONS, OPTIONS, TRANSFORM_OPTIONS
from kafka_s3.config.valid_values import KnownClass

INTRODUCTION: Final = """# Configuration

<!-- Made from the option table by `python -m kafka_s3.config.docs`; do not edit by hand. -->

A sink is configured by the file of the connector that it replaces: JSON (a plain map, or `{"name": ..., "config": {...}}`), Java
properties, or YAML (the same maps, or Strimzi's `KafkaConnector`). Of several equal keys the last counts, with a warning.
`kafka-s3 validate FILE` reports every problem at once.

Status of a key:

* **acted on**: does what it does in the original.
* **informational**: accepted without effect, for the reason given.
* **not yet**: the original acts on it and this version does not; any value but the default is refused.
* **refused**: never supported; the text says what to do instead.

Keys that are not in these tables are ignored with a warning; `kafka-s3 validate --strict` makes them errors. Java class names of the
original are resolved to built-in parts by name;
no Java class is ever loaded."""

REFERENCES: Final = """## References to secrets

A value may hold references, also inside longer text. They are resolved when a run starts, and the values they give are never shown.

| Reference | Stands for |
|---|---|
| `${env:NAME}` | the environment variable `NAME` |
| `${file:/path:key}` | the key of a properties file |
| `${file:/path}` | the whole file, without surrounding blanks |
| `${secrets:scope/key}`, `${secret:scope/key}` | the variable `KAFKA_S3_SECRET_<SCOPE>_<KEY>` (upper case, everything but letters \
and digits as `_`), else the file `<scope>/<key>` below the directory in `KAFKA_S3_SECRETS_DIR`, else the Databricks secret |"""

TRANSFORMS: Final = """What each class does, and where it differs: [transforms](transforms.md). The class of a row stands in \
brackets; `$Key` and `$Value` take the same settings."""

CLOUD: Final = """A configuration with `connector.class=S3_SINK` is read in this spelling. Keys that are not in this table mean \
what they mean in the tables above; `kafka.bootstrap.servers` has to be added. \
Records that cannot be written go to the dead letter topic `dlq-<name>`, \
unless `errors.deadletterqueue.topic.name` names another one; \
`${connector}` in it stands for the name. What the managed cloud knows by itself is \
taken from the worker file: the brokers, the login of a service account, and the schema registry of `value.converter.*`."""


def configuration_page() -> str:
    """The page, in Markdown."""
    return "\n\n".join([INTRODUCTION, *_chapters(), _worker(), REFERENCES]) + "\n"


def _chapters() -> Iterator[str]:
    rows = (*OPTIONS, *TRANSFORM_OPTIONS, *CLOUD_OPTIONS)
    for group in (one for one in OptionGroup if one is not OptionGroup.PLUGIN):
        about = {OptionGroup.CLOUD: f"{CLOUD}\n\n", OptionGroup.TRANSFORMS: f"{TRANSFORMS}\n\n"}.get(group, "")
        yield f"## {group}\n\n{about}{_table(option for option in rows if option.group is group)}"


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
    taken = ", ".join(f"`{key}`" for key in worker.TAKEN)
    ignored = ", ".join(
        f"`{key}`" for key in sorted((*worker.IGNORED, *(f"{prefix}*" for prefix in worker.IGNORED_PREFIXES)))
    )
    return f"""## Connect's worker file

The worker's properties can be given beside the connector's file. The connector's own settings win; a connector that names a converter gets
none of the worker's settings of that converter.

* Taken: {taken}, `consumer.*` (as `consumer.override.*`), and `security.protocol`, `sasl.*`, `ssl.*` where there is no `consumer.` form.
* Without meaning for a sink, and ignored: {ignored}.
* Other keys are ignored with a warning."""


if __name__ == "__main__":
    sys.stdout.write(configuration_page())
