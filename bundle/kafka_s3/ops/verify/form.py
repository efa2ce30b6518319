"""In which form do values lie in objects, since when, and what does an object hold? What is compared with Kafka's records.

The settings say the form; the readers of `objects.readers` give the rows, so that the writers' code is not its own judge. Records are
counted, and where values can be compared each one has a digest.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import configured_steps
from kafka_s3.connect.schemas.compatibility import Compatibility
from kafka_s3.engine.control.stored_settings import NotedSettings
from kafka_s3.model.files import DataFile, Role
from kafka_s3.objects.block_gzip_form import Framing, Lines, Prefixed
from kafka_s3.objects.readers import DAMAGE, avro_count, byte_rows, parquet_batches, sliced
from kafka_s3.ops.verify.expected import (
    ByBytes,
    ByChain,
    Digest,
    Digests,
    JsonDigests,
    JsonTexts,
    RunDigests,
    digest,
    digest_whole,
    json_lines,
    json_text,
    parsed,
    pieces,
    raw_bytes,
    texts,
    value_digests,
)
from kafka_s3.run.wiring.conversion import block_gzip_of, inflated_columns, record_converters, transform_chain
from kafka_s3.run.wiring.pipeline import noted_settings

ROWS: Final = 1 << 16
COMPARED: Final = ("json", "bytearray", "block_gzip")
"""The formats whose values are compared."""
SHAPING: Final = (
    "value.converter", "key.converter", "header.converter", "transforms", "predicates", "format.", "json.decimal.format", "block.gzip.",
    "record.metadata.enable", "schema.compatibility", "behavior.on.null.values", "compatibility.strict",
)  # fmt: skip
"""What the names of settings begin with that say what a record leaves in an object."""
ACCESS: Final = (".registry.", ".auth.", ".ssl.", ".cache.")
"""What is in the names of those of them that only say where schemas are."""
WITHOUT_SCHEMA: Final = ("string", "bytes", "short", "integer", "long", "float", "double", "boolean")
"""Converters whose values have no fields that could be added or left out."""


@dataclass(frozen=True, slots=True)
class Form:
    """`separator` ends byte values, `framing` says what lies around those of Block-GZIP.

    `expected` says what Kafka's records leave in objects; where values cannot be compared it is None, `counted` says why, and records are
    counted. `own_steps` are transforms of the user's own, `shaping` the settings that say what a record leaves. With `by_value` JSON is
    compared by its texts, and by that form where texts differ. `opaque_etags`: under the encryption in use no rule gives an object's ETag.
    """

    format: str = "json"
    separator: bytes = b"\n"
    framing: Framing = field(default_factory=Lines)
    empty_for_null: bool = False
    expected: ByBytes | ByChain | None = None
    counted: str = ""
    own_steps: tuple[str, ...] = ()
    shaping: Mapping[str, str] = field(default_factory=dict)
    opaque_etags: bool = False
    json: JsonDigests | JsonTexts = field(default_factory=JsonDigests, compare=False)
    by_value: Form | None = None

    def without_values(self, reason: str) -> Form:
        """The same form, under which records are counted."""
        return replace(self, expected=None, counted=reason, by_value=None)


def form_of(settings: Settings) -> Form:
    """The form of a sink's values."""
    form = Form(
        format=settings.text("format.class"),
        separator=settings.text("format.bytearray.separator").encode(),
        opaque_etags=settings.text("s3.ssea.name").lower().startswith("aws:kms")
        or settings.secret("s3.sse.customer.key") is not None,
        shaping=shaping_settings(settings),
    )
    if form.format == "block_gzip":
        variant = block_gzip_of(settings)
        form = replace(form, framing=variant.framing, empty_for_null=not isinstance(variant.framing, Lines))
    reason = _why_counted(settings, form)
    return form.without_values(reason) if reason else _compared(settings, form)


