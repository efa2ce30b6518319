"""A driver to be killed: reads, commits, and takes what is asked for. `python -m tests.services.ops.driver_without_spark CONFIG`."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from pathlib import Path

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import brokers_of
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.s3 import S3Store
from tests.support.direct_sink import OwnProcess

PAUSE_S = 0.05


def main(path: Path) -> None:
    settings = resolved(validate(json.loads(path.read_text())).usable())
    with closing(S3Store(store_options(settings))) as store:
        source, brokers = OwnProcess(settings, store), brokers_of(settings)
        sink = build_sink(settings, brokers, source=source, store=store, clock_ms=now_ms)
        sink.open()
        while True:
            sink.rewrites.look()
            sink.poll_and_commit()
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
