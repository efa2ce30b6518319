"""The examples of docs/worked-examples.md, run: the tables of the page are what the code does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from kafka_s3.connect.converters import avro_loops
from kafka_s3.connect.converters.avro import Program
from kafka_s3.connect.schemas.avro_types import read_types
from kafka_s3.engine.task.rotation import NOTHING_WRITTEN, Pending, RotationRules, next_rotation_point
from kafka_s3.model.files import Role
from kafka_s3.ops.verify.claims import read_claims
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, TIME, TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.verifying import audited
from tests.unit.connect.converters.test_avro import columns, decoder
from tests.unit.ops.verify.test_audit import changed, healthy

PAGE = Path(__file__).parents[3] / "docs" / "worked-examples.md"
NULLABLE = ["null", "string"]
AVRO = {
    "type": "record",
    "name": "Example",
    "fields": [{"name": "n", "type": "long"}, {"name": "c", "type": NULLABLE}, {"name": "t", "type": {"type": "array", "items": NULLABLE}}],
}  # fmt: skip


def table(first_column: str, title: str) -> list[list[str]]:
    """The rows of the table below a heading whose first column has this name."""
    chapter = PAGE.read_text(encoding="utf-8").split(f"\n## {title}")[1].split("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in chapter.splitlines()]
    start = next(number for number, cells in enumerate(lines) if cells[0].strip() == first_column)
    rows = []
    for cells in lines[start + 2 :]:
        if len(cells) == 1:
            break
        rows.append(cells)
    return rows


def minutes(time: str) -> int:
    """Minutes of `HH:MM` after ten o'clock."""
    hour, minute = time.split(":")
    return (int(hour) - 10) * 60 + int(minute)


def versioned(number: int, version: int) -> bytes:
    """A value in the JSON converter's envelope; version 2 has one more field."""
    fields: list[dict[str, object]] = [{"field": "n", "type": "int64"}]
    more = [{"field": "c", "type": "string", "optional": True}] if version == 2 else []
    schema = {"type": "struct", "name": "order", "version": version, "fields": fields + more}
    return json.dumps({"schema": schema, "payload": {"n": number} | ({"c": "web"} if more else {})}).encode()


def test_the_writer_closes_files_where_the_example_says() -> None:
    world = World({**TIME, "flush.size": "4", "rotate.interval.ms": "600000"})
    world.start()
    rows = table("offset", "The writer: where files close")
    for offset, time, *_ in rows:
        timestamp = START_MS + minutes(time) * 60_000
        world.kafka.add(ORDERS, MemoryRecord(int(offset), timestamp, None, b'{"n": 1}'))
    world.sink.poll_and_commit()

    expected, first = [], 0
    for offset, _, directory, reason in rows:
        if reason not in ("", "pending"):
            expected.append((f"topics/orders/{directory}/orders+0+{first:010d}.json", int(offset), reason))
            first = int(offset) + 1
    files = [file for entry in world.entries() for file in entry.files]
    assert [(file.key, file.last_offset, str(file.reason)) for file in files] == expected
    assert world.frontier() == first


def test_each_rule_alone_finds_the_row_that_the_example_says() -> None:
    records = table("offset", "The writer: where files close")
    names = sorted({directory for *_, directory, _ in records})
    codes = np.array([names.index(directory) for *_, directory, _ in records], np.int32)
    times = np.array([minutes(time) * 60_000 for _, time, *_ in records])
    rules = (
        RotationRules(flush_size=4),
        RotationRules(interval_ms=600_000, on_partition_change=False),
        RotationRules(interval_ms=10**9),
    )
    for row, base, *cells, _ in table("row", "The writer: where files close"):
        pending = Pending(0, minutes(base) * 60_000, NOTHING_WRITTEN)
        for rule, cell in zip(rules, cells, strict=True):
            found = next_rotation_point(rule, pending, start=int(row), times=times, codes=codes)
            inside = cell != "none" and not cell.endswith("not in the run")
            assert (found.position, found.reason is not None) == (
                int(cell.split()[0]) if inside else len(codes),
                inside,
            ), row


def test_two_schemas_at_once_share_files_as_the_example_says() -> None:
    world = World({"value.converter.schemas.enable": "true", "flush.size": "4", "schema.compatibility": "BACKWARD"})
    world.start()
    rows = table("offset", "The writer: two schemas at once")
    for offset, version, *_ in rows:
        world.kafka.add(ORDERS, MemoryRecord(int(offset), START_MS, None, versioned(int(offset), int(version))))
    world.sink.poll_and_commit()

    schemas = {file.key: file.schema for entry in world.entries() for file in entry.files}
    found = [(str(row["n"]), key.rpartition("/")[2], schemas[key]) for key, r in world.objects().items() for row in r]
    assert sorted(found) == [(offset, file, schema) for offset, _, file, schema in rows]


