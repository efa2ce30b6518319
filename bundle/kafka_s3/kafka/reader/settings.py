"""How is librdkafka's consumer set up for reading offset ranges, and how much may it fetch ahead?

The connection is as `connect.config.librdkafka` translates it, reading by the table. A property of the user wins over the reader's own
value, but for what keeps ranges exact; where it bounds memory, the smaller one holds. ::

    Java                        librdkafka
    fetch.max.wait.ms           fetch.wait.max.ms
    max.partition.fetch.bytes   fetch.message.max.bytes
    receive.buffer.bytes        socket.receive.buffer.bytes     -1, the system's own: 0
    send.buffer.bytes           socket.send.buffer.bytes        -1: 0
    request.timeout.ms          socket.timeout.ms
    others of `SAME`            the same

librdkafka bounds what it keeps by the bytes of values and by the number of messages. Keys, headers and its own 350 bytes a message do
not count, and it unpacks a whole answer before it looks again. So a process learns of each topic, from one small fetch, what a record takes
and how many bytes come out of one byte of the log, and reads on with limits (`Pace`) that follow from that. Where more waits than they
allow, the topic has changed, and is looked up again. A batch is unpacked as a whole, whatever the limits are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from kafka_s3.connect.config.jaas import IAM_MECHANISM
from kafka_s3.kafka.clients import client_properties


class ReadScope(Enum):
    """How much of each record is read."""

    VALUES = auto()
    """Offset, timestamp and value."""
    SCHEMA_NAMES = auto()
    """The header that names the value's schema, too."""
    ENVELOPES = auto()
    """Keys and all headers, too."""


QUEUE_BYTES: Final = 48 << 20
"""As held, over all topic-partitions that are read together: so much waits, and so much does one more fetch bring."""
WAITING_BYTES: Final = 16 << 20
"""So much waits of one that is read alone: there is always another batch, and more would only take memory."""
MOST_FETCHED: Final = 1 << 20
LEAST_FETCHED: Final = 4 << 10
FIRST_FETCHED: Final = 16 << 10
"""Of the log, by one fetch of a topic-partition."""
MOST_RECORDS: Final = 100_000
MOST_FETCHED_TOGETHER: Final = 128 << 10
MOST_RECORDS_TOGETHER: Final = 12_500
"""Of one of several: a range that shares a task is shorter, and what is fetched behind its end is of no use."""
STEP: Final = 2
"""A limit is the highest one, or that divided by a power of this: each pair of limits needs a consumer of its own."""
SLOWLY: Final = 8
"""By this part of the difference does what is known of records become less."""
TOO_MUCH: Final = 4
"""Where so many shares of `QUEUE_BYTES` wait, or might, the records are not what they were: two are the most that should."""


@dataclass(frozen=True)
class Pace:
    """The limits for one topic-partition: `fetch_bytes` of the log by one request, and no further one while `records` wait."""

    fetch_bytes: int
    records: int


LEARNING: Final = Pace(FIRST_FETCHED, 1)
"""One fetch, and nothing more until it was looked at."""


