"""Is `verify` right wherever a sink is? Clean on a healthy bucket of every transform, converter and format, and of every configuration that
is told of; and not clean when one value, one line or one object is otherwise.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_s3.connect.config.classes import JAVA_NAMES, PREDICATES, ROUTERS, TRANSFORMS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved
from kafka_s3.engine.control.stored_settings import note_settings
from kafka_s3.engine.log.dead_letters import LetterSelection
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.replay import make_replay
from kafka_s3.ops.verify.claims import SegmentSelection
from kafka_s3.ops.verify.findings import FindingKind
from kafka_s3.run.wiring.pipeline import noted_settings, state_paths
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.services.memory import MemoryRecord
from tests.conformance import adapter
from tests.support.configurations import FIELD, TIME, TOLERANT
from tests.support.entry_points import install
from tests.support.memory_world import ORDERS, START_MS, World, settings_of
from tests.support.published import needs_services, published, topics_of
from tests.support.verifying import audited, changed, clean_and_not_when_damaged, kinds, values_of, worked_off

SMT, CONFLUENT = "org.apache.kafka.connect.transforms.", "io.confluent.connect.transforms."
CONVERTER, FORMAT = "org.apache.kafka.connect.", "io.confluent.connect.s3.format."
JSON_CONVERTER, STRING, BYTES = (
    f"{CONVERTER}json.JsonConverter", f"{CONVERTER}storage.StringConverter", f"{CONVERTER}converters.ByteArrayConverter",
)  # fmt: skip
WITH_SCHEMAS = {"value.converter": JSON_CONVERTER, "value.converter.schemas.enable": "true"}
HOUR = 3_600_000


def struct(**fields: Any) -> dict[str, Any]:
    """A schema of the JSON converter: a type by name, or a schema; all are optional."""
    made = [
        {"field": name, "optional": True, **(kind if isinstance(kind, dict) else {"type": kind})}
        for name, kind in fields.items()
    ]
    return {"type": "struct", "name": "shop.Order", "fields": made, "optional": True}


SCHEMA = struct(
    n="int64", d="string", to="string", at="string", ms="int64", f="double", g="float", yes="boolean", raw="bytes",
    nested=struct(a="int32", b="string"), tags={"type": "array", "items": {"type": "string"}},
    counts={"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
    price={"type": "bytes", "name": f"{CONVERTER}data.Decimal", "parameters": {"scale": "2"}},
    due={"type": "int32", "name": f"{CONVERTER}data.Date"}, seen={"type": "int64", "name": f"{CONVERTER}data.Timestamp"},
)  # fmt: skip


def order(n: int) -> dict[str, Any]:
    return {
        "n": n, "d": "ab"[n % 2], "to": f"orders-{n % 2}", "at": f"2024-01-{15 + n:02d}T10:00:00.000Z", "ms": START_MS + n, "f": n + 0.1,
        "g": n / 3, "yes": n % 2 == 0, "raw": "AQI=", "nested": {"a": n, "b": "x\"\n" if n % 3 else None}, "tags": ["é", str(n)],
        "counts": {"k": n}, "price": base64.b64encode((100 * n).to_bytes(4, "big")).decode(), "due": 19000 + n, "seen": START_MS + n,
    }  # fmt: skip


def change_event(n: int) -> dict[str, Any]:
    row = struct(n="int64", d="string")
    source = struct(ts_ms="int64", table="string")
    schema = struct(before=row, after=row, source=source, op="string", ts_ms="int64") | {"name": "shop.orders.Envelope"}
    after = None if n == 3 else {"n": n, "d": "ab"[n % 2]}
    event = {"before": {"n": n, "d": "old"}, "after": after, "source": {"ts_ms": START_MS, "table": "orders"},
             "op": "d" if n == 3 else "u", "ts_ms": START_MS + n}  # fmt: skip
    return {"schema": schema, "payload": event}


def documents(count: int = 8) -> list[bytes | None]:
    return [json.dumps(order(n)).encode() for n in range(count)]


def envelopes(count: int = 8) -> list[bytes | None]:
    return [json.dumps({"schema": SCHEMA, "payload": order(n)}).encode() for n in range(count)]


def events() -> list[bytes | None]:
    return [json.dumps(change_event(n)).encode() for n in range(8)]


def texts() -> list[bytes | None]:
    return [f"line {n}\u00e9".encode() + b"\n" * (n % 2) for n in range(8)]


INPUTS: dict[str, tuple[Mapping[str, str], list[bytes | None]]] = {
    "documents to JSON": ({}, documents()),
    "documents to gzip": ({"s3.compression.type": "gzip"}, documents()),
    "schemas to JSON": (WITH_SCHEMAS, envelopes()),
    "schemas to JSON with numbers": ({**WITH_SCHEMAS, "json.decimal.format": "NUMERIC"}, envelopes()),
    "schemas to Avro": ({**WITH_SCHEMAS, "format.class": f"{FORMAT}avro.AvroFormat"}, envelopes()),
    "schemas to Parquet": ({**WITH_SCHEMAS, "format.class": f"{FORMAT}parquet.ParquetFormat"}, envelopes()),
    "documents to Parquet": ({"format.class": f"{FORMAT}parquet.ParquetFormat", "value.schema.inference": "true"}, documents()),
    "events to JSON": (WITH_SCHEMAS, events()),
    "texts to JSON": ({"value.converter": STRING}, texts()),
    "bytes to JSON": ({"value.converter": BYTES}, texts()),
    "bytes to bytes": ({"value.converter": BYTES, "format.class": f"{FORMAT}bytearray.ByteArrayFormat"}, texts()),
    "texts to blocks": ({"value.converter": STRING, "format.class": "block_gzip", "block.gzip.dialect": "original"}, texts()),
    "bytes to blocks": ({"value.converter": BYTES, "format.class": "block_gzip", "block.gzip.dialect": "successor"}, texts()),
}  # fmt: skip
"""What is in Kafka, and what the objects are: without a chain, and under every one of CHAINS."""
EACH_TIME = ("documents to JSON", "schemas to JSON", "events to JSON")
"""Each chain is tried under one of them, in turn; under all inputs by night."""
BLOCKS = {"flush.size": "", "rotate.schedule.interval.ms": str(HOUR // 2), "timezone": "UTC"}
SETTINGS: dict[str, dict[str, str]] = {
    "cast": {"spec": "n:string,f:int32,yes:int8"}, "extract_field": {"field": "nested"}, "flatten": {"delimiter": "_"},
    "header_from": {"fields": "d", "headers": "from", "operation": "move"}, "hoist_field": {"field": "in"},
    "insert_field": {"topic.field": "t", "partition.field": "p", "offset.field": "o", "timestamp.field": "time", "static.field": "s",
                     "static.value": "shop"},
    "mask_field": {"fields": "d", "replacement": "*"}, "replace_field": {"exclude": "f", "renames": "n:number"},
    "schema_metadata": {"schema.name": "shop.Other", "schema.version": "7"},
    "timestamp_converter": {"field": "at", "target.type": "unix", "format": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"},
    "drop_headers": {"headers": "h"}, "filter": {"predicate": "p", "negate": "true"},
    "insert_header": {"header": "i", "value.literal": "5"},
    "regex_router": {"regex": "(.*)s", "replacement": "new_$1"}, "timestamp_router": {"timestamp.format": "yyyyMMddHH"},
    "value_to_key": {"fields": "n"}, "drop": {}, "extract_topic": {"field": "to"},
    "message_timestamp_router": {"message.timestamp.keys": "at"}, "tombstone_handler": {"behavior": "ignore"},
    "new_record_state": {"add.fields": "op,source.table", "delete.tombstone.handling.mode": "rewrite"},
}  # fmt: skip
"""Settings of each kind of transform; `p` is a predicate."""


def chain(*steps: Mapping[str, str], **predicate: str) -> dict[str, str]:
    """Steps in order; `predicate` is that of the name `p`."""
    names = [f"t{number}" for number in range(len(steps))]
    made = {"transforms": ",".join(names)} | {
        f"transforms.{name}.{key}": text for name, step in zip(names, steps, strict=True) for key, text in step.items()
    }
    return made | (
        {"predicates": "p", **{f"predicates.p.{key}": text for key, text in predicate.items()}} if predicate else {}
    )


def step(name: str, **more: str) -> dict[str, str]:
    kind, _, part = name.partition(".")
    given = {**SETTINGS[kind], **more}
    if kind == "extract_topic" and part == "header":
        given["field"] = "h"
    return {"type": JAVA_NAMES[name], **given}


HAS_H = {"type": f"{SMT}predicates.HasHeaderKey", "name": "h"}
CHAINS: dict[str, dict[str, str]] = {
    **{name: chain(step(name), **HAS_H) if name == "filter" else chain(step(name)) for name in TRANSFORMS.values()},
    "a filter of all": chain({"type": f"{SMT}Filter"}),
    "a filter by topic": chain(
        {"type": f"{SMT}Filter", "predicate": "p"}, type=f"{SMT}predicates.TopicNameMatches", pattern="ord.*"),
    "a filter of tombstones": chain(
        {"type": f"{SMT}Filter", "predicate": "p"}, type=f"{SMT}predicates.RecordIsTombstone"),
    "three steps": chain(step("insert_field.value"), step("replace_field.value"), step("mask_field.value")),
    "a route, and its topic as a field": chain(step("extract_topic.value"), step("insert_field.value")),
    "a step for some": chain({**step("insert_field.value"), "predicate": "p"}, **HAS_H),
    "deletes dropped": chain(step("new_record_state", **{"delete.tombstone.handling.mode": "drop"})),
    "deletes to null": chain(step("new_record_state", **{"delete.tombstone.handling.mode": "tombstone"})),
    "a text behind a time": chain(step("timestamp_converter.value", field="ms", **{"target.type": "string"})),
    "the whole as a text": chain({"type": JAVA_NAMES["cast.value"], "spec": "string"}),
}  # fmt: skip


def test_every_transform_and_predicate_is_there() -> None:
    assert set(TRANSFORMS.values()) <= set(CHAINS)
    used = {text for made in CHAINS.values() for key, text in made.items() if key == "predicates.p.type"}
    assert used == set(PREDICATES)


def filled(config: Mapping[str, str], values: list[bytes | None]) -> World:
    """A sink at rest; some records have a header, others no key; one value is missing, and one is nothing that can be read."""
    given = {"flush.size": "3", "key.converter": JSON_CONVERTER, "key.converter.schemas.enable": "false", **TOLERANT,
             "behavior.on.null.values": "ignore", **(BLOCKS if config.get("format.class") == "block_gzip" else {}), **config}  # fmt: skip
    world = World({key: text for key, text in given.items() if text})
    world.start()
    for offset, value in enumerate([*values[:5], None, b"\xff{", *values[5:]]):
        headers = (("h", b"orders-h"),) if offset % 2 else ()
        key = None if offset == 2 else json.dumps({"n": offset, "d": "k"}).encode()
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS + offset * HOUR // 4, key, value, headers))
        if offset % 4 == 3:
            world.now += HOUR
            assert world.sink.poll_and_commit()
    world.now += HOUR
    assert world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    return world


def checked(config: Mapping[str, str], values: list[bytes | None]) -> None:
    """Also that every value is compared, where the format has values that are read one by one."""
    world = filled(config, values)
    report = clean_and_not_when_damaged(world.settings, world.store, world.kafka)
    counted = world.settings.text("format.class") in ("avro", "parquet")
    written = sum(file.records for file in values_of(world.settings, world.store))
    assert sum(tally.compared for tally in report.tallies) == (0 if counted else written)
    assert len(report.notes) == counted


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_and_format_is_clean_unless_it_is_damaged(name: str) -> None:
    checked(*INPUTS[name])


def cells() -> Iterator[Any]:
    for kind, (config, _) in INPUTS.items():
        for number, (name, steps) in enumerate(CHAINS.items()):
            kinds = {TRANSFORMS[text].partition(".")[0] for text in steps.values() if text in TRANSFORMS}
            if config.get("format.class") == "block_gzip" and kinds & ROUTERS:
                continue  # they do not go together
            marks = () if kind == EACH_TIME[number % len(EACH_TIME)] else pytest.mark.nightly
            yield pytest.param(kind, name, id=f"{name}: {kind}", marks=marks)


@pytest.mark.parametrize(("kind", "name"), list(cells()))
def test_every_transform_is_clean_unless_the_bucket_is_damaged(kind: str, name: str) -> None:
    config, values = INPUTS[kind]
    checked({**config, **CHAINS[name]}, values)


STORED = {"store.kafka.keys": "true", "keys.format.class": f"{FORMAT}json.JsonFormat"}
AROUND: dict[str, dict[str, str]] = {
    "keys and headers": {**STORED, "store.kafka.headers": "true", "headers.format.class": f"{FORMAT}avro.AvroFormat"},
    "keys for nulls": {**STORED, "behavior.on.null.values": "write"},
    "nulls as dead letters": {"report.null.values.to.dlq": "true"}, "metadata": {"record.metadata.enable": "true"},
    "strict": {"compatibility.strict": "true"}, "a directory a schema": {"s3.schema.partition.affix.type": "PREFIX"},
    "a directory a field": {**FIELD, "rotate.file.on.partition.change": "false"},
    "a directory an hour": {**TIME, "rotate.interval.ms": "600000"}, "wall clock": {**TIME, "timestamp.extractor": "Wallclock"},
    "a directory a key": {"partitioner.class": "key", "partition.key.field": "n"},
    "a directory a header": {"partitioner.class": "header", "partition.header.name": "h"},
    "other delimiters": {"directory.delim": "_", "file.delim": "-", "topics.dir": ""},
    "the topic behind the directory": {"directory.template": "${directory}/of/${topic}"},
    "no folder for a topic": {"directory.template": "${directory}", "object.name.template": "${topic}-${partition}-${offset}"},
    "few open files": {**FIELD, "rotate.file.on.partition.change": "false", "partitioner.max.open.files": "1"},
    "closed when idle": {"flush.size": "", "flush.idle.ms": "1000"}, "closed by bytes": {"flush.size": "", "flush.bytes": "200"},
    "encrypted with a key of KMS": {"s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": "k"},
}  # fmt: skip
"""What else a configuration says."""
SOME_CHAINS = ("three steps", "a route, and its topic as a field", "a filter by topic", "a step for some")


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    "name", ["none", SOME_CHAINS[0], *(pytest.param(chain, marks=pytest.mark.nightly) for chain in SOME_CHAINS[1:])]
)
@pytest.mark.parametrize("kind", ["documents to JSON", pytest.param("schemas to JSON", marks=pytest.mark.nightly)])
def test_every_way_to_store_records_is_clean_unless_the_bucket_is_damaged(kind: str, name: str, around: str) -> None:
    config, values = INPUTS[kind]
    checked({**config, **CHAINS.get(name, {}), **AROUND[around]}, values)


# ------------------------------------------------------------ chains that are not function of the record


CLOCKED = """
import itertools
from dataclasses import replace
from kafka_s3.connect.config.option import Option, Type
from kafka_s3.connect.config.plugins import options