def test_a_batch_goes_the_ways_of_the_example() -> None:
    nulls = {"behavior.on.null.values": "ignore", "report.null.values.to.dlq": "false"}
    world = World({**FIELD, **TOLERANT, **nulls, "flush.size": "3"})
    world.start()
    rows = table("offset", "The worker")
    for part in (rows[:2], rows[2:]):
        for offset, value, *_ in part:
            content = None if value == "null" else value.encode()
            world.kafka.add(ORDERS, MemoryRecord(int(offset), START_MS, None, content))
        for _ in range(2):  # the second look finds that the tail has waited long enough
            world.sink.poll_and_commit()
            world.now += 61_000

    before, last = world.entries()[-2:]
    assert before.progress[ORDERS].recorded.ranges == ((1, 1),)
    written = {f"written to {key.split('/')[2]}": found for key, found in world.numbers().items()}
    assert written == {
        text: [int(offset) for offset, *_, becomes in rows if becomes == text]
        for text in ("written to d=a", "written to d=b")
    }
    assert [file.first_offset for file in last.files if file.role is Role.DEAD_LETTER] == [3]
    assert (last.totals.written, last.totals.dead_letters, last.totals.skipped) == (3, 1, 1)


TITLE = "Avro in columns"


def test_the_steps_of_a_schema_are_those_of_the_example() -> None:
    kinds = {getattr(avro_loops, name): name for name in ("LONG", "STRING", "ARRAY", "ITEM")}
    schema = decoder(AVRO).schema
    assert schema is not None
    steps = Program(read_types(AVRO), schema, None).steps
    found = [(at, kinds[s.kind], s.null, s.column, s.level, s.jump, s.of) for at, s in enumerate(steps)]
    assert [["" if cell == avro_loops.NONE else str(cell) for cell in row] for row in found] == table("step", TITLE)


def test_payloads_are_read_as_the_example_says() -> None:
    rows = table("payload", TITLE)
    payloads = pa.array([bytes.fromhex(row[1]) for row in rows], pa.binary())
    found, passed = columns(AVRO).read(payloads)
    assert passed.all()
    assert found.to_pylist() == [{"n": json.loads(n), "c": json.loads(c), "t": json.loads(t)} for _, _, n, c, t in rows]

    entries = [json.loads(f"[{row[1]}]") for row in table("column", TITLE)]
    arrays = found.column("t").combine_chunks()
    columns_there = [found.column("n"), found.column("c"), arrays.offsets[1:], arrays.values]
    assert [column.to_pylist() for column in columns_there] == entries


def test_payloads_that_the_example_refuses_are_refused() -> None:
    refused = [bytes.fromhex(row[0]) for row in table("bytes", TITLE)]
    good = bytes.fromhex(table("payload", TITLE)[0][1])
    _, passed = columns(AVRO).read(pa.array([good, *refused, good], pa.binary()))
    assert passed.tolist() == [True, *[False] * len(refused), True]


def test_the_audit_accounts_for_offsets_as_the_example_says() -> None:
    world = healthy()
    segments = list(read_claims(world.store, state_paths(world.settings)).segments.of(ORDERS))
    assert [
        [
            str(s.version),
            f"[{s.start}, {s.until})",
            str(s.written),
            str(s.dead_letters),
            str(s.skipped),
            str(s.until - s.start),
        ]
        for s in segments
    ] == table("entry", "The audit")
    assert audited(world).findings == ()


def test_each_damage_of_the_example_shows_as_it_says() -> None:
    damages = {
        "a value changed": lambda content: content.replace(b"5", b"9"),
        "its last line cut off": lambda content: content[: content.rindex(b"{")],
    }
    for damage, findings in table("damage to orders+0+0000000003.json", "The audit"):
        world = healthy()
        key = next(key for key in world.store.objects if key.endswith("+0000000003.json"))
        if damage == "deleted":
            world.store.delete(key)
        else:
            changed(world, key, damages[damage])
        kinds = sorted({str(finding.kind).replace("_", " ") for finding in audited(world).findings})
        assert ", ".join(kinds) == findings, damage
