"""What do the benchmarks read? Orders of about 142 bytes of JSON, the same ones in every run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

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
START_MS = 1_735_689_600_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as produced: what a reader must find again."""

    name: str
    records: int
    id_sum: int
    quantity_sum: int
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


def produce(servers: str, name: str, *, records: int, partitions: int) -> Topic:
    """Sends the orders 0 to `records`-1, the same number to each partition."""
    return _send(servers, name, ((value(number), number % partitions) for number in range(records)))


def produce_buckets(servers: str, name: str, *, records: int, buckets: int) -> Topic:
    """Sends orders with a field `bucket` of so many different values, all to partition 0, the buckets mixed."""
    texts = (value(number)[:-1] + b',"bucket":"b%04d"}' % (number * 7919 % buckets) for number in range(records))
    return _send(servers, name, ((text, 0) for text in texts))


def _send(servers: str, name: str, values: Iterator[tuple[bytes, int]]) -> Topic:
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20, "queue.buffering.max.messages": 1_000_000,
         "queue.buffering.max.kbytes": 1 << 20}
    )  # fmt: skip
    records = quantities = size = 0
    for text, partition in values:
        while True:
            try:
                producer.produce(name, text, partition=partition, timestamp=START_MS + records)
                break
            except BufferError:
                producer.poll(0.1)
        records, quantities, size = records + 1, quantities + records % 9 + 1, size + len(text)
        if not records % 10_000:
            producer.poll(0)
    assert producer.flush(120) == 0, "the broker did not take all records"
    return Topic(name, records, records * (records - 1) // 2, quantities, size)
