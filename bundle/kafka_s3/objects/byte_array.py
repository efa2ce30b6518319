"""How are bytes written as they are? Each value, and the separator after every one, gzip if asked (SEMANTICS A8.4)."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from kafka_s3.connect.records.joining import joined
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import Plain, Values
from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, SchemaType
from kafka_s3.objects.format import Format
from kafka_s3.objects.text_stream import TextStream


def byte_array_format(*, extension: str, separator: bytes, gzip_level: int | None) -> Format:
    """Raw bytes; `extension` as `format.bytearray.extension` says, with `.gz` under gzip."""
    opened = partial(ByteArrayFile, separator=separator, gzip_level=gzip_level)
    return Format("bytearray", extension + (".gz" if gzip_level is not None else ""), opened, _fit, copies=True)


def _fit(run: Run) -> Values | str:
    if isinstance(run.values, Plain) and pa.types.is_binary(run.values.array.type):
        return run.values
    if run.schema is not None and run.schema.kind is SchemaType.BYTES and run.schema.name != DECIMAL:
        return Plain(pa.array(run.values.objects(), pa.binary()))
    kind = "a value without schema" if run.schema is None else run.schema.label()
    return f"ByteArrayFormat takes bytes only, not {kind}. Use ByteArrayConverter, or another format."


class ByteArrayFile(TextStream):
    """An open object of raw bytes."""

    __slots__ = ("_separator",)

    def __init__(self, schema: ConnectSchema | None, *, separator: bytes, gzip_level: int | None) -> None:
        super().__init__(gzip_level)
        self._separator = separator

    def append(self, values: Values) -> None:
        """Adds each value and the separator."""
        if not len(values):
            return
        array = values.array if isinstance(values, Plain) else pa.array(values.objects(), pa.binary())
        self.write(joined(array, self._separator))
