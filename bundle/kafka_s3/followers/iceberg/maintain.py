"""How is an Iceberg table looked after? It is compared with log and bucket, made again from the log, and freed of metadata nobody needs.

They agree where every object of the log is in its topic's table, and every file of the table in the bucket. A rebuild is one commit of what
differs: objects of the log that are missing go in, all other files go out, and no object is deleted.

Maintenance deletes files of the table's own metadata folder alone: manifests, and lists of them, which no snapshot of the table names any
more and which are old enough that no commit in progress can still name them. The follower drops snapshots beyond the newest with each
commit, so this is what other engines' `expire_snapshots` would do; that is switched off (`gc.enabled=false`), for it deletes objects, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.findings import DifferenceKind, Rebuilt, TableCheck, TableDifference, absent_objects
from kafka_s3.followers.delta.follower import EntryFiles, files_of_log
from kafka_s3.followers.delta.planner import Commit, TablePlanner
from kafka_s3.followers.iceberg.bucket_io import bucket_and_key
from kafka_s3.followers.iceberg.manifests import read_manifests
from kafka_s3.followers.iceberg.table import MAINTENANCE, REMEDY, IcebergTable, named_metadata
from kafka_s3.model.errors import ObjectMissing, TableError, TableRefused
from kafka_s3.store.store import ObjectStore

REBUILD: Final = "kafka-s3 iceberg rebuild"
HOUR_MS: Final = 3_600_000
IN_PROGRESS_HOURS: Final = 24
"""A file of metadata that is younger may be one of a commit that is being made."""
_OURS: Final = re.compile(r"(snap-\d+-\d+-[0-9a-f-]{36}|[0-9a-f-]{36}-m\d+)\.avro")


def check_table(log: CommitLog, planner: TablePlanner, table: IcebergTable, *, topic: str) -> TableCheck:
    """Compares one topic's table. Raises StorageError, CommitError; what the table itself refuses is a finding."""
    entries = files_of_log(log, topic)
    ours = {planner.layout.path(file): file for one in entries for file in one.files}
    found = TableCheck(topic, table.address, files=len(ours), records=sum(file.records for file in ours.values()))
    try:
        state = table.state()
        if state is None:
            if ours:
                text = f"The log has {len(ours)} objects, but there is no table. A run of the sink makes it, as does iceberg rebuild."
                found.findings.append(TableDifference(DifferenceKind.NO_TABLE, table.address, text))
            return found
        held = table.files()
    except TableError as error:
        found.findings.append(TableDifference(DifferenceKind.REFUSED, table.address, str(error)))
        return found
    found.version, found.position = state.version, state.position
    for obstacle in state.obstacles:
        text = f"The table has {obstacle}, so that objects cannot be added as they are. {REMEDY}"
        found.findings.append(TableDifference(DifferenceKind.REFUSED, table.address, text))
    found.findings += _behind(state.position, entries, address=table.address)
    found.findings += absent_objects(found, ours, held, planner=planner, state=state, rebuild=REBUILD)
    found.findings += _in_bucket(planner, held, topic=topic)
    return found


def _behind(position: int, entries: list[EntryFiles], *, address: str) -> list[TableDifference]:
    if not entries or entries[-1].version <= position:
        return []
    text = (
        f"The table has come to entry {position}, the log to {entries[-1].version}. A run of the sink lets it catch up."
    )
    return [TableDifference(DifferenceKind.BEHIND, address, text)]


def _in_bucket(
    planner: TablePlanner, held: Mapping[str, tuple[int, int | None]], *, topic: str
) -> list[TableDifference]:
    """Files below the topic's folder that the bucket lacks, or has in another size; those of other writers elsewhere are theirs to keep."""
    folder = planner.layout.folder(topic)
    there = {info.key.removeprefix(folder): info.size for info in planner.store.list(folder)}
    found = []
    for path, (size, _) in sorted(held.items()):
        if "://" in path:
            continue
        if path not in there:
            text = f"The table has a file that the bucket has not: reading the table fails. Restore it, or {REBUILD}."
            found.append(TableDifference(DifferenceKind.MISSING_OBJECT, f"{folder}{path}", text))
        elif there[path] != size:
            text = f"The object has {there[path]} bytes, the table says {size}. Restore it from a bucket version, or {REBUILD}."
            found.append(TableDifference(DifferenceKind.WRONG_SIZE, f"{folder}{path}", text))
    return found


def rebuild(
    log: CommitLog, planner: TablePlanner, table: IcebergTable, *, topic: str, clock_ms: Callable[[], int]
) -> Rebuilt:
    """Puts a topic's table right in one commit. Raises TableError, StorageError; ObjectMissing where the table would lose records."""
    entries = files_of_log(log, topic)
    state = table.state()
    if state is not None and state.obstacles:
        raise TableRefused(f"{table.address} has {', '.join(state.obstacles)}. {REMEDY}")
    if not entries:
        return Rebuilt(topic)
    store, layout = planner.store, planner.layout
    held = table.files() if state is not None else {}
    files = [file for one in entries for file in one.files]
    gone = {file.key for file in files if store.head(file.key) is None}
    wanted = {layout.path(file) for file in files if file.key not in gone}
    removed = [path for path in held if path not in wanted]
    if gone and any("://" in path for path in removed):
        raise ObjectMissing(
            f"{len(gone)} objects of the log are gone ({min(gone)}, for example); files of other writers may hold their records, "
            "and would be taken out. Nothing was changed. Restore the objects, or drop the table: the sink makes it again without them."
        )
    lacking = [file for file in files if layout.path(file) not in held]
    plan = planner.plan(
        state, lacking, modified_ms={file.key: one.committed_ms for one in entries for file in one.files}
    )
    note = {"entries": [entries[0].version, entries[-1].version], MAINTENANCE: "rebuild"}
    commit = Commit(entries[-1].version, plan.files, removed, note, clock_ms())
    if state is not None or plan.files:
        table.commit(state, plan, commit)
    return Rebuilt(topic, len(plan.files), len(removed), plan.left_out)


@dataclass(frozen=True, slots=True)
class Tidied:
    """What maintenance found of one table, and what it deleted: locations of metadata that no snapshot names."""

    topic: str
    snapshots: int
    manifests: int
    metadata_bytes: int
    unused: tuple[str, ...] = ()
    deleted: int = 0


def tidy(
    table: IcebergTable, store: Callable[[str], ObjectStore], *, topic: str, now_ms: int, dry_run: bool
) -> Tidied | None:
    """Deletes metadata that no snapshot names, of yesterday and before; None where there is no table. Raises TableError, StorageError."""
    if table.state() is None:
        return None
    held = table.table
    bucket, prefix = bucket_and_key(held.location_provider().new_metadata_location(""))
    there = {info.key: info for info in store(bucket).list(prefix)}
    named = {bucket_and_key(location)[1] for location in named_metadata(held, held.metadata.snapshots)}
    unused = tuple(
        key
        for key, info in sorted(there.items())
        if key not in named
        and _OURS.fullmatch(key.removeprefix(prefix))
        and info.modified_ms < now_ms - IN_PROGRESS_HOURS * HOUR_MS
    )
    for key in () if dry_run else unused:
        store(bucket).delete(key)
    metadata = held.metadata
    size = there.get(bucket_and_key(held.metadata_location)[1])
    manifests = len(read_manifests(held.io, metadata.current_snapshot()))
    return Tidied(
        topic, len(metadata.snapshots), manifests, 0 if size is None else size.size, unused, 0 if dry_run else len(unused)
    )  # fmt: skip
