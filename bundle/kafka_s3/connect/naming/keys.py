"""What is an object called, and whose object is it that has a key? The one grammar of keys, written and read back.

Three spellings (`[x]` where there is one):

- Connect's (SEMANTICS A4), D and F being `directory.delim` and `file.delim`:
  `[topics.dir D] topic D encodedPartition D topic F partition F offset extension`
- by templates: `object.name.template` says a file's name (`${topic}`, `${partition}`, `${offset}`, `${time}`), `directory.template` its
  folder (`${topic}`, `${directory}`). No two files may get one key: that partition and offset are in every name, and can be read back
  there, is what `name_fault` and `directory_fault` see to.
- Block-GZIP (SEMANTICS B2), by date or by topic. Partitions have at least 5 digits, offsets at least 12; the date is the day of the
  upload. The index has the name of its data object, with `.index.json` in place of `.gz`; the pointer holds the key of the newest index::

    by date    {prefix}{date}/{topic}-{partition}-{first offset}.gz           {prefix}last_chunk_index.{topic}-{partition}.txt
    by topic   {prefix}{topic}/{date}/{partition}-{first offset}.gz           {prefix}{topic}/last_chunk_index.{partition}.txt

An object that was made from others (`kafka-s3 compact`) is called by the first of them, with the last offset of all and eight hexadecimal
digits of the rewrite before the extension: `orders+0+0000000000-0000000999.5f2c91ab.json`. So no two rewrites give one key, and no task.
Where it holds records of several topic-partitions, each further run of rows follows with partition, first and last offset, and with the
number of its records behind an `n` where these do not fill its offsets: `orders+0+0000000000-0000000999_1-500-899n396.5f2c91ab.json`.
The numbers are left out where an erasure would make a name too long by them.

Some keys are never written. A part of a key may come from a record: a field's value, a schema's name, whatever an own partitioner makes
of a header. As in the original it is written as it is (SEMANTICS A4.2), so a record could choose where its object goes. What S3 itself
takes literally, readers do not: to a file system, a query engine or a browser `a/../b` is `b`, and `a//b` is `a/b`. So keys are judged as
such a reader sees them.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, Self

from kafka_s3.model.files import DataFile, Slice
from kafka_s3.model.offsets import TopicPartition


class ObjectKey(NamedTuple):
    """What a key says: whose records the object holds, their encoded partition, the offset of the first one, and the extension.

    In Block-GZIP the day of the upload takes the place of the encoded partition.
    """

    topic_partition: TopicPartition
    encoded_partition: str
    offset: int
    extension: str


class ObjectNames(Protocol):
    """Gives the objects of a sink their keys. What is not abstract holds for names without a time and without pointers."""

    @abstractmethod
    def key(self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str) -> str:
        """The key of the file whose first record has that offset."""
        ...

    def at_time(self, now_ms: int) -> Self:
        """The names of files of that time (epoch ms): when they are opened, in Block-GZIP when they are uploaded."""
        return self

    def with_time_of(self, key: str) -> Self:
        """The names that files had when the one with this key was begun: what goes on later keeps its key."""
        return self

    def pointer(self, topic_partition: TopicPartition, data_key: str) -> tuple[str, bytes] | None:
        """Key and content of the object that names the topic-partition's last file, where the layout has one."""
        return None


class DataKeys(Protocol):
    """Reads the keys of a sink's data objects."""

    @abstractmethod
    def prefix_of(self, topic: str) -> str:
        """What the keys of a topic's objects begin with; several topics may share it."""
        ...

    def prefixes(self, topics: Iterable[str]) -> tuple[str, ...]:
        """What the keys of these topics' objects begin with."""
        return tuple(dict.fromkeys(self.prefix_of(topic) for topic in sorted(topics)))

    def topics_by_prefix(self, topics: Iterable[str]) -> dict[str, list[str]]:
        """Group topics by the prefix below which their objects lie."""
        groups: dict[str, list[str]] = {}
        for topic in sorted(topics):
            groups.setdefault(self.prefix_of(topic), []).append(topic)
        return groups

    @abstractmethod
    def read(self, key: str, topic: str) -> ObjectKey | None:
        """What the key of one of the topic's objects says, None for a key that no sink gives."""
        ...

    def owner(self, key: str, topics: Iterable[str]) -> TopicPartition | None:
        """The topic-partition, of one of these topics, that has an object of this key; None for a key that this sink gives to none."""
        return next((found.topic_partition for topic in topics if (found := self.read(key, topic)) is not None), None)

    def is_foreign(self, key: str, topic: str) -> bool:
        """Whether a key below the prefix is none of the topic's business: here whatever cannot be read as one of its objects."""
        return self.read(key, topic) is None

    def folder_topic(self, file: DataFile) -> str | None:
        """The topic in whose folder an object lies: its own, or that to which a transform has sent its records. None: nothing says it."""
        return file.topic


