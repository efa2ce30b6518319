"""A sink to be killed: the product's own loop, heartbeat and commands, its tasks in its own process in place of Spark.

`python -m tests.services.ops.driver_without_spark CONFIG`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Event

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.clients import brokers_of
from kafka_s3.run.wiring.running import open_session, run_until_stopped
from kafka_s3.run.wiring.sink import build_sink
from tests.support.direct_sink import OwnProcess


def main(path: Path) -> None:
    settings = resolved(validate(json.loads(path.read_text())).usable())
    with open_session(settings, clock_ms=now_ms) as session:
        sink = build_sink(
            settings, brokers_of(settings), source=OwnProcess(settings, session.store), store=session.store,
            clock_ms=now_ms, observer=session.observer,
        )  # fmt: skip
        run_until_stopped(sink, settings, Event(), channel=session.channel)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
