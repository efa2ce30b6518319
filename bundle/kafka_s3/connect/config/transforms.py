"""Which steps does a configuration's `transforms` stand for? Class, part, predicate and settings of each, and all that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_s3.connect.config.classes import (
    JAVA_NAMES,
    OTHER_TRANSFORMS,
    OWN_PREDICATE,
    PREDICATES,
    ROUTERS,
    TRANSFORM_GROUP,
    TRANSFORMS,
    registered_transforms,
)
from kafka_s3.connect.config.option import (
    InvalidValue,
    KnownClass,
    Option,
    Type,
    Value,
    default_of,
    did_you_mean,
    parse,
)
from kafka_s3.connect.config.options.transforms import REQUIRED_BLANKS, SETTINGS, field_path, json_path
from kafka_s3.connect.config.plugins import plugin
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.text import Secret

STEP_KEYS: Final = ("type", "predicate", "negate")
_KNOWN = KnownClass(TRANSFORMS, registered_transforms, OTHER_TRANSFORMS, TRANSFORM_GROUP)
_KNOWN_PREDICATES = KnownClass(PREDICATES, instead=OWN_PREDICATE)


@dataclass(frozen=True, slots=True)
class KeyFault:
    """What is wrong with a key, and a way out. `warning`: it can be used all the same."""

    key: str
    rule: str
    remedy: str = ""
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Configured:
    """A transform or predicate: its kind (`cast`), part (`key`, `value`, `header` or blank) and values."""

    alias: str
    kind: str
    part: str
    values: Mapping[str, Value]
    given: frozenset[str]

    def text(self, key: str) -> str:
        """The text of a setting, blank where it has none."""
        return str(self.values.get(key) or "")

    def optional(self, key: str) -> str | None:
        """The text of a setting, None where it is not given."""
        value = self.values.get(key)
        return None if value is None else str(value)

    def names(self, key: str) -> tuple[str, ...]:
        """The parts of a list."""
        value = self.values.get(key)
        return value if isinstance(value, tuple) else ()

    def flag(self, key: str) -> bool:
        """Whether a switch is on."""
        return self.values.get(key) is True

    def number(self, key: str) -> int | None:
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def secret(self, key: str) -> Secret | None:
        """A password, None where there is none."""
        value = self.values.get(key)
        return value if isinstance(value, Secret) else None

    @property
    def java(self) -> str:
        """The class, as the original names it; ours where it has none."""
        name = f"{self.kind}.{self.part}" if self.part else self.kind
        return JAVA_NAMES.get(name, name)

    @property
    def own(self) -> bool:
        """Whether an installed package offers it."""
        return self.kind not in SETTINGS

    @property
    def routes(self) -> bool:
        """Whether it may change topics."""
        return self.kind in ROUTERS or self.own or bool(self.text("route.by.field"))


@dataclass(frozen=True, slots=True)
class ConfiguredStep:
    """A transform and the predicate under which it acts, if any."""

    transform: Configured
    predicate: Configured | None
    negate: bool


@dataclass(slots=True)
class Steps:
    """The steps in order, and everything that is wrong with them."""

    steps: list[ConfiguredStep] = field(default_factory=list)
    faults: list[KeyFault] = field(default_factory=list)


def configured_steps(settings: Settings) -> Steps:
    """The steps of a configuration. Settings that hold unresolved references are not judged yet."""
    found = Steps()
    predicates = {
        alias: _one(settings, f"predicates.{alias}.", alias, found) for alias in _names(settings, "predicates")
    }
    for alias in _names(settings, "transforms"):
        prefix = f"transforms.{alias}."
        transform = _one(settings, prefix, alias, found)
        name = _text(settings, f"{prefix}predicate")
        if name and name not in predicates:
            known = f"The predicates are {', '.join(predicates)}." if predicates else "There are none: set predicates."
            found.faults.append(KeyFault(f"{prefix}predicate", "names no predicate.", known))
        negate = _negate(settings, prefix, found)
        if f"{prefix}negate" in settings.given_keys and not name:
            rule = f"was provided but there is no config {prefix}predicate defining a predicate to be negated."
            found.faults.append(KeyFault(f"{prefix}negate", rule))
        if transform is None:
            continue
        if transform.kind == "filter" and not name:
            found.faults.append(KeyFault(f"{prefix}type", "drops every record without a predicate.", warning=True))
        found.steps.append(ConfiguredStep(transform, predicates.get(name) if name else None, negate))
    return found


def routes(settings: Settings) -> bool:
    """Whether a transform of the configuration may change topics."""
    return any(one.transform.routes for one in configured_steps(settings).steps)


def _names(settings: Settings, key: str) -> tuple[str, ...]:
    return () if key in settings.pending else settings.names(key)


def _text(settings: Settings, key: str) -> str:
    return "" if key in settings.pending or key not in settings.given_keys else settings.text(key).strip()


def _negate(settings: Settings, prefix: str, found: Steps) -> bool:
    text = _text(settings, f"{prefix}negate").lower()
    if text not in ("", "true", "false"):
        found.faults.append(KeyFault(f"{prefix}negate", "must be true or false."))
    return text == "true"


def _one(settings: Settings, prefix: str, alias: str, found: Steps) -> Configured | None:
    """A transform or predicate, by the settings below a prefix; None where its class is at fault."""
    key, given = f"{prefix}type", _text(settings, f"{prefix}type")
    if key in settings.pending:
        return None
    if not given:
        found.faults.append(KeyFault(key, "is required: a class."))
        return None
    is_predicate = prefix.startswith("predicates.")
    try:
        name = str((_KNOWN_PREDICATES if is_predicate else _KNOWN).accept(given))
    except InvalidValue as wrong:
        halves = [
            java
            for java in TRANSFORMS
            if java.startswith(f"{given}$") or java.rpartition(".")[2].startswith(f"{given}$")
        ]
        rule = "is abstract and cannot be created." if halves else wrong.rule
        found.faults.append(KeyFault(key, rule, f"Did you mean {', '.join(halves)}?" if halves else wrong.remedy))
        return None
    kind, _, part = name.partition(".")
    if kind not in SETTINGS:
        kind, part = name, ""
    try:
        rows = _rows(kind)
    except InvalidValue as wrong:
        found.faults.append(KeyFault(key, wrong.rule, wrong.remedy))
        return None
    texts = {
        one.removeprefix(prefix)
        for one in settings.given_keys
        if one.startswith(prefix) and one not in settings.pending
    }
    plain = {one: settings.text(prefix + one) for one in texts if one not in STEP_KEYS}
    made = Configured(alias, kind, part, _values(settings, prefix, kind, rows, plain, found), frozenset(plain))
    if not any(one.startswith(prefix) for one in settings.pending):
        found.faults.extend(_between(made, prefix))
    return made


def _rows(kind: str) -> Mapping[str, Option]:
    """The settings of a class, ours or a plugin's. Raises InvalidValue where the plugin cannot be loaded."""
    rows = SETTINGS[kind] if kind in SETTINGS else plugin(TRANSFORM_GROUP, kind).options
    return {row.key: row for row in rows}


