"""How do runs become records, one by one, and records runs again? For what no transform can do by columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_s3.connect.converters.header_text import HEADERS, TEXT
from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText, Nulls, Objects, StructColumns, Values
from kafka_s3.connect.schemas.inference import infer_table
from kafka_s3.connect.schemas.json_form import dumps
from kafka_s3.connect.transforms.literals import text_of
from kafka_s3.connect.transforms.record import ConnectRecord, Header, Schema
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition


def records_of(run: Run, place: TopicPartition) -> Iterator[ConnectRecord]:
    """The records of a run, with the key and the headers that it carries; `place` is where they come from."""
    keys, key_schema = _sidecar(run, Role.KEY)
    headers, _ = _sidecar(run, Role.HEADER)
    values = run.values.objects()
    topic = place.topic if run.topic is None else run.topic
    for row, (offset, time) in enumerate(zip(run.offsets.tolist(), run.timestamps.tolist(), strict=True)):
        yield ConnectRecord(
            topic,
            place.partition,
            offset,
            None if time == NO_TIMESTAMP else time,
            keys[row],
            key_schema,
            values[row],
            run.schema,
            tuple(Header(one["key"], one["value"], TEXT) for one in headers[row] or ()),
        )


def _sidecar(run: Run, role: Role) -> tuple[Sequence[Any], Schema]:
    if role not in run.sidecars:
        return [None] * len(run), None
    return run.sidecars[role].values.objects(), run.sidecars[role].schema


def runs_of(records: Sequence[ConnectRecord], run: Run, place: TopicPartition) -> list[Run]:
    """Runs of records that were those of one run: of one topic and of one schema of key and value each, in the order of their offsets."""
    groups: dict[Any, list[ConnectRecord]] = {}
    shared: dict[Schema, Schema] = {}
    for one in records:
        value_schema, key_schema = shared.setdefault(one.value_schema, one.value_schema), one.key_schema
        kind = (
            one.topic,
            id(value_schema),
            one.value is None,
            shared.setdefault(key_schema, key_schema),
            one.key is None,
        )
        groups.setdefault(kind, []).append(one)
    return [_run(group, run, place) for group in groups.values()]


def _run(records: list[ConnectRecord], run: Run, place: TopicPartition) -> Run:
    first = records[0]
    offsets = np.array([one.offset for one in records], np.int64)
    times = np.array([NO_TIMESTAMP if one.timestamp is None else one.timestamp for one in records], np.int64)
    sidecars: dict[Role, Sidecar] = {}
    if Role.KEY in run.sidecars or first.key is not None:
        sidecars[Role.KEY] = Sidecar(_values([one.key for one in records]), first.key_schema)
    if Role.HEADER in run.sidecars or any(one.headers for one in records):
        rows = [[{"key": h.key, "value": text_of(h.value, h.schema)} for h in one.headers] for one in records]
        sidecars[Role.HEADER] = Sidecar(Objects(rows), HEADERS)
    topic = first.topic if first.topic != place.topic or run.topic is not None else None
    return Run(offsets, times, _values([one.value for one in records]), first.value_schema, sidecars, topic)


def _values(items: list[Any]) -> Values:
    return Nulls(len(items)) if items[0] is None else Objects(items)


def as_json(values: Values, *, tables: bool) -> Values:
    """Values without schema as converters hand them on: JSON text, with a table of all fields where `tables`."""
    if not isinstance(values, Objects | StructColumns):
        return values
    items = values.objects()
    texts = pa.array([_text(item).encode() for item in items], pa.binary())
    return JsonText(texts, infer_table(items) if tables else None)


def _text(item: Any) -> str:
    text = dumps(item)
    return dumps(_finite(item)) if "NaN" in text or "Infinity" in text else text


def _finite(item: Any) -> Any:
    """The value with names in place of numbers that JSON does not have, as Jackson writes them."""
    if isinstance(item, float) and not math.isfinite(item):
        return "NaN" if math.isnan(item) else "Infinity" if item > 0 else "-Infinity"
    if isinstance(item, dict):
        return {name: _finite(member) for name, member in item.items()}
    return [_finite(member) for member in item] if isinstance(item, list) else item
