"""How are records put into a topic, and what becomes of those that it never takes?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_s3.kafka.clients import BATCH_MESSAGES, Clients
from kafka_s3.model.errors import KafkaUnavailable
from kafka_s3.model.protocols import Message, Refusal

REFUSED: Final = frozenset({
    KafkaError.INVALID_TIMESTAMP, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD,
})  # fmt: skip
"""What brokers say of a batch that they never take, for a record in it."""


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
    with _with_producer(clients, clients.producer(batch), refused) as send:
        yield send


@contextmanager
def sending_in_order(clients: Clients) -> Iterator[Send]:
    """A function that sends messages; behind the first that is not taken none is, and the next call says so. Raises KafkaUnavailable.

    So what a topic-partition has got when anything fails, the process's death included, is a beginning of what was sent.
    """
    with _with_producer(clients, clients.ordered_producer(), None) as send:
        yield send


@contextmanager
def _with_producer(clients: Clients, producer: Producer, refused: list[Refusal] | None) -> Iterator[Send]:
    failed: list[KafkaError] = []

    def done(error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        if refused is None or error.code() not in REFUSED:
            failed.append(error)
        else:
            refused.append(Refusal(message, error.str()))

    def check() -> None:
        if failed:
            raise KafkaUnavailable(f"Kafka at {clients.bootstrap_servers} did not take records: {failed[0].str()}.")

    def send(topic: str, message: Message, *, partition: int = -1) -> None:
        while True:
            check()
            try:
                producer.produce(
                    topic, message.value, message.key, partition=partition, headers=list(message.headers),
                    on_delivery=lambda error, _: done(error, message), timestamp=max(message.timestamp or 0, 0),
                )  # fmt: skip
            except BufferError:
                producer.poll(0.1)  # the queue is full: let deliveries make room
            except KafkaException as error:  # larger than the client can send
                done(error.args[0], message)
                return
            else:
                producer.poll(0)
                return

    yield send
    try:
        left = producer.flush(clients.seconds)
    except KafkaException as error:  # the client gave up in order not to leave a hole
        failed.append(error.args[0])
    check()
    if left:
        raise KafkaUnavailable(
            f"Kafka at {clients.bootstrap_servers} did not take records: no acknowledgement in time."
        )
