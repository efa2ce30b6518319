"""How does a task read offset ranges from Kafka? One topic-partition to its end after the other, in Arrow batches, while others arrive.

A range `[start, until)` ends at its last record, or where Kafka says that nothing below `until` follows: the last offsets of a range may be
those of transaction markers, or compacted away. Nobody is woken for each message: the reader looks from time to time how much has arrived.

Raises OffsetsLost where Kafka no longer has the range, KafkaUnavailable where brokers do not answer, SourceError where they refuse or where
a record cannot be read. That one names the topic-partition and the offset: another attempt would not help.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError

from kafka_s3.kafka.clients import CHECK, DAMAGED, REQUEST_SECONDS, TRANSIENT, damaged, lost, unanswered
from kafka_s3.kafka.iam import iam_login
from kafka_s3.kafka.reader import library
from kafka_s3.kafka.reader.consumer import Consumer, Queue, kept_consumer
from kafka_s3.kafka.reader.messages import ROWS, Addresses, destroy_messages, held_bytes, next_batch
from kafka_s3.kafka.reader.settings import (
    BATCH_BYTES,
    LEARNING,
    Pace,
    ReadScope,
    Weight,
    forget_weight,
    known_weight,
    note_weight,
    reading_settings,
)
from kafka_s3.kafka.zone import with_rack
from kafka_s3.model.errors import SourceError
from kafka_s3.model.offsets import OffsetRange

AT_A_TIME: Final = 32
"""Ranges that are fetched together, where a task has several, so short that the whole of each may wait in its share of memory."""
LONG_AT_A_TIME: Final = 4
"""Longer ones: in smaller shares they would come bit by bit, at three times the CPU and eight times the time."""
ENOUGH_ROWS: Final = 16_384
"""So many are worth asking for."""
FIRST_PAUSE_S: Final = 0.001
LONGEST_PAUSE_S: Final = 0.008
SHORT_LOG_S: Final = 5.0
"""How long a log may be shorter than its range: a new leader learns how far the log is readable only with its followers' next request."""
AFTER_FAILURE_S: Final = 5.0
LAST_WORD_S: Final = 2.0
LOST: Final = frozenset({
    KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION,
})  # fmt: skip
RECEIVE_LIMIT: Final = "receive.message.max.bytes"
"""librdkafka names it where an answer is larger."""
OR_TOO_LARGE: Final = (
    f"Or the batch unpacks to more than {BATCH_BYTES >> 20} MiB: with kafka.reader=spark it is read in steps"
)


