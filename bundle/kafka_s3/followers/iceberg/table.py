"""How is an Iceberg table read and written? Through pyiceberg's catalogs, with commits that are put together here.

One commit takes a batch of log entries: new columns, the snapshot with the files, and the number of the last entry, in the snapshot's
summary and in a property of the table. It asserts the snapshot on which it was planned, and each of ours makes a snapshot, also one without
files. So of two commits that are planned on the same state one fails: an entry is in the table once, whoever else writes it, and whatever
answer is lost. pyiceberg's own transactions are not used: from 0.12 on they put a commit that has failed onto the newer state, with the
files as they were.

A commit costs what its files cost: manifests are merged by size (`manifests`), and only the newest snapshots stay in the metadata.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    ServerError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
)
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as PyTable
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    AssignUUIDUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

from kafka_s3.connect.naming.partition_terms import PartitionTerm
from kafka_s3.followers.delta.planner import Commit, TableFile, TablePlan, TableState
from kafka_s3.followers.iceberg.columns import columns_of, current_names, name_mapping, obstacles, schema_of
from kafka_s3.followers.iceberg.manifests import ManifestWriting, data_file, read_manifests
from kafka_s3.followers.iceberg.partitioning import Unplaced, directory_part, partition_of, spec_of
from kafka_s3.model.errors import SinkError, TableError, TableRefused, TableUnavailable

M = TypeVar("M")
PREFIX: Final = "kafka-s3."
SNAPSHOTS: Final = 100
"""How many snapshots a table keeps, unless its property `history.expire.min-snapshots-to-keep` says more."""
KEEP: Final = "history.expire.min-snapshots-to-keep"
NOTE_BYTES: Final = 2000
MAINTENANCE: Final = "maintenance"
"""The member of a commit's note that says that an operator asked for it: the table's files become those of the log, whatever they were."""
FORMAT_VERSION: Final = 2
OUR_PROPERTIES: Final = {
    "gc.enabled": "false",  # no expiry by others deletes an object: the log, and other readers of the bucket, name it
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "20",
}
MAPPING: Final = TableProperties.DEFAULT_NAME_MAPPING
REMEDY: Final = "Drop that, or let the sink have a table of its own: another iceberg.table.name."


def entry_property(sink: str) -> str:
    """The property of a table that says up to which entry of a sink's log it has come."""
    return f"{PREFIX}{sink}.entry"


