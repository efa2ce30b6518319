"""What does the demo send? Orders and payments of a few days, as a shop's systems would write them, a few of them broken.

The same count and seed give the same records. Nothing here talks to Kafka: the caller sends what `demo_records` yields.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

TOPICS = ("orders", "payments")
PARTITIONS = 3
DEFAULT_COUNT = 200_000
DAY_START = datetime(2025, 3, 14, 8, tzinfo=UTC)
DAY_LENGTH = timedelta(hours=2)
DAYS = 3
END = DAY_START + timedelta(days=DAYS - 1) + DAY_LENGTH
PRODUCTS = (
    "espresso beans 1 kg", "filter paper 100", "ceramic mug blue", "grinder burr set", "milk jug 600 ml", "descaler 250 ml",
    "café crème 500 g", "thermo cup", "drip kettle", "scale 2 kg", "Kännchen Tee", "抹茶 30 g",
)  # fmt: skip
COUNTRIES = ("DE", "FR", "US", "GB", "JP", "BR", "IN", "PL")
METHODS = ("card", "wallet", "transfer", "invoice")
STATES = ("authorized", "captured", "refused", "refunded")
LATE_SHARE = 0.004
MALFORMED_SHARE = 0.0005
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class DemoRecord(NamedTuple):
    """A record to send. `malformed` says that its value is broken on purpose."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...]
    malformed: bool


def demo_records(
    count: int = DEFAULT_COUNT, seed: int = 7, *, malformed: float = MALFORMED_SHARE
) -> Iterator[DemoRecord]:
    """Yields `count` records over two topics of three partitions each, in order of their event time but for a few late ones.

    Values are JSON of 140 to 300 bytes with `created_at` (ISO 8601, UTC, milliseconds), which is also the record's timestamp. The share
    `malformed` of them is cut off, empty of fields, or no text at all.
    """
    chance = random.Random(seed)
    # Fixed positions, so that even a short run shows broken records.
    broken = set(chance.sample(range(count), k=min(count, max(round(count * malformed), 3 if malformed else 0))))
    for number in range(count):
        created = _event_time(number, count, chance=chance)
        order = chance.randrange(count // 2 + 1)
        topic = TOPICS[chance.random() < 0.45]
        fields = _order(order, chance) if topic == "orders" else _payment(order, chance)
        value = _json({"order_id": _order_id(order), "created_at": _iso(created)} | fields)
        yield DemoRecord(
            topic=topic,
            partition=order % PARTITIONS,
            key=_order_id(order).encode(),
            value=_broken(value, chance) if number in broken else value,
            timestamp_ms=round(created.timestamp() * 1000),
            headers=(("source", b"shop"), ("trace", b"%016x" % chance.getrandbits(64))),
            malformed=number in broken,
        )


def time_of(share: float) -> datetime:
    """When such a share of all records is through, in [0, 1): the shop is open on each day for `DAY_LENGTH`."""
    day, within = divmod(share * DAYS, 1)
    return DAY_START + timedelta(days=day) + DAY_LENGTH * within


def _event_time(number: int, count: int, *, chance: random.Random) -> datetime:
    """Evenly through the days; a few records arrive up to 40 minutes after their event."""
    at = time_of((number + chance.random()) / count)
    if chance.random() < LATE_SHARE:
        at -= timedelta(minutes=chance.uniform(1, 40))
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _order(order: int, chance: random.Random) -> dict[str, object]:
    quantity = chance.randint(1, 5)
    return {
        "customer": f"C{(order * 7919) % 50_000:05d}",
        "country": chance.choice(COUNTRIES),
        "items": [{"product": chance.choice(PRODUCTS), "quantity": quantity}],
        "total_cents": chance.randint(199, 24_999) * quantity,
        "currency": "EUR",
        "express": chance.random() < 0.2,
    }


def _payment(order: int, chance: random.Random) -> dict[str, object]:
    return {
        "payment_id": f"P-{chance.getrandbits(48):012x}",
        "method": chance.choice(METHODS),
        "state": chance.choice(STATES),
        "amount_cents": chance.randint(199, 99_999),
        "risk": round(chance.random(), 3),
    }


def _broken(value: bytes, chance: random.Random) -> bytes:
    return chance.choice((value[: len(value) // 2], b"{}", b"\x00\xff\xfe" + value[:8][::-1]))


def _order_id(order: int) -> str:
    return f"O-{order:08d}"


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(value: object) -> bytes:
    return _ENCODER.encode(value).encode()
