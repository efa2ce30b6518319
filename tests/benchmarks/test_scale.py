"""What does a round cost the driver at 1,000, 10,000 and 100,000 topic-partitions? Figures for docs/scale.md."""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Callable

import psutil
import pytest

from kafka_s3.engine.log.fold import checkpoint_json
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import FaultyStore
from tests.benchmarks.many_partitions import ManyPartitions
from tests.support.memory_world import START_MS, settings_of

pytestmark = pytest.mark.benchmark
RECORDS = 1000
PARTITIONS_A_TOPIC = 50


def cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def resident_mib() -> float:
    gc.collect()
    return psutil.Process(os.getpid()).memory_info().rss / 2**20


@pytest.mark.parametrize("topic_partitions", [1_000, 10_000, 100_000])
def test_a_round_of_very_many_topic_partitions(topic_partitions: int) -> None:
    """Each has records for one file in the busy rounds, and none in the quiet one. Every offset must be in exactly one file."""
    bucket = MemoryStore(lambda: START_MS)
    store = FaultyStore(bucket, [])
    kafka = ManyPartitions(topic_partitions // PARTITIONS_A_TOPIC, PARTITIONS_A_TOPIC, bucket)
    settings = settings_of(
        {"flush.size": str(RECORDS), "topics": None, "topics.regex": "topic-.*", "tasks.max": "1000"}
    )
    before = resident_mib()
    sink = build_sink(settings, kafka, source=kafka, store=store, clock_ms=lambda: START_MS)
    opened = cpu(sink.open)
    first, quiet = cpu(sink.poll_and_commit), cpu(sink.poll_and_commit)
    idle_mib = resident_mib() - before

    busy = []
    for number in (1, 2):
        kafka.head, kafka.seconds = number * RECORDS, 0.0
        store.calls.clear()
        spent = cpu(sink.poll_and_commit)
        busy.append(spent - kafka.seconds)
    calls = Counter(verb for verb, _ in store.calls)
    entries = [entry for entry in sink.log.entries() if entry.files]
    offsets = Counter(
        (file.topic_partition, offset)
        for entry in entries
        for file in entry.files
        for offset in (file.first_offset, file.last_offset)
    )
    assert len(offsets) == 2 * 2 * topic_partitions
    assert set(offsets.values()) == {1}
    assert not bucket.uploads
    sizes = [len(content) for key, content in bucket.objects.items() if "/commits/" in key and len(content) > 5000]
    assert sink.log.last is not None
    checkpoint = len(checkpoint_json(sink.log.state, sink.log.last))
    print(
        f"\n{topic_partitions:,} topic-partitions: open {opened:.2f} s of CPU, the first look {first:.2f} s, a quiet one {quiet:.3f} s, "
        f"a busy round {busy[-1]:.2f} s ({busy[-1] / topic_partitions * 1e6:.0f} us a file), {idle_mib:.0f} MiB; "
        f"{len(entries) // 2} entries of {max(sizes) / 1e6:.2f} MB at most, checkpoint {checkpoint / 1e6:.2f} MB; "
        f"requests of the driver in a busy round: {dict(calls)}"
    )
