"""How is a topic's table put together? Its objects, the columns they have, and the directories above them."""

from __future__ import annotations

from kafka_s3.engine.task.table_guard.columns import TableColumns
from kafka_s3.followers.ddl.columns import FoundColumns, object_columns
from kafka_s3.followers.ddl.directories import clashes, partition_keys
from kafka_s3.followers.ddl.table import ExternalTable, TopicObjects
from kafka_s3.model.files import Role
from kafka_s3.store.store import ObjectStore

_BESIDE = {Role.KEY: "keys", Role.HEADER: "headers"}


def table_of(
    store: ObjectStore, objects: TopicObjects, *, bucket: str, delta: bool | None, known: TableColumns | None = None
) -> ExternalTable:
    """The table over a topic's objects. `known` are columns that need not be looked for.

    `delta` says whether the sink keeps a Delta table there; None: the bucket is asked. Raises NoTable where the objects cannot be a
    table, StorageError.
    """
    found = FoundColumns(known) if known is not None else object_columns(store, objects.newest)
    is_delta = has_delta_log(store, objects) if delta is None else delta
    keys = partition_keys(objects.encoded_partitions, found.columns.fields)
    hidden = clashes(keys, found.columns.fields)
    shown = {name: one for name, one in found.columns.fields.items() if name not in hidden}
    return ExternalTable(
        topic=objects.topic,
        location=f"s3://{bucket}/{objects.folder}",
        format=objects.newest[0].format,
        extension=objects.extension,
        columns=TableColumns(shown),
        keys=keys,
        delta=is_delta,
        avro_schema=found.avro_schema,
        notes=() if is_delta else tuple(_notes(objects, hidden, found.columns.omitted)),
    )


def has_delta_log(store: ObjectStore, objects: TopicObjects) -> bool:
    """Whether a Delta table lies over the topic's objects. Raises StorageError."""
    return next(iter(store.list(f"{objects.folder}_delta_log/")), None) is not None


def _notes(objects: TopicObjects, hidden: list[str], omitted: tuple[str, ...]) -> list[str]:
    notes = [
        f"{name} is a directory and a column of the records: the table has the directory's value, the other stays in the objects."
        for name in hidden
    ]
    notes += [f"Not in the table: {text}." for text in omitted]
    if objects.sidecars:
        names = " and ".join(_BESIDE[role] for role in objects.sidecars)
        notes.append(
            f"Objects with {names} lie in the same folders. DuckDB's statement leaves them out; other engines read them as values."
        )
    return notes
