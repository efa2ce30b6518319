"""How does Spark change the rows of a state table in one transaction? By delta-spark's `DeltaTable.merge`; those of Iceberg's by `MERGE`.

A source has a row a key, with the columns of the target and `_deleted`, which says which keys go. Rows are changed by newer ones alone
(`newer`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructField, StructType

from kafka_s3.connect.naming.state_terms import UNAVAILABLE
from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.followers.state import Transaction
from kafka_s3.model.errors import TableRefused
from kafka_s3.run.spark.frames import session_settings
from kafka_s3.run.spark.session import is_given

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

PLACE: Final = ("_offset", "_kafka_partition")
"""Iceberg has a column `_partition` of its own in every table."""
WIDENING: Final = "delta.enableTypeWidening"
SETTING: Final = "spark.databricks.delta."
SUMMARY: Final = "snapshot-property."
OWN: Final = "kafka-s3.state"
"""How properties of Iceberg tables begin that are ours."""
MERGE_ON_READ: Final = {"delta.enableDeletionVectors": "true"}
"""A merge then writes the changed rows alone."""
COPY_ON_WRITE: Final = {f"write.{kind}.mode": "copy-on-write" for kind in ("merge", "update", "delete")}
"""Many readers know no files of deletions."""


Bounds = Mapping[str, tuple[Any, Any]]
"""The least and the greatest value of key columns."""
HASH_JOIN: Final = {"spark.sql.join.preferSortMergeJoin": "false"}
"""Where the source is small, the rows of all files that are rewritten need not be sorted to be joined with it. Spark looks at its size."""
FILTER: Final = "spark.sql.optimizer.runtime.bloomFilter."
REPEATABLE: Final = {
    # Delta copies a source that it does not know to be the same whenever it is read
    f"{SETTING}merge.materializeSource": "none",
    # Rows of other keys are dropped when they are read, by a Bloom filter, and not shuffled. Spark makes it where it would not send one
    # side everywhere, of a side with a condition that is not too large (the table has one, too, by the bounds), for files that are.
    f"{FILTER}enabled": "true",
    f"{FILTER}applicationSideScanSizeThreshold": "128MB",
    f"{FILTER}creationSideThreshold": "64MB",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""What makes a merge of a repeatable source cheap; such a source is small."""
SIZE: Final = "spark.sql.defaultSizeInBytes"
"""How large Spark takes a frame to be whose size it does not know."""


class TableFormat(StrEnum):
    """Whose table a state is."""

    DELTA = "delta"
    ICEBERG = "iceberg"


class StateTable(Protocol):
    """A table that is there. Raises what Spark raises."""

    def identity(self) -> str:
        """An id that another table of that name has not."""
        ...

    def frame(self) -> DataFrame:
        """Its rows as they are now."""
        ...

    def widens(self) -> bool:
        """Whether its columns may get wider types."""
        ...

    def merge(
        self, source: DataFrame, keys: Sequence[str], transaction: Transaction, bounds: Bounds, *, size: int | None
    ) -> int | None:
        """Changes, deletes and adds rows, unless the table has that version of the application, or a later one. Columns may be new.

        All keys of the source are within the bounds. One that has a size, in bytes, has the same rows whenever it is read. Gives by
        how many rows the table grew, None where the format does not say, or the table had that version.
        """
        ...

    def add(self, rows: DataFrame, transaction: Transaction) -> None:
        """Adds rows, unless the table has that version of the application, or a later one. Columns may be new."""
        ...

    def forget(self, column: str, before: datetime) -> None:
        """Deletes the rows whose time is earlier."""
        ...

    def replace(self, frame: DataFrame, note: str) -> None:
        """Replaces all rows. Columns may be new."""
        ...


