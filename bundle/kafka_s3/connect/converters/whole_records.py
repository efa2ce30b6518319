"""How does a whole record decode? Key, value and headers, each by its converter, in the order and with the stages of Connect's worker.

A record whose key cannot be decoded fails before its value is looked at. Keys and headers that are stored travel with the run of values
as its sidecars; a run has keys of one schema.

`KafkaStruct` says in a row where it comes from: a struct `_kafka` inside the value (`record.metadata.enable`), our extension. Its members
are topic, partition, offset, timestamp, key (text with the string converter, else bytes) and headers (name and text). Bytes that are not
UTF-8 are a data URL there, so that they can be had again (`bytes_of_text`). The struct is the last field of structs and of JSON objects; a
value without fields cannot take it and becomes a dead letter or stops the sink.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.converters.converter import Converter, KafkaBatch
from kafka_s3.connect.converters.headers import HEADERS, HeaderReader, header_row, header_text
from kafka_s3.connect.converters.plain import is_utf8
from kafka_s3.connect.records.runs import Decoded, Run, Sidecar
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText, Longs, Nulls, Objects, StructColumns, Values
from kafka_s3.connect.schemas.arrow import arrow_field
from kafka_s3.connect.schemas.connect import TIMESTAMP, ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import dumps, to_json
from kafka_s3.model.dead_letters import DATA_EXCEPTION, Failure, Stage, rejection
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition

FIELD: Final = "_kafka"
NO_FIELDS: Final = f"record.metadata.enable adds the field {FIELD} to values with fields; this value has none, or has that field already."
OPTIONAL_TEXT: Final = ConnectSchema(SchemaType.STRING, optional=True)
BYTES: Final = ConnectSchema(SchemaType.BYTES, optional=True)
NAMED_TEXTS: Final = ConnectSchema(
    SchemaType.ARRAY,
    optional=True,
    items=ConnectSchema(
        SchemaType.STRUCT, fields=(Field("key", ConnectSchema(SchemaType.STRING)), Field("value", OPTIONAL_TEXT))
    ),
)
"""The schema of headers here, where one without a value is no reason to refuse the record."""
DATA_URL: Final = "data:application/octet-stream;base64,"
"""Begins the text of bytes that are not UTF-8 (RFC 2397)."""


def text_of_bytes(raw: bytes) -> str:
    """Return UTF-8 as it is, and a data URL of other bytes and of what looks like such a URL: `bytes_of_text` returns the bytes."""
    if is_utf8(raw) and not raw.startswith(DATA_URL.encode()):
        return raw.decode()
    return DATA_URL + base64.b64encode(raw).decode()


def bytes_of_text(text: str) -> bytes:
    """Return the bytes of a text that `text_of_bytes` made."""
    if text.startswith(DATA_URL):
        try:
            return base64.b64decode(text.removeprefix(DATA_URL), validate=True)
        except ValueError:
            pass
    return text.encode()


def _header_value(raw: bytes) -> str:
    text = text_of_bytes(raw)
    return text if text.startswith(DATA_URL) else header_text(raw)


@dataclass(frozen=True, slots=True)
class KafkaStruct:
    """Adds the struct to values of one topic-partition. `text_keys`: keys are UTF-8 text."""

    topic_partition: TopicPartition
    text_keys: bool

    @property
    def schema(self) -> ConnectSchema:
        """The struct's schema."""
        members = (
            Field("topic", ConnectSchema(SchemaType.STRING)),
            Field("partition", ConnectSchema(SchemaType.INT32)),
            Field("offset", ConnectSchema(SchemaType.INT64)),
            Field("timestamp", ConnectSchema(SchemaType.INT64, optional=True, name=TIMESTAMP, version=1)),
            Field("key", OPTIONAL_TEXT if self.text_keys else BYTES),
            Field("headers", NAMED_TEXTS),
        )
        return ConnectSchema(SchemaType.STRUCT, name="kafka_s3.Kafka", fields=members)

    def add_struct(self, runs: list[Run], batch: KafkaBatch, keys: pa.Array | None) -> tuple[list[Run], list[Failure]]:
        """The runs with the struct in their values; failures of records whose values have no room for it."""
        out: list[Run] = []
        failures: list[Failure] = []
        for run in runs:
            good = _with_fields(run)
            if len(good) < len(run):
                failures += [rejection(int(offset), NO_FIELDS) for offset in np.delete(run.offsets, good)]
                run = run.take(good)
            if not len(run):
                continue
            rows_of_run = np.searchsorted(batch.offsets, run.offsets)
            rows = self._rows(run, batch, rows_of_run=rows_of_run, keys=keys)
            schema = run.schema
            if schema is not None:
                schema = replace(schema, fields=(*schema.fields, Field(FIELD, self.schema)))
            out.append(replace(run, values=self._values(run, rows), schema=schema))
        return out, failures

    def _rows(self, run: Run, batch: KafkaBatch, *, rows_of_run: Any, keys: pa.Array | None) -> list[dict[str, Any]]:
        indices = pa.array(rows_of_run)
        names = keys.take(indices).to_pylist() if keys is not None else [None] * len(run)
        headers = batch.headers.take(indices).to_pylist() if batch.headers is not None else [None] * len(run)
        return [
            {
                "topic": self.topic_partition.topic,
                "partition": self.topic_partition.partition,
                "offset": offset,
                "timestamp": None if time == NO_TIMESTAMP else time,
                "key": text_of_bytes(name) if self.text_keys and name is not None else name,
                "headers": header_row(own, _header_value),
            }
            for offset, time, name, own in zip(
                run.offsets.tolist(), run.timestamps.tolist(), names, headers, strict=True
            )
        ]

    def _values(self, run: Run, rows: list[dict[str, Any]]) -> Values:
        values = run.values
        if isinstance(values, JsonText):
            return JsonText(_texts_with(values.texts, rows, self.schema), self._table(values.table, rows))
        if isinstance(values, StructColumns):
            table = self._table(values.table, rows)
            assert table is not None
            return StructColumns(table)
        return Objects([{**value, FIELD: row} for value, row in zip(values.objects(), rows, strict=True)])

    def _table(self, table: pa.Table | None, rows: list[dict[str, Any]]) -> pa.Table | None:
        if table is None:
            return None
        field = arrow_field(FIELD, self.schema)
        # a record of the batch that has the field, and is a failure now, has left an empty column behind
        own = table.drop_columns([FIELD]) if FIELD in table.column_names else table
        return own.append_column(field, pa.array(rows, field.type))


