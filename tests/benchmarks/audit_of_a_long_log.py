"""Verifies the long log of a folder, without Kafka and without reading an object: prints seconds, MB at most, and what was looked at.

python -m tests.benchmarks.audit_of_a_long_log FOLDER
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from kafka_s3.ops.verify.audit import Audit
from kafka_s3.ops.verify.form import form_of
from kafka_s3.run.wiring.pipeline import object_names
from tests.support.listed_bucket import ListedBucket
from tests.support.long_log import PATHS
from tests.support.memory_world import settings_of


def main(folder: Path) -> None:
    """Audits."""
    settings = settings_of({
        "name": PATHS.sink, "topics": "clicks,orders", "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "value.schema.inference": "true", "flush.size": "5000",
    })  # fmt: skip
    began = time.monotonic()
    audit = Audit(ListedBucket(folder, PATHS), PATHS, object_names(settings), form_of(settings), sample=0)  # type: ignore[arg-type]
    report = audit.run()
    print(json.dumps({
        "seconds": round(time.monotonic() - began),
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000,
        "entries": report.entries,
        "objects": sum(tally.objects for tally in report.tallies),
        "findings": [f"{finding.place}: {finding.text}" for finding in report.findings[:3]],
    }))  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
