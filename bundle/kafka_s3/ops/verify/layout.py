"""Where in the bucket do a sink's objects lie, and which offsets does a key name?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import routes
from kafka_s3.connect.naming.keys import INDEX_EXTENSION, TemplateNames, normal_prefix, parse_data_key
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.files import DataFile
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.pipeline import template_names


class Named(NamedTuple):
    """What a key says: the topic-partition and the offset of the first record."""

    topic_partition: TopicPartition
    offset: int


class ObjectLayout(Protocol):
    """The keys of a sink's data objects."""

    def prefix(self, topic: str) -> str:
        """Below it lie the topic's objects, perhaps with others."""
        ...

    def named(self, key: str, topic: str) -> Named | None:
        """What the key of one of the topic's objects says, None for a key that no sink gives."""
        ...

    def foreign(self, key: str, topic: str) -> bool:
        """Whether a key below the prefix is none of the topic's business."""
        ...

    def target(self, file: DataFile) -> str | None:
        """The topic in whose folder an object lies: its own, or that to which a transform has sent its records. None: nothing says it."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectLayout:
    """The keys of the S3 sink: `[topics.dir D] topic D encodedPartition D topic F partition F offset extension`."""

    topics_dir: str
    directory_delim: str
    file_delim: str

    def prefix(self, topic: str) -> str:
        """The topic's folder."""
        folders = [self.topics_dir] if self.topics_dir.strip() else []
        return self.directory_delim.join((*folders, topic, ""))

    def named(self, key: str, topic: str) -> Named | None:
        """The end of the key, from the second time the topic is named on."""
        folder, file, name = map(re.escape, (self.directory_delim, self.file_delim, topic))
        found = re.search(rf"{folder}{name}{file}(\d+){file}(\d+)(?:\D[^/]*)?$", key)
        return Named(TopicPartition(topic, int(found[1])), int(found[2])) if found else None

    def foreign(self, key: str, topic: str) -> bool:
        """Folders and files that query engines skip: table logs, `_SUCCESS`; not directories of a field whose name begins so."""
        parts = key.removeprefix(self.prefix(topic)).split("/")
        return any(part.startswith(("_", ".")) and "=" not in part for part in parts)

    def target(self, file: DataFile) -> str:
        """What stands between `topics.dir` and the directory of the partitioner."""
        start = len(self.prefix("")) - len(self.directory_delim)
        delim = self.directory_delim
        end = file.key.find(f"{delim}{file.encoded_partition}{delim}", start)
        return file.key[start:end] if end > start else file.topic


@dataclass(frozen=True, slots=True)
class Tabled:
    """The keys of a sink that keeps Delta tables. What other writers of a table make (OPTIMIZE) is for `kafka-s3 delta check`."""

    inner: ConnectLayout

    def prefix(self, topic: str) -> str:
        """The topic's folder."""
        return self.inner.prefix(topic)

    def named(self, key: str, topic: str) -> Named | None:
        """As without tables."""
        return self.inner.named(key, topic)

    def foreign(self, key: str, topic: str) -> bool:
        """Parquet files with another name than a sink's are the table's."""
        return self.inner.foreign(key, topic) or (key.endswith(".parquet") and self.named(key, topic) is None)

    def target(self, file: DataFile) -> str:
        """Its own: tables and routers do not go together."""
        return file.topic


@dataclass(frozen=True, slots=True)
class Templated:
    """Keys by templates, where topics may share a folder; `routed` where a transform may change topics."""

    names: TemplateNames
    routed: bool

    def prefix(self, topic: str) -> str:
        """What the topic's keys begin with."""
        return self.names.prefix(topic)

    def named(self, key: str, topic: str) -> Named | None:
        """What the key says."""
        found = self.names.read(key, topic)
        return None if found is None else Named(TopicPartition(topic, found[0]), found[1])

    def foreign(self, key: str, topic: str) -> bool:
        """Whatever cannot be read as one of the topic's."""
        return self.named(key, topic) is None

    def target(self, file: DataFile) -> str | None:
        """What stands in place of `${topic}`."""
        return self.names.folder_topic(file.key, file.encoded_partition) if self.routed else file.topic


@dataclass(frozen=True, slots=True)
class Blocks:
    """The keys of the Block-GZIP sink, whose layouts by date mix topics."""

    inner: str

    def prefix(self, topic: str) -> str:
        """The sink's prefix."""
        return normal_prefix(self.inner)

    def named(self, key: str, topic: str) -> Named | None:
        """What the key of a data object or its index says."""
        data = key.removesuffix(INDEX_EXTENSION) + ".gz" if key.endswith(INDEX_EXTENSION) else key
        found = parse_data_key(data, self.inner)
        return Named(TopicPartition(found.topic, found.partition), found.offset) if found else None

    def foreign(self, key: str, topic: str) -> bool:
        """Whatever has not the name of one of the topic's data objects or indexes."""
        found = self.named(key, topic)
        return found is None or found.topic_partition.topic != topic

    def target(self, file: DataFile) -> str:
        """Its own: blocks and routers do not go together."""
        return file.topic


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The keys of dead letter files."""

    paths: StatePaths

    def prefix(self, topic: str) -> str:
        """The topic's folder."""
        return f"{self.paths.root}dead-letters/{topic}/"

    def named(self, key: str, topic: str) -> Named | None:
        """Topic, partition and offset, joined by `+`."""
        found = re.fullmatch(rf"{re.escape(topic)}\+(\d+)\+(\d+)\.jsonl\.gz", key.rpartition("/")[2])
        return Named(TopicPartition(topic, int(found[1])), int(found[2])) if found else None

    def foreign(self, key: str, topic: str) -> bool:
        """Nothing else belongs there."""
        return False

    def target(self, file: DataFile) -> str:
        """Its own."""
        return file.topic


def object_layout(settings: Settings) -> ObjectLayout:
    """The layout of a sink's data objects."""
    if settings.text("format.class") == "block_gzip":
        return Blocks(settings.text("block.gzip.prefix"))
    templates = template_names(settings)
    if templates is not None:
        return Templated(templates, routes(settings))
    found = ConnectLayout(settings.text("topics.dir"), settings.text("directory.delim"), settings.text("file.delim"))
    return Tabled(found) if settings.flag("delta.enable") else found