_RUN: Final = r"[0-9]{1,19}(?:n[0-9]{0,19})?"
_OTHERS: Final = rf"(?:_[0-9]{{1,10}}-[0-9]{{1,19}}-{_RUN})*"
_MARK: Final = rf"(?:-{_RUN}{_OTHERS}\.[0-9a-f]{{8}})?"
_MARKED: Final = re.compile(
    r"-(?P<last>[0-9]{1,19})(?P<records>(?:n[0-9]{0,19})?)"
    rf"(?P<others>{_OTHERS})\.(?P<hash>[0-9a-f]{{8}})(?![^/.])[^/]*",
    re.ASCII,
)
LONGEST_NAME: Final = 255
"""Bytes that MinIO and the file systems behind other stores take as a part of a key."""


def rewritten_key(
    key: str, extension: str, *, last: int, width: int, rewrite: str, slices: Sequence[Slice] = ()
) -> str:
    """The key of the object that takes the place of several, of which the first has this key and extension.

    `last` is the last offset of all, or of the first of its `slices` where it has some, written with `width` digits at least; `rewrite` are
    eight hexadecimal digits.
    """
    stem = key.removesuffix(extension)
    mark = _MARKED.search(stem, stem.rfind("/") + 1)
    begin, end = f"{stem[: mark.start()] if mark else stem}-{str(last).zfill(width)}", f".{rewrite}{extension}"
    whole = f"{begin}{_runs(slices)}{end}"
    return whole if _length(whole) <= LONGEST_NAME else f"{begin}{_COUNTS.sub('n', _runs(slices))}{end}"


def fits_in_name(key: str, slices: Sequence[Slice]) -> bool:
    """Whether the name of an object with these slices, of which the first comes from the object of this key, is not too long.

    So that an erasure can follow, it has to leave space for what such a one says of each.
    """
    space = len(f"-{2**63 - 1}.{'0' * 8}") + len(slices)
    return _length(first_of_rewritten(key)) + len(_runs(slices)) + space <= LONGEST_NAME


_COUNTS: Final = re.compile("n[0-9]+")


def _length(key: str) -> int:
    return len(key.rpartition("/")[2].encode("utf-8", "surrogatepass"))


def _runs(slices: Sequence[Slice]) -> str:
    """What a name says of slices, but for the last offset of the first."""
    others = (f"_{one.partition}-{one.first_offset}-{one.last_offset}{_count(one)}" for one in slices[1:])
    return "".join([*map(_count, slices[:1]), *others])


def _count(one: Slice) -> str:
    return "" if one.records == one.last_offset - one.first_offset + 1 else f"n{one.records}"


def slices_of_rewritten(key: str, first: ObjectKey) -> tuple[Slice, ...]:
    """The slices of an object that was made from others of several topic-partitions, by its key, of which `first` is what it says of the
    first one; none for any other. Where the name does not say how many records a slice has, that is -1.
    """
    found = _MARKED.search(key, key.rfind("/") + 1)
    if found is None or not found["others"]:
        return ()
    named = [(first.topic_partition.partition, first.offset, found["last"] + found["records"])]
    for partition, begin, end in (text.split("-") for text in found["others"][1:].split("_")):
        named.append((int(partition), int(begin), end))
    slices = list[Slice]()
    for partition, begin, end in named:
        last, sparse, records = end.partition("n")
        count = int(records or -1) if sparse else int(last) - begin + 1
        slices.append(Slice(partition, begin, int(last), count))
    return tuple(slices)


