"""What does a configuration make of a record's place? Directories and names, by what the whole loop writes."""

from __future__ import annotations

import pytest

from kafka_s3.model.offsets import TopicPartition
from tests.support.memory_world import World

STORAGE = "io.confluent.connect.storage.partitioner."
UTC = {"timezone": "UTC", "locale": "en"}
PARTITIONERS = {
    "partition=0": {},
    "n=1": {"partitioner.class": f"{STORAGE}FieldPartitioner", "partition.field.name": "n"},
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
    world.start().cycle()
    return list(world.objects())


@pytest.mark.parametrize("delimiter", ["/", "_", "--"])
@pytest.mark.parametrize("directory", PARTITIONERS)
def test_the_directory_delimiter_stands_between_all_parts_but_those_of_path_format(
    directory: str, delimiter: str
) -> None:
    folders = ["topics", "orders", *directory.split("D"), "orders+0+0000000001.json"]
    assert keys({"directory.delim": delimiter, **PARTITIONERS[directory]}) == [delimiter.join(folders)]
