"""What a sink's numbers are, after the real loop did its work in memory."""

from __future__ import annotations

import json
import math

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafka_s3.engine.control.catch_up import CatchUp
from kafka_s3.engine.control.heartbeat import Delay, Heartbeat, Phase
from kafka_s3.model.timing import Requests, took
from kafka_s3.run.metrics.exporters import prometheus_registry
from kafka_s3.run.metrics.sink_metrics import Sample, SinkMetrics, memory_samples
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.memory_world import ORDERS, START_MS, World, world_of
from tests.support.rewriting import ask_for_compaction

HOURLY = {
    "partitioner.class": "io.confluent.connect.storage.partitioner.HourlyPartitioner", "locale": "en", "timezone": "UTC",
    "timestamp.extractor": "Record", "rotate.interval.ms": "3600000", "errors.tolerance": "all",
}  # fmt: skip


def metered(world: World) -> SinkMetrics:
    """The numbers of the world's sink, which is opened."""
    metrics = SinkMetrics("orders", clock_ms=lambda: world.now)
    world.start(observer=metrics)
    return metrics


def read(metrics: SinkMetrics) -> dict[str, float]:
    """The page as Prometheus reads it: `name{values of labels, in alphabetical order, without the sink's}` to number."""
    text = generate_latest(prometheus_registry(metrics.samples)).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sorted(value for name, value in sample.labels.items() if name != "sink")
            found[f"{sample.name}{{{','.join(labels)}}}"] = sample.value
    return found


STRING = "org.apache.kafka.connect.storage.StringConverter"
STORED = "io.confluent.connect.s3.format.json.JsonFormat"


@pytest.mark.parametrize("transforms", [{}, {"transforms": "t", "transforms.t.type": "org.apache.kafka.connect.transforms.HoistField$Value",
                                             "transforms.t.field": "text"}])  # fmt: skip
def test_text_that_is_not_utf_8_is_counted_and_logged_once_for_each_part(
    transforms: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    config = {
        "value.converter": STRING, "key.converter": STRING, "store.kafka.keys": "true", "keys.format.class": STORED,
        "store.kafka.headers": "true", "headers.format.class": STORED, **transforms,
    }  # fmt: skip
    world = world_of(1, **config)
    metrics = metered(world)
    for offset, (key, value, header) in enumerate(
        [(b"\xff", b"a", b"h"), (b"k", b"\xfe\xfe", b"\x80"), (b"\xfd", b"b", b"h")]
    ):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, key, value, (("h", header), ("u", "\ufffd".encode()))))
        assert world.sink.poll_and_commit()
    found = read(metrics)
    counts = [
        found[f"kafka_s3_malformed_texts_total{{{part}}}"] for part in ("orders,value", "key,orders", "header,orders")
    ]
    assert counts == [1, 2, 1]
    warnings = [one.getMessage() for one in caplog.records if "not UTF-8" in one.getMessage()]
    assert sorted(text.partition(", and are")[0] for text in warnings) == [
        f"{part} of topic orders are not UTF-8 (1 in this round)" for part in ("Header values", "Keys", "Values")
    ]
    assert all("ByteArrayConverter keeps them" in text for text in warnings)


def test_records_bytes_and_files_are_counted_by_what_became_of_them() -> None:
    world = world_of(2, **HOURLY)
    metrics = metered(world)
    world.add(range(4))
    world.kafka.add(ORDERS, MemoryRecord(4, START_MS, None, b"{broken"))
    assert world.sink.poll_and_commit()
    found = read(metrics)
    assert found["kafka_s3_records_total{orders,written}"] == 4
    assert found["kafka_s3_records_total{dead_letter,orders}"] == 1
    assert found["kafka_s3_records_read_total{}"] == 5
    assert found["kafka_s3_files_total{flush.size,orders}"] == 2
    assert found["kafka_s3_dead_letters_total{VALUE_CONVERTER,orders}"] == 1
    assert found["kafka_s3_file_bytes_total{orders}"] == sum(
        len(data) for key, data in world.store.objects.items() if key in world.objects()
    )
    for phase in ("read", "commit", "publish", "follow"):
        assert found[f"kafka_s3_round_phase_seconds_count{{{phase}}}"] == 1


def test_lag_is_what_no_task_has_read_and_what_is_open_has_an_age_of_its_own() -> None:
    world = world_of(100, **HOURLY)
    metrics = metered(world)
    world.add(range(3))
    world.sink.poll()
    world.now += 5_000
    found = read(metrics)
    assert found["kafka_s3_dead_letters_total{VALUE_CONVERTER,orders}"] == 0, "there before the first one"
    assert found["kafka_s3_lag_records{orders}"] == 3
    assert found["kafka_s3_unread_records{orders}"] == 3
    assert found["kafka_s3_lag_seconds{orders}"] == 5
    assert found["kafka_s3_oldest_open_record_seconds{orders}"] == 0
    world.now += 60_000
    assert world.sink.poll_and_commit()
    world.now += 7_000
    world.add(range(3, 5))
    assert world.sink.poll_and_commit()
    found = read(metrics)
    assert found["kafka_s3_lag_records{orders}"] == 5, "open files are no objects"
    assert found["kafka_s3_unread_records{orders}"] == 2, "too few to be read yet"
    assert found["kafka_s3_lag_seconds{orders}"] == 0
    assert found["kafka_s3_oldest_open_record_seconds{orders}"] == 7
    world.add(range(5, 101))
    assert world.sink.poll_and_commit()
    found = read(metrics)
    assert found["kafka_s3_lag_records{orders}"] == 1
    assert found["kafka_s3_oldest_open_record_seconds{orders}"] == 0, "another record"


