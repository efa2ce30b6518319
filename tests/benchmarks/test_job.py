"""What does one job of Spark cost, whatever it reads? Four tasks of twenty records and a file each, over and over in a warm session.

Counted are driver, JVM and workers apart; the uploads are not completed, as nothing commits them. KAFKA_S3_BENCH_JOBS (100, quick: 30).
Nothing here asserts a time.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import psutil
import pytest

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery, reports_of
from kafka_s3.run.spark.session import end_session_and_jvm, local_session
from kafka_s3.run.spark.source import TasksSource
from kafka_s3.run.wiring.pipeline import task_plan
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.steady_traffic import configuration
from tests.benchmarks.support import QUICK, new_topic
from tests.benchmarks.topics import produce_json

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]
JOBS = int(os.environ.get("KAFKA_S3_BENCH_JOBS", "30" if QUICK else "100"))
TASKS, RECORDS = 4, 20


def test_a_job_of_four_small_tasks(broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path) -> None:
    topic, servers = new_topic(broker, "job", TASKS), broker.bootstrap_servers
    produce_json(servers, records=TASKS * RECORDS, partitions=TASKS, name=topic)
    raw = configuration(servers, objects, topic, **{"flush.size": str(RECORDS), "tasks.max": str(TASKS)})
    settings = resolved(validate(raw).usable())
    others = {one.pid for one in psutil.Process().children(recursive=True)}
    spark = local_session(name="job", cores="2")
    source = TasksSource(spark, task_plan(settings), bootstrap_servers=servers, properties={})
    wanted = [Assignment(TopicPartition(topic, n), 0, RECORDS, (Delivery(1, RECORDS),)) for n in range(TASKS)]

    def run(jobs: int) -> None:
        for _ in range(jobs):
            assert [report.read for report in reports_of(source.run_reading_tasks(wanted))] == [RECORDS] * TASKS

    run(JOBS // 2)
    before = cpu_seconds(others)
    run(JOBS)
    spent = {kind: (seconds - before[kind]) / JOBS for kind, seconds in cpu_seconds(others).items()}
    end_session_and_jvm(spark)
    parts = ", ".join(f"{kind} {seconds:.3f}" for kind, seconds in spent.items())
    print(f"\nA job of {TASKS} tasks, warm, the mean of {JOBS}: {sum(spent.values()):.3f} s of CPU ({parts})")


def cpu_seconds(others: set[int]) -> Counter[str]:
    """So far, by kind of process, without those of the surroundings."""
    me, found = psutil.Process(), Counter[str]()
    for one in [me, *me.children(recursive=True)]:
        if one.pid not in others:
            kind = "driver" if one.pid == me.pid else "JVM" if "java" in one.name() else "workers"
            found[kind] += sum(one.cpu_times()[:2])
    return found
