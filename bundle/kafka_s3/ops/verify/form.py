"""In which form do values lie in objects, and how are they compared with Kafka's? What the settings say about both, and since when."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import configured_steps
from kafka_s3.connect.schemas.compatibility import Compatibility
from kafka_s3.connect.transforms.classes import chain_of
from kafka_s3.engine.control.settings_notes import NotedSettings, noted
from kafka_s3.objects.block_gzip_form import delimiter_bytes
from kafka_s3.ops.verify.digests import JsonDigests, JsonTexts
from kafka_s3.ops.verify.expected import (
    ByBytes,
    ByChain,
    RunDigests,
    framed,
    json_lines,
    json_text,
    raw_bytes,
    texts,
    value_digests,
)

SHAPING: Final = (
    "value.converter", "key.converter", "header.converter", "transforms", "predicates", "format.", "json.decimal.format", "block.gzip.",
    "record.metadata.enable", "schema.compatibility", "behavior.on.null.values", "compatibility.strict",
)  # fmt: skip
"""What the names of settings begin with that say what a record leaves in an object."""
ACCESS: Final = (".registry.", ".auth.", ".ssl.", ".cache.")
"""What is in the names of those of them that only say where schemas are."""


def shaping_settings(settings: Settings) -> dict[str, str]:
    """The settings given that shape values, secrets masked."""
    return _shaping(noted(settings, epoch=0, at_ms=0))


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


COMPARED: Final = ("json", "bytearray", "block_gzip")
"""The formats whose values are compared."""
WITHOUT_SCHEMA: Final = ("string", "bytes", "short", "integer", "long", "float", "double", "boolean")
"""Converters whose values have no fields that could be added or left out."""


@dataclass(frozen=True, slots=True)
class Form:
    """`separator` ends byte values, `delimiter` those of Block-GZIP unless they are `prefixed` by their length; `keys` lie before them.

    `expected` says what Kafka's records leave in objects; where values cannot be compared it is None, `counted` says why, and records are
    counted. `own_steps` are transforms of the user's own, `shaping` the settings that say what a record leaves. With `by_value` JSON is
    compared by its texts, and by that form where texts differ. `opaque_etags`: under the encryption in use no rule gives an object's ETag.
    """

    format: str = "json"
    separator: bytes = b"\n"
    delimiter: bytes = b"\n"
    prefixed: bool = False
    keys: bool = False
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
    if form.format == "block_gzip" and settings.text("block.gzip.dialect") != "original":
        form = _successor(settings, form)
    reason = _why_counted(settings, form)
    return form.without_values(reason) if reason else _compared(settings, form)


def _successor(settings: Settings, form: Form) -> Form:
    """The form of the later Block-GZIP sink, which writes an empty value for null."""
    delimiter = delimiter_bytes(settings.text("block.gzip.value.delimiter"), settings.text("block.gzip.value.encoding"))
    prefixed = settings.text("block.gzip.format") == "binary"
    in_text = settings.optional_text("block.gzip.key.delimiter") is not None
    keys = settings.flag("block.gzip.include.keys") if prefixed else in_text
    return replace(form, delimiter=delimiter, prefixed=prefixed, keys=keys, empty_for_null=True)


def _why_counted(settings: Settings, form: Form) -> str:
    """Why values cannot be compared; blank where they can."""
    if form.format not in COMPARED:
        return f"the values of {form.format} objects are not read one by one."
    if form.keys:
        return "keys lie between the values."
    if not form.separator and form.format == "bytearray":
        return "format.bytearray.separator is empty, so that nothing says where a value ends."
    if not form.delimiter and form.empty_for_null and not form.prefixed:
        return "block.gzip.value.delimiter is empty, so that nothing says where a value ends."
    if _projects(settings):
        return "schema.compatibility fits values to the schema of the file that is open."
    chain = chain_of(settings, now_ms=0, tables=False)
    changing = () if chain is None else chain.not_deterministic
    if changing:
        return f"the outcome of {', '.join(changing)} is no function of the record alone."
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
    of_bytes = framed(form.delimiter, prefixed=form.prefixed) if empty else None
    if of_bytes is None and (converter != "json" or _schemaless(settings)):
        of_bytes = value_digests(form.format, converter, separator=form.separator, digests=digests)
    if changed or of_bytes is None:
        expected = ByChain(settings, _run_digests(settings, form, digests), empty_for_null=empty)
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
    separator = form.delimiter if form.empty_for_null else form.separator
    return partial(raw_bytes, framed(separator, prefixed=form.prefixed))
