"""What do the brokers know, and what is written to them? The only module that speaks to Kafka outside of reading and producing records.

Metadata (topics, heads, offsets by time), the mirrored consumer group, topics that are made and deleted, messages that are produced, and
whether a log is still the one that was read, by leader epoch (KIP-320).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientTopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from kafka_s3.kafka.clients import Clients, silent, unanswered
from kafka_s3.kafka.producing import produce
from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.offsets import LogEnd, TopicPartition
from kafka_s3.model.protocols import MIRRORED, Message, Refusal, Topic
from kafka_s3.model.timing import Backoff

LOOK_S: Final = 0.2


def wait_until_ready(bootstrap_servers: str, timeout_s: float) -> None:
    """Returns once a broker answers; raises KafkaUnavailable after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0}, logger=silent())
    while True:
        try:
            if admin.list_topics(timeout=2).brokers:
                return
        except KafkaException:
            pass
        if time.monotonic() > deadline:
            raise KafkaUnavailable(f"No Kafka broker answered at {bootstrap_servers} within {timeout_s:.0f} s.")
        time.sleep(LOOK_S)


def any_broker_answers(clients: Clients, *, within_s: float) -> bool:
    """Whether any broker sends a response within so many seconds, however long it takes for the next ones.

    Only librdkafka's statistics say so: no request is complete before a broker has answered several.
    """
    received = 0

    def count(statistics: str) -> None:
        nonlocal received
        received = sum(broker["rx"] for broker in json.loads(statistics)["brokers"].values())

    admin, deadline = clients.counting_admin(count), time.monotonic() + within_s
    asked = admin.describe_cluster(request_timeout=within_s)
    while not received and not asked.done() and time.monotonic() < deadline:
        admin.poll(LOOK_S)
    return bool(received) or (asked.done() and asked.exception() is None)


EPOCH_GROUP: Final = "kafka-s3-epochs"
EPOCH_SETTINGS: Final = {"auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"}
"""Without a reset policy librdkafka says where a log was cut in the words of an error alone; a record of any transaction shows the cut."""
POLL_SECONDS: Final = 0.5


def cut_logs(
    consumer: Consumer, positions: Mapping[TopicPartition, LogEnd], *, timeout_s: float
) -> dict[TopicPartition, int]:
    """Those that were cut before a position, and the offset up to which they are what they were. Raises KafkaUnavailable.

    librdkafka asks the brokers (OffsetForLeaderEpoch) before it fetches from an offset that comes with an epoch; no call does that alone.
    Where the log was cut before the offset, it fetches from the cut instead, as every consumer with a reset policy does. So the offsets are
    assigned, and the offset of what comes first, a record or the end of the log, is the answer. The consumer is one of these
    `EPOCH_SETTINGS`. Offsets without a record at the cut (compacted away since, or of a transaction's marker) count as uncut: nothing new
    is there.
    """
    consumer.assign([ClientTopicPartition(*tp, end.offset, leader_epoch=end.epoch) for tp, end in positions.items()])
    waiting, found, until = set(positions), dict[TopicPartition, int](), time.monotonic() + timeout_s
    while waiting:
        if time.monotonic() > until:
            names = ", ".join(map(str, sorted(waiting)))
            raise unanswered(
                f"Kafka did not say within {timeout_s:.0f} s whether these logs are still the same: {names}."
            )
        message = consumer.poll(POLL_SECONDS)
        if message is None:
            continue
        tp, error = TopicPartition(message.topic() or "", message.partition() or 0), message.error()
        if tp not in waiting or (error is not None and error.code() != KafkaError._PARTITION_EOF):
            continue
        waiting.discard(tp)
        consumer.incremental_unassign([ClientTopicPartition(*tp)])
        if (at := message.offset() or 0) < positions[tp].offset:
            found[tp] = at
    return found


INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""What Kafka's consumers leave out of a pattern (`exclude.internal.topics`); other names may begin with `__`."""
GONE: Final = frozenset({
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_ID,
})  # fmt: skip
"""Errors of one topic-partition, and of no other."""
COORDINATOR_SECONDS: Final = 5.0
"""A request to a group whose coordinator is only being made waits in vain, however long; the next one finds it."""
QUICK_SECONDS, FIRST_ANSWER_SECONDS = 1.0, 4.0
"""How long the first request may take before it is asked whether anybody is there, and for how long that is asked: a person waits."""
RETRY: Final = Backoff(first_ms=100, longest_ms=2000)


