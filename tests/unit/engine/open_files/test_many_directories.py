"""Hundreds of directories in batches that are joined, bad records among them, with little memory: each record once and in order."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from dataclasses import replace
from os import PathLike
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_s3.connect.naming.keys import ConnectNames
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, Objects
from kafka_s3.engine.open_files import row_forms
from kafka_s3.engine.open_files.batch import RoutedRun, mixed_batch
from kafka_s3.engine.open_files.file_encoders import SchemaRules
from kafka_s3.engine.open_files.open_files import OpenFile, Output
from kafka_s3.engine.open_files.row_forms import RowForm
from kafka_s3.engine.open_files.small_files import DirectoryRows, SmallFiles
from kafka_s3.engine.task import writer
from kafka_s3.engine.task.rotation import RotationRules
from kafka_s3.engine.task.writer import TopicPartitionWriter
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.objects.text import json_format
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World, rows, settings_of

RECORDS, DIRECTORIES = 4_000, 301
PART_SIZE = 80_000
LITTLE = {"flush.size": "1000000", **FIELD, **TOLERANT, "writer.memory.bytes": str(1 << 20)}
KEYS = {"store.kafka.keys": "true", "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat"}


@pytest.mark.parametrize(
    ("compression", "stored"), [("none", {}), pytest.param("gzip", {}, marks=pytest.mark.nightly), ("gzip", KEYS)]
)
def test_each_record_is_written_once_and_in_order_or_is_a_dead_letter(compression: str, stored: dict[str, str]) -> None:
    config = {**LITTLE, **stored, "s3.compression.type": compression}
    world, expected, bad = World(config, batch_size=500), defaultdict[str, list[int]](list), list[int]()
    texts = list[str]()
    for offset in range(RECORDS):
        name = str(offset * 7919 % DIRECTORIES)
        text = json.dumps({"d": name, "n": offset, "rest": "x" * 600})
        texts.append(text)
        if offset % 11 == 3:
            text = text[:-1]
            bad.append(offset)
        else:
            expected[name].append(offset)
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS + offset, b"%d" % offset, text.encode()))

    wanted = Assignment(ORDERS, 0, RECORDS, (Delivery(world.now, RECORDS),), close=Reason.FLUSH_NOW)
    batches = world.kafka.batches(ORDERS, 0, until=RECORDS)
    report = make_pipeline(settings_of(config)).process(wanted, batches, world.store)
    for file in report.files:
        world.store.complete_upload(file.upload)

    values = [file for file in report.files if file.role is Role.VALUE]
    found = {file.encoded_partition: [row["n"] for row in rows(file.key, world.store.get(file.key))] for file in values}
    assert found == {f"d={name}": offsets for name, offsets in expected.items()}
    assert {file.encoded_partition: (file.first_offset, file.last_offset, file.min_timestamp, file.max_timestamp) for file in values} == {
        f"d={name}": (own[0], own[-1], START_MS + own[0], START_MS + own[-1]) for name, own in expected.items()
    }  # fmt: skip
    assert [offset for low, high in report.dead.ranges for offset in range(low, high + 1)] == bad
    assert sum(len(text) for text in texts) > 2 * int(LITTLE["writer.memory.bytes"])


ROUND = 1_000
ROTATIONS = {
    "closed at the end": {"flush.size": "1000000"},
    "closed by count": {"flush.size": "700"},
    "closed by size": {"flush.size": "1000000", "flush.bytes": "150000"},
    "closed by the number of files": {"flush.size": "1000000", "partitioner.max.open.files": "150"},
}


ALL = [(rotation, compression) for rotation in ROTATIONS for compression in ("none", "gzip")]
ALL.remove(("closed by size", "gzip"))  # that size is an estimate until gzip has seen the text


@pytest.mark.parametrize(
    ("rotation", "compression"),
    [pytest.param(*one, marks=pytest.mark.nightly if "gzip" in one else ()) for one in ALL],
)
def test_in_bulk_the_objects_are_those_that_each_file_gets_by_itself(
    rotation: str, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        **FIELD, **TOLERANT, **ROTATIONS[rotation], "s3.compression.type": compression, "writer.memory.bytes": str(1 << 20),
        "tail.read.records": "1",
    }  # fmt: skip
    bulk = played(config)
    monkeypatch.setattr(writer, "MANY", RECORDS)
    assert bulk == played(config)


PARQUET = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat"}
COLUMNS = {
    "inferred": {**PARQUET, "value.schema.inference": "true"},
    "parquet": {**PARQUET, "value.converter.schemas.enable": "true"},
    "avro": {
        "format.class": "io.confluent.connect.s3.format.avro.AvroFormat",
        "value.converter.schemas.enable": "true",
    },
}
STRUCT = {
    "type": "struct",
    "fields": [{"field": name, "type": kind} for name, kind in (("d", "string"), ("n", "int64"), ("rest", "string"))],
}


@pytest.mark.parametrize("rotation", ["closed at the end", "closed by count"])
@pytest.mark.parametrize("form", COLUMNS)
def test_rows_in_columns_and_bodies_are_those_that_each_file_gets_by_itself(
    form: str, rotation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        **FIELD, **TOLERANT, **COLUMNS[form], **ROTATIONS[rotation], "writer.memory.bytes": str(1 << 20), "tail.read.records": "1",
    }  # fmt: skip
    monkeypatch.setattr(row_forms, "SMALL_ROWS", 20_000)
    released = 0
    release = SmallFiles.release

    def watched(files: SmallFiles, folder: PathLike[str]) -> None:
        nonlocal released
        released += files.memory() > 0
        release(files, folder)

    monkeypatch.setattr(SmallFiles, "release", watched)
    bulk = played(config)
    if (
        rotation != "closed by the number of files" and form != "inferred"
    ):  # there a bad record ends a run: mixed ones wait by file
        assert released
    monkeypatch.setattr(writer, "MANY", RECORDS)
    assert bulk == played(config)


def test_a_column_that_comes_late_is_in_the_files_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def late() -> dict[str, list[tuple[int, str | None]]]:
        world = World({**FIELD, **TOLERANT, **COLUMNS["inferred"], "flush.size": "1000000"}, batch_size=150)
        for offset in range(600):
            value = {"d": str(offset % 70 + offset // 300 * 35), "n": offset}
            more = {"late": f"of {offset}"} if offset >= 300 and offset % 2 else {}
            world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, json.dumps(value | more).encode()))
        world.start()
        world.sink.poll_and_commit()
        world.sink.drain(close=Reason.FLUSH_NOW)
        files = [file.key for entry in world.entries() for file in entry.files]
        tables = {key: pq.read_table(io.BytesIO(world.store.get(key))).to_pylist() for key in files}
        return {key: [(row["n"], row.get("late")) for row in table] for key, table in tables.items()}

    bulk = late()
    assert sorted(row for own in bulk.values() for row in own) == [
        (n, f"of {n}" if n >= 300 and n % 2 else None) for n in range(600)
    ]
    monkeypatch.setattr(writer, "MANY", RECORDS)
    assert bulk == late()


def played(config: dict[str, str]) -> dict[str, tuple[object, ...]]:
    """What three rounds leave: objects' facts and rows. Directory 7 is large; some records are bad."""
    enveloped = config.get("value.converter.schemas.enable") == "true"
    world = World(config, batch_size=500)
    world.kafka.pipeline = lambda: replace(make_pipeline(world.settings), part_size=PART_SIZE)
    world.start()
    for first in range(0, ROUND * 3, ROUND):
        for offset in range(first, first + ROUND):
            name = 7 if offset % 5 == 0 else offset * 7919 % DIRECTORIES
            value = {"d": str(name), "n": offset, "rest": "x" * 500}
            text = json.dumps({"schema": STRUCT, "payload": value} if enveloped else value).encode()
            if offset % 100 == 13:
                text = b"no JSON"
            world.kafka.add(ORDERS, MemoryRecord(offset, START_MS + offset, b"%d" % offset, text))
        world.now += 1_000
        world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert not world.store.uploads
    files = [file for entry in world.entries() for file in entry.files if file.role is Role.VALUE]
    totals = world.log().load().totals
    assert (totals.dead_letters, sum(file.records for file in files)) == (30, ROUND * 3 - 30)
    return {
        file.key: (
            file.first_offset, file.last_offset, file.records, file.min_timestamp, file.max_timestamp, file.reason,
            numbers(file.key, world.store.get(file.key)),
        )
        for file in files
    }  # fmt: skip