def open_state_table(spark: SparkSession, name: TableName, expected: TableFormat) -> StateTable | None:
    """The table of that name, None where there is none; that it has the expected format is likely. Raises TableRefused for another one."""
    if not spark.catalog.tableExists(name.sql):
        return None
    if expected is TableFormat.DELTA:
        try:
            return _delta_table(spark, name)
        except AnalysisException as error:
            if "DELTA_MISSING_DELTA_TABLE" not in str(error) and "is not a Delta table" not in str(error):
                raise
    found = _provider(spark, name)
    if found == TableFormat.DELTA:
        return _delta_table(spark, name)
    if found == TableFormat.ICEBERG:
        return IcebergStateTable(spark, name)
    raise TableRefused(
        f"{name} is a table of format {found or 'unknown'}, and a state is kept in Delta's and Iceberg's alone. Set another state.table."
    )


def create_schema(spark: SparkSession, name: TableName) -> None:
    """Create the schema of a table when it is missing and the session is a local one. Elsewhere administrators create them.

    Raises TableRefused for a catalog that a local session does not have.
    """
    if not is_given() and not has_schema(spark, name):
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {TableName(name.parts[:-1]).sql}")


def has_schema(spark: SparkSession, name: TableName) -> bool:
    """Return whether the schema of a table exists. Raises TableRefused for a catalog that a local session does not have."""
    *catalogs, schema, table = name.parts
    for catalog in [] if is_given() else catalogs:
        setting = f"spark.sql.catalog.{catalog}"
        if spark.conf.get(setting, None) is None:
            raise TableRefused(
                f"{name}: this Spark has no catalog {catalog}. Name the table {schema}.{table}, or configure the catalog ({setting}) in "
                "the spark-defaults.conf of the folder SPARK_CONF_DIR."
            )
    return spark.catalog.databaseExists(TableName(name.parts[:-1]).sql)


def create_state_table(spark: SparkSession, name: TableName, frame: DataFrame, kind: TableFormat, *, note: str) -> None:
    """Create the table of these rows. Raises when there is one."""
    create_schema(spark, name)
    if kind is TableFormat.DELTA:
        making = frame.write.format("delta").options(**MERGE_ON_READ, userMetadata=note)
        making.mode("errorifexists").saveAsTable(name.sql)
        return
    properties = {**COPY_ON_WRITE, "format-version": "2", OWN: uuid.uuid4().hex}
    creating = frame.writeTo(name.sql).using("iceberg").option(f"{SUMMARY}{OWN}.note", note)
    for key, text in properties.items():
        creating = creating.tableProperty(key, text)
    creating.create()


def places(columns: Sequence[str]) -> list[str]:
    """The columns that decide which of two rows is newer."""
    return [*(["_order"] if "_order" in columns else []), *PLACE]


def newer(columns: Sequence[str], *, than: str = "t") -> str:
    """Whether the source is newer than a row; null is the smallest. Member by member: a comparison of structs costs a row much more."""
    found = "false"
    for name in map(quoted, reversed(PLACE)):  # every record has a place; who adds rows by hand may leave it out
        found = f"(s.{name} > coalesce({than}.{name}, -1) OR s.{name} = {than}.{name} AND {found})"
    if "_order" in columns:
        mine, other = "s.`_order`", f"{than}.`_order`"
        found = f"({mine} IS NOT NULL AND ({other} IS NULL OR {mine} > {other}) OR {mine} <=> {other} AND {found})"
    return found


HOLDING: Final = (StringType, BinaryType, ArrayType, MapType, StructType)
"""The types of columns in which a record may have a placeholder."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Values that a merge sets: in rows that are older than their source, and, under a condition, in those that are not."""

    older: Mapping[str, str]
    condition: str = ""
    newer: Mapping[str, str] = field(default_factory=dict)


