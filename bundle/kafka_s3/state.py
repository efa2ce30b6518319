"""How does Spark keep the newest value of every key? Committed records by their entries, the newest a key by a window, one merge of them.

A table has the key's columns, the value's, and those that decide: `_order` (with `state.order.by`), `_offset`, `_kafka_partition`. Deleted
keys are in a second table, `<name>__deleted`, with the same deciding columns and the time at which they were noted. Where records had
placeholders for values, `_unavailable` says of which records these columns are (`run.spark.state_placeholders`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.converters.whole_records import FIELD
from kafka_s3.connect.naming.state_terms import DELETED, OWN, UNAVAILABLE, KeyTerm, Path, placeholder_octets
from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.task.table_guard.columns import RESCUED, Mode, compare_columns, read_columns
from kafka_s3.followers.state import REBUILD, Changes, StateMerger, StateRules, StateStretch, Transaction
from kafka_s3.model.errors import ConfigError, Problem, TableRefused, TableUnavailable
from kafka_s3.model.timing import now_ms
from kafka_s3.run.spark.frames import few_rows, frame_of
from kafka_s3.run.spark.launch import SparkCatalog, spark_errors
from kafka_s3.run.spark.session import duty_of_states, spark_session
from kafka_s3.run.spark.state_placeholders import fill_unavailable, placeholder_marks
from kafka_s3.run.spark.state_tables import (
    PLACE,
    WIDENING,
    Bounds,
    StateTable,
    TableFormat,
    create_state_table,
    newer,
    open_state_table,
    places,
    quoted,
    same,
)
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.run.wiring.state import state_merger
from kafka_s3.spark import SinkLocation, WantedRecords, location_of_settings, records_of_entries
from kafka_s3.store.s3 import S3Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DELETIONS: Final = "__deleted"
BUCKETS: Final = 256
BOUNDED: Final = (StringType, LongType, IntegerType)
"""Of these the least and the greatest value are the same in a condition: a time without a zone, or of an hour that comes twice, is not."""
HELD_BYTES: Final = 4 << 20
"""Of so many bytes at most, of all tables together, the deletions that the next merges may need are held."""
FORGET_EVERY_MS: Final = 3_600_000
"""So often at most, or as often as they are old, each process looks for old deletions: a statement of its own."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first key whose row is not what the log says: `table` and `log` are the rows as JSON, None where there is none."""

    key: str
    table: str | None
    log: str | None


@dataclass(frozen=True, slots=True)
class _Kept:
    """The newest record of each key; the `rows`, where they are here, so that reading them again is no work."""

    frame: DataFrame
    bounds: Bounds
    rows: pa.Table | None


@dataclass(frozen=True, slots=True)
class _Held:
    """The deletions of a table from an offset on, those among them that wait to be noted, and the columns that both have."""

    first: int
    rows: pa.Table
    waiting: pa.Table
    schema: StructType

    def frame(self, spark: SparkSession, first: int) -> DataFrame | None:
        """Those from a later offset on, None where there are none."""
        rows = self.rows.filter(pc.field(PLACE[0]) >= first)
        return few_rows(spark, rows, self.schema) if rows.num_rows else None

    def more(self, changes: pa.Table, most: int) -> _Held | None:
        """With the deleted keys among the changes, which wait. None where they are more than `most` bytes then, or their types are others.

        Rows are put together: each piece of a table takes memory of its own, also an empty one.
        """
        rows = changes.filter(changes["_deleted"]).select(self.rows.column_names)
        if rows.schema.types != self.rows.schema.types or self.rows.nbytes + rows.nbytes > most:
            return None
        rows = rows.cast(self.rows.schema)
        all_rows, waiting = (pa.concat_tables([some, rows]).combine_chunks() for some in (self.rows, self.waiting))
        return replace(self, rows=all_rows, waiting=waiting)

    def noted(self) -> _Held:
        """Once none of them waits any more."""
        return replace(self, waiting=self.rows.schema.empty_table())


