"""Which settings does each transform and predicate take? Rows by kind, with keys below `transforms.<alias>.` and `predicates.<alias>.`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kafka_s3.connect.config.option import Option, OptionGroup, Type
from kafka_s3.connect.config.options.transform_values import (
    CastSpec,
    DatePattern,
    FilledList,
    FilledText,
    JavaPattern,
    Pairs,
    References,
)  # fmt: skip
from kafka_s3.connect.config.transform_classes import OTHER_TRANSFORMS, PREDICATES, TRANSFORMS, registered_transforms
from kafka_s3.connect.config.valid_values import InvalidValue, KnownClass, OneOf, OneOfAnyCase, Value

_GROUP = OptionGroup.TRANSFORMS
_TEXT, _LIST, _FLAG, _INT = Type.STRING, Type.LIST, Type.BOOLEAN, Type.INT


def _text(key: str, default: str | None, doc: str, **more: object) -> Option:
    return Option(key, _TEXT, default, doc, _GROUP, **more)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Aliases:
    """Names, each once."""

    text: str = "names, each once"

    def accept(self, value: Value) -> Value:
        """The names."""
        if isinstance(value, tuple):
            if len(set(value)) < len(value):
                raise InvalidValue("Duplicate alias provided.", "Give every step a name of its own.")
            if "" in value:
                raise InvalidValue("has a blank name.", "Write a,b,c.")
        return value


LISTS: Final = (
    Option("transforms", _LIST, "", "Names of the single message transforms, in the order in which records go through them.", _GROUP,
           valid=_Aliases()),
    _text("transforms.*", None, "Settings of transforms: type, predicate, negate and those of the class, see below."),
    Option("predicates", _LIST, "", "Names of predicates that transforms refer to.", _GROUP, valid=_Aliases()),
    _text("predicates.*", None, "Settings of predicates: type and those of the class, see below."),
)  # fmt: skip

_DEFAULTS = Option("replace.null.with.default", _FLAG, "true", "With schema: null becomes the field's default, in all fields of the "
                   "part.", _GROUP)  # fmt: skip
_FIELDS = Option("fields", _LIST, None, "The fields.", _GROUP, valid=FilledList(), required=True)
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
               "string.", _GROUP, valid=CastSpec(), required=True),
        _DEFAULTS,
    ),
    "drop_headers": (Option("headers", _LIST, None, "Names of the headers.", _GROUP, valid=FilledList(), required=True),),
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
        Option("headers", _LIST, None, "Names of the headers, as many as fields.", _GROUP, valid=FilledList(), required=True),
        _text("operation", None, "Whether the fields stay.", valid=OneOf(("move", "copy")), required=True),
        _DEFAULTS,
    ),
    "hoist_field": (_FIELD,),
    "insert_field": (
        *(_text(f"{what}.field", None, f"Name of a field for the {said}; with `!` behind it is required, with `?` optional (default).")
          for what, said in (("topic", "topic"), ("partition", "Kafka partition"), ("offset", "offset"), ("timestamp", "timestamp"),
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
        _text("replacement", None, "What stands there instead of the type's zero, in texts and numbers.", valid=FilledText()),
        _DEFAULTS,
    ),
    "regex_router": (
        _text("regex", None, "Pattern of whole topics.", valid=JavaPattern(), required=True),
        _text("replacement", None, "The new topic; $1 is the first group."),
    ),
    "replace_field": (
        Option("exclude", _LIST, "", "Fields that go.", _GROUP),
        Option("include", _LIST, "", "Fields that stay; all where it is blank.", _GROUP),
        Option("renames", _LIST, "", "`old:new` pairs.", _GROUP, valid=Pairs()),
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
        _text("format", "", "Pattern of Java's SimpleDateFormat, in UTC, for texts.", valid=DatePattern()),
        _text("unix.precision", "milliseconds", "The unit of unix.", valid=_PRECISION),
        _DEFAULTS,
    ),
    "timestamp_router": (
        _TOPIC_FORMAT,
        _text("timestamp.format", "yyyyMMdd", "Pattern of Java's SimpleDateFormat, in UTC.", valid=DatePattern()),
    ),
    "value_to_key": (_FIELDS, _DEFAULTS),
    "drop": (
        _text("schema.behavior", "nullify", "What becomes of the schema.",
              valid=OneOf(("nullify", "retain", "validate", "force_optional"))),
    ),
    "extract_topic": (
        _text("field", "", "The field, or header; blank for the whole part."),
        _text("field.format", "PLAIN", "JSON_PATH reads field as a path like $.a.b or $[\"a\"][\"b\"].",
              valid=OneOfAnyCase(("PLAIN", "JSON_PATH"))),
        Option("skip.missing.or.null", _FLAG, "false", "Whether a record without it keeps its topic.", _GROUP),
    ),
    "message_timestamp_router": (
        _TOPIC_FORMAT,
        Option("message.timestamp.keys", _LIST, None, "Fields, the first of which that is there holds the time.", _GROUP,
               valid=FilledList(), required=True),
        _text("message.timestamp.format", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "Its pattern.", valid=DatePattern()),
        _text("topic.timestamp.format", "yyyyMMdd", "The pattern for the topic.", valid=DatePattern()),
    ),
    "tombstone_handler": (_text("behavior", "warn", "ignore and warn drop, fail refuses.", valid=OneOf(("ignore", "warn", "fail"))),),
    "new_record_state": (
        _text("delete.tombstone.handling.mode", "tombstone", "What becomes of deletes and tombstones.",
              valid=OneOfAnyCase(("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"))),
        _text("route.by.field", "", "Column that holds the topic."),
        _text("add.fields.prefix", "__", "In front of added fields."),
        Option("add.fields", _LIST, "", "Fields of the event to add: op, source.ts_ms, op:new_name.", _GROUP, valid=References()),
        _text("add.headers.prefix", "__", "In front of added headers."),
        Option("add.headers", _LIST, "", "Fields of the event to add as headers.", _GROUP, valid=References()),
        _text("drop.fields.header.name", None, "Header that lists columns to leave out."),
        Option("drop.fields.from.key", _FLAG, "false", "Whether the key loses them, too.", _GROUP),
        Option("drop.fields.keep.schema.compatible", _FLAG, "true", "Whether only optional ones go.", _GROUP),
        Option("drop.tombstones", _FLAG, "true", "Debezium before 3: whether tombstones go.", _GROUP),
        _text("delete.handling.mode", "drop", "Debezium before 3: what becomes of deletes.",
              valid=OneOfAnyCase(("drop", "rewrite", "none"))),
    ),
    "has_header_key": (_text("name", None, "The header's name.", valid=FilledText(), required=True),),
    "record_is_tombstone": (),
    "topic_name_matches": (_text("pattern", None, "Pattern of whole topics.", valid=JavaPattern(), required=True),),
}  # fmt: skip
ROWS: Final[tuple[Option, ...]] = (
    Option(
        "transforms.<name>.type",
        Type.CLASS,
        None,
        "The class.",
        _GROUP,
        valid=KnownClass(TRANSFORMS, registered_transforms, OTHER_TRANSFORMS),
        required=True,
    ),
    _text("transforms.<name>.predicate", "", "The predicate under which it acts."),
    Option("transforms.<name>.negate", _FLAG, "false", "Whether it acts where the predicate does not hold.", _GROUP),
    Option(
        "predicates.<name>.type", Type.CLASS, None, "The class.", _GROUP, valid=KnownClass(PREDICATES), required=True
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
