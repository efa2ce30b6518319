"""What does a query engine have to know of a topic's objects? Where they lie, their format, their columns and directories.

The facts come from the log and, the columns, from the objects themselves (`columns`); `statements` puts them into an engine's words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.task.table_guard.columns import TableColumns
from kafka_s3.followers.ddl.iceberg import CatalogTable
from kafka_s3.model.errors import SinkError
from kafka_s3.model.files import Role
from kafka_s3.objects.format import INFIX

LOOKED_INTO: Final = 8
"""How many of a topic's newest objects are asked for their columns: each may lack some."""
_NAME: Final = re.compile(r"[^a-z0-9_]")


class NoTable(SinkError):
    """A topic's objects cannot be a table; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class LoggedObject:
    """What the log says of one object: its key, its size in bytes, its encoded partition and the name of its format."""

    key: str
    size: int
    encoded_partition: str
    format: str


@dataclass(frozen=True, slots=True)
class TopicObjects:
    """A topic's objects that hold values: the newest ones, the newest first, and the encoded partitions of all.

    `sidecars` are what lies beside them.
    """

    topic: str
    newest: Sequence[LoggedObject]
    encoded_partitions: Sequence[str]
    sidecars: tuple[Role, ...] = ()

    @property
    def folder(self) -> str:
        """The folder above all directories, as the newest object has it, with a trailing slash."""
        above, _, _ = self.newest[0].key.rpartition("/")
        encoded = self.newest[0].encoded_partition.strip("/")
        return f"{above.removesuffix(encoded).rstrip('/')}/" if above else ""


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A directory level `name=value`. A `unit` of time makes its values computable; `digits` is their width, 0 where it varies.

    `first` and `last` are the lowest and the highest value that were met, of a level with a unit.
    """

    name: str
    unit: str = ""
    digits: int = 0
    first: str = ""
    last: str = ""


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """A topic as a table over its objects. `location` is a URL with a trailing slash; `columns` are the records' own, but hidden ones.

    `delta` says that a Delta table lies there, which knows its files and columns by itself. `avro_schema` is the newest object's, as JSON.
    `iceberg` is the Iceberg table over the same objects. `notes` are for the reader: what the table does not show.
    """

    topic: str
    location: str
    format: str
    columns: TableColumns
    keys: tuple[PartitionKey, ...] = ()
    delta: bool = False
    iceberg: CatalogTable | None = None
    avro_schema: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """A name that every engine takes."""
        return table_name(self.topic)

    @property
    def folder_url(self) -> str:
        """The location without its trailing slash."""
        return self.location.rstrip("/")


def table_name(topic: str) -> str:
    """A topic's name in lower case, with underscores for all that is neither letter nor digit."""
    return _NAME.sub("_", topic.lower()) or "topic"


def topics_of(entries: Iterable[CommitEntry]) -> dict[str, TopicObjects]:
    """The topics of a log, in order of their names, with their objects that hold values."""
    newest: dict[str, list[LoggedObject]] = {}
    encoded: dict[str, dict[str, None]] = {}
    beside: dict[str, dict[Role, None]] = {}
    for entry in entries:
        replaced = {key for swap in entry.swaps for key in swap.keys}
        for topic in {swap.topic_partition.topic for swap in entry.swaps} & newest.keys():
            newest[topic] = [one for one in newest[topic] if one.key not in replaced]
        for file in entry.files:
            if file.role in INFIX:
                beside.setdefault(file.topic, {})[file.role] = None
            if file.role is not Role.VALUE:
                continue
            facts = LoggedObject(file.key, file.upload.size, file.encoded_partition, file.format)
            newest[file.topic] = [facts, *newest.get(file.topic, [])][:LOOKED_INTO]
            encoded.setdefault(file.topic, {})[file.encoded_partition] = None
    return {
        topic: TopicObjects(topic, newest[topic], tuple(encoded[topic]), tuple(beside.get(topic, ())))
        for topic in sorted(newest)
    }


DATE: Final = "date"
UNITS: Final = ("year", "month", "day", "hour", "minute")
_SHORT: Final = {"y": "year", "mon": "month", "m": "month", "d": "day", "h": "hour", "hr": "hour", "min": "minute"}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def partition_keys(encoded_partitions: Sequence[str], own: Collection[str]) -> tuple[PartitionKey, ...]:
    """The levels of `name=value` directories, in order; none where directories are of another form, or have different levels.

    `own` are the columns of the records. A level of that name may be a field partitioner's, whose values nobody can work out.
    """
    rows = [name.strip("/").split("/") if name.strip("/") else [] for name in encoded_partitions]
    names = {tuple(part.partition("=")[0] if "=" in part else "" for part in row) for row in rows}
    if len(names) != 1 or not all(levels := next(iter(names))):
        return ()
    spelt = {name.lower() for name in own}
    values = [[row[level].partition("=")[2] for row in rows] for level in range(len(levels))]
    return tuple(
        PartitionKey(name) if name.lower() in spelt else _timed(name, found)
        for name, found in zip(levels, values, strict=True)
    )


def clashes(keys: Iterable[PartitionKey], own: Iterable[str]) -> list[str]:
    """The columns of the records that a directory's column hides: engines do not tell names apart by case."""
    names = {key.name.lower() for key in keys}
    return [name for name in own if name.lower() in names]


def by_time(keys: Sequence[PartitionKey]) -> bool:
    """Whether all levels are times, so that the directories can be worked out."""
    return bool(keys) and all(key.unit for key in keys)


def _timed(name: str, values: Sequence[str]) -> PartitionKey:
    if all(_DATE.fullmatch(value) for value in values):
        return PartitionKey(name, DATE, 10, min(values), max(values))
    unit = _SHORT.get(name.lower(), name.lower())
    if unit not in UNITS or not all(value.isascii() and value.isdigit() for value in values):
        return PartitionKey(name)
    widths = {len(value) for value in values}
    digits = widths.pop() if len(widths) == 1 else 0
    return PartitionKey(name, unit, digits, min(values, key=int), max(values, key=int))