@dataclass(slots=True)
class SparkStates:
    """The state tables of one sink, on a session. `location` is the sink's log and objects; tables that are made are of the `format`."""

    spark: SparkSession
    location: SinkLocation
    format: TableFormat = TableFormat.DELTA
    _kept: dict[Changes, _Kept] = field(default_factory=dict)
    _held: dict[TableName, _Held] = field(default_factory=dict)
    _forgot_ms: dict[TableName, int] = field(default_factory=dict)

    def identity(self, name: TableName) -> str | None:
        with spark_errors(name):
            table = self._table(name)
            return None if table is None else table.identity()

    def is_empty(self, name: TableName) -> bool:
        with spark_errors(name):
            table = self._table(name)
            return table is None or table.frame().isEmpty()

    @contextmanager
    def read_changes(
        self, stretch: StateStretch, rules: StateRules, *, table: TableName | None = None, alone: bool = False
    ) -> Iterator[Changes]:
        """See `StateTables`. They are kept while the body runs: by Spark's cache, where they are many."""
        with spark_errors(stretch.topic):
            found, here, left_out = self._changes(stretch, rules)
            newest = _newest(found.coalesce(1), rules) if here else _newest(found, rules).persist()
            cached = [] if here else [newest]
        try:
            with spark_errors(stretch.topic):
                living, known = newest, None
                if table is not None:
                    first = stretch.earliest if rules.order_by is None else _least(found if here else newest, "_order")
                    known = self._deletions(table, rules, places(newest.columns), first, here=here, alone=alone)
                    living = _living(newest, known, rules)
                keys = key_columns(rules)
                bounded = [key for key in keys if isinstance(found.schema[key].dataType, BOUNDED)]
                missing = reduce(lambda a, b: a | b, (F.col(quoted(key)).isNull() for key in keys))
                rows = living.toArrow() if here else None
                if rows is not None:
                    seen = _counted(rows, keys, bounded)
                else:
                    counts = _counts(missing, bounded, marked=UNAVAILABLE in living.columns)
                    seen = living.agg(*counts).collect()[0].asDict()
                if seen["lacking"]:
                    if table is not None and rules.order_by is not None and not here:
                        # `first` is that of the newest records: older ones may be older than a deletion before it
                        known = self._known(deletions_of(table), rules, places(newest.columns), None, hold=False)
                    living = fill_unavailable(living, found, known, keys, seen["lacking"])
                    rows = living.toArrow() if here else None
                    cached += [] if here else [living.persist()]
                elif UNAVAILABLE in living.columns:
                    living = living.drop(UNAVAILABLE)
                    rows = None if rows is None else rows.drop_columns([UNAVAILABLE])
                frame = living if rows is None else frame_of(self.spark, rows, living.schema)
                # of those without a key the window has left one
                keyless = found.where(missing).count() if seen["keyless"] else 0
            changes = Changes(stretch, seen["keys"], seen["deleted"], keyless, seen["example"] or "", left_out)
            bounds = {key: (seen[f"least {key}"], seen[f"greatest {key}"]) for key in bounded if changes.keys}
            if changes.keyless:
                frame, rows = frame.where(~missing), None if rows is None else rows.filter(_has_key(rows, keys))
            self._kept[changes] = _Kept(frame, bounds, rows)
            yield changes
        finally:
            self._kept = {one: kept for one, kept in self._kept.items() if one.stretch != stretch}
            for one in cached:
                one.unpersist()

    def _deletions(
        self, name: TableName, rules: StateRules, deciding: Sequence[str], first: Any, *, here: bool, alone: bool
    ) -> DataFrame | None:
        """Return the deletions that matter if no record is before `first`; None if there are none."""
        beside = deletions_of(name)
        with spark_errors(beside):
            if not alone:
                self._held.pop(beside, None)
            return self._known(beside, rules, deciding, first, hold=here and alone)

    def _known(
        self, beside: TableName, rules: StateRules, deciding: Sequence[str], first: Any, *, hold: bool
    ) -> DataFrame | None:
        """The deletions that are not before `first`: those noted in the table, and those that wait. None where there are none.

        With `hold` they are held from one merge to the next where offsets decide: a look into their table is a tenth of a merge.
        """
        held = self._held.get(beside)
        if held is not None and first is not None and held.first <= first:
            return held.frame(self.spark, first)
        table = self._table(beside)
        if table is None:
            return None
        known = table.frame().select(*map(quoted, key_columns(rules)), *deciding)
        if first is not None:  # older deletions matter not: their files need not be read
            known = known.where(F.col(deciding[0]) >= F.lit(first))
        if hold and rules.order_by is None:
            size = known.agg(F.sum(F.octet_length(F.to_json(F.struct("*"))))).collect()[0][0] or 0
            if size <= self._room(beside):
                noted = known.toArrow()
                waiting = noted.schema.empty_table() if held is None else held.waiting
                rows = pa.concat_tables([noted, waiting.cast(noted.schema)]).combine_chunks()
                self._held[beside] = held = _Held(first, rows, waiting, known.schema)
                return held.frame(self.spark, first)
        return known if held is None else known.union(few_rows(self.spark, held.waiting, held.schema))

    def _room(self, beside: TableName) -> int:
        """How many bytes of a table's deletions may be held beside those of others."""
        return HELD_BYTES - int(sum(held.rows.nbytes for name, held in self._held.items() if name != beside))

    def hold_deletions(self, name: TableName, changes: Changes) -> bool:
        held, rows = self._held.get(deletions_of(name)), self._kept[changes].rows
        more = None if held is None or rows is None else held.more(rows, self._room(deletions_of(name)))
        if more is not None:
            self._held[deletions_of(name)] = more
        return more is not None

    def remember_deletions(
        self, name: TableName, changes: Changes, rules: StateRules, *, transaction: Transaction, now_ms: int
    ) -> None:
        """Notes the deleted keys of the changes and those that wait; forgets, now and then, old ones."""
        beside, rows = deletions_of(name), self._kept[changes].rows
        held = self._held.pop(beside, None)
        with spark_errors(beside):
            frame = self._deleted(changes, rules, now_ms)
            table = self._table(beside)
            if table is None:
                create_state_table(self.spark, beside, frame, self.format, note="")
                return
            if held is not None and held.waiting.num_rows:
                waiting = few_rows(self.spark, held.waiting, held.schema)
                frame = frame.unionByName(waiting.withColumn("_deleted_at", F.lit(_time(now_ms))))
            table.add(frame, transaction)
            if now_ms - self._forgot_ms.get(beside, 0) >= min(FORGET_EVERY_MS, rules.retention_ms):
                table.forget("_deleted_at", _time(now_ms - rules.retention_ms))
                self._forgot_ms[beside] = now_ms
        held = None if held is None or rows is None else held.more(rows, self._room(beside))
        if held is not None:
            self._held[beside] = held.noted()

    def merge(self, name: TableName, changes: Changes, rules: StateRules, *, transaction: Transaction) -> int | None:
        with spark_errors(name):
            table = self._table(name)
            if table is None:
                raise TableUnavailable(f"{name} is gone; it is rebuilt from the whole log with the next merge.")
            kept = self._kept[changes]
            source = _fitted(kept.frame, table.frame().schema, name, rules.mode, table)
            size = None if kept.rows is None else max(1, kept.rows.nbytes)
            return table.merge(source, key_columns(rules), transaction, kept.bounds, size=size)

    def replace(self, name: TableName, changes: Changes, rules: StateRules, *, now_ms: int, note: str) -> None:
        """Makes the tables of these changes alone, that of the deleted keys first. What a table is otherwise, it stays."""
        beside = deletions_of(name)
        with spark_errors(beside):
            self._put(beside, self._deleted(changes, rules, now_ms), note)
        with spark_errors(name):
            self._put(name, self._kept[changes].frame.where("NOT _deleted").drop("_deleted"), note)

    def _put(self, name: TableName, frame: DataFrame, note: str) -> None:
        table = self._table(name)
        if table is None:
            create_state_table(self.spark, name, frame, self.format, note=note)
        else:
            table.replace(_fitted(frame, table.frame().schema, name, Mode.ADD, table), note)

    def first_difference(self, name: TableName, changes: Changes, rules: StateRules) -> Difference | None:
        """The first key, in the order of the buckets, whose row differs from the changes of the whole log. Raises TableError.

        Of each bucket of keys both sides give a number of rows and a hash; the rows of buckets that differ alone are compared.
        """
        with spark_errors(name):
            table = self._table(name)
            if table is None:
                raise TableRefused(f"There is no table {name}. A merge makes it: kafka-s3 state run.")
            there, keys = table.frame(), key_columns(rules)
            said = _fitted(
                self._kept[changes].frame.where("NOT _deleted").drop("_deleted"), there.schema, name, rules.mode, table
            )
            there = there.drop(UNAVAILABLE)
            said = said.select(*(F.col(quoted(one)) for one in there.columns))
            sides = {side: _digests(frame, keys) for side, frame in (("table", there), ("log", said))}
            hashes = {
                side: {row["bucket"]: (row["rows"], row["hash"]) for row in _hashes(frame).collect()}
                for side, frame in sides.items()
            }
            wrong = [n for n in range(BUCKETS) if hashes["table"].get(n) != hashes["log"].get(n)]
            return _first(sides["table"], sides["log"], wrong) if wrong else None

    def count(self, name: TableName) -> int:
        with spark_errors(name):
            table = self._table(name)
            return 0 if table is None else table.frame().count()

    def _deleted(self, changes: Changes, rules: StateRules, now_ms: int) -> DataFrame:
        frame = self._kept[changes].frame.where("_deleted")
        noted = F.lit(_time(now_ms)).alias("_deleted_at")
        return frame.select(*map(quoted, key_columns(rules)), *places(frame.columns), noted)

    def _changes(self, stretch: StateStretch, rules: StateRules) -> tuple[DataFrame, bool, tuple[str, ...]]:
        """Return all records of a stretch, with the columns of a state table and `_deleted`; whether they are here; fields left out."""
        wanted = WantedRecords(stretch.topic, stretch.first, stretch.last)
        records, local = records_of_entries(self.spark, self.location, wanted)
        own = records.schema
        if FIELD not in own.fieldNames():
            raise TableRefused(
                f"Entries {stretch.first} to {stretch.last} hold records of {stretch.topic} without {FIELD}: they were written before "
                "record.metadata.enable, so that their order is not known. Begin a new sink, or restore the topic and sink it again."
            )
        left_out = () if rules.columns else tuple(name for name in own.fieldNames() if name.lower() in OWN)
        return records.select(*self._columns(own, rules)), local, left_out

    def _columns(self, own: StructType, rules: StateRules) -> Iterator[Column]:
        keys = [self._key(term, own) for term in rules.key]
        named = {term.column.lower() for term in rules.key}
        yield from (column.alias(term.column) for term, column in zip(rules.key, keys, strict=True))
        if rules.order_by is not None:
            yield _orderable(own, rules.order_by).alias("_order")
        yield F.col(_path((FIELD, "offset"))).cast("long").alias("_offset")
        yield F.col(_path((FIELD, "partition"))).cast("int").alias("_kafka_partition")
        deleted = _deletion(own, rules)
        values: dict[str, tuple[Column, DataType]] = {}
        yield deleted.alias("_deleted")
        for path, name in _values(own, rules):
            if name.lower() in OWN and rules.columns:
                raise TableRefused(
                    f"The records have a field {name}, which is a column of the state itself. Leave it out by state.columns."
                )
            if name.lower() in named or name.lower() in OWN:
                continue
            kind = _type_of(own, path)
            assert kind is not None
            values[name] = F.col(_path(path)), kind
            yield values[name][0].alias(name)
        marks = placeholder_marks(values, placeholder_octets(rules.placeholder))
        if marks is not None:
            yield F.when(~deleted, marks).alias(UNAVAILABLE)

    def _key(self, term: KeyTerm, own: StructType) -> Column:
        if not term.of_record:
            return F.col(_path(term.path)) if _type_of(own, term.path) is not None else F.lit(None).cast("string")
        key = F.col(_path((FIELD, "key")))
        if not term.path:
            return key
        return F.get_json_object(key.cast("string"), "$" + "".join(f"['{one}']" for one in term.path))

    def _table(self, name: TableName) -> StateTable | None:
        return open_state_table(self.spark, name, self.format)


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def deletions_of(name: TableName) -> TableName:
    """The table of the deleted keys beside a state table."""
    return TableName((*name.parts[:-1], f"{name.parts[-1]}{DELETIONS}"))


