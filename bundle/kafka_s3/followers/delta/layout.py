"""Where does a topic's table lie, and what do the directories of an object say? `<topics.dir>/<topic>/`, and `k=v` per directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from kafka_s3.connect.naming.keys import topics_root
from kafka_s3.engine.task.table_guard.columns import DeltaType, TableColumns, is_name
from kafka_s3.followers.delta.footer import Footer
from kafka_s3.model.files import DataFile, Role

NULL: Final = "null"
SCHEMA_NAME: Final = "schema_name"
BY_VALUE: Final = ("string", "integer", "long", "boolean")
"""The types of columns that can be partition columns: a field partitioner writes their values as Delta does."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How objects lie below `topics.dir`. `fields` are those of a field partitioner: their directories hold the records' own values.

    `quoted` says that directories are percent-encoded (`partition.value.encoding=percent`).
    """

    topics_dir: str
    fields: frozenset[str] = frozenset()
    quoted: bool = False

    def folder(self, topic: str) -> str:
        """The folder of a topic's table, with a trailing slash."""
        return f"{topics_root(self.topics_dir, '/')}{topic}/"

    def path(self, file: DataFile) -> str:
        """The object's path in its table."""
        return file.key.removeprefix(self.folder(file.topic))

    def directories(self, file: DataFile) -> dict[str, str]:
        """What the object's directories of the form `k=v` say. A directory of another form says nothing."""
        pairs = [part.partition("=") for part in self.path(file).split("/")[:-1]]
        known = {*self.fields, SCHEMA_NAME} if self.fields else {name for name, _, _ in pairs}
        return {
            name: unquote(value) if self.quoted else value
            for name, sign, value in pairs
            if sign and name and name in known
        }

    def partition_types(self, directories: Mapping[str, str], columns: TableColumns) -> dict[str, DeltaType]:
        """The partition columns of a table that begins with such a file, with their types.

        A directory gives a string, or what the file's own column of that name is where it holds the same values (a field partitioner's);
        where the file has a column of that name for something else, the directory gives none.
        """
        types: dict[str, DeltaType] = {}
        spelt = {name.lower() for name in columns.fields}
        for name in directories:
            own = columns.type_of(name)
            if own is None and is_name(name) and name.lower() not in spelt:
                types[name] = "string"
            elif name in self.fields and own in BY_VALUE:
                types[name] = own
            spelt.add(name.lower())
        return types

    def partition_values(self, directories: Mapping[str, str], footer: Footer) -> dict[str, str | None]:
        """The values of a file's partition columns: what the file itself holds, where it has such a column; a directory cannot tell null
        from the text `null`, nor where a value with a slash ends.
        """
        return {name: self._value(name, value, footer) for name, value in directories.items()}

    def _value(self, name: str, value: str, footer: Footer) -> str | None:
        if name not in self.fields:
            return value
        if name in footer.constants:
            own = footer.constants[name]
            return str(own).lower() if isinstance(own, bool) else str(own)
        return None if value == NULL else value

    def mixed(self, name: str, footer: Footer) -> bool:
        """Whether a file holds both nulls and values in a column by which its table is partitioned."""
        return name in self.fields and name in footer.constants and (footer.nulls(name) or 0) > 0


def in_table(file: DataFile) -> bool:
    """Whether an object belongs into a table: Parquet with values, not keys, headers, indexes, dead letters."""
    return file.role is Role.VALUE and file.format == "parquet"
