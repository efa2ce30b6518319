"""Keep the value of a state's column when Debezium sends a placeholder for it (`unavailable.value.placeholder`).

A record says in `_unavailable` which of its columns hold a placeholder. The newest record of a key gets the values of the newest older
records that have them; a deletion counts as a record without values. In the state table `_unavailable` is a map from such columns to the
places of the records that their values are of, and null for all other rows. So a record that comes late still fills a column: its value is
that of the newest record that has one, whatever was merged first. The place of no record is offset and partition -1.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from kafka_s3.connect.naming.state_terms import UNAVAILABLE
from kafka_s3.run.spark.state_tables import PLACE, places, quoted, same

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NUMBERS: Final = (ShortType, IntegerType, LongType, FloatType, DoubleType)


def placeholder_marks(kinds: Mapping[str, tuple[Column, DataType]], octets: bytes) -> Column | None:
    """Return the names of the columns that hold a placeholder, null if none does; None if no column is of a type that can."""
    tests = {name: _is_placeholder(column, kind, octets) for name, (column, kind) in kinds.items()} if octets else {}
    marks = {name: test for name, test in tests.items() if test is not None}
    if not marks:
        return None
    names = F.array_compact(F.array(*(F.when(test, F.lit(name)) for name, test in marks.items())))
    return F.when(reduce(lambda a, b: a | b, marks.values()), names)


def _is_placeholder(column: Column, kind: DataType, octets: bytes) -> Column | None:
    text = octets.decode("utf-8", "replace")
    match kind:
        case StringType():
            return column.isin(*_texts(octets))
        case BinaryType():
            return column == F.lit(octets)
        case ArrayType():
            arrays = [column == F.array(*elements) for elements in _elements(kind.elementType, octets)]
            return reduce(lambda a, b: a | b, arrays) if arrays else None
        case MapType() if isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType):
            return (F.size(column) == 1) & (F.try_element_at(column, F.lit(text)) == text)
        case StructType() if text in kind.fieldNames() and isinstance(kind[text].dataType, StringType):
            return column.getField(text) == text  # a map that became a struct, as JSON without a schema does
    return None


def _texts(octets: bytes) -> set[str]:
    """Return the texts of a placeholder: itself, as hstore in JSON, and as binary.handling.mode writes bytes."""
    text = octets.decode("utf-8", "replace")
    as_json = json.dumps({text: text}, ensure_ascii=False, separators=(",", ":"))
    encoded = (base64.b64encode(octets), base64.urlsafe_b64encode(octets))
    return {text, as_json, octets.hex(), *(one.decode() for one in encoded)}


def _elements(kind: DataType, octets: bytes) -> Iterator[list[Column]]:
    """Yield the elements of an array that is a placeholder: one of texts and bytes; of numbers each octet, signed as in Java."""
    signed = [octet - 256 if octet > 127 else octet for octet in octets]
    match kind:
        case StringType():
            # Java's UUID.nameUUIDFromBytes
            digest = hashlib.md5(octets, usedforsecurity=False).digest()
            for text in (octets.decode("utf-8", "replace"), str(uuid.UUID(bytes=digest, version=3))):
                yield [F.lit(text)]
        case BinaryType():
            yield [F.lit(octets)]
        case DecimalType():
            yield [F.lit(Decimal(number).scaleb(-kind.scale)).cast(kind) for number in signed]
        case StructType() if kind.fieldNames() == ["scale", "value"]:  # io.debezium.data.VariableScaleDecimal
            yield [F.struct(F.lit(0).alias("scale"), F.lit(bytes([octet])).alias("value")) for octet in octets]
        case _ if isinstance(kind, NUMBERS):
            yield [F.lit(number).cast(kind) for number in signed]


def fill_unavailable(
    newest: DataFrame, records: DataFrame, deletions: DataFrame | None, keys: Sequence[str], names: Sequence[str]
) -> DataFrame:
    """Return the newest records with the values of older ones in the columns `names`, and their places as `_unavailable`.

    `records` are all of which `newest` are the newest, `deletions` those that are noted of the keys: no value is older than one of them.
    """
    deciding = places(records.columns)
    lacking = newest.where(F.col(UNAVAILABLE).isNotNull()).select(*map(quoted, keys))
    older = records.select(*map(quoted, [*keys, *names]), *deciding, "_deleted", UNAVAILABLE)
    if deletions is not None:
        older = older.unionByName(deletions.withColumn("_deleted", F.lit(True)), allowMissingColumns=True)
    older = older.alias("o").join(lacking.alias("s"), F.expr(same(keys, other="o")), "left_semi")

    place = F.struct(*map(F.col, deciding))
    aggregates = [
        F.max_by(
            F.struct(F.when(~F.col("_deleted"), F.col(quoted(name))).alias("value"), place.alias("place")),
            F.when(F.col("_deleted") | ~_lacks(F.col(UNAVAILABLE), name), place),
        ).alias(f"_value_{number}")
        for number, name in enumerate(names)
    ]
    last = older.groupBy(*map(quoted, keys)).agg(*aggregates)
    both = newest.alias("s").join(last.alias("o"), F.expr(same(keys, other="o")), "left")

    marks = F.col(f"s.{UNAVAILABLE}")
    values = {name: F.col(f"o._value_{number}") for number, name in enumerate(names)}
    columns = []
    for name in newest.columns:
        column = F.col(f"s.{quoted(name)}")
        if name in values:
            column = F.when(_lacks(marks, name), values[name].getField("value")).otherwise(column)
        if name != UNAVAILABLE:
            columns.append(column.alias(name))
    nowhere = F.struct(
        *(F.lit(-1 if name in PLACE else None).cast(newest.schema[name].dataType).alias(name) for name in deciding)
    )
    origins = F.map_from_arrays(
        F.array(*map(F.lit, names)), F.array(*(F.coalesce(one.getField("place"), nowhere) for one in values.values()))
    )
    unavailable = F.map_filter(origins, lambda name, _: F.array_contains(marks, name))
    return both.select(*columns, F.when(marks.isNotNull(), unavailable).alias(UNAVAILABLE))


def _lacks(marks: Column, name: str) -> Column:
    return F.coalesce(F.array_contains(marks, name), F.lit(False))