def key_columns(rules: StateRules) -> list[str]:
    """The columns of a key."""
    return [term.column for term in rules.key]


def _living(newest: DataFrame, deletions: DataFrame | None, rules: StateRules) -> DataFrame:
    """Return the records that are not older than the deletion of their key."""
    if deletions is None:
        return newest
    keys = key_columns(rules)
    on = F.expr(f"{same(keys, other='d')} AND NOT s._deleted AND NOT {newer(newest.columns, than='d')}")
    return newest.alias("s").join(deletions.alias("d"), on, "left_anti")


def _newest(records: DataFrame, rules: StateRules) -> DataFrame:
    keys = [F.col(quoted(key)) for key in key_columns(rules)]
    order = [F.col(one).desc_nulls_last() for one in places(records.columns)]
    ranked = records.withColumn("_rank", F.row_number().over(Window.partitionBy(*keys).orderBy(*order)))
    return ranked.where("_rank = 1").drop("_rank")


def _least(records: DataFrame, column: str) -> Any:
    """The least value of a column, None where a record has none, or its type has no bounds."""
    if not isinstance(records.schema[column].dataType, BOUNDED):
        return None
    all_have = F.count(column) == F.count("*")
    return records.agg(F.when(all_have, F.min(column))).collect()[0][0]