@options(Option("says.so", Type.BOOLEAN, "false", "Whether it says that it counts."))
class Stamp:
    def __init__(self, settings):
        self.numbers = itertools.count()
        self.deterministic = not settings.flag("says.so")

    def apply(self, record):
        return replace(record, value={**record.value, "seen": next(self.numbers)})
"""


@pytest.fixture
def stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A transform of the user's own that makes something else of the same record each time."""
    install(
        tmp_path, monkeypatch, module="acme_stamps", source=CLOCKED, group="kafka_s3.transforms",
        entry="acme.Stamp = acme_stamps:Stamp",
    )  # fmt: skip
    return chain({"type": "acme.Stamp"})


def test_where_a_transform_says_that_it_is_not_deterministic_values_are_counted_and_the_report_says_so(
    stamp: dict[str, str],
) -> None:
    world = filled({**stamp, "transforms.t0.says.so": "true"}, documents())
    report = clean_and_not_when_damaged(world.settings, world.store, world.kafka)
    assert [tally.compared for tally in report.tallies] == [0]
    assert report.tallies[0].kafka == 10
    assert report.notes == (
        "Values were counted, not compared: the outcome of acme.Stamp is not a function of the record alone.",
    )
    records = world.kafka.records[ORDERS]
    records.insert(5, records[4])  # one more than was written
    assert FindingKind.NOT_ACCOUNTED in kinds(audited(world))


