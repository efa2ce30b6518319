"""How are records put into a topic: what becomes of those that it never takes, and how does a process go on where a killed one stopped?

By Kafka's transactions: a transaction's records appear together or never, and with them the progress that is committed to a consumer group:
nobody who only writes to the topic can forge that. Whoever begins under a name ends for good what was begun under it before: what a killed
process still has on its way is refused by the brokers, whenever it arrives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientTopicPartition

from kafka_s3.kafka.clients import BATCH_MESSAGES, Clients
from kafka_s3.model.errors import KafkaUnavailable, SinkError, SourceError
from kafka_s3.model.protocols import Message, Refusal

REFUSED: Final = frozenset({
    KafkaError.INVALID_TIMESTAMP, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD,
})  # fmt: skip
"""What brokers say of a batch that they never take, for a record in it."""


Done: TypeAlias = Callable[[KafkaError | None, object], None]
"""What a producer calls once a message is delivered, or is not."""


class Send(Protocol):
    """Hands a message to the producer; partition -1 leaves the choice to it."""

    def __call__(self, topic: str, message: Message, *, partition: int = -1) -> None:
        """Sends one message."""
        ...


def produce(clients: Clients, topic: str, messages: Iterable[Message]) -> list[Refusal]:
    """Sends messages to a topic; returns when all are acknowledged or refused. Raises KafkaUnavailable."""
    refused: list[Refusal] = []
    with sending(clients, refused) as send:
        for message in messages:
            send(topic, message)
    if not refused:
        return []
    alone: list[Refusal] = []  # brokers refuse whole batches for one record of theirs
    with sending(clients, alone, batch=1) as send:
        for one in refused:
            send(topic, one.message)
    return alone


@contextmanager
def sending(clients: Clients, refused: list[Refusal] | None = None, *, batch: int = BATCH_MESSAGES) -> Iterator[Send]:
    """A function that sends messages, at most so many in a batch; leaving the block waits until all are acknowledged.

    `refused` takes those whose batch the topic never takes, for something in it; without it they are an error, too. Raises
    KafkaUnavailable.
    """
    on_way = Sending(clients, clients.producer(batch), refused)
    yield on_way.send
    on_way.flush()


@dataclass(frozen=True, slots=True)
class Sending:
    """Messages that a producer has on their way. Without `refused`, what a topic never takes is an error like any other."""

    clients: Clients
    producer: Producer
    refused: list[Refusal] | None = None
    failed: list[KafkaError] = field(default_factory=list)

    def send(self, topic: str, message: Message, *, partition: int = -1) -> None:
        """Hands a message on; waits where too many are on their way. Raises KafkaUnavailable once any was not taken."""
        done: Done = self._note_failure if self.refused is None else lambda error, _: self._done(error, message)
        while True:
            self.check()
            try:
                self.producer.produce(
                    topic, message.value, message.key, partition=partition, headers=list(message.headers), on_delivery=done,
                    timestamp=max(message.timestamp or 0, 0),
                )  # fmt: skip
            except BufferError:
                self.producer.poll(0.1)  # the queue is full: let deliveries make room
            except KafkaException as error:  # larger than the client can send
                self._done(error.args[0], message)
                return
            else:
                self.producer.poll(0)
                return

    def flush(self) -> None:
        """Waits until all are acknowledged. Raises KafkaUnavailable."""
        left = 0
        try:
            left = self.producer.flush(self.clients.seconds)
        except KafkaException as error:  # the client gave up for good
            self.failed.append(error.args[0])
        self.check()
        if left:
            raise KafkaUnavailable(
                f"Kafka at {self.clients.bootstrap_servers} did not take records: no acknowledgement in time."
            )

    def check(self) -> None:
        """Raises KafkaUnavailable where a message was not taken."""
        if self.failed:
            raise KafkaUnavailable(
                f"Kafka at {self.clients.bootstrap_servers} did not take records: {self.failed[0].str()}."
            )

    def _note_failure(self, error: KafkaError | None, _: object) -> None:
        """Holds no message in memory until it is delivered, which the producer does already."""
        if error is not None:
            self.failed.append(error)

    def _done(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        if self.refused is None or error.code() not in REFUSED:
            self.failed.append(error)
        else:
            self.refused.append(Refusal(message, error.str()))


LONGEST_S: Final = 1.0
"""A transaction takes messages for so long: that much a kill takes back, and readers wait."""
REPLACED: Final = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class ProducerProgress(NamedTuple):
    """How far a writer has come with a message: how many it has written, and what it wants to know of the last."""

    written: int
    note: str


class SendWithProgress(Protocol):
    """Hands a message to the producer, with what is committed as progress once the message counts."""

    def __call__(
        self, topic: str, message: Message, *, partition: int = -1, progress: ProducerProgress | None = None
    ) -> None:
        """Sends one message."""
        ...


@contextmanager
def sending_in_transactions(
    clients: Clients, name: str, *, group: str = "", clock: Callable[[], float] = time.monotonic
) -> Iterator[SendWithProgress]:
    """A function that sends messages in order; whatever ends it, those that count are the first ones, and none comes later.

    Progress is committed to the consumer group `group`. Where the block ends by an error that is not Kafka's, what was sent so far counts.
    Raises KafkaUnavailable; SourceError where another process has begun under this name meanwhile, or where transactions are not allowed.
    """
    transactions = _Transactions(Sending(clients, clients.transactional_producer(name)), name, group, clock)
    transactions.take_over()
    try:
        yield transactions.send
    except BaseException as ended:
        try:
            transactions.commit()
        except SinkError as error:
            if isinstance(error, _Replaced) and isinstance(ended, KafkaUnavailable):
                raise  # which is why a message was not taken
        raise
    transactions.commit()


class _Replaced(SourceError):
    """Another process has begun under the name."""


class _Transactions:
    """One after the other, each begun by the first message that is sent in it."""

    def __init__(self, on_way: Sending, name: str, group: str, clock: Callable[[], float]) -> None:
        self._on_way, self._name, self._group, self._clock = on_way, name, group, clock
        self._begun_s: float | None = None
        self._reached: ClientTopicPartition | None = None

    def take_over(self) -> None:
        """Ends what was begun under the name. Raises KafkaUnavailable, SourceError."""
        self._call(lambda: self._on_way.producer.init_transactions(self._on_way.clients.seconds), "begin transactions")

    def send(
        self, topic: str, message: Message, *, partition: int = -1, progress: ProducerProgress | None = None
    ) -> None:
        if self._begun_s is not None and self._clock() - self._begun_s >= LONGEST_S:
            self.commit()
        if self._begun_s is None:
            self._call(self._on_way.producer.begin_transaction, "begin a transaction")
            self._begun_s = self._clock()
        self._on_way.send(topic, message, partition=partition)
        if progress is not None:
            self._reached = ClientTopicPartition(topic, partition, progress.written, progress.note)

    def commit(self) -> None:
        """Ends the transaction, so that its messages appear; where one of them was not taken, none does."""
        if self._begun_s is None:
            return
        self._begun_s = None
        try:
            if self._reached is not None:
                self._call(partial(self._send_progress, self._reached), "commit the progress")
            self._call(self._on_way.producer.commit_transaction, "commit a transaction")
        except SinkError as error:
            with suppress(KafkaException):
                self._on_way.producer.abort_transaction()
            if not isinstance(error, _Replaced):  # then messages were not taken for that reason, which they do not name
                self._on_way.check()
            raise

    def _send_progress(self, reached: ClientTopicPartition) -> None:
        consumer = self._on_way.clients.consumer(self._group)
        try:
            group = consumer.consumer_group_metadata()
        finally:
            consumer.close()
        self._on_way.producer.send_offsets_to_transaction([reached], group, self._on_way.clients.seconds)

    def _call(self, call: Callable[[], None], doing: str) -> None:
        try:
            call()
        except KafkaException as error:
            cause = error.args[0]
            if cause.code() in REPLACED:
                raise _Replaced(
                    f"Another process writes as {self._name} now; this one ends, and what it had not committed does not count. "
                    "Run one at a time."
                ) from error
            raise self._on_way.clients.error(cause, doing) from error
