"""What cannot come back as it was? Said before anything is written, by the configuration and by what the log counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_s3.config.settings import Settings
from kafka_s3.formats.block_gzip.framing import Lines, block_gzip_of
from kafka_s3.model.files import Role
from kafka_s3.tools.restore.stored import StoredFile

AS_THEY_WERE: Final = frozenset({"string", "bytes"})
"""Converters whose values come back byte for byte, whatever the format."""


def losses(settings: Settings, files: Iterable[StoredFile]) -> list[str]:
    """A sentence for each thing that the objects did not keep."""
    found = list(files)
    formats = {file.parts[Role.VALUE].format for file in found if Role.VALUE in file.parts}
    told = [_values(settings, form) for form in sorted(formats)]
    kept = settings.flag("record.metadata.enable")
    if not kept:
        told += _envelopes(settings, found)
    if settings.names("transforms"):
        told.append("Values are those behind the transforms, not those that were consumed.")
    if _overlapping(found):
        told.append(
            "Directories overlap in their offsets, and objects do not say each record's: order holds within a directory, and between "
            "objects by their first offsets."
        )
    return [text for text in told if text]


def _values(settings: Settings, form: str) -> str:
    converter, ours = (
        settings.text("value.converter"),
        "values come back as JSON of their fields, not in the form that was consumed",
    )
    if form == "block_gzip":
        text = (
            "A line feed at the end of a value does not come back."
            if isinstance(block_gzip_of(settings).framing, Lines)
            else ""
        )
        return f"{text} Null values come back empty.".strip()
    if form in ("avro", "parquet") and converter not in AS_THEY_WERE:
        return f"{form} objects of {converter} values: {ours}."
    if form == "json" and converter not in AS_THEY_WERE:
        if converter == "json" and not settings.flag("value.converter.schemas.enable"):
            return "Values come back as the JSON that was written: the same document, blanks and the form of numbers as in the object."
        return f"json objects of {converter} values: {ours}; schemas in the values are not there any more."
    return ""


def _envelopes(settings: Settings, files: list[StoredFile]) -> list[str]:
    told = []
    with_key = sum(1 for file in files if Role.KEY in file.parts)
    if with_key < len(files) and not block_gzip_of(settings).stores_keys:
        told.append(
            f"{len(files) - with_key:,} of {len(files):,} files were written without keys (store.kafka.keys): null keys come back."
        )
    elif with_key and settings.text("key.converter") not in AS_THEY_WERE:
        told.append(f"Keys of {settings.text('key.converter')} come back as the text or JSON that was written.")
    with_headers = sum(1 for file in files if Role.HEADER in file.parts)
    if with_headers < len(files):
        told.append(
            f"{len(files) - with_headers:,} of {len(files):,} files were written without headers (store.kafka.headers)."
        )
    if with_headers:
        told.append("Values of headers come back as text.")
    timed = sum(1 for file in files if file.timestamp is not None)
    if timed < len(files):
        told.append(
            f"{len(files) - timed:,} of {len(files):,} files hold records of several times, or do not say: those records get the time at "
            "which they are written back (record.metadata.enable keeps each one's)."
        )
    return told


def _overlapping(files: list[StoredFile]) -> bool:
    ends: dict[object, int] = {}
    for file in files:
        if file.last_offset is not None:
            if file.first_offset <= ends.get(file.topic_partition, -1):
                return True
            ends[file.topic_partition] = max(ends.get(file.topic_partition, -1), file.last_offset)
    return False