def test_where_a_transform_of_the_users_own_does_not_say_so_the_report_shows_how(stamp: dict[str, str]) -> None:
    report = audited(filled(stamp, documents()))
    assert FindingKind.WRONG_CONTENT in kinds(report)
    assert "compared as acme.Stamp makes them now" in report.notes[0]
    assert "deterministic = False" in report.notes[0]


def test_years_of_two_digits_are_counted_for_their_century_is_that_of_the_day() -> None:
    short = step("timestamp_converter.value", field="d", format="yy-MM-dd")
    world = filled(chain(short), [b'{"d":"24-01-15"}'] * 4)
    report = audited(world)
    assert (report.findings, report.tallies[0].compared) == ((), 0)
    assert "TimestampConverter$Value is not a function of the record alone" in report.notes[0]


# ------------------------------------------------------------ settings that were others


def noted_now(world: World) -> None:
    """What a run's heartbeat writes beside the log."""
    epoch = world.entries()[-1].epoch
    note_settings(
        world.store, state_paths(world.settings), noted_settings(world.settings, epoch=epoch, at_ms=world.now)
    )


def test_what_was_written_before_a_transform_was_added_is_counted_and_what_came_after_is_compared() -> None:
    world = World({"flush.size": "3"})
    world.start()
    noted_now(world)
    world.add(range(6))
    assert world.sink.poll_and_commit()
    old = world.settings
    world.settings = settings_of({"flush.size": "3", **CHAINS["insert_field.value"]})
    report = audited(world)  # not run since
    assert (report.findings, report.tallies[0].compared) == ((), 0)
    world.start()
    noted_now(world)
    world.add(range(6, 12))
    assert world.sink.poll_and_commit()
    report = audited(world)
    assert (report.findings, report.tallies[0].written, report.tallies[0].compared) == ((), 12, 6)
    (note,) = report.notes
    assert "other settings held (transforms, transforms.t0.offset.field" in note
    last = values_of(world.settings, world.store)[-1].key
    world.store.put(last, changed(world.store.get(last)))
    assert FindingKind.WRONG_CONTENT in kinds(audited(world))
    world.settings = old
    assert audited(world).tallies[0].compared == 0