def numbers(key: str, data: bytes) -> list[int]:
    """The records of an object."""
    if key.endswith(".parquet"):
        found: list[int] = pq.read_table(io.BytesIO(data))["n"].to_pylist()
        return found
    return [row["n"] for row in (fastavro.reader(io.BytesIO(data)) if key.endswith(".avro") else rows(key, data))]


def test_what_is_no_line_as_it_comes_goes_behind_the_lines_of_its_file(tmp_path: Path) -> None:
    names = [f"d={number}" for number in range(100)]
    offsets, codes, store = np.arange(300), np.arange(300, dtype=np.int32) % 100, MemoryStore()
    texts = pa.array([b'{"n":%d}' % offset for offset in offsets.tolist()], pa.binary())
    naming, form = ConnectNames("topics", "/", "+", 10), json_format(gzip_level=None, decimals="BASE64")
    output = Output(store, naming, {Role.VALUE: form}, SchemaRules(), 5 << 20, 1 << 20, 2, tmp_path)
    sink = TopicPartitionWriter(ORDERS, RotationRules(), output, 0, None)
    own = sink.targets[None]
    whole = Run(offsets, offsets, JsonText(texts, None, lines=True), None)
    for first, last in ((0, 150), (150, 220), (220, 300)):
        run = whole.slice(first, last)
        if first == 150:
            run = replace(run, values=Objects(run.values.objects()))
        assert not sink.write(mixed_batch([RoutedRun(run, codes[first:last], names, None)]))
        assert (len(own.open.small), len(own.open.files)) == ((100, 0) if first == 0 else (0, 100))

    sink.close(Reason.FLUSH_NOW)
    for file in sink.closed.files:
        store.complete_upload(file.upload)
        expected = [n for n in range(300) if names[n % 100] == file.encoded_partition]
        assert [row["n"] for row in rows(file.key, store.get(file.key))] == expected
        assert (file.first_offset, file.last_offset, file.records) == (expected[0], expected[-1], 3)
    assert len(store.objects) == 100