def _counts(missing: Column, bounded: Sequence[str], *, marked: bool) -> Iterator[Column]:
    """How many keys there are, how many of them deleted; records without a key, and where one is; which columns lack a value in some
    record, if that is `marked`; the bounds of keys.
    """
    where = F.concat_ws(" ", F.lit("partition"), F.col("_kafka_partition"), F.lit("offset"), F.col("_offset"))
    yield F.count_if(~missing).alias("keys")
    yield F.count_if(~missing & F.col("_deleted")).alias("deleted")
    yield F.count_if(missing).alias("keyless")
    yield F.min(F.when(missing, where)).alias("example")
    lacking = F.array_distinct(F.flatten(F.collect_set(UNAVAILABLE))) if marked else F.array()
    yield lacking.alias("lacking")
    for key in bounded:
        yield F.min(quoted(key)).alias(f"least {key}")
        yield F.max(quoted(key)).alias(f"greatest {key}")


def _counted(rows: pa.Table, keys: Sequence[str], bounded: Sequence[str]) -> dict[str, Any]:
    """What `_counts` asks, of rows that are here: a job less."""
    has_key = _has_key(rows, keys)
    known, keyless = rows.filter(has_key), rows.filter(pc.invert(has_key))
    example = keyless.slice(0, 1).select(["_kafka_partition", "_offset"]).to_pylist()
    found: dict[str, Any] = {
        "keys": known.num_rows,
        "deleted": known.filter(known["_deleted"]).num_rows,
        "keyless": keyless.num_rows,
        "example": "".join(f"partition {one['_kafka_partition']} offset {one['_offset']}" for one in example),
        "lacking": [],
    }
    if UNAVAILABLE in rows.column_names:
        found["lacking"] = pc.unique(pc.list_flatten(rows[UNAVAILABLE])).to_pylist()
    for key in bounded:
        ends = pc.min_max(known[key]).as_py()
        found |= {f"least {key}": ends["min"], f"greatest {key}": ends["max"]}
    return found


