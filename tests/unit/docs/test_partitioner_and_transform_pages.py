"""Do the sinks of docs/partitioners.md and docs/transforms.md make what their tables say?

Each example is a statement of the page, word for word, with records and what a real sink makes of them. A statement without one fails.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import fastavro
import pytest

from kafka_s3.connect.config.validate import validate
from kafka_s3.connect.records.values import NO_TIMESTAMP
from kafka_s3.connect.schemas.connect import DATE, SchemaType
from kafka_s3.connect.transforms.headers import literal
from kafka_s3_testing.records import Record
from kafka_s3_testing.sink_run import RunSink, SinkRun
from tests.support.configurations import PARTITIONER, TIME, TOLERANT
from tests.support.memory_world import BASE
from tests.support.repository import ROOT

TEN_MS = 1_705_312_800_000  # 2024-01-15T10:00:00Z
ENVELOPES = {"value.converter.schemas.enable": "true"}
KAFKA = "org.apache.kafka.connect.transforms."
CONFLUENT = "io.confluent.connect.transforms."
PAGES = ("partitioners.md", "transforms.md")
JSON = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True, slots=True)
class Example:
    """What a sink with these settings makes of records: values, directories and keys of its objects, headers, whether the Avro schema is
    required and its fields' types, and what the texts of the dead letters hold. What an example does not name is not compared.
    """

    config: Mapping[str, str]
    records: Sequence[Record | bytes | None]
    values: Sequence[Any] | None = None
    directories: Sequence[str] | None = None
    names: Sequence[str] | None = None
    headers: Sequence[Any] | None = None
    required: bool | None = None
    types: Mapping[str, Any] | None = None
    refused: Sequence[str] = ()


def value(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def envelope(types: Mapping[str, Mapping[str, Any] | str], payload: Any, **more: Any) -> bytes:
    """A value with its schema; a type is its name, or the whole of a field's schema."""
    fields = [{"field": name, **({"type": one} if isinstance(one, str) else one)} for name, one in types.items()]
    return json.dumps({"schema": {"type": "struct", "fields": fields, **more}, "payload": payload}).encode()


def transform(kind: str, *, package: str = KAFKA, **settings: str) -> dict[str, str]:
    """One transform; `__` in a setting's name is a dot."""
    own = {f"transforms.t.{name.replace('__', '.')}": text for name, text in settings.items()}
    return {"transforms": "t", "transforms.t.type": package + kind, **own}


def under(config: Mapping[str, str], kind: str, **settings: str) -> dict[str, str]:
    """The transform under a predicate."""
    predicate = {"predicates": "p", "predicates.p.type": f"{KAFKA}predicates.{kind}", "transforms.t.predicate": "p"}
    return {**config, **predicate, **{f"predicates.p.{name}": text for name, text in settings.items()}}


def made_of(example: Example, run_sink: RunSink) -> SinkRun:
    topic = example.config.get("topics", "orders").split(",")[0]
    return run_sink({**BASE, "flush.size": "1000", **TOLERANT, **example.config}, {topic: example.records})


def values_of(made: SinkRun) -> list[Any]:
    return [json.loads(line) for content in made.objects.values() for line in content.splitlines()]


def avro_schema(made: SinkRun) -> Any:
    """The schema of the one object; a list where null is a value of it."""
    (content,) = made.objects.values()
    return fastavro.reader(io.BytesIO(content)).writer_schema


def directory_of(key: str) -> str:
    return key.removeprefix("topics/orders/").rpartition("/")[0]


def hold(examples: Sequence[Example], run_sink: RunSink) -> None:
    """Checks what the sinks of the examples make."""
    for example in examples:
        made = made_of(example, run_sink)
        letters = [f"{one.stage} {one.message}" for one in made.dead_letters]
        assert len(letters) == len(example.refused), letters
        for letter, text in zip(letters, example.refused, strict=True):
            assert text in letter
        if example.values is not None:
            assert values_of(made) == list(example.values)
        if example.directories is not None:
            assert [directory_of(key) for key in made.objects] == list(example.directories)
        if example.names is not None:
            assert list(made.objects) == list(example.names)
        if example.headers is not None:
            (content,) = (content for key, content in made.bucket.items() if ".headers." in key)
            assert json.loads(content)["headers"] == list(example.headers)
        if example.required is not None:
            assert isinstance(avro_schema(made), dict) is example.required, example.config
        if example.types is not None:
            assert {one["name"]: one["type"] for one in avro_schema(made)["fields"]} == example.types


