"""How is librdkafka's consumer set up for reading offset ranges? The connection as `connect.config.librdkafka` translates it; reading by the table.

A property of the user wins over the reader's own value, but for what keeps ranges exact; where it bounds memory, the smaller one holds. ::

    Java                        librdkafka
    fetch.max.wait.ms           fetch.wait.max.ms
    max.partition.fetch.bytes   fetch.message.max.bytes
    receive.buffer.bytes        socket.receive.buffer.bytes     -1, the system's own: 0
    send.buffer.bytes           socket.send.buffer.bytes        -1: 0
    request.timeout.ms          socket.timeout.ms
    others of `SAME`            the same
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kafka_s3.connect.config.jaas import IAM_MECHANISM
from kafka_s3.kafka.clients import client_properties
from kafka_s3.kafka.reader.pace import LEARNING, QUEUE_BYTES, Pace

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