@dataclass(frozen=True)
class RangeReader:
    """Reads with the process's own consumers. `properties` are the consumer's by their Java names, `scope` says how much of each record."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(repr=False)
    scope: ReadScope = ReadScope.VALUES

    def read_ranges(
        self, ranges: Sequence[OffsetRange]
    ) -> Generator[tuple[OffsetRange, Iterator[pa.RecordBatch]], None, None]:
        """Each range with its batches, whose offsets ascend; take all of them before you ask for the next range."""
        waiting = deque(ranges)
        while waiting:
            wave, together = self._wave(waiting)
            if len(wave) > 1:
                yield from self._together(wave, together)
            else:
                with closing(self._alone(wave[0])) as batches:
                    yield wave[0], batches

    def _wave(self, waiting: deque[OffsetRange]) -> tuple[list[OffsetRange], int]:
        """The next ranges that can be read together, and how many such ranges may be; those of a topic whose records are large, or not
        known yet, come one by one.
        """
        wave = [waiting.popleft()]
        most = self._at_a_time(wave[0])
        while waiting and len(wave) < (fewer := min(most, self._at_a_time(waiting[0]))):
            most = fewer
            wave.append(waiting.popleft())
        return wave, most

    def _at_a_time(self, wanted: OffsetRange) -> int:
        """With how many, itself included, this range may be read."""
        weight = self._weight(wanted)
        if weight is None or not weight.allows(AT_A_TIME):
            return 1
        return AT_A_TIME if wanted.until - wanted.start <= weight.pace(AT_A_TIME).records else LONG_AT_A_TIME

    def _weight(self, wanted: OffsetRange) -> Weight | None:
        return known_weight(self.bootstrap_servers, wanted.topic_partition.topic)

    def _consumer(self, limits: Pace) -> Consumer:
        login = iam_login(self.bootstrap_servers, self.properties)
        return kept_consumer(reading_settings(self.bootstrap_servers, self._located, limits), login)

    @cached_property
    def _located(self) -> dict[str, str]:
        """The properties with this machine's rack, where it is to be found out."""
        return with_rack(self.bootstrap_servers, self.properties)

    def _together(
        self, wave: Sequence[OffsetRange], together: int
    ) -> Iterator[tuple[OffsetRange, Iterator[pa.RecordBatch]]]:
        known = [weight.pace(together) for wanted in wave if (weight := self._weight(wanted))]
        limits = Pace(min(one.fetch_bytes for one in known), min(one.records for one in known))
        starts = {wanted.topic_partition: wanted.start for wanted in wave if wanted.start < wanted.until}
        consumer = self._consumer(limits)
        ids = self._topic_ids(consumer, wave)
        with consumer.queues(starts) as queues:
            for wanted in wave:
                queue = queues.get(wanted.topic_partition)
                # messages go back before their consumer may end
                with closing(self._batches(queue, wanted, limits, together, ids)) as batches:
                    yield wanted, batches

    def _batches(
        self, queue: Queue | None, wanted: OffsetRange, limits: Pace, together: int, ids: Mapping[str, str]
    ) -> Generator[pa.RecordBatch, None, None]:
        if queue is not None:
            yield from _Reading(queue, wanted, self.scope, self._patience_with(queue), limits, together).batches()
            self._check_topic(queue.consumer, wanted, ids)

    def _alone(self, wanted: OffsetRange) -> Generator[pa.RecordBatch, None, None]:
        """One range: its first records show how the others are to be read, and each change of them does."""
        left, ids = wanted, dict[str, str]()
        while left.start < left.until:
            weight = self._weight(left)
            limits = weight.pace(1) if weight else LEARNING
            consumer = self._consumer(limits)
            ids = ids or self._topic_ids(consumer, [wanted])
            with consumer.queues({left.topic_partition: left.start}) as queues:
                queue = queues[left.topic_partition]
                reading = _Reading(queue, left, self.scope, self._patience_with(queue), limits, 1)
                with closing(reading.batches()) as batches:
                    yield from batches
            left = replace(left, start=reading.position)
            if left.start >= left.until:
                self._check_topic(consumer, wanted, ids)
        weight = self._weight(wanted)
        if weight is not None and weight.is_large:
            forget_weight(self.bootstrap_servers, wanted.topic_partition.topic)

    def _topic_ids(self, consumer: Consumer, ranges: Iterable[OffsetRange]) -> dict[str, str]:
        names = {wanted.topic_partition.topic for wanted in ranges if wanted.start < wanted.until}
        return consumer.topic_ids(sorted(names), timeout_s=self._patience_s)

    def _check_topic(self, consumer: Consumer, wanted: OffsetRange, ids: Mapping[str, str]) -> None:
        """Raises OffsetsLost where the topic is not the one with which the reading began: its offsets may be of both."""
        now = self._topic_ids(consumer, [wanted])
        if any(ids.get(name, topic_id) != topic_id for name, topic_id in now.items()):
            consumer.failed = True
            raise lost(f"the topic of {wanted.topic_partition} was created again. None of these records is written.")

    def _patience_with(self, queue: Queue) -> float:
        """How long nothing may come of one range: where another has failed, this one has had that time already."""
        return min(self._patience_s, AFTER_FAILURE_S) if queue.consumer.failed else self._patience_s

    @property
    def _patience_s(self) -> float:
        """How long nothing may come: `default.api.timeout.ms`, as for all other requests."""
        return int(self.properties.get("default.api.timeout.ms", REQUEST_SECONDS * 1000)) / 1000


