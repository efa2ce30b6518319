"""What turns records into a file's bytes? The seam that every format fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kafka_s3.model.errors import SinkError
from kafka_s3.model.files import Role
from kafka_s3.records.runs import Run
from kafka_s3.records.values import Values
from kafka_s3.schemas.connect import ConnectSchema


class FormatError(SinkError):
    """A format cannot hold such values; the failure of every record of the run."""


class Encoder(Protocol):
    """One open file. Bytes are taken out as they come to be, so that a file of any size needs bounded memory."""

    def append(self, values: Values) -> None:
        """Adds records behind those already there. Raises FormatError before anything is added."""
        ...

    def size(self) -> int:
        """Encoded bytes so far, those already taken included; what is not encoded yet counts by estimate."""
        ...

    def pending(self) -> int:
        """Bytes of memory held by records that are not encoded yet."""
        ...

    def compact(self) -> None:
        """Encodes what is pending, to give its memory back."""
        ...

    def take(self) -> bytes:
        """The encoded bytes since the last take."""
        ...

    def finish(self) -> None:
        """Encodes the rest and the file's end; `take` gives it."""
        ...


AppendKeyed: TypeAlias = Callable[[Values, list[bytes | None]], None]
"""`append_keyed` of an encoder whose objects hold keys in front of the values: adds records with their keys."""


@dataclass(frozen=True, slots=True)
class SidecarObject:
    """A small object that goes with a finished file: what it is, its key, its content."""

    role: Role
    key: str
    content: bytes


def _nothing(encoder: Encoder, key: str, first_offset: int) -> list[SidecarObject]:
    return []


def _no_columns(encoder: Encoder) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Format:
    """A format as configured: its name in the log, the extension of its objects (with codec), how to open a file, and `fit`:
    a run's values in the form that its files take at least cost, or a text that says why it cannot take the run. `sidecar_objects` gives
    what is stored beside a finished file, by its encoder, key and first offset; `columns` its columns, where a table follows.
    """

    name: str
    extension: str
    open: Callable[[ConnectSchema | None], Encoder]
    fit: Callable[[Run], Values | str]
    sidecar_objects: Callable[[Encoder, str, int], list[SidecarObject]] = _nothing
    columns: Callable[[Encoder], str] = _no_columns
