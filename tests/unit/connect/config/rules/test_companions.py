"""What is stored beside the values has to be of a kind that its format takes."""

from __future__ import annotations

import pytest

from kafka_s3.connect.config.validate import validate
from tests.support.memory_world import BASE

CONVERTERS = "org.apache.kafka.connect."
AS_BYTES = {
    "store.kafka.keys": "true",
    "keys.format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
    "flush.size": "1",
}


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({"key.converter": f"{CONVERTERS}storage.StringConverter"}, ["keys.format.class"]),
        ({"key.converter": f"{CONVERTERS}converters.LongConverter"}, ["keys.format.class"]),
        (
            {"key.converter": f"{CONVERTERS}json.JsonConverter", "key.converter.schemas.enable": "false"},
            ["keys.format.class"],
        ),
        ({"key.converter": f"{CONVERTERS}storage.StringConverter", "store.kafka.keys": "false"}, []),
        ({"key.converter": f"{CONVERTERS}converters.ByteArrayConverter"}, []),
        ({"key.converter": f"{CONVERTERS}json.JsonConverter", "key.converter.schemas.enable": "true"}, []),
    ],
    ids=["text", "numbers", "JSON", "not stored", "bytes", "JSON that may be an envelope of bytes"],
)
def test_a_format_of_bytes_wants_keys_that_can_be_bytes(given: dict[str, str], keys: list[str]) -> None:
    assert [problem.key for problem in validate({**BASE, **AS_BYTES, **given}).problems] == keys
