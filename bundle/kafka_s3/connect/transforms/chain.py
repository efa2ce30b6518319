"""What becomes of the records of a topic-partition on their way through `transforms`? Other records, failures, or nothing.

Runs go from transform to transform by their columns; what no transform can do so is taken apart into records, and put together again.
What the writer wants of a record (a key, headers, a value) is asked of what comes out at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.connect.converters.converter import KafkaBatch
from kafka_s3.connect.converters.headers import HEADERS, TEXT
from kafka_s3.connect.converters.whole_records import (
    NO_KEY,
    RecordConverter,
    with_headers,
    with_keys,
    with_tombstones,
    with_usable_headers,
    without_offsets,
)  # fmt: skip
from kafka_s3.connect.records.runs import Decoded, Run, Sidecar
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText, Nulls, Objects, StructColumns, Values
from kafka_s3.connect.schemas.arrow import infer_table
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaType
from kafka_s3.connect.schemas.json_form import dumps
from kafka_s3.connect.transforms.headers import text_of
from kafka_s3.connect.transforms.record import (
    ByColumns,
    ConnectRecord,
    Header,
    Predicate,
    RecordPart,
    Refused,
    Schema,
    Transform,
    part_of,
)
from kafka_s3.model.dead_letters import Failure, Stage, rejection
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition


def records_of(run: Run, topic_partition: TopicPartition) -> Iterator[ConnectRecord]:
    """The records of a run, with the key and the headers that it carries; `topic_partition` is where they come from."""
    keys, key_schema = _sidecar(run, Role.KEY)
    headers, _ = _sidecar(run, Role.HEADER)
    values = run.values.objects()
    topic = topic_partition.topic if run.topic is None else run.topic
    for row, (offset, time) in enumerate(zip(run.offsets.tolist(), run.timestamps.tolist(), strict=True)):
        yield ConnectRecord(
            topic,
            topic_partition.partition,
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


def runs_of(records: Sequence[ConnectRecord], run: Run, topic_partition: TopicPartition) -> list[Run]:
    """Runs of records that were those of one run: of one topic and of one schema of key and value each, in the order of their offsets."""
    groups: dict[Any, list[ConnectRecord]] = {}
    shared: dict[Schema, Schema] = {}
    for one in records:
        value_schema, key_schema = shared.setdefault(one.value_schema, one.value_schema), one.key_schema
        key_schema = shared.setdefault(key_schema, key_schema)
        kind = (one.topic, id(value_schema), one.value is None, key_schema, one.key is None)
        groups.setdefault(kind, []).append(one)
    return [_run(group, run, topic_partition) for group in groups.values()]


def _run(records: list[ConnectRecord], run: Run, topic_partition: TopicPartition) -> Run:
    first = records[0]
    offsets = np.array([one.offset for one in records], np.int64)
    times = np.array([NO_TIMESTAMP if one.timestamp is None else one.timestamp for one in records], np.int64)
    sidecars: dict[Role, Sidecar] = {}
    if Role.KEY in run.sidecars or first.key is not None:
        sidecars[Role.KEY] = Sidecar(_values([one.key for one in records]), first.key_schema)
    if Role.HEADER in run.sidecars or any(one.headers for one in records):
        rows = [[{"key": h.key, "value": text_of(h.value, h.schema)} for h in one.headers] for one in records]
        sidecars[Role.HEADER] = Sidecar(Objects(rows), HEADERS)
    topic = first.topic if first.topic != topic_partition.topic or run.topic is not None else None
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


def missing_required(run: Run) -> dict[int, str]:
    """The rows of a run whose value or key has such a null, with why.

    Transforms do not check what they make (InsertField with `timestamp.field=n!` and a record without a timestamp), converters do.
    A header may be null, unless headers are stored.
    """
    found: dict[int, str] = {}
    for part in filter(None, (part_of(run, one) for one in RecordPart)):
        if part.schema is not None:
            found |= _missing(part.values, part.schema)
    return found


def _missing(values: Values, schema: ConnectSchema) -> dict[int, str]:
    if isinstance(values, StructColumns):
        columns = zip(values.table.columns, values.table.schema, strict=True)
        if all(field.nullable or not column.null_count for column, field in columns):
            return {}
    elif not isinstance(values, Objects):
        return {}
    nulls = ((row, _null_path(item, schema)) for row, item in enumerate(values.objects()))
    return {row: f"{path}: null for a field that is required." for row, path in nulls if path is not None}


def _null_path(value: Any, schema: ConnectSchema, where: str = "") -> str | None:
    """The first place with a null that the schema does not allow; the whole value may be null."""
    if value is None:
        return where if where and not schema.optional and schema.default is None else None
    for item, inner, path in _members(value, schema, where):
        found = _null_path(item, inner, path)
        if found is not None:
            return found
    return None


def _members(value: Any, schema: ConnectSchema, where: str) -> Iterator[tuple[Any, ConnectSchema, str]]:
    """What is in a struct, list or map: values, their schemas and places."""
    if schema.kind is SchemaType.STRUCT:
        for field in schema.fields:
            yield value.get(field.name), field.schema, f"{where}.{field.name}" if where else field.name
    elif schema.kind is SchemaType.ARRAY and schema.items is not None:
        yield from ((item, schema.items, f"{where}[]") for item in value)
    elif schema.kind is SchemaType.MAP and schema.values is not None:
        yield from ((item, schema.values, f"{where}[]") for _, item in value)


UNEXPECTED = "org.apache.kafka.connect.errors.ConnectException"


@runtime_checkable
class OfRuns(Protocol):
    """A predicate that can answer for all records of a run at once."""

    def rows(self, run: Run, topic_partition: TopicPartition) -> npt.NDArray[np.bool_]:
        """Which of the records it holds for."""
        ...


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A transform under its Java name, and the records that it gets: those for which the predicate answers `wanted`."""

    component: str
    transform: Transform
    predicate: Predicate | None = None
    wanted: bool = True

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record after this step, None where it is dropped. Raises Refused."""
        if self.predicate is not None and self.predicate.test(record) is not self.wanted:
            return record
        return self.transform.apply(record)


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps in order. `reads` are the parts beside the value that a step looks at; with `tables` values without schema get tables."""

    steps: tuple[ChainLink, ...]
    reads: frozenset[Role] = frozenset()
    tables: bool = False

    @property
    def not_deterministic(self) -> tuple[str, ...]:
        """The steps that say of themselves that they may make something else of the same record the next time."""
        return tuple(step.component for step in self.steps if not getattr(step.transform, "deterministic", True))

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """One record through all steps, None where it is dropped. Raises Refused."""
        found: ConnectRecord | None = record
        for step in self.steps:
            if found is None:
                break
            found = step.apply(found)
        return found

    def transform_runs(self, runs: Sequence[Run], topic_partition: TopicPartition) -> Decoded:
        """The records of runs that come from `topic_partition`, as they go on to the writer. Bad records never raise."""
        out = Decoded()
        for run in runs:
            for found in self._run(run, topic_partition, 0, out):
                complete = _without_nulls(found, out)
                if len(complete):
                    out.runs.append(self._finished(complete, topic_partition))
        out.runs.sort(key=lambda run: int(run.offsets[0]))
        out.failures.sort(key=lambda failure: failure.offset)
        out.dropped.sort()
        return out

    def _run(self, run: Run, topic_partition: TopicPartition, first: int, out: Decoded) -> Iterator[Run]:
        """The run through the steps from `first` on; failures and what is dropped go to `out`."""
        for at in range(first, len(self.steps)):
            step = self.steps[at]
            here = topic_partition if run.topic is None else TopicPartition(run.topic, topic_partition.partition)
            chosen = _chosen(step, run, here)
            if chosen is None:
                yield from self._one_by_one(run, topic_partition, at, out)
                return
            if not chosen.any():
                continue
            if not chosen.all():
                others = run.take(np.flatnonzero(~chosen))
                yield from self._run(others, topic_partition, at + 1, out)
                run = run.take(np.flatnonzero(chosen))
            found = step.transform.columns(run, here) if isinstance(step.transform, ByColumns) else None
            if found is None:
                yield from self._one_by_one(run, topic_partition, at, out, chosen=True)
                return
            if len(found) < len(run):
                out.dropped.extend(run.offsets[~np.isin(run.offsets, found.offsets)].tolist())
            if not len(found):
                return
            run = found
        yield run

    def _one_by_one(
        self, run: Run, topic_partition: TopicPartition, first: int, out: Decoded, *, chosen: bool = False
    ) -> Iterator[Run]:
        steps = list(self.steps[first:])
        if chosen:
            steps[0] = replace(steps[0], predicate=None)
        kept: list[ConnectRecord] = []
        for record in records_of(run, topic_partition):
            found: ConnectRecord | None = record
            for step in steps:
                try:
                    found = step.apply(found) if found is not None else None
                except Refused as refused:
                    out.failures.append(_failure(record.offset, step, refused.exception, refused.message))
                    break
                except (ValueError, ArithmeticError, LookupError, TypeError, RecursionError) as error:
                    out.failures.append(_failure(record.offset, step, UNEXPECTED, f"{type(error).__name__}: {error}"))
                    break
            else:
                if found is None:
                    out.dropped.append(record.offset)
                else:
                    kept.append(found)
        yield from runs_of(kept, run, topic_partition)

    def _finished(self, run: Run, topic_partition: TopicPartition) -> Run:
        """A run as converters hand it on."""
        sidecars = {}
        for role, sidecar in run.sidecars.items():
            values = as_json(sidecar.values, tables=False) if sidecar.schema is None else sidecar.values
            sidecars[role] = replace(sidecar, values=values)
        values = as_json(run.values, tables=self.tables) if run.schema is None else run.values
        schema = None if run.tombstones else run.schema
        topic = None if run.topic == topic_partition.topic else run.topic
        return replace(run, values=values, schema=schema, sidecars=sidecars, topic=topic)


