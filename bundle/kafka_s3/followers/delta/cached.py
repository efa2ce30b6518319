"""Which columns has a table that only Spark can ask? Those that the follower cached in the bucket when it last looked.

Tasks and `kafka-s3 dead-letters replay` keep to them, and need neither Spark nor the catalog for that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.engine.task.table_guard.columns import TableColumns, read_columns
from kafka_s3.followers.delta.states import TableState
from kafka_s3.model.errors import ObjectMissing, StorageError, TableUnavailable
from kafka_s3.store.store import ObjectStore


@dataclass(slots=True)
class CachedColumns:
    """The columns of one table, as an object beside the log has them."""

    store: ObjectStore
    key: str
    name: TableName
    _cached: str = field(default="", init=False)

    @property
    def sql(self) -> str:
        """The table's name in SQL."""
        return self.name.sql

    def state(self) -> TableState | None:
        """The table with the columns last cached; None where none were. Raises TableUnavailable."""
        try:
            found = json.loads(self.store.get(self.key))
        except ObjectMissing:
            return None
        except StorageError as error:
            raise TableUnavailable(str(error)) from error
        if found["table"] != str(self.name):
            return None
        return TableState(-1, read_columns(found["columns"]), (), -1)

    def note(self, columns: TableColumns) -> None:
        """Notes the columns, where they are others than before. Raises StorageError."""
        text = json.dumps({"table": str(self.name), "columns": columns.schema_string()})
        if text != self._cached:
            self.store.put(self.key, text.encode())
            self._cached = text
