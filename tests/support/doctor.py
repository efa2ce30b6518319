"""A cluster and a bucket as somebody might have left them, and what the doctor finds there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_s3.connect.config.validate import validate
from kafka_s3.model.errors import KafkaUnavailable, SourceError, StorageError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Topic
from kafka_s3.ops.doctor.diagnosis import ClientFactories, diagnose
from kafka_s3.ops.doctor.findings import CheckResult, CheckStatus
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import BucketAnswer, LifecycleRule, ObjectStore
from tests.support.memory_world import BASE

DAY_MS = 86_400_000

ALL = frozenset({"READ", "WRITE", "DESCRIBE"})

ROTATING = {**BASE, "flush.size": "100", "flush.idle.ms": "3600000"}


@dataclass
class Cluster:
    """A cluster as its administrator might have left it."""

    topics: dict[str, dict[str, str]] = field(default_factory=lambda: {"orders": {"retention.ms": str(7 * DAY_MS)}})
    rights: dict[str, frozenset[str]] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    creation: SourceError | None = None
    settings_refused: bool = False
    down: bool = False

    def cluster_id(self) -> str:
        if self.down:
            raise KafkaUnavailable("Kafka at memory:9092 did not describe the cluster.")
        return "cluster-1"

    def topic_names(self) -> list[str]:
        return sorted(self.topics)

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        return {name: Topic(name, "id", (0, 1)) for name in names if name in self.topics}

    def topic_rights(self, name: str) -> frozenset[str]:
        return self.rights.get(name, ALL)

    def topic_settings(self, name: str) -> Mapping[str, str]:
        if self.settings_refused:
            raise SourceError("Kafka did not describe the settings: TOPIC_AUTHORIZATION_FAILED.")
        return {"cleanup.policy": "delete", **self.topics[name]}

    def group_rights(self, group: str) -> frozenset[str]:
        return self.rights.get(group, ALL)

    def group_members(self, group: str) -> list[str]:
        return self.members

    def group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.committed[tp] for tp in partitions if tp in self.committed}

    def check_creation(self, name: str, *, replication: int) -> None:
        if self.creation is not None:
            raise self.creation


@dataclass
class Facts:
    """A bucket as its owner might have set it up."""

    answer: BucketAnswer = field(default_factory=lambda: BucketAnswer("us-west-2", 0))
    rules: tuple[LifecycleRule, ...] = ()
    state: str = ""
    rules_refused: StorageError | None = None

    def ask(self) -> BucketAnswer:
        return self.answer

    def lifecycle(self) -> tuple[LifecycleRule, ...]:
        if self.rules_refused is not None:
            raise self.rules_refused
        return self.rules

    def versioning(self) -> str:
        return self.state


def diagnosed(
    config: Mapping[str, str] = ROTATING,
    *,
    cluster: Cluster | None = None,
    facts: Facts | None = None,
    store: ObjectStore | None = None,
    reach: str | None = None,
) -> list[CheckResult]:
    kafka, bucket, objects = cluster or Cluster(), facts or Facts(), store or MemoryStore()
    services = ClientFactories(
        lambda settings: kafka, lambda options: objects, lambda options: bucket, lambda settings, place: reach
    )
    return list(diagnose(validate(config), services))


def of(findings: Sequence[CheckResult], words: str) -> CheckResult:
    (found,) = (finding for finding in findings if words in finding.tried)
    return found


def bad(findings: Sequence[CheckResult]) -> dict[str, CheckStatus]:
    return {finding.tried: finding.status for finding in findings if finding.status is not CheckStatus.OK}
