"""What of a batch of objects goes into a table, and how must the table change for it? Decided from footers, directories and the mode."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafka_s3.engine.task.table_guard.columns import DeltaType, Mode, TableColumns, file_columns, fit, rescuing, shown
from kafka_s3.followers.delta.footer import Footer, read_footer
from kafka_s3.followers.delta.layout import TableLayout
from kafka_s3.followers.delta.states import TableFile, TableState
from kafka_s3.model.errors import ObjectMissing, TableRefused
from kafka_s3.model.files import DataFile
from kafka_s3.model.process import ThreadPool
from kafka_s3.store.store import ObjectStore

THREADS: Final = 8
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
WAY_ON: Final = {
    "new": "Add the columns to the table (ALTER TABLE ... ADD COLUMNS), or start once with delta.schema.evolution.mode=addNewColumns.",
    "other": "With errors.tolerance=all such files stay out of the table, and are named.",
}


@dataclass(slots=True)
class TablePlan:
    """The table's columns and partition columns once the files are in; files that stay out, by key, with the reason.

    `omitted` are columns of the files that Delta has no form for: they stay in the files alone. `own` are the columns that any of the
    files taken has itself.
    """

    columns: TableColumns
    partition_by: tuple[str, ...]
    files: list[TableFile] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    omitted: dict[str, None] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class TablePlanner:
    """How a sink's files are taken into tables. `tolerant`: a file that does not fit stays out; else it holds its table up."""

    store: ObjectStore
    layout: TableLayout
    mode: Mode
    tolerant: bool

    def plan(self, state: TableState | None, files: Sequence[DataFile], *, modified_ms: Mapping[str, int]) -> TablePlan:
        """What becomes of the files of one topic, in order. Raises TableRefused, StorageError; `modified_ms` by key."""
        footers = list(self._footers(files))
        plan = self._begun(footers) if state is None else TablePlan(state.columns, state.partition_by)
        if self.mode is Mode.RESCUE:
            plan.columns = rescuing(plan.columns)
        for file, footer in footers:
            refused = "the object is gone (was it deleted, or a lifecycle rule?)"
            if footer is not None:
                refused = self._take(plan, file, footer, modified_ms=modified_ms[file.key])
            if refused:
                plan.left_out[file.key] = refused
        return plan

    def _begun(self, footers: Sequence[tuple[DataFile, Footer | None]]) -> TablePlan:
        """A new table: the columns of the first file, and partition columns that no file has for something else."""
        present = [(file, file_columns(footer.schema)) for file, footer in footers if footer is not None]
        if not present:
            return TablePlan(TableColumns(), ())
        first, columns = present[0]
        own = TableColumns({name: one for _, other in reversed(present) for name, one in other.fields.items()})
        types = self.layout.partition_types(self.layout.directories(first), own)
        return TablePlan(TableColumns({**columns.fields, **TableColumns.of(types).fields}), tuple(types))

    def _footers(self, files: Sequence[DataFile]) -> Iterator[tuple[DataFile, Footer | None]]:
        with ThreadPool(THREADS) as pool:
            yield from zip(files, pool.each(self._footer, files), strict=True)

    def _footer(self, file: DataFile) -> Footer | None:
        try:
            return read_footer(self.store, file.key, file.bytes)
        except ObjectMissing:
            return None

    def _take(self, plan: TablePlan, file: DataFile, footer: Footer, *, modified_ms: int) -> str:
        """Adds the file to the plan, or gives the reason why it stays out."""
        columns, directories = file_columns(footer.schema), self.layout.directories(file)
        found = fit(plan.columns, columns)
        refusals = [
            *_misplaced(plan, directories, columns, layout=self.layout, footer=footer),
            *found.refusals(self.mode),
        ]
        if refusals:
            return self._refused(file, refusals, "new" if found.new and self.mode is Mode.FAIL else "other")
        plan.omitted |= dict.fromkeys(columns.omitted)
        plan.own |= columns.fields.keys()
        if self.mode is Mode.ADD:
            plan.columns = found.columns
        values = self.layout.partition_values({name: directories[name] for name in plan.partition_by}, footer)
        plan.files.append(
            TableFile(self.layout.path(file), file.bytes, values, _stats(footer, plan, values).stats(), modified_ms)
        )
        return ""

    def _refused(self, file: DataFile, refusals: Sequence[str], kind: str) -> str:
        text = "; ".join(refusals)
        if not self.tolerant or kind == "new":
            raise TableRefused(f"Object {file.key} does not fit: {text}. {WAY_ON[kind]}")
        return text


def _misplaced(
    plan: TablePlan, directories: Mapping[str, str], columns: TableColumns, *, layout: TableLayout, footer: Footer
) -> Iterator[str]:
    """Why the file's directories do not go with the table's partition columns."""
    for name in plan.partition_by:
        type_ = plan.columns.type_of(name)
        if name not in directories:
            yield f"no directory {name}=..., by which the table is partitioned"
        elif type_ is None or not _readable(directories[name], type_):
            yield f"directory {name}={directories[name]} is no {shown(type_ or 'column')}, which the partition column is"
        elif columns.type_of(name) is not None and name not in layout.fields:
            yield f"column {name} of the file is not what its directory {name}=... says"
        elif layout.mixed(name, footer):
            yield f"directory {name}={directories[name]} holds both that value and null"


def _readable(value: str, type_: DeltaType) -> bool:
    if type_ == "string" or value == "null":
        return True
    if type_ == "boolean":
        return value in ("true", "false")
    return type_ in ("byte", "short", "integer", "long") and _WHOLE.fullmatch(value) is not None


def _stats(footer: Footer, plan: TablePlan, partition: Mapping[str, Any]) -> Footer:
    """Statistics of the table's own columns only."""
    kept = {name for name in plan.columns.fields if name not in partition}
    statistics = {
        group: {name: value for name, value in values.items() if name in kept} if isinstance(values, dict) else values
        for group, values in footer.statistics.items()
    }
    return replace(footer, statistics=statistics)
