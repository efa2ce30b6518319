"""Who would read the records here, and why? The tasks' reader is tried in this process: it needs a way to the brokers, and the login."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kafka_s3.connect.config.jaas import IAM_MECHANISM
from kafka_s3.connect.config.options.client import CONSUMER
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.doctor.finding import Area, CheckResult
from kafka_s3.ops.doctor.kafka import KafkaView, wanted_topics

AREA: Final = Area("kafka")
TRIED: Final = "reader"
BY_SPARK: Final = "Spark's own Kafka source reads"
NEEDS: Final = {
    IAM_MECHANISM: "needs software.amazon.msk:aws-msk-iam-auth on the class path of Spark's JVMs (--packages); Databricks has it.",
    "OAUTHBEARER": "of Kafka 4 and later needs {url} in -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls of Spark's JVMs.",
}
"""What Java's client wants beyond the configuration, by mechanism."""
Reach = Callable[[Settings, TopicPartition], str | None]
"""Why this process cannot read a topic-partition with librdkafka; None: it can."""


def check_reader(settings: Settings, brokers: KafkaView, reach: Reach) -> Iterator[CheckResult]:
    """One finding; none where the brokers or the topics are out of reach, which is told already."""
    configured = settings.text("kafka.reader")
    if settings.text("tasks.run.on") == "driver":
        yield AREA.ok(TRIED, f"{BY_SPARK}: tasks.run.on=driver says that tasks have no network.")
    elif configured == "spark":
        yield AREA.ok(TRIED, f"{BY_SPARK}, as kafka.reader=spark says.")
    elif (place := _any_place(settings, brokers)) is not None:
        yield _tried(configured, place, reach(settings, place))
    if configured != "tasks":
        yield from _login_of_spark(settings)


def _login_of_spark(settings: Settings) -> Iterator[CheckResult]:
    """Java's client cannot be tried without Spark: what is known to keep it out is said."""
    mechanism = settings.text(f"{CONSUMER}sasl.mechanism")
    if settings.text(f"{CONSUMER}security.protocol").startswith("SASL_") and mechanism in NEEDS:
        url = settings.text(f"{CONSUMER}sasl.oauthbearer.token.endpoint.url")
        yield AREA.ok(
            f"login of Spark's own source, {mechanism}", f"not tried here: it {NEEDS[mechanism].format(url=url)}"
        )


def _tried(configured: str, place: TopicPartition, reason: str | None) -> CheckResult:
    if reason is None:
        remedy = "Whether Spark's tasks reach the brokers, too, is tried at the start." if configured == "auto" else ""
        return AREA.ok(TRIED, f"librdkafka reaches {place} from here: the tasks can read by themselves.", remedy)
    detail = f"librdkafka cannot read {place} from here: {reason}"
    if configured == "auto":
        return AREA.ok(TRIED, f"{detail} {BY_SPARK}, unless the tasks find a way.")
    return AREA.failed(TRIED, detail, "Set kafka.reader=auto or spark, or mend it.")


def _any_place(settings: Settings, brokers: KafkaView) -> TopicPartition | None:
    try:
        brokers.cluster_id()
        topics = brokers.describe(wanted_topics(settings, brokers)).values()
    except SourceError:
        return None
    return next((TopicPartition(topic.name, topic.partitions[0]) for topic in topics if topic.partitions), None)
