"""Does a sink stay as it is under steady and under hostile traffic? Memory, threads, file handles, uploads, states, over half an hour.

KAFKA_S3_SOAK_SECONDS (1,800) is its length, KAFKA_S3_SOAK_RATE (2,000) the records a second. The schedule closes files each minute,
those of hostile traffic every five. KAFKA_S3_SOAK_PLOT names a folder for the pictures (default: the test's own).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import pytest

from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.hostile_traffic import TENANTS, HostileTraffic
from tests.benchmarks.plot import Panel, svg
from tests.benchmarks.steady_traffic import RunningSink, Sample, Traffic, configuration
from tests.benchmarks.support import new_topic
from tests.support.configurations import FIELD, TOLERANT
from tests.support.memory_limit import MemoryLimit
from tests.support.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]
SECONDS = int(os.environ.get("KAFKA_S3_SOAK_SECONDS", "1800"))
RATE = int(os.environ.get("KAFKA_S3_SOAK_RATE", "2000"))
PARTITIONS = 4
EVERY = 5.0
SERIES = {
    "driver_mb": "driver, resident MB", "java_mb": "Spark's JVM, resident MB", "workers_mb": "Python workers, resident MB",
    "limited_mb": "all processes below the limit, MB",
    "threads": "threads", "handles": "open files and sockets", "uploads": "pending uploads", "states": "states of open files",
}  # fmt: skip
GROWTH = 1.2
"""How much larger the last third may be than the second; the first warms up."""
SLACK = {
    "driver_mb": 40,
    "java_mb": 150,
    "workers_mb": 60,
    "limited_mb": 150,
    "threads": 12,
    "handles": 24,
    "uploads": 4,
    "states": 4,
}


LIMIT = 2 << 30
"""What the README's table promises for a machine of two cores."""


def test_half_an_hour_of_steady_traffic_leaves_the_sink_as_it_is(
    broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path
) -> None:
    topic, servers = new_topic(broker, "soak", PARTITIONS), broker.bootstrap_servers
    rules = {"rotate.schedule.interval.ms": "60000", "tail.check.interval.ms": "5000", "s3.part.size": "5242880"}
    traffic = Traffic(servers, topic, rate=RATE, partitions=PARTITIONS)
    soak = Soak(RunningSink(objects, configuration(servers, objects, topic, **rules), tmp_path), traffic)
    soak.run()
    soak.draw("soak.svg", tmp_path, f"{RATE:,} records/s, {PARTITIONS} partitions, a file each a minute")
    assert soak.read == traffic.sent
    assert soak.grown() == []


def test_half_an_hour_of_hostile_traffic_stays_below_the_limit_that_the_readme_promises(
    broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path
) -> None:
    topic, servers = new_topic(broker, "hostile", PARTITIONS), broker.bootstrap_servers
    rules = {
        "rotate.schedule.interval.ms": "300000", "tail.check.interval.ms": "5000", "s3.part.size": "5242880",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "s3.compression.type": "none",
        "value.converter.schemas.enable": "true", "schema.compatibility": "BACKWARD", **FIELD, "partition.field.name": "tenant",
        **TOLERANT, "errors.deadletterqueue.topic.name": f"{topic}-dead", "errors.deadletterqueue.context.headers.enable": "true",
    }  # fmt: skip
    broker.create_topic(f"{topic}-dead", 1, config={"max.message.bytes": str(1 << 21)})
    traffic = HostileTraffic(servers, topic, rate=RATE, partitions=PARTITIONS)
    with MemoryLimit(LIMIT) as limit:
        soak = Soak(RunningSink(objects, configuration(servers, objects, topic, **rules), tmp_path, limit), traffic)
        soak.run()
        killed = limit.killed
    soak.draw(
        "hostile-soak.svg",
        tmp_path,
        f"{RATE:,} hostile records/s, {PARTITIONS} partitions, {TENANTS:,} directories, {LIMIT >> 20:,} MiB",
    )
    assert killed == 0
    assert soak.read == traffic.sent
    assert (soak.dead_letters, soak.written) == (traffic.bad, traffic.sent - traffic.bad)
    assert soak.grown() == []


@dataclass
class Soak:
    """A sink under traffic, and what was seen of it from outside."""

    sink: RunningSink
    traffic: Traffic
    samples: list[Sample] = field(default_factory=list)

    def run(self) -> None:
        """For `SECONDS`, and until all that was sent is written; prints what it came to."""
        with self.sink as sink:
            with self.traffic as traffic:
                sink.has_read(1)
                began = time.monotonic()
                while time.monotonic() - began < SECONDS:
                    time.sleep(EVERY)
                    self.samples.append(sink.sample(began))
            eventually(lambda: self.written + self.dead_letters >= traffic.sent, what=sink.process.output, seconds=900)
            sink.process.signal(signal.SIGTERM)
            assert sink.process.wait(120) == 0, sink.process.output()[-3000:]
        last = sink.rounds()[-1]
        print(
            f"\nSoak of {self.samples[-1].seconds / 60:.1f} minutes: {traffic.sent:,} records sent, {self.read:,} read, "
            f"{self.written:,} written in {sink.total('files'):,} files, {self.dead_letters:,} dead letters, "
            f"open files kept {last['open_states']:,} times ({last['open_state_bytes'] / 2**20:,.1f} MB in all)."
        )
        for name, label in SERIES.items():
            _, middle, end = _thirds(self._series(name))
            print(f"  {label:32} {mean(middle):8.1f} -> {mean(end):8.1f}, at most {max(self._series(name)):8.1f}")

    @property
    def read(self) -> int:
        return self.sink.total("read")

    @property
    def written(self) -> int:
        return self.sink.total("written")

    @property
    def dead_letters(self) -> int:
        return self.sink.total("dead_letters")

    def grown(self) -> list[str]:
        """The series whose last third is more than a fifth above the second."""
        return [name for name in SERIES if _grows(self._series(name), SLACK[name])]

    def draw(self, name: str, folder: Path, about: str) -> None:
        minutes = [sample.seconds / 60 for sample in self.samples]
        panels = [Panel(label, values) for name, label in SERIES.items() if max(values := self._series(name))]
        path = Path(os.environ.get("KAFKA_S3_SOAK_PLOT", str(folder))) / name
        path.write_text(svg(f"{minutes[-1]:.0f} minutes at {about}", minutes, panels), encoding="utf-8")

    def _series(self, name: str) -> list[float]:
        return [getattr(sample, name) for sample in self.samples]


def _thirds(values: Sequence[float]) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    third = len(values) // 3
    return values[:third], values[third : 2 * third], values[2 * third :]


def _grows(values: Sequence[float], slack: float) -> bool:
    _, middle, end = _thirds(values)
    return mean(end) > mean(middle) * GROWTH + slack
