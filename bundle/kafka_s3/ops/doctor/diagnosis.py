"""Would this sink run here? In which order is everything tried that it will need, and when is it no use to go on?

The configuration comes first: what `kafka-s3 validate` reports, and whether its references can be resolved here.
Nothing of Kafka is changed; permissions on the bucket are tried by using them, on objects of the check's own, removed afterwards. Java's
client, with which Spark reads, cannot be tried without Spark.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kafka_s3.connect.config.jaas import IAM_MECHANISM
from kafka_s3.connect.config.librdkafka import AUTO_RACK, RACK
from kafka_s3.connect.config.options.client import CONSUMER
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import CheckedConfig, resolved
from kafka_s3.engine.loop.topics import names_like
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.zone import VARIABLE, Zone, own_zone
from kafka_s3.model.errors import (
    ConfigError,
    KafkaUnavailable,
    LogDamaged,
    PreconditionFailed,
    Problem,
    SourceError,
    StorageError,
)
from kafka_s3.model.files import Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Topic
from kafka_s3.ops.doctor.findings import Area, CheckResult, CheckStatus
from kafka_s3.ops.doctor.registry import check_registry
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import group_of, wanted_topics
from kafka_s3.run.wiring.first_start import find_earlier_writer
from kafka_s3.run.wiring.pipeline import object_names, rotation_rules, state_paths
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.store import BucketAnswer, BucketFacts, LifecycleRule, ObjectStore

RIGHTS: Final = Area("rights")
CONTENT: Final = b"kafka-s3 doctor tries its rights here; this object may be deleted\n"
EXACTLY_ONCE: Final = (
    "The store has to refuse a put with If-None-Match: * where an object exists; use a service that does, or exactly-once is "
    "impossible."
)
BUCKET: Final = Area("bucket")
SKEW_TO_MENTION_MS: Final = 5_000
SKEW_REFUSED_MS: Final = 15 * 60_000
"""From here on S3 refuses every signature."""
LEAST_ABORT_DAYS: Final = 2
ADVISED_ABORT_DAYS: Final = 7
AS_IN: Final = "a committed file may wait for its completion while the sink is down"


def check_answer(answer: BucketAnswer, options: StoreOptions) -> Iterator[CheckResult]:
    """Whether the bucket can be reached where the configuration says, and how far its clock is from ours, where it sends its time."""
    yield _reached(answer, options)
    if answer.skew_ms is not None:
        yield _clock(answer.skew_ms)


def check_rules(facts: BucketFacts, *, state_root: str, prefixes: Sequence[str]) -> Iterator[CheckResult]:
    """Lifecycle rules and versioning of a bucket that can be reached. `prefixes` are those of every object of the sink."""
    yield from _lifecycle(facts, state_root, prefixes)
    yield _versioning(facts)


def _reached(answer: BucketAnswer, options: StoreOptions) -> CheckResult:
    tried = f"s3://{options.bucket}"
    if answer.refusal is not None:
        return BUCKET.failed(tried, str(answer.refusal))
    if answer.region and answer.region != options.region:
        detail = (
            f"is in region {answer.region}, not in {options.region}: every request may be sent twice, or be refused."
        )
        return BUCKET.warning(f"region of {tried}", detail, f"Set s3.region={answer.region}.")
    return BUCKET.ok(tried, f"answers, region {answer.region or 'not given'}")


def _clock(skew_ms: int) -> CheckResult:
    tried = "clock of this machine against the bucket's"
    detail = f"{abs(skew_ms) / 1000:.0f} s {'behind' if skew_ms > 0 else 'ahead'}"
    remedy = "Set this machine's clock (NTP)."
    if abs(skew_ms) > SKEW_REFUSED_MS:
        return BUCKET.failed(tried, f"{detail}: S3 refuses requests beyond 15 minutes.", remedy)
    if abs(skew_ms) > SKEW_TO_MENTION_MS:
        return BUCKET.warning(tried, f"{detail}: rotation by schedule and upload ages go by it.", remedy)
    return BUCKET.ok(tried, "within 5 s")


def _lifecycle(facts: BucketFacts, state_root: str, prefixes: Sequence[str]) -> Iterator[CheckResult]:
    try:
        rules = facts.lifecycle()
    except StorageError as error:
        remedy = (
            "Grant s3:GetLifecycleConfiguration to have the rules checked, or see that none removes incomplete uploads within "
            f"{LEAST_ABORT_DAYS} days or objects below {state_root}."
        )
        yield BUCKET.warning("lifecycle rules", str(error), remedy)
        return
    yield _incomplete_uploads(rules, prefixes)
    harmful = [rule for rule in rules if _removes(rule) and rule.meets(state_root)]
    yield from (_state_rule(rule, state_root) for rule in harmful)
    if not harmful:
        yield BUCKET.ok(f"lifecycle of {state_root}", "no rule removes or moves the commit log")


def _removes(rule: LifecycleRule) -> bool:
    return (rule.expires or rule.transitions) and not rule.tagged  # the sink's state has no tags


def _state_rule(rule: LifecycleRule, state_root: str) -> CheckResult:
    done = "expires" if rule.expires else "moves"
    where = f"objects below {rule.prefix!r}" if rule.prefix else "all objects"
    detail = f"rule {rule.name!r} {done} {where}, and so the commit log: without it the sink writes everything again."
    return BUCKET.failed(
        f"lifecycle of {state_root}",
        detail,
        "Give the rule a prefix of the data only, or set state.prefix to another folder.",
    )


def _incomplete_uploads(rules: Sequence[LifecycleRule], prefixes: Sequence[str]) -> CheckResult:
    tried = "lifecycle of incomplete uploads"
    acting = [rule for rule in rules if rule.abort_days is not None and any(map(rule.meets, prefixes))]
    if not acting:
        advice = f"A rule that aborts them after {ADVISED_ABORT_DAYS} days or more saves the storage; kafka-s3 sweep does it by hand."
        return BUCKET.ok(tried, "no rule aborts those that crashed tasks leave.", advice)
    shortest = min(acting, key=lambda rule: rule.abort_days or 0)
    detail = f"rule {shortest.name!r} aborts them after {shortest.abort_days} days"
    if (shortest.abort_days or 0) < LEAST_ABORT_DAYS:
        return BUCKET.warning(tried, f"{detail}: {AS_IN}.", f"Make it {ADVISED_ABORT_DAYS} days or more.")
    return BUCKET.ok(tried, detail)


def _versioning(facts: BucketFacts) -> CheckResult:
    try:
        state = facts.versioning()
    except StorageError as error:
        return BUCKET.ok("versioning", f"not known: {error}", "It makes no difference to the sink.")
    if state == "Enabled":
        advice = "Old versions of state objects stay; a rule for noncurrent versions removes them."
        return BUCKET.ok("versioning", "on.", advice)
    return BUCKET.ok("versioning", "suspended" if state else "off")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What beyond the ordinary the sink will ask: a canned ACL, tags, uploads below a folder of data, a folder whose objects it removes."""

    acl: str | None = None
    tags: bool = False
    data_prefix: str | None = None
    open_states: str | None = None