# ------------------------------------------------------------ objects of other topics' folders


def test_an_object_that_nobody_claims_in_the_folder_of_a_router_is_found() -> None:
    world = filled(CHAINS["regex_router"], documents())
    stray = "topics/new_order/partition=0/new_order+0+0000000001.json"
    world.store.put(stray, b"{}\n")
    world.store.put(
        "topics/new_order/partition=0/others+0+0000000001.json", b"{}\n"
    )  # of another sink that routes there
    world.store.put("topics/orders/partition=0/orders+0+0000000001.json", b"{}\n")  # of another sink without a router
    (found,) = audited(world).findings
    assert (found.kind, found.place) == (FindingKind.ORPHAN, stray)


def test_two_topics_in_one_folder_are_clean_and_a_stray_among_them_is_found() -> None:
    places = [TopicPartition("orders-dc1", 0), TopicPartition("orders-dc2", 0)]
    route = chain({"type": f"{SMT}RegexRouter", "regex": "(.*)-dc.", "replacement": "$1"})
    world = World({"flush.size": "2", "topics": "orders-dc1,orders-dc2", **route}, topics=places)
    for place in places:
        world.add(range(4), tp=place)
    world.start().poll_and_commit()
    stray = "topics/orders/partition=0/orders-dc2+0+0000000001.json"
    world.store.put(stray, b"{}\n")
    assert [found.place for found in audited(world).findings] == [stray]
    assert audited(world, selection=SegmentSelection(topic="orders-dc1")).findings == ()
    world.store.delete(stray)
    assert clean_and_not_when_damaged(world.settings, world.store, world.kafka).notes == ()


