"""What is an object called? `[topics.dir D] topic D encodedPartition D topic F partition F offset extension` (SEMANTICS A4)."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_s3.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Naming:
    """The naming settings: `topics.dir`, `directory.delim` (D), `file.delim` (F), `filename.offset.zero.pad.width`."""

    topics_dir: str
    directory_delim: str
    file_delim: str
    pad_width: int

    def key(self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str) -> str:
        """The key of the file whose first record has that offset. Nothing is escaped, as in the original."""
        topic, partition = topic_partition
        name = f"{self.file_delim.join((topic, str(partition), str(offset).zfill(self.pad_width)))}{extension}"
        folders = [self.topics_dir] if self.topics_dir.strip() else []
        return self.directory_delim.join((*folders, topic, encoded_partition, name))


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

    def dead_letters(self, topic_partition: TopicPartition, offset: int) -> str:
        """The key of the dead letter file whose first dead letter has that offset."""
        topic, partition = topic_partition
        return f"{self.root}dead-letters/{topic}/{topic}+{partition}+{offset:010d}.jsonl.gz"

    def follower(self, name: str) -> str:
        """The key of the object that says how far a follower of the log has come."""
        return f"{self.root}followers/{name}.json"
