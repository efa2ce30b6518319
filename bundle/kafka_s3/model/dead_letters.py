"""What becomes of a record that cannot be written? A dead letter: a line in a file of the same commit, then a record of the topic.

File: gzip, one JSON object per line with `topic, partition, offset, timestamp, key, value, headers, stage, component, exception,
message`; key, value and header values are base64 or null. Topic: key, value, headers and timestamp as consumed, plus the context headers
`__connect.errors.*` where asked (SEMANTICS A9.3).
"""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from kafka_s3.model.deflate import packer
from kafka_s3.model.offsets import TopicPartition

CONTEXT_PREFIX: Final = "__connect.errors."
SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"
DATA_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"


class Stage(StrEnum):
    """Where a record failed, in Kafka Connect's words (SEMANTICS A9.3)."""

    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"
    TASK_PUT = "TASK_PUT"


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that cannot be written: where and why.

    `stops_original` marks failures that kill the original's task even with a dead letter topic (SEMANTICS A9.2).
    """

    offset: int
    stage: Stage
    component: str
    exception: str
    message: str
    stops_original: bool = False


def rejection(offset: int, message: str) -> Failure:
    """The failure of a record that the sink itself cannot write (stage TASK_PUT, SEMANTICS A9.2)."""
    return Failure(offset, Stage.TASK_PUT, SINK_TASK, DATA_EXCEPTION, message)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record exactly as consumed, and why it was not written. `timestamp` is epoch ms; headers in order, names may repeat."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    stage: str
    component: str
    exception: str
    message: str

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the record came from."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        """Coordinates, stage and reason, for an error text; never the record's content."""
        return f"{self.topic}-{self.partition} offset {self.offset}, stage {self.stage}: {self.message}"


def dead_letter(failure: Failure, topic_partition: TopicPartition, row: Mapping[str, Any]) -> DeadLetter:
    """The dead letter of a failed record; `row` holds the record's `timestamp`, `key`, `value` and `headers` as read.

    The message may quote the record: halves of surrogate pairs in it, which no encoding takes, become `?`, as in Java.
    """
    headers = tuple((header["key"], header["value"]) for header in row.get("headers") or ())
    return DeadLetter(
        *topic_partition, failure.offset, row.get("timestamp"), row.get("key"), row.get("value"), headers,
        str(failure.stage), failure.component, failure.exception, failure.message.encode(errors="replace").decode(),
    )  # fmt: skip


def without_content(letter: DeadLetter) -> DeadLetter:
    """The letter of a record that was erased: where it was and which class of error it met, and nothing of what it held."""
    return replace(letter, timestamp=None, key=None, value=None, headers=(), message="erased")


class LetterLines:
    """The content of a dead letter file as it comes to be: letters go in, gzip comes out, and nothing is kept."""

    def __init__(self) -> None:
        self._gzip = packer()

    def line(self, letter: DeadLetter) -> bytes:
        """The bytes that the letter makes due; often none."""
        text = json.dumps(_line(letter), ensure_ascii=True, separators=(",", ":"))
        return self._gzip.compress(text.encode() + b"\n")

    def end(self) -> bytes:
        """The last bytes of the file."""
        return self._gzip.flush()


def read_letters(content: bytes) -> list[DeadLetter]:
    """The dead letters of a dead letter file."""
    return list(iterate_letters(content))


def iterate_letters(content: bytes) -> Iterator[DeadLetter]:
    """The dead letters of a file one by one, as they are unpacked."""
    with gzip.open(io.BytesIO(content)) as lines:
        for line in lines:
            yield _letter(json.loads(line))


def context_headers(letter: DeadLetter, *, connector: str, task: int = 0) -> list[tuple[str, bytes]]:
    """The headers that Connect adds with `errors.deadletterqueue.context.headers.enable`."""
    texts = {
        "topic": letter.topic, "partition": str(letter.partition), "offset": str(letter.offset), "connector.name": connector,
        "task.id": str(task), "stage": letter.stage, "class.name": letter.component,
        "exception.class.name": letter.exception, "exception.message": letter.message,
        "exception.stacktrace": f"{letter.exception}: {letter.message}",
    }  # fmt: skip
    return [(CONTEXT_PREFIX + name, text.encode(errors="replace")) for name, text in texts.items()]


def _line(letter: DeadLetter) -> dict[str, Any]:
    return {
        "topic": letter.topic, "partition": letter.partition, "offset": letter.offset, "timestamp": letter.timestamp,
        "key": _text(letter.key), "value": _text(letter.value), "headers": [[name, _text(value)] for name, value in letter.headers],
        "stage": letter.stage, "component": letter.component, "exception": letter.exception, "message": letter.message,
    }  # fmt: skip


def _letter(line: dict[str, Any]) -> DeadLetter:
    headers = tuple((name, _bytes(value)) for name, value in line.pop("headers"))
    key, value = _bytes(line.pop("key")), _bytes(line.pop("value"))
    return DeadLetter(**line, key=key, value=value, headers=headers)


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
