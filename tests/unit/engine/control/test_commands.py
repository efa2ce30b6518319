"""Pausing, resuming and flushing: what is asked in the bucket, what the loop does, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kafka_s3.connect.config.validate import validate
from kafka_s3.engine.control.commands import (
    CommandRequest,
    Control,
    ControlChannel,
    ask_flush,
    ask_pause,
    ask_resume,
    read_control,
)
from kafka_s3.engine.control.heartbeat import HeartbeatWriter, Phase, read_heartbeat
from kafka_s3.engine.control.stored_settings import (
    plain_secrets,
    read_stored_config,
    replace_config,
    store_config,
)
from kafka_s3.engine.loop.planner import QUIET_OFFSETS
from kafka_s3.engine.loop.runner import run_available_now, run_continuously
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.errors import ConfigError, LogDamaged, StorageError, StorageUnavailable
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import join_observers
from kafka_s3.model.tasks import Assignment, TaskReport
from kafka_s3.run.wiring.bucket import stored_config
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import Fault, FaultyStore, Verb
from tests.support.memory_world import BASE, World, settings_of

STOP = object()
SIZE = {"flush.size": "3"}


class Attended:
    """A sink in memory whose loop stands still at every wait, so that the test can look and ask."""

    def __init__(self, world: World, faults: tuple[Fault, ...] = ()) -> None:
        self.world, self.paths, self.clock = world, state_paths(world.settings), lambda: world.now
        self.store = FaultyStore(world.store, faults)
        self.heartbeat_writer = HeartbeatWriter(self.store, self.paths, interval_ms=3_000, clock_ms=self.clock)
        self.heartbeat_writer.remember()
        self.channel = ControlChannel(
            self.store, self.paths, heartbeat_writer=self.heartbeat_writer, clock_ms=self.clock
        )
        self.asked = 0
        self.each_turn: Callable[[], None] = lambda: None

    def sink(self) -> Sink:
        world = self.world
        return build_sink(
            world.settings,
            world.kafka,
            source=self,
            store=world.store,
            clock_ms=self.clock,
            observer=join_observers(self.heartbeat_writer),
        )

    def read(self, assignments: Sequence[Assignment]) -> list[TaskReport]:
        """The source: reads from the cluster in memory, after what the test does at each turn."""
        self.each_turn()
        return self.world.kafka.read(assignments)

    def run(self, steps: Iterator[None], *, poll_ms: int = 1000, stopped: Callable[[], bool] = lambda: False) -> None:
        """Runs the loop; each wait takes one step of the test, and the last one stops the loop."""

        def wait(ms: int) -> bool:
            self.world.now += ms
            self.heartbeat_writer.beat()
            return next(steps, STOP) is STOP

        run_continuously(self.sink(), poll_ms=poll_ms, backoff_ms=500, wait=wait, stopped=stopped, channel=self.channel)

    def request(self) -> CommandRequest:
        self.asked += 1
        return CommandRequest(f"request-{self.asked}", self.world.now, "ann@channel")

    @property
    def answer(self) -> tuple[Phase, str, str]:
        beat = read_heartbeat(self.world.store, self.paths)
        assert beat is not None
        return beat.phase, beat.request, beat.flushed


@pytest.fixture
def world() -> World:
    world = World(SIZE)
    world.add(range(4))
    return world


def counts(world: World) -> list[int]:
    return [len(rows) for _, rows in sorted(world.numbers().items())]


def test_requests_keep_what_was_asked_before() -> None:
    store, paths = MemoryStore(), state_paths(settings_of(SIZE))
    assert read_control(store, paths) is None
    ask_flush(store, paths, CommandRequest("one", 0, "ann"))
    ask_pause(store, paths, CommandRequest("two", 1000, "ben"))
    assert read_control(store, paths) == Control(True, "two", "one", "1970-01-01T00:00:01.000Z", "ben")
    ask_resume(store, paths, CommandRequest("three", 1000, "ben"))
    assert read_control(store, paths) == Control(False, "three", "one", "1970-01-01T00:00:01.000Z", "ben")


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format": 2}'])
def test_a_control_object_that_cannot_be_read_is_named_and_replaced_by_the_next_request(content: bytes) -> None:
    store, paths = MemoryStore(), state_paths(settings_of(SIZE))
    store.put(paths.control(), content)
    with pytest.raises(LogDamaged, match=r"_kafka_s3/orders/control\.json"):
        read_control(store, paths)
    assert ask_pause(store, paths, CommandRequest("one", 0, "ann")).paused


def test_a_paused_sink_writes_nothing_until_it_is_resumed(world: World) -> None:
    here = Attended(world)

    def steps() -> Iterator[None]:
        assert counts(world) == [3]
        assert here.answer == (Phase.RUNNING, "", "")
        ask_pause(world.store, here.paths, here.request())
        yield
        assert here.answer == (Phase.PAUSED, "request-1", "")
        world.add(range(4, 20))
        versions = len(world.entries())
        yield
        yield
        assert (counts(world), len(world.entries())) == ([3], versions)
        ask_resume(world.store, here.paths, here.request())
        yield
        assert here.answer == (Phase.RUNNING, "request-2", "")
        assert counts(world) == [3] * 6

    here.run(steps())


def test_a_pause_outlives_a_restart(world: World) -> None:
    here = Attended(world)
    ask_pause(world.store, here.paths, here.request())

    def steps() -> Iterator[None]:
        assert here.answer[0] is Phase.PAUSED
        assert counts(world) == []
        yield

    here.run(steps())
    here = Attended(world)
    run_available_now(here.sink(), backoff_ms=500, wait=lambda _: True, channel=here.channel)
    assert counts(world) == []
    assert here.heartbeat_writer.current.phase is Phase.PAUSED


def test_a_flush_closes_the_open_tail_once_per_request(world: World) -> None:
    here = Attended(world)

    def steps() -> Iterator[None]:
        assert counts(world) == [3]
        ask_flush(world.store, here.paths, here.request())
        world.add(range(4, 5))  # what arrived before the request is read is flushed too
        yield
        assert here.answer == (Phase.RUNNING, "", "request-1")
        assert counts(world) == [3, 2]
        assert world.entries()[-1].files[0].reason is Reason.FLUSH_NOW
        world.add(range(5, 6))
        yield
        yield
        assert counts(world) == [3, 2]
        ask_flush(world.store, here.paths, here.request())
        yield
        assert here.answer == (Phase.RUNNING, "", "request-2")
        assert counts(world) == [3, 2, 1]

    here.run(steps())
    world.add(range(6, 7))
    again = Attended(world)  # a restart knows from the heartbeat that request-2 is done
    again.run(iter(()))
    assert counts(world) == [3, 2, 1]


def test_a_flush_that_is_asked_of_a_paused_sink_waits_for_the_end_of_the_pause(world: World) -> None:
    here = Attended(world)
    ask_flush(world.store, here.paths, here.request())
    ask_pause(world.store, here.paths, here.request())

    def steps() -> Iterator[None]:
        assert counts(world) == []
        ask_resume(world.store, here.paths, here.request())
        yield
        assert counts(world) == [3, 1]
        assert here.answer == (Phase.RUNNING, "request-3", "request-1")

    here.run(steps())


def per_turn(here: Attended, after: int, act: Callable[[], object]) -> Callable[[], None]:
    """Does something when so many objects are there, in the middle of a backlog."""

    def check() -> None:
        here.world.now += here.channel.every_ms
        if len(here.world.numbers()) == after:
            act()

    return check


def backlog(world: World, topics: int = 4) -> Attended:
    """A sink whose backlog takes a turn per topic-partition: their ranges are too long to share a task."""
    for partition in range(1, topics):
        tp = TopicPartition("orders", partition)
        world.kafka.create(tp)
        world.add([0, 1, QUIET_OFFSETS], tp=tp)
    return Attended(world)


def test_a_pause_takes_effect_within_a_backlog_and_keeps_what_was_committed(world: World) -> None:
    here = backlog(world)
    here.each_turn = per_turn(here, 1, lambda: ask_pause(world.store, here.paths, here.request()))

    def steps() -> Iterator[None]:
        assert here.answer[0] is Phase.PAUSED
        assert counts(world) == [3, 3]
        ask_resume(world.store, here.paths, here.request())
        here.each_turn = lambda: None
        yield
        assert counts(world) == [3, 3, 3, 3]

    here.run(steps())
    assert counts(world) == [3, 3, 3, 3]


def test_a_flush_takes_effect_within_a_backlog_and_is_answered_when_all_of_it_is_in_objects(world: World) -> None:
    here = backlog(world)
    here.each_turn = per_turn(here, 1, lambda: ask_flush(world.store, here.paths, here.request()))

    def steps() -> Iterator[None]:
        assert here.answer == (Phase.RUNNING, "", "request-1")
        assert counts(world) == [3, 1, 3, 3, 3]
        yield

    here.run(steps())


def test_a_stop_takes_effect_within_a_backlog(world: World) -> None:
    here = backlog(world)

    def steps() -> Iterator[None]:
        raise AssertionError("the loop waited")
        yield

    here.run(steps(), stopped=lambda: len(world.numbers()) == 2)
    assert counts(world) == [3, 3]


@pytest.mark.parametrize("close", [None, Reason.FLUSH_NOW])
def test_a_sink_that_only_drains_stops_and_pauses_within_the_backlog_too(world: World, close: Reason | None) -> None:
    here = backlog(world)
    here.each_turn = per_turn(here, 1, lambda: ask_pause(world.store, here.paths, here.request()))
    run_available_now(here.sink(), backoff_ms=500, wait=lambda _: True, close=close, channel=here.channel)
    assert (counts(world), here.heartbeat_writer.current.phase) == ([3, 3], Phase.PAUSED)

    ask_resume(world.store, here.paths, here.request())
    here = Attended(world)
    stopped = lambda: len(world.numbers()) == 3  # noqa: E731
    run_available_now(
        here.sink(), backoff_ms=500, wait=lambda _: True, close=close, channel=here.channel, stopped=stopped
    )
    assert counts(world) == [3, 3, 3]


def test_a_long_wait_is_cut_short_by_news(world: World) -> None:
    here = Attended(world)
    began = world.now

    def steps() -> Iterator[None]:
        yield
        ask_pause(world.store, here.paths, here.request())
        yield
        yield
        assert here.answer[0] is Phase.PAUSED
        assert world.now - began <= 5_000

    here.run(steps(), poll_ms=600_000)


def test_a_bucket_that_does_not_answer_at_first_keeps_the_sink_waiting_and_later_leaves_it_as_it_was(
    world: World,
) -> None:
    away = True

    def fail(_: str) -> None:
        if away:
            raise StorageUnavailable("GetObject timed out.")

    here = Attended(world, (Fault("get", fail, nth=None, matches=lambda key: key.endswith("control.json")),))
    ask_pause(world.store, here.paths, here.request())

    def steps() -> Iterator[None]:
        nonlocal away
        yield
        assert counts(world) == []
        assert here.heartbeat_writer.current.warning == "The request to the sink cannot be read: GetObject timed out."
        away = False
        yield
        assert here.answer[0] is Phase.PAUSED
        away = True
        yield
        assert here.answer[0] is Phase.PAUSED

    here.run(steps())
    assert counts(world) == []


def test_a_control_object_that_may_not_be_read_is_warned_of_once_and_the_sink_works(world: World) -> None:
    def refuse(_: str) -> None:
        raise StorageError("GetObject was refused: AccessDenied.")

    here = Attended(world, (Fault("get", refuse, nth=None, matches=lambda key: key.endswith("control.json")),))
    warnings: list[str] = []
    warned = here.heartbeat_writer.warned
    here.heartbeat_writer.warned = lambda text: (warnings.append(text), warned(text))[1]  # type: ignore[method-assign]
    here.run(iter((None, None, None)))
    assert counts(world) == [3]
    assert len(warnings) == 1
    assert not here.heartbeat_writer.current.troubled


# ------------------------------------------------------------ the stored configuration

JAAS = "consumer.override.sasl.jaas.config"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("aws.secret.access.key", "canary"),
        ("aws.secret.access.key", "canary${env:A}"),
        ("aws.secret.acess.key", "canary"),
        ("kafka.api.secret", "canary"),
        ("value.converter.basic.auth.user.info", "user:canary"),
        ("value.converter.schema.registry.url", "http://user:canary@registry:8081"),
        ("value.converter.schema.registry.url", "http://user:ca${secrets:a/b}nary@registry:8081"),
        ("value.converter.schema.registry.url", "http://token@registry:8081"),
        ("s3.proxy.password", "canary"),
        (JAAS, f'{LOGIN}username="user" password="canary";'),
        (JAAS, f"{LOGIN}username=user password='canary';"),
        (JAAS, LOGIN + 'username="${env:U}" password="${env:P}" extra="canary";'),
        (JAAS, "canary"),
    ],
)
def test_a_secret_in_clear_is_refused_and_not_repeated(key: str, text: str) -> None:
    (problem,) = plain_secrets({key: text})
    assert problem.key == key
    assert "canary" not in str(problem)
    assert "${env:NAME}" in problem.remedy


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("aws.secret.access.key", "${env:KEY}"),
        ("aws.secret.access.key", " ${secrets:scope/key} "),
        ("aws.secret.access.key", ""),
        ("aws.access.key.id", "AKIAEXAMPLE"),
        ("topics", "orders"),
        ("store.url", "https://minio:9000"),
        ("value.converter.schema.registry.url", "http://user:${secrets:a/b}@registry:8081"),
        ("value.converter.schema.registry.url", "http://${env:U}:${env:P}@registry:8081"),
        (JAAS, LOGIN + 'username="user" password="${file:/a b/c:key}";'),
        (JAAS, LOGIN + "username=user password=${secrets:a/b};"),
        (JAAS, "${file:/etc/jaas}"),
    ],
)
def test_references_and_what_is_no_secret_may_be_stored(key: str, text: str) -> None:
    assert list(plain_secrets({key: text})) == []


def test_a_stored_configuration_can_be_used_again() -> None:
    raw = {**BASE, **SIZE, "aws.access.key.id": "AKIA", "aws.secret.access.key": "${env:KEY}"}
    worker = {"offset.flush.interval.ms": "1000", "ssl.of.something.password": "canary-1"}
    settings = validate(raw, worker=worker).usable()
    store, paths = MemoryStore(), state_paths(settings)
    stored = stored_config(settings, now_ms=0)
    assert store_config(store, paths, stored)
    assert b"canary" not in store.get(paths.config())
    found = read_stored_config(store, paths)
    assert found == stored
    assert found is not None
    assert (found.config, found.worker) == (raw, {"offset.flush.interval.ms": "1000"})
    assert validate(found.config, worker=found.worker).usable().masked() == settings.masked()


def test_a_configuration_is_not_written_over_unasked() -> None:
    settings = settings_of(SIZE)
    store, paths = MemoryStore(), state_paths(settings)
    first, second = stored_config(settings, now_ms=0), stored_config(settings, now_ms=1)
    assert store_config(store, paths, first)
    assert store_config(store, paths, first)  # our own, after a lost answer
    assert not store_config(store, paths, second)
    assert read_stored_config(store, paths) == first
    replace_config(store, paths, second)
    assert read_stored_config(store, paths) == second


def test_all_secrets_in_clear_are_reported_at_once() -> None:
    settings = validate(
        {
            **BASE,
            **SIZE,
            "aws.access.key.id": "AKIA",
            "aws.secret.access.key": "canary-1",
            "s3.proxy.password": "canary-2",
        }
    ).settings
    with pytest.raises(ConfigError) as error:
        stored_config(settings, now_ms=0)
    assert [problem.key for problem in error.value.problems] == ["aws.secret.access.key", "s3.proxy.password"]


def test_a_stored_configuration_that_is_damaged_is_named(world: World) -> None:
    paths: Any = state_paths(world.settings)
    world.store.put(paths.config(), json.dumps({"name": "orders"}).encode())
    with pytest.raises(LogDamaged, match="--replace"):
        read_stored_config(world.store, paths)


@pytest.mark.parametrize(("heartbeat_ms", "looks"), [(10_000, 20), (60_000, 3)])
def test_a_sink_looks_for_commands_three_times_in_a_heartbeat_and_at_most_once_a_second(
    heartbeat_ms: int, looks: int, world: World
) -> None:
    """Each look is a request, and a sink without traffic asks for little else."""
    store, paths = FaultyStore(MemoryStore()), state_paths(world.settings)
    writer = HeartbeatWriter(store, paths, interval_ms=heartbeat_ms, clock_ms=lambda: world.now)
    channel = ControlChannel(store, paths, heartbeat_writer=writer, clock_ms=lambda: world.now)
    for _ in range(60):
        channel.commands()
        world.now += 1000
    assert sum(verb in {Verb.GET, Verb.HEAD} for verb, _ in store.calls) == looks
