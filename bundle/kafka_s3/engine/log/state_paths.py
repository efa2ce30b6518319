"""Where does the product keep its own objects? Below a folder of the bucket that query engines skip."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kafka_s3.connect.naming.keys import DataKeys, ObjectKey
from kafka_s3.model.offsets import TopicPartition

_REWRITTEN: Final = r"(?:-\d{10,}\.[0-9a-f]{8})?"
"""What the name of a dead letter file has behind its offset where it takes the place of another."""
_OPEN_STATE: Final = re.compile(r"([0-9]{10,19})-[0-9]{20}-[^/]+")


@dataclass(frozen=True, slots=True)
class StatePaths:
    """Where the product keeps its own objects: `<state.prefix>/<sink>/...`, below a name that query engines skip."""

    prefix: str
    sink: str

    @property
    def root(self) -> str:
        """The folder of the sink's state, with a trailing slash."""
        return f"{self.prefix.strip('/')}/{self.sink}/"

    def commit(self, version: int) -> str:
        """The key of commit entry `version`."""
        return f"{self.root}commits/{version:020d}.json"

    def checkpoint(self, version: int) -> str:
        """The key of the checkpoint that covers entries up to `version`."""
        return f"{self.root}checkpoints/{version:020d}.json"

    def published(self, epoch: int) -> str:
        """The key of the marker that names the last entry of an epoch whose objects are visible."""
        return f"{self.root}published/{epoch:020d}.json"

    def remade(self, version: int, lost: str) -> str:
        """The key of what counts of an object of entry `version` that was made again; `lost` is a digest of the lost upload's id."""
        return f"{self.root}again/{version:020d}-{lost}.json"

    def rewrite_requests(self) -> str:
        """The folder of rewrites that are asked for and not in the log yet, with a trailing slash."""
        return f"{self.root}rewrites/"

    def rewrite_request(self, commit_id: str) -> str:
        """The key of one: `commit_id` is that of the entry that it is to become."""
        return f"{self.rewrite_requests()}{commit_id}.json"

    def clock(self) -> str:
        """Return the key of the object that is put to learn the time by the store's clock."""
        return f"{self.root}clock"

    def dead_letters_of(self, topic: str) -> str:
        """The folder of a topic's dead letter files, with a trailing slash."""
        return f"{self.root}dead-letters/{topic}/"

    def dead_letters_owner(self, key: str) -> TopicPartition | None:
        """The topic-partition of a dead letter file, None for any other key."""
        found = re.fullmatch(
            rf"([^/]+)/\1\+(\d+)\+\d{{10,}}{_REWRITTEN}\.jsonl\.gz",
            key.removeprefix(f"{self.root}dead-letters/"),
            re.ASCII,
        )
        return None if found is None or not key.startswith(self.root) else TopicPartition(found[1], int(found[2]))

    def dead_letters(self, topic_partition: TopicPartition, offset: int) -> str:
        """The key of the dead letter file whose first dead letter has that offset."""
        topic, partition = topic_partition
        return f"{self.dead_letters_of(topic)}{topic}+{partition}+{offset:010d}.jsonl.gz"

    def follower(self, name: str) -> str:
        """The key of the object that says how far a follower of the log has come."""
        return f"{self.root}followers/{name}.json"

    def log_tables(self) -> str:
        """The folder in which closed stretches of the log are as tables, with a trailing slash."""
        return f"{self.root}log/"

    def log_table(self, name: str, first: int, *, last: int) -> str:
        """The key of the rows that one of these tables has of the entries from version `first` to `last`."""
        return f"{self.log_tables()}{name}/{first:020d}-{last:020d}.parquet"

    def log_manifest(self) -> str:
        """The key of the object that says which stretches there are."""
        return f"{self.log_tables()}manifest.json"

    def heartbeat(self) -> str:
        """The key of the object in which the running sink says how it is."""
        return f"{self.root}heartbeat.json"

    def control(self) -> str:
        """The key of the object that says what the running sink shall do."""
        return f"{self.root}control.json"

    def config(self) -> str:
        """The key of the sink's stored configuration."""
        return f"{self.root}config.json"

    def settings_notes(self) -> str:
        """The folder of what is noted of the settings in effect, with a trailing slash."""
        return f"{self.root}settings/"

    def settings(self, epoch: int) -> str:
        """The key of the settings in effect from an epoch of the log on."""
        return f"{self.settings_notes()}{epoch:020d}.json"

    def open_states(self) -> str:
        """The folder of the objects in which tasks keep their open files, with a trailing slash."""
        return f"{self.root}open/"

    def open_states_of(self, topic_partition: TopicPartition) -> str:
        """The folder of one topic-partition's, with a trailing slash."""
        return f"{self.open_states()}{topic_partition.topic}/{topic_partition.partition}/"

    def open_state(self, topic_partition: TopicPartition, *, epoch: int, offset: int, unique: str) -> str:
        """The key of one: the driver's epoch, the first offset not read yet, and a text that no other has."""
        return f"{self.open_states_of(topic_partition)}{epoch:010d}-{offset:020d}-{unique}"

    def is_open_state(self, key: str, topic_partition: TopicPartition) -> bool:
        """Whether a key is one of this topic-partition's, as `open_state` makes them."""
        folder = self.open_states_of(topic_partition)
        return key.startswith(folder) and _OPEN_STATE.fullmatch(key, len(folder)) is not None

    @staticmethod
    def open_state_epoch(key: str) -> int | None:
        """The driver's epoch in such a key; None where it is another's object."""
        name = _OPEN_STATE.fullmatch(key.rpartition("/")[2])
        return int(name[1]) if name is not None else None

    def open_files(self) -> str:
        """The key of the object in which the driver notes which of them hold."""
        return f"{self.root}open-files.json"


@dataclass(frozen=True, slots=True)
class DeadLetterKeys(DataKeys):
    """Reads the keys of a sink's dead letter files."""

    paths: StatePaths

    def prefix_of(self, topic: str) -> str:
        """The topic's folder."""
        return self.paths.dead_letters_of(topic)

    def read(self, key: str, topic: str) -> ObjectKey | None:
        """Topic, partition and offset, joined by `+`."""
        found = re.fullmatch(rf"{re.escape(topic)}\+(\d+)\+(\d+){_REWRITTEN}(\.jsonl\.gz)", key.rpartition("/")[2])
        return None if found is None else ObjectKey(TopicPartition(topic, int(found[1])), "", int(found[2]), found[3])

    def is_foreign(self, key: str, topic: str) -> bool:
        """Nothing else belongs there."""
        return False
