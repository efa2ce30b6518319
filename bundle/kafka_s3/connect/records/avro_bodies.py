"""What are values that are still Avro? Checked bodies of one writer schema, with the columns that were decoded on the way.

An Avro file takes the bodies as they are, Parquet takes the columns, and every other use decodes them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kafka_s3.connect.records.values import Column, Longs, Objects, StructColumns


@dataclass(frozen=True, slots=True)
class AvroBodies:
    """Avro binary data (`bodies`) written with the schema `writer` (parsed JSON).

    `table` holds the values in the columns of their Connect schema, `items` as Python values; without both, `decode` reads the bodies.
    `some` are columns of some fields, where there is no table.
    """

    bodies: pa.Array
    writer: Any
    decode: Callable[[bytes], Any]
    table: pa.Table | None = None
    items: list[Any] | None = None
    some: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.bodies)

    def take(self, rows: Longs) -> AvroBodies:
        """The values at these positions."""
        indices = pa.array(rows)
        table = None if self.table is None else self.table.take(indices)
        items = None if self.items is None else [self.items[row] for row in rows]
        some = None if self.some is None else self.some.take(indices)
        return AvroBodies(self.bodies.take(indices), self.writer, self.decode, table, items, some)

    def slice(self, start: int, stop: int) -> AvroBodies:
        """The values `[start, stop)`."""
        table = None if self.table is None else self.table.slice(start, stop - start)
        items = None if self.items is None else self.items[start:stop]
        some = None if self.some is None else self.some.slice(start, stop - start)
        return AvroBodies(self.bodies.slice(start, stop - start), self.writer, self.decode, table, items, some)

    def column(self, path: Sequence[str]) -> Column:
        """The field of every value."""
        if self.some is not None and path[0] in self.some.column_names:
            return StructColumns(self.some).column(path)
        if self.table is not None:
            return StructColumns(self.table).column(path)
        return Objects(self.objects()).column(path)

    def nbytes(self) -> int:
        """Bytes of bodies and columns."""
        return int(self.bodies.nbytes + sum(table.nbytes for table in (self.table, self.some) if table is not None))

    def objects(self) -> list[Any]:
        """The values as Python values."""
        if self.items is not None:
            return self.items
        if self.table is not None:
            return StructColumns(self.table).objects()
        return [self.decode(body) for body in self.bodies.to_pylist()]
