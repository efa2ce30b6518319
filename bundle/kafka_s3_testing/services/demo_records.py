"""What does the demo send? Orders and payments in JSON and shipments in Avro, as a shop's systems would write them, a few broken.

The same count and seed give the same records. Nothing here talks to Kafka: the caller sends the records.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from kafka_s3.model.protocols import Message
from kafka_s3_testing.services.registry import EmbeddedRegistry

ORDERS_TOPICS = ("orders", "payments")
PARTITIONS = 3
ORDERS_COUNT = 300_000
DAY_START = datetime(2025, 3, 14, 8, tzinfo=UTC)
DAY_LENGTH = timedelta(hours=2)
DAYS = 3
END = DAY_START + timedelta(days=DAYS - 1) + DAY_LENGTH
START_MS, DAY_MS, OPEN_MS = round(DAY_START.timestamp() * 1000), 86_400_000, DAY_LENGTH // timedelta(milliseconds=1)
PRODUCTS = (
    "espresso beans 1 kg", "filter paper 100", "ceramic mug blue", "grinder burr set", "milk jug 600 ml", "descaler 250 ml",
    "café crème 500 g", "thermo cup", "drip kettle", "scale 2 kg", "Kännchen Tee", "抹茶 30 g",
)  # fmt: skip
COUNTRIES = ("DE", "FR", "US", "GB", "JP", "BR", "IN", "PL")
METHODS = ("card", "wallet", "transfer", "invoice")
STATES = ("authorized", "captured", "refused", "refunded")
STATUS_TOPIC: Final = "order-status"
STATUSES: Final = ("new", "paid", "packed", "sent", "delivered")
LATE_SHARE = 0.004
MALFORMED_SHARE = 0.0005
# Texts with gaps, not dictionaries: JSON's encoder alone would take longer than all else that the demo does with a record.
ORDER = (
    '{"order_id":"%s","created_at":"%s","customer":"C%05d","country":"%s","items":[{"product":"%s","quantity":%d}],'
    '"total_cents":%d,"currency":"EUR","express":%s}'
)
PAYMENT = '{"order_id":"%s","created_at":"%s","payment_id":"P-%012x","method":"%s","state":"%s","amount_cents":%d,"risk":%.3f}'
T = TypeVar("T")
SHIPMENTS_TOPIC: Final = "shipments"
SUBJECT: Final = "shipments-value"
SHIPMENTS_COUNT: Final = 30_000
MALFORMED_SHIPMENTS: Final = 0.0005
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


class DemoRecord(NamedTuple):
    """A record to send. `malformed` says that its value is broken on purpose."""

    topic: str
    partition: int
    message: Message
    malformed: bool


def demo_records(
    count: int = ORDERS_COUNT, seed: int = 7, *, malformed: float = MALFORMED_SHARE
) -> Iterator[DemoRecord]:
    """Yields `count` records over two topics of three partitions each, in order of their event time but for a few late ones.

    Values are JSON of 140 to 300 bytes with `created_at` (ISO 8601, UTC, milliseconds), which is also the record's timestamp. The share
    `malformed` of them is cut off, empty of fields, or no text at all.
    """
    chance = random.Random(seed)
    # Fixed positions, so that even a short run shows broken records.
    broken = set(chance.sample(range(count), k=min(count, max(round(count * malformed), 3 if malformed else 0))))
    for number in range(count):
        created_ms = _event_time_ms(number, count, chance=chance)
        order = below(count // 2 + 1, chance)
        topic, text = ("orders", _order) if chance.random() < 0.55 else ("payments", _payment)
        value = text(order, _iso(created_ms), chance).encode()
        is_broken = number in broken
        headers = ("source", b"shop"), ("trace", b"%016x" % chance.getrandbits(64))
        message = Message(
            _order_id(order).encode(), _broken(value, chance) if is_broken else value, headers, created_ms
        )
        yield DemoRecord(topic, order % PARTITIONS, message, is_broken)


def status_records(changes: int, seed: int = 7) -> Iterator[DemoRecord]:
    """Yields so many changes of orders, each with its order's key: a new one, its next status, or that it is deleted, by a tombstone."""
    chance, orders, known = random.Random(seed), list[tuple[int, int]](), 0
    for number in range(changes):
        if not orders or chance.random() < 0.3:
            orders.append((known, -1))
            known += 1
            at = len(orders) - 1
        else:
            at = below(len(orders), chance)
        order, step = orders[at][0], orders[at][1] + 1
        orders[at] = order, step
        value = None
        if step < len(STATUSES):
            value = json.dumps({"order_id": _order_id(order), "status": STATUSES[step]}).encode()
        else:
            orders[at] = orders[-1]
            orders.pop()
        message = Message(_order_id(order).encode(), value, (), START_MS + number * 1000)
        yield DemoRecord(STATUS_TOPIC, order % PARTITIONS, message, False)