def _without_nulls(run: Run, out: Decoded) -> Run:
    """The records that have what their schemas require; the others become failures."""
    missing = missing_required(run)
    if not missing:
        return run
    out.failures.extend(rejection(int(run.offsets[row]), text) for row, text in missing.items())
    return run.take(np.delete(np.arange(len(run)), list(missing)))


def _chosen(step: ChainLink, run: Run, topic_partition: TopicPartition) -> npt.NDArray[np.bool_] | None:
    """Which records of a run a step gets; None where only its predicate knows, record by record."""
    if step.predicate is None:
        return np.ones(len(run), bool)
    if not isinstance(step.predicate, OfRuns):
        return None
    holds = step.predicate.rows(run, topic_partition)
    return holds if step.wanted else ~holds


def _failure(offset: int, step: ChainLink, exception: str, message: str) -> Failure:
    return Failure(offset, Stage.TRANSFORMATION, step.component, exception, message)


@dataclass(frozen=True)
class TransformedRecords:
    """The records of one topic-partition as a chain leaves them. `converter` says how they are read and what is stored of them.

    `placing` is what the partitioner looks at beside the value.
    """

    converter: RecordConverter
    chain: Chain
    topic_partition: TopicPartition
    placing: frozenset[Role] = frozenset()

    @property
    def needs_envelopes(self) -> bool:
        return self.converter.needs_envelopes or bool(self.chain.reads)

    def decode_records(self, batch: KafkaBatch, keys: pa.Array | None) -> Decoded:
        """Runs with their sidecars and topics, failures of every stage, null values, and what was dropped.

        A null value, a key or a header that is missing counts as such only behind the last transform.
        """
        whole = batch
        decoded = self._read(batch, keys)
        found = self.chain.transform_runs(decoded.runs, self.topic_partition)
        out = _Sorted(self.converter.stores, self.placing, self.converter.tombstones)
        for run in found.runs:
            out.add(run)
        kept = out.runs
        if self.converter.metadata is not None:
            kept, refused = self.converter.metadata.add_struct(kept, whole, keys)
            out.refused += refused
        failures = decoded.failures + found.failures + out.refused
        return Decoded(split_at_tombstones(kept), failures, sorted(out.nulls), found.dropped, decoded.malformed)

    def _read(self, batch: KafkaBatch, keys: pa.Array | None) -> Decoded:
        """Return the records as the transforms see them: null values as runs, and with key and headers if those are read."""
        converter = self.converter
        decoded_keys = converter.keys(batch, keys)
        batch = without_offsets(batch, [failure.offset for failure in decoded_keys.failures])
        decoded = converter.value.decode(batch)
        failures = [*decoded_keys.failures, *decoded.failures]
        malformed = decoded_keys.malformed + decoded.malformed
        runs = with_tombstones(decoded.runs, decoded.nulls, batch) if decoded.nulls else decoded.runs
        if converter.key is not None and keys is not None:
            runs = _with_any_keys(runs, decoded_keys.runs)
        if batch.headers is not None and (Role.HEADER in converter.stores or Role.HEADER in self.chain.reads):
            read, failed, malformed[Role.HEADER] = converter.headers(batch)
            bad = [failure.offset for failure in failed]
            runs = [with_headers(run, batch, read, bad=bad) for run in runs]
            runs = [run for run in runs if len(run)]
            failures += [
                failure for failure in failed if failure.offset not in {one.offset for one in decoded.failures}
            ]
        return Decoded(runs, failures, malformed=malformed)


