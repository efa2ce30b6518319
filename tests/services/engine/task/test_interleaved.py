"""Records of alternating schemas go through the writer in bulk. The objects are those of records that came one at a time."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from kafka_s3.connect.schemas.registered import Language
from kafka_s3_testing.services.memory import MemoryRecord
from kafka_s3_testing.services.registry import EmbeddedRegistry
from tests.support.configurations import STATE, TOLERANT
from tests.support.examples import examples
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.open_files import content

FIELDS: dict[str, list[dict[str, Any]]] = {
    "first": [],
    "added": [{"name": "channel", "type": ["null", "string"], "default": None}],
    "wide": [{"name": "channel", "type": ["null", "string"], "default": None}, {"name": "size", "type": "int", "default": 3}],
    "other": [{"name": "size", "type": "string", "default": "none"}],
}  # fmt: skip
BODIES = {
    "first": b"", "added": b"\x02\x06web", "wide": b"\0\x08", "other": b"\x04xl",
}  # fmt: skip
MAP = {"name": "m", "type": {"type": "map", "values": "string"}}
"""With it values do not go in columns."""
FORMATS = {"json": "json.JsonFormat", "parquet": "parquet.ParquetFormat", "avro": "avro.AvroFormat"}
STORED = {
    "store.kafka.keys": "true", "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "behavior.on.null.values": "write",
}  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Iterator[tuple[str, dict[str, bytes]]]:
    """A registry's address, and the bytes in front of each version's bodies."""
    with EmbeddedRegistry() as running:
        prefixes = {}
        for mapped, (name, more) in product((False, True), FIELDS.items()):
            fields = [{"name": "n", "type": "long"}, {"name": "d", "type": "string"}, *([MAP] if mapped else []), *more]
            text = json.dumps({"type": "record", "name": "Mapped" if mapped else "Order", "fields": fields})
            number = running.register("orders-value", text, Language.AVRO)
            prefixes[f"{name}, mapped" if mapped else name] = b"\0" + struct.pack(">i", number)
        yield running.url, prefixes


def message(prefixes: dict[str, bytes], number: int, version: str, directory: str) -> bytes:
    name, _, mapped = version.partition(", ")
    body = bytes([number << 1, len(directory) << 1]) + directory.encode() + (b"\x02\x02k\x02v\0" if mapped else b"")
    return prefixes[version] + body + BODIES[name]


def outcome(
    config: dict[str, str], records: list[tuple[str, str] | None], prefixes: dict[str, bytes], *, batch_size: int
) -> Any:
    """The data objects with their contents, and what the log says of them."""
    world = World(config, batch_size=batch_size)
    world.start()
    for offset, record in enumerate(records):
        value = None if record is None else message(prefixes, offset, *record)
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS + offset, b"k%d" % offset, value))
    world.sink.poll_and_commit()
    files = [
        (file.key, file.first_offset, file.last_offset, file.records, str(file.reason), file.schema, str(file.role))
        for entry in world.entries()
        for file in entry.files
    ]
    letters = [(tp, count.count, dict(count.stages)) for e in world.entries() for tp, count in e.dead_letters.items()]
    found = {key: content(key, data) for key, data in world.store.objects.items() if not key.startswith(STATE)}
    return files, letters, found


VERSIONS = st.sampled_from(["first", "first", "added", "added", "wide", "other"])
RECORD = st.tuples(VERSIONS, st.sampled_from(["a", "a", "b"]))
MAPPED = RECORD.map(lambda record: (f"{record[0]}, mapped", record[1]))


@settings(
    max_examples=examples(25),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    records=st.sampled_from([RECORD, MAPPED, RECORD | MAPPED]).flatmap(
        lambda record: st.lists(st.one_of(record, record, record, st.none()), min_size=1, max_size=24)
    ),
    compatibility=st.sampled_from(["NONE", "BACKWARD", "FORWARD", "FULL"]),
    unify=st.booleans(),
    form=st.sampled_from(sorted(FORMATS)),
    flush=st.sampled_from(["1", "3", "7", "100"]),
    fields=st.booleans(),
    stored=st.booleans(),
)
@example([("first", "a"), ("added", "a"), ("wide", "b")] * 8, "BACKWARD", False, "parquet", "7", True, False)
@example([("first", "a"), ("added", "a"), ("wide", "a")] * 8, "NONE", True, "avro", "7", False, True)
@example([("first, mapped", "a"), ("added, mapped", "a")] * 8, "BACKWARD", False, "avro", "7", False, False)
def test_woven_records_make_the_objects_of_records_that_come_one_at_a_time(
    registry: tuple[str, dict[str, bytes]],
    records: list[tuple[str, str] | None],
    compatibility: str,
    unify: bool,
    form: str,
    flush: str,
    fields: bool,
    stored: bool,
) -> None:
    url, prefixes = registry
    config = {
        **TOLERANT, "value.converter": "io.confluent.connect.avro.AvroConverter", "flush.size": flush,
        "format.class": f"io.confluent.connect.s3.format.{FORMATS[form]}",
        "schema.compatibility": "NONE" if unify else compatibility, "schema.compatibility.unify": str(unify).lower(),
        "behavior.on.null.values": "ignore",
        "value.converter.schema.registry.url": url, **(STORED if stored else {}),
    }  # fmt: skip
    if fields:
        config["partitioner.class"] = "io.confluent.connect.storage.partitioner.FieldPartitioner"
        config["partition.field.name"] = "d"

    together = outcome(config, records, prefixes, batch_size=10_000)

    settled = sum(file[3] for file in together[0] if file[6] == "value") + sum(count for _, count, _ in together[1])
    assert settled >= len([record for record in records if record]) - int(flush) + 1
    assert together == outcome(config, records, prefixes, batch_size=1)