def row_changes(source: DataFrame, table: StructType, keys: Sequence[str]) -> RowChanges:
    """Return what a merge sets. With `_unavailable` each column that may have a placeholder goes by the place of its own record."""
    names = [name for name in source.columns if name != "_deleted"]
    values = {quoted(name): f"s.{quoted(name)}" for name in names}
    holding = [one.name for one in source.schema if isinstance(one.dataType, HOLDING)]
    holding = [name for name in holding if name not in (*keys, *places(names), UNAVAILABLE)]
    if UNAVAILABLE not in names or not holding:
        return RowChanges(values)
    marked = UNAVAILABLE in table.names
    origins = {name: (_origin(name, names, "s"), _origin(name, names, "t", marked=marked)) for name in holding}
    is_later = {name: f"{new} > {old}" for name, (new, old) in origins.items()}
    chosen = {}
    for name in holding:
        before = f"t.{quoted(name)}" if name in table.names else "NULL"
        chosen[quoted(name)] = (
            f"CASE WHEN {is_later[name]} THEN IF(s._deleted, NULL, s.{quoted(name)}) ELSE {before} END"
        )
    pairs = ", ".join(f"{_literal(name)}, greatest({new}, {old})" for name, (new, old) in origins.items())
    row = f"greatest({_place(names, 's')}, {_place(names, 't')})"
    marks = f"map_filter(map({pairs}), (name, place) -> place < {row})"
    older = {**values, **chosen, quoted(UNAVAILABLE): f"IF(s.{quoted(UNAVAILABLE)} IS NULL, NULL, {marks})"}
    if not marked:
        return RowChanges(older)
    condition = f"t.{quoted(UNAVAILABLE)} IS NOT NULL AND ({' OR '.join(is_later.values())})"
    return RowChanges(older, condition, {**chosen, quoted(UNAVAILABLE): marks})


def _origin(name: str, columns: Sequence[str], side: str, *, marked: bool = True) -> str:
    """Return the place of the record that a column's value is of; the row's own without a mark."""
    row = _place(columns, side)
    return f"coalesce(try_element_at({side}.{quoted(UNAVAILABLE)}, {_literal(name)}), {row})" if marked else row


def _place(columns: Sequence[str], side: str) -> str:
    order = [f"'_order', {side}.`_order`"] if "_order" in columns else []
    kinds = zip(PLACE, ("BIGINT", "INT"), strict=True)
    own = [f"'{name}', CAST(coalesce({side}.`{name}`, -1) AS {kind})" for name, kind in kinds]
    return f"named_struct({', '.join([*order, *own])})"


def same(keys: Sequence[str], *, other: str = "t") -> str:
    """Whether two rows have the same key."""
    return " AND ".join(f"{other}.{quoted(key)} = s.{quoted(key)}" for key in keys)