@dataclass(slots=True)
class _Sorted:
    """What comes out of a chain, sorted by what becomes of it."""

    stores: frozenset[Role]
    placing: frozenset[Role]
    tombstones: bool
    runs: list[Run] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)
    refused: list[Failure] = field(default_factory=list)

    def add(self, run: Run) -> None:
        if run.tombstones and not self.tombstones:
            self.nulls += run.offsets.tolist()
            return
        if Role.KEY in self.stores and isinstance(run.sidecars.get(Role.KEY, _NOTHING).values, Nulls):
            self.refused += [rejection(int(offset), NO_KEY) for offset in run.offsets]
            return
        if Role.HEADER in self.stores:
            run, refused = with_usable_headers(run)
            self.refused += refused
        if len(run):
            stored = {role: run.sidecars[role] for role in self.stores}
            placed_by = {role: run.sidecars[role] for role in self.placing & run.sidecars.keys()}
            self.runs.append(replace(run, sidecars=stored, placed_by=placed_by))


_NOTHING = Sidecar(Nulls(0), None)


def split_at_tombstones(runs: list[Run]) -> list[Run]:
    """The runs cut where values and null values alternate, in the order of their offsets: those go to different files."""
    if len({run.tombstones for run in runs}) < 2:
        return runs
    offsets = np.concatenate([run.offsets for run in runs])
    order = np.argsort(offsets, kind="stable")
    kinds = np.repeat([run.tombstones for run in runs], [len(run) for run in runs])[order]
    changes = offsets[order][1:][kinds[1:] != kinds[:-1]]
    pieces = [run.slice(a, b) for run in runs for a, b in pairwise(_cuts(run, changes))]
    return sorted(pieces, key=lambda piece: int(piece.offsets[0]))


def _cuts(run: Run, changes: np.ndarray) -> list[int]:
    found: list[int] = np.unique([0, *np.searchsorted(run.offsets, changes), len(run)]).tolist()
    return found


def _with_any_keys(runs: list[Run], keys: list[Run]) -> list[Run]:
    """The runs with their keys; those without one have a null key."""
    found, missing = with_keys(runs, keys)
    if not missing:
        return found
    for run in runs:
        rows = np.flatnonzero(np.isin(run.offsets, missing))
        if len(rows):
            found.append(replace(run.take(rows), sidecars={**run.sidecars, Role.KEY: Sidecar(Nulls(len(rows)), None)}))
    return sorted(found, key=lambda run: int(run.offsets[0]))
