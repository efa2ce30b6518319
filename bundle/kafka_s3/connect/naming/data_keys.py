"""Whose object is it that has this key? The keys of a sink's data objects, read back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kafka_s3.connect.naming.block_gzip import (
    DATA_EXTENSION,
    INDEX_EXTENSION,
    BlockNames,
    DateLayout,
    normal_prefix,
    parse_data_key,
)
from kafka_s3.connect.naming.keys import Naming
from kafka_s3.connect.naming.templates import TemplateNames
from kafka_s3.model.offsets import TopicPartition


class DataKeys(Protocol):
    """Tells the keys of a sink's data objects."""

    def prefixes(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Where the objects of the topics lie."""
        ...

    def owner(self, key: str, topics: Iterable[str]) -> TopicPartition | None:
        """The topic-partition, of one of these topics, that has an object of this key; None for a key that a sink gives to none."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionedKeys:
    """Keys as `connect.naming.keys.Naming` makes them, whatever the directories of the partitioner are."""

    naming: Naming

    def prefixes(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The folder of each topic."""
        naming = self.naming
        folders = [naming.topics_dir] if naming.topics_dir.strip() else []
        return tuple(naming.directory_delim.join((*folders, topic, "")) for topic in sorted(topics))

    def owner(self, key: str, topics: Iterable[str]) -> TopicPartition | None:
        """By `.../<topic>/<directories>/<topic>+<partition>+<offset><extension>`."""
        for topic in topics:
            (prefix,) = self.prefixes([topic])
            if key.startswith(prefix):
                found = self._partition(topic, key[len(prefix) - len(self.naming.directory_delim) :])
                if found is not None:
                    return TopicPartition(topic, found)
        return None

    def _partition(self, topic: str, below: str) -> int | None:
        naming = self.naming
        folder, file = re.escape(naming.directory_delim), re.escape(naming.file_delim)
        # an extension never holds a folder: what follows one is another object's name
        extension = rf"(?:[^0-9](?:(?!{folder}).)*)?$"
        name = rf"{folder}{re.escape(topic)}{file}([0-9]+){file}[0-9]{{{max(naming.pad_width, 1)},}}{extension}"
        found = re.search(name, below)
        return None if found is None else int(found[1])


@dataclass(frozen=True, slots=True)
class TemplateKeys:
    """Keys as `connect.naming.templates.TemplateNames` makes them."""

    names: TemplateNames

    def prefixes(self, topics: Iterable[str]) -> tuple[str, ...]:
        """What the keys of each topic begin with; several may share a folder."""
        return tuple(dict.fromkeys(self.names.prefix(topic) for topic in sorted(topics)))

    def owner(self, key: str, topics: Iterable[str]) -> TopicPartition | None:
        """By the templates."""
        for topic in topics:
            found = self.names.read(key, topic)
            if found is not None:
                return TopicPartition(topic, found[0])
        return None


@dataclass(frozen=True, slots=True)
class BlockKeys:
    """Keys as `connect.naming.block_gzip.BlockNames` makes them: data, index and pointer, in the sink's own layout."""

    names: BlockNames

    def prefixes(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The sink's prefix, or each topic's folder below it where there is one."""
        prefix = normal_prefix(self.names.prefix)
        if self.names.layout is DateLayout.BY_TOPIC:
            return tuple(f"{prefix}{topic}/" for topic in sorted(topics))
        return (prefix,)

    def owner(self, key: str, topics: Iterable[str]) -> TopicPartition | None:
        """By the key of a data object, an index or a pointer."""
        known = set(topics)
        data_key = key.removesuffix(INDEX_EXTENSION) + DATA_EXTENSION if key.endswith(INDEX_EXTENSION) else key
        found = parse_data_key(data_key, self.names.prefix)
        if found is not None:
            place = TopicPartition(found.topic, found.partition)
            is_ours = found.topic in known and data_key == self.names.data_key(place, found.offset, date=found.date)
            return place if is_ours else None
        number = re.search(r"(\d{5,})\.txt$", key, re.ASCII)
        places = () if number is None else (TopicPartition(topic, int(number[1])) for topic in known)
        return next((place for place in places if key == self.names.pointer_key(place)), None)
