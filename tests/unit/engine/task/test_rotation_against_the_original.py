"""The real loop leaves the objects and the frontier that the original's algorithm, record by record, gives (SEMANTICS A3.2, A3.3)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kafka_s3.model.files import Reason
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, TIME
from tests.support.examples import examples
from tests.support.memory_world import ORDERS, START_MS, World

pytestmark = pytest.mark.usefixtures("_either_way")

MINUTE = 60_000
DAY = 86_400_000
STRUCT = {"type": "struct", "fields": [{"field": "n", "type": "int64"}, {"field": "d", "type": "string"}]}


@dataclass(frozen=True)
class Rules:
    flush_size: int
    interval_ms: int
    on_change: bool
    schedule_ms: int
    max_open: int
    extractor: str  # Record, Wallclock, or field: no time partitioner at all

    def config(self) -> dict[str, str]:
        time = {**TIME, "timestamp.extractor": self.extractor}
        by_field = {**FIELD, "value.converter.schemas.enable": "true", "timezone": "UTC"}
        return {
            "flush.size": str(self.flush_size),
            "rotate.interval.ms": str(-1 if self.extractor == "field" else self.interval_ms),
            "rotate.file.on.partition.change": str(self.on_change).lower(),
            "rotate.schedule.interval.ms": str(self.schedule_ms),
            "partitioner.max.open.files": str(self.max_open),
            **(by_field if self.extractor == "field" else time),
        }


@dataclass(frozen=True)
class Record:
    offset: int
    timestamp: int
    directory: str

    def stored(self, rules: Rules) -> MemoryRecord:
        value = {"n": self.offset, "d": self.directory}
        document = {"schema": STRUCT, "payload": value} if rules.extractor == "field" else value
        return MemoryRecord(self.offset, self.timestamp, None, json.dumps(document).encode())


@dataclass
class Original:
    """The pseudo-code of SEMANTICS A3.2 for one topic-partition."""

    rules: Rules
    next_rotation: int
    files: dict[str, list[int]] = field(default_factory=dict)
    open: dict[str, list[int]] = field(default_factory=dict)
    count: int = 0
    base: int | None = None
    current: str = ""
    last_time: int = 0
    last_offset: int = -1
    to_commit: int | None = None

    def deliver(self, now: int, queue: list[Record]) -> None:
        if self.count == 0 and self.scheduled(now):
            self.next_rotation = mark_after(now, self.rules.schedule_ms)
        while queue:
            record = queue[0]
            by_time = self.rules.extractor != "field"
            time = now if self.rules.extractor == "Wallclock" else record.timestamp
            if by_time and self.base is None:
                self.base = time
            directory = f"h={datetime.fromtimestamp(time / 1000, UTC):%H}" if by_time else f"d={record.directory}"
            if self.count > 0 and (self.periodic(directory, time) or self.scheduled(now)):
                self.next_rotation = mark_after(now, self.rules.schedule_ms)
                self.commit()
                continue
            if 0 < self.rules.max_open <= len(self.open) and directory not in self.open:
                self.commit()
                continue
            self.open.setdefault(directory, []).append(record.offset)
            queue.pop(0)
            self.count += 1
            self.current, self.last_time, self.last_offset = directory, time, record.offset
            if self.count >= self.rules.flush_size:
                self.commit()
        if self.count > 0 and (self.periodic(self.current, self.last_time) or self.scheduled(now)):
            self.next_rotation = mark_after(now, self.rules.schedule_ms)
            self.commit()

    def periodic(self, directory: str, time: int) -> bool:
        if self.rules.interval_ms <= 0 or self.rules.extractor == "field":
            return False
        assert self.base is not None
        return time - self.base >= self.rules.interval_ms or (self.rules.on_change and directory != self.current)

    def scheduled(self, now: int) -> bool:
        return self.rules.schedule_ms > 0 and now >= self.next_rotation

    def commit(self) -> None:
        for directory, offsets in self.open.items():
            key = f"topics/orders/{directory}/orders+0+{offsets[0]:010d}.json"
            assert key not in self.files
            self.files[key] = offsets
        self.to_commit = self.last_offset + 1
        self.open, self.count, self.base = {}, 0, None


def mark_after(now: int, interval: int) -> int:
    if interval <= 0:
        return 0
    midnight = now - now % DAY
    return midnight + min(((now - midnight) // interval + 1) * interval, DAY)


RULES = st.builds(
    Rules,
    flush_size=st.sampled_from([1, 2, 3, 7, 1000]),
    interval_ms=st.sampled_from([-1, 10 * MINUTE, 60 * MINUTE]),
    on_change=st.booleans(),
    schedule_ms=st.sampled_from([-1, -1, 15 * MINUTE, 7 * 60 * MINUTE]),
    max_open=st.sampled_from([-1, -1, 1, 2]),
    extractor=st.sampled_from(["Record", "Record", "Wallclock", "field"]),
)
MINUTES = (0, 0, 1, 9, 10, 11, 20, 59, 60, 61, -1, -10, -60)  # about the intervals
RECORDS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(MINUTES) | st.integers(-70, 40), st.sampled_from("abc")),
    min_size=1,
    max_size=40,
)  # offset step, minutes since the record before (late ones too), directory
DELIVERIES = st.lists(st.tuples(st.integers(0, 9), st.integers(-20, 200)), max_size=10)  # records, minutes of the clock
CLOCK_SET_BACK = st.lists(st.tuples(st.integers(0, 9), st.integers(-200, 200)), max_size=10)
QUICK = settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])


def made(steps: list[tuple[int, int, str]]) -> list[Record]:
    records, offset, time = [], -1, START_MS
    for gap, minutes, directory in steps:
        offset, time = offset + gap, time + minutes * MINUTE
        records.append(Record(offset, time, directory))
    return records


def forward(rules: Rules, deliveries: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The deliveries, by a clock that is not set back where it decides: there ours differ on purpose (docs/differences.md)."""
    by_clock = rules.schedule_ms > 0 or rules.extractor == "Wallclock"
    return [(count, abs(minutes) if by_clock else minutes) for count, minutes in deliveries]


