"""What is an object called where the names are not Connect's? By two templates, of which every key can be read back.

`object.name.template` says a file's name (`${topic}`, `${partition}`, `${offset}`, `${time}`), `directory.template` its folder
(`${topic}`, `${directory}`). No two files may get one key: that partition and offset are in every name, and can be told apart there, is
what `name_fault` and `directory_fault` see to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from kafka_s3.connect.naming.keys import FolderNames
from kafka_s3.model.offsets import TopicPartition

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
