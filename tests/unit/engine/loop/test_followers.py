"""What a follower raises, foreseen or not, holds neither another follower nor the sink."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.followers import Followers
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.errors import RecordError
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.memory_world import ORDERS, START_MS, World, world_of
from tests.support.observers import Warnings


@dataclass
class Follower:
    """Notes the entries to which it came; with an `error` it raises that instead."""

    name: str
    error: Exception | None = None
    entries: list[int] = field(default_factory=list)

    def catch_up(self, log: CommitLog) -> None:
        if self.error is not None:
            raise self.error
        self.entries.append(log.state.version)

    def report(self, letters: Iterable[DeadLetter]) -> None:
        if self.error is not None:
            raise self.error


def followed_by(world: World, *followers: Follower, group: Follower | None = None) -> Warnings:
    warnings = Warnings()
    world.start(observer=warnings)
    world.sink.followers = world.sink.committer.followers = Followers(followers, warnings, group)
    return warnings


def test_an_unforeseen_error_of_a_follower_is_its_problem_until_it_has_caught_up() -> None:
    world = world_of(1)
    broken, group, other = (
        Follower("Broken", OverflowError("date value out of range")), Follower("Group", KeyError("x")), Follower("Other"),
    )  # fmt: skip
    warnings = followed_by(world, broken, other, group=group)
    world.add([0, 1])
    assert world.sink.poll_and_commit()

    assert (world.frontier(), other.entries) == (2, [2])
    for name, kind in (("Broken", "OverflowError"), ("Group", "KeyError")):
        assert any(
            text.startswith(f"{name}: {kind}, which is not an error of the product's own") for text in warnings.texts
        )
        assert any(
            text.startswith(f"{name}, since 2024-01-15T10:00:00Z: {kind}") for text in world.sink.followers.problems
        )
    broken.error = group.error = None
    world.now += 3_600_000
    world.add([2])
    assert world.sink.poll_and_commit()
    assert (broken.entries, group.entries, world.sink.followers.problems) == ([2, 3], [3], ())


def test_an_unforeseen_error_of_a_reporter_does_not_take_the_place_of_the_record_that_stops() -> None:
    world = world_of(1, **{"errors.deadletterqueue.topic.name": "dlq"})
    warnings = followed_by(world, Follower("Broken", ValueError("x")))
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, b"{oops"))
    with pytest.raises(RecordError, match="orders-0 offset 0, stage VALUE_CONVERTER"):
        world.sink.poll_and_commit()
    assert any(text.startswith("Broken: ValueError, which is not") for text in warnings.texts)