def _operations(description: Any) -> frozenset[str]:
    return frozenset(operation.name for operation in description.authorized_operations or ())


class KafkaBrokers:
    """A cluster's metadata and its small writes. Thread-compatible.

    Every method raises KafkaUnavailable where the brokers do not answer within `default.api.timeout.ms` (30 seconds unless given), and
    where none of them answers at first within 5 seconds; SourceError where they refuse.
    """

    def __init__(self, bootstrap_servers: str, *, properties: Mapping[str, str] | None = None) -> None:
        self.clients = Clients(bootstrap_servers, properties or {})
        self._seconds = self.clients.seconds
        self._admin = self.clients.admin()
        self._answered = False
        self._leaderless: frozenset[TopicPartition] = frozenset()
        self._isolation = (
            IsolationLevel.READ_COMMITTED
            if self.clients.isolation == "read_committed"
            else IsolationLevel.READ_UNCOMMITTED
        )

    def cluster_id(self) -> str:
        """The cluster's id."""
        description = self._answer(
            self._reached().describe_cluster(request_timeout=self._seconds), "describe the cluster"
        )
        return str(description.cluster_id)

    def racks(self) -> dict[int, str]:
        """By broker its rack, blank where it has none."""
        description = self._answer(
            self._reached().describe_cluster(request_timeout=self._seconds), "describe the cluster"
        )
        return {node.id: node.rack or "" for node in description.nodes}

    def topic_names(self) -> list[str]:
        """All topics but the brokers' internal ones, sorted."""
        try:
            metadata = self._reached().list_topics(timeout=self._seconds)
        except KafkaException as error:
            raise self._error(error.args[0], "list topics") from error
        return sorted(name for name in metadata.topics if name not in INTERNAL)

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """The topics of these names that exist."""
        if not names:
            return {}
        futures = self._reached().describe_topics(TopicCollection(list(names)), request_timeout=self._seconds)
        found = {}
        for name, future in futures.items():
            try:
                description = future.result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise self._error(error.args[0], f"describe topic {name}") from error
            partitions = tuple(sorted(p.id for p in description.partitions))
            found[name] = Topic(name, str(description.topic_id), partitions)
        return found

    def heads(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the offset after the last readable record (the last stable offset under `read_committed`)."""
        return {tp: end.offset for tp, end in self.ends(partitions).items()}

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """The same with the leader epoch that the log has there."""
        return self._ends({tp: OffsetSpec.latest() for tp in partitions}, "read the end offsets")

    def cut_before(self, positions: Mapping[TopicPartition, LogEnd]) -> dict[TopicPartition, int]:
        """Which logs were cut before a position that was known once, and up to which offset they are what they were."""
        if not positions:
            return {}
        consumer = self.clients.consumer(EPOCH_GROUP, EPOCH_SETTINGS)
        try:
            return cut_logs(consumer, positions, timeout_s=self._seconds)
        finally:
            consumer.close()

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the first offset that Kafka still has."""
        return self._offsets({tp: OffsetSpec.earliest() for tp in partitions}, "read the start offsets")

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Per topic-partition the first offset whose record timestamp (epoch ms) is at or after the given one, None where there is none."""
        found = self._offsets({tp: OffsetSpec.for_timestamp(ms) for tp, ms in times.items()}, "look up offsets by time")
        return {tp: offset if offset >= 0 else None for tp, offset in found.items()}

    def group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that a consumer group has committed of these topic-partitions."""
        return {tp: offset for tp, (offset, _) in self.group_progress(group, partitions).items()}

    def group_progress(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The offsets that a consumer group has committed of these topic-partitions, each with its metadata.

        Asked by a consumer: librdkafka's admin client crashes where the group's coordinator is still loading or has moved.
        """
        wanted = [ClientTopicPartition(tp.topic, tp.partition) for tp in partitions]
        if not wanted:
            return {}
        self._reached()
        consumer = self.clients.consumer(group)
        try:
            found = consumer.committed(wanted, timeout=self._seconds)
        except KafkaException as error:
            raise self._error(error.args[0], f"read the offsets of group {group}") from error
        finally:
            consumer.close()
        for answer in found:
            if answer.error is not None and answer.error.code() not in GONE:
                raise self._error(answer.error, f"read the offsets of group {group}")
        good = (p for p in found if p.error is None and p.offset >= 0)
        return {TopicPartition(p.topic, p.partition): (p.offset, p.metadata or "") for p in good}

    def group_members(self, group: str) -> list[str]:
        """The live members of a consumer group, `client id at host`; none where there is no such group."""
        (future,) = self._reached().describe_consumer_groups([group], request_timeout=self._seconds).values()
        try:
            description = future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            raise self._error(error.args[0], f"describe group {group}") from error
        return sorted(f"{member.client_id} at {member.host}" for member in description.members)

    def topic_rights(self, name: str) -> frozenset[str]:
        """What this client may do with a topic, by Kafka's names (`READ`, `WRITE`, ...); empty where the brokers do not say."""
        names = TopicCollection([name])
        futures = self._reached().describe_topics(
            names, include_authorized_operations=True, request_timeout=self._seconds
        )
        return _operations(self._answer(futures[name], f"describe topic {name}"))

    def group_rights(self, group: str) -> frozenset[str]:
        """What this client may do with a consumer group, whether there is one or not; empty where the brokers do not say."""
        (future,) = (
            self._reached()
            .describe_consumer_groups([group], include_authorized_operations=True, request_timeout=self._seconds)
            .values()
        )
        return _operations(self._answer(future, f"describe group {group}"))

    def topic_settings(self, name: str) -> dict[str, str]:
        """The settings in effect for a topic, as `retention.ms` and `cleanup.policy`."""
        request = [ConfigResource(ResourceType.TOPIC, name)]
        (future,) = self._reached().describe_configs(request, request_timeout=self._seconds).values()
        entries = self._answer(future, f"describe the settings of topic {name}")
        return {key: entry.value for key, entry in entries.items() if entry.value is not None}

    def check_creation(self, name: str, *, replication: int) -> None:
        """Asks whether a topic of one partition could be created, and creates nothing. Raises SourceError with the brokers' reason."""
        topic = NewTopic(name, num_partitions=1, replication_factor=replication)
        (future,) = self._reached().create_topics([topic], validate_only=True, request_timeout=self._seconds).values()
        self._answer(future, f"accept the creation of topic {name} with {replication} replicas")

    def commit_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the committed offsets of a consumer group that has no members, without those of topic-partitions that are gone."""
        wanted = [ClientTopicPartition(*tp, offset, metadata=MIRRORED) for tp, offset in offsets.items()]
        until, failures = time.monotonic() + self._seconds, 0
        while wanted:
            try:
                return self._commit_group(group, wanted)
            except KafkaUnavailable:  # a group's coordinator may have moved, or not be there yet
                if time.monotonic() > until:
                    raise
                failures += 1
                time.sleep(RETRY.pause_ms(failures) / 1000)

    def _commit_group(self, group: str, wanted: list[ClientTopicPartition]) -> None:
        request, doing = [ConsumerGroupTopicPartitions(group, wanted)], f"commit the offsets of group {group}"
        patience = min(self._seconds, COORDINATOR_SECONDS)
        (future,) = self._reached().alter_consumer_group_offsets(request, request_timeout=patience).values()
        for answer in self._answer(future, doing).topic_partitions:
            if answer.error is not None and answer.error.code() not in GONE:
                raise self._error(answer.error, doing)

    def create_topic(
        self, name: str, *, partitions: int = 1, replication: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Creates a topic, and waits until its partitions have leaders; one that exists already is left as it is."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config or {}))
        (future,) = self._reached().create_topics([topic], request_timeout=self._seconds).values()
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._error(error.args[0], f"create topic {name}") from error
            return
        wanted = frozenset(TopicPartition(name, number) for number in range(partitions))
        until, looks = time.monotonic() + self._seconds, 0
        while self._without_leader(wanted) and time.monotonic() < until:
            looks += 1
            time.sleep(RETRY.pause_ms(looks) / 1000)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        (future,) = self._reached().delete_topics([name], request_timeout=self._seconds).values()
        self._answer(future, f"delete topic {name}")

    def produce(self, topic: str, messages: Iterable[Message], *, replication: int) -> list[Refusal]:
        """Produces messages, creating the topic (one partition) where it is missing; returns when all are acknowledged or refused."""
        if topic not in self.describe([topic]):
            self.create_topic(topic, replication=replication)
        return produce(self.clients, topic, messages)

    def _reached(self) -> AdminClient:
        """The client, of a cluster that has answered before. Raises KafkaUnavailable as `_wait_for_first` does."""
        if not self._answered:
            asked = self._admin.describe_cluster(request_timeout=self._seconds)
            self._wait_for_first(asked)
            self._answer(asked, "describe the cluster")
            self._answered = True
        return self._admin

    def _wait_for_first(self, asked: Future[Any]) -> None:
        """Waits for an answer as long as for any, if the cluster is only slow.

        Raises KafkaUnavailable where none of it answers within 5 seconds, or only that the login fails.
        """
        until = time.monotonic() + QUICK_SECONDS + FIRST_ANSWER_SECONDS
        wait([asked], timeout=QUICK_SECONDS)
        answers = asked.done() or any_broker_answers(self.clients, within_s=FIRST_ANSWER_SECONDS)
        while not asked.done():
            self._admin.poll(0.1)
            if time.monotonic() >= until and (self.clients.login_fails or not answers):
                why = "the login fails" if self.clients.login_fails else self.clients.trouble
                cause = KafkaError(KafkaError._TIMED_OUT, why)
                raise self._error(cause, f"answer within {QUICK_SECONDS + FIRST_ANSWER_SECONDS:g} s")

    def _offsets(self, specs: Mapping[TopicPartition, OffsetSpec], doing: str) -> dict[TopicPartition, int]:
        return {tp: end.offset for tp, end in self._ends(specs, doing).items()}

    def _ends(self, specs: Mapping[TopicPartition, OffsetSpec], doing: str) -> dict[TopicPartition, LogEnd]:
        """The answers by topic-partition, without those that are not there or that nobody leads.

        librdkafka waits in vain for leaders, for all at once: so who has none is looked up where it failed, and left out from then on.
        """
        if self._leaderless:
            self._leaderless = self._without_leader(self._leaderless)
        try:
            return self._list_offsets({tp: spec for tp, spec in specs.items() if tp not in self._leaderless}, doing)
        except KafkaUnavailable as error:
            found = self._without_leader(frozenset(specs)) - self._leaderless
            if not found and not _is_of_old_metadata(error):
                raise
            self._leaderless |= found
        return self._list_offsets({tp: spec for tp, spec in specs.items() if tp not in self._leaderless}, doing)

    def _list_offsets(self, specs: Mapping[TopicPartition, OffsetSpec], doing: str) -> dict[TopicPartition, LogEnd]:
        if not specs:
            return {}
        request = {ClientTopicPartition(tp.topic, tp.partition): spec for tp, spec in specs.items()}
        futures = self._reached().list_offsets(request, isolation_level=self._isolation, request_timeout=self._seconds)
        found: dict[TopicPartition, LogEnd] = {}
        for tp, future in futures.items():
            try:
                answer = future.result()
                # what librdkafka gives, without an error, where the leader went just now
                if answer.offset == OFFSET_INVALID:
                    continue
                epoch = None if answer.leader_epoch is None or answer.leader_epoch < 0 else int(answer.leader_epoch)
                found[TopicPartition(tp.topic, tp.partition)] = LogEnd(int(answer.offset), epoch)
            except KafkaException as error:
                if error.args[0].code() not in GONE:
                    raise self._error(error.args[0], doing) from error
        return found

    def _without_leader(self, wanted: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Those that the cluster does not have, or that no broker leads."""
        try:
            topics = self._reached().list_topics(timeout=self._seconds).topics
        except KafkaException as error:
            raise self._error(error.args[0], "list topics") from error
        led = {
            TopicPartition(name, number)
            for name, topic in topics.items()
            for number, partition in topic.partitions.items()
            if partition.leader >= 0
        }
        return wanted - led

    def _answer(self, future: Future[Any], doing: str) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            raise self._error(error.args[0], doing) from error

    def _error(self, cause: KafkaError, doing: str) -> SourceError:
        self._admin.poll(0)
        found = self.clients.error(cause, doing)
        if isinstance(found, KafkaUnavailable):
            # after a broker's restart librdkafka's admin client may send the old leader epoch, or wait for its coordinator, for good
            self._admin = self.clients.admin()
        return found


def _is_of_old_metadata(error: KafkaUnavailable) -> bool:
    """Whether librdkafka remembers a topic from when it was not there, or a leader from before a restart.

    It forgets the first where all topics are listed; the second is forgotten with the client, and there is a new one.
    """
    cause = error.__cause__
    old = (KafkaError._NOENT, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH)
    return isinstance(cause, KafkaException) and cause.args[0].code() in old