def time_ms(share: float) -> int:
    """When such a share of all records is through, in [0, 1), as epoch ms: the shop is open on each day for `DAY_LENGTH`."""
    day, within = divmod(share * DAYS, 1)
    return START_MS + int(day) * DAY_MS + int(within * OPEN_MS)


def below(limit: int, chance: random.Random) -> int:
    """A whole number in `[0, limit)`; `randrange` takes five times as long, to be even where numbers are huge."""
    return int(chance.random() * limit)


def one_of(options: Sequence[T], chance: random.Random) -> T:
    """One of them."""
    return options[below(len(options), chance)]


def _event_time_ms(number: int, count: int, *, chance: random.Random) -> int:
    """Evenly through the days; a few records arrive up to 40 minutes after their event."""
    at = time_ms((number + chance.random()) / count)
    return at - 60_000 - below(39 * 60_000, chance) if chance.random() < LATE_SHARE else at


def _order(order: int, created: str, chance: random.Random) -> str:
    quantity = 1 + below(5, chance)
    return ORDER % (
        _order_id(order), created, order * 7919 % 50_000, one_of(COUNTRIES, chance), one_of(PRODUCTS, chance), quantity,
        (199 + below(24_801, chance)) * quantity, "true" if chance.random() < 0.2 else "false",
    )  # fmt: skip


def _payment(order: int, created: str, chance: random.Random) -> str:
    return PAYMENT % (
        _order_id(order), created, chance.getrandbits(48), one_of(METHODS, chance), one_of(STATES, chance),
        199 + below(99_801, chance), chance.random(),
    )  # fmt: skip


def _broken(value: bytes, chance: random.Random) -> bytes:
    return one_of((value[: len(value) // 2], b"{}", b"\x00\xff\xfe" + value[:8][::-1]), chance)


def _order_id(order: int) -> str:
    return f"O-{order:08d}"


def _iso(at_ms: int) -> str:
    return f"{_second(at_ms // 1000)}.{at_ms % 1000:03d}Z"


@cache
def _second(epoch_s: int) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def register_shipments(registry: EmbeddedRegistry) -> tuple[int, ...]:
    """Registers both versions of the schema; the ids that `shipment_records` needs."""
    return tuple(registry.register(SUBJECT, json.dumps(version)) for version in VERSIONS)


def shipment_records(
    schema_ids: tuple[int, ...], count: int = SHIPMENTS_COUNT, *, seed: int = 7, malformed: float = MALFORMED_SHIPMENTS
) -> Iterator[DemoRecord]:
    """Yields `count` records of one topic in order of their time, Avro in the registry's wire format.

    The share `malformed` of them is cut off, names an unknown schema, or is not Avro at all.
    """
    chance = random.Random(seed)
    broken = set(chance.sample(range(count), k=min(count, max(round(count * malformed), 3 if malformed else 0))))
    from fastavro import parse_schema  # here: `kafka-s3 demo --help` needs no extra

    writers = [parse_schema(dict(version)) for version in VERSIONS]
    for number in range(count):
        shipment = _shipment(number, count, chance)
        version = _version((number + 0.5) / count, chance)
        value = _framed(schema_ids[version], writers[version], shipment)
        is_broken = number in broken
        key, value = shipment["shipment_id"].encode(), _broken_shipment(value, chance) if is_broken else value
        message = Message(key, value, (("source", b"warehouse"),), shipment["shipped_at"])
        yield DemoRecord(SHIPMENTS_TOPIC, number % PARTITIONS, message, is_broken)


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
    from fastavro import schemaless_writer

    out = io.BytesIO()
    out.write(b"\x00" + schema_id.to_bytes(4, "big"))
    schemaless_writer(out, writer, shipment)
    return out.getvalue()


def _broken_shipment(value: bytes, chance: random.Random) -> bytes:
    return one_of((value[: len(value) // 2], value[:1] + UNKNOWN_ID.to_bytes(4, "big") + value[5:], b"S-0,?"), chance)
