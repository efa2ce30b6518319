"""What does a configuration make of a record's place? Directories and names, by what the whole loop writes."""

from __future__ import annotations

import json

import pytest

from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.pipeline import object_names
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.memory_world import ORDERS, START_MS, World

STORAGE = "io.confluent.connect.storage.partitioner."
UTC = {"timezone": "UTC", "locale": "en"}
PARTITIONERS = {
    "partition=0": {},
    "n=1": {"partitioner.class": f"{STORAGE}FieldPartitioner", "partition.field.name": "n"},
    "n=1Dm=null": {"partitioner.class": f"{STORAGE}FieldPartitioner", "partition.field.name": "n,m"},
    "year=2024Dmonth=01Dday=15Dhour=10": {"partitioner.class": f"{STORAGE}HourlyPartitioner", **UTC},
    "year=2024Dmonth=01Dday=15": {"partitioner.class": f"{STORAGE}DailyPartitioner", **UTC},
    "2024/01": {
        "partitioner.class": f"{STORAGE}TimeBasedPartitioner", "path.format": "YYYY/MM", "partition.duration.ms": "3600000", **UTC
    },
    "schema_name=nullDpartition=0": {"s3.schema.partition.affix.type": "PREFIX"},
    "partition=0Dschema_name=null": {"s3.schema.partition.affix.type": "SUFFIX"},
}  # fmt: skip


def keys(config: dict[str, str], *, topic: str = "orders") -> list[str]:
    """The objects of one record with offset 1."""
    tp = TopicPartition(topic, 0)
    world = World({"flush.size": "1", "topics": topic, **config}, topics=[tp])
    world.add([1], tp=tp)
    world.start().poll_and_commit()
    return list(world.objects())


@pytest.mark.parametrize("delimiter", ["/", "_", "--"])
@pytest.mark.parametrize("directory", PARTITIONERS)
def test_the_directory_delimiter_is_between_all_parts_but_those_of_path_format(directory: str, delimiter: str) -> None:
    folders = ["topics", "orders", *directory.split("D"), "orders+0+0000000001.json"]
    assert keys({"directory.delim": delimiter, **PARTITIONERS[directory]}) == [delimiter.join(folders)]


@pytest.mark.parametrize("strict", ["true", "false"])
def test_null_is_a_directory_in_a_field_of_a_type_that_has_none(strict: str) -> None:
    """The original looks for null before it looks at the type (SEMANTICS A4.2)."""
    fields = {"partitioner.class": f"{STORAGE}FieldPartitioner", "partition.field.name": "f"}
    world = World(
        {"flush.size": "1", "value.converter.schemas.enable": "true", "compatibility.strict": strict, **fields}
    )
    schema = {"type": "struct", "fields": [{"field": "f", "type": "float", "optional": True}]}
    value = json.dumps({"schema": schema, "payload": {"f": None}}).encode()
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, value))
    world.start().poll_and_commit()
    assert list(world.objects()) == ["topics/orders/f=null/orders+0+0000000000.json"]


def enveloped(config: dict[str, str], *, count: int = 4) -> World:
    """Records a second apart, with keys 0 1 0 1 and a header that says the same."""
    world = World(config)
    for offset in range(count):
        key = b"%d" % (offset % 2)
        record = MemoryRecord(
            offset, START_MS + 1000 * offset, key, b'{"n": %d, "d": %s}' % (offset, key), (("t", key),)
        )
        world.kafka.add(ORDERS, record)
    world.start().poll_and_commit()
    return world


@pytest.mark.parametrize("stored", [{}, {"store.kafka.keys": "true", "store.kafka.headers": "true"}])
@pytest.mark.parametrize(
    ("config", "name"),
    [({"partitioner.class": "header", "partition.header.name": "t"}, "t"), ({"partitioner.class": "key"}, "key")],
)
def test_keys_and_headers_are_directories_stored_or_not(
    config: dict[str, str], name: str, stored: dict[str, str]
) -> None:
    forms = {f"{one}.format.class": "io.confluent.connect.s3.format.json.JsonFormat" for one in ("keys", "headers")}
    objects = enveloped({"flush.size": "4", **config, **stored, **forms}).objects()
    folder = f"topics/orders/{name}="
    data = {
        key: [row["n"] for row in rows]
        for key, rows in objects.items()
        if key.endswith("0.json") or key.endswith("1.json")
    }
    assert data == {f"{folder}0/orders+0+0000000000.json": [0, 2], f"{folder}1/orders+0+0000000001.json": [1, 3]}
    assert len(objects) == (6 if stored else 2)


@pytest.mark.parametrize("config", [
    {"partitioner.class": f"{STORAGE}FieldPartitioner", "partition.field.name": "d"}, {"partitioner.class": "key"},
])  # fmt: skip
def test_an_interval_of_record_time_closes_files_of_values_where_an_extractor_is_set(config: dict[str, str]) -> None:
    world = enveloped({"rotate.interval.ms": "2000", "timestamp.extractor": "Record", **config})
    assert sorted(map(tuple, world.numbers().values())) == [(0,), (1,)]
    assert world.frontier() == 2


def test_several_topics_go_into_one_folder_and_are_verified_and_swept_there() -> None:
    topics = [TopicPartition("orders", 0), TopicPartition("refunds", 0)]
    names = {
        "directory.template": "raw/${directory}",
        "object.name.template": "${time}-${topic}-${partition}-${offset}",
    }
    world = World({"flush.size": "2", "topics": "orders,refunds", **names}, topics=topics)
    for tp in topics:
        world.add(range(3), tp=tp)
    world.start().poll_and_commit()
    found = [f"topics/raw/partition=0/20240115T100000Z-{tp.topic}-0-0000000000.json" for tp in topics]
    assert world.numbers() == {key: [0, 1] for key in found}
    names = object_names(world.settings)
    assert [names.read(key, tp.topic) for key, tp in zip(found, topics, strict=True)] == [
        (tp, "partition=0", 0, ".json") for tp in topics
    ]
    assert names.is_foreign(found[0], "refunds")
    assert names.prefixes(["orders", "refunds"]) == ("topics/raw/",)
    assert [names.owner(key, ["orders"]) is not None for key in found] == [True, False]