def _with_fields(run: Run) -> Longs:
    """The rows whose values can take one more field."""
    if isinstance(run.values, JsonText):
        objects = pc.starts_with(run.values.texts, b"{").to_numpy(zero_copy_only=False)
        suspects = pc.match_substring(run.values.texts, FIELD.encode()).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(objects & suspects):
            objects[row] = FIELD not in json.loads(run.values.texts[row].as_py())
        rows: Longs = np.flatnonzero(objects)
        return rows
    takes_field = run.schema is not None and run.schema.kind is SchemaType.STRUCT and run.schema.field(FIELD) is None
    return np.arange(len(run) if takes_field else 0)


def _texts_with(texts: pa.Array, rows: list[dict[str, Any]], schema: ConnectSchema) -> pa.Array:
    out = []
    for text, row in zip(texts.to_pylist(), rows, strict=True):
        head = text.rstrip()[:-1].rstrip()
        comma = "" if head == b"{" else ","
        out.append(head + f'{comma}"{FIELD}":{dumps(to_json(row, schema))}'.encode() + b"}")
    return pa.array(out, pa.binary())


Headers: TypeAlias = list[dict[str, str | None]]
HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.HeaderConverter"
NO_KEY: Final = "Key cannot be null with store.kafka.keys=true."
NO_HEADERS: Final = "Headers cannot be missing, nor be without a value, with store.kafka.headers=true."