def _why_counted(settings: Settings, form: Form) -> str:
    """Why values cannot be compared; blank where they can."""
    if form.format not in COMPARED:
        return f"the values of {form.format} objects are not read one by one."
    if form.format == "block_gzip" and block_gzip_of(settings).stores_keys:
        return "keys lie between the values."
    if not form.separator and form.format == "bytearray":
        return "format.bytearray.separator is empty, so that nothing says where a value ends."
    if form.format == "block_gzip" and not _ending(form, form.format) and not isinstance(form.framing, Prefixed):
        return "block.gzip.value.delimiter is empty, so that nothing says where a value ends."
    if _projects(settings):
        return "schema.compatibility fits values to the schema of the file that is open."
    chain = transform_chain(settings, now_ms=0, tables=False)
    changing = () if chain is None else chain.not_deterministic
    if changing:
        return f"the outcome of {', '.join(changing)} is not a function of the record alone."
    return ""


def _projects(settings: Settings) -> bool:
    """Whether values with fields get or lose some with the schema of an open file."""
    changed = Compatibility.named(settings.text("schema.compatibility")) is not Compatibility.NONE
    by_schema = not _schemaless(settings) and settings.text("value.converter") not in WITHOUT_SCHEMA
    return by_schema and (changed or settings.flag("schema.compatibility.unify"))


def _schemaless(settings: Settings) -> bool:
    return settings.text("value.converter") == "json" and not settings.flag("value.converter.schemas.enable")


def _compared(settings: Settings, form: Form) -> Form:
    digests, empty = JsonDigests(), form.empty_for_null
    changed = settings.names("transforms") or settings.flag("record.metadata.enable")
    converter = settings.text("value.converter")
    of_bytes = _framed(form) if empty else None
    if of_bytes is None and (converter != "json" or _schemaless(settings)):
        of_bytes = value_digests(form.format, converter, separator=form.separator, digests=digests)
    if changed or of_bytes is None:
        expected = ByChain(
            record_converters(settings, fields=[]),
            _run_digests(settings, form, digests),
            empty_for_null=empty,
            inflates=inflated_columns(settings),
            memory=settings.number("writer.memory.bytes"),
        )
        own = (one.transform.kind for one in configured_steps(settings).steps if one.transform.own)
        return replace(form, expected=expected, json=digests, own_steps=tuple(own))
    form = replace(form, expected=ByBytes(of_bytes, empty_for_null=empty), json=digests)
    if form.format == "json" and converter == "json":
        by_text = ByBytes(json_text, empty_for_null=False)
        return replace(form, expected=by_text, json=JsonTexts(), by_value=form)
    return form


def _run_digests(settings: Settings, form: Form, digests: JsonDigests) -> RunDigests:
    if form.format == "json":
        return partial(json_lines, digests, settings.text("json.decimal.format").upper())
    if form.format == "block_gzip" and not form.empty_for_null:
        return texts
    return partial(raw_bytes, _framed(form))


def _framed(form: Form) -> Digests:
    """A value behind its length is one piece, one before a separator as many as it holds."""
    if form.format == "block_gzip" and isinstance(form.framing, Prefixed):
        return digest_whole
    return partial(pieces, separator=_ending(form, form.format))


def _ending(form: Form, of: str) -> bytes:
    """What ends each value of an object of this format, blank where nothing does."""
    if of != "block_gzip":
        return form.separator
    return b"\n" if isinstance(form.framing, Lines) else getattr(form.framing, "value_delimiter", b"")


# ------------------------------------------------------------ what an object holds


class Unreadable(Exception):
    """The object is not what its format says."""


@dataclass(frozen=True, slots=True)
class ObjectCount:
    """`count` records; with `at_least` it may be fewer records, because values may hold the separator. None: cannot be known.

    `digests` are those of the values, None where they are not compared.
    """

    count: int | None
    at_least: bool = False
    digests: Counter[Digest] | None = None