def _has_key(rows: pa.Table, keys: Sequence[str]) -> pa.ChunkedArray:
    return reduce(pc.and_, (pc.is_valid(rows[key]) for key in keys))


def _path(path: Sequence[str]) -> str:
    return ".".join(map(quoted, path))


def _type_of(own: StructType, path: Path) -> DataType | None:
    """The type of a field, None where the records have none of that path. Raises TableRefused where it is within a text."""
    found: DataType = own
    for name in path:
        if isinstance(found, StringType):
            raise TableRefused(
                f"The records have no field {'.'.join(path)}: what is before .{name} is text, as nested JSON without types is. Have it as "
                "a column (the transforms Flatten, or ExtractNewRecordState with add.fields), or give the values a schema."
            )
        if not isinstance(found, StructType) or name not in found.fieldNames():
            return None
        found = found[name].dataType
    return found


def _orderable(own: StructType, path: Path) -> Column:
    """The deciding field; whole numbers of every size are long, so that the column's type stays."""
    kind = _type_of(own, path)
    if kind is None:
        return F.lit(None).cast("long")
    if isinstance(kind, StructType | ArrayType | MapType):
        raise TableRefused(
            f"{'.'.join(path)} (state.order.by) is not a single value. Name a field with a number, a time or a text."
        )
    column = F.col(_path(path))
    return column.cast("long") if isinstance(kind, ByteType | ShortType | IntegerType | LongType) else column


def _deletion(own: StructType, rules: StateRules) -> Column:
    marks = [
        F.coalesce(F.col(_path(mark.path)).cast("string") == F.lit(mark.text), F.lit(False))
        for mark in rules.deletes
        if _type_of(own, mark.path) is not None
    ]
    return reduce(lambda a, b: a | b, marks, F.lit(False))


