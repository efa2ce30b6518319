"""A task with a thousand open directories in one topic-partition stays small."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.configurations import FIELD
from tests.support.repository import ROOT

LIMIT_MB = 600
CHILD = """
import json, resource, sys
from pathlib import Path
import pyarrow as pa
from tests.support.memory_world import ORDERS, settings_of
from kafka_s3.model.files import Reason
from kafka_s3.wiring.pipeline import make_pipeline
from kafka_s3.storage.etag import etag_of_bytes
from kafka_s3.model.tasks import Assignment, Delivery

class Bucket:
    sent = uploads = 0
    def create_upload(self, key): self.uploads += 1; return str(self.uploads)
    def upload_part(self, key, upload_id, number, data): self.sent += len(data); return etag_of_bytes(data)

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
