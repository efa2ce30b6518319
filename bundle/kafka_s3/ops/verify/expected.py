"""What does a record of Kafka leave in an object? Its value's bytes say it, or what the sink's own converters and transforms make of it.

How values are written is not asked of the writer: an object's content is read by `objects`, and both are compared as digests.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from kafka_s3.connect.converters.whole_records import RecordDecoder
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText
from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.connect.schemas.json_form import dumps, to_json
from kafka_s3.engine.task.batches import converter_input, within_memory
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.verify.digests import (
    NULL,
    Digest,
    JsonDigests,
    digest,
    json_digest,
    pieces,
    text_lines,
)

Digests: TypeAlias = Callable[[bytes], list[Digest] | None]
"""The digests that the bytes of a Kafka value leave in an object, None where they are not known."""
RunDigests: TypeAlias = Callable[[Run], Sequence[list[Digest] | None]]
"""The same of each value of a run that has some."""


class Row(NamedTuple):
    """A record in Kafka: its offset, and the digests that its value leaves in an object; None where they are not known.

    `null`: it leaves nothing, and counts as skipped: it has no value, or a transform drops it.
    """

    offset: int
    digests: tuple[Digest, ...] | None = None
    null: bool = False


class ByBytes:
    """Rows by the bytes of the values alone."""

    def __init__(self, digests: Digests, *, empty_for_null: bool) -> None:
        self._digests, self._empty_for_null = digests, empty_for_null

    def row(self, offset: int, value: bytes | None) -> Row:
        """A record as it is compared with objects."""
        if value is None and not self._empty_for_null:
            return Row(offset, (), null=True)
        found = self._digests(value or b"")
        return Row(offset, None if found is None else tuple(found), null=found == [])


class ByChain:
    """Rows of whole records, after the converters and transforms of the settings. Raises RegistryError where these need a registry that
    does not answer.

    A record that they refuse is a dead letter, or was one under settings of before: what it left is not known.
    """

    def __init__(
        self,
        decoder: Callable[[TopicPartition], RecordDecoder],
        digests: RunDigests,
        *,
        empty_for_null: bool,
        inflates: Sequence[str],
        memory: int,
    ) -> None:
        self._decoder, self._digests, self._empty_for_null = decoder, digests, empty_for_null
        self._inflates, self._memory = inflates, memory
        self._decoders: dict[TopicPartition, RecordDecoder] = {}

    def rows(self, topic_partition: TopicPartition, batch: pa.RecordBatch) -> list[Row]:
        """The records of a batch as they are compared with objects."""
        if topic_partition not in self._decoders:
            self._decoders = {topic_partition: self._decoder(topic_partition)}
        decoder = self._decoders[topic_partition]
        rows = {offset: Row(offset) for offset in batch.column("offset").to_pylist()}
        for piece in within_memory(batch, self._inflates, self._memory):
            decoded = decoder.decode_records(*converter_input(piece, envelopes=decoder.needs_envelopes))
            rows |= {offset: Row(offset, (), null=True) for offset in (*decoded.nulls, *decoded.dropped)}
            for run in decoded.runs:
                rows |= self._of_run(run)
        return list(rows.values())

    def _of_run(self, run: Run) -> dict[int, Row]:
        offsets = run.offsets.tolist()
        if run.tombstones and not self._empty_for_null:
            return {offset: Row(offset, (), null=True) for offset in offsets}
        found = self._digests(run)
        pairs = zip(offsets, found, strict=True)
        return {offset: Row(offset, None if one is None else tuple(one), null=one == []) for offset, one in pairs}


# ------------------------------------------------------------ by the bytes


def json_document(digests: JsonDigests, value: bytes) -> list[Digest] | None:
    """A document without a schema; `null` and blanks leave nothing."""
    try:
        found = digests.of(value, json.detect_encoding(value))
        return [] if found == NULL else [found]
    except (ValueError, RecursionError):
        return [] if not value.strip() else None


def json_text(value: bytes) -> list[Digest]:
    """As `json_document`, by the text: what leaves nothing in an object is the same."""
    return [] if value.strip() in (b"", b"null") else [digest(value)]


def value_digests(format: str, converter: str, *, separator: bytes, digests: JsonDigests) -> Digests | None:
    """How the bytes of a value become digests, where no schema, no transform and no metadata come between; None: they do not say it."""
    match format, converter:
        case "json", "json":
            return partial(json_document, digests)
        case "json", "string":
            return lambda value: [json_digest(value.decode(errors="replace"))]
        case "json", "bytes":
            return lambda value: [json_digest(base64.b64encode(value).decode())]
        case "bytearray", "bytes":
            return partial(pieces, separator=separator)
        case "block_gzip", "string" | "bytes":
            return lambda value: text_lines(value.decode(errors="replace"))
    return None


# ------------------------------------------------------------ after the chain


def json_lines(digests: JsonDigests, decimals: str, run: Run) -> list[list[Digest] | None]:
    """The values as the lines of JSON objects mean them."""
    if isinstance(run.values, JsonText):
        return [json_document(digests, text) for text in run.values.texts.to_pylist()]
    return [_json_line(digests, item, run, decimals) for item in run.values.objects()]


def _json_line(digests: JsonDigests, item: Any, run: Run, decimals: str) -> list[Digest] | None:
    try:
        document = item if run.schema is None else to_json(item, run.schema, decimals=decimals)
        return [digests.of(dumps(document).encode())]
    except (SchemaError, ValueError, RecursionError):
        return None


def raw_bytes(digests: Digests, run: Run) -> list[list[Digest] | None]:
    """The values as objects of raw bytes hold them; a null is empty."""
    return [digests(item) if isinstance(item, bytes) else None for item in _contents(run)]


def texts(run: Run) -> list[list[Digest] | None]:
    """The values as lines of text."""
    found: Iterable[Any] = _contents(run)
    return [text_lines(item.decode(errors="replace")) if isinstance(item, bytes) else None for item in found]


def _contents(run: Run) -> Iterable[Any]:
    if run.tombstones:
        return [b""] * len(run)
    if isinstance(run.values, JsonText):
        return run.values.texts.to_pylist()  # type: ignore[no-any-return]
    return (item.encode(errors="surrogatepass") if isinstance(item, str) else item for item in run.values.objects())