def both(
    rules: Rules, records: list[Record], deliveries: list[tuple[int, int]], *, strict: str, batch: int
) -> tuple[World, Original]:
    """Runs the loop and the original over the same deliveries, the rest last."""
    world = World({**rules.config(), "compatibility.strict": strict}, batch_size=batch)
    world.start()
    original = Original(rules, mark_after(world.now, rules.schedule_ms))
    waiting = list(records)
    for count, minutes in [*deliveries, (len(records), 1)]:
        world.now += minutes * MINUTE
        arrived, waiting = waiting[:count], waiting[count:]
        for record in arrived:
            world.kafka.add(ORDERS, record.stored(rules))
        assert world.sink.poll_and_commit()
        original.deliver(world.now, arrived)
    return world, original


@QUICK
@given(RULES, RECORDS, DELIVERIES, st.integers(1, 9))
def test_strict_leaves_the_objects_and_the_group_offset_of_the_original(rules, steps, deliveries, batch) -> None:
    records = made(steps)
    world, original = both(rules, records, forward(rules, deliveries), strict="true", batch=batch)

    assert world.numbers() == original.files
    pending = original.count > 0
    assert world.frontier() == ((original.to_commit or 0) if pending else records[-1].offset + 1)
    assert world.kafka.groups.get("connect-orders", {}).get(ORDERS) == original.to_commit
    assert not world.store.uploads


@QUICK
@given(RULES, RECORDS, DELIVERIES, st.integers(1, 9))
def test_deliveries_that_are_examined_late_leave_the_same_objects(rules, steps, deliveries, batch) -> None:
    assume(rules.extractor != "field")  # without strict, the field partitioner takes more kinds of values
    world, original = both(rules, made(steps), forward(rules, deliveries), strict="false", batch=batch)
    world.sink.drain()

    assert world.numbers() == original.files


@QUICK
@given(RULES, RECORDS, CLOCK_SET_BACK, st.booleans(), st.integers(1, 9))
def test_under_a_clock_that_is_set_back_each_record_is_written_once_and_the_schedule_waits_for_one_mark_only(
    rules, steps, deliveries, strict, batch
) -> None:
    records = made(steps)
    world, _ = both(rules, records, deliveries, strict=str(strict).lower(), batch=batch)
    if rules.schedule_ms > 0:
        world.now = mark_after(world.now, rules.schedule_ms)
        world.sink.poll_and_commit()
    else:
        world.sink.drain(close=Reason.FLUSH_NOW)

    written = [offset for offsets in world.numbers().values() for offset in offsets]
    assert sorted(written) == [record.offset for record in records]
    assert not world.store.uploads


@settings(max_examples=examples(80))
@given(st.integers(1, 6), RULES, RECORDS, DELIVERIES)
def test_a_restart_changes_no_object_that_depends_on_records_only(at, rules, steps, deliveries) -> None:
    assume(rules.schedule_ms < 0 and rules.extractor != "Wallclock")
    records = made(steps)
    world = World({**rules.config(), "compatibility.strict": "true"})
    world.start()
    original = Original(rules, 0)
    for number, (count, minutes) in enumerate([*deliveries, (len(records), 1)]):
        if number % at == 0:
            world.start()
        world.now += minutes * MINUTE
        for record in records[:count]:
            world.kafka.add(ORDERS, record.stored(rules))
        original.deliver(world.now, records[:count])
        del records[:count]
        world.sink.poll_and_commit()

    assert world.numbers() == original.files
