"""What the error policy decides (SEMANTICS A7, A9.1, A9.2)."""

from __future__ import annotations

import pytest

from kafka_s3.engine.task.dead_letters import NULL_FAILS, NULL_SKIPPED, NULLS_PASS, ErrorAction, ErrorPolicy
from kafka_s3.model.dead_letters import Failure, Stage
from kafka_s3.model.offsets import TopicPartition
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World

BURY, SKIP, STOP = ErrorAction.DEAD_LETTER, ErrorAction.SKIP, ErrorAction.STOP


def policy(
    *, tolerant: bool = True, reporter: bool = True, nulls: str = "ignore", report: bool = True, strict: bool = False
) -> ErrorPolicy:
    return ErrorPolicy(tolerant, reporter, nulls, report, strict)


def failure(stage: Stage, *, stops_original: bool = False, message: str = "bad") -> Failure:
    return Failure(7, stage, "component", "exception", message, stops_original)


@pytest.mark.parametrize("stage", list(Stage))
def test_without_tolerance_every_failure_stops(stage: Stage) -> None:
    assert policy(tolerant=False).failure(failure(stage)) is STOP


@pytest.mark.parametrize("reporter", [True, False])
@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("stops_original", [True, False])
def test_under_tolerance_no_bad_record_stops_the_stream(stage: Stage, reporter: bool, stops_original: bool) -> None:
    assert policy(reporter=reporter).failure(failure(stage, stops_original=stops_original)) is BURY


@pytest.mark.parametrize(
    ("stage", "reporter", "stops_original", "verdict"),
    [
        (Stage.VALUE_CONVERTER, False, False, BURY),  # tolerance alone skips what the framework finds
        (Stage.TASK_PUT, False, False, STOP),  # but not what the sink finds
        (Stage.TASK_PUT, True, False, BURY),
        (Stage.TASK_PUT, True, True, STOP),
    ],
)
def test_strict_stops_where_the_original_does(
    stage: Stage, reporter: bool, stops_original: bool, verdict: ErrorAction
) -> None:
    assert policy(strict=True, reporter=reporter).failure(failure(stage, stops_original=stops_original)) is verdict


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (policy(nulls="fail"), STOP),
        (policy(), BURY),
        (policy(report=False), SKIP),
        (policy(reporter=False), SKIP),
        (policy(tolerant=False), BURY),
        (policy(tolerant=False, strict=True), STOP),
        (policy(tolerant=False, strict=True, reporter=False), SKIP),
    ],
)
def test_null_values_stop_are_skipped_or_reported(kind: ErrorPolicy, verdict: ErrorAction) -> None:
    assert kind.null() is verdict


def test_only_what_the_original_reports_before_it_stops_is_reported() -> None:
    assert policy().reports(failure(Stage.TASK_PUT))
    assert not policy(reporter=False).reports(failure(Stage.TASK_PUT))
    assert not policy().reports(failure(Stage.TASK_PUT, stops_original=True))
    assert not policy().reports(failure(Stage.TASK_PUT, message=NULL_FAILS))


@pytest.mark.parametrize(
    ("kind", "failed", "words"),
    [
        (policy(tolerant=False), failure(Stage.VALUE_CONVERTER), "errors.tolerance=all"),
        (policy(nulls="fail"), failure(Stage.TASK_PUT, message=NULL_FAILS), "behavior.on.null.values=ignore"),
        (
            policy(tolerant=False, strict=True),
            failure(Stage.TASK_PUT, message=NULL_SKIPPED),
            "errors.tolerance=all",
        ),
        (policy(strict=True), failure(Stage.TASK_PUT, stops_original=True), "compatibility.strict=false"),
        (policy(strict=True, reporter=False), failure(Stage.TASK_PUT), "errors.log.enable=true"),
    ],
)
def test_such_a_record_needs_a_setting_under_which_it_does_not_stop_the_sink(
    kind: ErrorPolicy, failed: Failure, words: str
) -> None:
    assert kind.needs([failed, failed]) == (words,)


def test_the_way_out_names_the_position_behind_the_record_and_how_many_others_that_gives_up() -> None:
    strict, orders = policy(tolerant=False), TopicPartition("orders", 3)
    alone = strict.remedy(failure(Stage.TASK_PUT), orders, start=7, needs=())
    assert alone.endswith("kafka-s3 position set CONFIG orders 3 8.")
    more = strict.remedy(failure(Stage.TASK_PUT), orders, start=4, needs=())
    assert more.endswith("orders 3 8, which gives up 3 other records that are in no object yet, too (offsets 4 to 6).")


def test_records_without_a_value_that_may_come_are_mentioned_where_they_would_stop_the_sink_next() -> None:
    words, orders = "Records without a value", TopicPartition("orders", 3)
    fails = policy(tolerant=False, nulls="fail")
    assert words in fails.remedy(failure(Stage.TASK_PUT), orders, start=7, needs=("errors.tolerance=all",))
    assert words not in fails.remedy(failure(Stage.TASK_PUT), orders, start=7, needs=(NULLS_PASS,))
    assert words not in policy(tolerant=False).remedy(failure(Stage.TASK_PUT), orders, start=7, needs=())


@pytest.mark.parametrize("strict", ["true", "false"])
def test_bytearray_objects_refuse_strings_one_by_one_as_the_original_does(strict: str) -> None:
    config = {
        "flush.size": "1", "format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat", **TOLERANT,
        "value.converter": "org.apache.kafka.connect.storage.StringConverter", "compatibility.strict": strict,
    }  # fmt: skip
    world = World(config)
    for offset in range(3):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b"text"))
    world.start()
    world.sink.poll_and_commit()
    assert world.log().load().totals.dead_letters == 3
    assert [sent.origin for sent in world.kafka.produced["dlq"]] == [("orders", 0, offset) for offset in range(3)]
