"""Which records do transforms leave without what they need? A header without a value is none of them, unless headers are stored."""

from __future__ import annotations

import json

from kafka_s3.model.files import Role
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World

BY_HEADER = {
    "transforms": "t", "transforms.t.type": "org.apache.kafka.connect.transforms.InsertField$Value", "transforms.t.static.field": "s",
    "transforms.t.static.value": "x", "transforms.t.predicate": "p", "predicates": "p",
    "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey", "predicates.p.name": "h",
}  # fmt: skip
STORED = {"store.kafka.headers": "true", "headers.format.class": "io.confluent.connect.s3.format.json.JsonFormat"}


def with_a_null_header(**config: str) -> World:
    world = World({"flush.size": "1", **TOLERANT, **BY_HEADER, **config})
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, b'{"n":1}', (("other", None), ("h", b"2"))))
    world.start().poll_and_commit()
    return world


def test_a_record_with_a_null_header_passes_a_chain_that_looks_at_headers() -> None:
    (content,) = (content for key, content in with_a_null_header().store.objects.items() if key.startswith("topics/"))
    assert json.loads(content) == {"n": 1, "s": "x"}


def test_it_is_a_dead_letter_where_headers_are_stored() -> None:
    (file,) = (file for entry in with_a_null_header(**STORED).entries() for file in entry.files)
    assert file.role is Role.DEAD_LETTER