@dataclass
class Probe:
    """One round of trying, on keys below `folder` that nobody else has."""

    store: ObjectStore
    folder: str
    wanted: Wanted
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    _uploads: list[tuple[str, str]] = field(default_factory=list)
    _may_be_there: bool = False

    @property
    def key(self) -> str:
        """The object that is put."""
        return f"{self.folder}{self.name}"

    def findings(self) -> Iterator[CheckResult]:
        """One finding a permission, then what became of the probe objects: they are removed whatever was found."""
        try:
            yield from self._objects()
            yield from self._multipart()
            if self.wanted.data_prefix is not None:
                yield self._data_upload(f"{self.wanted.data_prefix}kafka-s3-doctor-{self.name}")
            if self.wanted.open_states is not None:
                yield self._open_states_deleted(self.wanted.open_states)
        finally:
            leftovers = self._removed()
        yield leftovers

    def _objects(self) -> Iterator[CheckResult]:
        put = self._put()
        self._may_be_there = put.status is not CheckStatus.FAILED
        yield put
        yield _request("ListBucket", "s3:ListBucket", lambda: next(iter(self.store.list(self.folder)), None))
        if put.status is CheckStatus.FAILED:
            return
        yield _request("GetObject", "s3:GetObject", self._got)
        yield self._conditional_put()
        yield _request("PutObject over an object", "s3:PutObject", lambda: self.store.put(self.key, CONTENT))
        if self.wanted.tags:
            yield _request(
                "PutObjectTagging", "s3:PutObjectTagging", lambda: self.store.tag(self.key, {"kafka-s3": "doctor"})
            )

    def _put(self) -> CheckResult:
        acl = self.wanted.acl
        tried = f"PutObject with ACL {acl}" if acl else "PutObject"
        action = "s3:PutObject, and s3:PutObjectAcl for s3.acl.canned" if acl else "s3:PutObject"
        return _request(tried, action, lambda: self.store.put_new(self.key, CONTENT))

    def _got(self) -> None:
        if self.store.get(self.key) != CONTENT:
            raise StorageError(f"{self.key} came back with other content than was put.")

    def _conditional_put(self) -> CheckResult:
        tried = "conditional PutObject"
        try:
            self.store.put_new(self.key, CONTENT)
        except PreconditionFailed:
            return RIGHTS.ok(tried, "an existing object is not overwritten")
        except StorageError as error:
            return RIGHTS.failed(tried, str(error), EXACTLY_ONCE)
        return RIGHTS.failed(tried, "the store overwrote an existing object.", EXACTLY_ONCE)

    def _multipart(self) -> Iterator[CheckResult]:
        started = self._started_upload(self.key)
        yield started
        if started.status is CheckStatus.FAILED:
            return
        key, upload_id = self._uploads[-1]
        parts: list[str] = []

        def send() -> None:
            parts.append(self.store.upload_part(key, upload_id, 1, CONTENT))

        yield _request("UploadPart", "s3:PutObject", send)
        yield _request("ListParts", "s3:ListMultipartUploadParts", lambda: self._pending(key, upload_id))
        yield _request(
            "ListMultipartUploads",
            "s3:ListBucketMultipartUploads",
            lambda: next(iter(self.store.pending(self.key)), None),
        )
        if parts:
            upload = Upload(key, upload_id, tuple(parts), len(CONTENT))
            yield _request("CompleteMultipartUpload", "s3:PutObject", lambda: self._completed(upload))
        self._started_upload(self.key)
        yield _request("AbortMultipartUpload", "s3:AbortMultipartUpload", self._aborted)

    def _started_upload(self, key: str) -> CheckResult:
        def begin() -> None:
            self._uploads.append((key, self.store.create_upload(key)))

        return _request("CreateMultipartUpload", "s3:PutObject", begin)

    def _pending(self, key: str, upload_id: str) -> None:
        if not self.store.upload_exists(key, upload_id):
            raise StorageError(f"The upload {upload_id} of {key} was begun, but the store does not know it.")

    def _completed(self, upload: Upload) -> None:
        self._may_be_there = True
        self.store.complete_upload(upload)
        self._uploads.remove((upload.key, upload.id))

    def _aborted(self) -> None:
        while self._uploads:
            self.store.abort_upload(*self._uploads[-1])
            self._uploads.pop()

    def _data_upload(self, key: str) -> CheckResult:
        """Rights may be given by prefix: an upload below the data's is begun and aborted, which leaves nothing to be seen."""
        started = self._started_upload(key)
        tried = f"an upload below {self.wanted.data_prefix}"
        if started.status is CheckStatus.FAILED:
            return RIGHTS.failed(tried, started.detail, started.remedy)
        return _request(tried, "s3:AbortMultipartUpload", self._aborted)

    def _open_states_deleted(self, folder: str) -> CheckResult:
        """Deletes what is not there: without the right the sink runs, but reads records of open files again and again."""
        tried = f"DeleteObject below {folder}"
        try:
            self.store.delete(f"{folder}{self.name}")
        except StorageError as error:
            detail = f"{error} Open files are not kept between tasks, and each poll reads their records again."
            return RIGHTS.warning(tried, detail, f"Grant s3:DeleteObject on {folder}*, or set tail.state.enable=false.")
        return RIGHTS.ok(tried, "states of open files can be removed")

    def _removed(self) -> CheckResult:
        tried, left = "DeleteObject (for this check only)", []
        for key, upload_id in self._uploads:
            try:
                self.store.abort_upload(key, upload_id)
            except StorageError:
                left.append(f"upload {upload_id} of {key}")
        try:
            self.store.delete(self.key)
        except StorageError as error:
            left += [self.key] if self._may_be_there else []
            detail = f"{error} Left behind: {', '.join(left) or 'nothing'}."
            by_hand = " Remove it by hand, or grant s3:DeleteObject." if left else ""
            return RIGHTS.warning(tried, detail, f"The sink does not delete there.{by_hand}")
        if left:
            return RIGHTS.warning(
                tried, f"left behind: {', '.join(left)}.", "Grant s3:AbortMultipartUpload and run kafka-s3 sweep."
            )
        return RIGHTS.ok(tried, "the check's own objects are gone")