def last_of_rewritten(key: str) -> int | None:
    """The last offset of an object that was made from others, or of its first slice, by its key; None for all that tasks have made, whose
    keys do not say it.
    """
    found = _MARKED.search(key, key.rfind("/") + 1)
    return None if found is None else int(found["last"])


def rewrite_of(key: str) -> str:
    """The digits of the rewrite that made an object, by its key; blank for all that tasks have made."""
    found = _MARKED.search(key, key.rfind("/") + 1)
    return "" if found is None else found["hash"]


def first_of_rewritten(key: str) -> str:
    """The key of the first of the objects that one was made from; that of an object which a task has made as it is."""
    found = _MARKED.search(key, key.rfind("/") + 1)
    return key if found is None else f"{key[: found.start()]}{key[found.end('hash') :]}"


def topics_root(topics_dir: str, delimiter: str) -> str:
    """What is in front of the topic in every key: `topics.dir` and the delimiter behind it, or nothing where that is blank."""
    return f"{topics_dir}{delimiter}" if topics_dir.strip() else ""


@dataclass(frozen=True, slots=True)
class ConnectNames(ObjectNames, DataKeys):
    """Connect's keys: `topics.dir`, `directory.delim` (D), `file.delim` (F), `filename.offset.zero.pad.width`.

    `tables`: each topic's folder is a Delta table, to which other writers (OPTIMIZE) add Parquet files under names of their own.
    """

    topics_dir: str
    directory_delim: str
    file_delim: str
    pad_width: int
    tables: bool = False

    def key(
        self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str, folder: str = ""
    ) -> str:
        """The key of the file whose first record has that offset, in a topic's folder, by default its own. Nothing is escaped."""
        topic, partition = topic_partition
        name = self.file_delim.join((topic, str(partition), str(offset).zfill(self.pad_width)))
        return f"{self.prefix_of(folder or topic)}{encoded_partition}{self.directory_delim}{name}{extension}"

    def prefix_of(self, topic: str) -> str:
        """The topic's folder."""
        return f"{self.root}{topic}{self.directory_delim}"

    @property
    def root(self) -> str:
        """What every key begins with."""
        return topics_root(self.topics_dir, self.directory_delim)

    def read(self, key: str, topic: str) -> ObjectKey | None:
        """By the end of the key: in any folder, for a transform may have chosen it, and with offsets of any width."""
        found = self._match(key, topic)
        if found is None:
            return None
        prefix, above = self.prefix_of(topic), found["above"]
        encoded = above.removeprefix(prefix) if above.startswith(prefix) else ""
        tp = TopicPartition(topic, int(found["partition"]))
        return ObjectKey(tp, encoded, int(found["offset"]), found["extension"])

    def read_own(self, key: str, topics: Iterable[str], *, extension: str) -> ObjectKey | None:
        """What a key says that these settings give to an object of one of the topics, with this extension, or to one that a rewrite made
        from such; None for any other key.

        Where a delimiter can be part of a topic's name, the longest topic that fits is taken. Every key has one reading as long as
        `file.delim` begins and ends with something other than a digit.
        """
        for topic in sorted(topics, key=len, reverse=True):
            found = self.read(key, topic) if key.startswith(self.prefix_of(topic)) else None
            if found is not None and found.extension == extension and first_of_rewritten(key) == self._again(found):
                return found
        return None

    def owner(self, key: str, topics: Iterable[str]) -> TopicPartition | None:
        """The topic-partition whose folder and name the key has. An extension holds no folder: what follows one is another's name."""
        for topic in topics:
            found = self._match(key, topic) if key.startswith(self.prefix_of(topic)) else None
            if found is None or len(found["offset"]) < self.pad_width:
                continue
            if self.directory_delim not in found["extension"][1:]:
                return TopicPartition(topic, int(found["partition"]))
        return None

    def is_foreign(self, key: str, topic: str) -> bool:
        """Folders and files that query engines skip: table logs, `_SUCCESS`; not directories of a field whose name begins so.

        In a Delta table also what its other writers make.
        """
        parts = key.removeprefix(self.prefix_of(topic)).split("/")
        skipped = any(part.startswith(("_", ".")) and "=" not in part for part in parts)
        return skipped or (self.tables and key.endswith(".parquet") and self.read(key, topic) is None)

    def folder_topic(self, file: DataFile) -> str:
        """What is between `topics.dir` and the encoded partition; tables and routers do not go together."""
        start = len(self.root)
        end = file.key.find(f"{self.directory_delim}{file.encoded_partition}{self.directory_delim}", start)
        return file.key[start:end] if end > start and not self.tables else file.topic

    def _match(self, key: str, topic: str) -> re.Match[str] | None:
        return _connect_pattern(self.directory_delim, self.file_delim, topic).fullmatch(key)

    def _again(self, found: ObjectKey) -> str:
        return self.key(found.topic_partition, found.encoded_partition, offset=found.offset, extension=found.extension)


