"""What is an object called? `[topics.dir D] topic D encodedPartition D topic F partition F offset extension` (SEMANTICS A4)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol, Self

from kafka_s3.model.offsets import TopicPartition


class ObjectNames(Protocol):
    """Gives the objects of a sink their keys. What is not abstract holds for names that say nothing of the time and have no pointers."""

    @abstractmethod
    def key(self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str) -> str:
        """The key of the file whose first record has that offset."""
        ...

    def at(self, now_ms: int) -> Self:
        """The names of files that are uploaded at that time (epoch ms)."""
        return self

    def like(self, key: str) -> Self:
        """The names that files had when the one with this key was begun: what goes on later keeps its key."""
        return self

    def pointer(self, topic_partition: TopicPartition, data_key: str) -> tuple[str, bytes] | None:
        """Key and content of the object that names the topic-partition's last file, where the layout has one."""
        return None


class FolderNames(ObjectNames, Protocol):
    """Names whose folder may be that of another topic than the file's."""

    @abstractmethod
    def within(
        self, folder: str, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str
    ) -> str:
        """The key of the file whose first record has that offset, in the folder of that topic."""
        ...

    def key(self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str) -> str:
        """The same in the folder of the file's own topic."""
        return self.within(
            topic_partition.topic, topic_partition, encoded_partition, offset=offset, extension=extension
        )


@dataclass(frozen=True, slots=True)
class Renamed(ObjectNames):
    """Other names, but for one extension, which has this key: that of a file that is made again."""

    inner: ObjectNames
    extension: str
    fixed: str

    def key(self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str) -> str:
        """The fixed key, or the other names'."""
        if extension == self.extension:
            return self.fixed
        return self.inner.key(topic_partition, encoded_partition, offset=offset, extension=extension)

    def pointer(self, topic_partition: TopicPartition, data_key: str) -> tuple[str, bytes] | None:
        """As the other names have it."""
        return self.inner.pointer(topic_partition, data_key)


@dataclass(frozen=True, slots=True)
class OfTopic(ObjectNames):
    """The names of records that a transform has sent to another topic: as if they were of that topic.

    Where several topics of Kafka may go there (`keeps_source`) only the folder is the new topic's: the object is called by the topic
    that its offset belongs to, for two of them have the same offsets.
    """

    inner: FolderNames
    topic: str
    keeps_source: bool

    def key(self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str) -> str:
        """The key of the file whose first record has that offset."""
        target = TopicPartition(self.topic, topic_partition.partition)
        name = topic_partition if self.keeps_source else target
        return self.inner.within(target.topic, name, encoded_partition, offset=offset, extension=extension)

    def at(self, now_ms: int) -> OfTopic:
        """The names of files that are uploaded at that time."""
        return replace(self, inner=self.inner.at(now_ms))

    def like(self, key: str) -> OfTopic:
        """The names that files had when the one with this key was begun."""
        return replace(self, inner=self.inner.like(key))


@dataclass(frozen=True, slots=True)
class Naming(FolderNames):
    """The naming settings: `topics.dir`, `directory.delim` (D), `file.delim` (F), `filename.offset.zero.pad.width`."""

    topics_dir: str
    directory_delim: str
    file_delim: str
    pad_width: int

    def within(
        self, folder: str, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str
    ) -> str:
        """The key of the file whose first record has that offset. Nothing is escaped, as in the original."""
        topic, partition = topic_partition
        name = f"{self.file_delim.join((topic, str(partition), str(offset).zfill(self.pad_width)))}{extension}"
        folders = [self.topics_dir] if self.topics_dir.strip() else []
        return self.directory_delim.join((*folders, folder, encoded_partition, name))
