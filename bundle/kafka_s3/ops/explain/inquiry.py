"""Where does a key, or the record of an offset, come from? A key from the entries that claim it; `offset` answers for the other."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.keys import DataKeys
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.fold import LogFold, Reset
from kafka_s3.engine.log.history import read_history
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.explain.answer import Account, Answer, Outcome, object_facts
from kafka_s3.ops.explain.offset import OffsetInquiry
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.run.wiring.pipeline import make_pipeline, object_names, state_paths
from kafka_s3.store.store import ObjectStore

RECORD: Final = re.compile(r"([\w.-]{1,249}):(\d{1,9}):(\d{1,19})", re.ASCII)
"""`topic:partition:offset`, with the characters that Kafka takes in topics."""
DELTA_LOG: Final = "_delta_log"
_ROLES: Final = {
    Role.KEY: "the keys of ", Role.HEADER: "the headers of ", Role.INDEX: "the index of ", Role.POINTER: "the pointer to ",
}  # fmt: skip


def explain(settings: Settings, about: str, *, store: ObjectStore, kafka: KafkaRecords | None) -> Answer:
    """What is known of a key, or of `topic:partition:offset`. Raises ConfigError, StorageError, CommitError, SourceError, RegistryError."""
    paths, record = state_paths(settings), RECORD.fullmatch(about)
    if record is None:
        key, layout = bare_key(about, settings.text("s3.bucket.name")), object_names(settings)
        return key_answer(key, settings=settings, store=store, paths=paths, layout=layout)
    inquiry = OffsetInquiry(settings, store, paths, lambda: make_pipeline(settings), now_ms(), kafka)
    return inquiry.answer(TopicPartition(record[1], int(record[2])), int(record[3]))


def bare_key(text: str, bucket: str) -> str:
    """The key of `s3://bucket/key`, or of a key as it is. Raises ConfigError for another bucket."""
    if not text.startswith("s3://"):
        return text
    named, _, key = text.removeprefix("s3://").partition("/")
    if named != bucket:
        rule, remedy = f"is not in this sink's bucket {bucket}.", "Name the sink that writes there."
        raise ConfigError([Problem("KEY", text, rule, remedy)])
    return key


def key_answer(key: str, *, settings: Settings, store: ObjectStore, paths: StatePaths, layout: DataKeys) -> Answer:
    """The explanation of a key. Raises StorageError, LogDamaged."""
    accounts: list[Account] = []
    fold = LogFold()
    for entry in read_history(store, paths):
        resets = [event for event in fold.add(entry) if isinstance(event, Reset)]
        accounts = [replace(one, current=one.current and not _superseded(one, resets)) for one in accounts]
        accounts += [_account(entry, file) for file in entry.files if file.key == key]
    if not accounts:
        topics = sorted({tp.topic for tp in fold.frontier})
        return _unclaimed(key, topics, settings=settings, store=store, paths=paths, layout=layout)
    last = accounts[-1]
    text = f"Commit entry {last.entry} of {last.committed_at}: {last.text}."
    if not last.current:
        text += " Its records were read again by a later entry, because the position was set back."
    objects = object_facts([one for account in accounts for one in account.files], settings, store)
    return Answer(last.outcome, text, about=key, accounts=tuple(accounts), objects=objects)


def _superseded(account: Account, resets: list[Reset]) -> bool:
    """Whether a position was set back before the last record of the account's object."""
    file = account.files[0]
    return any(one.topic_partition == file.topic_partition and one.supersedes(file.last_offset + 1) for one in resets)


def _account(entry: CommitEntry, file: DataFile) -> Account:
    span = f"offsets {file.first_offset} to {file.last_offset} of {file.topic_partition}"
    if file.role is Role.DEAD_LETTER:
        text = f"{file.records:,} dead letters, {span}"
        return Account(entry.version, entry.committed_at, Outcome.DEAD_LETTER, text, (file,))
    beside = tuple(other for other in entry.files if other is not file and _identity(other) == _identity(file))
    replayed = ", replayed from dead letters" if entry.kind is EntryKind.REPLAY else ""
    text = f"{_ROLES.get(file.role, '')}{file.records:,} records, {span}{replayed}"
    return Account(entry.version, entry.committed_at, Outcome.OBJECT, text, (file, *beside))


def _identity(file: DataFile) -> tuple[TopicPartition, str, int]:
    """What an object and its sidecars have in common."""
    return file.topic_partition, file.encoded_partition, file.first_offset


def _unclaimed(
    key: str, topics: list[str], *, settings: Settings, store: ObjectStore, paths: StatePaths, layout: DataKeys
) -> Answer:
    there = store.head(key) is not None
    if there and key.rpartition("/")[2] == settings.text("done.marker.name"):
        text = "It says that its directory is complete (done.marker.name); docs/followers.md."
        return Answer(Outcome.STATE, text, about=key)
    if there and settings.flag("delta.enable") and f"/{DELTA_LOG}/" in key:
        text = "It is of the log of the topic's Delta table (delta.enable); docs/delta.md."
        return Answer(Outcome.STATE, text, about=key)
    if key.startswith(paths.root):
        missing = "It would be the sink's own state, but there is no such object."
        text = "It is the sink's own state." if there else missing
        return Answer(Outcome.STATE, f"{text} docs/commit-log.md says what lies there.", about=key)
    stranger = ": it was there before the sink took over, or another writer made it."
    text = "No entry of the log claims it" + (stranger if there else ", and there is no such object.")
    named = next((found for topic in topics if (found := layout.read(key, topic)) is not None), None)
    if named is not None:
        topic, partition = named.topic_partition
        text += f" Its name says topic {topic}, partition {partition} from offset {named.offset} on."
    return Answer(Outcome.UNKNOWN, text, about=key)
