"""What does the metadata of an Iceberg table say? Its newest snapshots, the entries that each holds, its schemas and partitions.

The sink notes where the file lies: which one is the newest only the catalog knows, and the dashboard asks none.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_s3.model.errors import StorageError
from kafka_s3.store.store import ObjectStore
from kafka_s3_dashboard.reading.delta import ColumnsAt, TableVersion

GZIP: Final = b"\x1f\x8b"
SINK: Final = "kafka-s3.sink"


@dataclass(frozen=True, slots=True)
class IcebergMetadata:
    """A table: its snapshots in their order (`version` is the sequence number), its schemas (`version` is their id), the current one last.

    `files`, `rows` and `bytes` are those of the newest snapshot, None where it does not say. `partitions` are the terms by which new files
    are partitioned.
    """

    name: str = ""
    snapshots: tuple[TableVersion, ...] = ()
    schemas: tuple[ColumnsAt, ...] = ()
    partitions: tuple[str, ...] = ()
    files: int | None = None
    rows: int | None = None
    bytes: int | None = None
    metadata_bytes: int = 0


def read_metadata(store: ObjectStore, bucket: str, location: str, sink: str) -> IcebergMetadata:
    """The table whose metadata lies at a location. Raises StorageError, with the reason where it cannot be read."""
    where, _, key = location.partition("://")[2].partition("/")
    if where != bucket:
        raise StorageError(
            f"The metadata of the table lies in another bucket, {where}, which the dashboard does not read."
        )
    content = store.get(key)
    try:
        return metadata_of(content, sink)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise StorageError(f"{location} cannot be read ({type(error).__name__}).") from error


def metadata_of(content: bytes, sink: str) -> IcebergMetadata:
    """A table by the file of its metadata. Raises ValueError, KeyError, TypeError where it is none."""
    document = json.loads(gzip.decompress(content) if content.startswith(GZIP) else content)
    snapshots = sorted(document.get("snapshots", []), key=lambda one: one.get("sequence-number", 0))
    newest = [one for one in snapshots if one["snapshot-id"] == document.get("current-snapshot-id")]
    totals = newest[0].get("summary", {}) if newest else {}
    current = document["current-schema-id"]
    schemas = sorted(document["schemas"], key=lambda one: (one["schema-id"] == current, one["schema-id"]))
    return IcebergMetadata(
        str(document.get("location", "")),
        tuple(_snapshot(one, sink) for one in snapshots),
        tuple(ColumnsAt(one["schema-id"], tuple(_types(one))) for one in schemas),
        tuple(_terms(document, schemas[-1])),
        _number(totals.get("total-data-files")),
        _number(totals.get("total-records")),
        _number(totals.get("total-files-size")),
        len(content),
    )


def _snapshot(one: Mapping[str, Any], sink: str) -> TableVersion:
    said = one.get("summary", {})
    first, last = json.loads(said.get("kafka-s3.entries", "[-1, -1]")) if said.get(SINK) == sink else (-1, -1)
    added, removed, rows, size = (
        _number(said.get(name)) or 0
        for name in ("added-data-files", "deleted-data-files", "added-records", "added-files-size")
    )
    return TableVersion(
        int(one.get("sequence-number", 0)), int(one["timestamp-ms"]), str(said.get("operation", "")), first, last, added, removed,
        rows, size,
    )  # fmt: skip


def _types(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for one in schema["fields"]:
        kind = one["type"]
        yield str(one["name"]), kind if isinstance(kind, str) else json.dumps(kind, separators=(",", ":"))


def _terms(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    names = {one["id"]: one["name"] for one in schema["fields"]}
    specs = {one["spec-id"]: one for one in document.get("partition-specs", [])}
    for one in specs.get(document.get("default-spec-id"), {}).get("fields", []):
        source = names.get(one["source-id"], one["name"])
        yield source if one["transform"] == "identity" else f"{one['transform']} of {source}"


def _number(text: Any) -> int | None:
    return int(text) if isinstance(text, str) and text.isdigit() else None