def _request(tried: str, action: str, request: Callable[[], object]) -> CheckResult:
    """What became of a request; its failure names the permission that it takes."""

    def run() -> None:
        request()

    return RIGHTS.tried(tried, run, remedy=f"It takes {action}.")


KAFKA: Final = Area("kafka")
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


def check_kafka(settings: Settings, brokers: KafkaBrokers) -> Generator[CheckResult, None, bool]:
    """Yield everything that the sink needs of Kafka, one finding if the brokers do not answer. Return whether they do."""
    try:
        cluster = brokers.cluster_id()
        names = wanted_topics(settings, brokers)
        found = brokers.describe(names)
    except SourceError as error:
        yield KAFKA.failed("brokers", str(error))
        return False
    yield KAFKA.ok("brokers", f"cluster {cluster} at {settings.text('kafka.bootstrap.servers')}")
    if settings.optional_text(f"{CONSUMER}{RACK}") == AUTO_RACK:
        yield _zone(own_zone(), brokers.racks())
    if not names:
        regex = settings.text("topics.regex")
        yield KAFKA.warning(
            "topics", f"no topic matches topics.regex {regex!r} yet.", "They are looked for while it runs."
        )
    for name in names:
        yield from _topic(settings, brokers, name, topic=found.get(name))
    if settings.flag("consumer.group.mirror.enable"):
        yield _group(settings, brokers)
    if settings.text("errors.deadletterqueue.topic.name"):
        yield _dead_letters(settings, brokers)
    return True


