"""What does the Spark that runs the sink do for Delta tables? It gives them names, and writes those that delta-rs cannot write.

Only calls that Spark Connect has too. Where this Spark knows no Delta, the errors say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.engine.task.table_guard.columns import TableColumns, read_columns
from kafka_s3.followers.delta.copying import Append, SparkState, Values
from kafka_s3.model.errors import TableError, TableRefused, TableUnavailable
from kafka_s3.run.spark.failures import SHOWN, SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET: Final = "delta.spark.bucket.url"
WIDENING: Final = "delta.enableTypeWidening"
NO_DELTA: Final = (
    "DATA_SOURCE_NOT_FOUND",
    "Failed to find the data source: delta",
    "DELTA_CONFIGURE_SPARK_SESSION",
    "view `DETAIL`",
)
NO_FILE_SYSTEM: Final = ("No FileSystem for scheme", "ClassNotFoundException: Class org.apache.hadoop.fs.s3a")
OVERTAKEN: Final = re.compile(r"DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent\w+Exception")
HOW_TO_KNOW: Final = (
    "This Spark knows no Delta. On Databricks it does; elsewhere start it with the package io.delta:delta-spark and the two settings of "
    "Delta's quick start (spark.sql.extensions, spark.sql.catalog.spark_catalog), and with a catalog that outlives it."
)
HISTORY: Final = 1000
_SINK: Final = re.compile(r'\{"kafka-s3":"([^"]*)"')
_GLOB: Final = re.compile(r"([\[\]{}*?\\])")


class SparkCatalog:
    """The catalog of a session. `bucket_url` is where this Spark finds the bucket."""

    def __init__(self, spark: SparkSession, bucket_url: str) -> None:
        self._spark = spark
        self._bucket_url = bucket_url.rstrip("/")

    def knows_delta(self) -> bool:
        """Whether Spark has Delta's SQL."""
        try:
            self._spark.sql("DESCRIBE HISTORY `kafka_s3_no_such_table` LIMIT 1")
        except ParseException:
            return False
        except AnalysisException:  # there is no such table, as it should be
            return True
        return True

    def url(self, key: str) -> str:
        """Where Spark finds an object or a folder."""
        return f"{self._bucket_url}/{key}"

    def location(self, name: TableName) -> str | None:
        """Where the table of that name lies, None where there is none. Raises TableError."""
        with _errors(name):
            detail = self._detail(name)
            return None if detail is None else str(detail["location"])

    def register(self, name: TableName, location: str) -> None:
        """Gives the Delta table at a location that name, unless the name is taken. Raises TableError."""
        with _errors(name):
            self._spark.sql(f"CREATE TABLE IF NOT EXISTS {name.sql} USING DELTA LOCATION {_literal(location)}")

    def state(self, name: TableName) -> SparkState | None:
        """The table as it is, None where there is none. Raises TableError."""
        with _errors(name):
            detail = self._detail(name)
            if detail is None:
                return None
            columns = read_columns(self._spark.table(name.sql).schema.json())
            widens = (detail["properties"] or {}).get(WIDENING, "false") == "true"
            return SparkState(str(detail["id"]), str(detail["location"]), columns if widens else columns.fixed())

    def sinks(self, name: TableName) -> set[str]:
        """The sinks that the table's latest history names. Raises TableError."""
        with _errors(name):
            rows = self._spark.sql(f"DESCRIBE HISTORY {name.sql} LIMIT {HISTORY}").select("userMetadata").collect()
        return {found[1] for row in rows if (found := _SINK.match(row["userMetadata"] or "")) is not None}

    def create(self, name: TableName, columns: TableColumns, partition_by: Sequence[str]) -> None:
        """Makes an empty managed table, unless there is one. Raises TableError."""
        with _errors(name):
            empty = self._spark.createDataFrame([], _schema(columns))
            empty.write.format("delta").mode("ignore").partitionBy(*partition_by).saveAsTable(name.sql)

    def append(self, name: TableName, append: Append) -> None:
        """Reads the objects and appends what they hold, unless the table has that version of the application, or a later one."""
        options: dict[str, str | int | bool] = {
            "txnAppId": append.app, "txnVersion": append.position, "mergeSchema": append.merge, "userMetadata": append.note,
        }  # fmt: skip
        with _errors(name):
            frames = [self._read(append, values, keys) for values, keys in append.keys.items()]
            _united(frames).writeTo(name.sql).options(**options).append()

    def _read(self, append: Append, values: Values, keys: Sequence[str]) -> DataFrame:
        paths = [_GLOB.sub(r"\\\1", self.url(key)) for key in keys]
        types = _schema(append.given)
        given = [F.lit(value).cast(types[name].dataType).alias(name) for name, value in values]
        return self._spark.read.schema(_schema(append.columns)).parquet(*paths).select("*", *given)

    def _detail(self, name: TableName) -> Any:
        if not self._spark.catalog.tableExists(name.sql):
            return None
        [detail] = self._spark.sql(f"DESCRIBE DETAIL {name.sql}").collect()
        if detail["format"] != "delta":
            raise TableRefused(
                f"{name} is a table of format {detail['format']}, not Delta. Set another delta.table.name."
            )
        return detail


def _schema(columns: TableColumns) -> StructType:
    return StructType.fromJson(json.loads(columns.schema_string()))


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows; by halves, for Spark is slow where one union is nested in another hundreds of times."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return _united(frames[:middle]).unionByName(_united(frames[middle:]), allowMissingColumns=True)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@contextmanager
def _errors(name: TableName) -> Iterator[None]:
    """Spark's errors as ours, on one line."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise table_error(name, error) from error


def table_error(name: TableName, error: Exception) -> TableError:
    """What Spark says of a table, as an error of the product."""
    text = str(error)
    if isinstance(error, ParseException) or any(mark in text for mark in NO_DELTA):
        return TableRefused(f"{name}: {HOW_TO_KNOW}")
    if any(mark in text for mark in NO_FILE_SYSTEM):
        return TableRefused(
            f"{name}: this Spark has no file system for the bucket: {_first_line(text)}. Set {BUCKET} to where it finds the bucket, for "
            "example s3a://bucket with the library hadoop-aws."
        )
    if OVERTAKEN.search(text):
        return TableUnavailable(f"{name}: another writer was in the way: {_first_line(text)}")
    return TableRefused(f"{name}: Spark refuses: {_first_line(text)}")


def _first_line(text: str) -> str:
    """What Delta says, else what Spark says first, without the plan and the stack that may follow."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line[line.index("[DELTA_") :] for line in lines if "[DELTA_" in line), None)
    first = next((line for line in lines if not line.startswith("An error occurred while calling")), "nothing")
    return (said or first).rstrip(".")[:SHOWN]
