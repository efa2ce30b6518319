"""Does the schema registry answer, does it let us in, and do its newest schemas have fields that directories would hide?

`doctor` asks for a schema that cannot exist: "unknown" is the good answer. `validate` asks for the fields alone, within seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

from kafka_s3.connect.config.classes import GLUE_CONVERTERS, REGISTRY_CONVERTERS
from kafka_s3.connect.config.rules.objects import compared_with_registry
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved
from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.model.errors import ConfigError, Problem, RegistryError, RegistryUnavailable, UnknownSchema
from kafka_s3.model.process import start_daemon
from kafka_s3.ops.doctor.findings import Area, CheckResult, CheckStatus
from kafka_s3.run.wiring.conversion import hidden_by_directories, latest_schemas, reads_envelopes, registry_of
from kafka_s3.run.wiring.pipeline import is_block_gzip

T = TypeVar("T")
AREA: Final = Area("registry")
TIMEOUT_S: Final = 10.0
RETRIES: Final = 1
LARGEST_ID: Final = 2**31 - 1
NO_SUCH_GUID: Final = "ffffffff-ffff-4fff-bfff-ffffffffffff"


def check_registry(settings: Settings) -> Iterator[CheckResult]:
    """One finding for each converter that asks a registry, and one for each field that a directory hides."""
    for converter in _converters(settings):
        found = _answers(settings, converter)
        yield found
        if converter == "value.converter" and found.status is CheckStatus.OK and compared_with_registry(settings):
            yield from _hidden(settings)


def _hidden(settings: Settings) -> Iterator[CheckResult]:
    with latest_schemas(settings, timeout_s=TIMEOUT_S, retries=RETRIES) as latest:
        for topic in settings.names("topics"):
            try:
                problems = hidden_by_directories(settings, latest, topic)
            except (RegistryError, SchemaError) as error:
                yield AREA.warning(f"schema of {topic}", f"its fields were not compared with the directories: {error}")
                continue
            yield from (AREA.warning(f"schema of {topic}", problem.rule, problem.remedy) for problem in problems)


def _converters(settings: Settings) -> Iterator[str]:
    raw_values = is_block_gzip(settings) and settings.text("block.gzip.dialect") != "original"
    used = {"value.converter": not raw_values, "key.converter": reads_envelopes(settings) and not raw_values}
    yield from (key for key, is_used in used.items() if is_used and settings.text(key) in REGISTRY_CONVERTERS)


def _answers(settings: Settings, converter: str) -> CheckResult:
    try:
        # a check that takes minutes finds no more than one that takes seconds
        registry, address = registry_of(settings, converter, timeout_s=TIMEOUT_S, retries=RETRIES)
    except (ValueError, RegistryError) as error:
        return AREA.failed(converter, str(error), f"Correct the settings below {converter}.")
    tried = f"{converter} at {address}"
    try:
        if settings.text(converter) in GLUE_CONVERTERS:
            registry.by_guid(NO_SUCH_GUID)
        else:
            registry.by_id(LARGEST_ID)
    except UnknownSchema:
        return AREA.ok(tried, "answers, and lets this client read schemas")
    except RegistryUnavailable as error:
        return AREA.failed(tried, str(error), "Check the registry's address and the network.")
    except RegistryError as error:
        return AREA.failed(tried, str(error))
    finally:
        registry.close()
    return AREA.ok(tried, "answers, and lets this client read schemas")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fields that a directory hides; `unanswered` says why they were not compared, blank where they were."""

    hidden: tuple[Problem, ...] = ()
    unanswered: str = ""


def compare_registered_fields(settings: Settings, *, limit_s: float) -> Comparison:
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
