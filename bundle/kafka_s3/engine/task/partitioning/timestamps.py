"""When did a record happen? The timestamp extractors Wallclock, Record and RecordField (SEMANTICS A5).

A number of a field counts in a unit that may be configured or found out. In the wrong unit it makes `year=1970` or `year=56009`, which
nobody looks for: `Plausible` reports such times.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.java.simple_dates import SimpleDates
from kafka_s3.connect.joda.instants import parse_timestamp
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import MISSING, NO_TIMESTAMP, Longs
from kafka_s3.connect.schemas.connect import DATE, TIME, TIMESTAMP, ConnectSchema, SchemaType
from kafka_s3.model.dead_letters import SINK_TASK, Failure, Stage, rejection

EARLIEST: Final = int(datetime(1990, 1, 1, tzinfo=UTC).timestamp()) * 1000
LATEST: Final = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp()) * 1000
"""Times `[EARLIEST, LATEST)` are plausible, epoch ms. A number in the wrong unit is off by a factor of 1000 and lies outside."""
LONG: Final = 2**63


class TimeUnit(StrEnum):
    """The values of `timestamp.field.unit`."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"
    AUTO = "auto"

    def ms(self, number: int | float) -> int | str:
        """The number in epoch milliseconds, or a text that says why there are none."""
        if not -LONG <= number < LONG:  # not a number, too
            return f"{number} is beyond 64 bits"
        if self is TimeUnit.AUTO:
            unit = next((one for one in _PER_MS if _plausible(one, number)), None)
            text = f"{number} is a time from 1990 to 2100 in none of s, ms, us, ns"
            return text if unit is None else unit.ms(number)
        if self is TimeUnit.S:
            found = round(number * 1000)
            return found if -LONG <= found < LONG else f"{number} seconds are beyond 64 bits of milliseconds"
        return int(number) // _PER_MS[self]


_PER_MS: Final = {TimeUnit.S: 1, TimeUnit.MS: 1, TimeUnit.US: 1_000, TimeUnit.NS: 1_000_000}


def _plausible(unit: TimeUnit, number: int | float) -> bool:
    found = unit.ms(number)
    return isinstance(found, int) and EARLIEST <= found < LATEST


def in_ms(numbers: Longs, unit: TimeUnit) -> Longs | None:
    """The numbers in epoch milliseconds; None where they have to be looked at one by one."""
    if unit is TimeUnit.MS or not len(numbers):
        return numbers
    low, high = int(numbers.min()), int(numbers.max())
    if unit is TimeUnit.AUTO:
        unit = next((one for one in _PER_MS if _plausible(one, low) and _plausible(one, high)), unit)
    if unit is TimeUnit.AUTO or (unit is TimeUnit.S and max(abs(low), abs(high)) >= LONG // 1000):
        return None
    found: Longs = numbers * 1000 if unit is TimeUnit.S else numbers // _PER_MS[unit]
    return found


TEXT_CACHE = 100_000
DIGITS: Final = re.compile("-?[0-9]{1,19}")
FULL_INSTANT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,3})?Z$"


@dataclass(frozen=True, slots=True)
class Stamped:
    """Epoch milliseconds of each record; `valid` is False where `failures` says why there is none."""

    times: Longs
    valid: npt.NDArray[np.bool_]
    failures: list[Failure] = field(default_factory=list)


class TimestampExtractor(Protocol):
    """Gives each record its time."""

    needs_now: bool

    def extract(self, run: Run, now_ms: int) -> Stamped:
        """The times of a run that was delivered at `now_ms`."""
        ...


class Wallclock:
    """The time of delivery, equal for all records of one delivery."""

    needs_now = True

    def extract(self, run: Run, now_ms: int) -> Stamped:
        """`now_ms` for every record."""
        return Stamped(np.full(len(run), now_ms, np.int64), np.ones(len(run), bool))


