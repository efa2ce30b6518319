"""What are the objects of a Block-GZIP sink called? (SEMANTICS B2).

::

    by date    {prefix}{date}/{topic}-{partition}-{first offset}.gz           {prefix}last_chunk_index.{topic}-{partition}.txt
    by topic   {prefix}{topic}/{date}/{partition}-{first offset}.gz           {prefix}{topic}/last_chunk_index.{partition}.txt

Partitions have at least 5 digits, offsets at least 12; the date is the day of the upload. The index of a data object has its name, with
`.index.json` in place of `.gz`; the pointer holds the key of the newest index.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from kafka_s3.connect.naming.keys import ObjectNames
from kafka_s3.model.offsets import TopicPartition

DATA_EXTENSION: Final = ".gz"
INDEX_EXTENSION: Final = ".index.json"
_DAY = r"(?P<date>\d{4}-\d{2}-\d{2})"
# a number wider than its padding has no leading zero, so that every key is the one and only spelling of its parts
_PLACE = r"(?P<partition>\d{5}|[1-9]\d{5,})-(?P<offset>\d{12}|[1-9]\d{12,})\.gz"
_DATA_KEYS: Final = (
    re.compile(rf"{_DAY}/(?P<topic>[^/]+)-{_PLACE}", re.ASCII),
    re.compile(rf"(?P<topic>[^/]+)/{_DAY}/{_PLACE}", re.ASCII),
)


class DateLayout(StrEnum):
    """What the first directory below the prefix is: the day (every release), or the topic (a later fork)."""

    BY_DATE = "by_date"
    BY_TOPIC = "by_topic"


class DataKey(NamedTuple):
    """What the key of a data object says; `offset` is that of the first record, `date` the day of the upload."""

    topic: str
    partition: int
    offset: int
    date: datetime.date


@dataclass(frozen=True, slots=True)
class BlockNames:
    """How a sink names its objects; `prefix` is as configured, with or without its last `/`."""

    prefix: str = ""
    layout: DateLayout = DateLayout.BY_DATE

    def data_key(self, topic_partition: TopicPartition, first_offset: int, *, date: datetime.date) -> str:
        """The key of the object that begins with the record of this offset and is uploaded on this day."""
        return self._stem(topic_partition, first_offset, date) + DATA_EXTENSION

    def index_key(self, topic_partition: TopicPartition, first_offset: int, *, date: datetime.date) -> str:
        """The key of that object's index."""
        return self._stem(topic_partition, first_offset, date) + INDEX_EXTENSION

    def pointer_key(self, topic_partition: TopicPartition) -> str:
        """The key of the object whose whole content is the key of the partition's newest index."""
        topic, partition = topic_partition
        prefix = normal_prefix(self.prefix)
        if self.layout is DateLayout.BY_TOPIC:
            return f"{prefix}{topic}/last_chunk_index.{partition:05d}.txt"
        return f"{prefix}last_chunk_index.{topic}-{partition:05d}.txt"

    def _stem(self, topic_partition: TopicPartition, first_offset: int, date: datetime.date) -> str:
        topic, partition = topic_partition
        prefix, place = normal_prefix(self.prefix), f"{partition:05d}-{first_offset:012d}"
        if self.layout is DateLayout.BY_TOPIC:
            return f"{prefix}{topic}/{date.isoformat()}/{place}"
        return f"{prefix}{date.isoformat()}/{topic}-{place}"


@dataclass(frozen=True, slots=True)
class UploadNames(ObjectNames):
    """The names of files that are uploaded at one time (epoch ms).

    The day is that of `zone`: UTC in the successor, None for the process's own in the original. Records are not partitioned.
    """

    names: BlockNames
    zone: datetime.tzinfo | None = datetime.UTC
    now_ms: int = 0

    def key(self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str) -> str:
        """The key of the file whose first record has that offset."""
        data_key = self.names.data_key(topic_partition, offset, date=self._date())
        return data_key.removesuffix(DATA_EXTENSION) + extension

    def at(self, now_ms: int) -> UploadNames:
        """The names of files that are uploaded at that time."""
        return replace(self, now_ms=now_ms)

    def pointer(self, topic_partition: TopicPartition, data_key: str) -> tuple[str, bytes] | None:
        """The pointer's key, and the key of that file's index as its content."""
        return self.names.pointer_key(topic_partition), index_key_of(data_key).encode()

    def _date(self) -> datetime.date:
        moment = datetime.datetime.fromtimestamp(self.now_ms / 1000, datetime.UTC)
        return moment.astimezone(self.zone).date()


def normal_prefix(prefix: str) -> str:
    """The prefix with `/` at its end; blank stays blank."""
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def index_key_of(data_key: str) -> str:
    """The key of a data object's index."""
    return data_key.removesuffix(DATA_EXTENSION) + INDEX_EXTENSION


def parse_data_key(key: str, prefix: str) -> DataKey | None:
    """What the key of a data object below the prefix says, in either layout; None for any other key (SEMANTICS B6)."""
    below = normal_prefix(prefix)
    if not key.startswith(below):
        return None
    for pattern in _DATA_KEYS:
        found = pattern.fullmatch(key, len(below))
        if found:
            try:
                date = datetime.date.fromisoformat(found["date"])
            except ValueError:
                return None
            return DataKey(found["topic"], int(found["partition"]), int(found["offset"]), date)
    return None
