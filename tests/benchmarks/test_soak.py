"""Does a sink stay as it is under steady traffic? Memory, threads, file handles, uploads and states of open files over half an hour.

KAFKA_S3_SOAK_SECONDS (1,800) is its length, KAFKA_S3_SOAK_RATE (2,000) the records a second. The schedule closes files each minute.
KAFKA_S3_SOAK_PLOT names a file for the picture (default: `soak.svg` in the test's folder).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import pytest

from kafka_s3.testing.services.kafka import EmbeddedKafka
from kafka_s3.testing.services.s3 import EmbeddedS3
from tests.benchmarks.plot import Panel, svg
from tests.benchmarks.steady_traffic import RunningSink, Sample, Traffic, configuration
from tests.benchmarks.support import new_topic

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]
SECONDS = int(os.environ.get("KAFKA_S3_SOAK_SECONDS", "1800"))
RATE = int(os.environ.get("KAFKA_S3_SOAK_RATE", "2000"))
PARTITIONS = 4
EVERY = 5.0
SERIES = {
    "driver_mb": "driver, resident MB", "java_mb": "Spark's JVM, resident MB", "workers_mb": "Python workers, resident MB",
    "threads": "threads", "handles": "open files and sockets", "uploads": "pending uploads", "states": "states of open files",
}  # fmt: skip
GROWTH = 1.2
"""How much larger the last third may be than the second; the first warms up."""
SLACK = {"driver_mb": 40, "java_mb": 150, "workers_mb": 60, "threads": 12, "handles": 24, "uploads": 4, "states": 4}


def test_half_an_hour_of_steady_traffic_leaves_the_sink_as_it_is(
    broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path
) -> None:
    topic, servers = new_topic(broker, "soak", PARTITIONS), broker.bootstrap_servers
    rules = {"rotate.schedule.interval.ms": "60000", "tail.check.interval.ms": "5000", "s3.part.size": "5242880"}
    samples: list[Sample] = []
    config = configuration(servers, objects, topic, **rules)
    traffic = Traffic(servers, topic, rate=RATE, partitions=PARTITIONS)
    with RunningSink(objects, config, tmp_path) as sink:
        with traffic:
            sink.has_read(1)
            began = time.monotonic()
            while time.monotonic() - began < SECONDS:
                time.sleep(EVERY)
                samples.append(sink.sample(began))
        sink.has_read(traffic.sent)
        sink.process.signal(signal.SIGTERM)
        assert sink.process.wait(120) == 0, sink.process.output()[-3000:]
        written, read = sink.total("written"), sink.total("read")
    _draw(samples, tmp_path)
    kept = sink.rounds()[-1]
    print(
        f"\nSoak of {samples[-1].seconds / 60:.1f} minutes: {traffic.sent:,} records sent, {read:,} read, {written:,} written, open files "
        f"kept {kept['open_states']:,} times ({kept['open_state_bytes'] / 2**20:,.1f} MB in all)."
    )
    for name, label in SERIES.items():
        _, middle, end = _thirds([getattr(sample, name) for sample in samples])
        print(f"  {label:32} {mean(middle):8.1f} -> {mean(end):8.1f}")
    assert read == traffic.sent
    grown = [name for name in SERIES if _grows([getattr(sample, name) for sample in samples], SLACK[name])]
    assert grown == []


def _thirds(values: Sequence[float]) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    third = len(values) // 3
    return values[:third], values[third : 2 * third], values[2 * third :]


def _grows(values: Sequence[float], slack: float) -> bool:
    _, middle, end = _thirds(values)
    return mean(end) > mean(middle) * GROWTH + slack


def _draw(samples: Sequence[Sample], folder: Path) -> None:
    minutes = [sample.seconds / 60 for sample in samples]
    panels = [Panel(label, [getattr(sample, name) for sample in samples]) for name, label in SERIES.items()]
    title = f"{minutes[-1]:.0f} minutes at {RATE:,} records/s, {PARTITIONS} partitions, a file each a minute"
    path = Path(os.environ.get("KAFKA_S3_SOAK_PLOT", str(folder / "soak.svg")))
    path.write_text(svg(title, minutes, panels), encoding="utf-8")
