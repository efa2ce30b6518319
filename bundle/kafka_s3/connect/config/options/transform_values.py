"""Which texts are values of a transform's settings? Cast specifications, patterns of Java, pairs, references into events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka_s3.connect.config.valid_values import InvalidValue, Value
from kafka_s3.connect.java.regex import compiled
from kafka_s3.connect.java.simple_dates import tokens

CAST_TYPES: Final = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
UNCASTABLE: Final = ("array", "map", "struct", "bytes")
SUPPORTED: Final = "[INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING]"
PATH: Final = re.compile(r"\$?(?:\.?[A-Za-z_][\w-]*|\[(?:\"[^\"]+\"|'[^']+')\])+")
STEP: Final = re.compile(r"\[(?:\"([^\"]+)\"|'([^']+)')\]|([A-Za-z_][\w-]*)")


def cast_types(spec: tuple[str, ...]) -> Mapping[str, str]:
    """Types by fields; one of the blank name is that of the whole part. Raises InvalidValue."""
    found: dict[str, str] = {}
    for pair in spec:
        parts = [part.strip() for part in pair.split(":")]
        if len(parts) > 2 and any(parts[2:]):
            raise InvalidValue(f"Invalid rename mapping: {pair}", "Write field:type.")
        whole = len(parts) == 1 or not any(parts[1:])
        name, kind = ("", parts[0]) if whole else (parts[0], parts[1])
        if kind.lower() in UNCASTABLE:
            raise InvalidValue(
                f"Cast transformation does not support casting to {kind.upper()}; supported types are {SUPPORTED}"
            )
        if kind.lower() not in CAST_TYPES:
            raise InvalidValue(f"Invalid type found in casting spec: {kind}", f"The types are {', '.join(CAST_TYPES)}.")
        found[name] = kind.lower()
    if "" in found and len(spec) > 1:
        raise InvalidValue(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in their spec"
        )
    return found


@dataclass(frozen=True, slots=True)
class CastSpec:
    """Pairs of field and type, or one type."""

    text: str = "field:type, or a type"

    def accept(self, value: Value) -> Value:
        """The pairs."""
        if isinstance(value, tuple) and value:
            cast_types(value)
            return value
        raise InvalidValue("Must specify at least one field to cast.")


def pairs(renames: tuple[str, ...]) -> Mapping[str, str]:
    """New names by old ones. Raises InvalidValue."""
    found = {}
    for pair in renames:
        parts = [part.strip() for part in pair.split(":")]
        if len(parts) != 2 or not parts[1]:
            raise InvalidValue(f"Invalid rename mapping: {pair}", "Write old:new.")
        found[parts[0]] = parts[1]
    return found


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of names."""

    text: str = "old:new"

    def accept(self, value: Value) -> Value:
        """The pairs."""
        if isinstance(value, tuple):
            pairs(value)
        return value


@dataclass(frozen=True, slots=True)
class FilledList:
    """A list that is not empty."""

    text: str = "at least one"

    def accept(self, value: Value) -> Value:
        """The list."""
        if not value:
            raise InvalidValue("Empty list")
        return value


@dataclass(frozen=True, slots=True)
class FilledText:
    """A text that is not empty."""

    text: str = "not empty"

    def accept(self, value: Value) -> Value:
        """The text."""
        if not value:
            raise InvalidValue("String must be non-empty")
        return value


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A regular expression of Java that runs here, too."""

    text: str = "a regular expression"

    def accept(self, value: Value) -> Value:
        """The expression."""
        if not value:
            raise InvalidValue("String must be non-empty")
        try:
            compiled(str(value))
        except ValueError as error:
            raise InvalidValue(f"Invalid regex: {error}.") from None
        return value


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A pattern of Java's SimpleDateFormat."""

    text: str = "letters of SimpleDateFormat"

    def accept(self, value: Value) -> Value:
        """The pattern."""
        try:
            tokens(str(value))
        except ValueError as error:
            raise InvalidValue(f"is no pattern of SimpleDateFormat: {error}.") from None
        return value


@dataclass(frozen=True, slots=True)
class References:
    """Fields of a change event."""

    text: str = "field, struct.field or either with :name"

    def accept(self, value: Value) -> Value:
        """The fields."""
        for one in value if isinstance(value, tuple) else ():
            parts = one.partition(":")[0].split(".")
            if len(parts) > 2 or not all(parts):
                raise InvalidValue(f"Unexpected field value: {one}", "Write field, or struct.field.")
        return value


def field_path(text: str) -> tuple[str, ...]:
    """The names of `a.b` under `field.syntax.version=v2`: backticks keep a name with dots whole. Raises InvalidValue."""
    names: list[str] = []
    at = 0
    while True:
        if text.startswith("`", at):
            end = at + 1
            while (end := text.find("`", end)) >= 0 and end + 1 < len(text) and text[end + 1] != ".":
                end += 1
            if end < 0:
                raise InvalidValue(f"Incomplete backtick pair in path: [{text}], consider adding a backtick symbol")
            names.append(text[at + 1 : end].replace("\\`", "`"))
            at = end + 1
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            names.append(text[at:end])
            at = end
        if at >= len(text):
            return tuple(names)
        at += 1


def json_path(text: str) -> tuple[str, ...]:
    """The names of a JSON path that is made of names only. Raises InvalidValue."""
    if not PATH.fullmatch(text):
        raise InvalidValue("is no JSON path of names.", 'Write $.a.b or $["a"]["b"].')
    return tuple(next(filter(None, groups)) for groups in STEP.findall(text.removeprefix("$")))