def read_object(file: DataFile, content: bytes, form: Form) -> ObjectCount:
    """What a data object of a claim holds. Raises Unreadable."""
    try:
        return _read(file, content, form)
    except DAMAGE as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Letter:
    """A line of a dead letter file: a record and where it came from; `headers` as batches of Kafka's records have them."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Mapping[str, str | bytes | None], ...] = ()


def read_letter_file(content: bytes) -> list[Letter]:
    """Every line of a dead letter file. Raises Unreadable."""
    try:
        lines = [json.loads(line) for line in gzip.decompress(content).split(b"\n") if line]
        return [_letter(line) for line in lines]
    except DAMAGE as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def _read(file: DataFile, content: bytes, form: Form) -> ObjectCount:
    compared = form.expected is not None and file.role is Role.VALUE and file.format == form.format
    if file.role is Role.INDEX:
        return ObjectCount(sum(block["num_records"] for block in json.loads(content)["chunks"]))
    match file.format:
        case "parquet":  # rows as decoded, not as the footer says, so that damaged pages are found
            return ObjectCount(sum(batch.num_rows for batch in parquet_batches(io.BytesIO(content), ROWS)))
        case "avro":
            return ObjectCount(avro_count(sliced(content)))
        case "json":
            rows = byte_rows(sliced(content), file.key, "json", separator=b"", framing=form.framing)
            if not compared:
                return ObjectCount(sum(1 for _ in map(parsed, (row.decode("utf-8", "surrogatepass") for row in rows))))
            digests = Counter(map(form.json.of, rows))
            return ObjectCount(digests.total(), digests=digests)
        case "bytearray" | "block_gzip":
            return _byte_values(file, content, form, compared)
    return ObjectCount(None)


def _byte_values(file: DataFile, content: bytes, form: Form, compared: bool) -> ObjectCount:
    by_length = file.format == "block_gzip" and isinstance(form.framing, Prefixed)
    if not by_length and not _ending(form, file.format):
        return ObjectCount(None)
    rows = byte_rows(sliced(content), file.key, file.format, separator=form.separator, framing=form.framing)
    if not compared:
        return ObjectCount(sum(1 for _ in rows), at_least=not by_length)
    digests = Counter(map(digest, rows))
    return ObjectCount(digests.total(), at_least=not by_length, digests=digests)


def _letter(line: Mapping[str, Any]) -> Letter:
    headers = tuple({"key": name, "value": _decoded(value)} for name, value in line["headers"])
    origin = line["topic"], line["partition"], line["offset"], line["timestamp"]
    return Letter(*origin, _decoded(line["key"]), _decoded(line["value"]), headers)


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


# ------------------------------------------------------------ since when


def shaping_settings(settings: Settings) -> dict[str, str]:
    """The settings given that shape values, secrets masked."""
    return _shaping(noted_settings(settings, epoch=0, at_ms=0))


def same_since(notes: Sequence[NotedSettings], now: Mapping[str, str]) -> tuple[int, list[str]]:
    """The first epoch from which on all notes say the same as now, and the settings that were others before it; 0: there were none."""
    later: int | None = None
    for note in reversed(notes):
        then = _shaping(note)
        if then != now:
            names = sorted(key for key in {*then, *now} if then.get(key) != now.get(key))
            return sys.maxsize if later is None else later, names
        later = note.epoch
    return 0, []


def first_version(epochs: Sequence[tuple[int, int]], epoch: int, *, last: int) -> int:
    """The first entry of that epoch or a later one, by the entries with which epochs begin: one behind `last` where there is none."""
    at = bisect_left(epochs, epoch, key=lambda one: one[1])
    return epochs[at][0] if at < len(epochs) else last + 1


def _shaping(note: NotedSettings) -> dict[str, str]:
    return {
        key: text for key, text in note.set.items() if key.startswith(SHAPING) and not any(one in key for one in ACCESS)
    }
