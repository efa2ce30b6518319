"""Does the reader keep to its memory, whatever the records unpack to? The system itself holds the limit: who asks for more gets none."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_s3.model.errors import UnreadableRecord
from kafka_s3_testing.services.kafka import EmbeddedKafka

MIB = 1 << 20
UNPACKED = 512 * MIB
BOUND = 448 * MIB
"""Of which what waits and what one fetch brings take 32 MiB, two batches of 48 MiB that librdkafka unpacks as much again. The rest is the
batches at work, the threads, and what the allocator keeps for the next batch."""
STACK = 1 * MIB
"""Of each thread, as the limit counts that, too."""
READ = """
import resource, sys
import pyarrow as pa
from kafka_s3.kafka.reader.settings import ReadScope
from kafka_s3.kafka.reader.reader import RangeReader
from kafka_s3.model.offsets import OffsetRange, TopicPartition

servers, topic, until, scope, bound = sys.argv[1], sys.argv[2], int(sys.argv[3]), ReadScope[sys.argv[4]], int(sys.argv[5])

def figure(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) << 10

pa.array(range(1 << 20))  # Arrow reserves addresses once
before = figure("VmRSS")
resource.setrlimit(resource.RLIMIT_DATA, (figure("VmData") + bound, resource.RLIM_INFINITY))
rows = 0
for _, batches in RangeReader(servers, {}, scope).read_ranges([OffsetRange(TopicPartition(topic, 0), 0, until)]):
    for batch in batches:
        rows += len(batch)
print(rows, figure("VmHWM") - before)
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(settings={"message.max.bytes": str(64 * MIB)}) as broker:
        yield broker


@dataclass(frozen=True)
class Shape:
    """Records of so many bytes in their value, key or headers, of which so much is random, in batches of so many bytes."""

    part: str
    size: int
    batch: int = MIB
    noise: int = 0

    def record(self) -> dict[str, Any]:
        content = os.urandom(self.noise) + bytes(self.size - self.noise)
        if self.part == "headers":
            return {"value": b"", "headers": [("h", content)]}
        return {"value": content if self.part == "values" else b"", "key": content if self.part == "keys" else None}


def produced(servers: str, topic: str, shapes: list[tuple[Shape, int]], codec: str) -> int:
    """Sends records of these shapes, so many unpacked bytes of each; how many that were."""
    count = 0
    for shape, unpacked in shapes:
        producer = Producer({
            "bootstrap.servers": servers, "compression.type": codec, "batch.size": shape.batch, "message.max.bytes": 512 * MIB,
            "batch.num.messages": 1_000_000, "linger.ms": 2000 if shape.batch > MIB else 50, "queue.buffering.max.kbytes": 1 << 20,
        })  # fmt: skip
        for _ in range(number := max(unpacked // shape.size, 1)):
            producer.produce(topic, **shape.record())
            while len(producer) > min(2 * max(shape.batch, 16 * MIB) // shape.size, 90_000):
                producer.poll(0.05)
        assert producer.flush(120) == 0
        count += number
    return count


def read(
    broker: EmbeddedKafka, topic: str, until: int, scope: str = "ENVELOPES", bound: int = BOUND
) -> subprocess.CompletedProcess[str]:
    """Reads in a process of its own that gets no more than so many bytes beyond what it has at first."""
    path = os.pathsep.join([str(Path(__file__).parents[3] / "bundle"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", READ, broker.bootstrap_servers, topic, str(until), scope, str(bound)],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK)),
    )  # fmt: skip


SHAPES = {
    f"{part} in {name}": [(Shape(part, size, batch, size // 100), UNPACKED)]
    for part in ("values", "keys", "headers")
    for name, size, batch in (
        ("small batches", 80_000, MIB),
        ("large batches", 80_000, 48 * MIB),
        ("small records", 1000, MIB),
    )
} | {
    "nothing but zeros": [(Shape("values", 80_000), UNPACKED)],
    "values after ordinary ones": [
        (Shape("values", 200, noise=150), 64 * MIB),
        (Shape("values", 80_000, noise=800), UNPACKED),
    ],
}


OFTEN = [("zstd", "values in small records"), ("zstd", "headers in small records"), ("zstd", "nothing but zeros")]
SELDOM = [("zstd", name) for name in SHAPES if ("zstd", name) not in OFTEN] + [
    ("gzip", "values in small batches"), ("lz4", "headers in large batches"),
]  # fmt: skip
CASES = [pytest.param(*case, id=" ".join(case)) for case in OFTEN]
CASES += [pytest.param(*case, id=" ".join(case), marks=pytest.mark.nightly) for case in SELDOM]


@pytest.mark.parametrize(("codec", "name"), CASES)
def test_what_is_a_hundred_times_smaller_in_the_log_is_read_within_the_limit(
    codec: str, name: str, broker: EmbeddedKafka
) -> None:
    topic = f"{codec}-{name.replace(' ', '-')}"
    broker.create_topic(topic)
    until = produced(broker.bootstrap_servers, topic, SHAPES[name], codec)
    (segment,) = broker.partition_folder(topic, 0).glob("*.log")
    assert segment.stat().st_size < UNPACKED // 8
    done = read(broker, topic, until)
    assert done.returncode == 0, done.stderr[-2000:]
    read_records, peak = map(int, done.stdout.split())
    assert read_records == until
    assert peak < BOUND


def test_a_batch_that_unpacks_to_more_than_a_process_should_hold_is_named_by_its_offset(broker: EmbeddedKafka) -> None:
    broker.create_topic("bomb")
    ordinary, bomb = Shape("values", 100, noise=50), Shape("values", 8 * MIB, 640 * MIB)
    before = produced(broker.bootstrap_servers, "bomb", [(ordinary, MIB)], "none")
    until = before + produced(broker.bootstrap_servers, "bomb", [(bomb, 600 * MIB)], "zstd")
    assert read(broker, "bomb", before).returncode == 0
    done = read(broker, "bomb", until)
    shown = done.stderr.splitlines()[-1]
    assert shown.startswith(
        f"{UnreadableRecord.__module__}.UnreadableRecord: What Kafka holds of bomb-0 from offset {before} on"
    ), shown
    assert "unpacks to more than 256 MiB" in shown
    assert "kafka.reader=spark" in shown
