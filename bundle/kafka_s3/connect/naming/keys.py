"""What is an object called, and whose object is it that has a key? The one grammar of keys, written and read back.

Three spellings (`[x]` where there is one):

- Connect's (SEMANTICS A4), D and F being `directory.delim` and `file.delim`:
  `[topics.dir D] topic D encodedPartition D topic F partition F offset extension`
- by templates: `object.name.template` says a file's name (`${topic}`, `${partition}`, `${offset}`, `${time}`), `directory.template` its
  folder (`${topic}`, `${directory}`). No two files may get one key: that partition and offset are in every name, and can be told apart
  there, is what `name_fault` and `directory_fault` see to.
- Block-GZIP (SEMANTICS B2), by date or by topic. Partitions have at least 5 digits, offsets at least 12; the date is the day of the
  upload. The index has the name of its data object, with `.index.json` in place of `.gz`; the pointer holds the key of the newest index::

    by date    {prefix}{date}/{topic}-{partition}-{first offset}.gz           {prefix}last_chunk_index.{topic}-{partition}.txt
    by topic   {prefix}{topic}/{date}/{partition}-{first offset}.gz           {prefix}{topic}/last_chunk_index.{partition}.txt

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
from typing import Final, NamedTuple, Protocol, Self

from kafka_s3.model.offsets import TopicPartition

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
    """The refusals by the places of their keys. Of most keys no rule could be about any, which one look at ten thousand of them says."""
    joint, first = "/" + "/".join(keys), state_prefix.strip("/").partition("/")[0]
    harmless = joint.isascii() and joint.isprintable() and max(map(len, keys), default=0) <= LONGEST_KEY
    if harmless and DELTA_LOG not in joint and "/." not in joint and not (first and f"/{first}" in joint):
        return {}
    judged = ((place, refusal(key, state_prefix=state_prefix)) for place, key in enumerate(keys))
    return {place: reason for place, reason in judged if reason is not None}


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
    date: date


@dataclass(frozen=True, slots=True)
class BlockNames:
    """How a sink names its objects; `prefix` is as configured, with or without its last `/`."""

    prefix: str = ""
    layout: DateLayout = DateLayout.BY_DATE

    def data_key(self, topic_partition: TopicPartition, first_offset: int, *, date: date) -> str:
        """The key of the object that begins with the record of this offset and is uploaded on this day."""
        return self._stem(topic_partition, first_offset, date) + DATA_EXTENSION

    def index_key(self, topic_partition: TopicPartition, first_offset: int, *, date: date) -> str:
        """The key of that object's index."""
        return self._stem(topic_partition, first_offset, date) + INDEX_EXTENSION

    def pointer_key(self, topic_partition: TopicPartition) -> str:
        """The key of the object whose whole content is the key of the partition's newest index."""
        topic, partition = topic_partition
        prefix = normal_prefix(self.prefix)
        if self.layout is DateLayout.BY_TOPIC:
            return f"{prefix}{topic}/last_chunk_index.{partition:05d}.txt"
        return f"{prefix}last_chunk_index.{topic}-{partition:05d}.txt"

    def _stem(self, topic_partition: TopicPartition, first_offset: int, date: date) -> str:
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
    zone: tzinfo | None = UTC
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

    def _date(self) -> date:
        moment = datetime.fromtimestamp(self.now_ms / 1000, UTC)
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
                day = date.fromisoformat(found["date"])
            except ValueError:
                return None
            return DataKey(found["topic"], int(found["partition"]), int(found["offset"]), day)
    return None


IN_NAMES: Final = ("topic", "partition", "offset", "time")
IN_DIRECTORIES: Final = ("topic", "directory")
CONNECT_DIRECTORY: Final = "${topic}/${directory}"
TOPIC: Final = "${topic}"
_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")
_TIME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class TemplateNames(FolderNames):
    """Keys by templates that have no fault; `topics_dir` stands before them unless it is blank. files are begun at `now_ms`."""

    topics_dir: str
    directory: str
    name: str
    pad_width: int
    now_ms: int = 0

    def within(
        self, folder: str, topic_partition: TopicPartition, encoded_partition: str, *, offset: int, extension: str
    ) -> str:
        """The key of the file whose first record has that offset, in the folder of a topic that may be another one."""
        topic, partition = topic_partition
        moment = datetime.fromtimestamp(self.now_ms // 1000, UTC).strftime(_TIME)
        own = {"topic": topic, "partition": str(partition), "offset": str(offset).zfill(self.pad_width), "time": moment}
        directory = _filled(self.directory, {"topic": folder, "directory": encoded_partition})
        return "/".join((*self._folders(), directory, _filled(self.name, own) + extension))

    def at(self, now_ms: int) -> TemplateNames:
        """The names of files that are begun at that time."""
        return replace(self, now_ms=now_ms)

    def like(self, key: str) -> TemplateNames:
        """The names with the time that the key says; the same where it says none."""
        found = re.fullmatch(self._pattern(topic=".*"), key, re.ASCII | re.DOTALL)
        if found is None or "time" not in found.groupdict():
            return self
        moment = datetime.strptime(found["time"], _TIME).replace(tzinfo=UTC)
        return self.at(int(moment.timestamp()) * 1000)

    def prefix(self, topic: str) -> str:
        """What the keys of a topic's objects begin with."""
        fixed = _filled("/".join((*self._folders(), self.directory)), {"topic": topic, "directory": "${directory}"})
        return fixed.partition("${directory}")[0] if "${directory}" in fixed else f"{fixed}/"

    def folder_topic(self, key: str, encoded_partition: str) -> str | None:
        """The topic that the folder of an object of that directory names; None where folders name none."""
        forms = {"topic": "(?P<topic>.*)", "directory": re.escape(encoded_partition)}
        folder = _filled("/".join((*self._folders(), self.directory)), forms, re.escape)
        found = re.fullmatch(f"{folder}/[^/]*", key, re.DOTALL)
        return None if found is None else found.groupdict().get("topic")

    def read(self, key: str, topic: str) -> tuple[int, int] | None:
        """Partition and offset that the key of one of the topic's objects says, None for a key that no file of it gets."""
        found = re.fullmatch(self._pattern(topic=re.escape(topic)), key, re.ASCII | re.DOTALL)
        return None if found is None else (int(found["partition"]), int(found["offset"]))

    def _pattern(self, *, topic: str) -> str:
        forms = {
            "topic": topic, "directory": ".*", "partition": r"(?P<partition>\d+)",
            "offset": rf"(?P<offset>\d{{{max(self.pad_width, 1)},}})", "time": r"(?P<time>\d{8}T\d{6}Z)",
        }  # fmt: skip
        whole = "/".join((*self._folders(), self.directory, self.name))
        return _filled(whole, forms, re.escape) + r"(?:\D[^/]*)?"

    def _folders(self) -> list[str]:
        return [self.topics_dir] if self.topics_dir.strip() else []


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
        for place, text in enumerate(_PLACEHOLDER.split(template)):
            yield values[text] if place % 2 else literal(text)

    return "".join(pieces())


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
    """Keys as `Naming` makes them, whatever the directories of the partitioner are."""

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
    """Keys as `TemplateNames` makes them."""

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
    """Keys as `BlockNames` makes them: data, index and pointer, in the sink's own layout."""

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