def rows_of(page: str) -> Iterator[list[str]]:
    """The cells of the rows of a page's tables, without the tables' heads."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    for line, after in pairwise([*lines, ""]):
        if line.startswith("|") and {*after, "-"} != {"|", "-"} and not {*line} <= {"|", "-"}:
            yield [cell.strip() for cell in line.strip("|").split(" |")]


def statements(page: str) -> set[tuple[str, str]]:
    """What the tables of a page say of what is in their first column, one by one."""
    return {(first, part) for first, says, *_ in rows_of(page) if says for part in says.split("; ")}


FIELDS = {"partitioner.class": f"{PARTITIONER}FieldPartitioner"}
HOURS = {**TIME, "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"}
FIELD_AND_TIME = {
    **HOURS,
    "partitioner.class": "com.canelmas.kafka.connect.FieldAndTimeBasedPartitioner",
    "partition.field.name": "country",
    "path.format": "'year'=YYYY/'month'=MM",
}
HEADERS = {"partitioner.class": "header", "partition.header.name": "tenant,region"}
KEYS = {"partitioner.class": "key", "key.converter": JSON, "key.converter.schemas.enable": "false"}
BY_FIELD_TIME = {**HOURS, "timestamp.extractor": "RecordField", "timestamp.field": "at"}
GERMAN = Record(value(country="DE"), timestamp_ms=TEN_MS)
FRENCH = Record(value(country="FR"), timestamp_ms=TEN_MS)
TEN = "year=2024/month=01/day=15/hour=10"
KEY = Record(value(n=1), b"42")


def headed(**headers: str) -> Record:
    return Record(value(n=1), headers=tuple((name, text.encode()) for name, text in headers.items()))


ORIGINAL = "the original's, by their Java names"
DIRECTORIES: dict[tuple[str, str], list[Example]] = {
    (ORIGINAL, "`partition=0`"): [
        Example({"partitioner.class": f"{PARTITIONER}DefaultPartitioner"}, [GERMAN], directories=["partition=0"])
    ],
    (ORIGINAL, "`country=DE`"): [
        Example({**FIELDS, "partition.field.name": "country"}, [GERMAN], directories=["country=DE"])
    ],
    (ORIGINAL, "`year=2024/month=01/day=15/hour=10`"): [Example(HOURS, [GERMAN], directories=[TEN])],
    (
        "`com.canelmas.kafka.connect.FieldAndTimeBasedPartitioner`",
        "`country=DE/year=2024/month=01`, or with `partition.field.format.path=false` `DE/year=2024/month=01`",
    ): [
        Example(FIELD_AND_TIME, [GERMAN], directories=["country=DE/year=2024/month=01"]),
        Example(
            {**FIELD_AND_TIME, "partition.field.format.path": "false"}, [GERMAN], directories=["DE/year=2024/month=01"]
        ),
    ],
    ("`header`", "`tenant=a/region=eu`"): [
        Example(HEADERS, [headed(region="eu", tenant="a")], directories=["tenant=a/region=eu"])
    ],
    ("`header`", "the last header of a name counts, `null` where there is none"): [
        Example(
            HEADERS,
            [Record(value(n=1), headers=(("tenant", b"b"), ("tenant", b"a")))],
            directories=["tenant=a/region=null"],
        )
    ],
    ("`key`", "`key=42`, for keys that are texts, whole numbers or booleans"): [
        Example(
            KEYS,
            [KEY, Record(value(n=2), b'"a"'), Record(value(n=3), b"true")],
            directories=["key=42", "key=a", "key=true"],
        ),
        Example(KEYS, [Record(value(n=1), b"1.5")], directories=[], refused=["TASK_PUT"]),
    ],
    ("`key`", "`id=42`, for keys with fields"): [
        Example({**KEYS, "partition.key.field": "id"}, [Record(value(n=1), value(id=42))], directories=["id=42"])
    ],
    ("`timestamp.field.unit`", "what a number in `timestamp.field` counts: `ms` (the original's), `s`, `us`, `ns`"): [
        Example({**BY_FIELD_TIME, "timestamp.field.unit": unit}, [value(at=at)], directories=[TEN])
        for unit, at in (("ms", TEN_MS), ("s", TEN_MS // 1000), ("us", TEN_MS * 1000), ("ns", TEN_MS * 10**6))
    ],
    ("`timestamp.field.unit`", "`auto` takes the one in which it is a time from 1990 to 2100"): [
        Example({**BY_FIELD_TIME, "timestamp.field.unit": "auto"}, [value(at=at)], directories=[TEN])
        for at in (TEN_MS, TEN_MS // 1000, TEN_MS * 1000, TEN_MS * 10**6)
    ],
    ("`timestamp.field.format`", "pattern for texts, Java's SimpleDateFormat: `yyyy-MM-dd HH:mm:ss`"): [
        Example(
            {**BY_FIELD_TIME, "timestamp.field.format": "yyyy-MM-dd HH:mm:ss"},
            [value(at="2024-01-15 10:00:00")],
            directories=[TEN],
        )
    ],
    ("`timestamp.field.format`", "UTC unless the text names a zone"): [
        Example(
            {**BY_FIELD_TIME, "timestamp.field.format": "yyyy-MM-dd HH:mm:ss Z"},
            [value(at="2024-01-15 12:00:00 +0200")],
            directories=[TEN],
        )
    ],
    (
        "`behavior.on.implausible.timestamps`",
        "`warn` (once, in the task's log) or `reject`: records whose time lies outside of 1990 to 2100, "
        "which a wrong unit gives (`year=1970`, `year=56009`)",
    ): [
        Example({**BY_FIELD_TIME, "path.format": "'year'=YYYY"}, [value(at=TEN_MS // 1000)], directories=["year=1970"]),
        Example({**BY_FIELD_TIME, "path.format": "'year'=YYYY"}, [value(at=TEN_MS * 1000)], directories=["year=56009"]),
        Example(
            {**BY_FIELD_TIME, "behavior.on.implausible.timestamps": "reject"},
            [value(at=TEN_MS // 1000)],
            directories=[],
            refused=["1970"],
        ),
    ],
    (
        "`object.name.template`",
        "of `${topic}`, `${partition}`, `${offset}` (of the first record, padded as `filename.offset.zero.pad.width` says), "
        "`${time}` (when its upload began, UTC: `20240115T100000Z`) and fixed text",
    ): [
        Example(
            {"object.name.template": "part-${topic}-${partition}-${offset}", "filename.offset.zero.pad.width": "3"},
            [GERMAN],
            names=["topics/orders/partition=0/part-orders-0-000.json"],
        ),
    ],
    ("`object.name.template`", "the extension follows"): [
        Example(
            {"object.name.template": "${partition}-${offset}", "s3.compression.type": "gzip"},
            [GERMAN],
            names=["topics/orders/partition=0/0-0000000000.json.gz"],
        )
    ],
    ("`directory.template`", "of `${topic}`, `${directory}` (the partitioner's) and fixed text, below `topics.dir`"): [
        Example(
            {"directory.template": "a/${directory}/${topic}"},
            [GERMAN],
            names=["topics/a/partition=0/orders/orders+0+0000000000.json"],
        )
    ],
    ("`directory.template`", "`raw/${directory}` puts several topics into one folder"): [
        Example(
            {"directory.template": "raw/${directory}"},
            [GERMAN],
            names=["topics/raw/partition=0/orders+0+0000000000.json"],
        )
    ],
}

LONG = "int64"
AVRO = {"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"}
N_DEFAULT = {"type": "int64", "optional": True, "default": 7}
CAST, INSERT, MASK = "Cast$Value", "InsertField$Value", "MaskField$Value"
STRUCT = {"type": "struct", "fields": [{"field": "b", "type": "int64"}]}
MAP = {"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}}
INT8 = {"type": "int8"}
EVENT: Mapping[str, Mapping[str, Any] | str] = {
    "before": {**STRUCT, "optional": True},
    "after": {**STRUCT, "optional": True},
    "op": "string",
}
HEADER_ROW = "`DropHeaders`, `InsertHeader`, `HeaderFrom`"
TIMES_ROW = "`TimestampConverter`, `TimestampRouter`"
DEBEZIUM_ROW = "`ExtractNewRecordState` (Debezium)"
TOMBSTONES = {"behavior.on.null.values": "ignore", "report.null.values.to.dlq": "false"}
HEADER_OBJECTS = {"store.kafka.headers": "true", "headers.format.class": BASE["format.class"]}
STATIC = transform(INSERT, static__field="s", static__value="x")
HEADER_FROM = transform("HeaderFrom$Value", fields="n", headers="h", operation="move")
LOOSE = envelope({"n": LONG, "m": LONG}, {"n": 1, "m": 2}, optional=True)


def event(op: str, after: Any, *, name: str = "db.Envelope") -> bytes:
    return envelope(EVENT, {"before": {"b": 1}, "after": after, "op": op}, name=name)


def unwrapped(**settings: str) -> dict[str, str]:
    return {
        **ENVELOPES,
        **TOMBSTONES,
        **transform("ExtractNewRecordState", package="io.debezium.transforms.", **settings),
    }


TRANSFORMS: dict[tuple[str, str], list[Example]] = {
    (
        "all with schema",
        "`replace.null.with.default` is on: a null field anywhere in the part becomes its default, touched or not",
    ): [
        Example(
            {**ENVELOPES, **transform(CAST, spec="m:string")},
            [envelope({"n": N_DEFAULT, "m": LONG}, {"n": None, "m": 1})],
            [{"n": 7, "m": "1"}],
        )
    ],
    (
        "all with schema",
        "`InsertField`, `ReplaceField`, `HeaderFrom` and `Flatten` make the part's own schema required",
    ): [
        Example({**ENVELOPES, **AVRO, **config}, [LOOSE], required=required)
        for config, required in (
            (STATIC, True),
            (transform("ReplaceField$Value", exclude="m"), True),
            (HEADER_FROM, True),
            (transform("Flatten$Value"), True),
            (transform(CAST, spec="n:string"), False),
            (transform(MASK, fields="n"), False),
        )
    ],
    ("`Cast`", 'integers wrap (`int8` of 300 is 44), doubles saturate, `boolean` of any text but "true" is false'): [
        Example(
            transform(CAST, spec="n:int8,d:int64,yes:boolean,no:boolean"),
            [value(n=300, d=1e30, yes="True", no="1")],
            [{"n": 44, "d": 2**63 - 1, "yes": True, "no": False}],
        )
    ],
    ("`Cast`", "a missing field of a schemaless value is added as null"): [
        Example(transform(CAST, spec="m:int8"), [value(n=1)], [{"n": 1, "m": None}])
    ],
    ("`ExtractField`", "the only one that knows `field.syntax.version`"): [
        Example(transform("ExtractField$Value", field="a.b", field__syntax__version="V2"), [value(a={"b": 1})], [1])
    ],
    ("`ExtractField`", "a missing field is an error with schema, null without"): [
        Example(
            {**ENVELOPES, **transform("ExtractField$Value", field="m")},
            [envelope({"n": LONG}, {"n": 1})],
            [],
            refused=["TRANSFORMATION"],
        ),
        Example({**TOMBSTONES, **transform("ExtractField$Value", field="m")}, [value(n=1)], []),
    ],
    ("`Filter`", "drops all that it gets"): [
        Example(
            under(transform("Filter"), "HasHeaderKey", name="x"),
            [value(n=1), Record(value(n=2), headers=(("x", b"1"),))],
            [{"n": 1}],
        )
    ],
    ("`Filter`", "without a predicate that is every record (a warning here)"): [
        Example(transform("Filter"), [value(n=1)], [])
    ],
    ("`Flatten`", "arrays stay, maps with schema fail"): [
        Example(transform("Flatten$Value"), [value(a={"b": [1, 2]})], [{"a.b": [1, 2]}]),
        Example(
            {**ENVELOPES, **transform("Flatten$Value")},
            [envelope({"m": MAP}, {"m": {"a": 1}})],
            [],
            refused=["TRANSFORMATION"],
        ),
    ],
    ("`Flatten`", "a field is optional if anything around it is"): [
        Example(
            {**ENVELOPES, **AVRO, **transform("Flatten$Value", delimiter="_")},
            [envelope({"a": {**STRUCT, "optional": True}, "n": LONG}, {"a": {"b": 1}, "n": 1})],
            types={"a_b": ["null", "long"], "n": "long"},
        )
    ],
    ("`HoistField`", 'null becomes `{"in": null}`'): [
        Example(transform("HoistField$Value", field="in"), [None], [{"in": None}])
    ],
    ("`InsertField`", "null stays null"): [Example({**STATIC, **TOMBSTONES}, [None, value(n=1)], [{"n": 1, "s": "x"}])],
    ("`InsertField`", "a record without timestamp gets no such field when schemaless"): [
        Example(transform(INSERT, timestamp__field=name), [Record(value(n=1), timestamp_ms=NO_TIMESTAMP)], [{"n": 1}])
        for name in ("t", "t!")
    ],
    (
        "`InsertField`",
        "with schema a required field (`n!`) is null then, and the record a dead letter of stage `TASK_PUT`",
    ): [
        Example(
            {**ENVELOPES, **transform(INSERT, timestamp__field="t!")},
            [Record(envelope({"n": LONG}, {"n": 1}), timestamp_ms=NO_TIMESTAMP)],
            [],
            refused=["TASK_PUT"],
        )
    ],
    ("`MaskField`", "fails on tombstones"): [
        Example(transform(MASK, fields="n"), [None], [], refused=["TRANSFORMATION"])
    ],
    ("`MaskField`", "a replacement that is too large wraps (`int8` of 300 is 44)"): [
        Example(
            {**ENVELOPES, **transform(MASK, fields="n", replacement="300")},
            [envelope({"n": INT8}, {"n": 1})],
            [{"n": 44}],
        )
    ],
    ("`MaskField`", "adds missing fields as null when schemaless"): [
        Example(transform(MASK, fields="m"), [value(n=1)], [{"n": 1, "m": None}])
    ],
    ("`RegexRouter`", "the pattern must match the whole name, then its first match is replaced"): [
        Example(
            transform("RegexRouter", regex="rder", replacement="x"),
            [value(n=1)],
            names=["topics/orders/partition=0/orders+0+0000000000.json"],
        ),
        Example(
            transform("RegexRouter", regex="(o)(.*)", replacement="$2"),
            [value(n=1)],
            names=["topics/rders/partition=0/rders+0+0000000000.json"],
        ),
    ],
    ("`ReplaceField`", "a field renamed onto another's name takes its place, whatever `exclude` says of it"): [
        Example(transform("ReplaceField$Value", exclude="m", renames="n:m"), [value(n=1, m=2)], [{"m": 1}])
    ],
    ("`SetSchemaMetadata`", "structs only, though it looks as if it could more"): [
        Example(
            {**ENVELOPES, **transform("SetSchemaMetadata$Value", schema__name="x")},
            [b'{"schema": {"type": "int64"}, "payload": 1}'],
            [],
            refused=["TRANSFORMATION"],
        )
    ],
    (
        TIMES_ROW,
        "Java's `SimpleDateFormat`, UTC, lenient: month 13 is next January, text behind the pattern does not count",
    ): [
        Example(
            transform("TimestampConverter$Value", field="at", target__type="unix", format="yyyy-MM-dd"),
            [value(at="2023-13-15 and more")],
            [{"at": TEN_MS - 36_000_000}],
        ),
        Example(
            transform("TimestampRouter", topic__format="${topic}-${timestamp}", timestamp__format="yyyyMMdd"),
            [GERMAN],
            names=["topics/orders-20240115/partition=0/orders-20240115+0+0000000000.json"],
        ),
    ],
    ("`ValueToKey`", "fails on tombstones"): [
        Example(transform("ValueToKey", fields="n"), [None], [], refused=["TRANSFORMATION"])
    ],
    ("`ValueToKey`", "a missing field is an error with schema, null without"): [
        Example(
            {**ENVELOPES, **transform("ValueToKey", fields="m")},
            [envelope({"n": LONG}, {"n": 1})],
            [],
            refused=["TRANSFORMATION"],
        ),
        Example(transform("ValueToKey", fields="m"), [value(n=1)], [{"n": 1}]),
    ],
    (HEADER_ROW, "`HeaderFrom` fails on tombstones and on missing fields with schema"): [
        Example(
            transform("HeaderFrom$Value", fields="n", headers="h", operation="copy"),
            [None],
            [],
            refused=["TRANSFORMATION"],
        ),
        Example(
            {**ENVELOPES, **transform("HeaderFrom$Value", fields="m", headers="h", operation="copy")},
            [envelope({"n": LONG}, {"n": 1})],
            [],
            refused=["TRANSFORMATION"],
        ),
    ],
    (HEADER_ROW, "a literal is read: `5` is an int8, `2024-01-15` a Date, `1,2` is 1"): [
        Example(
            {**HEADER_OBJECTS, **transform("InsertHeader", header="h", value__literal="1,2")},
            [value(n=1)],
            headers=[{"key": "h", "value": "1"}],
        )
    ],
    (
        "`Drop`, `ExtractTopic`, `MessageTimestampRouter`, `TombstoneHandler` (Confluent)",
        "by their documents: they are not open source. `JSON_PATH` takes paths of names. "
        "`TombstoneHandler` has one more behavior, ours: "
        '`rewrite` makes a tombstone the record `{"__deleted": "true"}` ([state tables](state.md))',
    ): [
        Example(
            transform("TombstoneHandler", package=CONFLUENT, behavior="rewrite"),
            [None, value(n=1)],
            [{"__deleted": "true"}, {"n": 1}],
        ),
        Example(
            transform("ExtractTopic$Value", package=CONFLUENT, field="$.a.b", field__format="JSON_PATH"),
            [value(a={"b": "other"})],
            names=["topics/other/partition=0/other+0+0000000000.json"],
        ),
        Example({**TOMBSTONES, **transform("Drop$Value", package=CONFLUENT)}, [value(n=1)], []),
        Example(
            transform("TombstoneHandler", package=CONFLUENT, behavior="fail"),
            [None, value(n=1)],
            [{"n": 1}],
            refused=["TRANSFORMATION"],
        ),
        Example(
            transform(
                "MessageTimestampRouter",
                package=CONFLUENT,
                message__timestamp__keys="at",
                message__timestamp__format="yyyy-MM-dd",
                topic__format="${topic}-${timestamp}",
                topic__timestamp__format="yyyyMM",
            ),
            [value(at="2024-01-15")],
            names=["topics/orders-202401/partition=0/orders-202401+0+0000000000.json"],
        ),
    ],
    (DEBEZIUM_ROW, "a delete becomes null, the tombstone behind it is dropped"): [
        Example(unwrapped(), [event("c", {"b": 2}), event("d", None), None], [{"b": 2}])
    ],
    (DEBEZIUM_ROW, "a value whose schema's name does not end in `.Envelope` passes"): [
        Example(
            unwrapped(), [event("c", {"b": 2}, name="db.Other")], [{"before": {"b": 1}, "after": {"b": 2}, "op": "c"}]
        )
    ],
    (DEBEZIUM_ROW, "`drop.tombstones` and `delete.handling.mode` act where the newer key is not given"): [
        Example(unwrapped(delete__handling__mode="rewrite"), [event("d", None)], [{"b": 1, "__deleted": "true"}]),
        Example(
            unwrapped(delete__handling__mode="rewrite", delete__tombstone__handling__mode="drop"),
            [event("d", None)],
            [],
        ),
    ],
}


@pytest.mark.parametrize(("page", "examples"), [("partitioners.md", DIRECTORIES), ("transforms.md", TRANSFORMS)])
def test_each_statement_of_the_tables_has_an_example_here(page: str, examples: Mapping[tuple[str, str], Any]) -> None:
    assert statements(page) == {*examples}


@pytest.mark.parametrize("statement", [*DIRECTORIES, *TRANSFORMS], ids=": ".join)
def test_a_sink_makes_what_the_table_says(statement: tuple[str, str], run_sink: RunSink) -> None:
    hold({**DIRECTORIES, **TRANSFORMS}[statement], run_sink)


def test_a_literal_of_a_header_has_the_type_that_the_table_says() -> None:
    assert "`5` is an int8, `2024-01-15` a Date" in (ROOT / "docs" / "transforms.md").read_text(encoding="utf-8")
    five, day = (schema for _, schema in map(literal, ("5", "2024-01-15")))
    assert five is not None
    assert day is not None
    assert (five.kind, day.kind, day.name) == (SchemaType.INT8, SchemaType.INT32, DATE)


def test_a_filter_without_a_predicate_is_warned_of() -> None:
    (warning,) = validate({**BASE, "flush.size": "1", **transform("Filter")}).warnings
    assert warning.rule == "drops every record without a predicate."


SENTENCES = {
    "Fields are named with dots through structs: `customer.address.country`. Values are written as they are, "
    "a slash makes more directories;\n"
    "`partition.value.encoding=percent` makes each value one.": [
        Example(
            {**FIELDS, "partition.field.name": "customer.address.country", **encoding},
            [value(customer={"address": {"country": "DE/BY"}})],
            directories=[f"customer.address.country={made}"],
        )
        for encoding, made in (({}, "DE/BY"), ({"partition.value.encoding": "percent"}, "DE%2FBY"))
    ],
    "A slash separates fields whatever `directory.delim` says.": [
        Example(
            {**FIELD_AND_TIME, "partition.field.name": "country,city", "directory.delim": "|"},
            [Record(value(country="DE", city="B"), timestamp_ms=TEN_MS)],
            names=["topics|orders|country=DE/city=B|year=2024/month=01|orders+0+0000000000.json"],
        )
    ],
    "`rotate.interval.ms` closes all files whenever the fields change, unless\n`rotate.file.on.partition.change=false`.": [
        Example(
            {**FIELD_AND_TIME, "rotate.interval.ms": "600000", **more},
            [GERMAN, FRENCH, GERMAN],
            names=[
                f"topics/orders/country={country}/year=2024/month=01/orders+0+000000000{n}.json" for country, n in files
            ],
        )
        for more, files in (
            ({}, (("DE", 0), ("FR", 1), ("DE", 2))),
            ({"rotate.file.on.partition.change": "false"}, (("DE", 0), ("FR", 1))),
        )
    ],
    "Fields that are neither text, a whole number nor a boolean are bad records": [
        Example(
            {**FIELD_AND_TIME, "partition.field.name": "n"},
            [Record(value(n=1.5), timestamp_ms=TEN_MS)],
            directories=[],
            refused=["TASK_PUT"],
        )
    ],
    "`topics/orders/partition=0/orders-dc1+0+0000000000.json`": [
        Example(
            {"topics": "orders-dc1,orders-dc2", **transform("RegexRouter", regex="(orders)-dc.", replacement="$1")},
            [value(n=1)],
            names=["topics/orders/partition=0/orders-dc1+0+0000000000.json"],
        )
    ],
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sink_makes_what_the_text_says(sentence: str, run_sink: RunSink) -> None:
    pages = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES)
    assert sentence in pages
    hold(SENTENCES[sentence], run_sink)


@pytest.mark.parametrize("page", PAGES)
def test_the_text_shows_no_object_and_no_code_that_is_not_run_here(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert "```" not in text
    prose = [line for line in text.splitlines() if not line.startswith("|")]
    shown = {one for line in prose for one in re.findall(r"`([^`<]+/[^`>]+|[^`]+=[^`]+)`", line)}
    assert [one for one in shown if not any(one in sentence for sentence in SENTENCES)] == []
