"""How is a client of confluent-kafka made, and what does it mean where it fails? One text for each failure, whoever reads.

Client properties are given by their Java names, as Connect's users write them; `connect.config.librdkafka` translates them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kafka_s3.connect.config import librdkafka
from kafka_s3.kafka.iam import confluent_login
from kafka_s3.model.addresses import ForbiddenAddress, check_url
from kafka_s3.model.errors import KafkaUnavailable, OffsetsLost, SourceError, UnreadableRecord
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.timing import RateLimiter

DAMAGED: Final = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG})
"""What the client says of bytes that are no records."""
TRANSIENT: Final = frozenset({
    KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE,
    KafkaError._NOENT, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError._WAIT_COORD, KafkaError.REQUEST_TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR,
    KafkaError.BROKER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION,
    KafkaError.KAFKA_STORAGE_ERROR, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_CONTROLLER,
})  # fmt: skip
"""What Kafka's own clients try again, and librdkafka's word for a partition without a known leader, as after a broker's restart."""
CHECK: Final = "Check the client's rights and security settings (consumer.override.*)."


def lost(reason: str) -> OffsetsLost:
    """Records went while they were read: retention, a log that was cut, a topic that was created again."""
    return OffsetsLost(f"Kafka lost records while they were read: {reason} The next start says which.")


def damaged(topic_partition: TopicPartition, offset: int, reason: str) -> UnreadableRecord:
    """What the brokers hold from an offset on are no records."""
    topic, partition = topic_partition
    return UnreadableRecord(
        f"What Kafka holds of {topic_partition} from offset {offset} on is damaged: {reason}. Restore it from another replica, or "
        f"pass over it: kafka-s3 position set CONFIG {topic} {partition} OFFSET, with the first offset behind the damage.",
        offset,
    )


def unanswered(text: str) -> KafkaUnavailable:
    """The brokers did not answer. `text` says what was asked of whom."""
    return KafkaUnavailable(f"{text} Check kafka.bootstrap.servers and that the brokers can be reached from here.")


TOKENS: Final = "sasl.oauthbearer.token.endpoint.url"
REQUEST_SECONDS: Final = 30.0
BATCH_MESSAGES: Final = 10_000
LINGER_MS: Final = 100
"""How long a producer collects a batch. A flush does not wait for it, and small batches cost the brokers more than their records."""
LARGEST_MESSAGE: Final = 1_000_000_000
"""The client's own limit, its highest: the topic's is the one that counts."""
QUEUE_KIB: Final = 128 << 10
"""What a transactional producer holds of messages that are not acknowledged; a larger one cannot be sent."""
TRANSACTION_MS: Final = 300_000
"""When the brokers end a transaction whose producer is gone. The source may be slow: it is below their limit of 15 minutes."""
LOGIN_FAILED: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
OUTAGE_LINES_S: Final = 60
_log = logging.getLogger(__name__)
_outages = RateLimiter(OUTAGE_LINES_S)
Client = TypeVar("Client", AdminClient, Consumer, Producer)


def client_properties(bootstrap_servers: str, java: Mapping[str, str]) -> dict[str, str]:
    """Java client properties as librdkafka's. Properties that only steer the Java consumer are left out."""
    return {"bootstrap.servers": bootstrap_servers, "client.id": "kafka-s3", **librdkafka.librdkafka_properties(java)}