def test_directories_that_come_one_by_one_wait_together_once_they_are_many(tmp_path: Path) -> None:
    names, store = [f"d={number}" for number in range(200)], MemoryStore()
    naming, form = ConnectNames("topics", "/", "+", 10), json_format(gzip_level=None, decimals="BASE64")
    output = Output(store, naming, {Role.VALUE: form}, SchemaRules(), 5 << 20, 1 << 20, 2, tmp_path)
    sink = TopicPartitionWriter(ORDERS, RotationRules(), output, 0, None)
    for offset in range(600):
        texts = pa.array([b'{"n":%d}' % offset], pa.binary())
        run = Run(np.array([offset]), np.array([offset]), JsonText(texts, None, lines=True), None)
        assert not sink.write(mixed_batch([RoutedRun(run, np.zeros(1, np.int32), [names[offset * 7 % 200]], None)]))
    own = sink.targets[None]
    assert (len(own.open.files), len(own.open.small)) == (writer.MANY, 200 - writer.MANY)

    sink.close(Reason.FLUSH_NOW)
    for file in sink.closed.files:
        store.complete_upload(file.upload)
        expected = [n for n in range(600) if names[n * 7 % 200] == file.encoded_partition]
        assert [row["n"] for row in rows(file.key, store.get(file.key))] == expected
    assert len(store.objects) == 200


def test_files_that_grow_all_at_once_do_not_come_back_into_memory_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, step, memory, store = 1_000, 3, 1 << 20, MemoryStore()
    names, line = [f"d={number}" for number in range(count)], b'{"n":"' + b"x" * 9_992 + b'"}'
    naming, form = ConnectNames("topics", "/", "+", 10), json_format(gzip_level=None, decimals="BASE64")
    output = Output(store, naming, {Role.VALUE: form}, SchemaRules(), 5 << 20, memory, 2, tmp_path)
    sink, codes, most = (
        TopicPartitionWriter(ORDERS, RotationRules(), output, 0, None),
        np.arange(100, dtype=np.int32),
        0,
    )
    append_rows = OpenFile.append_rows

    def watched(file: OpenFile, found: DirectoryRows, form: RowForm) -> None:
        nonlocal most
        append_rows(file, found, form)
        most = max(most, sink.memory())

    monkeypatch.setattr(OpenFile, "append_rows", watched)
    for first in range(0, count * step, 100):
        offsets, some = np.arange(first, first + 100), names[first % count : first % count + 100]
        run = Run(offsets, offsets, JsonText(pa.array([line] * 100, pa.binary()), None, lines=True), None)
        assert not sink.write(mixed_batch([RoutedRun(run, codes, some, None)]))
        if first == count * 2 - 100:
            sink.targets[None].settle_small_files()

    assert sink.large_count() == count
    assert 0 < most < 2 * memory
    sink.close(Reason.FLUSH_NOW)
    assert [(file.records, file.bytes) for file in sink.closed.files] == [(step, step * (len(line) + 1))] * count
