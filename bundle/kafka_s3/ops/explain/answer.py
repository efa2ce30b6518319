"""What does an explanation consist of? One outcome, a sentence for people, and what each commit entry says, for programs too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafka_s3.model.files import DataFile


class Fate(StrEnum):
    """What became of a record, or what an object is. `UNKNOWN`: no entry of the log knows it."""

    OBJECT = "object"
    DEAD_LETTER = "dead letter"
    SKIPPED = "skipped"
    NO_RECORD = "no record"
    GAP = "gap"
    BEFORE_START = "before start"
    OPEN = "open"
    NOT_READ = "not read yet"
    NOT_IN_KAFKA = "not in Kafka yet"
    LOST = "lost"
    STATE = "state"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Account:
    """What one commit entry says. `stands` is False where a later entry let Kafka's records be read again, or the topic was recreated."""

    entry: int
    committed_at: str
    outcome: Fate
    text: str
    files: tuple[DataFile, ...] = ()
    stands: bool = True


@dataclass(frozen=True, slots=True)
class Described:
    """An object with why it was closed, why it lies where it lies, and what the bucket says of it."""

    file: DataFile
    rule: str
    directory: str
    bucket: str

    def document(self) -> dict[str, Any]:
        """For programs; timestamps are epoch ms, offsets inclusive, `bytes` the object's size."""
        file = self.file
        return {
            "key": file.key, "role": file.role.value, "topic": file.topic, "partition": file.partition,
            "first_offset": file.first_offset, "last_offset": file.last_offset, "records": file.records, "bytes": file.bytes,
            "min_timestamp": file.min_timestamp, "max_timestamp": file.max_timestamp, "encoded_partition": file.encoded_partition,
            "schema": file.schema, "format": file.format, "reason": file.reason.value, "rule": self.rule,
            "directory": self.directory, "bucket": self.bucket,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """The explanation of one thing, `about`: the outcome, a sentence, further notes, the entries' accounts and the objects they name."""

    about: str
    outcome: Fate
    text: str
    notes: tuple[str, ...] = ()
    accounts: tuple[Account, ...] = ()
    objects: Mapping[str, Described] | None = None

    def document(self) -> dict[str, Any]:
        """For programs."""
        known = self.objects or {}
        return {
            "about": self.about,
            "outcome": self.outcome.value,
            "text": self.text,
            "notes": list(self.notes),
            "entries": [
                {
                    "entry": one.entry, "committed_at": one.committed_at, "outcome": one.outcome.value, "text": one.text,
                    "stands": one.stands, "objects": [known[file.key].document() for file in one.files if file.key in known],
                }
                for one in self.accounts
            ],
        }  # fmt: skip
