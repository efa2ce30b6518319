"""Block-GZIP objects and what their indexes say."""

from __future__ import annotations

import json

import pyarrow as pa

from kafka_s3.connect.records.values import Plain, Values
from kafka_s3.objects.block_gzip import BlockGzipFile, block_gzip_format
from kafka_s3.objects.block_gzip_form import BlockGzip, Framing


def texts(*values: str | None) -> Values:
    return Plain(pa.array(values, pa.string()))


def opened(framing: Framing, *, block_size: int = 100) -> BlockGzipFile:
    encoder = block_gzip_format(BlockGzip(framing, block_size)).open(None)
    assert isinstance(encoder, BlockGzipFile)
    return encoder


def written(framing: Framing, *appends: Values, block_size: int = 100) -> tuple[bytes, list[dict[str, int]]]:
    """The object and its chunks."""
    encoder = opened(framing, block_size=block_size)
    for values in appends:
        encoder.append(values)
    encoder.finish()
    return encoder.take(), chunks(encoder)


def chunks(encoder: BlockGzipFile, first_offset: int = 0) -> list[dict[str, int]]:
    found: list[dict[str, int]] = json.loads(encoder.index(first_offset))["chunks"]
    return found
