"""Is this the librdkafka that the loops were written for? They read its messages in place, so its version and a message are looked at.

The message is one that a producer without brokers gets back: produced, purged, and reported with all that was given. Nothing is sent.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import confluent_kafka
import numpy as np
from confluent_kafka import KafkaError

from kafka_s3.kafka.reader import gather, library
from kafka_s3.model.errors import SourceError

OLDEST, BEHIND_NEWEST = (2, 12), (3, 0)
"""The versions that were tried, and the first that need not have the same messages."""
WAY_OUT: Final = "Install a version of confluent-kafka that kafka-s3 names, or set kafka.reader=spark."
TOPIC, VALUE, KEY, PARTITION, MARK = b"kafka-s3-layout", b"a value", b"and its key", 7, 0x5EED
NO_OFFSET: Final = -1001
"""`RD_KAFKA_OFFSET_INVALID`"""
WAIT_MS: Final = 5000


@cache
def why_unusable() -> str | None:
    """Why this process's librdkafka cannot be read by the loops; None: it can. Asked once."""
    number = library.version()
    version = (number >> 24 & 0xFF, number >> 16 & 0xFF)
    name = f"librdkafka {'.'.join(map(str, version))}"
    if not OLDEST <= version < BEHIND_NEWEST:
        return f"{name} was not tried: {OLDEST[0]}.{OLDEST[1]} and later before {BEHIND_NEWEST[0]}.{BEHIND_NEWEST[1]} were. {WAY_OUT}"
    if number != confluent_kafka.libversion()[1]:
        return f"{name} is loaded, but confluent-kafka has {confluent_kafka.libversion()[0]}. {WAY_OUT}"
    try:
        with _message() as address:
            seen = _seen(address)
    except SourceError as error:
        return f"{name} could not be tried: {error} {WAY_OUT}"
    if seen != EXPECTED:
        return f"{name} has its messages in another form: {seen} where {EXPECTED} was given. {WAY_OUT}"
    return None


EXPECTED: Final[dict[str, Any]] = {
    "error": KafkaError._PURGE_QUEUE, "topic": TOPIC, "partition": PARTITION, "value": VALUE, "key": KEY, "offset": NO_OFFSET,
    "private": MARK,
}  # fmt: skip


def check_library() -> None:
    """Raises SourceError where the loops cannot read this librdkafka's messages."""
    reason = why_unusable()
    if reason is not None:
        raise SourceError(reason)


@contextmanager
def _message() -> Iterator[int]:
    """The address of a message as librdkafka reports it: one that was produced and never sent."""
    configuration, text = library.conf_new(), ctypes.create_string_buffer(library.TEXT_BYTES)
    library.conf_set(configuration, b"log_level", b"0", text, library.TEXT_BYTES)
    library.conf_set_events(configuration, library.EVENT_REPORT)
    client = library.new(library.PRODUCER, configuration, text, library.TEXT_BYTES)
    if not client:
        library.conf_destroy(configuration)
        raise SourceError(f"{text.value.decode(errors='replace')}.")
    topic, queue, event = library.topic_new(client, TOPIC, None), library.queue_get_main(client), None
    try:
        library.produce(topic, PARTITION, library.COPY, VALUE, len(VALUE), KEY, len(KEY), MARK)
        library.purge(client, library.PURGE_ALL)
        event = library.queue_poll(queue, WAIT_MS)
        message = library.event_message_next(event) if event else None
        if not message:
            raise SourceError("a purged message was not reported.")
        yield message
    finally:
        library.event_destroy(event)
        library.queue_destroy(queue)
        library.topic_destroy(topic)
        library.destroy_flags(client, 0)


def _seen(address: int) -> dict[str, Any]:
    """What the loops and the structure find in the message."""
    found = ctypes.cast(address, ctypes.POINTER(library.NativeMessage)).contents
    messages, offsets = np.array([address], np.int64), np.zeros(1, np.int64)
    if (found.value_size, found.key_size) != (len(VALUE), len(KEY)):
        return {
            "value_size": found.value_size,
            "key_size": found.key_size,
        }  # nothing is copied by sizes that are not these
    gather.places_and_times(messages, 0, 1, offsets, np.zeros(1, np.int64), np.zeros(1, np.int8))
    return {
        "error": found.error, "topic": library.topic_name(found.topic), "partition": found.partition,
        "value": _bytes(messages, gather.VALUE, len(VALUE)), "key": _bytes(messages, gather.KEY, len(KEY)), "offset": int(offsets[0]),
        "private": found.private,
    }  # fmt: skip


def _bytes(messages: Any, part: int, size: int) -> bytes:
    ends, data, valid = np.zeros(2, np.int32), np.zeros(size, np.uint8), np.zeros(1, np.uint8)
    gather.bytes_of(messages, 0, 1, part, ends, data, valid)
    return data.tobytes()
