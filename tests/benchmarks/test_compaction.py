"""How many records does a compaction take a CPU-second? 10,000 objects of 1,000 records, to objects of about 25 MiB.

`pytest -m benchmark -s tests/benchmarks/test_compaction.py`; KAFKA_S3_BENCH_QUICK=1 takes a tenth of them. The bucket is in memory, so
that what is measured is fetching nothing, proving, merging and handing over parts; the peak is without the bucket's own bytes.
"""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from dataclasses import replace

import pytest

from kafka_s3.engine.log.fold import LiveObject
from kafka_s3.followers.compaction import CompactionRules, plan_merges
from kafka_s3.model.deflate import RAW, packed
from kafka_s3.model.files import DataFile, Reason, Upload
from kafka_s3.run.wiring.followers import compactor_of
from kafka_s3.store.memory import MemoryStore
from tests.support.memory_world import settings_of

OBJECTS = 1000 if os.environ.get("KAFKA_S3_BENCH_QUICK") else 10_000
RECORDS = 1000
TARGET = 25 << 20
AVRO = b'{"type":"record","name":"o","fields":[{"name":"id","type":"long"},{"name":"text","type":"string"}]}'


def json_object(first: int) -> bytes:
    rows = (
        {"id": n, "customer": f"c{n * 7919 % 100_003}", "amount": n * 31 % 9973 / 100, "text": f"order {n}, as usual"}
        for n in range(first, first + RECORDS)
    )
    return packed(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def avro_object(first: int) -> bytes:
    from kafka_s3.connect.schemas.avro_values import long_bytes

    def text(value: bytes) -> bytes:
        return long_bytes(len(value)) + value

    bodies = b"".join(
        long_bytes(n) + text(f"order {n} of c{n * 7919 % 100_003}, as usual".encode())
        for n in range(first, first + RECORDS)
    )
    block, sync = packed(bodies, frame=RAW), bytes(range(16))
    head = (
        b"Obj\x01"
        + long_bytes(2)
        + text(b"avro.schema")
        + text(AVRO)
        + text(b"avro.codec")
        + text(b"deflate")
        + long_bytes(0)
    )
    return head + sync + long_bytes(RECORDS) + text(block) + sync


@pytest.mark.benchmark
@pytest.mark.parametrize("partitions", [1, 10])
@pytest.mark.parametrize(("form", "extension"), [("json", ".json.gz"), ("avro", ".avro")])
def test_compaction(form: str, extension: str, partitions: int) -> None:
    store, live = MemoryStore(), []
    for number in range(OBJECTS):
        at, partition = divmod(number, partitions)
        first = at * RECORDS
        content = (json_object if form == "json" else avro_object)(first)
        key = f"topics/orders/h=10/orders+{partition}+{first:010d}{extension}"
        store.put(key, content)
        upload = Upload(key, "", (), len(content))
        file = DataFile(
            key,
            "orders",
            partition,
            first,
            first + RECORDS - 1,
            RECORDS,
            len(content),
            1,
            1,
            "h=10",
            "",
            form,
            Reason.FLUSH_SIZE,
            upload,
        )
        live.append(LiveObject(file, 1, "2026-01-01T00:00:00.000Z"))
    compactor = compactor_of(settings_of({"flush.size": "1000"}), store)
    merges = plan_merges(live, CompactionRules(TARGET, 2**62, across=partitions > 1))
    compactor.merged(
        replace(merges[0], objects={role: some[:2] for role, some in merges[0].objects.items()}), rewrite="0" * 8
    )  # compiled
    begun = time.process_time()
    for number, merge in enumerate(merges):
        compactor.merged(merge, rewrite=f"{number:08x}")
    spent = time.process_time() - begun
    tracemalloc.start()
    compactor.merged(merges[0], rewrite="f" * 8)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = sum(one.file.bytes for one in live)
    about = f"{form}, {partitions} partitions: {OBJECTS:,} objects, {size / 2**20:,.0f} MiB, to {len(merges)}"
    print(f"\n{about}: {OBJECTS * RECORDS / spent / 1e6:.2f} M records a CPU-second, peak {peak / 2**20:.0f} MiB")
