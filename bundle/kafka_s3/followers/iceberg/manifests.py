"""How do files come into a table's manifests, so that a commit costs the same in a table of ten files and of a million?

A snapshot is a list of manifests, each of which lists data files. A commit writes one manifest with its own files and a list; the others
stay as they are. As soon as `MERGED` manifests are about equally large, they become one: their number grows with the logarithm of the files
up to manifests of `FULL` files, which stay for good. Opening a manifest costs as much as sixty of its files (5 ms), so that few are merged
at a time, and never more than hold `2 * FULL` files. Manifests of deletes, which only other writers make, are never touched.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg.conversions import to_bytes
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DEFAULT_READ_VERSION,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from kafka_s3.followers.delta.planner import TableFile
from kafka_s3.followers.iceberg.columns import leaves
from kafka_s3.followers.iceberg.partitioning import from_text

BOUNDS: Final = tuple(
    place
    for place, member in enumerate(DATA_FILE_TYPE[DEFAULT_READ_VERSION].fields)
    if member.name in ("lower_bounds", "upper_bounds")
)
MERGED: Final = 10
FULL: Final = 200


def data_file(file: TableFile, location: str, schema: Schema, *, spec: PartitionSpec, partition: Record) -> DataFile:
    """A file as manifests list it, with the statistics that Delta's rules leave: no bound that could mislead a reader."""
    statistics = json.loads(file.stats)
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for path, one in leaves(schema):
        count = _inside(statistics["nullCount"], path)
        if count is not None:
            nulls[one.field_id] = count
        for bounds, group in ((lower, "minValues"), (upper, "maxValues")):
            value = _inside(statistics[group], path)
            if value is not None:
                assert isinstance(one.field_type, PrimitiveType)
                bounds[one.field_id] = to_bytes(one.field_type, from_text(value, one.field_type))
    made = DataFile.from_args(
        content=DataFileContent.DATA, file_path=location, file_format=FileFormat.PARQUET, partition=partition,
        record_count=statistics["numRecords"], file_size_in_bytes=file.size, column_sizes=None,
        value_counts=dict.fromkeys(nulls, statistics["numRecords"]), null_value_counts=nulls, nan_value_counts=None,
        lower_bounds=lower, upper_bounds=upper, key_metadata=None, split_offsets=None, equality_ids=None, sort_order_id=None,
    )  # fmt: skip
    made.spec_id = spec.spec_id
    return made


def _inside(values: Any, path: Iterable[str]) -> Any:
    for part in path:
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def read_manifests(io: FileIO, snapshot: Snapshot | None) -> list[ManifestFile]:
    """The manifests of a snapshot, in its order."""
    return [] if snapshot is None else list(read_manifest_list(io.new_input(snapshot.manifest_list)))


@dataclass(slots=True)
class ManifestWriting:
    """The manifests of one new snapshot; `location_of` gives the location of a file in the table's folder of metadata."""

    io: FileIO
    metadata: TableMetadata
    schema: Schema
    snapshot_id: int
    location_of: Callable[[str], str]
    commit_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    written: int = 0

    def added(self, files: Sequence[DataFile], specs: Mapping[int, PartitionSpec]) -> list[ManifestFile]:
        """New manifests of new files, one a specification."""
        made = []
        for number in sorted({file.spec_id for file in files}):
            entries = [self._entry(file) for file in files if file.spec_id == number]
            made.append(self._write(specs[number], entries))
        return made

    def without(
        self, manifests: Iterable[ManifestFile], removed: Set[str]
    ) -> tuple[list[ManifestFile], list[DataFile]]:
        """The manifests, those that list files whose locations are `removed`, and these files."""
        kept: list[ManifestFile] = []
        gone: list[DataFile] = []
        for manifest in manifests:
            entries = manifest.fetch_manifest_entry(self.io) if manifest.content == ManifestContent.DATA else []
            found = [entry for entry in entries if entry.data_file.file_path in removed]
            if not found:
                kept.append(manifest)
                continue
            gone += [entry.data_file for entry in found]
            for entry in entries:
                entry.status = ManifestEntryStatus.DELETED if entry in found else ManifestEntryStatus.EXISTING
                if entry in found:
                    entry.snapshot_id = self.snapshot_id
                    for place in BOUNDS:  # values of records that may have been erased
                        entry.data_file[place] = None
            kept.append(self._write(self.metadata.specs()[manifest.partition_spec_id], entries))
        return kept, gone

    def merged(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """The manifests, with those put together of which there are enough of one size."""
        groups: dict[tuple[int, int], list[ManifestFile]] = {}
        for manifest in manifests:
            if manifest.content == ManifestContent.DATA and (size := _files(manifest)) < FULL:
                groups.setdefault((manifest.partition_spec_id, 0 if size < MERGED else 1), []).append(manifest)
        group = next((group for _, group in sorted(groups.items()) if len(group) >= MERGED), None)
        if group is None:
            return list(manifests)
        due = smallest(group)
        entries = [entry for manifest in due for entry in manifest.fetch_manifest_entry(self.io)]
        for entry in entries:
            entry.status = ManifestEntryStatus.EXISTING
        rest = [manifest for manifest in manifests if not any(manifest is one for one in due)]
        spec = self.metadata.specs()[due[0].partition_spec_id]
        return [*([self._write(spec, entries)] if entries else []), *rest]

    def list_of(self, manifests: list[ManifestFile], *, parent: int | None, sequence: int) -> str:
        """Writes the list of the snapshot's manifests; gives its location."""
        location = self.location_of(f"snap-{self.snapshot_id}-0-{self.commit_id}.avro")
        version = min(self.metadata.format_version, 2)
        output = self.io.new_output(location)
        with write_manifest_list(version, output, self.snapshot_id, parent, sequence, self._codec) as writer:
            writer.add_manifests(manifests)
        return location

    def _entry(self, file: DataFile) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, sequence_number=None, file_sequence_number=None, data_file=file
        )  # fmt: skip

    def _write(self, spec: PartitionSpec, entries: Iterable[ManifestEntry]) -> ManifestFile:
        version = min(self.metadata.format_version, 2)
        with write_manifest(version, spec, self.schema, self._output(), self.snapshot_id, self._codec) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _output(self) -> OutputFile:
        self.written += 1
        return self.io.new_output(self.location_of(f"{self.commit_id}-m{self.written - 1}.avro"))

    @property
    def _codec(self) -> Any:
        key, default = TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        return self.metadata.properties.get(key, default)


def smallest(group: Iterable[ManifestFile]) -> list[ManifestFile]:
    """The smallest manifests that hold up to `2 * FULL` files together; two at least, for each holds less than `FULL`."""
    found: list[ManifestFile] = []
    for manifest in sorted(group, key=_files):
        if sum(map(_files, found)) + _files(manifest) > 2 * FULL:
            break
        found.append(manifest)
    return found


def _files(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
