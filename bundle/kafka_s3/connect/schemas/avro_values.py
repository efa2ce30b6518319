"""How do Connect values read from and written as Avro's binary form? A schema is compiled once into a function per value.

The Python forms of Connect values are those of `json_form`; a null in a field with a default is the default, as everywhere in Connect.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafka_s3.connect.schemas.avro_anything import read_anything, write_anything
from kafka_s3.connect.schemas.avro_binary import Datum, Reader, Writer
from kafka_s3.connect.schemas.avro_readers import reader_of
from kafka_s3.connect.schemas.avro_types import read_types
from kafka_s3.connect.schemas.avro_writers import writer_of
from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, SchemaError
from kafka_s3.connect.schemas.decimals import decimal_at
from kafka_s3.connect.schemas.json_form import scale_of


def decoder(avro: Any, schema: ConnectSchema | None) -> Callable[[bytes], Any]:
    """A function from a payload to its Connect value; `avro` is the writer's schema, `schema` what `connect_schema_of_avro` gives of it.

    Bytes after the datum are ignored. The function raises SchemaError for data that is truncated or malformed, or becomes
    too many values (`connect.schemas.expansion`).
    """
    decode = measuring_decoder(avro, schema)
    return lambda payload: decode(Datum.of(payload))[0]


def measuring_decoder(avro: Any, schema: ConnectSchema | None) -> Callable[[Datum], tuple[Any, int]]:
    """Like `decoder`, with the length of the datum beside its value: what comes after is no part of it."""
    found = read_types(avro)
    if found.kind == "bytes":
        # Such a payload is the value itself, without a length (SEMANTICS A11).
        return partial(_whole_payload, schema)
    read: Reader = read_anything if schema is None else reader_of(found, schema)

    def decode(payload: Datum) -> tuple[Any, int]:
        try:
            return read(payload, 0)
        except IndexError:
            raise SchemaError(
                f"The Avro data ends too early: after {len(payload)} bytes the value is not complete."
            ) from None
        except RecursionError:
            raise SchemaError("The Avro value is nested too deeply.") from None

    return decode


def encoder(schema: ConnectSchema | None, avro: Any) -> Callable[[Any], bytes]:
    """A function from a Connect value to its Avro body; `avro` is what `avro_schema` gives of `schema`.

    The function raises SchemaError for a value that does not fit, with the field.
    """
    write: Writer = write_anything if schema is None else writer_of(schema, read_types(avro))

    def encode(value: Any) -> bytes:
        out = bytearray()
        try:
            write(value, out)
        except RecursionError:
            raise SchemaError("The value is nested too deeply for Avro.") from None
        return bytes(out)

    return encode


def _whole_payload(schema: ConnectSchema | None, payload: bytes) -> tuple[Any, int]:
    decimal = schema is not None and schema.name == DECIMAL
    value = decimal_at(payload, scale_of(schema)) if decimal and schema is not None else payload
    return value, len(payload)
