"""Which properties of Kafka's clients may a configuration set? An allow-list; whatever is not on it is an error (SEMANTICS A1.4).

A client property can name a class to load, a file to read, an address to call. Such are taken from the operator's worker file only, and
of classes only those listed here, none of which is ever loaded by name but Kafka's own token login in Spark's consumer.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from kafka_s3.connect.config.jaas import IAM_PACKAGE, IAM_SHADE, MECHANISMS, PACKAGE, SHADE, login_text
from kafka_s3.connect.config.option import (
    InvalidValue,
    OneOf,
    Option,
    OptionGroup,
    OptionStatus,
    Type,
    Valid,
    Value,
    accepts,
    anything,
)

_INT, _LONG, _TEXT, _FLAG, _CLASS = Type.INT, Type.LONG, Type.STRING, Type.BOOLEAN, Type.CLASS
_SECRET, _LIST = Type.PASSWORD, Type.LIST
CONSUMER: Final = "consumer.override."
PRODUCER: Final = "producer.override."
ADMIN: Final = "admin.override."
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_KAFKA: Final = "org.apache.kafka.clients.consumer."
_MECHANISM: Final = (
    "Instead of GSSAPI (Kerberos), which is not supported, use SCRAM over SASL_SSL or a client certificate (mTLS)."
)
LOGIN_HANDLER: Final = f"{PACKAGE}oauthbearer.OAuthBearerLoginCallbackHandler"
LOGIN_HANDLERS: Final = tuple(
    f"{shade}{PACKAGE}oauthbearer.{part}OAuthBearerLoginCallbackHandler" for shade in ("", SHADE) for part in ("", "secured.")
)  # fmt: skip
IAM_HANDLER: Final = f"{IAM_PACKAGE}IAMClientCallbackHandler"


_CLIENT_HANDLER: Final = "sasl.client.callback.handler.class"


@accepts("an https:// address; http:// only on this machine")
def token_address(value: Value) -> Value:
    """Where OAUTHBEARER gets its tokens: `https://`, because the client's secret is sent there; `http://` on this machine only."""
    parts = urlsplit(str(value))
    if not parts.hostname or parts.scheme not in ("http", "https"):
        raise InvalidValue(f"must be {token_address.text}.", "Write https://host/path.")
    if parts.username is not None or parts.password is not None:
        raise InvalidValue("must not hold user and password.", "Give clientId and clientSecret in sasl.jaas.config.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise InvalidValue(
            f"must be {token_address.text}: the client's secret is sent there.", "Write https://host/path."
        )
    return value


def _row(
    name: str, type_: Type, doc: str, valid: Valid | None = None, *, default: str | None = None, note: str = ""
) -> Option:
    return Option(CONSUMER + name, type_, default, doc, OptionGroup.KAFKA, valid=valid or anything, note=note)


def _idle(name: str, type_: Type, valid: Valid, note: str) -> Option:
    return Option(
        CONSUMER + name, type_, None, "Read by Connect's own consumer only.", OptionGroup.KAFKA, valid=valid,
        status=OptionStatus.INFORMATIONAL, note=note,
    )  # fmt: skip