def test_records_of_one_partition_that_go_to_two_topics_without_a_folder_each_do_not_overlap() -> None:
    route = chain({"type": f"{CONFLUENT}ExtractTopic$Value", "field": "to"})
    names = {"directory.template": "${directory}", "object.name.template": "${topic}-${partition}-${offset}"}
    places = [TopicPartition("orders-dc1", 0), TopicPartition("orders-dc2", 0)]
    world = World({"flush.size": "2", "topics": "orders-dc1,orders-dc2", **route, **names}, topics=places)
    for place in places:
        for offset, target in enumerate("ABBAAB"):
            value = json.dumps({"to": target, "n": offset}).encode()
            world.kafka.add(place, MemoryRecord(offset, START_MS, None, value))
    world.start().poll_and_commit()
    assert clean_and_not_when_damaged(world.settings, world.store, world.kafka).notes == ()


# ------------------------------------------------------------ replays


def test_replayed_dead_letters_are_compared_after_the_same_transforms() -> None:
    steps = {"flush.size": "2", **CHAINS["insert_field.value"]}
    times = {"timestamp.extractor": "RecordField", "timestamp.field": "at"}
    world = World({**steps, **TOLERANT, **TIME, **times})
    for offset in range(4):
        value = json.dumps({"n": offset} | ({"at": START_MS} if offset % 2 else {})).encode()
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS + offset, None, value))
    world.start().poll_and_commit()
    world.settings = settings_of({**steps, **TOLERANT, **TIME})  # records without a time of their own are welcome now
    _, entry = make_replay(world.settings, world.store, clock_ms=lambda: world.now).run(LetterSelection())
    assert entry is not None
    assert audited(world).findings == ()
    world.store.put(entry.files[0].key, changed(world.store.get(entry.files[0].key)))
    assert FindingKind.WRONG_CONTENT in kinds(audited(world))


