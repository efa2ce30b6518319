"""Does the trial of `kafka.reader=auto` decide by what it is about, and not by an outage that happens to be there?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers
from kafka_s3.model.tasks import Assignment, TaskOutcome
from kafka_s3.run.spark.reader_choice import ReaderChoice
from kafka_s3.run.spark.source import ReadRanges
from tests.support.memory_world import ORDERS, World

TASKS, SPARK = "kafka.reader=tasks", "kafka.reader=spark"


class Readers:
    """Which reader read, and what was decided. Each trial ends as the next of `trials` says: with nothing, or with an error."""

    def __init__(self, brokers: Brokers, trials: Iterable[SourceError | None]) -> None:
        self.trials = iter(trials)
        self.reported: list[tuple[str, str]] = []
        self.read: list[str] = []
        self.choice = ReaderChoice(
            self.reader(TASKS), self.reader(SPARK), check=self.check, brokers=brokers, decided=self.decided
        )

    def check(self, place: TopicPartition) -> None:
        assert place == ORDERS
        if (error := next(self.trials)) is not None:
            raise error

    def decided(self, choice: str, reason: str) -> None:
        self.reported.append((choice, reason))

    def round(self) -> None:
        self.choice.choose(ORDERS)([Assignment(ORDERS, start=0, until=1, deliveries=())])

    def reader(self, name: str) -> ReadRanges:
        """A reader that notes its name."""

        def note(assignments: Sequence[Assignment]) -> list[TaskOutcome]:
            self.read.append(name)
            return []

        return note


@pytest.fixture
def readers() -> Iterator[Callable[..., Readers]]:
    """Readers whose trials were all made at the end; the brokers answer the driver unless others are given."""
    made: list[Readers] = []

    def make(*trials: SourceError | None, brokers: Brokers | None = None) -> Readers:
        made.append(Readers(brokers or World({"flush.size": "3"}).kafka, trials))
        return made[-1]

    yield make
    assert not any(list(one.trials) for one in made)


def away() -> KafkaUnavailable:
    return KafkaUnavailable("Connection refused.")


def test_a_trial_that_passes_leaves_reading_to_the_tasks_for_good(readers: Callable[..., Readers]) -> None:
    passing = readers(None)
    passing.round()
    passing.round()
    assert passing.read == [TASKS, TASKS]
    assert passing.reported == [(TASKS, "a Spark task read orders-0 from Kafka directly.")]


def test_what_keeps_tasks_from_reading_leaves_it_to_spark_at_once(readers: Callable[..., Readers]) -> None:
    refused = readers(SourceError("librdkafka's build here cannot log in by GSSAPI."))
    refused.round()
    refused.round()
    assert refused.read == [SPARK, SPARK]
    ((choice, reason),) = refused.reported
    assert (choice, "cannot log in by GSSAPI. If that is over" in reason) == (SPARK, True)


def test_a_leader_that_answers_nobody_decides_nothing_and_the_next_round_tries_again(
    readers: Callable[..., Readers],
) -> None:
    kafka = World({"flush.size": "3"}).kafka
    later = readers(away(), None, brokers=kafka)
    kafka.leaderless.add(ORDERS)
    with pytest.raises(
        KafkaUnavailable, match=r"kafka\.reader=auto\) is not decided while Kafka is away: Connection refused"
    ):
        later.round()
    assert (later.read, later.reported) == ([], [])
    kafka.leaderless.clear()
    later.round()
    assert later.read == [TASKS]


def test_brokers_that_do_not_answer_the_driver_decide_nothing(readers: Callable[..., Readers]) -> None:
    gone = KafkaBrokers("127.0.0.1:1", properties={"default.api.timeout.ms": "100"})
    nobody = readers(away(), brokers=gone)
    with pytest.raises(KafkaUnavailable, match="is not decided"):
        nobody.round()
    assert (nobody.read, nobody.reported) == ([], [])


def test_an_outage_that_is_over_when_the_driver_asks_is_tried_once_more(readers: Callable[..., Readers]) -> None:
    over = readers(away(), None)
    over.round()
    assert over.read == [TASKS]


def test_tasks_without_a_way_to_brokers_that_answer_the_driver_leave_reading_to_spark(
    readers: Callable[..., Readers],
) -> None:
    walled = readers(away(), away())
    walled.round()
    assert walled.read == [SPARK]
    assert walled.reported == [(
        SPARK, "the tasks cannot read for themselves: Connection refused. If that is over, start again, or set kafka.reader=tasks."
    )]  # fmt: skip