class RecordTimestamp:
    """The Kafka record's timestamp."""

    needs_now = False

    def extract(self, run: Run, now_ms: int) -> Stamped:
        """The record timestamps; a record without one fails, with or without a dead letter topic as the policy says."""
        valid = run.timestamps != NO_TIMESTAMP
        failures = [_no_time(int(offset), "the record has no timestamp") for offset in run.offsets[~valid]]
        return Stamped(run.timestamps, valid, failures)


class RecordField:
    """A field of the value: a number counts from the epoch in `unit`, text is such a number in digits, or ISO 8601.

    With a `pattern` every text is read by it. The original knows milliseconds and ISO 8601 only (SEMANTICS A5).
    """

    needs_now = False

    def __init__(
        self,
        path: Sequence[str],
        *,
        default_zone: tzinfo,
        unit: TimeUnit = TimeUnit.MS,
        pattern: SimpleDates | None = None,
    ) -> None:
        self._path = tuple(path)
        self._zone = default_zone
        self._unit = unit
        self._pattern = pattern
        self._known: dict[str, int | str] = {}

    def extract(self, run: Run, now_ms: int) -> Stamped:
        """The field's times. Failures here kill the original's task (SEMANTICS A9.2)."""
        unusable = self._unusable(run.schema)
        if unusable is not None:
            return _stamped(run.offsets, [unusable] * len(run))
        column = run.values.column(self._path)
        unit = TimeUnit.MS if self._is_timestamp(run.schema) else self._unit
        if isinstance(column, pa.Array) and pa.types.is_timestamp(column.type):
            column, unit = column.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()), TimeUnit.MS
        if isinstance(column, pa.Array) and pa.types.is_integer(column.type) and not column.null_count:
            found = in_ms(column.cast(pa.int64()).to_numpy(), unit)
            if found is not None:
                return Stamped(found, np.ones(len(run), bool))
        if isinstance(column, pa.Array) and pa.types.is_string(column.type) and self._pattern is None:
            return self._of_texts(run.offsets, column, unit)
        if isinstance(column, pa.Array):
            return _stamped(run.offsets, self._distinct(column, unit))
        return _stamped(run.offsets, [self._time(item, unit) for item in column])

    def _of_texts(self, offsets: Longs, column: pa.Array, unit: TimeUnit) -> Stamped:
        """The times of texts; those that are no full instants in UTC, the common case, are read one by one."""
        full = pc.fill_null(pc.match_substring_regex(column, FULL_INSTANT), False)
        try:
            instants = column.filter(full).cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:  # one of them looks like an instant and is none
            return _stamped(offsets, self._distinct(column, unit))
        is_full = full.to_numpy(zero_copy_only=False)
        rest = np.flatnonzero(~is_full)
        others = _stamped(offsets[rest], self._distinct(column.take(pa.array(rest)), unit))
        times, valid = np.zeros(len(offsets), np.int64), is_full.copy()
        times[is_full], times[rest], valid[rest] = instants, others.times, others.valid
        return Stamped(times, valid, others.failures)

    def _distinct(self, column: pa.Array, unit: TimeUnit) -> list[int | str]:
        if not pa.types.is_string(column.type):
            return [self._time(item, unit) for item in column.to_pylist()]
        encoded = pc.dictionary_encode(column)
        times = [self._text(text) for text in encoded.dictionary.to_pylist()]
        missing: int | str = f"field '{'.'.join(self._path)}' is null or missing"
        return [missing if code is None else times[code] for code in encoded.indices.to_pylist()]

    def _unusable(self, schema: ConnectSchema | None) -> str | None:
        """Why no value of the schema has a time there, None where it may have one."""
        if schema is None:
            return None
        member = schema.at_path(self._path)
        if member is None:
            return f"field '{'.'.join(self._path)}' is missing"
        usable = member.kind in (SchemaType.INT32, SchemaType.INT64, SchemaType.STRING)
        if member.name == TIMESTAMP or (usable and member.name not in (DATE, TIME)):
            return None
        return f"field '{'.'.join(self._path)}' has the unsupported type {member.name or member.kind}"

    def _is_timestamp(self, schema: ConnectSchema | None) -> bool:
        member = schema.at_path(self._path) if schema is not None else None
        return member is not None and member.name == TIMESTAMP

    def _time(self, value: Any, unit: TimeUnit) -> int | str:
        """The time of a value, or text that says why it has none."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return unit.ms(value)
        if value is None or value is MISSING:
            return f"field '{'.'.join(self._path)}' is null or missing"
        return f"field '{'.'.join(self._path)}' has the unsupported type {type(value).__name__}"

    def _text(self, text: str) -> int | str:
        known = self._known.get(text)
        if known is None:
            known = self._read(text)
            if len(self._known) >= TEXT_CACHE:
                self._known.clear()
            self._known[text] = known
        return known

    def _read(self, text: str) -> int | str:
        try:
            if self._pattern is not None:
                return self._pattern.parse(text)
            if self._unit is not TimeUnit.MS and DIGITS.fullmatch(text):
                return self._unit.ms(int(text))
            return parse_timestamp(text, default_zone=self._zone)
        except ValueError as error:
            return str(error)


def _stamped(offsets: Longs, items: list[int | str]) -> Stamped:
    """The times of the records at these offsets, or texts that say why there is none."""
    bad = [row for row, item in enumerate(items) if isinstance(item, str)]
    valid = np.ones(len(offsets), bool)
    valid[bad] = False
    times = np.array([0 if isinstance(item, str) else item for item in items], np.int64)
    return Stamped(times, valid, [_bad_field(int(offsets[row]), str(items[row])) for row in bad])


def _no_time(offset: int, reason: str) -> Failure:
    message = f"Unable to determine timestamp using timestamp.extractor Record: {reason}."
    return Failure(offset, Stage.TASK_PUT, SINK_TASK, "io.confluent.connect.storage.errors.PartitionException", message)


def _bad_field(offset: int, reason: str) -> Failure:
    exception = "org.apache.kafka.connect.errors.DataException"
    message = f"timestamp.extractor RecordField: {reason}."
    return Failure(offset, Stage.TASK_PUT, SINK_TASK, exception, message, stops_original=True)


_log = logging.getLogger(__name__)


class Plausible:
    """Another extractor's times; those outside of 1990 to 2100 are logged once and, where `rejects`, failures (stage TASK_PUT)."""

    needs_now = False

    def __init__(self, inner: TimestampExtractor, *, rejects: bool) -> None:
        self._inner = inner
        self._rejects = rejects
        self._logged = False

    def extract(self, run: Run, now_ms: int) -> Stamped:
        """The times of a run."""
        stamped = self._inner.extract(run, now_ms)
        odd = np.flatnonzero(stamped.valid & ((stamped.times < EARLIEST) | (stamped.times >= LATEST)))
        if not len(odd):
            return stamped
        texts = {int(row): _text(int(stamped.times[row])) for row in (odd if self._rejects else odd[:1])}
        if not self._logged:
            _log.warning("The record at offset %d has %s", run.offsets[odd[0]], texts[int(odd[0])])
            self._logged = True
        if not self._rejects:
            return stamped
        valid = stamped.valid.copy()
        valid[odd] = False
        failures = [rejection(int(run.offsets[row]), f"It has {text}") for row, text in texts.items()]
        merged = sorted([*stamped.failures, *failures], key=lambda failure: failure.offset)
        return replace(stamped, valid=valid, failures=merged)


def _text(epoch_ms: int) -> str:
    moment = np.datetime64(epoch_ms, "ms")
    return (
        f"the time {moment}Z, outside of 1990 to 2100. If its number is in seconds, micro- or nanoseconds, set "
        "timestamp.field.unit to s, us or ns."
    )
