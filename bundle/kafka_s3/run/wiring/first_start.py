"""Find out before a start whether another writer has written the topics that the sink would begin to read.

A topic without a position in the commit log is read from its first record, or from its head, whatever a connector or another sink has
written of it: its records would be written twice, or over the other's objects. Looked at are the offsets of the consumer group and, of
each topic's folder, the keys up to the first that this sink could have given. A start whose log has a position of every topic asks
neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import configured_steps
from kafka_s3.connect.naming.keys import DataKeys
from kafka_s3.connect.transforms.classes import routed_topics
from kafka_s3.engine.control.status import state_folders
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import KafkaUnavailable, Problem, SinkError, SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.protocols import Brokers
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.clients import group_of, wanted_topics
from kafka_s3.run.wiring.pipeline import connect_names, is_block_gzip, object_names, resumes_at_pointer, state_paths
from kafka_s3.store.store import ObjectStore

POLICY: Final = "behavior.on.earlier.writer"
READ_KEYS: Final = 100_000
"""Keys of a folder that are read, each as one of every topic that shares it. Other programs may keep any number of objects there."""
READ_LOGS: Final = 200
"""Other sinks' logs that are read to name who has read a topic."""
THREADS: Final = 8
SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class _Folder:
    """A place to search: keys below `prefix` that `names` reads as those of one of the topics."""

    names: DataKeys
    prefix: str
    topics: Set[str]

    def find_object(self, store: ObjectStore) -> str | None:
        listing = islice(store.list(self.prefix), max(READ_KEYS // len(self.topics), 1))
        return next((info.key for info in listing if self._has(info.key)), None)

    def _has(self, key: str) -> bool:
        parts = (self.names.read(key, topic) for topic in self.topics)
        return any(part is not None and part.topic_partition.topic in self.topics for part in parts)


def find_earlier_writer(
    settings: Settings, brokers: Brokers, store: ObjectStore, *, warn: Callable[[str], None]
) -> Problem | None:
    """Return what speaks against beginning with the topics that the log does not know, None if nothing does.

    The original Block-GZIP sink goes on where its bucket says, so nothing is looked at for it. `warn` is called if the group may not be
    asked. Raises StorageError, SourceError, LogDamaged.
    """
    if settings.text(POLICY) == "ignore" or resumes_at_pointer(settings):
        return None
    log = CommitLog(store, state_paths(settings), clock_ms=now_ms)
    topics = _find_new_topics(settings, brokers, log)
    if not topics:
        return None
    offsets = _read_group(settings, brokers, topics, warn)
    # later, the folder of a router's target holds objects of this sink itself
    folders = _folders(settings, topics, with_targets=not log.state.progress)
    with ThreadPool(THREADS) as pool:
        key = next(filter(None, pool.each(lambda folder: folder.find_object(store), folders)), None)
    if not offsets and key is None:
        return None
    if _find_new_topics(settings, brokers, log) != topics:  # another driver of this sink has begun meanwhile
        return find_earlier_writer(settings, brokers, store, warn=warn)
    sinks = [] if key is None else _find_sinks(settings, store, topics)
    return _describe(settings, topics, offsets, key=key, sinks=sinks)


def _find_new_topics(settings: Settings, brokers: Brokers, log: CommitLog) -> list[str]:
    begun = {tp.topic for tp in log.load().progress}
    return [topic for topic in wanted_topics(settings, brokers) if topic not in begun]


def _read_group(
    settings: Settings, brokers: Brokers, topics: Sequence[str], warn: Callable[[str], None]
) -> Mapping[TopicPartition, int]:
    group = group_of(settings)
    described = brokers.describe(topics).values()
    partitions = [TopicPartition(topic.name, partition) for topic in described for partition in topic.partitions]
    try:
        return brokers.group_offsets(group, partitions)
    except KafkaUnavailable:
        raise
    except SourceError as error:
        warn(
            f"Whether a connector has committed offsets is not known: {error} Grant DESCRIBE on group {group} to have it checked "
            "before a sink begins with a topic."
        )
        return {}


def _folders(settings: Settings, topics: Sequence[str], *, with_targets: bool) -> list[_Folder]:
    """Return where the sink, or the connector of its settings, would put objects of the topics."""
    layouts: list[DataKeys] = [object_names(settings)]
    if not is_block_gzip(settings) and layouts != [connect_names(settings)]:
        layouts.append(connect_names(settings))
    topics_of = {topic: {topic} for topic in topics}
    targets = routed_topics(configured_steps(settings).steps, topics) if with_targets else None
    for topic, target in zip(topics, targets or topics, strict=True):
        topics_of.setdefault(target, {target}).add(topic)
    return [
        _Folder(layout, prefix, {topic for folder in folders for topic in topics_of[folder]})
        for layout in layouts
        for prefix, folders in layout.topics_by_prefix(topics_of).items()
    ]


def _find_sinks(settings: Settings, store: ObjectStore, topics: Sequence[str]) -> list[str]:
    """Return the other sinks of the bucket whose logs have a position of one of the topics, as far as these can be read."""
    prefix = settings.text("state.prefix")

    def reads_topic(sink: str) -> bool:
        try:
            progress = CommitLog(store, StatePaths(prefix, sink), clock_ms=now_ms).load().progress
        except SinkError:
            return False
        return any(tp.topic in topics for tp in progress)

    try:
        sinks = [name for name in state_folders(store, prefix) if name != settings.name][:READ_LOGS]
    except SinkError:  # the rights of a sink may end at its own folder
        return []
    with ThreadPool(THREADS) as pool:
        return [sink for sink, reads in zip(sinks, pool.each(reads_topic, sinks), strict=True) if reads]


def _describe(
    settings: Settings,
    topics: Sequence[str],
    offsets: Mapping[TopicPartition, int],
    *,
    key: str | None,
    sinks: Sequence[str],
) -> Problem:
    evidence = list[str]()
    if offsets:
        places = [f"{tp} at {offset}" for tp, offset in sorted(offsets.items())]
        evidence.append(f"consumer group {group_of(settings)} has committed {_shorten(places)}")
    if key is not None:
        evidence.append(f"s3://{settings.text('s3.bucket.name')}/{key} is an object of this sink's form")
    if sinks:
        evidence.append(f"sink {_shorten(sinks)} of this bucket has read there")
    rule = (
        f"refuses to begin with {_shorten(topics)}: the commit log has no position there, but another writer was at work: "
        f"{'; '.join(evidence)}. Records would be written twice, or over those objects."
    )
    return Problem(POLICY, "fail", rule, " ".join(_ways_out(sinks)))


def _ways_out(sinks: Sequence[str]) -> Iterator[str]:
    if sinks:
        yield f"If the sink was renamed, call it {sinks[0]} again, or go on where that one stopped:"
        yield f"`kafka-s3 migrate CONFIG --group connect-{sinks[0]} --apply`."
    yield "To go on where a connector stopped: `kafka-s3 migrate CONFIG --apply`."
    yield f"To begin anew beside what is there: `kafka-s3 run CONFIG --set {POLICY}=ignore`, or another name and topics.dir."


def _shorten(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return f"{', '.join(texts[:SHOWN])}{more}"
