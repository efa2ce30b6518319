"""How is a Delta table read and written? Through delta-rs, which takes objects into a table that are there already, without a copy.

Every commit carries the sink's transaction: application `kafka-s3-<sink>` and the log entry as its version. Two writers that both build on
version N of the table with the same application cannot both commit (delta-rs refuses the second), so an entry is in the table once.

Columns and statistics come from the files' footers, partition values from their directories. Where the columns go beyond the table's, these
are changed first; then the files go in, in one commit. A table that is not there is made from the whole log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from kafka_s3.engine.task.table_guard.columns import TableColumns, read_columns
from kafka_s3.followers.delta.planner import Commit, TableFile, TablePlan, TableState
from kafka_s3.model.errors import PreconditionFailed, StorageError, TableRefused, TableUnavailable
from kafka_s3.store.store import ObjectStore

WRITABLE: Final = frozenset({
    "appendOnly", "invariants", "changeDataFeed", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "variantType",
    "checkConstraints", "generatedColumns",
})  # fmt: skip
"""Table features under which objects can be added as they are; constraints and generated columns where no column has one."""
UNCHECKED: Final = ("delta.generationExpression", "delta.identity.start", "delta.invariants")


class Table:
    """A table at an address, as one sink writes it. `options` gives delta-rs its storage options at each opening."""

    def __init__(
        self, address: str, *, app: str, options: Callable[[], Mapping[str, str]], store: ObjectStore, folder: str
    ) -> None:
        self.address = address
        self._app = app
        self._options = options
        self._store = store
        self._log = f"{folder}_delta_log/"
        self._held: DeltaTable | None = None
        self._opened_with: dict[str, str] = {}
        self._mark: tuple[int, str | None] = (-1, None)

    @property
    def sql(self) -> str:
        """What the table is called in SQL."""
        return f"delta.`{self.address}`"

    @property
    def remedy(self) -> str:
        """What to do about a table with obstacles."""
        return REMEDY

    def state(self) -> TableState | None:
        """The table's newest state, None where there is no table. Raises TableUnavailable, TableRefused."""
        with _errors(self.address):
            try:
                table = self._held = self._renewed()
            except TableNotFoundError:
                self._held = None
                return None
            return _state(table, self._app)

    def _renewed(self) -> DeltaTable:
        """The table held, with what was committed since; a new one where keys have changed, or where its log is not the one it was."""
        options = dict(self._options())
        version, known = self._mark
        held = self._held if options == self._opened_with and known is not None else None
        if held is not None and known == self._etag(version):
            held.update_incremental()
        else:
            held, self._opened_with, version = DeltaTable(self.address, storage_options=options), options, -1
        if held.version() != version:
            self._mark = (held.version(), self._etag(held.version()))
        return held

    def _etag(self, version: int) -> str | None:
        """Distinguishes a table's log from another one in the same folder: it may have been deleted, and the table made again."""
        try:
            found = self._store.head(f"{self._log}{version:020d}.json")
        except StorageError:
            return None
        return found.etag if found is not None else None

    def commit(self, state: TableState | None, plan: TablePlan, commit: Commit) -> None:
        """Makes the table, or brings its columns and files up to the plan. Raises TableUnavailable, TableRefused."""
        if state is None:
            self.create(plan.columns, plan.partition_by, commit)
            return
        if plan.columns.fields != state.columns.fields:
            self.evolve(plan.columns, at_ms=commit.at_ms)
            self.state()
        if commit.files or commit.removed or commit.position > state.position:
            self.append(commit)

    def count_rows(self) -> int:
        """How many rows delta-rs reads from the table as last read: all columns of all files. Raises TableError."""
        with _errors(self.address):
            reader = QueryBuilder().register("here", self._table).execute("SELECT * FROM here")
            return sum(batch.num_rows for batch in reader)

    def create(self, columns: TableColumns, partition_by: Sequence[str], commit: Commit) -> None:
        """Makes the table with its first files. Raises TableUnavailable where someone else was faster."""
        with _errors(self.address):
            create_table_with_add_actions(
                self.address,
                Schema.from_json(columns.schema_string()),
                [_add(file, True) for file in commit.files],
                mode="error",
                partition_by=list(partition_by),
                storage_options=dict(self._options()),
                commit_properties=self._properties(commit),
            )

    def append(self, commit: Commit) -> None:
        """Adds and removes files, on the state last read. Raises TableUnavailable where the sink's own entries went in beside it."""
        table = self._table
        with _errors(self.address):
            changes = not commit.same_records
            again = {file.path for file in commit.files}  # whose new action takes the place of the earlier one
            removed = [RemoveAction(path, changes, commit.at_ms) for path in commit.removed if path not in again]
            table.create_write_transaction(
                [*(_add(file, changes) for file in commit.files), *removed],
                "append",
                table.schema(),
                list(table.metadata().partition_columns),
                commit_properties=self._properties(commit),
            )

    def evolve(self, columns: TableColumns, *, at_ms: int) -> None:
        """Changes the table's columns: a commit of metadata alone, on the state last read.

        delta-rs adds columns but widens no types; so the commit is written here, as Delta's protocol has it: the next version's object,
        which must not exist yet.
        """
        table = self._table
        known = table.metadata()
        metadata = {
            "id": str(known.id), "name": known.name, "description": known.description,
            "format": {"provider": "parquet", "options": {}}, "schemaString": columns.schema_string(),
            "partitionColumns": list(known.partition_columns), "createdTime": known.created_time,
            "configuration": dict(known.configuration),
        }  # fmt: skip
        info = {"operation": "CHANGE COLUMNS", "operationParameters": {}, "engineInfo": "kafka-s3", "timestamp": at_ms}
        lines = [json.dumps({"commitInfo": info}), json.dumps({"metaData": metadata})]
        try:
            self._store.put_new(f"{self._log}{table.version() + 1:020d}.json", ("\n".join(lines) + "\n").encode())
        except PreconditionFailed as error:
            raise TableUnavailable(f"{self.address}: another writer was faster; tried again.") from error

    def checkpoint(self) -> None:
        """Sums the table's log up in one file, and deletes log files that are past the table's retention."""
        with _errors(self.address):
            self._table.create_checkpoint()
            self._table.cleanup_metadata()

    def forget_history(self) -> int:
        """Deletes what the table's log says of all versions before the one last read, which a checkpoint holds; gives how many objects.

        Raises TableError, StorageError.
        """
        with _errors(self.address):
            self._table.create_checkpoint()
        found = (info.key.removeprefix(self._log) for info in self._store.list(self._log))
        old = [name for name in found if (of := _VERSION.match(name)) is not None and int(of[0]) < self.version]
        for name in old:
            self._store.delete(f"{self._log}{name}")
        return len(old)

    def removed(self, hours: int) -> list[str]:
        """Paths of files that are in the bucket and that the table's log removed at least so long ago, as last read; unquoted."""
        with _errors(self.address):
            return list(self._table.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False))

    @property
    def version(self) -> int:
        """The version last read."""
        return int(self._table.version())

    def paths(self) -> list[str]:
        """The paths of the files in the table as last read, relative to it, unquoted."""
        return list(self.files())

    def files(self) -> dict[str, tuple[int, int | None]]:
        """Size and number of records (None: not known) of every file in the table as last read, by path."""
        actions = pa.table(self._table.get_add_actions(flatten=True))
        columns = [actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")]
        return {unquote(path): (size, records) for path, size, records in zip(*columns, strict=True)}

    @property
    def _table(self) -> DeltaTable:
        assert self._held is not None, "state() comes first"
        return self._held

    def _properties(self, commit: Commit) -> CommitProperties:
        return CommitProperties(
            custom_metadata=_metadata(commit.note),
            app_transactions=[Transaction(self._app, commit.position)],
        )


def _metadata(note: Mapping[str, Any]) -> dict[str, str]:
    return {"userMetadata": json.dumps(note, separators=(",", ":"))}


def _add(file: TableFile, changes: bool) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=dict(file.partition),
        modification_time=file.modified_ms,
        data_change=changes,
        stats=file.stats,
    )


