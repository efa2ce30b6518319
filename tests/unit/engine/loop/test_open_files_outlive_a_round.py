"""Open files that are kept between tasks: however a topic's deliveries are divided, the objects are those of one go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from kafka_s3.engine.open_files import states
from kafka_s3.model.files import Reason
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import STATE, TOLERANT
from tests.support.examples import examples
from tests.support.in_bulk import take_in_bulk
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.observers import Told
from tests.support.open_files import content

OPEN = f"{STATE}orders/open/"
FORMATS = {
    "json": {"format.class": "io.confluent.connect.s3.format.json.JsonFormat"},
    "json, gzip": {"format.class": "io.confluent.connect.s3.format.json.JsonFormat", "s3.compression.type": "gzip"},
    "parquet": {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "parquet.codec": "zstd"},
    "avro": {"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"},
}
BY_TIME = {
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner", "path.format": "'h'=HH-mm",
    "partition.duration.ms": "60000", "locale": "en", "timezone": "UTC", "timestamp.extractor": "Record",
}  # fmt: skip
PARTITIONERS = {
    "default": {},
    "field": {"partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner", "partition.field.name": "d"},
    "time": BY_TIME,
}  # fmt: skip
ROTATIONS = {
    "count": {"flush.size": "7"},
    "interval": {"rotate.interval.ms": "90000", **BY_TIME},
    "schedule": {"rotate.schedule.interval.ms": "60000", "timezone": "UTC", "flush.size": "100000"},
    "many files": {"flush.size": "100000", "partitioner.max.open.files": "2"},
    "none": {"flush.size": "100000"},
}
SIDECARS = {
    "store.kafka.keys": "true", "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter", "behavior.on.null.values": "write",
    "store.kafka.headers": "true", "headers.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}  # fmt: skip
SCHEMAS = {
    "one": {"schema.compatibility": "NONE"},
    "backward": {"schema.compatibility": "BACKWARD"},
    "unify": {"schema.compatibility": "NONE", "schema.compatibility.unify": "true"},
}


@dataclass(frozen=True)
class Step:
    """Records arrive, time passes, and the sink looks; then perhaps something happens to it."""

    records: tuple[tuple[int, str] | None, ...]  # schema version and directory; None is a null value
    seconds: int
    event: str = ""


def envelope(number: int, version: int, directory: str) -> bytes:
    fields = [{"field": "n", "type": "int32"}, {"field": "d", "type": "string"}]
    payload: dict[str, Any] = {"n": number, "d": directory}
    if version > 1:
        fields.append({"field": "more", "type": "string", "optional": True})
        payload["more"] = "x" * number if number % 3 else None
    schema = {"type": "struct", "name": "Order", "version": version, "fields": fields}
    return json.dumps({"schema": schema, "payload": payload}).encode()


def played(
    config: dict[str, str],
    steps: Sequence[Step],
    *,
    kept: bool,
    part_size: int,
    task_records: int = 1_000_000,
    batch_size: int = 10_000,
    on_disk: bool = False,
    in_bulk: bool = False,
) -> Any:
    """The objects, and what the log says of them, after all steps and a flush; `on_disk`: what is kept waits on local disk."""
    with pytest.MonkeyPatch.context() as patch:
        if on_disk:
            patch.setattr(states, "IN_MEMORY", 0)
        if in_bulk:
            take_in_bulk(patch)
        return _played(config, steps, kept=kept, part_size=part_size, task_records=task_records, batch_size=batch_size)


def _played(
    config: dict[str, str],
    steps: Sequence[Step],
    *,
    kept: bool,
    part_size: int,
    task_records: int,
    batch_size: int,
) -> Any:
    more = {"tail.read.records": "1"} if kept else {"tail.state.enable": "false", "tail.check.interval.ms": "100000000"}
    world = World({**config, **more}, batch_size=batch_size)
    world.kafka.pipeline = lambda: replace(make_pipeline(world.settings), part_size=part_size)
    start(world, task_records)
    offset = 0
    for step in steps:
        for record in step.records:
            value = None if record is None else envelope(offset, *record)
            headers = (("h", b"1"),) if offset % 2 else ()
            stamp = START_MS + (world.now - START_MS) // 2 + offset * 700
            world.kafka.add(ORDERS, MemoryRecord(offset, stamp, b"k%d" % offset, value, headers))
            offset += 1 if offset % 11 else 3  # gaps, as after compaction
        world.now += step.seconds * 1000
        if kept and step.event:
            happen(world, step.event, task_records)
        world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert not [key for key in world.store.objects if key.startswith(OPEN)]
    if not {"lost", "damaged"} & {step.event for step in steps}:  # what nobody can read any more is swept
        assert not world.store.uploads
    files = [
        (file.key, file.first_offset, file.last_offset, file.records, str(file.reason), file.schema, str(file.role),
         file.min_timestamp, file.max_timestamp)
        for entry in world.entries() for file in entry.files if str(file.role) != "dead_letter"
    ]  # fmt: skip
    letters = sum(count.count for e in world.entries() for count in e.dead_letters.values())
    found = {key: content(key, data) for key, data in world.store.objects.items() if not key.startswith(STATE)}
    return files, letters, world.log().load().totals.skipped, found


def start(world: World, task_records: int) -> None:
    sink = world.start()
    sink.behaviour = replace(sink.behaviour, readiness=replace(sink.behaviour.readiness, task_records=task_records))
    sink.topics.behaviour = sink.behaviour
    for tp, one in sink.partition_states.items():
        sink.partition_states[tp] = replace(one, limit=task_records, least_limit=task_records)


def happen(world: World, event: str, task_records: int) -> None:
    states = [key for key in world.store.objects if key.startswith(OPEN)]
    if event == "restart":
        start(world, task_records)
    for key in states:
        if event == "lost":
            world.store.delete(key)
        if event == "damaged":
            data = bytearray(world.store.get(key))
            data[len(data) // 2] ^= 1
            world.store.put(key, bytes(data))
    if event == "uploads gone":
        for number, upload in world.store.uploads.items():
            world.store.abort_upload(upload.key, number)


RECORD = st.tuples(st.sampled_from([1, 1, 2]), st.sampled_from(["a", "a", "b", "c"]))
EVENTS = ["", "", "", "restart", "lost", "damaged", "uploads gone"]
STEP = st.builds(
    Step,
    records=st.lists(st.one_of(RECORD, RECORD, RECORD, RECORD, st.none()), max_size=9).map(tuple),
    seconds=st.integers(0, 40),
    event=st.sampled_from(EVENTS),
)


def tried(number: int) -> settings:
    return settings(
        max_examples=number,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )


@dataclass(frozen=True)
class Case:
    """A configuration, and the division of a topic into rounds and tasks; `part_size` in bytes."""

    steps: list[Step]
    form: str
    partitioner: str
    rotation: str
    sidecars: bool = False
    schemas: str = "one"
    part_size: int = 60
    task_records: int = 1
    batch_size: int = 1
    on_disk: bool = False
    in_bulk: bool = False

    def config(self) -> dict[str, str]:
        sidecars = SIDECARS if self.sidecars else {"behavior.on.null.values": "ignore"}
        return {
            **TOLERANT, "value.converter.schemas.enable": "true", **FORMATS[self.form], **PARTITIONERS[self.partitioner],
            **ROTATIONS[self.rotation], **SCHEMAS[self.schemas], **sidecars, "flush.bytes": "-1",
        }  # fmt: skip

    def possible(self) -> list[Step]:
        """The steps; under a schedule without loss, for what a restart makes of the clock depends on state that is not lost."""
        if self.rotation != "schedule":
            return self.steps
        return [replace(step, event=step.event if step.event in ("", "restart") else "") for step in self.steps]


CASES = st.builds(
    Case,
    steps=st.lists(STEP, min_size=1, max_size=7),
    form=st.sampled_from(sorted(FORMATS)),
    partitioner=st.sampled_from(sorted(PARTITIONERS)),
    rotation=st.sampled_from(sorted(ROTATIONS)),
    sidecars=st.booleans(),
    schemas=st.sampled_from(sorted(SCHEMAS)),
    part_size=st.sampled_from([40, 300, 5_242_880]),
    task_records=st.sampled_from([1, 3, 1_000_000]),
    batch_size=st.sampled_from([1, 4, 10_000]),
    on_disk=st.booleans(),
    in_bulk=st.booleans(),
)
THREE = ((1, "a"), (2, "a"), (1, "b"))


def assert_as_in_one_go(case: Case) -> None:
    config, steps = case.config(), case.possible()
    together = played(config, steps, kept=False, part_size=case.part_size)
    sizes = {"part_size": case.part_size, "task_records": case.task_records, "batch_size": case.batch_size}
    assert played(config, steps, kept=True, on_disk=case.on_disk, in_bulk=case.in_bulk, **sizes) == together


@tried(examples(40))
@given(CASES)
@example(Case([Step(THREE, 10)] * 3, "parquet", "field", "none", sidecars=True, schemas="unify"))
@example(Case([Step(THREE, 30, "restart")] * 4, "avro", "field", "schedule", task_records=3, batch_size=4))
def test_any_division_into_tasks_gives_the_objects_of_one_go(case: Case) -> None:
    assert_as_in_one_go(case)


@pytest.mark.nightly
@tried(600)
@given(CASES)
def test_many_more_divisions_into_tasks_give_the_objects_of_one_go(case: Case) -> None:
    assert_as_in_one_go(case)


@pytest.mark.parametrize("name", ["", "${topic}.${partition}.${offset}.${time}"])
def test_each_record_is_read_once(name: str) -> None:
    world = World({
        "rotate.schedule.interval.ms": "3600000", "timezone": "UTC", "tail.read.records": "50", "object.name.template": name,
    })  # fmt: skip
    reported = Told()
    world.start(observer=reported)
    for minute in range(70):
        world.add(range(minute * 20, minute * 20 + 20), timestamp=world.now)
        world.now += 60_000
        world.sink.poll_and_commit()
    (key, *_) = world.numbers()
    assert world.numbers()[key] == list(range(59 * 20))  # those of the mark itself are the next file's first
    assert (reported.read, reported.texts) == (70 * 20, [])
