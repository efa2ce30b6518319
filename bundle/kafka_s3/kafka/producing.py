"""How are records put into a topic, and what becomes of those that it never takes?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_s3.kafka.clients import BATCH_MESSAGES, Clients
from kafka_s3.model.errors import KafkaUnavailable
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