class _Reading:
    """One range on its way: the next offset, and how long nothing has come. `together` are fetched with the same limits."""

    def __init__(
        self, queue: Queue, wanted: OffsetRange, scope: ReadScope, patience_s: float, limits: Pace, together: int
    ) -> None:
        self._queue = queue
        self._wanted = wanted
        self._scope = scope
        self._patience_s = patience_s
        self._limits = limits
        self._together = together
        self._of = (queue.consumer.servers, wanted.topic_partition.topic)
        self.position = wanted.start
        self._waited_s = 0.0
        self._log_ended = False
        self._complaint = ""

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """To the end of the range, or, where it is read alone, until other limits are due."""
        try:
            while self.position < self._wanted.until and not self._limits_are_over():
                yield from self._batches(self._taken())
            self._queue.close()
        except SourceError:
            self._queue.consumer.failed = True
            raise

    def _limits_are_over(self) -> bool:
        is_known = known_weight(*self._of) is not None
        return self._together == 1 and is_known == (self._limits is LEARNING)

    def _batches(self, messages: Addresses) -> Iterator[pa.RecordBatch]:
        """The records of these messages, each of which is destroyed, whatever happens."""
        at = 0
        try:
            while at < len(messages) and self.position < self._wanted.until:
                batch = next_batch(messages, at, until=self._wanted.until, scope=self._scope)
                if batch is None:
                    self._settle(int(messages[at]))
                    destroy_messages(messages, at, 1)
                    at += 1
                else:
                    at += len(batch)
                    yield self._checked(batch)
        finally:
            destroy_messages(messages, at, len(messages) - at)

    def _taken(self) -> Addresses:
        """Messages from the queue: no more than make a batch, or all of them where the range ends with them."""
        length = self._filled()
        left = self._wanted.until - self.position
        messages = np.zeros(length if length >= left else min(length, ROWS), np.int64)
        messages = messages[: self._queue.take(messages.ctypes.data, len(messages))]
        if len(messages):
            self._weigh(messages, length)
            last = _message(int(messages[-1]))
            if not last.error and last.offset >= self._wanted.until - 1:
                self._queue.close()  # what comes now is of no use here
        return messages

    def _weigh(self, messages: Addresses, waiting: int) -> None:
        """Notes what these records take, the first ones of all that were waiting."""
        if _message(int(messages[0])).error:
            return
        records, held = len(messages), int(held_bytes(messages))
        known = known_weight(*self._of)
        if known is None:
            fetched = self._queue.consumer.last_fetched
            note_weight(*self._of, Weight.of_fetch(held * waiting // records, waiting, fetched))
            return
        weight = known.with_later(held, records)
        if weight.exceeds(self._limits, waiting, self._together):
            forget_weight(*self._of)
        else:
            note_weight(*self._of, weight)

    def _filled(self) -> int:
        """The queue's length, once it is worth asking: a batch is there, or the rest of the range, or no more has come for a moment."""
        wanted, before, pause = min(ENOUGH_ROWS, self._wanted.until - self.position), 0, FIRST_PAUSE_S
        while (length := len(self._queue)) < wanted and (length == 0 or length != before):
            if length == 0:
                self._be_patient()
            before = length
            time.sleep(pause)
            self._waited_s += pause
            pause = min(2 * pause, LONGEST_PAUSE_S)
        return length

    def _be_patient(self) -> None:
        if self._log_ended and self._waited_s > SHORT_LOG_S:
            self._judge_short_log()
        if self._waited_s > self._patience_s:
            complaint = self._queue.consumer.last_complaint()
            if RECEIVE_LIMIT in complaint:
                raise SourceError(
                    f"{self._wanted.topic_partition}: an answer with the records from offset {self.position} on is larger than the "
                    f"{BATCH_BYTES >> 20} MiB that a task takes. Set kafka.reader=spark. {complaint}"
                )
            reason = self._complaint or complaint or self._refusal()
            raise unanswered(
                f"Kafka at {self._queue.consumer.servers} sent no record of {self._wanted.topic_partition} from offset {self.position} "
                f"on for {self._patience_s:.0f} s. {reason}".rstrip()
            )

    def _refusal(self) -> str:
        """What the leader says to a request that is not part of reading; nothing, if it answers well."""
        try:
            self._queue.consumer.bounds(self._wanted.topic_partition, timeout_s=LAST_WORD_S)
        except SourceError as error:
            return str(error)
        return ""

    def _judge_short_log(self) -> None:
        """Asks again how long the log is, which is shorter than the range. Raises OffsetsLost if it still is."""
        topic_partition, until = self._wanted.topic_partition, self._wanted.until
        low, high = self._queue.consumer.bounds(topic_partition, timeout_s=self._patience_s)
        if high < until:
            raise lost(
                f"{topic_partition} ends with offset {high - 1} now and begins with {low}, but offsets up to {until - 1} are wanted: it "
                "was cut, or the topic was created again."
            )
        self._log_ended = False

    def _moved(self, position: int) -> None:
        self.position, self._waited_s, self._complaint = position, 0.0, ""

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        offsets = batch.column("offset").to_numpy()
        if offsets[0] < self.position or (np.diff(offsets) <= 0).any():
            raise SourceError(
                f"{self._wanted.topic_partition}: Kafka sent offset {offsets.min()} where {self.position} or later should follow. Read "
                "again; if it happens again, set kafka.reader=spark."
            )
        self._moved(int(offsets[-1]) + 1)
        self._log_ended = False
        return batch

    def _settle(self, address: int) -> None:
        """Takes in a message that is not a record of the range: one behind it, the end of the log, or an error. Raises SourceError."""
        message = _message(address)
        if not message.error:
            self._moved(self._wanted.until)
        elif message.error == KafkaError._PARTITION_EOF:
            self._moved(max(self.position, message.offset))
            self._log_ended = True
        else:
            self._take_error(message.error, (library.message_errstr(address) or b"").decode(errors="replace"))

    def _take_error(self, code: int, text: str) -> None:
        topic_partition, name = self._wanted.topic_partition, library.err2name(code).decode()
        if code in LOST:
            raise lost(f"{topic_partition} does not have offset {self.position} ({text}).")
        if code == KafkaError._BAD_COMPRESSION:
            raise damaged(topic_partition, self.position, f"{text} ({name}). {OR_TOO_LARGE}")
        if code in DAMAGED:
            raise damaged(topic_partition, self.position, f"{text} ({name})")
        if code not in TRANSIENT:
            reason = f"{text} ({name}). {CHECK}"
            raise SourceError(
                f"{topic_partition}: Kafka did not give the records from offset {self.position} on: {reason}"
            )
        self._complaint = f"librdkafka says: {text} ({name})."  # it tries again by itself


def _message(address: int) -> library.NativeMessage:
    return ctypes.cast(address, ctypes.POINTER(library.NativeMessage)).contents
