"""Which transforms does a configuration stand for? Settings in, a chain out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafka_s3.connect.config.classes import TRANSFORM_GROUP
from kafka_s3.connect.config.options.transforms import cast_types, field_path, json_path, pairs
from kafka_s3.connect.config.plugins import make
from kafka_s3.connect.config.transforms import Configured, ConfiguredStep
from kafka_s3.connect.java.regex import compiled
from kafka_s3.connect.java.simple_dates import SimpleDates
from kafka_s3.connect.schemas.connect import SchemaType
from kafka_s3.connect.transforms.chain import Chain, ChainLink
from kafka_s3.connect.transforms.fields import (
    Deletes,
    ExtractField,
    ExtractNewRecordState,
    Flatten,
    HoistField,
    InsertField,
    Insertion,
    MaskField,
    ReplaceField,
    SetSchemaMetadata,
    ValueToKey,
    reference,
)
from kafka_s3.connect.transforms.headers import DropHeaders, HeaderFrom, InsertHeader, literal
from kafka_s3.connect.transforms.record import Header, Predicate, RecordPart, Refused, Transform
from kafka_s3.connect.transforms.routers import (
    Drop,
    ExtractTopic,
    Filter,
    HasHeaderKey,
    MessageTimestampRouter,
    RecordIsTombstone,
    RegexRouter,
    TimestampRouter,
    TombstoneHandler,
    TopicNameMatches,
)
from kafka_s3.connect.transforms.type_changes import Cast, TimestampConverter
from kafka_s3.model.files import Role

TYPES: Final = {kind.replace("float", "float32").replace("double", "float64"): SchemaType(kind) for kind in SchemaType}
INSERTED: Final = ("topic", "partition", "offset", "timestamp", "static")
DEFAULTS: Final = "replace.null.with.default"


def chain_of(
    steps: Sequence[ConfiguredStep], *, now_ms: int, strict: bool, tables: bool, has_schemas: bool
) -> Chain | None:
    """The chain of configured steps, None where there are none. `now_ms` is the time (`SimpleDates`), `tables` as in `Chain`;
    `has_schemas`: whether the converter's values have some.
    """
    if not steps:
        return None
    links = tuple(_step(one, now_ms=now_ms, strict=strict, has_schemas=has_schemas) for one in steps)
    return Chain(links, read_by_transforms(steps), tables)


def read_by_transforms(steps: Sequence[ConfiguredStep]) -> frozenset[Role]:
    """The parts beside the value that transforms look at: keys, headers."""
    return frozenset(role for one in steps for role in _reads(one))


def has_targets_apart(steps: Sequence[ConfiguredStep], topics: Sequence[str]) -> bool:
    """Whether no two of Kafka's topics go to one topic: one topic alone, or patterns that send the listed ones apart."""
    if len(topics) < 2:
        return True
    targets = routed_topics(steps, topics)
    return targets is not None and len(set(targets)) == len(topics)


def routed_topics(steps: Sequence[ConfiguredStep], topics: Sequence[str]) -> list[str] | None:
    """Return the topic to which all records of each topic go; None if that depends on the records."""
    routers = [one for one in steps if one.transform.routes]
    if any(one.predicate is not None or one.transform.kind != "regex_router" for one in routers):
        return None
    targets = list(topics)
    for one in routers:
        router = RegexRouter(compiled(one.transform.text("regex")), one.transform.text("replacement"))
        try:
            targets = [router.target(topic) for topic in targets]
        except Refused:
            return None
    return targets


def _step(one: ConfiguredStep, *, now_ms: int, strict: bool, has_schemas: bool) -> ChainLink:
    predicate = _predicate(one.predicate) if one.predicate is not None else None
    transform = _transform(one.transform, now_ms=now_ms, strict=strict, has_schemas=has_schemas)
    return ChainLink(one.transform.java, transform, predicate, not one.negate)


def _reads(one: ConfiguredStep) -> list[Role]:
    made, found = one.transform, []
    if made.part == "key" or made.own or made.flag("drop.fields.from.key"):
        found.append(Role.KEY)
    on_headers = made.part == "header" or made.optional("drop.fields.header.name") is not None
    if made.own or on_headers or (one.predicate is not None and one.predicate.kind == "has_header_key"):
        found.append(Role.HEADER)
    return found


def _predicate(made: Configured) -> Predicate:
    match made.kind:
        case "has_header_key":
            return HasHeaderKey(made.text("name"))
        case "record_is_tombstone":
            return RecordIsTombstone()
        case _:
            return TopicNameMatches(compiled(made.text("pattern")))


def _transform(made: Configured, *, now_ms: int, strict: bool, has_schemas: bool) -> Transform:
    if made.own:
        own: Transform = make(TRANSFORM_GROUP, f"transforms.{made.alias}.type", made.kind, made)
        return own
    if made.kind in ON_TIMES:
        return ON_TIMES[made.kind](made, now_ms)
    if made.kind == "replace_field":
        return _replace_field(made, strict=strict)
    if made.kind == "tombstone_handler":
        return TombstoneHandler(made.text("behavior"), has_schemas)
    return MAKERS[made.kind](made)


def _part(made: Configured) -> RecordPart:
    return RecordPart(made.part)


def _cast(made: Configured) -> Cast:
    kinds = {name: TYPES[kind] for name, kind in cast_types(made.names("spec")).items()}
    return Cast(_part(made), {name: kind for name, kind in kinds.items() if name}, kinds.get(""), made.flag(DEFAULTS))