def _zone(zone: Zone | None, racks: Mapping[int, str]) -> CheckResult:
    """Whether this machine's zone is a rack of the brokers; each task's machine is asked when it reads."""
    tried, known = "zone of this machine", sorted({rack for rack in racks.values() if rack})
    if zone is None:
        remedy = f"Set the variable {VARIABLE}, or let its tasks reach AWS's instance metadata (from a container: a hop limit of 2)."
        return KAFKA.warning(
            tried, "nothing says it: tasks here read from the leaders, in whatever zone those are.", remedy
        )
    name = zone.rack_among(known)
    if name not in known:
        racks_of = f"their racks are {', '.join(known)}" if known else "they have none (broker.rack)"
        detail = f"{' or '.join(zone.names)}, by {zone.source}, is the rack of no broker: {racks_of}. Tasks here read from the leaders."
        return KAFKA.warning(
            tried, detail, f"Give the brokers racks by that name, or set the variable {VARIABLE} to one of theirs."
        )
    return KAFKA.ok(tried, f"{name}, by {zone.source}; brokers' racks: {', '.join(known)}")


def _topic(settings: Settings, brokers: KafkaBrokers, name: str, *, topic: Topic | None) -> Iterator[CheckResult]:
    tried = f"topic {name}"
    if topic is None:
        yield _missing(brokers, name)
        return
    try:
        rights = brokers.topic_rights(name)
    except SourceError as error:
        yield KAFKA.failed(tried, str(error))
        return
    if rights and "READ" not in rights:
        yield KAFKA.failed(
            tried, "may not be read.", f"Grant READ on topic {name} to this client (consumer.override.*)."
        )
    else:
        yield KAFKA.ok(tried, f"{len(topic.partitions)} partitions")
    yield _retention(settings, brokers, name)


