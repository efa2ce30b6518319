"""A task with many open directories in one topic-partition stays small, also where it keeps them for the next task."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from tests.support.configurations import FIELD
from tests.support.repository import ROOT
from tests.support.s3_servers import quick_engine

LIMIT_MB = 600
CHILD = """
import json, resource, sys
from pathlib import Path
import pyarrow as pa
from tests.support.memory_world import ORDERS, settings_of
from kafka_s3.model.files import Reason
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.store.store import etag_of_bytes, pieces_of
from kafka_s3.model.tasks import Assignment, Delivery

class Bucket:
    sent = uploads = 0
    def create_upload(self, key, token=""): self.uploads += 1; return str(self.uploads)
    def upload_part(self, key, upload_id, number, data): self.sent += len(data); return etag_of_bytes(b"".join(pieces_of(data)))

RECORDS, STEP = 400_000, 10_000
def batches():
    for start in range(0, RECORDS, STEP):
        n = range(start, start + STEP)
        values = [b'{"d":"%d","n":%d,"text":"%s"}' % (i * 7919 % 1000, i, b"%x" % (i * 2654435761 ** 5)) for i in n]
        yield pa.record_batch({
            "offset": pa.array(n, pa.int64()), "timestamp": pa.array([0] * STEP, pa.int64()),
            "key": pa.nulls(STEP, pa.binary()), "value": pa.array(values, pa.binary()),
        })

def peak_mb():
    # the kernel's resource usage of a process begins with the peak of the one that started it, here a whole test run
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024

bucket = Bucket()
wanted = Assignment(ORDERS, 0, RECORDS, (Delivery(0, RECORDS),), close=Reason.FLUSH_NOW)
report = make_pipeline(settings_of(json.loads(sys.argv[1]))).process(wanted, batches(), bucket)
print(json.dumps({"files": len(report.files), "records": sum(f.records for f in report.files), "bytes": bucket.sent,
                  "max_rss_mb": peak_mb()}))
"""
SCHEMA = '{"type":"struct","fields":[{"field":"d","type":"string"},{"field":"n","type":"int64"},{"field":"text","type":"string"}]}'
CONFIGS = {
    "parquet": {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema": SCHEMA},
    "gzip": {"s3.compression.type": "gzip"},
}


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["parquet", "gzip"])
def test_a_thousand_open_directories_fit_into_a_small_process(kind: str) -> None:
    config = json.dumps({**FIELD, **CONFIGS[kind], "flush.size": "1000000"})
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, config],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={"PYTHONPATH": f"{ROOT / 'bundle'}:{ROOT}"},
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    print(kind, found)

    assert (found["files"], found["records"]) == (1000, 400_000)
    assert found["max_rss_mb"] < LIMIT_MB


KEEPING = """
import json, os, sys
from pathlib import Path
import pyarrow as pa
from tests.support.configurations import FIELD
from tests.support.memory_world import ORDERS, settings_of
from kafka_s3.model.files import Reason
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store
from kafka_s3.run.wiring.pipeline import make_pipeline

TEXT, STEP = os.urandom(1 << 18).hex(), 2_000
def batches(start, until, directories):
    for first in range(start, until, STEP):
        n = range(first, first + STEP)
        values = [b'{"d":"%d","n":%d,"text":"%s"}' % (i * 7919 % directories, i, TEXT[i * 37 % 500_000 :][:1000].encode()) for i in n]
        yield pa.record_batch({
            "offset": pa.array(n, pa.int64()), "timestamp": pa.array([0] * STEP, pa.int64()),
            "key": pa.nulls(STEP, pa.binary()), "value": pa.array(values, pa.binary()),
        })

def peak_mb():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")) / 1024

config, ends, directories = json.loads(sys.argv[1])
settings = settings_of(config)
pipeline, store, state, start, states = make_pipeline(settings), S3Store(store_options(settings)), None, 0, []
for until in ends:
    close = Reason.FLUSH_NOW if until == ends[-1] else None
    wanted = Assignment(ORDERS, 0, until, (Delivery(0, until),), close=close, state=state, keep=1)
    report = pipeline.process(wanted, batches(start, until, directories), store)
    assert not report.dropped, report.dropped
    state, start = report.state, until
    states.append(0 if state is None else state.bytes)
for file in report.files:
    store.complete_upload(file.upload)
print(json.dumps({"files": len(report.files), "records": sum(f.records for f in report.files),
                  "bytes": sum(store.head(f.key).size for f in report.files), "states": states, "peak_mb": peak_mb()}))
"""


@pytest.fixture(scope="module")
def quick_s3() -> Iterator[EmbeddedS3]:
    """A server that thousands of uploads do not keep busy for minutes."""
    with EmbeddedS3(engine=quick_engine()) as server:
        yield server


@pytest.mark.parametrize(
    ("kind", "directories"),
    [("parquet", 60), *(pytest.param(*one, marks=pytest.mark.nightly) for one in (("text", 60), ("small", 2_000)))],
)
def test_keeping_open_files_holds_no_more_memory_than_writing_them(
    quick_s3: EmbeddedS3, kind: str, directories: int
) -> None:
    quick_s3.create_bucket(kind)
    config = {
        **FIELD, **(CONFIGS["parquet"] if kind == "parquet" else {}), "parquet.codec": "none", "flush.size": "1000000",
        "writer.memory.bytes": str(32 << 20), "s3.bucket.name": kind, "store.url": quick_s3.endpoint_url, "s3.region": REGION,
        "aws.access.key.id": ACCESS_KEY, "aws.secret.access.key": SECRET_KEY,
    }  # fmt: skip
    at_once, kept = (_child(config, ends, directories) for ends in ([50_000], [46_000, 48_000, 50_000]))
    print(kind, at_once, kept)

    assert (kept["files"], kept["records"]) == (at_once["files"], at_once["records"]) == (directories, 50_000)
    assert kept["states"][0] > 40 << 20
    assert (
        kept["peak_mb"] < at_once["peak_mb"] + 40
    )  # of threads that meet by chance; what it held before was twice as much


def _child(config: dict[str, str], ends: list[int], directories: int) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", KEEPING, json.dumps([config, ends, directories])],
        capture_output=True, text=True, timeout=1_000, check=False, env={"PYTHONPATH": f"{ROOT / 'bundle'}:{ROOT}"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
