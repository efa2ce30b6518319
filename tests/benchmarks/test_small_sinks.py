"""What does a sink cost while little happens? CPU of the whole process tree as a share of one core, memory, and requests of S3.

Three scenes, each after some minutes in which it settles, so that without traffic Spark has ended: one sink without traffic; one with 10
records a second in 12 partitions and a file a minute; 50 such sinks in one process. KAFKA_S3_BENCH_MINUTES (10, quick: 1) is how long
each is watched, KAFKA_S3_BENCH_SETTLING_S (240, and two more for each sink) how long it settles before. Nothing here asserts a time.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.steady_traffic import MB, Traffic, configuration
from tests.benchmarks.support import QUICK, new_topic, running_objects
from tests.support.sink_process import SinkProcess

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]
MINUTES = float(os.environ.get("KAFKA_S3_BENCH_MINUTES", "1" if QUICK else "10"))
SETTLING_S = float(os.environ.get("KAFKA_S3_BENCH_SETTLING_S", "240"))
"""A minute more than a Spark without work stays (`spark.idle.ms`)."""
PARTITIONS = 12
RATE = 10
A_FILE_A_MINUTE = {"rotate.schedule.interval.ms": "60000"}
DRIVER, JVM, WORKERS = "driver", "JVM", "Python workers"


@dataclass
class WatchedProcesses:
    """A process and all that it starts. `ended` has the CPU of those that are gone, by kind, as they were last seen."""

    root: psutil.Process
    seen: dict[tuple[int, float], tuple[str, float]] = field(default_factory=dict)

    def look(self) -> dict[str, float]:
        """CPU seconds so far, by kind of process."""
        for one in [self.root, *self.root.children(recursive=True)]:
            try:
                times = one.cpu_times()
                self.seen[one.pid, one.create_time()] = (self._kind(one), times.user + times.system)
            except psutil.Error:  # it ended meanwhile: what was seen of it counts
                continue
        found = Counter[str]()
        for kind, seconds in self.seen.values():
            found[kind] += seconds
        return found

    def proportional_mb(self) -> Counter[str]:
        """What they hold, by kind; of memory that several share, each has its part."""
        found = Counter[str]()
        for one in [self.root, *self.root.children(recursive=True)]:
            try:
                found[self._kind(one)] += round(one.memory_full_info().pss / MB)
            except psutil.Error:
                continue
        return found

    def _kind(self, one: psutil.Process) -> str:
        if one.pid == self.root.pid:
            return DRIVER
        return JVM if "java" in one.name() else WORKERS


@pytest.fixture
def access_log(tmp_path: Path) -> Path:
    """Where the S3 server notes each request."""
    return tmp_path / "requests.log"


@pytest.fixture
def objects(access_log: Path) -> Iterator[EmbeddedS3]:
    with running_objects(access_log) as server:
        yield server


@pytest.mark.parametrize(("sinks", "rate"), [(1, 0), (1, RATE), (50, RATE)], ids=["no traffic", "one sink", "50 sinks"])
def test_a_sink_with_little_to_do(
    sinks: int, rate: int, broker: EmbeddedKafka, objects: EmbeddedS3, access_log: Path, tmp_path: Path
) -> None:
    topics = [new_topic(broker, f"small-{rate}-{sinks}-{number}", PARTITIONS) for number in range(sinks)]
    traffic = [Traffic(broker.bootstrap_servers, topic, rate=max(rate, 1), partitions=PARTITIONS) for topic in topics]
    for one in traffic:
        one.send(PARTITIONS)
        one.flush()
    command = ["-m", "kafka_s3", "run", *configurations(broker, objects, topics, tmp_path), "--log-format", "json"]
    with SinkProcess(command, tmp_path / "sinks.log") as process, ExitStack() as flowing:
        for one in traffic if rate else ():
            flowing.enter_context(one)
        assert process.process is not None
        watched = WatchedProcesses(psutil.Process(process.process.pid))
        look_until(watched, SETTLING_S + 2 * sinks)
        before, began, asked = watched.look(), time.monotonic(), count_lines(access_log)
        sizes = look_until(watched, MINUTES * 60)
        cpu, seconds, asked = watched.look(), time.monotonic() - began, count_lines(access_log) - asked
        lines = [json.loads(line) for line in process.output().splitlines() if line.startswith("{")]
    shares = {kind: 100 * (used - before[kind]) / seconds for kind, used in cpu.items()}
    read = sum(int(line["read"]) for line in lines if line["event"] == "round")
    print(
        f"\n{sinks} sinks, {rate} records/s each, {seconds:.0f} s: {sum(shares.values()):.2f} % of a core ({listed(shares)}); "
        f"memory {listed(min(sizes, key=Counter.total))} to {listed(max(sizes, key=Counter.total))} MB; "
        f"{60 * asked / seconds / sinks:.1f} requests of S3 a minute and sink; "
        f"{sum(line['event'] == 'round' for line in lines)} rounds since the start, {read:,} records"
    )
    assert read >= PARTITIONS * sinks


def configurations(broker: EmbeddedKafka, objects: EmbeddedS3, topics: Sequence[str], folder: Path) -> list[str]:
    paths = [folder / f"{topic}.json" for topic in topics]
    for path, topic in zip(paths, topics, strict=True):
        path.write_text(json.dumps(configuration(broker.bootstrap_servers, objects, topic, **A_FILE_A_MINUTE)))
    return [str(path) for path in paths]


def count_lines(path: Path) -> int:
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def listed(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{kind} {figure:.5g}" for kind, figure in sorted(figures.items()))


def look_until(watched: WatchedProcesses, seconds: float) -> list[Counter[str]]:
    """Watches for so long; megabytes as they were, by kind."""
    end, found = time.monotonic() + seconds, list[Counter[str]]()
    while time.monotonic() < end:
        time.sleep(2)
        watched.look()
        found.append(watched.proportional_mb())
    return found
