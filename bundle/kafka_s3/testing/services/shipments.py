"""What does the demo send in Avro? Shipments, whose producer moves to a second schema version on the second day, a few of them broken.

The same count and seed give the same records. Nothing here talks to Kafka: the caller sends what `shipment_records` yields.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastavro import parse_schema, schemaless_writer

from kafka_s3.model.protocols import Message
from kafka_s3.testing.services.orders import COUNTRIES, PARTITIONS, DemoRecord, below, one_of, time_ms
from kafka_s3.testing.services.registry import EmbeddedRegistry

TOPIC: Final = "shipments"
SUBJECT: Final = "shipments-value"
DEFAULT_COUNT: Final = 30_000
MALFORMED_SHARE: Final = 0.0005
CARRIERS: Final = ("bike", "parcel", "pallet", "air")
ROLLOUT: Final = (0.45, 0.55)
"""The part of the time in which both versions are written."""
UNKNOWN_ID: Final = 2**31 - 1
_PARCEL: Final = {
    "type": "record",
    "name": "Parcel",
    "fields": [
        {"name": "barcode", "type": "string"},
        {"name": "weight_kg", "type": {"type": "bytes", "logicalType": "decimal", "precision": 7, "scale": 3}},
    ],
}
_FIELDS: Final = (
    {"name": "shipment_id", "type": "string"},
    {"name": "order_id", "type": "string"},
    {"name": "carrier", "type": {"type": "enum", "name": "Carrier", "symbols": list(CARRIERS)}},
    {"name": "country", "type": "string"},
    {"name": "shipped_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "parcels", "type": {"type": "array", "items": _PARCEL}},
)
_ADDED: Final = {"name": "insured_cents", "type": ["null", "long"], "default": None}
VERSIONS: Final[tuple[Mapping[str, Any], ...]] = tuple(
    {"type": "record", "name": "Shipment", "namespace": "shop", "fields": [*_FIELDS, *added]}
    for added in ((), (_ADDED,))
)


def register_shipments(registry: EmbeddedRegistry) -> tuple[int, ...]:
    """Registers both versions of the schema; the ids that `shipment_records` needs."""
    return tuple(registry.register(SUBJECT, json.dumps(version)) for version in VERSIONS)


def shipment_records(
    schema_ids: tuple[int, ...], count: int = DEFAULT_COUNT, *, seed: int = 7, malformed: float = MALFORMED_SHARE
) -> Iterator[DemoRecord]:
    """Yields `count` records of one topic in order of their time, Avro in the registry's wire format.

    The share `malformed` of them is cut off, names an unknown schema, or is no Avro at all.
    """
    chance = random.Random(seed)
    broken = set(chance.sample(range(count), k=min(count, max(round(count * malformed), 3 if malformed else 0))))
    writers = [parse_schema(dict(version)) for version in VERSIONS]
    for number in range(count):
        shipment = _shipment(number, count, chance)
        version = _version((number + 0.5) / count, chance)
        value = _framed(schema_ids[version], writers[version], shipment)
        is_broken = number in broken
        key, value = shipment["shipment_id"].encode(), _broken(value, chance) if is_broken else value
        message = Message(key, value, (("source", b"warehouse"),), shipment["shipped_at"])
        yield DemoRecord(TOPIC, number % PARTITIONS, message, is_broken)


def _shipment(number: int, count: int, chance: random.Random) -> dict[str, Any]:
    return {
        "shipment_id": f"S-{number:08d}",
        "order_id": f"O-{below(10 * count, chance):08d}",
        "carrier": one_of(CARRIERS, chance),
        "country": one_of(COUNTRIES, chance),
        "shipped_at": time_ms((number + chance.random()) / count),
        "parcels": [_parcel(chance) for _ in range(1 + below(3, chance))],
        "insured_cents": one_of((None, 5_000, 50_000), chance),
    }


def _parcel(chance: random.Random) -> dict[str, Any]:
    grams = 50 + below(29_950, chance)
    return {"barcode": f"{chance.getrandbits(40):013d}", "weight_kg": grams.to_bytes(2, "big", signed=True)}


def _version(share: float, chance: random.Random) -> int:
    first, last = ROLLOUT
    return int(share >= last or (share >= first and chance.random() < 0.5))


def _framed(schema_id: int, writer: Any, shipment: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    out.write(b"\x00" + schema_id.to_bytes(4, "big"))
    schemaless_writer(out, writer, shipment)
    return out.getvalue()


def _broken(value: bytes, chance: random.Random) -> bytes:
    return one_of((value[: len(value) // 2], value[:1] + UNKNOWN_ID.to_bytes(4, "big") + value[5:], b"S-0,?"), chance)
