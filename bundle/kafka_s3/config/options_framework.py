"""Which keys of Connect itself change what the sink does, and which client settings may be overridden? (SEMANTICS A1.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kafka_s3.config.classes import CONNECTORS
from kafka_s3.config.option import (
    Anything,
    Distinct,
    Group,
    Known,
    OneOf,
    Option,
    Range,
    Status,
    Type,
    Unfit,
    Valid,
    Value,
)
from kafka_s3.config.secret import Secret

_INT, _LONG, _TEXT, _FLAG, _CLASS = Type.INT, Type.LONG, Type.STRING, Type.BOOLEAN, Type.CLASS
_IDLE, _REFUSED = Status.INFORMATIONAL, Status.REFUSED
_MAIN, _ERRORS = Group.FRAMEWORK, Group.ERRORS
_UPSTREAM = "Transform upstream, with a Spark job or ksqlDB, and sink its output topic."
_WORKER = "Progress is committed with the objects, not on a timer."
_CLIENT = "Every client takes its settings from consumer.override.*."
CONSUMER: Final = "consumer.override."


@dataclass(frozen=True, slots=True)
class PlainOrScram:
    """A JAAS configuration of one login module that takes a user and a password: others can load code or open connections."""

    text: str = "one PlainLoginModule or ScramLoginModule"

    def settle(self, value: Value) -> Value:
        """The configuration, if it names one of the two modules."""
        given = value.reveal() if isinstance(value, Secret) else str(value)
        if not _LOGIN.fullmatch(given):
            raise Unfit(
                f"must be {self.text} of Kafka, with options in quotes and a semicolon at the end.", _LOGIN_EXAMPLE
            )
        return value


_LOGIN = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(plain\.PlainLoginModule|scram\.ScramLoginModule)\s+"
    r"(required|requisite|sufficient|optional)"
    r"""(\s+[A-Za-z]+\s*=\s*("(\\.|[^"\\])*"|'(\\.|[^'\\])*'|[^\s;"']+))*\s*;\s*""",
    re.DOTALL,
)
_LOGIN_EXAMPLE = (
    'For example: org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'
)

CONNECTOR: Final = (
    Option("name", _TEXT, None, "The connector's name; its commit log and consumer group carry it.", _MAIN, required=True),
    Option("connector.class", _CLASS, None, "The connector.", _MAIN, valid=Known(CONNECTORS), required=True),
    Option("tasks.max", _INT, "1", "Kafka partitions that are read at the same time, at most.", _MAIN, valid=Range(1, 2147483647)),
    Option("topics", Type.LIST, "", "The topics. Exactly one of topics and topics.regex is set.", _MAIN, valid=Distinct()),
    Option("topics.regex", _TEXT, "", "Pattern of whole topic names.", _MAIN),
    Option("transforms", Type.LIST, "", "Single message transforms.", _MAIN, status=_REFUSED, note=_UPSTREAM),
    Option("transforms.*", _TEXT, None, "Settings of transforms.", _MAIN, status=_IDLE, note="Transforms are not supported."),
    Option("predicates", Type.LIST, "", "Predicates of transforms.", _MAIN, status=_REFUSED, note=_UPSTREAM),
    Option("predicates.*", _TEXT, None, "Settings of predicates.", _MAIN, status=_IDLE, note="Predicates are not supported."),
    Option("config.action.reload", _TEXT, "restart", "What a rotated secret does.", _MAIN, valid=OneOf(("restart", "none")),
           status=_IDLE, note="References are resolved when a run starts."),
    Option("offset.flush.interval.ms", _LONG, "60000", "Worker: how often offsets are committed, which is when Block-GZIP files are "
           "closed. Without effect on other formats: progress is committed with the objects.", _MAIN, valid=Range(1)),
    Option("offset.flush.timeout.ms", _LONG, "5000", "Worker: time for such a commit.", _MAIN, status=_IDLE, note=_WORKER),
)  # fmt: skip