class RecordDecoder(Protocol):
    """Turns whole Kafka records into what the writer takes: converters alone, or with transforms behind them."""

    @property
    def needs_envelopes(self) -> bool:
        """Whether keys and headers are read."""
        ...

    def decode_records(self, batch: KafkaBatch, keys: pa.Array | None) -> Decoded:
        """Runs with their sidecars, failures of every stage, null values. `keys` may be left out where none are needed."""
        ...


@dataclass(frozen=True)
class RecordConverter:
    """The converters of one configuration; `key` is None where keys are neither stored nor looked at.

    `stores` are the sidecars that are written. With `tombstones` null values become runs of `Nulls`; otherwise their
    offsets are in `Decoded.nulls`. `metadata` adds a field with the record's coordinates to each value; `schemas_in_headers` says
    that a record's headers may name its schema.
    """

    value: Converter
    key: Converter | None = None
    stores: frozenset[Role] = frozenset()
    tombstones: bool = False
    metadata: KafkaStruct | None = None
    header: HeaderReader = header_text
    schemas_in_headers: bool = False

    @property
    def needs_envelopes(self) -> bool:
        """Whether keys and headers are read."""
        stored = self.key is not None or bool(self.stores)
        return stored or self.metadata is not None or self.schemas_in_headers

    def decode_records(self, batch: KafkaBatch, keys: pa.Array | None) -> Decoded:
        """Runs with their sidecars, failures of every stage, and null values. `keys` may be left out where none are needed."""
        whole = batch
        decoded_keys = self.keys(batch, keys)
        failures = decoded_keys.failures
        batch = without_offsets(batch, [failure.offset for failure in failures])
        decoded = self.value.decode(batch)
        runs, nulls = decoded.runs, decoded.nulls
        if self.metadata is not None:
            runs, more = self.metadata.add_struct(runs, whole, keys)
            failures += more
        if self.tombstones and nulls:
            runs, nulls = with_tombstones(runs, nulls, batch), []
        stored = self._with_sidecars(runs, decoded_keys.runs, batch)
        malformed = decoded_keys.malformed + decoded.malformed + stored.malformed
        return Decoded(stored.runs, failures + decoded.failures + stored.failures, nulls, malformed=malformed)

    def keys(self, batch: KafkaBatch, keys: pa.Array | None) -> Decoded:
        """Return the decoded keys, and those that cannot be decoded; nothing if no key is read."""
        if self.key is None or keys is None:
            return Decoded()
        found = self.key.decode(KafkaBatch(batch.offsets, batch.timestamps, keys, batch.headers))
        failures = [replace(failure, stage=Stage.KEY_CONVERTER) for failure in found.failures]
        return Decoded(found.runs, failures, malformed=Counter({Role.KEY: found.malformed[Role.VALUE]}))

    def _with_sidecars(self, runs: list[Run], keys: list[Run], batch: KafkaBatch) -> Decoded:
        refused: list[Failure] = []
        malformed: Counter[Role] = Counter()
        if Role.KEY in self.stores:
            runs, missing = with_keys(runs, keys)
            refused += [rejection(offset, NO_KEY) for offset in missing]
        if Role.HEADER in self.stores and batch.headers is not None:
            read, failed, malformed[Role.HEADER] = self.headers(batch)
            refused += failed
            bad = [failure.offset for failure in failed]
            pairs = [with_usable_headers(with_headers(run, batch, read, bad=bad)) for run in runs]
            runs = [run for run, _ in pairs if len(run)]
            refused += [failure for _, failures in pairs for failure in failures]
        return Decoded(runs, refused, malformed=malformed)

    def headers(self, batch: KafkaBatch) -> tuple[list[Headers], list[Failure], int]:
        """Return each record's headers as names and texts, those that cannot be read, and how many texts lack bytes (U+FFFD)."""
        assert batch.headers is not None
        read: list[Headers] = []
        failed: list[Failure] = []
        malformed = 0
        for row, headers in enumerate(batch.headers.to_pylist()):
            try:
                texts = header_row(headers, self.header)
            except (ValueError, RecursionError) as error:
                text = f"Header cannot be converted: {error}"
                failed.append(
                    Failure(int(batch.offsets[row]), Stage.HEADER_CONVERTER, HEADER_CONVERTER, DATA_EXCEPTION, text)
                )
                texts = []
            read.append(texts)
            malformed += sum(map(_lacks_bytes, headers or (), texts))
        return read, failed, malformed


