"""Do the settings of a converter with a registry reach what decodes its payloads?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafka_s3.connect.schemas.registered import Language
from kafka_s3.run.wiring.conversion import payload_decoders
from tests.support.memory_world import settings_of
from tests.support.protobuf import PROTO3, registered

TEXT = (
    PROTO3
    + """
message Order { oneof by { string card = 1; int32 cash = 2; } Money price = 3; Color color = 4;
  message Money { int32 cents = 1; } enum Color { RED = 0; BLUE = 1; } }
"""
)
PLAIN = {"by_0": {"card": "visa", "cash": None}, "price": None, "color": "BLUE"}


@pytest.mark.parametrize(("setting", "value", "row"), [
    ("connect.meta.data", "true", PLAIN),
    ("flatten.unions", "true", {"card": "visa", "cash": None, "price": None, "color": "BLUE"}),
    ("generate.index.for.unions", "false", {"by": PLAIN["by_0"], "price": None, "color": "BLUE"}),
    ("generate.struct.for.nulls", "true", {**PLAIN, "price": {"cents": 0}}),
    ("int.for.enums", "true", {**PLAIN, "color": 1}),
])  # fmt: skip
def test_settings_of_protobuf_change_what_a_message_becomes(setting: str, value: str, row: dict[str, Any]) -> None:
    converter = {
        "value.converter": "io.confluent.connect.protobuf.ProtobufConverter",
        "value.converter.schema.registry.url": "http://registry:8081", "value.converter.schemas.enable": None,
    }  # fmt: skip
    settings = settings_of({"flush.size": "1", **converter, f"value.converter.{setting}": value})
    language, make = payload_decoders(settings, "value.converter", None)
    assert language is Language.PROTOBUF
    found = make(registered(TEXT), (0,), None).decode_payloads(pa.array([b"\x0a\x04visa\x20\x01"]))
    assert found.values.objects() == [row]