def _extract_field(made: Configured) -> ExtractField:
    text = made.text("field")
    path = field_path(text) if made.text("field.syntax.version") == "V2" else (text,)
    return ExtractField(_part(made), path, text, made.flag(DEFAULTS))


def _header_from(made: Configured) -> HeaderFrom:
    moves = made.text("operation") == "move"
    return HeaderFrom(_part(made), made.names("fields"), made.names("headers"), moves, made.flag(DEFAULTS))


def _insert_field(made: Configured) -> InsertField:
    named = [(what, made.optional(f"{what}.field")) for what in INSERTED]
    insertions = [
        Insertion(what, name[:-1] if name.endswith(("!", "?")) else name, not name.endswith("!"))
        for what, name in named
        if name is not None
    ]
    return InsertField(_part(made), tuple(insertions), made.text("static.value"), made.flag(DEFAULTS))


def _insert_header(made: Configured) -> InsertHeader:
    value, schema = literal(made.text("value.literal"))
    return InsertHeader(Header(made.text("header"), value, schema))


def _mask_field(made: Configured) -> MaskField:
    return MaskField(_part(made), frozenset(made.names("fields")), made.optional("replacement"), made.flag(DEFAULTS))


def _replace_field(made: Configured, *, strict: bool) -> ReplaceField:
    exclude, include = (
        frozenset(made.names(now) or (() if strict else made.names(before)))
        for now, before in (("exclude", "blacklist"), ("include", "whitelist"))
    )
    return ReplaceField(_part(made), exclude, include, pairs(made.names("renames")), made.flag(DEFAULTS))


def _schema_metadata(made: Configured) -> SetSchemaMetadata:
    name, version = made.optional("schema.name"), made.number("schema.version")
    return SetSchemaMetadata(_part(made), name, version, made.flag(DEFAULTS))


def _extract_topic(made: Configured) -> ExtractTopic:
    text = made.text("field")
    path = json_path(text) if text and made.text("field.format") == "JSON_PATH" else (text,) if text else ()
    part = None if made.part == "header" else _part(made)
    return ExtractTopic(part, path, text, made.flag("skip.missing.or.null"))


def _new_record_state(made: Configured) -> ExtractNewRecordState:
    fields, headers = (
        tuple(reference(one, made.text(f"{key}.prefix")) for one in made.names(key))
        for key in ("add.fields", "add.headers")
    )
    return ExtractNewRecordState(
        _deletes(made),
        made.text("route.by.field"),
        fields,
        headers,
        made.text("drop.fields.header.name"),
        made.flag("drop.fields.from.key"),
        made.flag("drop.fields.keep.schema.compatible"),
    )


def _deletes(made: Configured) -> Deletes:
    """The delete mode; the keys of Debezium before 3 say it where they are given and the newer one is not."""
    older = {"drop.tombstones", "delete.handling.mode"} & made.given
    if not older or "delete.tombstone.handling.mode" in made.given:
        return Deletes(made.text("delete.tombstone.handling.mode"))
    gone, stays = {
        "rewrite": (Deletes.REWRITE, Deletes.REWRITE_WITH_TOMBSTONE),
        "none": (Deletes.TOMBSTONE, Deletes.BOTH),
    }.get(made.text("delete.handling.mode"), (Deletes.DROP, Deletes.DROP_WITH_TOMBSTONE))
    return gone if made.flag("drop.tombstones") else stays


def _timestamp_converter(made: Configured, now_ms: int) -> TimestampConverter:
    pattern = made.text("format")
    dates = SimpleDates(pattern, now_ms=now_ms) if pattern.strip() else None
    target, unit = made.text("target.type"), made.text("unix.precision")
    return TimestampConverter(_part(made), made.text("field"), target, dates, unit, made.flag(DEFAULTS))


def _timestamp_router(made: Configured, now_ms: int) -> TimestampRouter:
    return TimestampRouter(made.text("topic.format"), SimpleDates(made.text("timestamp.format"), now_ms=now_ms))


def _message_timestamp_router(made: Configured, now_ms: int) -> MessageTimestampRouter:
    reads, writes = (SimpleDates(made.text(f"{what}.timestamp.format"), now_ms=now_ms) for what in ("message", "topic"))
    return MessageTimestampRouter(made.text("topic.format"), made.names("message.timestamp.keys"), reads, writes)


MAKERS: Final[dict[str, Callable[[Configured], Transform]]] = {
    "cast": _cast,
    "drop_headers": lambda made: DropHeaders(frozenset(made.names("headers"))),
    "extract_field": _extract_field,
    "filter": lambda made: Filter(),
    "flatten": lambda made: Flatten(_part(made), made.text("delimiter")),
    "header_from": _header_from,
    "hoist_field": lambda made: HoistField(_part(made), made.text("field")),
    "insert_field": _insert_field,
    "insert_header": _insert_header,
    "mask_field": _mask_field,
    "regex_router": lambda made: RegexRouter(compiled(made.text("regex")), made.text("replacement")),
    "schema_metadata": _schema_metadata,
    "value_to_key": lambda made: ValueToKey(made.names("fields"), made.flag(DEFAULTS)),
    "drop": lambda made: Drop(_part(made), made.text("schema.behavior")),
    "extract_topic": _extract_topic,
    "new_record_state": _new_record_state,
}
ON_TIMES: Final[dict[str, Callable[[Configured, int], Transform]]] = {
    "timestamp_converter": _timestamp_converter,
    "timestamp_router": _timestamp_router,
    "message_timestamp_router": _message_timestamp_router,
}
