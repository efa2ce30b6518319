"""Which fields that only the registry knows does a directory hide? Asked within seconds, for `validate`, which must not wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from kafka_s3.connect.config.rules.columns import compared_with_registry
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved
from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.model.errors import ConfigError, Problem, RegistryError
from kafka_s3.model.process import start_daemon
from kafka_s3.run.wiring.conversion import hidden_by_directories, latest_schemas

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fields that a directory hides; `unanswered` says why they were not compared, blank where they were."""

    hidden: tuple[Problem, ...] = ()
    unanswered: str = ""


def compared(settings: Settings, *, limit_s: float) -> Comparison:
    """Compares the newest registered schemas of the topics with the directories.

    Neither references nor the registry are waited for longer than `limit_s`, whatever is slow.
    """
    try:
        real = _within(limit_s, lambda: resolved(settings))
        if not compared_with_registry(real):
            return Comparison()
        # the client sends nothing yet, and to load it may take longer than to ask
        with latest_schemas(real, timeout_s=limit_s, retries=0) as latest:
            topics = real.names("topics")
            hidden = _within(limit_s, lambda: [hidden_by_directories(real, latest, topic) for topic in topics])
    except TimeoutError:
        return Comparison(unanswered=f"The registry did not answer within {limit_s:g} s.")
    except ConfigError as error:
        return Comparison(unanswered=" ".join(str(problem) for problem in error.problems))
    except (RegistryError, SchemaError, ValueError) as error:
        return Comparison(unanswered=str(error))
    return Comparison(tuple(problem for of_topic in hidden for problem in of_topic))


def _within(limit_s: float, ask: Callable[[], T]) -> T:
    """The answer. Raises TimeoutError; the thread goes on then, for neither looking up a name nor a keeper of secrets knows a limit."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    start_daemon(run, "registry")
    return answer.result(limit_s)