def _lacks_bytes(header: Mapping[str, Any], text: Mapping[str, str | None]) -> bool:
    return "\ufffd" in (text["value"] or "") and not is_utf8(header["value"])


def without_offsets(batch: KafkaBatch, offsets: list[int]) -> KafkaBatch:
    """The batch but for the records at these offsets."""
    return batch.take(np.flatnonzero(~np.isin(batch.offsets, offsets))) if offsets else batch


def with_tombstones(runs: list[Run], nulls: list[int], batch: KafkaBatch) -> list[Run]:
    """The runs with the null values between them as runs of their own, in offset order."""
    dead = np.array(sorted(nulls), np.int64)
    pieces: list[Run] = []
    for run in runs:  # a run may stretch over tombstones: cut it there
        inside = dead[(dead > run.offsets[0]) & (dead < run.offsets[-1])]
        cuts = [0, *np.unique(np.searchsorted(run.offsets, inside)).tolist(), len(run)]
        pieces += [run.slice(a, b) for a, b in pairwise(cuts)]
    starts = np.array(sorted(int(piece.offsets[0]) for piece in pieces), np.int64)
    for index in np.unique(np.searchsorted(starts, dead)).tolist():
        low = starts[index - 1] if index else -1
        high = starts[index] if index < len(starts) else np.iinfo(np.int64).max
        offsets = dead[(dead > low) & (dead < high)]
        times = batch.timestamps[np.searchsorted(batch.offsets, offsets)]
        pieces.append(Run(offsets, times, Nulls(len(offsets)), None))
    return sorted(pieces, key=lambda piece: int(piece.offsets[0]))


def with_keys(runs: list[Run], keys: list[Run]) -> tuple[list[Run], list[int]]:
    """The runs with their keys, apart where the keys' schemas differ; and the offsets of records without a key."""
    out: list[Run] = []
    missing: list[int] = []
    offsets = np.concatenate([np.empty(0, np.int64), *(key.offsets for key in keys)])
    order = np.argsort(offsets, kind="stable")
    offsets = offsets[order]
    owners = np.repeat(np.arange(len(keys)), [len(key) for key in keys])[order]
    for run in runs:
        rows_of_run = np.searchsorted(offsets, run.offsets)
        has = np.isin(run.offsets, offsets)
        missing += run.offsets[~has].tolist()
        found, rows = owners[rows_of_run[has]], np.flatnonzero(has)
        for owner in dict.fromkeys(found.tolist()):
            own = rows[found == owner]
            piece, key = run if len(own) == len(run) else run.take(own), keys[owner]
            sidecar = Sidecar(key.values.take(np.searchsorted(key.offsets, piece.offsets)), key.schema)
            out.append(replace(piece, sidecars={**piece.sidecars, Role.KEY: sidecar}))
    return sorted(out, key=lambda run: int(run.offsets[0])), missing


def with_headers(run: Run, batch: KafkaBatch, read: list[Headers], *, bad: list[int]) -> Run:
    """The run with its headers, without the records at the offsets `bad`."""
    rows = np.flatnonzero(~np.isin(run.offsets, bad))
    run = run if len(rows) == len(run) else run.take(rows)
    headers = Objects([read[row] for row in np.searchsorted(batch.offsets, run.offsets)])
    return replace(run, sidecars={**run.sidecars, Role.HEADER: Sidecar(headers, HEADERS)})


def with_usable_headers(run: Run) -> tuple[Run, list[Failure]]:
    """The records of a run that have headers, of which none is null; the others are failures."""
    rows = run.sidecars[Role.HEADER].values.objects() if Role.HEADER in run.sidecars else [[]] * len(run)
    usable = np.array([bool(own) and all(one["value"] is not None for one in own) for own in rows], bool)
    refused = [rejection(int(offset), NO_HEADERS) for offset in run.offsets[~usable]]
    return (run if usable.all() else run.take(np.flatnonzero(usable))), refused