def _state(table: DeltaTable, app: str) -> TableState:
    position = table.transaction_version(app)
    metadata = table.metadata()
    columns = read_columns(table.schema().to_json())
    return TableState(
        table.version(),
        columns,
        tuple(metadata.partition_columns),
        -1 if position is None else position,
        tuple(obstacles(columns, metadata.configuration, features=table.protocol().writer_features or ())),
    )


def obstacles(columns: TableColumns, configuration: Mapping[str, str], *, features: Sequence[str]) -> list[str]:
    """Why objects cannot be added to a table as they are: features that delta-rs does not write, and rules that nobody would check."""
    found = [f"table feature {name}" for name in sorted(set(features) - WRITABLE)]
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        found.append(f"column mapping (delta.columnMapping.mode={configuration['delta.columnMapping.mode']})")
    found += [f"constraint {key}" for key in sorted(configuration) if key.startswith("delta.constraints.")]
    for name, one in columns.fields.items():
        if not one.get("nullable", True):
            found.append(f"column {name} is NOT NULL")
        found += [f"column {name} has {key}" for key in UNCHECKED if key in one.get("metadata", {})]
    return found


@contextmanager
def _errors(address: str) -> Iterator[None]:
    """delta-rs' errors as ours, on one line."""
    try:
        yield
    except CommitFailedError as error:
        text = _one_line(error)
        if "Unsupported" in text:
            raise TableRefused(f"{address}: {text}. {REMEDY}") from None
        raise TableUnavailable(f"{address}: {text}") from None
    except OSError as error:
        raise TableUnavailable(f"{address} cannot be reached: {_one_line(error)}") from None
    except DeltaError as error:
        text = _one_line(error)
        if "already exists" in text:
            raise TableUnavailable(f"{address}: {text}") from None
        raise TableRefused(f"{address} cannot be used: {text}. {REMEDY}") from None


REMEDY: Final = (
    "It is for other writers than delta-rs: drop that (ALTER TABLE ... DROP FEATURE, DROP CONSTRAINT), or let Spark write a table of your "
    "own with delta.writer=spark, or make this one again: kafka-s3 delta rebuild --fresh."
)
_VERSION: Final = re.compile(r"\d{20}(?=\.)")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def _one_line(error: Exception) -> str:
    return " ".join(_COLOURS.sub("", str(error)).replace("\u21b3", ":").split()).rstrip(".")
