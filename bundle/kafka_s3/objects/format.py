"""What turns records into a file's bytes? The seam that every format fills.

Keys and headers lie in objects beside the values' (SEMANTICS A8.5). Some formats need a record around them: Parquet wraps a key as
`RecordKey{key}` and headers as `RecordHeaders{headers}`, JSON wraps headers as an object with one member.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import Longs, Objects, Values
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.model.deflate import Bytes
from kafka_s3.model.errors import SinkError
from kafka_s3.model.files import Role


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

    def take(self) -> Bytes:
        """The encoded bytes since the last take."""
        ...

    def finish(self) -> None:
        """Encodes the rest and the file's end; `take` gives it."""
        ...


@runtime_checkable
class Fitting(Encoder, Protocol):
    """An encoder whose columns settle while it is written: not all later values can join the file."""

    def fits(self, values: Values) -> bool:
        """Whether the values can join the file; where they cannot, the writer begins another."""
        ...


@runtime_checkable
class Keyed(Encoder, Protocol):
    """An encoder whose objects hold keys in front of the values."""

    def append_keyed(self, values: Values, keys: Sequence[bytes | str | None] | None) -> None:
        """Adds records with their keys. Raises FormatError before anything is added."""
        ...


class Lined(Encoder, Protocol):
    """An encoder of text that is known before it comes."""

    def write(self, text: Bytes) -> None:
        """Adds lines, each with its newline, which nobody changes any more."""
        ...


@runtime_checkable
class WithOffsets(Encoder, Protocol):
    """An encoder that keeps the offsets of its records."""

    def set_offsets(self, offsets: Longs) -> None:
        """Says the offsets of the records that the next append adds."""
        ...


@runtime_checkable
class Keeping(Encoder, Protocol):
    """An encoder that keeps values until it encodes them. They may be parts of a batch, of which other files keep other parts."""

    def detach(self) -> None:
        """Copies the values that it keeps, so that it no longer holds the batches in memory from which they were cut."""
        ...


@runtime_checkable
class Columnar(Encoder, Protocol):
    """An encoder of rows in columns."""

    def written_schema(self) -> pa.Schema:
        """The columns of the finished file, as its readers see them."""
        ...


Paused: TypeAlias = Mapping[str, Any]
"""What something open needs to go on in another process: texts, numbers, truth values, None, lists and maps of them, and bytes."""


class CannotPause(SinkError):
    """Something open cannot be kept for another process; its records are read again."""


@runtime_checkable
class Pausing(Encoder, Protocol):
    """An encoder that another one, of the same format and schema, can go on for."""

    def pause(self) -> Paused:
        """What the other one needs; to be called once, and followed by a last `take`. Raises CannotPause."""
        ...

    def resume(self, paused: Paused) -> None:
        """Makes a new encoder go on behind all that was taken from the paused one."""
        ...


def can(encoder: object, what: type) -> bool:
    """Whether an encoder can do what one of these protocols says, by its class.

    That is asked once. For `isinstance` Python looks at an encoder's attributes each time, and that takes longer than writing a record.
    """
    kind: Any = type(encoder)
    return _can(kind, what)


@cache
def _can(kind: type[Any], what: type) -> bool:
    return issubclass(kind, what)


@dataclass(frozen=True, slots=True)
class SidecarObject:
    """A small object that goes with a finished file: what it is, its key, its content."""

    role: Role
    key: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Format:
    """A format as configured: its name in the log, the extension of its objects (with codec), how to open a file, and `accept`:
    a run's values in the form that its files take at least cost, or a text that says why it cannot take the run. `sidecar_objects` gives
    what is stored beside a finished file, by its encoder, key and first offset; `columns` the text form of its columns, where a table
    follows. `stops_original` says whether the original's task fails for values that `accept` refuses, dead letter topic or not
    (SEMANTICS A9.2). `in_bulk`: rows of many small files may wait together, before they have encoders, and so many bytes of them count as
    one encoded; 0 where they may not. JSON text then goes into `Lined` encoders, Avro comes as bodies, all else in columns. What only some
    encoders can do is declared by `Fitting`, `Keyed`, `WithOffsets`, `Keeping`, `Columnar` and `Pausing`.
    """

    name: str
    extension: str
    open: Callable[[ConnectSchema | None], Encoder]
    accept: Callable[[Run], Values | str]
    sidecar_objects: Callable[[Encoder, str, int], list[SidecarObject]] = lambda encoder, key, first_offset: []
    columns: Callable[[pa.Schema], str] | None = None
    stops_original: Callable[[Run], bool] = lambda run: False
    copies: bool | None = None
    """Deprecated, without effect: an encoder that keeps values is `Keeping`."""
    lines: int | None = None
    """Deprecated: `in_bulk`."""
    in_bulk: int = 0

    def __post_init__(self) -> None:
        if self.lines is not None:
            warnings.warn("Format.lines is called Format.in_bulk now.", DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "in_bulk", self.lines)
        if self.copies is not None:
            text = "Format.copies has no effect any more: an encoder that keeps values copies them in `detach`, see kafka_s3.Keeping."
            warnings.warn(text, DeprecationWarning, stacklevel=3)


INFIX: Final = {Role.KEY: ".keys", Role.HEADER: ".headers"}
WRAPPED: Final = {
    ("parquet", Role.KEY): ("RecordKey", "key"),
    ("parquet", Role.HEADER): ("RecordHeaders", "headers"),
    ("json", Role.HEADER): ("RecordHeaders", "headers"),
}


def sidecar(form: Format, role: Role) -> Format:
    """The format for objects of keys or headers beside the values'."""
    extension = INFIX[role] + form.extension
    if (form.name, role) not in WRAPPED:
        return replace(form, extension=extension)
    name, member = WRAPPED[form.name, role]

    def accept(run: Run) -> Values | str:
        values = Objects([{member: value} for value in run.values.objects()])
        return form.accept(replace(run, values=values, schema=_wrapper(run.schema, name, member)))

    return Format(form.name, extension, lambda schema: form.open(_wrapper(schema, name, member)), accept)


def _wrapper(schema: ConnectSchema | None, name: str, member: str) -> ConnectSchema | None:
    return None if schema is None else ConnectSchema(SchemaType.STRUCT, name=name, fields=(Field(member, schema),))
