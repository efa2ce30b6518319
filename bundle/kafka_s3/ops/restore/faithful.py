"""What cannot come back as it was? Said before anything is written, by the configuration and by what the log counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip_form import Lines, block_gzip_of
from kafka_s3.ops.restore.values import StoredFile

AS_THEY_WERE: Final = frozenset({"string", "bytes"})
"""Converters whose values come back byte for byte, whatever the format."""


@dataclass
class Kept:
    """What the files of a plan have kept of their records, counted as they go by: topic-partition by topic-partition, in order."""

    files: int = 0
    with_key: int = 0
    with_headers: int = 0
    timed: int = 0
    overlapping: bool = False
    formats: set[str] = field(default_factory=set)
    _of: TopicPartition | None = None
    _end: int = -1

    def take(self, file: StoredFile) -> None:
        """Counts a file."""
        self.files += 1
        self.with_key += Role.KEY in file.parts
        self.with_headers += Role.HEADER in file.parts
        self.timed += file.timestamp is not None
        if Role.VALUE in file.parts:
            self.formats.add(file.parts[Role.VALUE].format)
        if file.last_offset is not None:
            end = self._end if self._of == file.topic_partition else -1
            self.overlapping |= file.first_offset <= end
            self._of, self._end = file.topic_partition, max(end, file.last_offset)


def losses(settings: Settings, kept: Kept) -> list[str]:
    """A sentence for each thing that the objects did not keep."""
    told = [_values(settings, form) for form in sorted(kept.formats)]
    if not settings.flag("record.metadata.enable"):
        told += _envelopes(settings, kept)
    if settings.names("transforms"):
        told.append("Values are those behind the transforms, not those that were consumed.")
    if kept.overlapping:
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


def _envelopes(settings: Settings, kept: Kept) -> list[str]:
    told = []
    if kept.with_key < kept.files and not block_gzip_of(settings).stores_keys:
        told.append(
            f"{kept.files - kept.with_key:,} of {kept.files:,} files were written without keys (store.kafka.keys): null keys come back."
        )
    elif kept.with_key and settings.text("key.converter") not in AS_THEY_WERE:
        told.append(f"Keys of {settings.text('key.converter')} come back as the text or JSON that was written.")
    if kept.with_headers < kept.files:
        told.append(
            f"{kept.files - kept.with_headers:,} of {kept.files:,} files were written without headers (store.kafka.headers)."
        )
    if kept.with_headers:
        told.append("Values of headers come back as text.")
    if kept.timed < kept.files:
        told.append(
            f"{kept.files - kept.timed:,} of {kept.files:,} files hold records of several times, or do not say: those records get the "
            "time at which they are written back (record.metadata.enable keeps each one's)."
        )
    return told