def silent() -> logging.Logger:
    """A logger for librdkafka, whose own lines on standard error help nobody; failures reach the user as our errors."""
    logger = logging.getLogger("kafka_s3.connect.config.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


class Clients:
    """Makes the clients of one cluster. `seconds` is how long a request may take: `default.api.timeout.ms`, 30 unless given.

    Making one raises SourceError where its settings cannot be used, KafkaUnavailable where its login cannot be signed now.
    """

    def __init__(self, bootstrap_servers: str, java: Mapping[str, str]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.seconds = int(java.get("default.api.timeout.ms", REQUEST_SECONDS * 1000)) / 1000
        self.isolation = java.get("isolation.level", "read_uncommitted")
        self._settings: dict[str, Any] = {
            **client_properties(bootstrap_servers, java), **confluent_login(bootstrap_servers, java),
            "log_level": 0, "error_cb": self._note_error,
        }  # fmt: skip
        self._complaint = ""
        self.trouble = "nothing came back"
        """What the connection last met with."""

    @property
    def login_fails(self) -> bool:
        """Whether a login failed since the last error."""
        return bool(self._complaint)

    def admin(self) -> AdminClient:
        """A client for metadata."""
        return self._made(AdminClient, {})

    def counting_admin(self, count: Callable[[str], None]) -> AdminClient:
        """The same, which hands `count` librdkafka's statistics (JSON) four times a second; they pile up where nobody polls."""
        return self._made(AdminClient, {"statistics.interval.ms": 250, "stats_cb": count})

    def consumer(self, group: str, over: Mapping[str, str] | None = None) -> Consumer:
        """A consumer for reading by explicit offsets; it commits nothing. `over` are settings of librdkafka for this one."""
        return self._made(Consumer, {
            "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True,
            "isolation.level": self.isolation, **(over or {}),
        })  # fmt: skip

    def producer(self, batch: int = BATCH_MESSAGES) -> Producer:
        """An idempotent producer with acknowledgement by all replicas, of at most so many messages in a batch."""
        return self._made(Producer, {
            "enable.idempotence": True, "linger.ms": LINGER_MS, "message.max.bytes": LARGEST_MESSAGE, "batch.num.messages": batch,
            "delivery.report.only.error": True,
        })  # fmt: skip

    def transactional_producer(self, name: str) -> Producer:
        """A producer whose transactions go under this name, which takes over from any other of it."""
        return self._made(Producer, {
            "transactional.id": name, "transaction.timeout.ms": TRANSACTION_MS, "linger.ms": 20, "message.max.bytes": LARGEST_MESSAGE,
            "batch.num.messages": BATCH_MESSAGES, "queue.buffering.max.kbytes": QUEUE_KIB,
        })  # fmt: skip

    def error(self, cause: KafkaError, doing: str) -> SourceError:
        """What is raised where the cluster did not do that: KafkaUnavailable for what may pass."""
        text = f"Kafka at {self.bootstrap_servers} did not {doing}: {cause.str()} ({cause.name()})."
        complaint, self._complaint = self._complaint, ""
        if cause.retriable() or cause.code() in TRANSIENT:
            return KafkaUnavailable(f"{text} {complaint} {CHECK}") if complaint else unanswered(text)
        return SourceError(f"{text} {CHECK}")

    def _made(self, client: Callable[..., Client], settings: Mapping[str, Any]) -> Client:
        try:
            check_url(str(self._settings.get(TOKENS, "")))
            return client({**self._settings, **settings}, logger=silent())
        except ForbiddenAddress as error:
            raise SourceError(f"No token is asked for: {error}. Check {TOKENS}.") from None
        except KafkaException as error:
            cause = error.args[0]
            if cause.code() in LOGIN_FAILED:  # a token that was signed a moment ago cannot be signed now
                raise KafkaUnavailable(f"{cause.str()}. {CHECK}") from None
            # files that cannot be read, keys that do not fit: reported before anything is sent
            raise SourceError(f"The settings of Kafka's clients cannot be used: {cause.str()}. {CHECK}") from None

    def _note_error(self, error: KafkaError) -> None:
        """Keeps why a login failed: the request that waits for it only says that nobody answered. An outage is logged when it begins."""
        if error.code() in LOGIN_FAILED:
            self._complaint = f"librdkafka says: {error.str()}."
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.trouble = error.str()
        elif _outages.due(self.bootstrap_servers):
            _log.warning(
                "no broker answers", extra={"facts": {"servers": self.bootstrap_servers, "reason": error.str()}}
            )
