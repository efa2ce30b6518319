"""What is a topic's table called in the catalog, and are two locations the same? Names have `${topic}` for the topic."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from kafka_s3.model.errors import TableRefused

TOPIC: Final = "${topic}"
_PART: Final = re.compile(r"[^\s.`/\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class TableName:
    """A name of two or three parts: catalog (or the session's), schema, table."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        """The name for people."""
        return ".".join(self.parts)

    @property
    def sql(self) -> str:
        """The name in SQL, quoted whatever it holds."""
        return ".".join("`" + part.replace("`", "``") + "`" for part in self.parts)


@dataclass(slots=True)
class TableNames:
    """The tables' names of one sink. No two topics have the same."""

    pattern: str
    key: str = "delta.table.name"
    _topics: dict[str, str] = field(default_factory=dict)

    def of(self, topic: str) -> TableName:
        """The name of a topic's table; dots and dashes of the topic are underscores in it, for not every catalog takes them.

        Raises TableRefused where another topic has that name already.
        """
        plain = topic.replace(".", "_").replace("-", "_")
        name = TableName(tuple(part.replace(TOPIC, plain) for part in parts(self.pattern)))
        other = self._topics.setdefault(str(name).lower(), topic)
        if other != topic:
            raise TableRefused(
                f"Topics {other} and {topic} would share the table {name} ({self.key}={self.pattern}; dots and dashes become "
                f"underscores, and case does not count). Give one of them a sink of its own, with another {self.key}."
            )
        return name


def parts(pattern: str) -> list[str]:
    """The parts of a pattern."""
    return pattern.split(".")


def fault(pattern: str) -> str:
    """Why a text is not a pattern of table names; nothing where it is one."""
    found = [part.replace(TOPIC, "t") for part in parts(pattern)]
    if len(found) not in (2, 3) or not all(_PART.fullmatch(part) for part in found):
        return "must be catalog.schema.table or schema.table, without blanks, slashes and quotes in its parts."
    if any("${" in part for part in found):
        return "knows no other variable than ${topic}."
    return ""


def normal_location(location: str) -> str:
    """A location in the one form in which locations can be compared."""
    scheme, _, path = location.rpartition(":") if ":" not in location else location.partition(":")
    return f"{'s3' if re.fullmatch('s3[an]?', scheme) else scheme}:{unquote(path).strip('/')}"