@lru_cache(maxsize=4096)
def _connect_pattern(directory_delim: str, file_delim: str, topic: str) -> re.Pattern[str]:
    folder, file, name = map(re.escape, (directory_delim, file_delim, topic))
    ending = rf"(?P<partition>[0-9]+){file}(?P<offset>[0-9]+){_MARK}(?P<extension>(?:[^0-9][^/]*)?)"
    return re.compile(rf"(?P<above>.*){folder}{name}{file}{ending}", re.DOTALL)


IN_NAMES: Final = ("topic", "partition", "offset", "time")
IN_DIRECTORIES: Final = ("topic", "directory")
CONNECT_DIRECTORY: Final = "${topic}/${directory}"
TOPIC: Final = "${topic}"
_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")
_TIME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class TemplateNames(ObjectNames, DataKeys):
    """Keys by templates that have no fault, below `topics_dir` unless it is blank. Files are begun at `now_ms`.

    `routed`: a transform may send records to other topics.
    """

    topics_dir: str
    directory: str
    name: str
    pad_width: int
    routed: bool = False
    now_ms: int = 0

    def key(
        self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str, folder: str = ""
    ) -> str:
        """The key of the file whose first record has that offset, in a topic's folder, by default its own."""
        topic, partition = topic_partition
        moment = datetime.fromtimestamp(self.now_ms // 1000, UTC).strftime(_TIME)
        own = {"topic": topic, "partition": str(partition), "offset": str(offset).zfill(self.pad_width), "time": moment}
        directory = _filled(self.directory, {"topic": folder or topic, "directory": encoded_partition})
        return f"{self.root}{directory}/{_filled(self.name, own)}{extension}"

    def at_time(self, now_ms: int) -> TemplateNames:
        """The names of files that are begun at that time."""
        return replace(self, now_ms=now_ms)

    def with_time_of(self, key: str) -> TemplateNames:
        """The names with the time that the key says; the same where it says none."""
        found = self._pattern(".*").fullmatch(key)
        if found is None or "time" not in found.groupdict():
            return self
        moment = datetime.strptime(found["time"], _TIME).replace(tzinfo=UTC)
        return self.at_time(int(moment.timestamp()) * 1000)

    def prefix_of(self, topic: str) -> str:
        """The keys' beginning up to the encoded partition."""
        fixed = _filled(self._folder, {"topic": topic, "directory": "${directory}"})
        return fixed.partition("${directory}")[0] if "${directory}" in fixed else f"{fixed}/"

    def read(self, key: str, topic: str) -> ObjectKey | None:
        """By the templates."""
        found = self._pattern(re.escape(topic)).fullmatch(key)
        if found is None:
            return None
        encoded, tp = found.groupdict().get("directory", ""), TopicPartition(topic, int(found["partition"]))
        return ObjectKey(tp, encoded, int(found["offset"]), found["extension"])

    def folder_topic(self, file: DataFile) -> str | None:
        """What takes the place of `${topic}` in the folder."""
        if not self.routed:
            return file.topic
        forms = {"topic": "(?P<topic>.*)", "directory": re.escape(file.encoded_partition)}
        found = re.fullmatch(f"{_filled(self._folder, forms, re.escape)}/[^/]*", file.key, re.DOTALL)
        return None if found is None else found.groupdict().get("topic")

    def _pattern(self, topic: str) -> re.Pattern[str]:
        forms = {
            "topic": topic, "directory": "(?P<directory>.*)", "partition": r"(?P<partition>\d+)",
            "offset": rf"(?P<offset>\d{{{max(self.pad_width, 1)},}})", "time": r"(?P<time>\d{8}T\d{6}Z)",
        }  # fmt: skip
        whole = _filled(f"{self._folder}/{self.name}", forms, re.escape)
        return re.compile(rf"{whole}{_MARK}(?P<extension>(?:\D[^/]*)?)", re.ASCII | re.DOTALL)

    @property
    def _folder(self) -> str:
        return f"{self.root}{self.directory}"

    @property
    def root(self) -> str:
        """What every key begins with."""
        return topics_root(self.topics_dir, "/")


def connect_template(file_delim: str) -> str:
    """Connect's names of files as a template."""
    return file_delim.join(("${topic}", "${partition}", "${offset}"))


def name_fault(template: str) -> str | None:
    """Why two files could get one name by it, or it is none; None where it is good."""
    found = _PLACEHOLDER.findall(template)
    if "/" in template:
        return "holds a slash; folders are directory.template's."
    if unknown := _unknown(template, IN_NAMES):
        return unknown
    for name in ("partition", "offset"):
        if name not in found:
            return f"lacks ${{{name}}}: two files could get one name."
    between = _PLACEHOLDER.split(template)[2:-1:2]
    if any(not text or text[0].isdigit() or text[-1].isdigit() for text in between):
        return "has two placeholders with no text between them that begins and ends with something other than a digit."
    return None


def directory_fault(template: str) -> str | None:
    """Why folders cannot be made by it; None where they can."""
    if unknown := _unknown(template, IN_DIRECTORIES):
        return unknown
    parts = template.split("/")
    if "" in parts:
        return "has an empty part between slashes, or begins or ends with one."
    if any("${topic}" in part and "${directory}" in part for part in parts):
        return "has ${topic} and ${directory} in one part: a topic's end could be a directory's beginning."
    return None


def _unknown(template: str, known: tuple[str, ...]) -> str | None:
    found = _PLACEHOLDER.findall(template)
    strange = [name for name in found if name not in known]
    if strange or "${" in _PLACEHOLDER.sub("", template):
        return f"has a placeholder that is none of {', '.join(f'${{{name}}}' for name in known)}."
    if len(set(found)) < len(found):
        return "has a placeholder twice."
    return None


def _filled(template: str, values: Mapping[str, str], literal: Callable[[str], str] = str) -> str:
    def pieces() -> Iterator[str]:
        for number, text in enumerate(_PLACEHOLDER.split(template)):
            yield values[text] if number % 2 else literal(text)

    return "".join(pieces())


DATA_EXTENSION: Final = ".gz"
INDEX_EXTENSION: Final = ".index.json"
_DAY: Final = r"(?P<day>\d{4}-\d{2}-\d{2})"
# a number wider than its padding has no leading zero, so that every key is the one and only spelling of its parts
_NUMBERS: Final = r"(?P<partition>\d{5}|[1-9]\d{5,})-(?P<offset>\d{12}|[1-9]\d{12,})\.gz"
_BLOCK_KEYS: Final = (
    re.compile(rf"{_DAY}/(?P<topic>[^/]+)-{_NUMBERS}", re.ASCII),
    re.compile(rf"(?P<topic>[^/]+)/{_DAY}/{_NUMBERS}", re.ASCII),
)


class DateLayout(StrEnum):
    """What the first directory below the prefix is: the day (every release), or the topic (a later fork)."""

    BY_DATE = "by_date"
    BY_TOPIC = "by_topic"


@dataclass(frozen=True, slots=True)
class BlockNames(ObjectNames, DataKeys):
    """The keys of a Block-GZIP sink; `prefix` is as configured, with or without its last `/`. Records are not partitioned.

    Files are uploaded at `now_ms`; the day is that of `zone`: UTC in the successor, None for the process's own in the original.
    """

    prefix: str = ""
    layout: DateLayout = DateLayout.BY_DATE
    zone: tzinfo | None = UTC
    now_ms: int = 0

    def key(self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str) -> str:
        """The key of the file whose first record has that offset."""
        day = datetime.fromtimestamp(self.now_ms / 1000, UTC).astimezone(self.zone).date()
        return self.key_of_day(topic_partition, offset, day=day, extension=extension)

    def key_of_day(
        self, topic_partition: TopicPartition, offset: int, *, day: date, extension: str = DATA_EXTENSION
    ) -> str:
        """The key of the file whose first record has that offset, and which is uploaded on that day."""
        (topic, partition), prefix = topic_partition, normal_prefix(self.prefix)
        if self.layout is DateLayout.BY_TOPIC:
            return f"{prefix}{topic}/{day.isoformat()}/{partition:05d}-{offset:012d}{extension}"
        return f"{prefix}{day.isoformat()}/{topic}-{partition:05d}-{offset:012d}{extension}"

    def at_time(self, now_ms: int) -> BlockNames:
        """The names of files that are uploaded at that time."""
        return replace(self, now_ms=now_ms)

    def pointer(self, topic_partition: TopicPartition, data_key: str) -> tuple[str, bytes] | None:
        """The pointer's key, and the key of that file's index as its content."""
        return self.pointer_key(topic_partition), index_key_of(data_key).encode()

    def pointer_key(self, topic_partition: TopicPartition) -> str:
        """The key of the object whose whole content is the key of the partition's newest index."""
        (topic, partition), prefix = topic_partition, normal_prefix(self.prefix)
        if self.layout is DateLayout.BY_TOPIC:
            return f"{prefix}{topic}/last_chunk_index.{partition:05d}.txt"
        return f"{prefix}last_chunk_index.{topic}-{partition:05d}.txt"

    def prefix_of(self, topic: str) -> str:
        """The sink's prefix: either layout may be below it."""
        return normal_prefix(self.prefix)

    def prefixes(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The sink's prefix, or each topic's folder below it where there is one."""
        prefix = normal_prefix(self.prefix)
        if self.layout is DateLayout.BY_TOPIC:
            return tuple(f"{prefix}{topic}/" for topic in sorted(topics))
        return (prefix,)

    def read(self, key: str, topic: str) -> ObjectKey | None:
        """What the key of a data object or its index says, in either layout: the topic is that of the key, whichever was asked for."""
        return read_block_key(_data_key_of(key), self.prefix)

    def is_foreign(self, key: str, topic: str) -> bool:
        """Whatever has not the name of one of the topic's data objects or indexes."""
        found = self.read(key, topic)
        return found is None or found.topic_partition.topic != topic

    def owner(self, key: str, topics: Iterable[str]) -> TopicPartition | None:
        """By the key of a data object, an index or a pointer, in the sink's own layout."""
        known, data_key = set(topics), _data_key_of(key)
        found = read_block_key(data_key, self.prefix)
        if found is not None:
            tp, day = found.topic_partition, date.fromisoformat(found.encoded_partition)
            is_ours = tp.topic in known and data_key == self.key_of_day(tp, found.offset, day=day)
            return tp if is_ours else None
        number = re.search(r"(\d{5,})\.txt$", key, re.ASCII)
        candidates = () if number is None else (TopicPartition(topic, int(number[1])) for topic in known)
        return next((tp for tp in candidates if key == self.pointer_key(tp)), None)


def normal_prefix(prefix: str) -> str:
    """The prefix with `/` at its end; blank stays blank."""
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def index_key_of(data_key: str) -> str:
    """The key of a data object's index."""
    return data_key.removesuffix(DATA_EXTENSION) + INDEX_EXTENSION


def _data_key_of(key: str) -> str:
    """The key of the data object that an index belongs to; any other key as it is."""
    return key.removesuffix(INDEX_EXTENSION) + DATA_EXTENSION if key.endswith(INDEX_EXTENSION) else key


def read_block_key(key: str, prefix: str) -> ObjectKey | None:
    """What the key of a data object below the prefix says, in either layout; None for any other key (SEMANTICS B6)."""
    below = normal_prefix(prefix)
    matches = (pattern.fullmatch(key, len(below)) for pattern in _BLOCK_KEYS)
    found = next(filter(None, matches), None) if key.startswith(below) else None
    if found is None:
        return None
    try:
        date.fromisoformat(found["day"])
    except ValueError:
        return None
    tp = TopicPartition(found["topic"], int(found["partition"]))
    return ObjectKey(tp, found["day"], int(found["offset"]), DATA_EXTENSION)


@dataclass(frozen=True, slots=True)
class RoutedNames(ObjectNames):
    """The names of records that a transform has sent to another topic: as if they were of that topic.

    Where several topics of Kafka may go there (`keeps_source`) only the folder is the new topic's: the object is called by the topic
    that its offset belongs to, for two of them have the same offsets.
    """

    inner: ConnectNames | TemplateNames
    topic: str
    keeps_source: bool

    def key(self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str) -> str:
        """The key of the file whose first record has that offset."""
        target = TopicPartition(self.topic, topic_partition.partition)
        name = topic_partition if self.keeps_source else target
        return self.inner.key(name, encoded_partition, offset=offset, extension=extension, folder=self.topic)

    def at_time(self, now_ms: int) -> RoutedNames:
        """The names of files of that time."""
        return replace(self, inner=self.inner.at_time(now_ms))

    def with_time_of(self, key: str) -> RoutedNames:
        """The names that files had when the one with this key was begun."""
        return replace(self, inner=self.inner.with_time_of(key))


@dataclass(frozen=True, slots=True)
class RemadeNames(ObjectNames):
    """Other names, but for one extension, which has this key: that of a file that is made again."""

    inner: ObjectNames
    extension: str
    fixed: str

    def key(self, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str) -> str:
        """The fixed key, or the other names'."""
        if extension == self.extension:
            return self.fixed
        return self.inner.key(topic_partition, encoded_partition, offset=offset, extension=extension)


DELTA_LOG: Final = "_delta_log"
LONGEST_KEY: Final = 1024
SHOWN: Final = 120
_DOTS: Final = frozenset({".", ".."})
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def refusal(key: str, *, state_prefix: str) -> str | None:
    """Why an object of this key is never written, None where it may be. The text shows control characters in escaped form."""
    parts = [part for part in key.split("/") if part]
    reason = part_refusal(key)
    if reason is None and len(key.encode("utf-8", "surrogatepass")) > LONGEST_KEY:
        reason = f"has more than {LONGEST_KEY} bytes, which S3 takes in no key"
    state = [part for part in state_prefix.split("/") if part]
    if reason is None and state and parts[: len(state)] == state:
        reason = f"lies in {'/'.join(state)}/, the folder of the commit log"
    return f"The object's key {_quoted(key)} {reason}." if reason else None


def refusals(keys: Sequence[str], *, state_prefix: str) -> dict[int, str]:
    """The refusals by the positions of their keys. One look at ten thousand keys mostly shows that no rule concerns any of them."""
    joint, first = "/" + "/".join(keys), state_prefix.strip("/").partition("/")[0]
    harmless = joint.isascii() and joint.isprintable() and max(map(len, keys), default=0) <= LONGEST_KEY
    if harmless and DELTA_LOG not in joint and "/." not in joint and not (first and f"/{first}" in joint):
        return {}
    judged = ((row, refusal(key, state_prefix=state_prefix)) for row, key in enumerate(keys))
    return {row: reason for row, reason in judged if reason is not None}


def part_refusal(text: str) -> str | None:
    """What makes a key with this text in it unwritable, None where nothing does."""
    control = _CONTROL.search(text)
    if control is not None:
        return f"holds the control character U+{ord(control[0]):04X}"
    parts = text.split("/")
    dots = next((part for part in parts if part in _DOTS), None)
    if dots is not None:
        return f"has the part {dots!r}, which leads readers out of its folder"
    if DELTA_LOG in parts:
        return f"has the part {DELTA_LOG!r}, which is the log of a Delta table"
    return None


def _quoted(key: str) -> str:
    shown = key if len(key) <= SHOWN else f"{key[:SHOWN]}..."
    return ascii(shown) if _CONTROL.search(shown) else repr(shown)
