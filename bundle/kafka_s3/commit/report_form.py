"""How does a task's report travel to the driver? As one line of JSON."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any

from kafka_s3.commit.entry import file_of
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.offset_sets import OffsetSet
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.requests import Durations, Requests
from kafka_s3.model.tasks import OpenState, Tail, TaskReport


def report_text(report: TaskReport) -> str:
    """The report as JSON."""
    document = dataclasses.asdict(report)
    return json.dumps(document, default=_bytes, separators=(",", ":"))


def report_of(text: str) -> TaskReport:
    """The report from its JSON form."""
    document = json.loads(text)
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


def _bytes(value: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(value).decode()}


def _raw(value: dict[str, str] | None) -> bytes | None:
    return None if value is None else base64.b64decode(value["base64"])
