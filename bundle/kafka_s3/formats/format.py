"""What turns records into a file's bytes? The seam that every format fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kafka_s3.errors import SinkError
from kafka_s3.records import Run, Values
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


@dataclass(frozen=True, slots=True)
class Format:
    """A format as configured: its name in the log, the extension of its objects (with codec), how to open a file,
    and why it cannot take a run (None where it can).
    """

    name: str
    extension: str
    open: Callable[[ConnectSchema | None], Encoder]
    refuses: Callable[[Run], str | None]
