"""In which partition does a file lie? As its directories say, and as `iceberg.partition.by` makes of its smallest and largest values.

A file is one object that the sink has written already, so it can be in a partition only where all of its records are. That is known of
directories, which the log names, and of values where both ends of the file's statistics lie in the same partition. Where they do not, the
file is added by the part of the specification that its directories give: every engine reads such files, and prunes them by statistics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, Transform, parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, timestamptz_to_micros

from kafka_s3.connect.naming.partition_terms import PartitionTerm
from kafka_s3.followers.delta.planner import TableFile
from kafka_s3.model.errors import TableRefused

_PLAIN_NAME: Final = re.compile(r"[^A-Za-z0-9_]")


def spec_of(terms: Iterable[PartitionTerm], schema: Schema, known: Sequence[PartitionSpec]) -> PartitionSpec:
    """The specification of these terms; one that a table knows keeps its number, and so do fields. Raises TableRefused."""
    numbers = {(one.source_id, str(one.transform)): one.field_id for spec in known for one in spec.fields}
    fields: list[PartitionField] = []
    for term in terms:
        transform: Transform[Any, Any] = parse_transform(term.transform)
        source = schema.find_field(term.column)
        if not transform.can_transform(source.field_type):
            raise TableRefused(
                f"iceberg.partition.by={term}: column {term.column} is of type {source.field_type}, which has no {term.transform}. "
                "Leave the term out, or let the records have another type (a transform TimestampConverter, for example)."
            )
        key = (source.field_id, str(transform))
        number = numbers.setdefault(key, max((*numbers.values(), PARTITION_FIELD_ID_START - 1)) + 1)
        fields.append(PartitionField(source.field_id, number, transform, name=_name(term)))
    for spec in known:
        if [(one.source_id, one.transform) for one in spec.fields] == [
            (one.source_id, one.transform) for one in fields
        ]:
            return spec
    return PartitionSpec(*fields, spec_id=max((spec.spec_id for spec in known), default=-1) + 1)


def _name(term: PartitionTerm) -> str:
    if term.transform == "identity":
        return term.column
    kind = term.transform.partition("[")[0]
    return f"{_PLAIN_NAME.sub('_', term.column)}_{'trunc' if kind == 'truncate' else kind}"


def directory_part(terms: Sequence[PartitionTerm], directories: Iterable[str]) -> tuple[PartitionTerm, ...]:
    """The terms that directories give."""
    names = set(directories)
    return tuple(term for term in terms if term.transform == "identity" and term.column in names)


class Unplaced(Exception):
    """Why a file lies in no single partition of a term."""


def partition_of(spec: PartitionSpec, schema: Schema, file: TableFile) -> Record:
    """The partition of a file. Raises Unplaced."""
    return Record(*(_value(one, schema, file) for one in spec.fields))


def _value(one: PartitionField, schema: Schema, file: TableFile) -> Any:
    name, type_ = schema.find_column_name(one.source_id) or "", schema.find_type(one.source_id)
    if isinstance(one.transform, IdentityTransform) and name in file.partition:
        return _typed(file.partition[name], type_)
    ends = _ends(file, name, type_)
    if ends is None:
        return None
    apply: Callable[[Any], Any] = one.transform.transform(type_)
    low, high = (apply(value) for value in ends)
    exact = one.transform.preserves_order or ends[0] == ends[1]
    if low != high or not exact:
        raise Unplaced(f"its values of {name} lie in several partitions by {one.transform}")
    return low


def _ends(file: TableFile, name: str, type_: IcebergType) -> tuple[Any, Any] | None:
    """The smallest and the largest value of a column in Iceberg's form; None where all are null. Raises Unplaced."""
    statistics = json.loads(file.stats)
    nulls, low, high = (_inside(statistics[group], name) for group in ("nullCount", "minValues", "maxValues"))
    if nulls is not None and nulls == statistics["numRecords"]:
        return None
    if nulls:
        raise Unplaced(f"some of its values of {name} are null")
    if nulls is None or low is None or high is None:
        raise Unplaced(f"it has no statistics of {name}")
    return from_text(low, type_), from_text(high, type_)


def _inside(values: Mapping[str, Any], name: str) -> Any:
    found: Any = values
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _typed(text: str | None, type_: IcebergType) -> Any:
    """A directory's value in the type of its column."""
    if text is None or str(type_) == "string":
        return text
    return text == "true" if str(type_) == "boolean" else int(text)


def from_text(value: Any, type_: IcebergType) -> Any:
    """A bound as Delta's statistics write it in Iceberg's form: days for dates, microseconds for times."""
    match str(type_):
        case "date":
            return date_to_days(date.fromisoformat(value))
        case "timestamp":
            return datetime_to_micros(datetime.fromisoformat(value))
        case "timestamptz":
            return timestamptz_to_micros(value.replace("Z", "+00:00"))
        case _:
            return value