def quoted(name: str) -> str:
    """A name in SQL, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _set(values: Mapping[str, str]) -> str:
    return ", ".join(f"t.{name} = {text}" for name, text in values.items())


def _provider(spark: SparkSession, name: TableName) -> str:
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name.sql}").where("col_name = 'Provider'").collect()
    return str(rows[0]["data_type"]).lower() if rows else ""


def _delta_table(spark: SparkSession, name: TableName) -> DeltaStateTable:
    from delta.tables import DeltaTable

    return DeltaStateTable(spark, name, DeltaTable.forName(spark, name.sql))


@dataclass(frozen=True, slots=True)
class DeltaStateTable:
    """One of Delta's."""

    spark: SparkSession
    name: TableName
    table: DeltaTable

    def identity(self) -> str:
        [detail] = self.table.detail().collect()
        return str(detail["id"])

    def frame(self) -> DataFrame:
        return self.table.toDF()

    def widens(self) -> bool:
        [detail] = self.table.detail().collect()
        return bool((detail["properties"] or {}).get(WIDENING, "false") == "true")

    def merge(
        self, source: DataFrame, keys: Sequence[str], transaction: Transaction, bounds: Bounds, *, size: int | None
    ) -> int | None:
        """Delta takes application, version and note of a merge from the session's settings, and skips files by the bounds of the keys.

        Compute that does not let them be set goes without: places decide.
        """
        table = self.frame().schema
        changes, is_newer = row_changes(source, table, keys), newer(source.columns)
        values: dict[str, Any] = {quoted(one): f"s.{quoted(one)}" for one in source.columns if one != "_deleted"}
        if size is not None:
            source = source.where(F.col(PLACE[0]) >= 0).hint("shuffle_hash")  # all rows
        within = (F.col(f"t.{quoted(key)}").between(*map(F.lit, ends)) for key, ends in bounds.items())
        on = reduce(lambda a, b: a & b, within, F.expr(same(keys)))
        merging = self.table.alias("t").merge(source.alias("s"), on)
        if any(_lacking(table, source)):
            merging = merging.withSchemaEvolution()
        merging = merging.whenMatchedDelete(f"s._deleted AND {is_newer}")
        merging = merging.whenMatchedUpdate(f"NOT s._deleted AND {is_newer}", set=dict[str, Any](changes.older))
        if changes.newer:
            merging = merging.whenMatchedUpdate(
                f"NOT {is_newer} AND {changes.condition}", set=dict[str, Any](changes.newer)
            )
        merging = merging.whenNotMatchedInsert("NOT s._deleted", values=values)
        wanted = {
            **HASH_JOIN,
            **({} if size is None else {**REPEATABLE, SIZE: str(size)}),
            f"{SETTING}write.txnAppId": transaction.app,
            f"{SETTING}write.txnVersion": str(transaction.version),
            f"{SETTING}commitInfo.userMetadata": transaction.note,
        }
        with session_settings(self.spark, wanted):
            counts = merging.execute().collect()
        return counts[0]["num_inserted_rows"] - counts[0]["num_deleted_rows"] if counts else None

    def add(self, rows: DataFrame, transaction: Transaction) -> None:
        """See `StateTable`. A key or place that has become wider is cast: an append would refuse it, where a merge does not."""
        own = {one.name: one.dataType for one in self.frame().schema}
        rows = rows.select(
            *(F.col(quoted(one)).cast(own.get(one, rows.schema[one].dataType)).alias(one) for one in rows.columns)
        )
        options = {"mergeSchema": "true", "txnAppId": transaction.app, "txnVersion": str(transaction.version)}
        adding = rows.write.format("delta").mode("append").options(**options, userMetadata=transaction.note)
        adding.saveAsTable(self.name.sql)

    def forget(self, column: str, before: datetime) -> None:
        """See `StateTable`. A look at the files' bounds costs a tenth of a statement that finds nothing."""
        old = F.col(column) < F.lit(before)
        if not self.frame().where(old).isEmpty():
            self.table.delete(old)

    def replace(self, frame: DataFrame, note: str) -> None:
        frame.writeTo(self.name.sql).options(mergeSchema="true", userMetadata=note).overwrite(F.lit(True))