@dataclass(frozen=True)
class Weight:
    """What a topic's records take: bytes held for each, bytes held for each byte of the log, bytes held of one small fetch."""

    record: float
    log_byte: float
    fetch: float

    @classmethod
    def of_fetch(cls, held: int, records: int, fetched: int) -> Weight:
        """By a first fetch, which brought so many records, for which so many bytes are held, in an answer of so many bytes."""
        log_byte = max(held / max(fetched, 1), 1.0)
        return cls(held / records, log_byte, max(held, log_byte * FIRST_FETCHED))

    def with_later(self, held: int, records: int) -> Weight:
        """After later records for which so many bytes are held: at once where it is more, else bit by bit."""
        more = held / records - self.record
        return replace(self, record=self.record + (more if more > 0 else more / SLOWLY))

    def pace(self, together: int) -> Pace:
        """The limits where so many topic-partitions are read together."""
        share = QUEUE_BYTES // together
        if together == 1:
            fetched, most, waiting = MOST_FETCHED, MOST_RECORDS, min(share, WAITING_BYTES)
        else:
            fetched, most, waiting = MOST_FETCHED_TOGETHER, min(MOST_RECORDS // together, MOST_RECORDS_TOGETHER), share
        records = 1 if self.fetch > share else waiting / self.record
        return Pace(_step(fetched, share / self.log_byte, least=LEAST_FETCHED), _step(most, records, least=1))

    @property
    def is_large(self) -> bool:
        """Whether the limits of a topic-partition that is read alone are below the highest."""
        return self.pace(1).fetch_bytes < MOST_FETCHED

    def allows(self, together: int) -> bool:
        """Whether so many topic-partitions may be read together: a fetch of each, or a batch that is larger, has to fit."""
        return self.fetch * together <= 2 * QUEUE_BYTES

    def exceeds(self, limits: Pace, waiting: int, together: int) -> bool:
        """Whether these limits allow far too much, or so many records wait. Of batches that alone are too large this says nothing."""
        share = QUEUE_BYTES // together
        return self.fetch <= share and max(waiting, limits.records) * self.record > TOO_MUCH * share


def _step(most: int, wanted: float, *, least: int) -> int:
    """The largest of `most`, `most / STEP` and so on that is not above `wanted`."""
    while most > wanted and most > least:
        most = max(most // STEP, least)
    return most


_known: Final[dict[tuple[str, str], Weight]] = {}
"""By brokers and topic: what this process learnt, and the one that it was forked from."""


def known_weight(servers: str, topic: str) -> Weight | None:
    """What a record of the topic takes; None: not known."""
    return _known.get((servers, topic))


def note_weight(servers: str, topic: str, weight: Weight) -> None:
    """Remembers what a record of the topic takes."""
    _known[servers, topic] = weight


def forget_weight(servers: str, topic: str) -> None:
    """The next reading of the topic begins with a small fetch."""
    _known.pop((servers, topic), None)


GROUP: Final = "kafka-s3-reader"
"""librdkafka wants a group's name of every consumer; nothing is subscribed to or committed in it."""
SAME: Final = (
    "fetch.min.bytes", "fetch.max.bytes", "check.crcs", "connections.max.idle.ms", "metadata.max.age.ms", "reconnect.backoff.ms",
    "reconnect.backoff.max.ms", "retry.backoff.ms", "retry.backoff.max.ms", "socket.connection.setup.timeout.ms", "isolation.level",
)  # fmt: skip
FETCHED: Final = "fetch.message.max.bytes"
RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.partition.fetch.bytes": FETCHED,
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
}
BUFFERS: Final = ("receive.buffer.bytes", "send.buffer.bytes")
JAVA_ONLY: Final = (
    "ssl.protocol", "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation", "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name",
)  # fmt: skip
"""Properties of the connection that steer Java's client and have no counterpart."""
FEATURES: Final = {
    "PLAIN": "sasl_plain", "SCRAM-SHA-256": "sasl_scram", "SCRAM-SHA-512": "sasl_scram", "OAUTHBEARER": "oidc", "GSSAPI": "sasl_gssapi",
    IAM_MECHANISM: "sasl_oauthbearer",
}  # fmt: skip
"""What a build of librdkafka has to have for a login mechanism."""
BATCH_BYTES: Final = 256 << 20
"""The largest answer, and the largest batch that zstd may unpack to. What librdkafka cannot hold, Spark's source may read."""
RESPONSE_HEAD: Final = 512
"""An answer has to have room for this beside what is fetched: librdkafka's own rule."""
OURS: Final = {
    "group.id": GROUP,
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "log_level": "0",
}
"""Not for the user to change: offsets are given, and nothing is committed."""
TUNED: Final = {
    "isolation.level": "read_uncommitted",
    "check.crcs": "true",
    "fetch.wait.max.ms": "10",  # the next reading waits for the answer to the last request of the one before
    "fetch.queue.backoff.ms": "5",
    "fetch.error.backoff.ms": "50",
    "fetch.max.bytes": str(32 << 20),
    "reconnect.backoff.max.ms": "1000",
}


def reading_settings(bootstrap_servers: str, java: Mapping[str, str], pace: Pace = LEARNING) -> dict[str, str]:
    """The settings of a consumer that fetches at this pace. `java` are the consumer's properties by their Java names."""
    found = {**client_properties(bootstrap_servers, java), **TUNED, **_given(java), **OURS}
    fetched = min(pace.fetch_bytes, int(found.get(FETCHED, pace.fetch_bytes)))
    limits = {
        FETCHED: str(fetched),
        "queued.min.messages": str(pace.records),
        "queued.max.messages.kbytes": str(QUEUE_BYTES >> 10),
        "receive.message.max.bytes": str(max(BATCH_BYTES, int(found["fetch.max.bytes"]) + RESPONSE_HEAD)),
    }
    return found | limits


def obstacles_to_reading(java: Mapping[str, str], features: frozenset[str]) -> Iterator[str]:
    """Why these properties need Java's client: a login that this build of librdkafka lacks, settings that it does not have."""
    mechanism = java.get("sasl.mechanism", "GSSAPI") if java.get("security.protocol", "").startswith("SASL_") else ""
    needed = FEATURES.get(mechanism)
    if mechanism and (needed is None or needed not in features):
        yield f"librdkafka's build here cannot log in by {mechanism}"
    for name in JAVA_ONLY:
        if java.get(name):
            yield f"consumer.override.{name} is a setting of Java's client only"


def _given(java: Mapping[str, str]) -> dict[str, str]:
    """What the user sets for reading."""
    found = {name: java[name] for name in SAME if name in java}
    for name, ours in RENAMED.items():
        if name in java:
            found[ours] = "0" if name in BUFFERS and java[name] == "-1" else java[name]
    return found
