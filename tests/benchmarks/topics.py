"""What do the benchmarks read? Orders of about 142 bytes of JSON, or of 81 bytes of Avro, the same ones in every run."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer

PRODUCTS = ("espresso beans", "filter paper", "ceramic mug", "grinder burrs", "milk jug", "descaler", "drip kettle")
COUNTRIES = ("DE", "FR", "US", "GB", "JP", "BR", "IN", "PL")
FIELDS = {
    "id": "int64", "customer": "string", "product": "string", "country": "string", "quantity": "int32", "price": "double",
    "created_at": "string",
}  # fmt: skip
CONNECT_SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"field": name, "type": kind, "optional": True} for name, kind in FIELDS.items()]}
)
SPARK_SCHEMA = ", ".join(f"{name} {dict(int64='bigint', int32='int').get(k, k)}" for name, k in FIELDS.items())
JSON, ORDERS_IN_AVRO = "orders-json", "orders-avro"
AVRO_TYPES = {
    "id": "long", "customer": "string", "product": "string", "country": "string", "quantity": "int", "price": "double",
    "created_at": "string", "state": "string", "shelf": "int",
}  # fmt: skip
STATES = ("payment is open", "paid by card", "money refunded", "sent by post")
SHELVES = 100
START_MS = 1_735_689_600_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as produced: what a reader must find again."""

    name: str
    records: int
    value_bytes: int


def value(number: int) -> bytes:
    """The order of that number."""
    second, millis = divmod(number * 17, 1000)
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    customer, product, country = number * 2654435761 % 9999991, PRODUCTS[number % 7], COUNTRIES[number * 31 % 8]
    return (
        f'{{"id":{number},"customer":"c{customer:07d}","product":"{product}","country":"{country}","quantity":{number % 9 + 1},'
        f'"price":{number % 400}.{number % 100:02d},"created_at":"2025-01-01T{hour % 24:02d}:{minute:02d}:{second:02d}.{millis:03d}Z"}}'
    ).encode()


def avro_schema() -> str:
    """The writer's schema of the Avro orders."""
    fields = [{"name": name, "type": kind} for name, kind in AVRO_TYPES.items()]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def avro_value(number: int, schema_id: int) -> bytes:
    """The order of that number with its state and shelf, in the registry's wire format."""
    row = {**json.loads(value(number)), "state": STATES[number % 4], "shelf": number * 7919 % SHELVES}
    body = b"".join(_ENCODE[kind](row[name]) for name, kind in AVRO_TYPES.items())
    return b"\0" + schema_id.to_bytes(4, "big") + body


def _varint(number: int) -> bytes:
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _text(text: str) -> bytes:
    raw = text.encode()
    return _varint(len(raw)) + raw


_ENCODE: dict[str, Callable[[Any], bytes]] = {
    "long": _varint, "int": _varint, "string": _text, "double": lambda number: struct.pack("<d", number),
}  # fmt: skip


def produce_json(servers: str, *, records: int, partitions: int, name: str = JSON) -> Topic:
    """Sends the orders 0 to `records`-1 as JSON, the same number to each partition."""
    return _send(servers, name, ((value(number), number % partitions) for number in range(records)))


def produce_avro(servers: str, *, records: int, partitions: int, schema_id: int, name: str = ORDERS_IN_AVRO) -> Topic:
    """Sends the orders 0 to `records`-1 as Avro, the same number to each partition."""
    values = ((avro_value(number, schema_id), number % partitions) for number in range(records))
    return _send(servers, name, values)


def _send(servers: str, name: str, values: Iterator[tuple[bytes, int]]) -> Topic:
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20, "queue.buffering.max.messages": 1_000_000,
         "queue.buffering.max.kbytes": 1 << 20}
    )  # fmt: skip
    records = size = 0
    for text, partition in values:
        while True:
            try:
                producer.produce(name, text, partition=partition, timestamp=START_MS + records)
                break
            except BufferError:
                producer.poll(0.1)
        records, size = records + 1, size + len(text)
        if not records % 10_000:
            producer.poll(0)
    assert producer.flush(120) == 0, "the broker did not take all records"
    return Topic(name, records, size)