ERRORS: Final = (
    Option("errors.tolerance", _TEXT, "none", "Whether bad records stop the sink.", _ERRORS, valid=OneOf(("none", "all"))),
    Option("errors.log.enable", _FLAG, "false", "Log each failed record.", _ERRORS),
    Option("errors.log.include.messages", _FLAG, "false", "Log topic, partition, offset and contents, too.", _ERRORS),
    Option("errors.retry.timeout", _LONG, "0", "How long a schema registry that does not answer is waited for, beyond the client's own "
           "retries; -1 without limit. Then the sink stops, with nothing lost.", _ERRORS, valid=Range(-1)),
    Option("errors.retry.delay.max.ms", _LONG, "60000", "Longest pause between such retries.", _ERRORS, status=_IDLE,
           note="The pause is retry.backoff.ms."),
    Option("errors.deadletterqueue.topic.name", _TEXT, "", "Topic for dead letters; must not be one of the connector's own.", _ERRORS),
    Option("errors.deadletterqueue.topic.replication.factor", _INT, "3", "Replicas of that topic where it has to be created.", _ERRORS),
    Option("errors.deadletterqueue.context.headers.enable", _FLAG, "false", "Say in headers where and why a record failed.", _ERRORS),
)  # fmt: skip


def _client(name: str, type_: Type, doc: str, valid: Valid = Anything(), *, default: str | None = None) -> Option:  # noqa: B008
    return Option(CONSUMER + name, type_, default, doc, Group.KAFKA, valid=valid)


_SECURITY = (
    _client("security.protocol", _TEXT, "Protocol.", OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))),
    _client("sasl.mechanism", _TEXT, "SASL mechanism.", OneOf(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))),
    _client("sasl.jaas.config", Type.PASSWORD, "User and password.", PlainOrScram()),
    _client("ssl.truststore.location", _TEXT, "File of trusted certificates."),
    _client("ssl.truststore.password", Type.PASSWORD, "Its password."),
    _client("ssl.truststore.type", _TEXT, "Its type."),
    _client("ssl.truststore.certificates", _TEXT, "Trusted certificates in PEM form."),
    _client("ssl.keystore.location", _TEXT, "File of the client's certificate."),
    _client("ssl.keystore.password", Type.PASSWORD, "Its password."),
    _client("ssl.keystore.type", _TEXT, "Its type."),
    _client("ssl.keystore.key", Type.PASSWORD, "The client's key in PEM form."),
    _client("ssl.keystore.certificate.chain", _TEXT, "The client's certificates in PEM form."),
    _client("ssl.key.password", Type.PASSWORD, "Password of the client's key."),
    _client("ssl.endpoint.identification.algorithm", _TEXT, "Check of the brokers' host names; blank switches it off.",
            OneOf(("https", ""))),
)  # fmt: skip
_READING = (
    _client("auto.offset.reset", _TEXT, "Where to start without a committed position.", OneOf(("earliest", "latest", "none")),
            default="earliest"),
    _client("isolation.level", _TEXT, "Whether records of open transactions are read.", OneOf(("read_uncommitted", "read_committed")),
            default="read_uncommitted"),
    _client("group.id", _TEXT, "Consumer group that mirrors the offsets; otherwise `connect-<name>`."),
    _client("client.id", _TEXT, "Name of the clients in the brokers' logs."),
    _client("client.rack", _TEXT, "Rack of the clients."),
    *(_client(name, _INT, "Client setting, passed on.") for name in (
        "max.poll.records", "fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes",
        "request.timeout.ms", "default.api.timeout.ms", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms",
        "receive.buffer.bytes", "send.buffer.bytes")),
    *(_client(name, _LONG, "Client setting, passed on.") for name in (
        "connections.max.idle.ms", "metadata.max.age.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms",
        "retry.backoff.max.ms")),
)  # fmt: skip
ALLOWED_CLIENT: Final = tuple(sorted(row.key.removeprefix(CONSUMER) for row in (*_SECURITY, *_READING)))

CLIENT: Final = (
    *_SECURITY,
    *_READING,
    Option("consumer.override.*", _TEXT, None, "Any other client setting.", Group.KAFKA, status=_REFUSED,
           note=f"Allowed below consumer.override. are: {', '.join(ALLOWED_CLIENT)}."),
    Option("producer.override.*", _TEXT, None, "Settings of the dead letters' producer.", Group.KAFKA, status=_IDLE, note=_CLIENT),
    Option("admin.override.*", _TEXT, None, "Settings of the admin client.", Group.KAFKA, status=_IDLE, note=_CLIENT),
)  # fmt: skip

ROWS: Final = (*CONNECTOR, *ERRORS, *CLIENT)