def _values(own: StructType, rules: StateRules) -> Iterator[tuple[Path, str]]:
    """The wanted columns of the value: each with its path and its name."""
    if not rules.columns:
        yield from (((name,), name) for name in own.fieldNames() if name not in (FIELD, DELETED))
        return
    for path in rules.columns:
        if path[-1] != "*":
            if _type_of(own, path) is not None:
                yield path, path[-1]
            continue
        inside = _type_of(own, path[:-1])
        if isinstance(inside, StructType):
            yield from (((*path[:-1], name), name) for name in inside.fieldNames())


def _fitted(source: DataFrame, table: StructType, name: TableName, mode: Mode, target: StateTable) -> DataFrame:
    """The source with the table's columns, and those new ones that it may get. Raises TableRefused."""
    own = [one for one in source.columns if one not in ("_deleted", UNAVAILABLE)]
    origins = _origins(source, table)
    table = StructType([one for one in table if one.name != UNAVAILABLE])
    found = compare_columns(
        read_columns(table.json()).plain(), read_columns(source.select(*map(quoted, own)).schema.json()).plain()
    )
    refused = [*found.conflicts.values()]
    if found.wider and (mode is not Mode.ADD or not target.widens()):
        refused += found.wider.values()
    if mode is Mode.FAIL:
        refused += found.new.values()
    if mode is Mode.RESCUE:  # what is new within a struct has no text of its own
        refused += [text for column, text in found.new.items() if column not in own]
    if refused:
        way = f"ALTER TABLE {name} SET TBLPROPERTIES ('{WIDENING}' = 'true') lets types widen; or take columns out by state.columns"
        raise TableRefused(
            f"{name} cannot take {'; '.join(refused)} (state.schema.evolution.mode={mode}). {way}, or drop the table. {REBUILD}"
        )
    wanted = table if mode is not Mode.ADD else StructType.fromJson(json.loads(found.columns.schema_string()))
    types = {one.name: one.dataType for one in source.schema}
    columns = [
        _shaped(F.col(quoted(one.name)), types.get(one.name), one.dataType).alias(one.name)
        for one in wanted
        if one.name != RESCUED
    ]
    rescued = _rescued([one for one in own if one not in table.fieldNames()]) if mode is Mode.RESCUE else []
    marks = [F.col("_deleted")] if "_deleted" in source.columns else []
    return source.select(*columns, *rescued, *origins, *marks)


def _origins(source: DataFrame, table: StructType) -> list[Column]:
    """Return the column `_unavailable`, if source or table has it, in the table's type."""
    kinds = {one.name: one.dataType for one in (*source.schema, *table)}
    if UNAVAILABLE not in kinds:
        return []
    place = StructType().add("_order", kinds["_order"]) if "_order" in source.columns else StructType()
    place = place.add(PLACE[0], LongType()).add(PLACE[1], IntegerType())
    kind = kinds[UNAVAILABLE] if UNAVAILABLE in table.names else MapType(StringType(), place)
    if UNAVAILABLE not in source.columns:
        return [F.lit(None).cast(kind).alias(UNAVAILABLE)]
    return [_shaped(F.col(UNAVAILABLE), source.schema[UNAVAILABLE].dataType, kind).alias(UNAVAILABLE)]


def _shaped(column: Column, kind: DataType | None, wanted: DataType) -> Column:
    """A column in a wider type, whose structs may have more members, or fewer where new ones are left out."""
    if kind is None:
        return F.lit(None).cast(wanted)
    if isinstance(kind, StructType) and isinstance(wanted, StructType):
        known = {one.name: one.dataType for one in kind}
        members = [
            _shaped(column.getField(one.name), known.get(one.name), one.dataType).alias(one.name) for one in wanted
        ]
        return F.when(column.isNotNull(), F.struct(*members))
    if isinstance(kind, ArrayType) and isinstance(wanted, ArrayType):
        return F.transform(column, lambda one: _shaped(one, kind.elementType, wanted.elementType))
    if isinstance(kind, MapType) and isinstance(wanted, MapType):
        return F.transform_values(column, lambda _, one: _shaped(one, kind.valueType, wanted.valueType))
    return column.cast(wanted)


def _rescued(new: Sequence[str]) -> list[Column]:
    """What has no column, as JSON in a column of its own; null where nothing is."""
    if not new:
        return [F.lit(None).cast("string").alias(RESCUED)]
    text = F.to_json(F.struct(*(F.col(quoted(one)) for one in new)))
    return [F.when(text != "{}", text).alias(RESCUED)]