def _values(
    settings: Settings, prefix: str, kind: str, rows: Mapping[str, Option], texts: Mapping[str, str], found: Steps
) -> dict[str, Value]:
    values = {name: _value(settings, prefix, row, kind, texts, found) for name, row in rows.items()}
    for name in sorted(set(texts) - set(rows)):
        found.faults.append(
            KeyFault(
                prefix + name, "is not a setting of that class and is ignored.", did_you_mean(name, rows), warning=True
            )
        )
    return values


def _value(settings: Settings, prefix: str, row: Option, kind: str, texts: Mapping[str, str], found: Steps) -> Value:
    key = prefix + row.key
    if key in settings.pending:
        return None
    if row.key not in texts:
        if row.required or (kind, row.key) in REQUIRED_BLANKS:
            found.faults.append(KeyFault(key, f"is required by {kind}: {row.doc}"))
        return default_of(row) if row.default is not None else None
    if (
        row.required
        and not texts[row.key].strip()
        and row.type is Type.STRING
        and row.key in ("field", "header", "value.literal")
    ):
        return texts[row.key].strip()
    try:
        return parse(row, texts[row.key])
    except InvalidValue as wrong:
        found.faults.append(KeyFault(key, wrong.rule, wrong.remedy))
        return None


def _between(made: Configured, prefix: str) -> list[KeyFault]:
    """What is wrong between settings of one transform."""
    match made.kind:
        case "insert_field":
            named = [made.optional(f"{what}.field") for what in ("topic", "partition", "offset", "timestamp", "static")]
            if all(name is None for name in named):
                return [KeyFault(f"{prefix}type", "No field insertion configured", "Set one of its *.field.")]
            if made.optional("static.field") is not None and made.optional("static.value") is None:
                return [KeyFault(f"{prefix}static.value", "No value specified for static field.")]
        case "header_from" if made.names("fields") and made.names("headers"):
            if len(made.names("fields")) != len(made.names("headers")):
                rule = "'fields' config must have the same number of elements as 'headers' config."
                return [KeyFault(f"{prefix}fields", rule)]
        case "schema_metadata" if made.optional("schema.name") is None and made.number("schema.version") is None:
            return [
                KeyFault(
                    f"{prefix}type", "Neither schema name nor version configured", "Set schema.name or schema.version."
                )
            ]
        case "timestamp_converter" if made.text("target.type") == "string" and not made.text("format").strip():
            rule = "TimestampConverter requires format option to be specified when using string timestamps"
            return [KeyFault(f"{prefix}format", rule)]
        case "extract_topic" if made.part == "header" and not made.text("field"):
            return [KeyFault(f"{prefix}field", "is required by ExtractTopic$Header: the header's name.")]
    return _paths(made, prefix)


def _paths(made: Configured, prefix: str) -> list[KeyFault]:
    try:
        if made.kind == "extract_field" and made.text("field.syntax.version") == "V2":
            field_path(made.text("field"))
        if made.kind == "extract_topic" and made.text("field.format") == "JSON_PATH" and made.text("field"):
            json_path(made.text("field"))
    except InvalidValue as wrong:
        return [KeyFault(f"{prefix}field", wrong.rule, wrong.remedy)]
    return []
