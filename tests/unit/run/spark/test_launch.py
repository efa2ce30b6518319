"""What does Spark Connect tell of a round, and what becomes of it? The real server is asked in tests/services/bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.run.spark.launch import progress_of

WANTED = Assignment(TopicPartition("orders", 0), 100, 500, (Delivery(0, 500),))


@dataclass
class ConnectSession:
    """A session as pyspark's client of Spark Connect has it, as far as progress goes."""

    handlers: list[Callable[..., None]] = field(default_factory=list)

    def registerProgressHandler(self, handler: Callable[..., None]) -> None:  # noqa: N802
        self.handlers.append(handler)

    def removeProgressHandler(self, handler: Callable[..., None]) -> None:  # noqa: N802
        self.handlers.remove(handler)

    def tell(self, *stages: tuple[int, int], done: bool = False) -> None:
        reported = [SimpleNamespace(num_tasks=tasks, num_completed_tasks=completed) for tasks, completed in stages]
        for handler in self.handlers:
            handler(stages=reported, inflight_tasks=1, operation_id="an operation", done=done)


def read(session: ConnectSession, during: Callable[[], None], reading: Callable[[int, int], None]) -> None:
    with progress_of(cast(Any, session), [WANTED], reading):
        during()


def test_tasks_that_are_done_are_reported_as_records_while_a_round_is_read_and_not_after_it() -> None:
    session, reported = ConnectSession(), list[tuple[int, int]]()

    def during() -> None:
        session.tell((3, 0), (1, 0))
        session.tell((3, 2), (1, 1))
        session.tell(done=True)

    read(session, during, lambda records, wanted: reported.append((records, wanted)))
    session.tell((4, 4))
    assert reported == [(0, 400), (300, 400)]


def test_a_display_that_fails_does_not_end_the_round() -> None:
    session = ConnectSession()

    def fail(records: int, wanted: int) -> None:
        raise BrokenPipeError

    read(session, lambda: session.tell((4, 1)), fail)


def test_a_session_that_shows_nothing_is_read_all_the_same() -> None:
    read(cast(ConnectSession, object()), lambda: None, lambda records, wanted: None)
