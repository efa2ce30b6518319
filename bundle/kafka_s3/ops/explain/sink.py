"""How is a key or an offset of the sink of these settings explained? The composition."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.history import read_history
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.explain.answer import Account, Answer, Fate, described
from kafka_s3.ops.explain.offset import OffsetInquiry
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.ops.verify.layout import ObjectLayout, object_layout
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.store.store import ObjectStore

_ROLES = {
    Role.KEY: "the keys of ",
    Role.HEADER: "the headers of ",
    Role.INDEX: "the index of ",
    Role.POINTER: "the pointer to ",
}


DELTA_LOG: Final = "_delta_log"


def bare_key(text: str, bucket: str) -> str:
    """The key of `s3://bucket/key`, or of a key as it is. Raises ConfigError for another bucket."""
    if not text.startswith("s3://"):
        return text
    named, _, key = text.removeprefix("s3://").partition("/")
    if named != bucket:
        raise ConfigError(
            [Problem("KEY", text, f"is not in this sink's bucket {bucket}.", "Name the sink that writes there.")]
        )
    return key


def key_answer(key: str, *, settings: Settings, store: ObjectStore, paths: StatePaths, layout: ObjectLayout) -> Answer:
    """The explanation of a key. Raises StorageError, LogDamaged."""
    accounts: list[Account] = []
    topics: set[str] = set()
    for _, entry in read_history(store, paths):
        topics.update(tp.topic for tp in entry.progress)
        accounts = [one if not _read_again(entry, one.files[0]) else replace(one, stands=False) for one in accounts]
        accounts += [_account(entry, file) for file in entry.files if file.key == key]
    if not accounts:
        return _unclaimed(key, sorted(topics), settings=settings, store=store, paths=paths, layout=layout)
    last = accounts[-1]
    outcome, text = last.outcome, f"Commit entry {last.entry} of {last.committed_at}: {last.text}."
    if not last.stands:
        text += " Its records were read again by a later entry, because the position was set back."
    objects = described([one for account in accounts for one in account.files], settings, store)
    return Answer(key, outcome, text, accounts=tuple(accounts), objects=objects)


def _account(entry: CommitEntry, file: DataFile) -> Account:
    span = f"offsets {file.first_offset} to {file.last_offset} of {file.topic_partition}"
    text = f"{_ROLES.get(file.role, '')}{file.records:,} records, {span}"
    if file.role is Role.DEAD_LETTER:
        return Account(
            entry.version, entry.committed_at, Fate.DEAD_LETTER, f"{file.records:,} dead letters, {span}", (file,)
        )
    beside = tuple(
        other
        for other in entry.files
        if other is not file
        and (other.topic_partition, other.encoded_partition, other.first_offset)
        == (file.topic_partition, file.encoded_partition, file.first_offset)
    )
    replayed = ", replayed from dead letters" if entry.kind is EntryKind.REPLAY else ""
    return Account(entry.version, entry.committed_at, Fate.OBJECT, text + replayed, (file, *beside))


def _read_again(entry: CommitEntry, file: DataFile) -> bool:
    """Whether an entry set the position back before the object's last record."""
    progress = entry.progress.get(file.topic_partition)
    return entry.kind is EntryKind.POSITION and progress is not None and progress.frontier <= file.last_offset


def _unclaimed(
    key: str, topics: list[str], *, settings: Settings, store: ObjectStore, paths: StatePaths, layout: ObjectLayout
) -> Answer:
    there = store.head(key) is not None
    if there and key.rpartition("/")[2] == settings.text("done.marker.name"):
        return Answer(key, Fate.STATE, "It says that its directory is complete (done.marker.name); docs/followers.md.")
    if there and settings.flag("delta.enable") and f"/{DELTA_LOG}/" in key:
        return Answer(key, Fate.STATE, "It is of the log of the topic's Delta table (delta.enable); docs/delta.md.")
    if key.startswith(paths.root):
        text = (
            "It is the sink's own state." if there else "It would be the sink's own state, but there is no such object."
        )
        return Answer(key, Fate.STATE, f"{text} docs/commit-log.md says what lies there.")
    text = "No entry of the log claims it" + (
        ": it was there before the sink took over, or another writer made it."
        if there
        else ", and there is no such object."
    )
    named = next((found for topic in topics if (found := layout.named(key, topic)) is not None), None)
    if named is not None:
        text += f" Its name says {place(named.topic_partition)} from offset {named.offset} on."
    return Answer(key, Fate.UNKNOWN, text)


def place(topic_partition: TopicPartition) -> str:
    """A topic-partition for people."""
    return f"topic {topic_partition.topic}, partition {topic_partition.partition}"


RECORD: Final = re.compile(r"([\w.-]{1,249}):(\d{1,9}):(\d{1,19})", re.ASCII)
"""`topic:partition:offset`, with the characters that Kafka takes in topics."""


def explain(settings: Settings, about: str, *, store: ObjectStore, kafka: KafkaRecords | None) -> Answer:
    """What is known of a key, or of `topic:partition:offset`. Raises ConfigError, StorageError, CommitError, SourceError, RegistryError."""
    paths, record = state_paths(settings), RECORD.fullmatch(about)
    if record is None:
        key, layout = bare_key(about, settings.text("s3.bucket.name")), object_layout(settings)
        return key_answer(key, settings=settings, store=store, paths=paths, layout=layout)
    inquiry = OffsetInquiry(settings, store, paths, lambda: make_pipeline(settings), now_ms(), kafka)
    return inquiry.answer(TopicPartition(record[1], int(record[2])), int(record[3]))
