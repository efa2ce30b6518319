"""What does a Spark task do once, and for how long? Spark tries a task again whose process died; ours then only says so.

Another attempt would read and upload everything once more, at the worst moment, and would leave what the first one uploaded. So the first
attempt works, any later one reports that the process before it died, and the driver decides what is tried again, and when. What a task
does runs in a thread beside Spark's own, which waits for it no longer than `task.timeout.ms`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Final, TypeVar

from kafka_s3.model.errors import EngineDied, TaskTimedOut
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import start_daemon
from kafka_s3.model.tasks import TaskFailure
from kafka_s3.run.spark.failures import AFTER_DEATH

T = TypeVar("T")
LATE_SHARE: Final = 0.75
"""A task that still reads after this share of its time reports what it has."""


def is_repeated() -> bool:
    """Whether Spark has tried this task before."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def died(topic_partition: TopicPartition) -> TaskFailure:
    """The outcome of an assignment whose process died in an earlier attempt."""
    text = f"{topic_partition}: the process of Spark that read it died at its work. {AFTER_DEATH}"
    return TaskFailure(topic_partition, EngineDied(text))


@dataclass(frozen=True, slots=True)
class TaskTime:
    """The time that a task has, from its beginning on."""

    seconds: float
    begun_s: float = field(default_factory=time.monotonic)

    def is_late(self) -> bool:
        """Whether no more should be begun."""
        return time.monotonic() - self.begun_s > self.seconds * LATE_SHARE

    def left_s(self) -> float:
        """Seconds until it is given up."""
        return max(0.0, self.begun_s + self.seconds - time.monotonic())


def within(limit: TaskTime, items: Iterator[T], *, give_up: Callable[[], None]) -> Iterator[T]:
    """The items, made by a thread of their own. Raises TaskTimedOut once the time is over, after `give_up`; what the items raise."""
    found: Queue[tuple[str, T | None, BaseException | None]] = Queue()

    def make() -> None:
        try:
            for item in items:
                found.put(("item", item, None))
            found.put(("end", None, None))
        except BaseException as error:  # whoever waits raises it
            found.put(("error", None, error))

    start_daemon(make, "kafka-s3 task")
    while True:
        try:
            what, item, error = found.get(timeout=limit.left_s() or 0.001)
        except Empty:
            give_up()
            raise TaskTimedOut(
                f"A task did not end within {limit.seconds:g} s (task.timeout.ms): a connection or a disk may hang."
            ) from None
        if error is not None:
            raise error
        if what == "end":
            return
        yield item  # type: ignore[misc]  # an item is what the iterator gave
