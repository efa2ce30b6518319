"""Which settings does each transform and predicate take? Rows by kind, with keys below `transforms.<alias>.` and `predicates.<alias>.`.

Before them the forms of their values: cast specifications, patterns of Java, pairs, references into change events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kafka_s3.connect.config.classes import (
    OTHER_TRANSFORMS,
    OWN_PREDICATE,
    PREDICATES,
    TRANSFORM_GROUP,
    TRANSFORMS,
    registered_transforms,
)
from kafka_s3.connect.config.option import (
    InvalidValue,
    KnownClass,
    OneOf,
    OneOfAnyCase,
    Option,
    OptionGroup,
    Type,
    Value,
    accepts,
)
from kafka_s3.connect.java.regex import compile_pattern
from kafka_s3.connect.java.simple_dates import tokens

_GROUP = OptionGroup.TRANSFORMS
_TEXT, _LIST, _FLAG, _INT = Type.STRING, Type.LIST, Type.BOOLEAN, Type.INT


CAST_TYPES: Final = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
UNCASTABLE: Final = ("array", "map", "struct", "bytes")
SUPPORTED: Final = "[INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING]"
PATH: Final = re.compile(r"\$?(?:\.?[A-Za-z_][\w-]*|\[(?:\"[^\"]+\"|'[^']+')\])+")
STEP: Final = re.compile(r"\[(?:\"([^\"]+)\"|'([^']+)')\]|([A-Za-z_][\w-]*)")


def cast_types(spec: tuple[str, ...]) -> Mapping[str, str]:
    """Types by fields; one of the blank name is that of the whole part. Raises InvalidValue."""
    found: dict[str, str] = {}
    for pair in spec:
        parts = [part.strip() for part in pair.split(":")]
        if len(parts) > 2 and any(parts[2:]):
            raise InvalidValue(f"Invalid rename mapping: {pair}", "Write field:type.")
        whole = len(parts) == 1 or not any(parts[1:])
        name, kind = ("", parts[0]) if whole else (parts[0], parts[1])
        if kind.lower() in UNCASTABLE:
            raise InvalidValue(
                f"Cast transformation does not support casting to {kind.upper()}; supported types are {SUPPORTED}"
            )
        if kind.lower() not in CAST_TYPES:
            raise InvalidValue(f"Invalid type found in casting spec: {kind}", f"The types are {', '.join(CAST_TYPES)}.")
        found[name] = kind.lower()
    if "" in found and len(spec) > 1:
        raise InvalidValue(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in their spec"
        )
    return found


@accepts("field:type, or a type")
def cast_spec(value: Value) -> Value:
    """Pairs of field and type, or one type."""
    if isinstance(value, tuple) and value:
        cast_types(value)
        return value
    raise InvalidValue("Must specify at least one field to cast.")


def pairs(renames: tuple[str, ...]) -> Mapping[str, str]:
    """New names by old ones. Raises InvalidValue."""
    found = {}
    for pair in renames:
        parts = [part.strip() for part in pair.split(":")]
        if len(parts) != 2 or not parts[1]:
            raise InvalidValue(f"Invalid rename mapping: {pair}", "Write old:new.")
        found[parts[0]] = parts[1]
    return found


@accepts("old:new")
def renamed_pairs(value: Value) -> Value:
    """Pairs of names."""
    if isinstance(value, tuple):
        pairs(value)
    return value


@accepts("at least one")
def filled_list(value: Value) -> Value:
    """A list that is not empty."""
    if not value:
        raise InvalidValue("Empty list")
    return value


@accepts("not empty")
def filled_text(value: Value) -> Value:
    """A text that is not empty."""
    if not value:
        raise InvalidValue("String must be non-empty")
    return value


@accepts("a regular expression")
def java_pattern(value: Value) -> Value:
    """A regular expression of Java that runs here, too."""
    if not value:
        raise InvalidValue("String must be non-empty")
    try:
        compile_pattern(str(value))
    except ValueError as error:
        raise InvalidValue(f"Invalid regex: {error}.") from None
    return value


@accepts("letters of SimpleDateFormat")
def date_pattern(value: Value) -> Value:
    """A pattern of Java's SimpleDateFormat."""
    try:
        tokens(str(value))
    except ValueError as error:
        raise InvalidValue(f"is not a pattern of SimpleDateFormat: {error}.") from None
    return value


@accepts("field, struct.field or either with :name")
def event_fields(value: Value) -> Value:
    """Fields of a change event."""
    for one in value if isinstance(value, tuple) else ():
        parts = one.partition(":")[0].split(".")
        if len(parts) > 2 or not all(parts):
            raise InvalidValue(f"Unexpected field value: {one}", "Write field, or struct.field.")
    return value


def field_path(text: str) -> tuple[str, ...]:
    """The names of `a.b` under `field.syntax.version=v2`: backticks keep a name with dots whole. Raises InvalidValue."""
    names: list[str] = []
    at = 0
    while True:
        if text.startswith("`", at):
            end = at + 1
            while (end := text.find("`", end)) >= 0 and end + 1 < len(text) and text[end + 1] != ".":
                end += 1
            if end < 0:
                raise InvalidValue(f"Incomplete backtick pair in path: [{text}], consider adding a backtick symbol")
            names.append(text[at + 1 : end].replace("\\`", "`"))
            at = end + 1
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            names.append(text[at:end])
            at = end
        if at >= len(text):
            return tuple(names)
        at += 1


