"""What do a configuration file and Connect's worker file say? Both become texts by key; nothing is judged here but the form.

A configuration is JSON, Java properties or YAML (Strimzi's `KafkaConnector`, or the maps that JSON files hold). Of the worker file only
clients and converters matter to a sink.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafka_s3.connect.config.option import did_you_mean
from kafka_s3.connect.config.options.table import presentable
from kafka_s3.model.errors import ConfigError, Problem

if TYPE_CHECKING:
    import yaml


KIND: Final = "KafkaConnector"
"""The resource of Strimzi's operator: `metadata.name`, `spec.class`, `spec.tasksMax`, and the rest in `spec.config`."""
_NULLS: Final = ("", "~", "null", "Null", "NULL")
CONFIGURATIONS: Final = (".json", ".properties", ".yaml", ".yml")
"""How the names of configuration files end."""
_ENVELOPE: Final = frozenset({"name", "config", "tasks", "type"})  # what Connect's REST interface answers
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*([=:\s])")
_BROKEN_UNICODE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
TAKEN: Final = ("bootstrap.servers", "offset.flush.interval.ms", "offset.flush.timeout.ms", *CONVERTERS)
SECURITY: Final = ("security.protocol", "sasl.", "ssl.")
IGNORED: Final = (
    "group.id", "client.id", "client.dns.lookup", "listeners", "plugin.path", "plugin.discovery", "connect.protocol",
    "connector.client.config.override.policy", "task.shutdown.graceful.timeout.ms", "session.timeout.ms", "heartbeat.interval.ms",
    "rebalance.timeout.ms", "scheduled.rebalance.max.delay.ms", "exactly.once.source.support", "request.timeout.ms",
    "retry.backoff.ms", "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "receive.buffer.bytes",
    "send.buffer.bytes", "connections.max.idle.ms", "header.converter.type", "response.http.headers.config", "cluster",
)  # fmt: skip
IGNORED_PREFIXES: Final = (
    "rest.", "admin.", "producer.", "config.storage.", "offset.storage.", "status.storage.", "config.providers", "internal.",
    "inter.worker.", "topic.creation.", "topic.tracking.", "access.control.", "metric.", "metrics.", "metadata.", "worker.",
    "socket.", "confluent.", "listeners.", "security.providers", "ssl.client.auth", "ssl.principal.mapping.rules",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file's settings by key, what is odd about its form, and which of its values have none that a configuration takes."""

    texts: dict[str, str]
    warnings: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_config(path: Path | str) -> ConfigFile:
    """The settings of a file: `.properties`, YAML, or JSON as a plain map or as `{"name": ..., "config": {...}}`.

    Booleans become `true` and `false`, numbers keep their spelling, null counts as absent; the last of several equal keys counts, as
    in Connect, with a warning. Raises ConfigError with the place of every fault, also where there is no such file.
    """
    found = read_form(Path(path))
    if found.problems:
        raise ConfigError(found.problems)
    return found


def read_form(path: Path) -> ConfigFile:
    """The same, with lists and maps in place of texts among the `problems`, so that they hide no others.

    The texts have a list as its parts with commas between them, and leave a map out.
    """
    text = read_text(path)
    if path.suffix in (".json", ".yaml", ".yml") and not text.strip():
        raise empty(path)
    if path.suffix == ".tf":
        way_out = "Write the pairs of config_sensitive and config_nonsensitive as one JSON object, with values, not references."
        raise fault(path, None, "is Terraform's language, whose values Terraform alone knows.", way_out)
    if path.suffix in (".yaml", ".yml"):
        return _settings(*read_yaml(text, path), path)
    if path.suffix == ".properties" or (path.suffix != ".json" and not text.lstrip().startswith("{")):
        found = list(_property_pairs(text, path))
        return ConfigFile(dict(found), repeated(found, path))
    return _settings(*_read_json(text, path), path)


def _settings(document: Any, warnings: Sequence[Problem], path: Path) -> ConfigFile:
    problems: list[Problem] = []
    texts = dict(_flat(document, path, problems))
    return ConfigFile(texts, tuple(warnings), tuple(problems))


def _flat(document: Any, path: Path, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    if not isinstance(document, dict):
        raise fault(path, None, "must hold a map of keys and values.", 'In JSON: {"name": ..., "config": {...}}.')
    inner = document.get("config")
    if isinstance(inner, dict) and set(document) <= _ENVELOPE:
        name = document.get("name")
        if name is not None and inner.get("name", name) != name:
            rule = f"differs from the name outside of config in {path.name}."
            problems.append(Problem("name", str(inner["name"]), rule, "Give one name."))
        document = inner if name is None else {"name": name, **inner}
    for key, value in document.items():
        if isinstance(value, bool):
            yield key, "true" if value else "false"
        elif isinstance(value, str):
            yield key, value
        elif value is not None:
            rule, flat = "must be a text, a number or a boolean.", _as_text(value)
            if flat is None:
                problems.append(Problem(key, "an object", rule, "Write lists as a,b,c in one text."))
                continue
            problems.append(Problem(key, "an array", rule, f'Write "{presentable(key, flat)}" in one text.'))
            yield key, flat


def _as_text(value: Any) -> str | None:
    """A list of texts as the text that Connect takes, None of anything else."""
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return ",".join(value)
    return None


def _read_json(text: str, path: Path) -> tuple[Any, list[Problem]]:
    warnings: list[Problem] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        warnings.extend(repeated(pairs, path))
        return dict(pairs)

    try:
        document = json.loads(text, object_pairs_hook=members, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise fault(path, position, f"is not valid JSON: {error.msg}.", "Mend the file there.") from None
    except RecursionError:
        raise fault(path, None, "is nested too deeply.", "Write keys and values only.") from None
    return document, warnings


def read_yaml(text: str, path: Path) -> tuple[Any, list[Problem]]:
    """The document as JSON would have it, and a warning for each key that a map repeats.

    Numbers and booleans keep their spelling. Of several documents the one that is a `KafkaConnector` counts. Raises ConfigError where
    the text is no YAML, and where there is not one document that can be meant.
    """
    import yaml  # few need the parser

    warnings: list[Problem] = []

    class Loader(yaml.BaseLoader):
        """Every scalar as the text it is written as."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [(str(self.construct_object(key)), getattr(value, "value", "")) for key, value in node.value]
            warnings.extend(repeated(keys, path))
            return super().construct_mapping(node, deep)

        def construct_scalar(self, node: yaml.ScalarNode) -> Any:
            plain = node.style is None
            return None if plain and node.value in _NULLS else str(super().construct_scalar(node))

    try:
        documents = [one for one in yaml.load_all(text, Loader) if one is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}" if mark else None
        raise fault(path, position, f"is not valid YAML: {error.problem or error}.", "Mend the file there.") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise fault(path, None, f"is not valid YAML: {error}.", "Mend the file.") from None
    return _connector(_only(documents, path), path), warnings


def _only(documents: Sequence[Any], path: Path) -> Any:
    connectors = [one for one in documents if isinstance(one, dict) and one.get("kind") == KIND]
    chosen = connectors or documents
    if len(chosen) != 1:
        what = f"holds {len(chosen)} {'connectors' if connectors else 'documents'}."
        raise fault(path, None, what, "Give a file with one connector.")
    return chosen[0]


def _connector(document: Any, path: Path) -> Any:
    if not isinstance(document, dict) or "kind" not in document:
        return document
    spec = document.get("spec")
    if document["kind"] != KIND or not isinstance(spec, dict):
        rule = f"is a resource of kind {document['kind']}, which holds no connector's configuration."
        raise fault(path, None, rule, f"Give the {KIND} of the sink: its spec has class, tasksMax and config.")
    outside = {"connector.class": spec.get("class"), "tasks.max": spec.get("tasksMax")}
    config = {**(spec.get("config") or {}), **{key: text for key, text in outside.items() if text is not None}}
    return {"name": (document.get("metadata") or {}).get("name"), "config": config}


def read_properties(text: str, path: Path) -> dict[str, str]:
    """The settings of a Java properties text: comments, `=`, `:` or blanks after the key, continued lines, escapes.

    The last of several equal keys counts, as in Java. Raises ConfigError with the line of a broken escape.
    """
    return dict(_property_pairs(text, path))


def _property_pairs(text: str, path: Path) -> Iterator[tuple[str, str]]:
    for number, line in _logical_lines(text):
        if _BROKEN_UNICODE.search(line):
            raise fault(
                path, f"line {number}", "holds \\u without four hexadecimal digits.", "Write a backslash as \\\\."
            )
        end = _KEY_END.search(line)
        key, rest = (line[: end.start(1)], line[end.start(1) :]) if end else (line, "")
        value = re.sub(r"^[ \t\f]*[=:]?[ \t\f]*", "", rest)
        yield _unescaped(key), _unescaped(value)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    held, first = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        first = first if held else number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            held += line[:-1]
            continue
        yield first, held + line
        held = ""
    if held:
        yield first, held


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPES.get(escape, escape)

    return _ESCAPED.sub(plain, text)


def read_text(path: Path) -> str:
    """The file's text in UTF-8, else in Java's older default, ISO 8859-1. Raises ConfigError where it cannot be read."""
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        raise fault(path, None, "is a directory.", "Name the configuration file in it.") from None
    except FileNotFoundError:
        raise fault(path, None, "does not exist.", _neighbour(path)) from None
    except OSError as error:
        raise fault(path, None, f"cannot be read: {error.strerror}.", "Check the file's rights.") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


def pairs(overrides: Sequence[str] | None) -> dict[str, str]:
    """`KEY=VALUE` texts as a map. Raises ConfigError where there is no `=`."""
    wrong = [text for text in overrides or () if not text.partition("=")[0].strip() or "=" not in text]
    if wrong:
        way_out = "Write the key, = and the value: --set flush.size=1000."
        raise ConfigError([Problem("--set", text, "is not of the form KEY=VALUE.", way_out) for text in wrong])
    return dict(text.split("=", 1) for text in overrides or ())


def read_worker(path: Path) -> ConfigFile:
    """The part of a worker file that matters to a sink, by the connector's own keys; unknown keys stay as they are, to be warned of.

    `bootstrap.servers` becomes `kafka.bootstrap.servers`; `consumer.x` becomes `consumer.override.x`, and so do the worker's
    own security settings where the consumer has none. Raises ConfigError as `read_config` does.
    """
    given = read_config(path)
    taken = {key: value for key, value in given.texts.items() if not ignored(key)}
    security = {f"consumer.override.{key}": taken.pop(key) for key in list(taken) if key.startswith(SECURITY)}
    consumer = {
        f"consumer.override.{key.removeprefix('consumer.')}": taken.pop(key)
        for key in list(taken)
        if key.startswith("consumer.") and not key.startswith("consumer.override.")
    }
    if "bootstrap.servers" in taken:
        taken["kafka.bootstrap.servers"] = taken.pop("bootstrap.servers")
    return ConfigFile({**security, **consumer, **taken}, given.warnings)


def ignored(key: str) -> bool:
    """Whether a worker key is known to be without meaning for a sink."""
    return key in IGNORED or key.startswith(IGNORED_PREFIXES)


def is_setting(key: str) -> bool:
    """Whether a key of `read_worker` is a setting of the sink; another one is unknown."""
    return (
        key == "kafka.bootstrap.servers"
        or key in TAKEN
        or key.startswith(("consumer.override.", *(f"{c}." for c in CONVERTERS)))
    )


def remedy_for(key: str) -> str:
    """What an unknown worker key may have been meant to be."""
    return did_you_mean(key, (*TAKEN, *IGNORED))


def under(connector: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """The connector's settings with the worker's as defaults. Who names a converter gets none of the worker's settings of it."""
    own = {converter for converter in CONVERTERS if converter in connector}
    defaults = {
        key: value
        for key, value in worker.items()
        if is_setting(key) and not any(key == converter or key.startswith(f"{converter}.") for converter in own)
    }
    return {**defaults, **connector}


def repeated(pairs: Sequence[tuple[str, Any]], path: Path) -> tuple[Problem, ...]:
    """A warning for each key that occurs more than once in one object."""
    last = dict(pairs)
    counts = Counter(key for key, _ in pairs)
    rule = f"is the last of several in {path.name}, and the one that counts, as in Connect."
    return tuple(
        Problem(key, presentable(key, str(last[key])), rule, "Keep one of them.") for key, n in counts.items() if n > 1
    )


def empty(path: Path) -> ConfigError:
    """The error of a file without any key."""
    return fault(
        path, None, "is empty: it holds no key.", "Write keys and values; kafka-s3 new makes a first configuration."
    )


def fault(path: Path, position: str | None, rule: str, remedy: str = "") -> ConfigError:
    """The error of a file that cannot be read as what it is."""
    key, value = (str(path), position) if position else ("configuration file", str(path))
    return ConfigError([Problem(key, value, rule, remedy)])


def _neighbour(path: Path) -> str:
    try:
        near = did_you_mean(path.name, [entry.name for entry in path.parent.iterdir()])
    except OSError:
        near = ""
    return near or "Check the path."