@dataclass(slots=True)
class IcebergTable:
    """A topic's table, as one sink writes it. `root` is the location of the folder to which the paths of the plan's files lead.

    `catalog` gives the catalog, the same one each time; `hide` takes what a catalog's error must not show out of a text.
    `namespace_location` is where a namespace lies that is made; blank: the catalog decides it. `metadata_location`
    is the newest file of metadata that was seen.
    """

    identifier: tuple[str, ...]
    catalog: Callable[[], Catalog]
    sink: str
    root: str
    terms: Sequence[PartitionTerm] = ()
    warn: Callable[[str], None] = print
    hide: Callable[[str], str] = str
    namespace_location: str = ""
    metadata_location: str = ""
    _held: PyTable | None = None
    _reported: set[str] = field(default_factory=set)

    @property
    def address(self) -> str:
        """The table's name, for people."""
        return f"Iceberg table {self.sql}"

    @property
    def sql(self) -> str:
        """The table's name in its catalog."""
        return ".".join(self.identifier)

    @property
    def remedy(self) -> str:
        """What to do about a table with obstacles."""
        return REMEDY

    def state(self) -> TableState | None:
        """The table's newest state, None where there is no table. Raises TableUnavailable, TableRefused."""
        with self._errors():
            try:
                table = self._held = self.catalog().load_table(self.identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                self._held, self.metadata_location = None, ""
                return None
            self.metadata_location = table.metadata_location
            metadata = table.metadata
            position = int(metadata.properties.get(entry_property(self.sink), -1))
            self._tell_of_others(table, position)
            columns = columns_of(metadata.schema(), metadata.properties.get(MAPPING))
            given = [
                metadata.schema().find_column_name(one.source_id) or ""
                for one in metadata.spec().fields
                if str(one.transform) == "identity"
            ]
            return TableState(
                next_sequence_number(metadata) - 1, columns, tuple(given), position, tuple(obstacles_of(table))
            )

    def _tell_of_others(self, table: PyTable, position: int) -> None:
        """Says it where the newest snapshot does not come from our last one: somebody has rolled back, or replaced the table."""
        snapshot = table.metadata.current_snapshot_id
        line = ancestors(table, snapshot)
        found = next((entry for one in line if (entry := entry_of(one, self.sink)) is not None), None)
        beyond = found is None and len(line) >= SNAPSHOTS - 1  # others have committed so often since
        complete = position < 0 or found == position or beyond
        mark = f"{snapshot} {position}"
        if complete or mark in self._reported:
            return
        self._reported.add(mark)
        since = "none of its snapshots is" if found is None else f"its newest snapshot that is comes from entry {found}"
        self.warn(
            f"{self.address} says that it has come to entry {position}, but {since} the sink's own: another writer has rolled it back or "
            "replaced it. New objects go on to be added. kafka-s3 iceberg check names those that are missing, rebuild brings them back."
        )

    def commit(self, state: TableState | None, plan: TablePlan, commit: Commit) -> None:
        """Makes the table, or brings it up to the plan, on the state last read. Raises TableUnavailable, TableRefused."""
        with self._errors():
            if state is None:
                self._create(plan, commit)
            else:
                self._append(self._table, plan, commit)

    def files(self) -> dict[str, tuple[int, int | None]]:
        """Size and number of records of every file in the table as last read, by its path below `root`, or its location.

        A file that the table lists twice, as an object that was written over, is as if it had no bytes: it is none of the log's.
        """
        found: dict[str, tuple[int, int | None]] = {}
        with self._errors():
            for file in self._data_files():
                path = self.path(file.file_path)
                found[path] = (0, None) if path in found else (file.file_size_in_bytes, file.record_count)
        return found

    def paths(self) -> list[str]:
        """The paths of the files in the table as last read."""
        return list(self.files())

    def forget_history(self, delete: Callable[[str], None]) -> int:
        """Takes all snapshots out of the table that no branch or tag names, and deletes the metadata that only they named, by location.

        Gives how many files of metadata. Raises TableError; TableUnavailable where another writer was faster.
        """
        with self._errors():
            table = self._table
            metadata = table.metadata
            kept = {ref.snapshot_id for ref in metadata.refs.values()}
            old = [one for one in metadata.snapshots if one.snapshot_id not in kept]
            unique = AssertTableUUID(uuid=metadata.table_uuid)
            on = made(AssertRefSnapshotId, ref=MAIN_BRANCH, snapshot_id=metadata.current_snapshot_id)
            if not old:
                return 0
            before, after = (
                named_metadata(table, some) for some in (old, [one for one in metadata.snapshots if one not in old])
            )
            expiry = made(RemoveSnapshotsUpdate, snapshot_ids=[one.snapshot_id for one in old])
            table.catalog.commit_table(table, (unique, on), (expiry,))
            for location in sorted(before - after):
                delete(location)
            return len(before - after)

    def count_rows(self) -> int:
        """How many rows pyiceberg reads from the table as last read: all columns of all files, one batch in memory. Raises TableError."""
        with self._errors():
            return sum(batch.num_rows for batch in self._table.scan().to_arrow_batch_reader())

    def path(self, location: str) -> str:
        """The path of a location below `root`; the location itself where it is elsewhere."""
        return location.removeprefix(self.root)

    def _data_files(self) -> Iterator[DataFile]:
        table = self._table
        for manifest in read_manifests(table.io, table.metadata.current_snapshot()):
            if manifest.content == 0:
                yield from (entry.data_file for entry in manifest.fetch_manifest_entry(table.io))

    @property
    def _table(self) -> PyTable:
        assert self._held is not None, "state() comes first"
        return self._held

    @property
    def table(self) -> PyTable:
        """The table of pyiceberg, as last read."""
        return self._table

    def _create(self, plan: TablePlan, commit: Commit) -> None:
        """Makes the table with its first files, in one commit."""
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists(
            self.identifier[:-1], {"location": self.namespace_location} if self.namespace_location else {}
        )
        schema = schema_of(plan.columns)
        drafted = catalog.create_table_transaction(
            self.identifier, schema
        )  # for the catalog's choice of a location; it is not committed
        draft, location = drafted._table, drafted.table_metadata.location
        specs = self._specs(schema, (), plan)
        known: dict[int, PartitionSpec] = {spec.spec_id: spec for spec in specs}
        empty = drafted.table_metadata.model_copy(
            update={"partition_specs": list(known.values()), "properties": {}, "last_sequence_number": 0}
        )
        snapshot, _ = self._snapshot(draft.io, empty, plan, commit, schema=schema, specs=specs)
        updates: tuple[TableUpdate, ...] = (
            AssignUUIDUpdate(uuid=uuid.uuid4()),
            made(UpgradeFormatVersionUpdate, format_version=FORMAT_VERSION),
            made(AddSchemaUpdate, schema_=schema),
            made(SetCurrentSchemaUpdate, schema_id=-1),
            *(AddPartitionSpecUpdate(spec=known[number]) for number in sorted(known)),
            made(SetDefaultSpecUpdate, spec_id=specs[0].spec_id),
            made(AddSortOrderUpdate, sort_order=UNSORTED_SORT_ORDER),
            made(SetDefaultSortOrderUpdate, sort_order_id=-1),
            SetLocationUpdate(location=location),
            SetPropertiesUpdate(
                updates={**OUR_PROPERTIES, MAPPING: name_mapping(schema, plan.columns, None), **self._reached(commit)}
            ),
            *_as_main(snapshot),
        )
        self.metadata_location = catalog.commit_table(draft, (AssertCreate(),), updates).metadata_location

    def _append(self, table: PyTable, plan: TablePlan, commit: Commit) -> None:
        """Brings the table up to the plan in one commit, which asserts what the plan was made on."""
        metadata = table.metadata
        base, current = metadata.schema(), metadata.current_snapshot_id
        updates: list[TableUpdate] = []
        requirements: list[TableRequirement] = [
            AssertTableUUID(uuid=metadata.table_uuid), made(AssertRefSnapshotId, ref=MAIN_BRANCH, snapshot_id=current),
            made(AssertCurrentSchemaId, current_schema_id=base.schema_id),
        ]  # fmt: skip
        schema = schema_of(plan.columns, base)
        properties = self._reached(commit)
        if metadata.properties.get(entry_property(self.sink)) is None:
            properties |= OUR_PROPERTIES
        if schema.fields != base.fields:
            number = max(one.schema_id for one in metadata.schemas) + 1
            schema = Schema(*schema.fields, schema_id=number, identifier_field_ids=base.identifier_field_ids)
            updates += [made(AddSchemaUpdate, schema_=schema), made(SetCurrentSchemaUpdate, schema_id=number)]
            requirements.append(made(AssertLastAssignedFieldId, last_assigned_field_id=metadata.last_column_id))
        else:
            schema = base
        mapping = name_mapping(schema, plan.columns, metadata.properties.get(MAPPING))
        if mapping != metadata.properties.get(MAPPING):
            properties[MAPPING] = mapping
        known = metadata.specs()
        specs = self._specs(schema, tuple(known.values()), plan, default=metadata.spec())
        fresh = {spec.spec_id: spec for spec in specs if spec.spec_id not in known}
        updates += [AddPartitionSpecUpdate(spec=fresh[number]) for number in sorted(fresh)]
        if specs[0].spec_id != metadata.default_spec_id:
            requirements.append(made(AssertDefaultSpecId, default_spec_id=metadata.default_spec_id))
            updates.append(made(SetDefaultSpecUpdate, spec_id=specs[0].spec_id))
        snapshot, gone = self._snapshot(table.io, metadata, plan, commit, schema=schema, specs=specs)
        if len(gone) < len(commit.removed):
            raise TableRefused(
                f"{self.address} lacks {len(commit.removed) - len(gone)} of the {len(commit.removed)} files that entry {commit.position} "
                "puts others in the place of: another writer has rewritten them. kafka-s3 iceberg rebuild puts the table right."
            )
        updates += [SetPropertiesUpdate(updates=properties), *_as_main(snapshot)]
        if expired := expired_snapshots(table):
            updates.append(made(RemoveSnapshotsUpdate, snapshot_ids=expired))
        answer = table.catalog.commit_table(table, tuple(requirements), tuple(updates))
        self.metadata_location = answer.metadata_location
        _delete_old(table, answer.metadata)

    def _reached(self, commit: Commit) -> dict[str, str]:
        return {entry_property(self.sink): str(commit.position)}

    def _specs(
        self,
        schema: Schema,
        known: Sequence[PartitionSpec],
        plan: TablePlan,
        *,
        default: PartitionSpec | None = None,
    ) -> list[PartitionSpec]:
        """The specifications for files, in the order in which they are tried; the first becomes the table's default."""
        directories = plan.partition_by
        terms: Sequence[PartitionTerm] = [PartitionTerm("identity", name) for name in directories]
        if self.terms:
            columns = {schema.find_column_name(number) for number in schema.field_ids}
            now = current_names(plan.columns)
            called = [one if one.column in columns else _of(one, now.get(one.column, "")) for one in self.terms]
            terms = [term for term in called if term.column in columns]
        elif default is not None:
            return [default, *(spec for spec in known if not spec.fields and not directories)]
        given = spec_of(directory_part(terms, directories), schema, known)
        full = spec_of(terms, schema, [*known, given] if given not in known else known)
        return [full, given]

    def _snapshot(
        self,
        io: FileIO,
        metadata: TableMetadata,
        plan: TablePlan,
        commit: Commit,
        *,
        schema: Schema,
        specs: Sequence[PartitionSpec],
    ) -> tuple[Snapshot, list[DataFile]]:
        """Writes the manifests of a snapshot with the files of a commit; gives it, and the files that it has no more."""
        parent = metadata.current_snapshot()
        provider = load_location_provider(metadata.location, metadata.properties)
        writing = ManifestWriting(io, metadata, schema, metadata.new_snapshot_id(), provider.new_metadata_location)
        files = self._placed(commit.files, schema, specs)
        before, gone = _living(read_manifests(io, parent)), list[DataFile]()
        if commit.removed:
            self._check_deletes(before, commit)
            before, gone = writing.without(
                before, {f"{self.root}{path}" for path in commit.removed} | set(commit.removed)
            )
        by_number = {spec.spec_id: spec for spec in specs}
        manifests = [*writing.added(files, by_number), *writing.merged(before)]
        sequence = next_sequence_number(metadata)
        location = writing.list_of(manifests, parent=None if parent is None else parent.snapshot_id, sequence=sequence)
        found = made(
            Snapshot,
            snapshot_id=writing.snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=sequence,
            timestamp_ms=max(commit.at_ms, metadata.last_updated_ms),
            manifest_list=location,
            summary=_summary(commit, files, gone, parent, sink=self.sink),
            schema_id=schema.schema_id,
        )
        return found, gone

    def _check_deletes(self, manifests: Sequence[ManifestFile], commit: Commit) -> None:
        """Raises TableRefused where rows of files that a rewrite replaces may be deleted apart from them: they would come back."""
        if MAINTENANCE in commit.note or not any(one.content == ManifestContent.DELETES for one in manifests):
            return
        raise TableRefused(
            f"{self.address} has delete files of another writer, and the rows that they delete would come back with the files that entry "
            f"{commit.position} puts in the place of others. Let that writer rewrite its data files, then kafka-s3 iceberg rebuild."
        )

    def _placed(self, files: Sequence[TableFile], schema: Schema, specs: Sequence[PartitionSpec]) -> list[DataFile]:
        """The files as manifests list them, each by the first specification that it lies in."""
        found: list[DataFile] = []
        odd: dict[str, list[str]] = {}
        for file in files:
            for spec in specs:
                try:
                    partition = partition_of(spec, schema, file)
                except Unplaced as error:
                    odd.setdefault(str(error), []).append(file.path)
                    continue
                found.append(data_file(file, f"{self.root}{file.path}", schema, spec=spec, partition=partition))
                break
            else:
                raise TableRefused(f"{self.root}{file.path} lies in no partition of {self.address}: {'; '.join(odd)}.")
        for reason, paths in odd.items():
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            self.warn(f"{self.address}: {paths[0]}{more} without a partition of iceberg.partition.by: {reason}.")
        return found

    def _errors(self) -> AbstractContextManager[None]:
        return _errors(self.address, self.hide)


def _of(term: PartitionTerm, column: str) -> PartitionTerm:
    return PartitionTerm(term.transform, column)


def made(kind: type[M], **fields: Any) -> M:
    """A model of pyiceberg by the names of its fields: its types know them by their names in JSON alone."""
    return kind(**fields)


def _as_main(snapshot: Snapshot) -> tuple[TableUpdate, TableUpdate]:
    branch = made(
        SetSnapshotRefUpdate, ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=snapshot.snapshot_id
    )
    return AddSnapshotUpdate(snapshot=snapshot), branch


def _living(manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Those that list files which are in the table; the others tell of files that were taken out."""
    return [one for one in manifests if (one.added_files_count or 0) + (one.existing_files_count or 0)]


COUNTED: Final[Sequence[tuple[str, str, Callable[[DataFile], int]]]] = (
    ("data-files", "deleted", lambda _: 1),
    ("records", "deleted", lambda file: file.record_count),
    ("files-size", "removed", lambda file: file.file_size_in_bytes),
)


def _summary(
    commit: Commit, added: Sequence[DataFile], gone: Sequence[DataFile], parent: Snapshot | None, *, sink: str
) -> Summary:
    """What the snapshot says: counts, as all writers give them, the sink, and its entries and offsets."""
    said = {f"{PREFIX}sink": sink, f"{PREFIX}entry": str(commit.position)}
    for name, value in commit.note.items():
        text = json.dumps(value, separators=(",", ":"))
        said[f"{PREFIX}{name.removeprefix(PREFIX)}"] = text if len(text) <= NOTE_BYTES else f"{len(text)} characters"
    before = {} if parent is None or parent.summary is None else parent.summary.additional_properties
    totals: dict[str, str] = {}
    for name, less_name, of in COUNTED:
        more, less = sum(map(of, added)), sum(map(of, gone))
        totals |= {f"added-{name}": str(more)} if more else {}
        totals |= {f"{less_name}-{name}": str(less)} if less else {}
        if parent is None or f"total-{name}" in before:
            totals[f"total-{name}"] = str(int(before.get(f"total-{name}", 0)) + more - less)
    for name in ("delete-files", "position-deletes", "equality-deletes"):
        if parent is None or f"total-{name}" in before:
            totals[f"total-{name}"] = before.get(f"total-{name}", "0")
    return Summary(operation=_operation(commit, added, gone), **{**totals, **said})


def _operation(commit: Commit, added: Sequence[DataFile], gone: Sequence[DataFile]) -> Operation:
    """What readers of changes see: as many records in other files, where the log says so, are no change."""
    if not gone:
        return Operation.APPEND
    same = sum(file.record_count for file in added) == sum(file.record_count for file in gone)
    return Operation.REPLACE if same and MAINTENANCE not in commit.note else Operation.OVERWRITE


def entry_of(snapshot: Snapshot, sink: str) -> int | None:
    """The entry of a sink's log up to which its own snapshot has come, None for one of others."""
    said = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return int(said[f"{PREFIX}entry"]) if said.get(f"{PREFIX}sink") == sink and f"{PREFIX}entry" in said else None


def ancestors(table: PyTable, start: int | None) -> list[Snapshot]:
    """A snapshot and those from which it comes, newest first, as far as the metadata has them."""
    by_id = {one.snapshot_id: one for one in table.metadata.snapshots}
    found: list[Snapshot] = []
    while start is not None and (one := by_id.pop(start, None)) is not None:
        found.append(one)
        start = one.parent_snapshot_id
    return found


def expired_snapshots(table: PyTable) -> list[int]:
    """The snapshots that the metadata need not keep: neither among the newest ones of a branch nor under a tag."""
    metadata = table.metadata
    keep = max(SNAPSHOTS, int(metadata.properties.get(KEEP, 0)))
    kept = set[int]()
    for ref in metadata.refs.values():
        tagged = ref.snapshot_ref_type is SnapshotRefType.TAG
        newest = ancestors(table, ref.snapshot_id)[: 1 if tagged else keep - 1]
        kept |= {one.snapshot_id for one in newest}
    return [one.snapshot_id for one in metadata.snapshots if one.snapshot_id not in kept]


def _delete_old(table: PyTable, newer: TableMetadata) -> None:
    """Deletes metadata files that the newer metadata no longer lists; the commit counts, whether that succeeds or not."""
    kept = {one.metadata_file for one in newer.metadata_log}
    for one in table.metadata.metadata_log:
        if one.metadata_file not in kept:
            with suppress(SinkError):
                table.io.delete(one.metadata_file)


def named_metadata(table: PyTable, snapshots: Iterable[Snapshot]) -> set[str]:
    """Every list and manifest that some snapshots name."""
    some = list(snapshots)
    return {one.manifest_list for one in some} | {
        one.manifest_path for snapshot in some for one in read_manifests(table.io, snapshot)
    }


def next_sequence_number(metadata: TableMetadata) -> int:
    """The number of the next snapshot; version 1 of the format counts none."""
    return metadata.next_sequence_number()


def obstacles_of(table: PyTable) -> list[str]:
    """Why files of ours cannot be added to a table."""
    version = table.metadata.format_version
    found = [f"format version {version}, which pyiceberg does not write"] if version > FORMAT_VERSION else []
    return found + obstacles(table.metadata.schema())


FASTER: Final = (CommitFailedException, TableAlreadyExistsError, NoSuchTableError)
SILENT: Final = (CommitStateUnknownException, ServiceUnavailableError, ServerError, TooManyRequestsError, OSError)
_SILENT_NAMES: Final = frozenset({
    "OperationalError", "InterfaceError", "EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError",
})  # fmt: skip
"""Errors of libraries that not every catalog needs: of databases, and of AWS."""


@contextmanager
def _errors(address: str, hide: Callable[[str], str]) -> Iterator[None]:
    """The errors of catalogs and of pyiceberg as ours, on one line."""
    try:
        yield
    except TableError:
        raise
    except FASTER as error:
        raise TableUnavailable(f"{address}: another writer was faster; tried again. {hide(_one_line(error))}") from None
    except (SinkError, *SILENT) as error:
        raise TableUnavailable(f"{address} cannot be reached: {hide(_one_line(error))}") from None
    except Exception as error:  # whatever a catalog's client raises holds this table alone, never the sink
        if type(error).__name__ in _SILENT_NAMES:
            raise TableUnavailable(f"{address} cannot be reached: {hide(_one_line(error))}") from None
        text = hide(_one_line(error))
        raise TableRefused(
            f"{address} cannot be used ({type(error).__name__}): {text}. Look at iceberg.catalog.*."
        ) from error


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")[:500]
