"""When the schema of a topic changes: which files close, which records are projected, and what becomes of tombstones."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.model.files import Reason, Role
from kafka_s3_testing.faults import Fault, Moment
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, STATE, TIME, TOLERANT
from tests.support.deaths import Died
from tests.support.examples import examples
from tests.support.memory_world import ORDERS, START_MS, World, rows

pytestmark = pytest.mark.usefixtures("_either_way")

FORMATS = {
    "json": "io.confluent.connect.s3.format.json.JsonFormat",
    "avro": "io.confluent.connect.s3.format.avro.AvroFormat",
    "parquet": "io.confluent.connect.s3.format.parquet.ParquetFormat",
}
ENVELOPES = {"value.converter.schemas.enable": "true"}
STRINGS = {
    "store.kafka.keys": "true",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "keys.format.class": FORMATS["json"],
}
LONG = {"type": "int64", "optional": True}
FIELDS: dict[int | None, list[dict[str, Any]]] = {
    1: [{"field": "n", "type": "int32"}],
    2: [{"field": "n", "type": "int32"}, {"field": "a", **LONG}],
    3: [{"field": "n", "type": "int64"}, {"field": "a", **LONG}, {"field": "b", "type": "string", "default": "b!"}],
}
ALIEN: list[dict[str, Any]] = [{"field": "n", "type": "string"}]
"""Fields that go with none of the versions."""


def message(
    version: int | None, fields: list[dict[str, Any]], payload: dict[str, Any], *, name: str | None = "order"
) -> bytes:
    schema = {"type": "struct", "name": name, "version": version, "fields": fields}
    return json.dumps({"schema": schema, "payload": payload}).encode()


def versioned(version: int, n: int) -> bytes:
    payload = {"n": n, "a": 10 + n, "b": f"b{n}"}
    return message(version, FIELDS[version], {field["field"]: payload[field["field"]] for field in FIELDS[version]})


def world_of_values(config: dict[str, str], values: Sequence[bytes | None], *, hours: Sequence[int] = ()) -> World:
    """One cycle over these values, the n-th with the key `k<n>` and, if given, its hour."""
    world = World({"flush.size": "4", **ENVELOPES, **TOLERANT, **config})
    world.start()
    for n, value in enumerate(values):
        time = START_MS + (hours[n] if hours else 0) * 3_600_000
        world.kafka.add(ORDERS, MemoryRecord(n, time, f"k{n}".encode(), value))
    world.sink.poll_and_commit()
    return world


def contents(world: World) -> list[tuple[str, list[Any]]]:
    """The data objects in the order of their names, read by other implementations."""
    found = []
    for key, data in sorted(world.store.objects.items()):
        if key.startswith(STATE):
            continue
        if key.endswith(".parquet"):
            content = pq.read_table(io.BytesIO(data)).to_pylist()
        elif key.endswith(".avro"):
            content = list(fastavro.reader(io.BytesIO(data)))
        else:
            content = rows(key, data)
        found.append((key, content))
    return found


def files(world: World) -> list[list[Any]]:
    return [content for _, content in contents(world)]


def reasons(world: World) -> list[Reason]:
    return [file.reason for entry in world.entries() for file in entry.files if file.role is Role.VALUE]


def buried(world: World) -> list[int]:
    return [message.origin[2] for message in world.kafka.produced.get("dlq", []) if message.origin]


BOTH = pytest.mark.parametrize("format_class", [FORMATS["parquet"], FORMATS["avro"]], ids=["parquet", "avro"])


@BOTH
@pytest.mark.parametrize(
    ("mode", "versions", "expected"),
    [
        ("NONE", [1, 1, 2, 1], [[0, 1], [2], [3]]),
        ("BACKWARD", [1, 2, 1, 1, 2, 2], [[0], [1, 2, 3, 4]]),
        ("BACKWARD", [3, 1, 2, 3], [[0, 1, 2, 3]]),
        ("BACKWARD", [1, 2, 3, 3, 3, 3], [[0], [1], [2, 3, 4, 5]]),
        ("FULL", [1, 2, 1, 1, 2, 2], [[0], [1, 2, 3, 4]]),
        ("FORWARD", [1, 2, 2, 1, 2], [[0, 1, 2, 3]]),
        ("FORWARD", [2, 2, 1, 1, 2, 1], [[0, 1], [2, 3, 4, 5]]),
    ],
)
def test_a_file_closes_or_the_record_is_projected(
    format_class: str, mode: str, versions: list[int], expected: list[list[int]]
) -> None:
    values = [versioned(version, n) for n, version in enumerate(versions)]
    world = world_of_values({"format.class": format_class, "schema.compatibility": mode}, values)
    closed = [group for group in expected if len(group) == 4 or group is not expected[-1]]

    assert [[row["n"] for row in content] for content in files(world)] == closed
    assert reasons(world) == [Reason.FLUSH_SIZE if len(group) == 4 else Reason.SCHEMA for group in closed]
    assert buried(world) == []
    for group, content in zip(closed, files(world), strict=True):
        first = versions[group[0]]
        names = [field["field"] for field in FIELDS[first]]
        for offset, row in zip(group, content, strict=True):
            sent = versions[offset]
            own = [field["field"] for field in FIELDS[sent]]
            full = {"n": offset, "a": 10 + offset if "a" in own else None, "b": f"b{offset}" if "b" in own else "b!"}
            assert row == {name: full[name] for name in names}


@pytest.mark.parametrize("mode", ["BACKWARD", "FORWARD", "FULL"])
def test_records_without_a_version_beside_others_are_dead_letters(mode: str) -> None:
    bare = message(None, FIELDS[2], {"n": 1, "a": None})
    world = world_of_values({"format.class": FORMATS["avro"], "schema.compatibility": mode},
                     [versioned(1, 0), bare, versioned(1, 2), versioned(1, 3), bare, versioned(1, 5)])  # fmt: skip

    assert files(world) == [[{"n": n} for n in (0, 2, 3, 5)]]
    assert buried(world) == [1, 4]


@pytest.mark.parametrize("strict", ["true", "false"])
@pytest.mark.parametrize("mode", ["NONE", "BACKWARD", "FORWARD", "FULL"])
def test_values_with_and_without_schema_never_share_a_file(mode: str, strict: str) -> None:
    """SEMANTICS A3.2: the file closes before the schemas are compared, in either direction; no record is refused."""
    plain = json.dumps({"schema": None, "payload": {"n": 9}}).encode()
    values = [versioned(1, 0), plain, plain, versioned(1, 3), plain]
    world = world_of_values({"schema.compatibility": mode, "compatibility.strict": strict}, values)
    assert files(world) == [[{"n": 0}], [{"n": 9}, {"n": 9}], [{"n": 3}]]
    assert set(reasons(world)) == {Reason.SCHEMA}
    assert buried(world) == []


def test_a_topic_of_one_schema_needs_no_version() -> None:
    bare = [message(None, FIELDS[1], {"n": n}) for n in range(4)]

    assert files(world_of_values({"schema.compatibility": "BACKWARD"}, bare)) == [[{"n": n} for n in range(4)]]


@pytest.mark.parametrize("mode", ["BACKWARD", "FORWARD", "FULL", "NONE"])
@pytest.mark.parametrize("other", [message(1, ALIEN, {"n": "x"}), message(1, FIELDS[1], {"n": 1}, name="another")])
def test_a_schema_that_cannot_be_projected_closes_the_file_in_every_mode(mode: str, other: bytes) -> None:
    world = world_of_values(
        {"schema.compatibility": mode, "flush.size": "2"},
        [versioned(1, 0), other, other, versioned(1, 3), versioned(1, 4)],
    )

    assert [len(content) for content in files(world)] == [1, 2, 2]
    assert buried(world) == []


# ------------------------------------------------------------ schema.compatibility.unify

UNIFY = {"schema.compatibility.unify": "true"}


@BOTH
@settings(max_examples=examples(12))
@given(
    versions=st.lists(st.sampled_from([1, 2, 3]), min_size=4, max_size=13), batch_size=st.sampled_from([1, 3, 10_000])
)
def test_unified_versions_share_one_file_per_flush_size(
    format_class: str, versions: list[int], batch_size: int
) -> None:
    world = World({"flush.size": "4", **ENVELOPES, **UNIFY, "format.class": format_class}, batch_size=batch_size)
    world.start()
    for n, version in enumerate(versions):
        world.kafka.add(ORDERS, MemoryRecord(n, START_MS, None, versioned(version, n)))
    world.sink.poll_and_commit()

    assert [len(content) for content in files(world)] == [4] * (len(versions) // 4)
    for number, content in enumerate(files(world)):
        some = versions[number * 4 : number * 4 + 4]
        names = [field["field"] for field in FIELDS[max(some)]]
        for offset, row in enumerate(content, number * 4):
            own = [field["field"] for field in FIELDS[versions[offset]]]
            full = {"n": offset, "a": 10 + offset if "a" in own else None, "b": f"b{offset}" if "b" in own else "b!"}
            assert row == {name: full[name] for name in names}


@BOTH
def test_incompatible_schemas_close_a_unified_file(format_class: str) -> None:
    alien = message(1, ALIEN, {"n": "x"})
    values = [
        versioned(1, 0),
        versioned(2, 1),
        alien,
        alien,
        versioned(2, 4),
        versioned(1, 5),
        versioned(2, 6),
        versioned(1, 7),
    ]
    world = world_of_values({**UNIFY, "format.class": format_class}, values)

    assert [[row["n"] for row in content] for content in files(world)] == [[0, 1], ["x", "x"], [4, 5, 6, 7]]
    assert reasons(world) == [Reason.SCHEMA, Reason.SCHEMA, Reason.FLUSH_SIZE]


def test_a_unified_file_names_the_widest_schema_in_the_log() -> None:
    world = world_of_values(UNIFY, [versioned(version, n) for n, version in enumerate([1, 3, 2, 1])])

    assert [file.schema for entry in world.entries() for file in entry.files] == ["order v3"]


@BOTH
def test_versions_that_share_a_directory_only_are_unified_directory_by_directory(format_class: str) -> None:
    field = {**FIELD, "partition.field.name": "d"}
    one, two = ([{"field": "d", "type": "string"}, *FIELDS[version]] for version in (1, 2))
    values = [message(1, one, {"d": "x", "n": 0}), message(2, two, {"d": "y", "n": 1, "a": 1}),
              message(2, two, {"d": "x", "n": 2, "a": 2}), message(2, two, {"d": "y", "n": 3, "a": 3})]  # fmt: skip
    world = world_of_values({**UNIFY, **field, "format.class": format_class}, values)

    assert files(world) == [
        [{"d": "x", "n": 0, "a": None}, {"d": "x", "n": 2, "a": 2}], [{"d": "y", "n": 1, "a": 1}, {"d": "y", "n": 3, "a": 3}],
    ]  # fmt: skip


# ------------------------------------------------------------ tombstones, directories of schema names

TOMBSTONES = {**STRINGS, "behavior.on.null.values": "write"}


def test_tombstones_have_a_directory_of_their_own_with_keys_only() -> None:
    world = world_of_values(TOMBSTONES, [versioned(1, 0), None, versioned(1, 2), None])

    assert dict(contents(world)) == {
        "topics/orders/partition=0/orders+0+0000000000.json": [{"n": 0}, {"n": 2}],
        "topics/orders/partition=0/orders+0+0000000000.keys.json": ["k0", "k2"],
        "topics/orders/tombstone/orders+0+0000000001.keys.json": ["k1", "k3"],
    }
    assert world.frontier() == 4


def test_a_tombstone_without_a_key_is_rejected() -> None:
    world = World({"flush.size": "2", **ENVELOPES, **TOLERANT, **TOMBSTONES})
    world.start()
    for n, key in enumerate([b"a", None, b"c"]):
        world.kafka.add(ORDERS, MemoryRecord(n, START_MS, key, None))
    world.sink.poll_and_commit()

    assert dict(contents(world)) == {"topics/orders/tombstone/orders+0+0000000000.keys.json": ["a", "c"]}
    assert buried(world) == [1]


@pytest.mark.parametrize("change", ["true", "false"])
def test_tombstones_change_no_partition_of_time(change: str) -> None:
    rotating = {
        **TIME,
        **TOMBSTONES,
        "rotate.interval.ms": "3600000",
        "flush.size": "6",
        "rotate.file.on.partition.change": change,
    }
    values = [versioned(1, n) if n % 2 == 0 else None for n in range(6)]
    world = world_of_values(rotating, values)

    assert dict(contents(world)) == {
        "topics/orders/h=10/orders+0+0000000000.json": [{"n": 0}, {"n": 2}, {"n": 4}],
        "topics/orders/h=10/orders+0+0000000000.keys.json": ["k0", "k2", "k4"],
        "topics/orders/tombstone/orders+0+0000000001.keys.json": ["k1", "k3", "k5"],
    }


def test_the_interval_passes_by_the_time_of_tombstones_too() -> None:
    rotating = {**TIME, **TOMBSTONES, "rotate.interval.ms": "3600000", "flush.size": "100"}
    world = world_of_values(rotating, [versioned(1, 0), None, None, versioned(1, 3)], hours=[0, 0, 1, 3])
    found = dict(contents(world))

    assert found["topics/orders/h=10/orders+0+0000000000.json"] == [{"n": 0}]
    assert found["topics/orders/tombstone/orders+0+0000000001.keys.json"] == ["k1"]
    assert found["topics/orders/tombstone/orders+0+0000000002.keys.json"] == ["k2"]
    assert world.frontier() == 3


@pytest.mark.parametrize(
    ("affix", "directory"),
    [
        ("NONE", "partition=0"),
        ("PREFIX", "schema_name=order/partition=0"),
        ("SUFFIX", "partition=0/schema_name=order"),
    ],
)
def test_the_schema_name_goes_before_or_after_the_directories(affix: str, directory: str) -> None:
    world = world_of_values({"s3.schema.partition.affix.type": affix, "flush.size": "1"}, [versioned(1, 0)])

    assert [key for key, _ in contents(world)] == [f"topics/orders/{directory}/orders+0+0000000000.json"]


def test_schemas_of_two_names_have_a_directory_each_and_a_nameless_one_has_null() -> None:
    affix = {"s3.schema.partition.affix.type": "SUFFIX", **TOMBSTONES, "flush.size": "5"}
    values = [
        versioned(1, 0),
        message(1, FIELDS[1], {"n": 1}, name="other"),
        message(None, FIELDS[1], {"n": 2}, name=None),
        versioned(1, 3),
        None,
    ]
    found = dict(contents(world_of_values(affix, values)))

    assert {key.rpartition("/")[0]: content for key, content in found.items() if ".keys" not in key} == {
        "topics/orders/partition=0/schema_name=order": [{"n": 0}, {"n": 3}],
        "topics/orders/partition=0/schema_name=other": [{"n": 1}],
        "topics/orders/partition=0/schema_name=null": [{"n": 2}],
    }
    assert found["topics/orders/tombstone/orders+0+0000000004.keys.json"] == ["k4"]


# ------------------------------------------------------------ crashes between the objects of a file


def is_key(key: str) -> bool:
    return ".keys." in key


CRASHING: list[dict[str, str]] = [
    {},
    {"format.class": FORMATS["parquet"], "schema.compatibility": "BACKWARD"},
    {"format.class": FORMATS["avro"], **UNIFY},
    {**TIME, "flush.size": "4"},
]


def sent(world: World) -> None:
    for n, version in enumerate([2, 1, 0, 2, 1, 1, 0, 2]):
        value = versioned(version, n) if version else None
        world.kafka.add(ORDERS, MemoryRecord(n, START_MS + n % 2 * 3_600_000, f"k{n}".encode(), value))


def calm(config: dict[str, str]) -> dict[str, list[Any]]:
    """What a sink that nothing happens to writes."""
    world = World(config)
    world.start()
    sent(world)
    world.sink.poll_and_commit()
    return dict(contents(world))


@pytest.mark.parametrize("config", CRASHING)
@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("nth", [1, 2])
def test_a_sink_killed_between_value_and_key_publishes_both_after_a_restart(
    config: dict[str, str], moment: Moment, nth: int
) -> None:
    config = {"flush.size": "4", **ENVELOPES, **TOLERANT, **TOMBSTONES, **config}

    def die(key: str) -> None:
        raise Died

    world = World(config)
    world.start([Fault("complete_upload", die, moment, nth, is_key)])
    sent(world)
    with pytest.raises(Died):
        world.sink.poll_and_commit()
    before = dict(contents(world))
    world.start()
    world.sink.poll_and_commit()

    wanted = calm(config)
    assert dict(contents(world)) == wanted
    assert before.keys() < wanted.keys() or moment is Moment.AFTER
    assert before.items() <= wanted.items()


@pytest.mark.parametrize("config", CRASHING)
@pytest.mark.parametrize("lost", ["keys", "values", "all"])
def test_a_lost_upload_is_written_again_from_kafka(config: dict[str, str], lost: str) -> None:
    config = {"flush.size": "4", **ENVELOPES, **TOLERANT, **TOMBSTONES, **config}
    world = World(config)

    def lose(key: str) -> None:
        for upload_id, upload in list(world.store.uploads.items()):
            if lost == "all" or is_key(upload.key) == (lost == "keys"):
                world.store.abort_upload(upload.key, upload_id)

    world.start([Fault("put_new", lose, Moment.AFTER, 3)])
    sent(world)
    world.sink.poll_and_commit()
    written: list[Any] = [content for verb, content in world.calls if verb == "create_upload"]

    wanted = calm(config)
    assert len(written) > len(wanted)
    assert dict(contents(world)) == wanted
    assert world.store.uploads == {}


@pytest.mark.parametrize("lost", ["keys", "values"])
def test_by_wall_clock_a_lost_upload_beside_tombstones_is_written_again(lost: str) -> None:
    world = World({"flush.size": "4", **ENVELOPES, **TOMBSTONES, **TIME, "timestamp.extractor": "Wallclock"})

    def lose(key: str) -> None:
        for upload_id, upload in list(world.store.uploads.items()):
            if is_key(upload.key) == (lost == "keys"):
                world.store.abort_upload(upload.key, upload_id)

    world.start([Fault("put_new", lose, Moment.AFTER, 3)])
    for n in range(4):
        world.kafka.add(ORDERS, MemoryRecord(n, START_MS, f"k{n}".encode(), None if n % 2 else versioned(1, n)))
    world.sink.poll_and_commit()

    assert dict(contents(world)) == {
        "topics/orders/h=10/orders+0+0000000000.json": [{"n": 0}, {"n": 2}],
        "topics/orders/h=10/orders+0+0000000000.keys.json": ["k0", "k2"],
        "topics/orders/tombstone/orders+0+0000000001.keys.json": ["k1", "k3"],
    }
