"""What does a sink read where producers are careless?

Bad records, huge ones, hundreds of headers, two schemas in turns, thousands of directories.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final

from tests.benchmarks.steady_traffic import Traffic

TENANTS: Final = 2_000
BAD_EVERY: Final = 10
HEADERS_EVERY: Final = 500
HUGE_EVERY: Final = 1_500
HEADERS: Final = [(f"x-header-{number}", b"v" * 32) for number in range(500)]
HUGE_BYTES: Final = 1_000_000
BAD: Final = (
    b"\xff\xfe no text", b"{", b'{"schema": null, "payload": 1}', b'{"schema": {"type": "struct"}, "payload": {}}', os.urandom(100),
    b"[" * 5_000, b'{"schema": {"type": "int32"}, "payload": "text"}', b'{"payload": 1}',
)  # fmt: skip
OLD: Final = {"id": "int64", "tenant": "string", "text": "string"}
NEW: Final = {**OLD, "discount": "double", "lines": "int32"}


class HostileTraffic(Traffic):
    """As `Traffic`, of records in JSON with their schema.

    A tenth cannot be read, for eight reasons. Every 500th has 500 headers, every 1,500th is 1 MB; the others change between two versions of
    a schema from one to the next, and go to 2,000 tenants in turn. `bad` says how many of those sent cannot be read.
    """

    @property
    def bad(self) -> int:
        return len(range(BAD_EVERY - 1, self.sent, BAD_EVERY))

    def record(self, number: int) -> dict[str, Any]:
        if number % BAD_EVERY == BAD_EVERY - 1:
            return {"value": BAD[number // BAD_EVERY % len(BAD)]}
        text = "x" * HUGE_BYTES if number % HUGE_EVERY == 0 else f"order {number}"
        return {"value": _value(number, text), "headers": HEADERS if number % HEADERS_EVERY == 1 else None}


def _value(number: int, text: str) -> bytes:
    fields, payload = OLD, {"id": number, "tenant": f"t{number * 7919 % TENANTS:04d}", "text": text}
    if number % 2:
        fields, payload = NEW, {**payload, "discount": number % 100 / 4, "lines": number % 9}
    columns = [{"field": name, "type": kind, "optional": True} for name, kind in fields.items()]
    schema = {"type": "struct", "name": "shop.Order", "version": 1 + number % 2, "optional": False, "fields": columns}
    return json.dumps({"schema": schema, "payload": payload}).encode()
