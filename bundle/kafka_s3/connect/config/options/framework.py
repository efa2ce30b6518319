"""Which keys of Connect itself change what the sink does? (SEMANTICS A1.4). The clients' are in `options.client`."""

from __future__ import annotations

from typing import Final

from kafka_s3.connect.config.classes import CONNECTORS
from kafka_s3.connect.config.option import Option, OptionGroup, OptionStatus, Type
from kafka_s3.connect.config.options.forms import TopicNames
from kafka_s3.connect.config.valid_values import KnownClass, OneOf, Range

_INT, _LONG, _TEXT, _FLAG, _CLASS = Type.INT, Type.LONG, Type.STRING, Type.BOOLEAN, Type.CLASS
_IDLE = OptionStatus.INFORMATIONAL
_MAIN, _ERRORS = OptionGroup.FRAMEWORK, OptionGroup.ERRORS
_WORKER = "Progress is committed with the objects, not on a timer."

CONNECTOR: Final = (
    Option("name", _TEXT, None, "The connector's name; its commit log and consumer group carry it.", _MAIN, required=True,
           example="orders-to-s3"),
    Option("connector.class", _CLASS, None, "The connector.", _MAIN, valid=KnownClass(CONNECTORS), required=True),
    Option("tasks.max", _INT, "1", "Kafka partitions that are read at once, at most; 32 with fewer than 10,000 new records count as one.",
           _MAIN, valid=Range(1, 2147483647)),
    Option("topics", Type.LIST, "", "The topics. Exactly one of topics and topics.regex is set.", _MAIN, valid=TopicNames(),
           example="orders,payments"),
    Option("topics.regex", _TEXT, "", "Pattern of whole topic names.", _MAIN),
    Option("config.action.reload", _TEXT, "restart", "What a rotated secret does.", _MAIN, valid=OneOf(("restart", "none")),
           status=_IDLE, note="References are resolved when a run starts."),
    Option("offset.flush.interval.ms", _LONG, "60000", "Worker: how often offsets are committed, which is when Block-GZIP files are "
           "closed. Without effect on other formats: progress is committed with the objects.", _MAIN, valid=Range(1)),
    Option("offset.flush.timeout.ms", _LONG, "5000", "Worker: time for such a commit.", _MAIN, status=_IDLE, note=_WORKER),
)  # fmt: skip

ERRORS: Final = (
    Option("errors.tolerance", _TEXT, "none", "Whether bad records stop the sink.", _ERRORS, valid=OneOf(("none", "all"))),
    Option("errors.log.enable", _FLAG, "false", "Log each failed record, with stage and reason.", _ERRORS),
    Option("errors.log.include.messages", _FLAG, "false", "Log topic, partition, offset and timestamp, too; never contents.", _ERRORS),
    Option("errors.retry.timeout", _LONG, "0", "How long a schema registry that does not answer is waited for, beyond the client's own "
           "retries; -1 without limit. Then the sink stops, with nothing lost.", _ERRORS, valid=Range(-1)),
    Option("errors.retry.delay.max.ms", _LONG, "60000", "Longest pause where Kafka, the bucket or the schema registry does not answer: it "
           "begins with retry.backoff.ms and doubles, less a random part. 0 and less, and under compatibility.strict, it stays the same.",
           _ERRORS),
    Option("errors.deadletterqueue.topic.name", _TEXT, "", "Topic for dead letters; must not be one of the connector's own.", _ERRORS,
           valid=TopicNames()),
    Option("errors.deadletterqueue.topic.replication.factor", _INT, "3", "Replicas of that topic where it has to be created.", _ERRORS),
    Option("errors.deadletterqueue.context.headers.enable", _FLAG, "false", "Say in headers where and why a record failed.", _ERRORS),
)  # fmt: skip


ROWS: Final = (*CONNECTOR, *ERRORS)
