"""What does a record of Kafka leave in an object? Its value's bytes say it, or what the sink's own converters and transforms make of it.

How values are written is not asked of the writer: an object's content is read by `objects`, and both are compared as digests.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from kafka_s3.connect.converters.whole_records import RecordDecoder
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText
from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.connect.schemas.json_form import dumps, to_json
from kafka_s3.engine.task.batches import converter_input, within_memory
from kafka_s3.model.offsets import TopicPartition

Digest = bytes

EXACT_INTEGERS: Final = 1 << 63
REMEMBERED: Final = 1 << 17
"""Of so many JSON texts the digests are kept: 20 MB."""
_DECODER: Final = json.JSONDecoder(
    parse_float=lambda text: _number(float(text)),
    parse_int=lambda text: _number(int(text)),
    parse_constant=lambda text: {"const": text},
)
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class JsonDigests:
    """Digests of JSON documents by value, from their texts. Thread-safe.

    A text that was seen lately is not parsed again: the lines of most objects are the very bytes that are in Kafka.
    """

    def __init__(self) -> None:
        self._seen: dict[Digest, Digest] = {}

    def of(self, text: bytes, encoding: str = "utf-8") -> Digest:
        """Raises ValueError and RecursionError for what is not a JSON document."""
        if encoding != "utf-8":
            return json_digest(parsed(text.decode(encoding, "surrogatepass")))
        own = digest(text)
        found = self._seen.get(own)
        if found is None:
            found = json_digest(parsed(text.decode(encoding, "surrogatepass")))
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            self._seen[own] = found
        return found


class JsonTexts:
    """Digests of JSON documents by their texts alone, a tenth of the work: enough where objects hold the very texts that are in Kafka."""

    def of(self, text: bytes) -> Digest:
        return digest(text)


def json_digest(document: Any) -> Digest:
    """The digest of a parsed document; members in any order, numbers by value."""
    return digest(_ENCODER.encode(document).encode())


def parsed(text: str) -> Any:
    """The JSON document at the beginning of a text, numbers by value. Raises ValueError."""
    return _DECODER.raw_decode(text.lstrip(" \t\r\n"))[0]


def digest(content: bytes) -> Digest:
    """16 bytes that stand for a content."""
    return hashlib.blake2b(content, digest_size=16).digest()


NULL: Final = json_digest(None)
"""The digest of `null`, which leaves nothing in an object."""


def digest_whole(content: bytes) -> list[Digest]:
    """The digest of a value that is one piece."""
    return [digest(content)]


def pieces(content: bytes, separator: bytes) -> list[Digest]:
    """Digests of what lies between separators. A value that holds one gives several pieces, in Kafka as in the object."""
    return [digest(piece) for piece in content.split(separator)] if separator else [digest(content)]


def text_lines(text: str) -> list[Digest]:
    """Digests of the lines of a text, which a line feed ends if it does not itself."""
    return pieces(text.encode(errors="replace").removesuffix(b"\n"), b"\n")


def _number(value: float) -> float:
    """One form for numbers of one value: whole numbers are integers while these are exact."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT_INTEGERS else value
    return value if abs(value) < EXACT_INTEGERS else float(value)


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
