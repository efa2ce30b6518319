"""How does a report of a task, or its failure, travel to the driver? As one line of JSON, a result of Spark's."""

from __future__ import annotations

import base64
import json
from dataclasses import fields
from functools import cache
from typing import Any, Final

from kafka_s3.engine.log.entry import file_of
from kafka_s3.model import errors
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.errors import ConfigError, SinkError
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.tasks import Fetched, OpenState, Tail, TaskFailure, TaskOutcome, TaskReport
from kafka_s3.model.timing import Durations, Requests

FAILED: Final = "failed"


def outcome_text(outcome: TaskOutcome) -> str:
    """The outcome as JSON."""
    if isinstance(outcome, TaskFailure):
        error = outcome.error
        return json.dumps({FAILED: outcome.topic_partition, "error": type(error).__name__, "text": str(error)})
    return json.dumps(outcome, default=_plain, separators=(",", ":"))


def outcome_of(text: str) -> TaskOutcome:
    """The outcome from its JSON form."""
    document = json.loads(text)
    if FAILED in document:
        return TaskFailure(TopicPartition(*document[FAILED]), error_of(document["error"], document["text"]))
    return _report(document)


def error_of(kind: str, text: str) -> SinkError:
    """An error of the product by the name of its class."""
    found = getattr(errors, kind, None)
    is_ours = isinstance(found, type) and issubclass(found, SinkError) and not issubclass(found, ConfigError)
    return found(text) if found is not None and is_ours else SinkError(text)


def _report(document: dict[str, Any]) -> TaskReport:
    letter, state = document["letter"], document["state"]
    return TaskReport(
        **{
            **document,
            "topic_partition": TopicPartition(*document["topic_partition"]),
            "files": tuple(file_of(file) for file in document["files"]),
            "dead": OffsetSet(tuple((first, last) for first, last in document["dead"]["ranges"])),
            "tail": Tail(**document["tail"]),
            "columns": tuple(document["columns"]),
            "needs": tuple(document["needs"]),
            "failed_at": tuple(document["failed_at"]) if document["failed_at"] else None,
            "letter": None if letter is None else _letter(letter),
            "state": None if state is None else OpenState(**state),
            "requests": _requests(document["requests"]),
            "fetched": tuple(Fetched(**one) for one in document["fetched"]),
        }
    )


def _requests(document: dict[str, Any]) -> Requests:
    durations = {
        operation: Durations({int(bound): count for bound, count in one["counts"].items()}, one["seconds"])
        for operation, one in document["durations"].items()
    }
    return Requests(durations, document["failed"], document["again"])


def _letter(document: dict[str, Any]) -> DeadLetter:
    headers = tuple((name, _raw(value)) for name, value in document["headers"])
    return DeadLetter(
        **{**document, "key": _raw(document["key"]), "value": _raw(document["value"]), "headers": headers}
    )


def _plain(value: Any) -> dict[str, Any]:
    """What JSON does not know: bytes, and dataclasses. `asdict` would copy all that is in them first, in three times the time."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return {name: getattr(value, name) for name in _field_names(value.__class__)}


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def _raw(value: dict[str, str] | None) -> bytes | None:
    return None if value is None else base64.b64decode(value["base64"])