# ------------------------------------------------------------ published configurations


def shown(settings: Settings, n: int) -> bytes:
    """A value for all of them: it has whatever their partitioners and extractors look at."""
    at = f"2024-01-{1 + n:02d}T10:00:00Z"
    value = {"n": n, "country": "ch", "created_at": at, "updated_at": at, "ssn": "1"}
    if settings.text("value.converter") == "json" and settings.flag("value.converter.schemas.enable"):
        schema = struct(n="int64", **dict.fromkeys(("country", "created_at", "updated_at", "ssn"), "string"))
        return json.dumps({"schema": schema, "payload": value}).encode()
    return json.dumps({**value, "device": {"type": "x"}}).encode()


TOLD_OF = published()


PUBLISHED = [name for name, settings in TOLD_OF.items() if not needs_services(settings)]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if n % 3 else ()) for n, name in enumerate(PUBLISHED)]
)
def test_every_published_configuration_is_clean_unless_its_bucket_is_damaged(name: str) -> None:
    settings = resolved(TOLD_OF[name])
    store = MemoryStore()
    values = [shown(settings, n) for n in range(8)]
    kafka = worked_off(settings, store, dict.fromkeys(topics_of(settings), values))
    report = clean_and_not_when_damaged(settings, store, kafka)
    assert [tally.written + tally.dead_letters for tally in report.tallies] == [8] * len(topics_of(settings))


# ------------------------------------------------------------ the cases of the connectors that the sink replaces

CONFORMANCE = Path(os.environ.get("CONFORMANCE_DIR", os.devnull)).absolute()
"""Where the cases are, if anywhere (`make conformance`)."""
CASES = {
    f"{path.stem}: {case['name']}": case
    for path in sorted(CONFORMANCE.glob("cases/*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))
}


@pytest.mark.skipif(not CASES, reason="There are no conformance cases where CONFORMANCE_DIR says.")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if n % 8 else ()) for n, name in enumerate(CASES or ["none"])]
)
def test_every_conformance_case_is_clean_unless_its_bucket_is_damaged(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(CONFORMANCE))
    world, _, failure = adapter.worked_off(CASES[name])
    if world is None:
        return  # refused, nothing is written
    if failure is not None:
        world.start()  # publishes what was committed when the task failed
    clean_and_not_when_damaged(world.settings, world.store, world.kafka)