def json_path(text: str) -> tuple[str, ...]:
    """The names of a JSON path that is made of names only. Raises InvalidValue."""
    if not PATH.fullmatch(text):
        raise InvalidValue("is not a JSON path of names.", 'Write $.a.b or $["a"]["b"].')
    return tuple(next(filter(None, groups)) for groups in STEP.findall(text.removeprefix("$")))


def _text(key: str, default: str | None, doc: str, **more: object) -> Option:
    return Option(key, _TEXT, default, doc, _GROUP, **more)  # type: ignore[arg-type]


@accepts("names, each once")
def _alias_list(value: Value) -> Value:
    if isinstance(value, tuple):
        if len(set(value)) < len(value):
            raise InvalidValue("Duplicate alias provided.", "Give every step a name of its own.")
        if "" in value:
            raise InvalidValue("has a blank name.", "Write a,b,c.")
    return value


LISTS: Final = (
    Option("transforms", _LIST, "", "Names of the single message transforms, in the order in which records go through them.", _GROUP,
           valid=_alias_list),
    _text("transforms.*", None, "Settings of transforms: type, predicate, negate and those of the class, see below."),
    Option("predicates", _LIST, "", "Names of predicates that transforms refer to.", _GROUP, valid=_alias_list),
    _text("predicates.*", None, "Settings of predicates: type and those of the class, see below."),
)  # fmt: skip

_DEFAULTS = Option("replace.null.with.default", _FLAG, "true", "With schema: null becomes the field's default, in all fields of the "
                   "part.", _GROUP)  # fmt: skip
_FIELDS = Option("fields", _LIST, None, "The fields.", _GROUP, valid=filled_list, required=True)
_FIELD = _text("field", None, "The field.", required=True)
_PRECISION = OneOf(("seconds", "milliseconds", "microseconds", "nanoseconds"))
_TOPIC_FORMAT = _text("topic.format", "${topic}-${timestamp}", "The topic, with ${topic} and ${timestamp} in it.")

JAVA: Final = {
    name.partition(".")[0]: java.rpartition(".")[2].partition("$")[0]
    for java, name in {**TRANSFORMS, **PREDICATES}.items()
}
"""The simple names of the classes by kind."""

