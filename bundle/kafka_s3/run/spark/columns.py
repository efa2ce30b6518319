"""What crosses from Spark to Python for each record, and in what batches? Few, narrow columns: one more costs as a step of the work.

Topic-partition and offset cross as one number. Spark can bound a batch by its rows or by its bytes, and for the latter measures it anew
after every record, which takes a quarter of all of Java's time. So at first a range is read as if all its records were plain ones: batches
are bounded by rows, and a record above `SMALL_BYTES`, or one whose schema is named in a header, does not cross. Its row says so, and the
range is read once more in full, as its topic is from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812

from kafka_s3.connect.converters.converter import SCHEMA_NAME, VALUE_SCHEMA
from kafka_s3.run.spark.rows import PLACE, SMALL_BYTES, ReadMode

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kafka_s3.run.spark.task import Task

HEADERS: Final = "array<struct<key:string,value:binary>>"


def columns(task: Task, mode: ReadMode) -> list[Column]:
    """What crosses, of the columns of Spark's Kafka source."""
    place, values = _place(task), [F.col(name) for name in ("value", "key", "headers")]
    if mode is ReadMode.PLAIN:
        other = _not_plain(task)
        place, values = F.when(other, F.lit(-1) - place).otherwise(place), [F.when(~other, value) for value in values]
    value, key, headers = values
    wanted = [place.alias(PLACE), F.unix_millis("timestamp").alias("timestamp"), value.alias("value")]
    if task.keeps_envelopes:
        return [*wanted, key.alias("key"), _never_null(headers).alias("headers")]
    names_cross = task.keeps_schema_names and mode is ReadMode.ALL
    return [*wanted, _schema_name().alias(SCHEMA_NAME)] if names_cross else wanted


def _place(task: Task) -> Column:
    """The number of the topic-partition, above the bits of the offset."""
    number, firsts = F.col("partition").cast("long"), task.first_places
    if len(firsts) > 1:
        first = F.create_map(*(F.lit(part) for topic, first in firsts.items() for part in (topic, first)))
        number = F.element_at(first, F.col("topic")).cast("long") + number
    return number * (1 << task.offset_bits) + F.col("offset")


def _not_plain(task: Task) -> Column:
    large = _bytes(task) > SMALL_BYTES
    if task.keeps_envelopes or not task.keeps_schema_names:
        return large
    named = F.exists("headers", lambda header: header["key"] == VALUE_SCHEMA)
    # null where there are no headers, and quickly so: most records have none
    return large | F.coalesce(F.when(F.col("headers").isNotNull(), named), F.lit(False))


def _bytes(task: Task) -> Column:
    """The size of what crosses of a record."""
    value = _size(F.col("value"))
    if not task.keeps_envelopes:
        return value
    headers = F.aggregate(
        "headers", F.lit(0), lambda size, header: size + _size(header["key"]) + _size(header["value"])
    )
    return value + _size(F.col("key")) + F.when(F.col("headers").isNotNull(), headers).otherwise(0)


def _size(column: Column) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))


def _schema_name() -> Column:
    """The header that names the value's schema, the last one if there are several; nearly always null (SEMANTICS A11)."""
    named = F.filter("headers", lambda header: header["key"] == VALUE_SCHEMA)
    found = F.try_element_at(named, F.lit(-1)).getField("value")
    # the filter takes its time, and most records have no headers at all
    return F.when(F.col("headers").isNotNull(), found)


def _never_null(headers: Column) -> Column:
    """An empty list instead of null: on the way to Python a column of null lists takes 30 microseconds a record, five times all else."""
    return F.coalesce(headers, F.array().cast(HEADERS))
