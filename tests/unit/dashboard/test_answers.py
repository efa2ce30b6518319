"""Pages ask the bucket without waiting: an answer is got once for all who ask, kept within bounds, and asked again where it failed."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from kafka_s3.model.errors import StorageError
from kafka_s3_dashboard.reading.background import FAILED_S, Answers
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(0)


@pytest.fixture
def answers(clock: Clock) -> Iterator[Answers]:
    made = Answers("test", threads=2, most=2, clock_s=clock)
    yield made
    made.close()


def test_a_question_is_asked_once_and_the_one_used_longest_ago_is_forgotten(answers: Answers) -> None:
    asked = []

    def ask(name: str) -> str | None:
        return answers.of(name, lambda: asked.append(name) or name, wait_s=60)  # type: ignore[func-returns-value]

    assert [ask(name) for name in "abab"] == list("abab")
    assert asked == ["a", "b"]
    assert (ask("c"), ask("b"), ask("a")) == ("c", "b", "a")
    assert asked == ["a", "b", "c", "a"]


def test_nobody_waits_longer_than_it_takes_to_lose_patience_and_a_late_answer_is_there_for_the_next(
    answers: Answers,
) -> None:
    go = Event()
    assert answers.of("a", lambda: go.wait() and 7, wait_s=0) is None
    assert not answers.ready("a")
    go.set()
    assert answers.of("a", lambda: 8, wait_s=60) == 7
    assert answers.ready("a")


def test_an_old_answer_is_given_while_a_newer_one_is_on_its_way(answers: Answers, clock: Clock) -> None:
    go = Event()
    assert answers.of("a", lambda: 1, wait_s=60) == 1
    clock.now += 11
    assert answers.of("a", lambda: go.wait() and 2, again_s=10) == 1
    go.set()
    assert answers.of("a", lambda: 3, again_s=10, wait_s=60) in (1, 2)
    answers.close()


def test_what_failed_says_so_and_is_asked_again(answers: Answers, clock: Clock) -> None:
    def refuse() -> str:
        raise StorageError("no")

    for _ in range(2):
        with pytest.raises(StorageError):
            answers.of("a", refuse, wait_s=60)
    clock.now += FAILED_S + 1
    answers_now = []
    while "yes" not in answers_now:
        try:
            answers_now.append(answers.of("a", lambda: "yes", wait_s=60))
        except StorageError:
            clock.now += FAILED_S + 1