SETTINGS: Final[Mapping[str, tuple[Option, ...]]] = {
    "cast": (
        Option("spec", _LIST, None, "`field:type` pairs, or one type for the whole part. Types: int8 to int64, float32, float64, boolean, "
               "string.", _GROUP, valid=cast_spec, required=True),
        _DEFAULTS,
    ),
    "drop_headers": (Option("headers", _LIST, None, "Names of the headers.", _GROUP, valid=filled_list, required=True),),
    "extract_field": (
        _FIELD,
        Option("field.syntax.version", _TEXT, "V1", "V2 reads `a.b` as a path, with backticks around names that hold dots.", _GROUP,
               valid=OneOfAnyCase(("V1", "V2"))),
        _DEFAULTS,
    ),
    "filter": (),
    "flatten": (_text("delimiter", ".", "Between the names of fields."),),
    "header_from": (
        _FIELDS,
        Option("headers", _LIST, None, "Names of the headers, as many as fields.", _GROUP, valid=filled_list, required=True),
        _text("operation", None, "Whether the fields stay.", valid=OneOf(("move", "copy")), required=True),
        _DEFAULTS,
    ),
    "hoist_field": (_FIELD,),
    "insert_field": (
        *(_text(f"{what}.field", None, f"Name of a field for the {meant}; with `!` behind it is required, with `?` optional (default).")
          for what, meant in (("topic", "topic"), ("partition", "Kafka partition"), ("offset", "offset"), ("timestamp", "timestamp"),
                             ("static", "text of static.value"))),
        _text("static.value", None, "The text."),
        _DEFAULTS,
    ),
    "insert_header": (
        _text("header", None, "The header's name.", required=True),
        _text("value.literal", None, "The value: a number, boolean, date, list or map is read as such.", required=True),
    ),
    "mask_field": (
        _FIELDS,
        _text("replacement", None, "What takes the place of the type's zero, in texts and numbers.", valid=filled_text),
        _DEFAULTS,
    ),
    "regex_router": (
        _text("regex", None, "Pattern of whole topics.", valid=java_pattern, required=True),
        _text("replacement", None, "The new topic; $1 is the first group."),
    ),
    "replace_field": (
        Option("exclude", _LIST, "", "Fields that go.", _GROUP),
        Option("include", _LIST, "", "Fields that stay; all where it is blank.", _GROUP),
        Option("renames", _LIST, "", "`old:new` pairs.", _GROUP, valid=renamed_pairs),
        Option("blacklist", _LIST, "", "Name of exclude before Kafka 3; without effect under compatibility.strict, as in Kafka 4.", _GROUP),
        Option("whitelist", _LIST, "", "Name of include before Kafka 3; without effect under compatibility.strict, as in Kafka 4.", _GROUP),
        _DEFAULTS,
    ),
    "schema_metadata": (
        _text("schema.name", None, "The name."),
        Option("schema.version", _INT, None, "The version.", _GROUP),
        _DEFAULTS,
    ),
    "timestamp_converter": (
        _text("field", "", "The field; blank for the whole part."),
        _text("target.type", None, "What it becomes.", valid=OneOf(("string", "unix", "Date", "Time", "Timestamp")), required=True),
        _text("format", "", "Pattern of Java's SimpleDateFormat, in UTC, for texts.", valid=date_pattern),
        _text("unix.precision", "milliseconds", "The unit of unix.", valid=_PRECISION),
        _DEFAULTS,
    ),
    "timestamp_router": (
        _TOPIC_FORMAT,
        _text("timestamp.format", "yyyyMMdd", "Pattern of Java's SimpleDateFormat, in UTC.", valid=date_pattern),
    ),
    "value_to_key": (_FIELDS, _DEFAULTS),
    "drop": (
        _text("schema.behavior", "nullify", "What becomes of the schema.",
              valid=OneOf(("nullify", "retain", "validate", "force_optional"))),
    ),
    "extract_topic": (
        _text("field", "", "The field, or header; blank for the whole part."),
        _text("field.format", "PLAIN", "JSON_PATH reads field as a path like `$.a.b` or `$[\"a\"][\"b\"]`.",
              valid=OneOfAnyCase(("PLAIN", "JSON_PATH"))),
        Option("skip.missing.or.null", _FLAG, "false", "Whether a record without it keeps its topic.", _GROUP),
    ),
    "message_timestamp_router": (
        _TOPIC_FORMAT,
        Option("message.timestamp.keys", _LIST, None, "Fields, the first of which that is there holds the time.", _GROUP,
               valid=filled_list, required=True),
        _text("message.timestamp.format", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "Its pattern.", valid=date_pattern),
        _text("topic.timestamp.format", "yyyyMMdd", "The pattern for the topic.", valid=date_pattern),
    ),
    "tombstone_handler": (_text("behavior", "warn", "ignore and warn drop, fail refuses; rewrite, of ours, makes it a record "
              "whose only field is `__deleted`, with the text `true`.",
              valid=OneOf(("ignore", "warn", "fail", "rewrite"))),),
    "new_record_state": (
        _text("delete.tombstone.handling.mode", "tombstone", "What becomes of deletes and tombstones.",
              valid=OneOfAnyCase(("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"))),
        _text("route.by.field", "", "Column that holds the topic."),
        _text("add.fields.prefix", "__", "In front of added fields."),
        Option("add.fields", _LIST, "", "Fields of the event to add: op, source.ts_ms, op:new_name.", _GROUP, valid=event_fields),
        _text("add.headers.prefix", "__", "In front of added headers."),
        Option("add.headers", _LIST, "", "Fields of the event to add as headers.", _GROUP, valid=event_fields),
        _text("drop.fields.header.name", None, "Header that lists columns to leave out."),
        Option("drop.fields.from.key", _FLAG, "false", "Whether the key loses them, too.", _GROUP),
        Option("drop.fields.keep.schema.compatible", _FLAG, "true", "Whether only optional ones go.", _GROUP),
        Option("drop.tombstones", _FLAG, "true", "Debezium before 3: whether tombstones go.", _GROUP),
        _text("delete.handling.mode", "drop", "Debezium before 3: what becomes of deletes.",
              valid=OneOfAnyCase(("drop", "rewrite", "none"))),
    ),
    "has_header_key": (_text("name", None, "The header's name.", valid=filled_text, required=True),),
    "record_is_tombstone": (),
    "topic_name_matches": (_text("pattern", None, "Pattern of whole topics.", valid=java_pattern, required=True),),
}  # fmt: skip
ROWS: Final[tuple[Option, ...]] = (
    Option(
        "transforms.<name>.type",
        Type.CLASS,
        None,
        "The class.",
        _GROUP,
        valid=KnownClass(TRANSFORMS, registered_transforms, OTHER_TRANSFORMS, TRANSFORM_GROUP),
        required=True,
    ),
    _text("transforms.<name>.predicate", "", "The predicate under which it acts."),
    Option("transforms.<name>.negate", _FLAG, "false", "Whether it acts where the predicate does not hold.", _GROUP),
    Option(
        "predicates.<name>.type",
        Type.CLASS,
        None,
        "The class.",
        _GROUP,
        valid=KnownClass(PREDICATES, instead=OWN_PREDICATE),
        required=True,
    ),
    *(
        replace(
            row,
            key=f"{'predicates' if kind in PREDICATES.values() else 'transforms'}.<name>.{row.key}",
            doc=f"({JAVA[kind]}) {row.doc}",
        )
        for kind, rows in SETTINGS.items()
        for row in rows
    ),
)
"""The settings as the reference shows them."""
REQUIRED_BLANKS: Final = frozenset({("regex_router", "replacement")})
"""Settings that must be given and may be blank."""