def _missing(brokers: KafkaBrokers, name: str) -> CheckResult:
    try:
        like = names_like(name, brokers.topic_names())
    except SourceError:
        like = []
    alike = f" Names like it: {', '.join(like)}." if like else ""
    return KAFKA.failed(
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
        return KAFKA.warning(tried, str(error), f"Grant DESCRIBE_CONFIGS on topic {name} to have it checked.")
    if "delete" not in topic.get("cleanup.policy", "delete"):
        return KAFKA.ok(tried, "compacted: what is overwritten before it is read is never written.")
    kept_ms, wait_ms = int(topic.get("retention.ms", UNLIMITED)), longest_wait_ms(settings)
    if kept_ms == UNLIMITED:
        return KAFKA.ok(tried, "unlimited")
    if kept_ms < SAFETY * wait_ms:
        detail = (
            f"retention.ms={kept_ms} is less than twice the longest rotation interval ({wait_ms} ms): Kafka may delete records that no "
            "object holds yet."
        )
        return KAFKA.warning(tried, detail, f"Set retention.ms to {SAFETY * wait_ms} or more, or rotate more often.")
    quiet = (
        ""
        if _closes_by_clock(settings)
        else "A tail that no rotation rule closes waits in Kafka no longer than that; flush.idle.ms closes it."
    )
    return KAFKA.ok(tried, f"retention.ms={kept_ms}", quiet)


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
        return KAFKA.warning(
            tried, f"its offsets may not be committable: {error}", f"Grant READ and DESCRIBE on it, or {off}"
        )
    if rights and "READ" not in rights:
        return KAFKA.warning(
            tried,
            "may not be committed to; lag tools will not see this sink.",
            f"Grant READ on group {group}, or {off}",
        )
    if members:
        detail = f"has members ({', '.join(members[:3])}): Kafka refuses other commits while a connector or consumer runs in it."
        return KAFKA.warning(tried, detail, f"Stop them (two sinks would write the same objects), or {off}")
    return KAFKA.ok(tried, "may be committed to, has no members")


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
            return KAFKA.ok(tried, f"does not exist yet and may be created with {replication} replicas")
        rights, topic = brokers.topic_rights(name), brokers.topic_settings(name)
    except SourceError as error:
        remedy = (
            "Create the topic by hand, grant CREATE on it, or correct errors.deadletterqueue.topic.replication.factor."
        )
        return KAFKA.failed(tried, str(error), remedy)
    if rights and "WRITE" not in rights:
        return KAFKA.failed(tried, "may not be written to.", f"Grant WRITE on topic {name} to this client.")
    if "compact" in topic.get("cleanup.policy", ""):
        detail = "is compacted: it refuses records without a key, and drops all but the last of a key."
        return KAFKA.failed(tried, detail, f"Set cleanup.policy=delete on topic {name}.")
    return KAFKA.ok(tried, "exists, may be written to, is not compacted")


def check_reader(settings: Settings, brokers: KafkaBrokers, reach: Reach) -> Iterator[CheckResult]:
    """One finding; none where the brokers or the topics are out of reach, which is reported already."""
    configured = settings.text("kafka.reader")
    if settings.text("tasks.run.on") == "driver":
        yield KAFKA.ok(READER, f"{BY_SPARK}: tasks.run.on=driver says that tasks have no network.")
    elif configured == "spark":
        yield KAFKA.ok(READER, f"{BY_SPARK}, as kafka.reader=spark says.")
    elif (tp := _any_partition(settings, brokers)) is not None:
        yield _judged(configured, tp, reach(settings, tp))
    if configured != "tasks":
        yield from _login_of_spark(settings)


def _login_of_spark(settings: Settings) -> Iterator[CheckResult]:
    """Java's client cannot be tried without Spark: what is known to keep it out is reported."""
    mechanism = settings.text(f"{CONSUMER}sasl.mechanism")
    if settings.text(f"{CONSUMER}security.protocol").startswith("SASL_") and mechanism in NEEDS:
        url = settings.text(f"{CONSUMER}sasl.oauthbearer.token.endpoint.url")
        yield KAFKA.ok(
            f"login of Spark's own source, {mechanism}", f"not tried here: it {NEEDS[mechanism].format(url=url)}"
        )


def _judged(configured: str, tp: TopicPartition, reason: str | None) -> CheckResult:
    if reason is None:
        remedy = "Whether Spark's tasks reach the brokers, too, is tried at the start." if configured == "auto" else ""
        return KAFKA.ok(READER, f"librdkafka reaches {tp} from here: the tasks can read by themselves.", remedy)
    detail = f"librdkafka cannot read {tp} from here: {reason}"
    if configured == "auto":
        return KAFKA.ok(READER, f"{detail} {BY_SPARK}, unless the tasks find a way.")
    return KAFKA.failed(READER, detail, "Set kafka.reader=auto or spark, or mend it.")


def _any_partition(settings: Settings, brokers: KafkaBrokers) -> TopicPartition | None:
    try:
        brokers.cluster_id()
        topics = brokers.describe(wanted_topics(settings, brokers)).values()
    except SourceError:
        return None
    return next((TopicPartition(topic.name, topic.partitions[0]) for topic in topics if topic.partitions), None)


CONFIGURATION = Area("configuration")
START = Area("first start")


@dataclass(frozen=True, slots=True)
class ClientFactories:
    """How the clients of a configuration are made; each is made when its turn comes."""

    brokers: Callable[[Settings], KafkaBrokers]
    store: Callable[[StoreOptions], ObjectStore]
    facts: Callable[[StoreOptions], BucketFacts]
    reach: Reach


def diagnose(checked: CheckedConfig, services: ClientFactories) -> Iterator[CheckResult]:
    """Every finding, as soon as it is known. A configuration that cannot be used ends it; a service out of reach only its own part."""
    findings, settings = check_configuration(checked)
    yield from findings
    if settings is None:
        return
    brokers = yield from _kafka(settings, services)
    yield from check_registry(settings)
    store = yield from _storage(settings, services)
    if brokers is not None and store is not None:
        yield from _first_start(settings, brokers, store)


def check_configuration(checked: CheckedConfig) -> tuple[list[CheckResult], Settings | None]:
    """The findings, and the resolved settings; None where nothing else can be asked."""
    warnings = [CONFIGURATION.warning(warning.key, *_detail(warning)) for warning in checked.warnings]
    if checked.problems:
        return [*warnings, *_failures(checked.problems)], None
    try:
        settings = resolved(checked.settings)
        store_options(settings)
    except ConfigError as error:
        return [*warnings, *_failures(error.problems)], None
    detail = f"sink {settings.name}, state in s3://{settings.text('s3.bucket.name')}/{settings.text('state.prefix')}"
    return [CONFIGURATION.ok("every key", detail), *warnings], settings


def _failures(problems: tuple[Problem, ...]) -> list[CheckResult]:
    return [CONFIGURATION.failed(problem.key, *_detail(problem)) for problem in problems]


def _detail(problem: Problem) -> tuple[str, str]:
    value = "not set" if problem.value is None else repr(problem.value)
    return f"{value} {problem.rule}", problem.remedy


def _kafka(settings: Settings, services: ClientFactories) -> Generator[CheckResult, None, KafkaBrokers | None]:
    """Yield what is found of Kafka. Return the client, None if the brokers do not answer."""
    try:
        brokers = services.brokers(settings)
    except SourceError as error:  # certificates that cannot be read, no credentials to sign with
        yield KAFKA.failed("brokers", str(error))
        return None
    answered = yield from check_kafka(settings, brokers)
    yield from check_reader(settings, brokers, services.reach)
    return brokers if answered else None


def _storage(settings: Settings, services: ClientFactories) -> Generator[CheckResult, None, ObjectStore | None]:
    """Yield what is found of the bucket. Return the bucket, None if it does not answer."""
    options, paths = store_options(settings), state_paths(settings)
    facts = services.facts(options)
    answer = facts.ask()
    yield from check_answer(answer, options)
    if answer.refusal is not None:
        return None
    prefixes = object_names(settings).prefixes(settings.names("topics"))
    yield from check_rules(facts, state_root=paths.root, prefixes=(*prefixes, paths.root))
    wanted = Wanted(
        acl=options.acl,
        tags=settings.flag("s3.object.tagging"),
        data_prefix=prefixes[0] if prefixes else None,
        open_states=paths.open_states() if settings.flag("tail.state.enable") else None,
    )
    store = services.store(options)
    yield from Probe(store, f"{paths.root}doctor/", wanted).findings()
    return store


def _first_start(settings: Settings, brokers: KafkaBrokers, store: ObjectStore) -> Iterator[CheckResult]:
    """Yield whether `run` would refuse to begin with topics that another writer has written."""
    tried, warnings = "topics that the commit log does not know", list[str]()
    try:
        problem = find_earlier_writer(settings, brokers, store, warn=warnings.append)
    except LogDamaged as error:
        yield START.failed(tried, str(error))
        return
    except (SourceError, StorageError):  # reported already
        return
    yield from (START.warning(tried, text) for text in warnings)
    if problem is not None:
        yield START.failed(tried, f"{problem.key}={problem.value} {problem.rule}", problem.remedy)
    elif not warnings:
        yield START.ok(tried, "none that another writer has written")