_SECURITY = (
    _row("security.protocol", _TEXT, "Protocol.", OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))),
    _row("sasl.mechanism", _TEXT, "SASL mechanism.", OneOf(tuple(MECHANISMS)), note=_MECHANISM),
    _row("sasl.jaas.config", _SECRET, "User and password, client id and secret, or an AWS role or profile. Module names may be those of "
         "Databricks, which begin with `kafkashaded.` or `shadedmskiam.`.",
         login_text),
    _row("sasl.oauthbearer.token.endpoint.url", _TEXT, "Where OAUTHBEARER gets its tokens. In the worker file only.", token_address),
    _row("sasl.oauthbearer.scope.claim.name", _TEXT, "Claim of the token that holds the scope."),
    _row("sasl.oauthbearer.sub.claim.name", _TEXT, "Claim of the token that holds the subject."),
    _row("sasl.login.callback.handler.class", _CLASS, "Handler that gets the tokens; set where it is left out. In the worker file only.",
         OneOf(LOGIN_HANDLERS), note="For IAM access to Amazon MSK set sasl.mechanism=AWS_MSK_IAM."),
    _row(_CLIENT_HANDLER, _CLASS, "With AWS_MSK_IAM: signs with AWS credentials; set where it is left out.",
         OneOf((IAM_HANDLER, IAM_SHADE + IAM_HANDLER)), note="Leave it out: it is set where sasl.mechanism=AWS_MSK_IAM."),
    *(_row(f"sasl.login.{name}", _INT, "Time limits of the token login, passed on.") for name in (
        "connect.timeout.ms", "read.timeout.ms")),
    *(_row(f"sasl.login.{name}", _LONG, "Pauses of the token login, passed on.") for name in (
        "retry.backoff.ms", "retry.backoff.max.ms")),
    _row("ssl.truststore.location", _TEXT, "PEM file of trusted certificates. In the worker file only."),
    _row("ssl.truststore.password", _SECRET, "Its password; PEM has none."),
    _row("ssl.truststore.type", _TEXT, "Its type: PEM."),
    _row("ssl.truststore.certificates", _TEXT, "Trusted certificates in PEM form."),
    _row("ssl.keystore.location", _TEXT, "PEM or PKCS12 file of the client's certificate and key. In the worker file only."),
    _row("ssl.keystore.password", _SECRET, "Its password."),
    _row("ssl.keystore.type", _TEXT, "Its type: PEM or PKCS12."),
    _row("ssl.keystore.key", _SECRET, "The client's key in PEM form."),
    _row("ssl.keystore.certificate.chain", _TEXT, "The client's certificates in PEM form."),
    _row("ssl.key.password", _SECRET, "Password of the client's key."),
    _row("ssl.endpoint.identification.algorithm", _TEXT, "Check of the brokers' host names; blank switches it off.", OneOf(("https", ""))),
    *(_row(f"ssl.{name}", _TEXT, "TLS setting of Spark's consumer, passed on.") for name in (
        "protocol", "enabled.protocols", "cipher.suites", "keymanager.algorithm", "trustmanager.algorithm",
        "secure.random.implementation")),
)  # fmt: skip
_READING = (
    _row("auto.offset.reset", _TEXT, "Where to start without a committed position.", OneOf(("earliest", "latest", "none")),
         default="earliest"),
    _row("isolation.level", _TEXT, "Whether records of open transactions are read.", OneOf(("read_uncommitted", "read_committed")),
         default="read_uncommitted"),
    _row("group.id", _TEXT, "Consumer group that mirrors the offsets; otherwise `connect-<name>`."),
    _row("client.id", _TEXT, "Name of the clients in the brokers' logs."),
    _row("client.rack", _TEXT, "Rack of the clients, which read from the nearest replica. `auto`: each task's machine finds out its zone."),
    *(_row(name, _INT, "Client setting, passed on.") for name in (
        "max.poll.records", "fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes",
        "request.timeout.ms", "default.api.timeout.ms", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms",
        "receive.buffer.bytes", "send.buffer.bytes")),
    *(_row(name, _LONG, "Client setting, passed on.") for name in (
        "connections.max.idle.ms", "metadata.max.age.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms",
        "retry.backoff.max.ms", "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms")),
    _row("check.crcs", _FLAG, "Client setting, passed on."),
)  # fmt: skip
_BYTES = OneOf(("org.apache.kafka.common.serialization.ByteArrayDeserializer",))
_IDLE = (
    _idle("key.deserializer", _CLASS, _BYTES, "Records are read as bytes; the converter reads them."),
    _idle("value.deserializer", _CLASS, _BYTES, "Records are read as bytes; the converter reads them."),
    _idle("interceptor.classes", _CLASS, OneOf(("", "io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor")),
          "No interceptor is ever loaded."),
    _idle("metric.reporters", _CLASS, OneOf(("", "org.apache.kafka.common.metrics.JmxReporter")), "No reporter is ever loaded."),
    _idle("partition.assignment.strategy", _CLASS, OneOf(tuple(f"{_KAFKA}{name}Assignor" for name in (
        "Range", "RoundRobin", "Sticky", "CooperativeSticky"))), "Partitions are read by explicit offsets."),
    _idle("enable.auto.commit", _FLAG, anything, "Offsets are committed with the objects."),
    _idle("allow.auto.create.topics", _FLAG, anything, "Topics are never created by reading."),
)  # fmt: skip

FILES: Final = ("ssl.truststore.location", "ssl.keystore.location")
ADDRESSES: Final = ("sasl.oauthbearer.token.endpoint.url",)
CLASSES: Final = tuple(
    row.key.removeprefix(CONSUMER)
    for row in (*_SECURITY, *_READING, *_IDLE)
    if row.type is _CLASS and row.key != CONSUMER + _CLIENT_HANDLER
)
"""Properties that name a class, but for that of AWS_MSK_IAM: it has one value, which goes with the mechanism."""
NEVER_PASSED_ON: Final = frozenset(row.key.removeprefix(CONSUMER) for row in _IDLE)
"""Properties that are accepted, and that no client here is given."""
ALLOWED_CLIENT: Final = tuple(sorted(row.key.removeprefix(CONSUMER) for row in (*_SECURITY, *_READING, *_IDLE)))
ALLOWED_OTHERS: Final = frozenset({
    *ALLOWED_CLIENT, "acks", "batch.size", "buffer.memory", "compression.type", "compression.level", "delivery.timeout.ms",
    "enable.idempotence", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection", "max.request.size", "retries",
    "bootstrap.servers",
})  # fmt: skip
"""What `producer.override.*` and `admin.override.*` may hold, without effect."""
_CLIENT = "Every client takes its settings from consumer.override.*."

ROWS: Final = (
    *_SECURITY,
    *_READING,
    *_IDLE,
    Option("consumer.override.*", _TEXT, None, "Any other client setting.", OptionGroup.KAFKA, status=OptionStatus.REFUSED,
           note=f"Allowed below consumer.override. are: {', '.join(ALLOWED_CLIENT)}."),
    Option("producer.override.*", _TEXT, None, "Settings of the dead letters' producer: those of the consumer and of producing.",
           OptionGroup.KAFKA, status=OptionStatus.INFORMATIONAL, note=_CLIENT),
    Option("admin.override.*", _TEXT, None, "Settings of the admin client: those of the consumer.", OptionGroup.KAFKA,
           status=OptionStatus.INFORMATIONAL, note=_CLIENT),
)  # fmt: skip
