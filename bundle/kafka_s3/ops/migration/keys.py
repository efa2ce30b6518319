"""What does the key of a Connect sink's object say? The reverse of `naming.keys.Naming.key` (SEMANTICS A4)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_s3.connect.naming.keys import Naming
from kafka_s3.model.offsets import TopicPartition


class ObjectKey(NamedTuple):
    """Whose records an object holds, in which directory, and the offset of the first."""

    topic_partition: TopicPartition
    encoded_partition: str
    offset: int


@dataclass(frozen=True)
class KeyReader:
    """Reads the keys of some topics' objects with one of some extensions; sidecars have extensions of their own.

    Where a delimiter can be part of a topic's name, the longest topic that fits is taken. A number wider than its padding has no leading
    zero, so every key has one reading as long as `file.delim` begins and ends with something other than a digit.
    """

    naming: Naming
    topics: tuple[str, ...]
    extension: str
    _patterns: dict[str, re.Pattern[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compiles one pattern per topic."""
        longest_first = sorted(self.topics, key=len, reverse=True)
        object.__setattr__(self, "_patterns", {topic: self._pattern(topic) for topic in longest_first})

    def folders(self) -> Iterable[str]:
        """What the keys of each topic begin with."""
        return [self._folder(topic) for topic in self.topics]

    def read(self, key: str) -> ObjectKey | None:
        """What the key says; None for an object that is not one of these."""
        for topic, pattern in self._patterns.items():
            found = pattern.fullmatch(key)
            if found:
                tp = TopicPartition(topic, int(found["partition"]))
                return ObjectKey(tp, found["directory"], int(found["offset"]))
        return None

    def _folder(self, topic: str) -> str:
        delimiter = self.naming.directory_delim
        folders = [self.naming.topics_dir] if self.naming.topics_dir.strip() else []
        return delimiter.join((*folders, topic, ""))

    def _pattern(self, topic: str) -> re.Pattern[str]:
        naming = self.naming
        width = max(naming.pad_width, 1)
        folder, between, file = map(re.escape, (self._folder(topic), naming.directory_delim, naming.file_delim))
        place = rf"(?P<partition>0|[1-9]\d*){file}(?P<offset>\d{{{width}}}|[1-9]\d{{{width},}})"
        name = rf"{re.escape(topic)}{file}{place}{re.escape(self.extension)}"
        return re.compile(rf"{folder}(?P<directory>.*){between}{name}", re.ASCII | re.DOTALL)
