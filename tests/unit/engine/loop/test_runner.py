"""How long the sink waits after something did not answer, and that it asks again in time (SEMANTICS A1.4, A9.2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_s3.engine.loop.runner import run_available_now, run_continuously
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.errors import KafkaUnavailable, RegistryUnavailable
from kafka_s3.model.tasks import Assignment, TaskReport
from kafka_s3.model.timing import Backoff
from kafka_s3.run.wiring.sink import build_sink, pauses
from kafka_s3_testing.services.memory import MemoryKafka
from tests.support.memory_world import World, settings_of


def test_pauses_double_up_to_the_longest_one() -> None:
    backoff = Backoff(5_000, 60_000, jitter=lambda: 0.0)
    assert [backoff.pause_ms(failures) for failures in range(1, 7)] == [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]
    assert backoff.pause_ms(10**6) == 60_000


@pytest.mark.parametrize("failures", [1, 3, 50])
def test_up_to_half_of_a_pause_is_taken_off_at_random(failures: int) -> None:
    whole, least = (Backoff(100, 1_000, jitter=jitter).pause_ms(failures) for jitter in (lambda: 0.0, lambda: 0.999999))
    assert least == pytest.approx(whole / 2, abs=1)
    assert all(least <= Backoff(100, 1_000).pause_ms(failures) <= whole for _ in range(20))


def test_a_pause_that_cannot_grow_is_exact() -> None:
    assert {Backoff(500, 500).pause_ms(failures) for failures in range(1, 9)} == {500}


@pytest.mark.parametrize(
    ("config", "first", "longest"),
    [
        ({}, 5_000, 60_000),
        ({"errors.retry.delay.max.ms": "1000"}, 1_000, 1_000),
        ({"retry.backoff.ms": "300", "errors.retry.delay.max.ms": "9000"}, 300, 9_000),
        ({"errors.retry.delay.max.ms": "0"}, 5_000, 5_000),
        ({"compatibility.strict": "true"}, 5_000, 5_000),
    ],
)
def test_the_pauses_are_those_of_the_configuration(config: dict[str, str], first: int, longest: int) -> None:
    assert pauses(settings_of({"flush.size": "1", **config})) == (first, longest)


class Unsteady:
    """A source that raises these errors one by one, then reads."""

    def __init__(self, kafka: MemoryKafka, errors: Iterator[Exception]) -> None:
        self.kafka, self.errors = kafka, errors

    def read(self, assignments: list[Assignment]) -> list[TaskReport]:
        error = next(self.errors, None)
        if error is not None:
            raise error
        return self.kafka.read(assignments)


def unsteady(world: World, errors: list[Exception]) -> Sink:
    source = Unsteady(world.kafka, iter(errors))
    return build_sink(world.settings, world.kafka, source=source, store=world.store, clock_ms=lambda: world.now)


def test_the_running_sink_waits_longer_from_failure_to_failure_and_as_before_after_a_success() -> None:
    world, waits = World({"flush.size": "1"}), list[int]()
    world.add([0])

    def wait(ms: int) -> bool:
        world.now += ms
        waits.append(ms)
        if world.now and len(waits) == 5:
            world.add([1])
        return len(waits) == 7

    away = [KafkaUnavailable("away")] * 4
    sink = unsteady(world, away)
    run_continuously(sink, poll_ms=10, backoff_ms=1_000, longest_backoff_ms=4_000, wait=wait)
    assert waits[4:] == [10, 10, 10]
    for ms, whole in zip(waits, [1_000, 2_000, 4_000, 4_000], strict=False):
        assert whole / 2 <= ms <= whole
    assert len(world.numbers()) == 2


def test_a_sink_that_only_drains_waits_in_the_same_way() -> None:
    world, waits = World({"flush.size": "1"}), list[int]()
    world.add([0])

    def wait(ms: int) -> bool:
        waits.append(ms)
        return False

    run_available_now(
        unsteady(world, [KafkaUnavailable("away")] * 3), backoff_ms=8, longest_backoff_ms=1_000, wait=wait
    )
    assert len(waits) == 3
    assert 16 <= waits[2] <= 32
    assert len(world.numbers()) == 1


def test_no_pause_is_longer_than_the_patience_with_the_registry() -> None:
    world, waits = World({"flush.size": "1", "errors.retry.timeout": "1500"}), list[int]()
    world.add([0])

    def wait(ms: int) -> bool:
        world.now += ms
        waits.append(ms)
        return False

    sink = unsteady(world, [RegistryUnavailable("away")] * 99)
    with pytest.raises(RegistryUnavailable):
        run_continuously(sink, poll_ms=10, backoff_ms=1_000, longest_backoff_ms=60_000, wait=wait)
    assert sum(waits) == 1_500