def test_requests_of_driver_and_tasks_are_one_histogram() -> None:
    metrics = SinkMetrics("orders", clock_ms=lambda: 0)
    sent = [Requests({"put_object": took(0.02).plus(took(0.5))}, {"put_object": 1}, again=1)]
    metrics.attach(
        lambda: Heartbeat("orders", "run", "host", 1, "0", 0, 1000, phase=Phase.PAUSED, delay=Delay(1500, 4000)),
        lambda: sent.pop() if sent else Requests(),
    )
    for found in (read(metrics), read(metrics)):
        assert found["kafka_s3_request_seconds_count{put_object}"] == 2
        assert found["kafka_s3_request_seconds_sum{put_object}"] == 0.52
        assert found["kafka_s3_request_seconds_bucket{0.01,put_object}"] == 0
        assert found["kafka_s3_request_seconds_bucket{0.025,put_object}"] == 1
        assert found["kafka_s3_request_seconds_bucket{+Inf,put_object}"] == 2
        assert found["kafka_s3_request_failures_total{put_object}"] == 1
        assert found["kafka_s3_request_retries_total{}"] == 1
    assert found["kafka_s3_phase{paused}"] == 1
    assert found["kafka_s3_phase{running}"] == 0
    assert found["kafka_s3_delay_seconds{0.95}"] == 4


def test_memory_is_that_of_this_process_and_those_below() -> None:
    (own,) = [sample for sample in memory_samples() if sample.labels == ("driver",)]
    assert isinstance(own, Sample)
    assert isinstance(own.value, int)
    assert own.value > 10 << 20


def test_a_report_brings_the_requests_of_its_task() -> None:
    from dataclasses import replace

    from kafka_s3.model.tasks import TaskReport
    from kafka_s3.run.spark.report_form import outcome_of, outcome_text

    sent = Requests({"upload_part": took(0.3).plus(took(900.0))}, {"upload_part": 2}, again=2)
    report = replace(TaskReport(ORDERS, 0, 0, 0), requests=sent)
    assert outcome_of(outcome_text(report)).requests == sent
    assert json.loads(outcome_text(report))["requests"]["durations"]["upload_part"]["seconds"] == 900.3


def test_a_table_that_does_not_follow_is_a_problem_in_the_metrics() -> None:
    metrics = SinkMetrics("orders", clock_ms=lambda: 10_000)
    beat = Heartbeat("orders", "run", "host", 1, "0", 0, 1000, behind=("the state of orders does not follow",))
    metrics.attach(lambda: beat, Requests)
    assert read(metrics)["kafka_s3_problems{}"] == 1


@pytest.mark.parametrize(
    ("catch_up", "seconds"),
    [
        (None, 0),
        (CatchUp(0, 9, 3.0, 1.0, 14_000), 4),
        (CatchUp(0, 9, 3.0, 4.0, None), math.inf),
        (CatchUp(0, 9), None),
    ],
)
def test_how_long_a_sink_needs_to_catch_up_is_a_metric(catch_up: CatchUp | None, seconds: float | None) -> None:
    metrics = SinkMetrics("orders", clock_ms=lambda: 10_000)
    metrics.attach(lambda: Heartbeat("orders", "run", "host", 1, "0", 0, 1000, catch_up=catch_up), Requests)
    found = read(metrics)
    assert found.get("kafka_s3_catch_up_seconds{}") == seconds
    rate = 0 if catch_up is None else catch_up.arriving_per_s
    assert found.get("kafka_s3_catch_up_records_per_second{arriving}") == rate


def test_rewrites_count_apart_from_what_was_written() -> None:
    world = world_of(2, **{"rewrite.grace.ms": "1000"})
    metrics = metered(world)
    world.add(range(8))
    assert world.sink.poll_and_commit()
    ask_for_compaction(world, world.store)
    world.sink.rewrites.look()
    assert world.sink.poll_and_commit()
    found = read(metrics)
    assert found["kafka_s3_rewritten_objects_total{compaction,replaced}"] == 4
    assert found["kafka_s3_rewritten_objects_total{compaction,made}"] == 1
    assert found["kafka_s3_rewritten_objects_total{erasure,replaced}"] == 0
    assert found["kafka_s3_originals_deleted_total{}"] == 0
    world.now += 1000
    assert world.sink.poll_and_commit()
    found = read(metrics)
    assert found["kafka_s3_originals_deleted_total{}"] == 4
    assert found["kafka_s3_files_total{flush.size,orders}"] == 4
    assert found["kafka_s3_records_total{orders,written}"] == 8
