"""In which form do values lie in objects, and how are they compared with Kafka's? What the settings say about both."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from kafka_s3.config.settings import Settings
from kafka_s3.formats.block_gzip.framing import delimiter_bytes

Digest = bytes
Digests = Callable[[bytes], list[Digest] | None]
"""The digests that a Kafka value leaves in an object, None where it cannot be told."""

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
        """Raises ValueError and RecursionError for what is no JSON document."""
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
        """The digest of the text as it is."""
        return digest(text)


@dataclass(frozen=True, slots=True)
class Form:
    """`separator` ends byte values, `delimiter` those of Block-GZIP unless they are `prefixed` by their length; `keys` lie before them.

    `empty_for_null`: a null value is an empty one. `of_kafka` is None where values cannot be compared cheaply; then records are counted.
    With `by_value` JSON is compared by its texts, and by that form where texts differ. `opaque_etags`: under the encryption in use no rule
    gives an object's ETag.
    """

    format: str = "json"
    separator: bytes = b"\n"
    delimiter: bytes = b"\n"
    prefixed: bool = False
    keys: bool = False
    empty_for_null: bool = False
    of_kafka: Digests | None = None
    opaque_etags: bool = False
    json: JsonDigests | JsonTexts = field(default_factory=JsonDigests, compare=False)
    by_value: Form | None = None


def form_of(settings: Settings) -> Form:
    """The form of a sink's values."""
    form = Form(
        format=settings.text("format.class"),
        separator=settings.text("format.bytearray.separator").encode(),
        opaque_etags=settings.text("s3.ssea.name").lower().startswith("aws:kms")
        or settings.secret("s3.sse.customer.key") is not None,
    )
    if settings.text("format.class") == "block_gzip" and settings.text("block.gzip.dialect") != "original":
        form = _successor(settings, form)
    if settings.flag("record.metadata.enable") or form.keys:
        return form
    digests = JsonDigests()
    form = replace(form, of_kafka=_comparison(settings, form, digests), json=digests)
    if form.format == "json" and settings.text("value.converter") == "json" and form.of_kafka is not None:
        return replace(form, of_kafka=_json_text, json=JsonTexts(), by_value=form)
    return form


def _successor(settings: Settings, form: Form) -> Form:
    """The form of the later Block-GZIP sink, which writes an empty value for null."""
    delimiter = delimiter_bytes(settings.text("block.gzip.value.delimiter"), settings.text("block.gzip.value.encoding"))
    prefixed = settings.text("block.gzip.format") == "binary"
    in_text = settings.optional_text("block.gzip.key.delimiter") is not None
    keys = settings.flag("block.gzip.include.keys") if prefixed else in_text
    return replace(form, delimiter=delimiter, prefixed=prefixed, keys=keys, empty_for_null=True)


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


def _comparison(settings: Settings, form: Form, digests: JsonDigests) -> Digests | None:
    if form.empty_for_null:
        return digest_whole if form.prefixed else partial(pieces, separator=form.delimiter) if form.delimiter else None
    match settings.text("format.class"), settings.text("value.converter"):
        case "json", "json" if not settings.flag("value.converter.schemas.enable"):
            return partial(_json, digests)
        case "json", "string":
            return lambda value: [json_digest(value.decode(errors="replace"))]
        case "json", "bytes":
            return lambda value: [json_digest(base64.b64encode(value).decode())]
        case "bytearray", "bytes" if form.separator:
            return partial(pieces, separator=form.separator)
        case "block_gzip", "string" | "bytes":
            return lambda value: pieces(value.decode(errors="replace").encode().removesuffix(b"\n"), b"\n")
    return None


def _json(digests: JsonDigests, value: bytes) -> list[Digest] | None:
    try:
        found = digests.of(value, json.detect_encoding(value))
        return [] if found == NULL else [found]
    except (ValueError, RecursionError):
        return [] if not value.strip() else None


def _json_text(value: bytes) -> list[Digest]:
    """As `_json`, by the text: what leaves nothing in an object is the same."""
    return [] if value.strip() in (b"", b"null") else [digest(value)]


def _number(value: float) -> float:
    """One form for numbers of one value: whole numbers are integers while these are exact."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT_INTEGERS else value
    return value if abs(value) < EXACT_INTEGERS else float(value)