@dataclass(frozen=True, slots=True)
class IcebergStateTable:
    """One of Iceberg's. It knows no applications: a property of the table says which version of which was the last.

    It is set after the merge. Who dies in between merges again, which changes no row.
    """

    spark: SparkSession
    name: TableName

    def identity(self) -> str:
        """A property that the table got when its rows were put here; blank where they never were."""
        return self._properties().get(OWN, "")

    def frame(self) -> DataFrame:
        return self.spark.table(self.name.sql)

    def widens(self) -> bool:
        """Where Iceberg knows the promotion; Spark refuses others."""
        return True

    def merge(
        self, source: DataFrame, keys: Sequence[str], transaction: Transaction, bounds: Bounds, *, size: int | None
    ) -> int | None:
        """By a statement, since Iceberg has no other way for rows that are deleted and changed together."""
        if self._has(transaction):
            return None
        self._add_columns(source)
        table = self.frame().schema
        changes, is_newer, columns = row_changes(source, table, keys), newer(source.columns), table.names
        values = (f"s.{quoted(one)}" if one in source.columns else "NULL" for one in columns)
        view = f"kafka_s3_state_{uuid.uuid4().hex}"
        source.createOrReplaceTempView(view)
        try:
            with session_settings(self.spark, {**HASH_JOIN, **({} if size is None else {SIZE: str(size)})}):
                self.spark.sql(
                    f"MERGE INTO {self.name.sql} t USING {view} s ON {same(keys)} "
                    f"WHEN MATCHED AND s._deleted AND {is_newer} THEN DELETE "
                    f"WHEN MATCHED AND NOT s._deleted AND {is_newer} THEN UPDATE SET {_set(changes.older)}"
                    + (
                        f" WHEN MATCHED AND NOT {is_newer} AND {changes.condition} THEN UPDATE SET {_set(changes.newer)}"
                        if changes.newer
                        else ""
                    )
                    + f" WHEN NOT MATCHED AND NOT s._deleted THEN INSERT ({', '.join(map(quoted, columns))}) VALUES ({', '.join(values)})"
                )
        finally:
            self.spark.catalog.dropTempView(view)
        self._note(transaction)
        return None

    def add(self, rows: DataFrame, transaction: Transaction) -> None:
        if self._has(transaction):
            return
        self._add_columns(rows)
        self._as_own(rows).writeTo(self.name.sql).append()
        self._note(transaction)

    def forget(self, column: str, before: datetime) -> None:
        old = F.col(column) < F.lit(before)
        if not self.frame().where(old).isEmpty():
            self.spark.sql(f"DELETE FROM {self.name.sql} WHERE {quoted(column)} < TIMESTAMP '{before.isoformat()}'")

    def replace(self, frame: DataFrame, note: str) -> None:
        self._add_columns(frame)
        if not self.identity():
            self._put_properties({OWN: uuid.uuid4().hex})
        writing = self._as_own(frame).writeTo(self.name.sql).option(f"{SUMMARY}{OWN}.note", note)
        writing.overwrite(F.lit(True))

    def _as_own(self, frame: DataFrame) -> DataFrame:
        """Rows with all columns of the table."""
        given = frame.columns
        columns = [
            F.col(quoted(one.name)) if one.name in given else F.lit(None).cast(one.dataType).alias(one.name)
            for one in self.frame().schema
        ]
        return frame.select(*columns)

    def _has(self, transaction: Transaction) -> bool:
        """Whether the table has that version of the application, or a later one."""
        known = self._properties()
        return known.get(f"{OWN}.app") == transaction.app and int(known.get(f"{OWN}.entry", -1)) >= transaction.version

    def _note(self, transaction: Transaction) -> None:
        self._put_properties({f"{OWN}.app": transaction.app, f"{OWN}.entry": str(transaction.version)})

    def _properties(self) -> dict[str, str]:
        return {row["key"]: row["value"] for row in self.spark.sql(f"SHOW TBLPROPERTIES {self.name.sql}").collect()}

    def _put_properties(self, properties: Mapping[str, str]) -> None:
        pairs = ", ".join(f"{_literal(key)} = {_literal(text)}" for key, text in properties.items())
        self.spark.sql(f"ALTER TABLE {self.name.sql} SET TBLPROPERTIES ({pairs})")

    def _add_columns(self, source: DataFrame) -> None:
        """The columns, members of structs and wider types that a source has and the table has not."""
        for change in _lacking(self.frame().schema, source):
            self.spark.sql(f"ALTER TABLE {self.name.sql} {change}")


def _lacking(own: StructType, source: DataFrame) -> Iterator[str]:
    """What `ALTER TABLE` has to do so that a table of columns `own` takes the rows of a source."""
    return alterations(own, StructType([one for one in source.schema if one.name != "_deleted"]))


def alterations(own: StructType, wanted: StructType, path: str = "") -> Iterator[str]:
    """What `ALTER TABLE` has to do so that a table of columns `own` has the wanted ones, too, as wide."""
    known = {one.name: one.dataType for one in own}
    for one in wanted:
        where = f"{path}{quoted(one.name)}"
        if one.name in known:
            yield from _widened(known[one.name], one.dataType, where)
        else:
            yield f"ADD COLUMN {where} {_ddl(one.dataType)}"


def _widened(own: DataType, wanted: DataType, where: str) -> Iterator[str]:
    if isinstance(own, StructType) and isinstance(wanted, StructType):
        yield from alterations(own, wanted, f"{where}.")
    elif isinstance(own, ArrayType) and isinstance(wanted, ArrayType):
        yield from _widened(own.elementType, wanted.elementType, f"{where}.element")
    elif isinstance(own, MapType) and isinstance(wanted, MapType):
        yield from _widened(own.valueType, wanted.valueType, f"{where}.value")
    elif own != wanted:
        yield f"ALTER COLUMN {where} TYPE {_ddl(wanted)}"


def _ddl(kind: DataType) -> str:
    return StructType([StructField("x", kind)]).toDDL().removeprefix("x ")
