"""Will Kafka give this sink its records, and for long enough? Topics, retention, consumer group, dead letter topic, and who reads.

Nothing is changed. Java's client, with which Spark reads, cannot be tried without Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from kafka_s3.connect.config.jaas import IAM_MECHANISM
from kafka_s3.connect.config.options.client import CONSUMER
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.loop.topics import names_like
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Topic
from kafka_s3.ops.doctor.findings import Area, CheckResult
from kafka_s3.run.wiring.clients import group_of, wanted_topics
from kafka_s3.run.wiring.pipeline import rotation_rules

AREA: Final = Area("kafka")
SAFETY: Final = 2
"""Retention has to be this many times the longest wait of a record for its file."""
UNLIMITED: Final = -1
TRIES: Final = 5
PAUSE_S: Final = 0.5
T = TypeVar("T")
READER: Final = "reader"
BY_SPARK: Final = "Spark's own Kafka source reads"
NEEDS: Final = {
    IAM_MECHANISM: "needs software.amazon.msk:aws-msk-iam-auth on the class path of Spark's JVMs (--packages); Databricks has it.",
    "OAUTHBEARER": "of Kafka 4 and later needs {url} in -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls of Spark's JVMs.",
}
"""What Java's client wants beyond the configuration, by mechanism."""
Reach = Callable[[Settings, TopicPartition], str | None]
"""Why this process cannot read a topic-partition with librdkafka; None: it can."""


def check_kafka(settings: Settings, brokers: KafkaBrokers) -> Iterator[CheckResult]:
    """Everything that the sink needs of Kafka; one finding where the brokers do not answer at all."""
    try:
        cluster = brokers.cluster_id()
        names = wanted_topics(settings, brokers)
        found = brokers.describe(names)
    except SourceError as error:
        yield AREA.failed("brokers", str(error))
        return
    yield AREA.ok("brokers", f"cluster {cluster} at {settings.text('kafka.bootstrap.servers')}")
    if not names:
        regex = settings.text("topics.regex")
        yield AREA.warning(
            "topics", f"no topic matches topics.regex {regex!r} yet.", "They are looked for while it runs."
        )
    for name in names:
        yield from _topic(settings, brokers, name, topic=found.get(name))
    if settings.flag("consumer.group.mirror.enable"):
        yield _group(settings, brokers)
    if settings.text("errors.deadletterqueue.topic.name"):
        yield _dead_letters(settings, brokers)


def _topic(settings: Settings, brokers: KafkaBrokers, name: str, *, topic: Topic | None) -> Iterator[CheckResult]:
    tried = f"topic {name}"
    if topic is None:
        yield _missing(brokers, name)
        return
    try:
        rights = brokers.topic_rights(name)
    except SourceError as error:
        yield AREA.failed(tried, str(error))
        return
    if rights and "READ" not in rights:
        yield AREA.failed(
            tried, "may not be read.", f"Grant READ on topic {name} to this client (consumer.override.*)."
        )
    else:
        yield AREA.ok(tried, f"{len(topic.partitions)} partitions")
    yield _retention(settings, brokers, name)


def _missing(brokers: KafkaBrokers, name: str) -> CheckResult:
    try:
        like = names_like(name, brokers.topic_names())
    except SourceError:
        like = []
    alike = f" Names like it: {', '.join(like)}." if like else ""
    return AREA.failed(
        f"topic {name}",
        f"does not exist, or this client may not see it.{alike}",
        f"Create it, correct topics, or grant DESCRIBE on topic {name}.",
    )


def _retention(settings: Settings, brokers: KafkaBrokers, name: str) -> CheckResult:
    """How long an unread record stays, against how long the rotation rules let it wait."""
    tried = f"retention of {name}"
    try:
        topic = brokers.topic_settings(name)
    except SourceError as error:
        return AREA.warning(tried, str(error), f"Grant DESCRIBE_CONFIGS on topic {name} to have it checked.")
    if "delete" not in topic.get("cleanup.policy", "delete"):
        return AREA.ok(tried, "compacted: what is overwritten before it is read is never written.")
    kept_ms, wait_ms = int(topic.get("retention.ms", UNLIMITED)), longest_wait_ms(settings)
    if kept_ms == UNLIMITED:
        return AREA.ok(tried, "unlimited")
    if kept_ms < SAFETY * wait_ms:
        detail = (
            f"retention.ms={kept_ms} is less than twice the longest rotation interval ({wait_ms} ms): Kafka may delete records that no "
            "object holds yet."
        )
        return AREA.warning(tried, detail, f"Set retention.ms to {SAFETY * wait_ms} or more, or rotate more often.")
    quiet = (
        ""
        if _closes_by_clock(settings)
        else "A tail that no rotation rule closes waits in Kafka no longer than that; flush.idle.ms closes it."
    )
    return AREA.ok(tried, f"retention.ms={kept_ms}", quiet)


def longest_wait_ms(settings: Settings) -> int:
    """The longest of the rotation intervals that act, 0 where files are closed by count or size only."""
    rules = rotation_rules(settings)
    return max(0, rules.interval_ms, rules.schedule_ms, rules.idle_ms)