def _digests(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Each row as its key and itself, in JSON, with the bucket of the key and the row's hash."""
    key = F.to_json(F.struct(*(F.col(quoted(one)) for one in keys)))
    row = F.to_json(F.struct(*(F.col(quoted(one)) for one in sorted(frame.columns))))
    texts = frame.select(key.alias("key"), row.alias("row"))
    return texts.withColumns({"bucket": F.pmod(F.xxhash64("key"), F.lit(BUCKETS)), "hash": F.xxhash64("row")})


def _hashes(digests: DataFrame) -> DataFrame:
    return digests.groupBy("bucket").agg(F.count("*").alias("rows"), F.bit_xor("hash").alias("hash"))


def _first(table: DataFrame, log: DataFrame, wrong: Sequence[int]) -> Difference | None:
    def side(frame: DataFrame, name: str) -> DataFrame:
        return frame.where(F.col("bucket").isin(*wrong)).select("bucket", "key", F.col("row").alias(name))

    both = side(table, "there").join(side(log, "said"), ["bucket", "key"], "full_outer")
    rows = both.where("NOT there <=> said").orderBy("bucket", "key").limit(1).collect()
    return Difference(rows[0]["key"], rows[0]["there"], rows[0]["said"]) if rows else None


# ------------------------------------------------------------ beside a sink: the command and the job


def states_on_spark(settings: Settings, spark: SparkSession) -> SparkStates:
    """Return what keeps a sink's state tables. Raises ConfigError when they are Delta's, and this Spark knows no Delta."""
    kind = TableFormat(settings.text("state.table.format"))
    if kind is TableFormat.DELTA and (missing := SparkCatalog(spark, "").lacks()) is not None:
        raise ConfigError([Problem("state.enable", "true", f"cannot keep tables here. {missing}")])
    return SparkStates(spark, location_of_settings(settings), kind)


@dataclass(frozen=True, slots=True)
class StateComparison:
    """A state table beside what the log says through entry `position`; `keys` are those of the log."""

    topic: str
    position: int
    keys: int
    difference: Difference | None

    def text(self) -> str:
        """The comparison for people."""
        if self.difference is None:
            return f"the table holds what the log says through entry {self.position}, {self.keys:,} keys."
        one = self.difference
        return (
            f"key {one.key} differs: the table has {one.table or 'no row'}, the log through entry {self.position} says "
            f"{one.log or 'no row'}. {REBUILD}"
        )


@dataclass(frozen=True, slots=True)
class OpenStateTables:
    """The state tables of one sink, ready to be kept."""

    merger: StateMerger
    states: SparkStates
    log: CommitLog
    store: S3Store

    @property
    def topics(self) -> list[str]:
        """The topics that the log knows."""
        return sorted({tp.topic for tp in self.log.state.progress})

    def compare(self, topic: str) -> StateComparison:
        """Compares a topic's table with the whole log. Raises TableError, also where a merge came in between."""
        note = self.merger.notes.read(topic)
        if note is None or note.rebuilding:
            raise TableRefused(f"Topic {topic} has no state table that is complete. kafka-s3 state run makes it.")
        rules, name = self.merger.rules, self.merger.names.of(topic)
        with self.states.read_changes(StateStretch(topic, 0, note.position), rules) as changes:
            difference = self.states.first_difference(name, changes, rules)
        if self.merger.notes.read(topic) != note:
            raise TableRefused(f"{name} was changed by a merge meanwhile. Compare it again, or pause the sink before.")
        return StateComparison(topic, note.position, changes.keys - changes.deleted, difference)

    def close(self) -> None:
        """Closes the bucket; the session is left to whoever began it."""
        self.store.close()


def opened_states(settings: Settings, *, warn: Callable[[str], None]) -> OpenStateTables:
    """Open them on the session that is there, or a local one.

    Raises ConfigError when Spark knows no Delta, LocalServiceError when no session starts, LogDamaged, StorageError.
    """
    store = S3Store(store_options(settings))
    log = CommitLog(store, state_paths(settings), clock_ms=now_ms)
    log.load()
    tables = states_on_spark(
        settings, spark_session(name=f"kafka-s3 state of {settings.name}", duty=duty_of_states(settings))
    )
    merger = state_merger(settings, store, tables, clock_ms=now_ms, warn=warn)
    return OpenStateTables(merger, tables, log, store)
