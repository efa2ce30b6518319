"""What a follower that fails says, and how often it is tried: its errors are warnings, and hold neither the sink nor other followers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.loop.followers import Followers
from kafka_s3.model.errors import StorageError, TableError, TableUnavailable
from kafka_s3.model.protocols import join_observers
from kafka_s3.store.memory import MemoryStore

MINUTE_MS = 60_000


@dataclass
class Scripted:
    """A follower that fails as long as it has an error."""

    name: str = "marks"
    error: str = ""
    takes_ms: int = 0
    clock: list[int] = field(default_factory=lambda: [0])
    calls: list[int] = field(default_factory=list)

    def catch_up(self, log: CommitLog) -> None:
        self.calls.append(self.clock[0])
        self.clock[0] += self.takes_ms
        if self.error:
            raise StorageError(self.error)


@dataclass
class Tables:
    """A follower with two tables, which knows what each lacks; `tried` are those that are looked at in a call."""

    name: str = "tables"
    held: dict[str, str] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)

    @property
    def problems(self) -> Sequence[str]:
        return [f"the table of {topic} does not follow: {why}" for topic, why in sorted(self.held.items())]

    def catch_up(self, log: CommitLog) -> None:
        failed = [why for topic, why in sorted(self.held.items()) if topic in self.tried]
        if failed:
            raise TableError(" ".join(failed))


@dataclass
class World:
    """Followers, a clock, and the warnings that were given."""

    followers: Followers
    log: CommitLog
    clock: list[int]
    warnings: list[str]

    def poll(self, *, after_ms: int = 1_000) -> None:
        self.clock[0] += after_ms
        self.followers.catch_up(self.log)


def world_of(*followers: Scripted | Tables) -> World:
    clock, warnings = [1_000_000], list[str]()

    class Listening:
        def follower_warned(self, text: str) -> None:
            warnings.append(text)

    for follower in followers:
        if isinstance(follower, Scripted):
            follower.clock = clock
    log = CommitLog(MemoryStore(), StatePaths("_kafka_s3", "orders"), clock_ms=lambda: clock[0])
    log.load()
    return World(Followers(followers, join_observers(Listening())), log, clock, warnings)


def test_an_error_is_a_warning_once_and_again_only_when_it_changes_or_comes_back() -> None:
    marks = Scripted(error="GET took 12.5 ms: no route to 10.0.0.1 (request id 4F0A).")
    world = world_of(marks)
    for number in range(20):
        marks.error = f"GET took {number}.5 ms: no route to 10.0.0.1 (request id 4F{number}A)."
        world.poll(after_ms=MINUTE_MS)
    assert len(world.warnings) == 1
    assert "marks: GET took 0.5 ms: no route" in world.warnings[0]
    assert "took 19.5 ms" in str(world.followers.problems)

    marks.error = "Access is denied."
    world.poll(after_ms=MINUTE_MS)
    assert len(world.warnings) == 2
    marks.error = ""
    world.poll(after_ms=MINUTE_MS)
    assert world.followers.problems == ()
    marks.error = "Access is denied."
    world.poll(after_ms=MINUTE_MS)
    assert world.warnings[1] == world.warnings[2]


def test_what_fails_is_tried_at_once_and_then_after_longer_pauses_up_to_a_minute() -> None:
    marks, beside = Scripted(error="Access is denied."), Scripted("beside")
    world = world_of(marks, beside)
    for _ in range(600):
        world.poll()
    pauses = [after - before for before, after in zip(marks.calls, marks.calls[1:], strict=False)]
    assert pauses[0] == 1_000
    assert all(pause <= MINUTE_MS for pause in pauses)
    assert len(marks.calls) < 30
    assert len(beside.calls) == 600
    marks.error = ""
    world.poll(after_ms=MINUTE_MS)
    marks.error = "Access is denied."
    world.poll()
    world.poll()
    assert marks.calls[-1] - marks.calls[-2] == 1_000


def test_a_slow_failure_rests_nine_times_as_long_as_it_took() -> None:
    marks = Scripted(error="no answer", takes_ms=20_000)
    world = world_of(marks)
    world.poll()
    for _ in range(179):
        world.poll()
    assert len(marks.calls) == 1
    world.poll()
    assert len(marks.calls) == 2


def test_a_table_that_is_held_is_named_once_whichever_of_them_are_tried() -> None:
    tables = Tables()
    world = world_of(tables)
    tables.held = {"a": "lacks a file"}
    for tried in ({"a"}, {"a"}, set[str](), {"a"}):
        tables.tried = tried
        world.poll()
    assert len(world.warnings) == 1
    tables.held["b"] = "is gone"
    for tried in ({"a", "b"}, {"a"}, {"b"}, {"a", "b"}):
        tables.tried = tried
        world.poll()
    assert len(world.warnings) == 2
    del tables.held["a"]
    tables.tried = set()
    world.poll()
    tables.held["a"] = "lacks a file"
    tables.tried = {"a"}
    world.poll()
    assert world.warnings[2] == world.warnings[0]


@pytest.mark.parametrize("failures", [1, 2, 5])
def test_a_group_that_cannot_be_mirrored_is_a_warning_once(failures: int) -> None:
    group = Scripted("group", error="not authorized")
    world = world_of()
    group.clock, world.followers.group = world.clock, group
    world.log.claim(cluster_id="cluster-1", publish=lambda _: ())
    for _ in range(failures):
        world.clock[0] += MINUTE_MS
        world.followers.mirror_group(world.log)
    assert (len(group.calls), len(world.warnings)) == (failures, 1)


def test_a_letter_that_cannot_be_reported_is_a_warning_once() -> None:
    class Reporter(Scripted):
        def report(self, letters: object) -> None:
            raise TableUnavailable("the topic does not answer")

    world = world_of(Reporter())
    for _ in range(3):
        world.followers.report([None])  # type: ignore[list-item]
    assert len(world.warnings) == 1
