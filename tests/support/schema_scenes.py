"""JSON with schemas as nobody means it: a seed says which kinds, names, defaults and parameters, and which values, some of other kinds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any, Final

LOGICAL: Final = "org.apache.kafka.connect.data."
HALF: Final = "\ud800"
"""Half a surrogate pair: JSON may name it, no encoding takes it."""
FIELDS: Final = ("a", "b", "", "a.b", "ü", "1a", "a b", "element", "key", "value", "x" * 300, "a\0", HALF)
NAMES: Final = (
    "n",
    "com.x.Y",
    "1x",
    "",
    "a..b",
    HALF,
    *(LOGICAL + name for name in ("Date", "Time", "Timestamp", "Decimal")),
)
SIMPLE: Final = ("int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes", "date")
NESTED: Final = ("struct", "array", "map")
INTEGERS: Final = (0, 1, -1, 127, 128, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**63, 86_400_000, 253_402_300_800_000)
VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "float": (0, 1.5, -0.0, 1e300, 5e-324), "double": (0, 1.5, 1e300, 2**60), "boolean": (True, False),
    "string": ("", "x", HALF, "\0", "ü" * 50, "\ue000"), "bytes": ("", "AQ==", "/////w==", "x", "AQ"),
}  # fmt: skip
ANYTHING: Final = (None, 1, "x", [], {}, 2**70, 1.5, True, HALF)


@dataclass
class SchemaScene:
    """Draws schemas, values of them, and records of both."""

    draw: Random

    def record(self) -> bytes:
        """A record's value; most have a struct at the top."""
        schema = self.schema()
        if schema["type"] != "struct" and self._happens(0.85):
            schema = {"type": "struct", "fields": [{**schema, "field": "a"}]}
        return json.dumps({"schema": schema, "payload": self.value(schema)}).encode()

    def schema(self, depth: int = 0) -> dict[str, Any]:
        kind = self.draw.choice(SIMPLE + NESTED * (3 if depth < 3 else 0))
        found: dict[str, Any] = {"type": kind, **self._inside(kind, depth)}
        if self._happens(0.4):
            found["optional"] = True
        if self._happens(0.25):
            found["name"] = self.draw.choice(NAMES)
        if kind == "bytes" and self._happens(0.4):
            found |= {
                "name": f"{LOGICAL}Decimal",
                "parameters": {"scale": self.draw.choice(("0", "2", "-2", "70", "x"))},
            }
        if self._happens(0.15):
            found["default"] = self.value(found)
        if self._happens(0.15):
            found["doc"] = self.draw.choice(("d", '"', HALF))
        return found

    def _inside(self, kind: str, depth: int) -> dict[str, Any]:
        if kind == "struct":
            count = self.draw.choice((0, 1, 2, 3, 5))
            return {"fields": [{**self.schema(depth + 1), "field": self.draw.choice(FIELDS)} for _ in range(count)]}
        if kind == "array":
            return {"items": self.schema(depth + 1)}
        if kind == "map":
            keys = self.schema(depth + 2) if self._happens(0.4) else {"type": "string"}
            return {"keys": keys, "values": self.schema(depth + 1)}
        return {}

    def value(self, schema: dict[str, Any]) -> Any:
        if self._happens(0.07):
            return self.draw.choice(ANYTHING)
        match schema["type"]:
            case "struct":
                return {field["field"]: self.value(field) for field in schema["fields"] if self._happens(0.95)}
            case "array":
                return [self.value(schema["items"]) for _ in range(self.draw.choice((0, 1, 3)))]
            case "map":
                return self._map(schema)
            case kind:
                return self.draw.choice(VALUES.get(kind, INTEGERS))

    def _map(self, schema: dict[str, Any]) -> Any:
        count = range(self.draw.choice((0, 1, 2)))
        if schema["keys"]["type"] == "string" and self._happens(0.8):
            return {self.draw.choice(("k", "", HALF)): self.value(schema["values"]) for _ in count}
        return [[self.value(schema["keys"]), self.value(schema["values"])] for _ in count]

    def _happens(self, probability: float) -> bool:
        return self.draw.random() < probability