def _closes_by_clock(settings: Settings) -> bool:
    rules = rotation_rules(settings)
    return max(rules.schedule_ms, rules.idle_ms) > 0


def _group(settings: Settings, brokers: KafkaBrokers) -> CheckResult:
    group = group_of(settings)
    tried, off = f"group {group}", "set consumer.group.mirror.enable=false."
    try:
        rights, members = retried_while_unavailable(lambda: (brokers.group_rights(group), brokers.group_members(group)))
    except SourceError as error:
        return AREA.warning(
            tried, f"its offsets may not be committable: {error}", f"Grant READ and DESCRIBE on it, or {off}"
        )
    if rights and "READ" not in rights:
        return AREA.warning(
            tried,
            "may not be committed to; lag tools will not see this sink.",
            f"Grant READ on group {group}, or {off}",
        )
    if members:
        detail = f"has members ({', '.join(members[:3])}): Kafka refuses other commits while a connector or consumer runs in it."
        return AREA.warning(tried, detail, f"Stop them (two sinks would write the same objects), or {off}")
    return AREA.ok(tried, "may be committed to, has no members")


def retried_while_unavailable(request: Callable[[], T], *, sleep: Callable[[float], None] = time.sleep) -> T:
    """The answer; a broker that has just started refuses requests about groups for a moment."""
    for _ in range(TRIES - 1):
        try:
            return request()
        except KafkaUnavailable:
            sleep(PAUSE_S)
    return request()


def _dead_letters(settings: Settings, brokers: KafkaBrokers) -> CheckResult:
    name = settings.text("errors.deadletterqueue.topic.name")
    replication = settings.number("errors.deadletterqueue.topic.replication.factor")
    tried = f"dead letter topic {name}"
    try:
        if name not in brokers.describe([name]):
            brokers.check_creation(name, replication=replication)
            return AREA.ok(tried, f"does not exist yet and may be created with {replication} replicas")
        rights, topic = brokers.topic_rights(name), brokers.topic_settings(name)
    except SourceError as error:
        remedy = (
            "Create the topic by hand, grant CREATE on it, or correct errors.deadletterqueue.topic.replication.factor."
        )
        return AREA.failed(tried, str(error), remedy)
    if rights and "WRITE" not in rights:
        return AREA.failed(tried, "may not be written to.", f"Grant WRITE on topic {name} to this client.")
    if "compact" in topic.get("cleanup.policy", ""):
        detail = "is compacted: it refuses records without a key, and drops all but the last of a key."
        return AREA.failed(tried, detail, f"Set cleanup.policy=delete on topic {name}.")
    return AREA.ok(tried, "exists, may be written to, is not compacted")


def check_reader(settings: Settings, brokers: KafkaBrokers, reach: Reach) -> Iterator[CheckResult]:
    """One finding; none where the brokers or the topics are out of reach, which is reported already."""
    configured = settings.text("kafka.reader")
    if settings.text("tasks.run.on") == "driver":
        yield AREA.ok(READER, f"{BY_SPARK}: tasks.run.on=driver says that tasks have no network.")
    elif configured == "spark":
        yield AREA.ok(READER, f"{BY_SPARK}, as kafka.reader=spark says.")
    elif (place := _any_place(settings, brokers)) is not None:
        yield _judged(configured, place, reach(settings, place))
    if configured != "tasks":
        yield from _login_of_spark(settings)


def _login_of_spark(settings: Settings) -> Iterator[CheckResult]:
    """Java's client cannot be tried without Spark: what is known to keep it out is reported."""
    mechanism = settings.text(f"{CONSUMER}sasl.mechanism")
    if settings.text(f"{CONSUMER}security.protocol").startswith("SASL_") and mechanism in NEEDS:
        url = settings.text(f"{CONSUMER}sasl.oauthbearer.token.endpoint.url")
        yield AREA.ok(
            f"login of Spark's own source, {mechanism}", f"not tried here: it {NEEDS[mechanism].format(url=url)}"
        )


def _judged(configured: str, place: TopicPartition, reason: str | None) -> CheckResult:
    if reason is None:
        remedy = "Whether Spark's tasks reach the brokers, too, is tried at the start." if configured == "auto" else ""
        return AREA.ok(READER, f"librdkafka reaches {place} from here: the tasks can read by themselves.", remedy)
    detail = f"librdkafka cannot read {place} from here: {reason}"
    if configured == "auto":
        return AREA.ok(READER, f"{detail} {BY_SPARK}, unless the tasks find a way.")
    return AREA.failed(READER, detail, "Set kafka.reader=auto or spark, or mend it.")


def _any_place(settings: Settings, brokers: KafkaBrokers) -> TopicPartition | None:
    try:
        brokers.cluster_id()
        topics = brokers.describe(wanted_topics(settings, brokers)).values()
    except SourceError:
        return None
    return next((TopicPartition(topic.name, topic.partitions[0]) for topic in topics if topic.partitions), None)
