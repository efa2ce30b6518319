"""A file that keeps some rows of a batch keeps all of the batch in memory: before these are many, it copies its rows."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.naming.keys import ConnectNames
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, StructColumns, Values
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.engine.open_files.batch import RoutedRun, mixed_batch
from kafka_s3.engine.open_files.file_encoders import SchemaRules, Unifying
from kafka_s3.engine.open_files.open_files import Output
from kafka_s3.engine.task import writer
from kafka_s3.engine.task.rotation import RotationRules
from kafka_s3.engine.task.writer import TopicPartitionWriter
from kafka_s3.model.files import Reason, Role
from kafka_s3.objects.parquet import ParquetFile, parquet_format
from kafka_s3.store.memory import MemoryStore
from tests.support.memory_world import ORDERS
from tests.unit.objects.test_paused_encoders import SCHEMA

FORM = parquet_format("zstd", AvroOptions())
MEMORY, ROWS, BATCHES = 8 << 20, 1_000, 200


def columns(first: int, count: int, width: int = 3) -> pa.Table:
    texts = [None if number % 7 == 0 else "x" * width for number in range(first, first + count)]
    return pa.table({"n": pa.array(range(first, first + count), pa.int64()), "text": pa.array(texts, pa.string())})


@pytest.mark.parametrize("unify", [False, True])
@pytest.mark.parametrize(
    ("rare", "topics", "many"),
    [("one at the end", 1, ROWS), ("two apart", 1, ROWS), ("one at the end", 16, ROWS), ("two apart", 1, writer.MANY)],
)
def test_rare_directories_do_not_keep_the_batches_from_which_their_records_come(
    unify: bool, rare: str, topics: int, many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each batch of 300 kB a record or two go to a directory of their own, and the others to one that is spilled now and then. Several
    topics, to which batches go in turns, have one bound together. Once `many` directories have files, the rows of later ones wait together.
    """
    monkeypatch.setattr(writer, "MANY", many)
    store, naming = MemoryStore(), ConnectNames("topics", "/", "+", 10)
    output = Output(store, naming, {Role.VALUE: FORM}, SchemaRules(unify=unify), 5 << 20, MEMORY, 2, tmp_path)
    names = (lambda _: naming) if topics > 1 else None
    sink, before, most = (
        TopicPartitionWriter(ORDERS, RotationRules(), output, 0, None, names),
        pa.total_allocated_bytes(),
        0,
    )
    codes = np.zeros(ROWS, np.int32)
    codes[[ROWS - 1] if rare == "one at the end" else [0, ROWS // 2]] = 1
    for number in range(BATCHES):
        offsets = np.arange(number * ROWS, (number + 1) * ROWS)
        topic = f"topic-{number % topics}" if topics > 1 else None
        run = Run(offsets, offsets, StructColumns(columns(number * ROWS, ROWS, width=300)), SCHEMA, topic=topic)
        assert not sink.write(mixed_batch([RoutedRun(run, codes, ["d=often", f"d={number}"], None)]))
        del run
        most = max(most, pa.total_allocated_bytes() - before)
    assert (sink.open_count(), sink.large_count()) == (BATCHES + topics, min(BATCHES + topics, many))
    assert most < MEMORY

    sink.close(Reason.FLUSH_NOW)
    found: list[int] = []
    for file in sink.closed.files:
        store.complete_upload(file.upload)
        found += pq.read_table(io.BytesIO(store.get(file.key))).column("n").to_pylist()
    assert sorted(found) == list(range(BATCHES * ROWS))


def addresses(table: pa.Table) -> Iterator[tuple[int, int]]:
    """Where the buffers of a table lie, from and to."""
    for column in table.columns:
        for chunk in column.chunks:
            yield from ((buffer.address, buffer.address + buffer.size) for buffer in chunk.buffers() if buffer)


def typed(first: int, count: int) -> StructColumns:
    return StructColumns(columns(first, count))


def inferred(first: int, count: int) -> JsonText:
    table = columns(first, count) if first % 3 else columns(first, count).select(["n"])
    return JsonText(pa.array([b"{}"] * count, pa.binary()), table)


@given(st.data())
@pytest.mark.parametrize(("make", "schema"), [(typed, SCHEMA), (inferred, None)])
def test_what_is_copied_is_the_same_and_shares_no_memory(
    make: Callable[[int, int], Values], schema: ConnectSchema | None, data: st.DataObject
) -> None:
    encoder: Any = FORM.open(schema)
    assert isinstance(encoder, ParquetFile)
    sources, first = list[Any](), 0
    for count in data.draw(st.lists(st.sampled_from([1, 2, 100, 255, 256, 300]), min_size=1, max_size=12)):
        sources.append(make(first, count + 20))
        encoder.append(sources[-1].slice(7, 7 + count))
        first += count
        if data.draw(st.booleans()):
            encoder.detach()
            own = [span for table in encoder._tables for span in addresses(table)]
            shared = [span for source in sources for span in addresses(source.table)]
            assert not [1 for a, b in own for c, d in shared if a < d and c < b]
            kept = list(encoder._tables)
            encoder.detach()
            assert all(one is other for one, other in zip(kept, encoder._tables, strict=True))
        waiting = sum(table.nbytes for table in encoder._tables)
        assert waiting <= encoder.pending() <= waiting + 2 * 1536 * len(encoder._tables) + 64 * len(sources)
    encoder.finish()
    found = pq.read_table(io.BytesIO(encoder.take()))
    assert found.column("n").to_pylist() == [
        number for source in sources for number in source.table.column("n").to_pylist()[7:-13]
    ]


def test_values_that_wait_for_their_schema_are_copied_once() -> None:
    encoder = Unifying(FORM.open, SCHEMA)
    encoder.append(typed(0, 30).slice(3, 5), SCHEMA)
    encoder.detach()
    ((first, _),) = encoder._held
    encoder.append(typed(30, 30).slice(3, 5), SCHEMA)
    encoder.detach()
    assert encoder._held[0][0] is first
    assert [value["n"] for values, _ in encoder._held for value in values.objects()] == [3, 4, 33, 34]
    encoder.finish()
    assert pq.read_table(io.BytesIO(bytes(encoder.take()))).column("n").to_pylist() == [3, 4, 33, 34]
