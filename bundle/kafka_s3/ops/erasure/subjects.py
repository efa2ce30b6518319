"""Whose records are to be erased? By the key of a record, or by fields of its value; one subject, or a file of them.

`customer.id = 42` means the number 42, however it is spelt (`42.0`, `4.2e1`), and the text 42. A path goes through members. If one is a
list, or occurs several times in a JSON object, it goes through each.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from io import StringIO
from typing import Any, Final
from urllib.parse import unquote

from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.objects.erasing import parse_all_members

KEY: Final = "key"
"""The column of a file that holds keys."""
MOST_DIGITS: Final = 400
"""A whole number of more digits is compared as a float."""
ROUNDS: Final = 10_000
"""A guess at a subject of which the log has the hash costs so many."""
Path = tuple[str, ...]
NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,9})?", re.ASCII)
Comparable = str | Decimal
"""What is compared of a value: numbers by value, all else by text."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One: its key, or texts that fields of the value have, all of them."""

    key: str | None = None
    fields: tuple[tuple[Path, str], ...] = ()

    def hashed(self, salt: bytes) -> str:
        """What the log keeps of it."""
        said = json.dumps([self.key, sorted([list(path), text] for path, text in self.fields)], ensure_ascii=False)
        return hashlib.pbkdf2_hmac("sha256", said.encode("utf-8", "surrogatepass"), salt, ROUNDS).hex()


class Subjects:
    """Several; whether a record is of one of them."""

    def __init__(self, subjects: Sequence[Subject]) -> None:
        self.all = tuple(dict.fromkeys(subjects))
        keys = [one.key for one in self.all if one.key is not None]
        self._keys = {form for key in keys for form in (*_forms(key), _document_text(key))}
        self._texts: dict[Path, set[str]] = {}
        numbers: dict[tuple[Path, ...], dict[Path, dict[Comparable, set[int]]]] = {}
        for number, one in enumerate(self.all):
            index = numbers.setdefault(tuple(sorted(path for path, _ in one.fields)), {})
            for path, text in one.fields:
                self._texts.setdefault(path, set()).add(text)
                for form in _forms(text):
                    index.setdefault(path, {}).setdefault(form, set()).add(number)
        # the field with the most texts first: it leaves the fewest subjects
        self._fields = [sorted(one.items(), key=lambda item: -len(item[1])) for one in numbers.values() if one]

    @property
    def by_key(self) -> bool:
        """Whether keys are asked for."""
        return bool(self._keys)

    @property
    def paths(self) -> frozenset[Path]:
        """The fields that are asked for."""
        return frozenset(self._texts)

    def texts_of(self, path: Path) -> frozenset[str]:
        """The texts that are asked for in a field."""
        return frozenset(self._texts.get(path, ()))

    def has_key(self, key: Any) -> bool:
        """Whether the key of a record, a document or bytes, is one of theirs."""
        return self.by_key and not self._keys.isdisjoint(_key_texts(key))

    def are_named_in(self, directory: str) -> bool:
        """Return whether a part of a directory, or its value in `name=value`, is a key or a text of theirs."""
        parts = (unquote(part.rpartition("=")[2]) for part in directory.split("/"))
        names: list[Container[object]] = [self._keys, *self._texts.values()]
        return any(part in texts for part in parts for texts in names)

    def has_value(self, value: Any) -> bool:
        """Whether the value of a record is of one of them."""
        return any(_is_of_one(value, index) for index in self._fields)


def _is_of_one(value: Any, index: Sequence[tuple[Path, Mapping[Comparable, set[int]]]]) -> bool:
    """Return whether some subject has a text of each field: in time for the record's length, whatever it holds."""
    left: set[int] | None = None
    for path, numbers in index:
        subjects = set[int]().union(*(numbers.get(form, ()) for form in set(_comparables(value, path))))
        left = subjects if left is None else left & subjects
        if not left:
            return False
    return True


def _forms(text: str) -> tuple[Comparable, ...]:
    """Return what is compared with values: the text, and the number that it may be."""
    return (text, Decimal(text)) if NUMBER.fullmatch(text) else (text,)


def subjects_of(key: str | None, where: str | None, content: str | None) -> Subjects:
    """The subjects that a command names in one of three ways; `content` is that of a file. Raises ConfigError."""
    if sum(given is not None for given in (key, where, content)) != 1:
        raise _refused(
            "--key", None, "is needed, or --where, or --file.", "Say whose records are meant, in one of these ways."
        )
    if key is not None:
        return Subjects([Subject(key=key)])
    if where is not None:
        return Subjects([_condition(where)])
    return Subjects(list(_of_file(content or "")))


def _condition(text: str) -> Subject:
    """`customer.id = 42`."""
    path, equals, literal = (part.strip() for part in text.partition("="))
    if not path or not equals or not literal:
        rule = "is not a field, an equals sign and what it is."
        raise _refused("--where", text, rule, 'Write --where "customer.id = 42" or --where "name = \'Smith\'".')
    if literal[0] == literal[-1] and literal[0] in "'\"" and len(literal) > 1:
        literal = literal[1:-1]
    return Subject(fields=((_path(path), literal),))


def _path(text: str) -> Path:
    return tuple(part.strip() for part in text.split("."))


def _of_file(content: str) -> Iterator[Subject]:
    """A line names the columns, `key` or fields; every other one is a subject."""
    rows = csv.reader(StringIO(content.removeprefix("\ufeff"), newline=""))
    names = [name.strip() for name in next(rows, [])]
    if not names or not all(names) or len(set(names)) < len(names) or (KEY in names and len(names) > 1):
        rule = "does not begin with a line that names its columns, each once."
        raise _refused("--file", ",".join(names), rule, "Begin with `key`, or with fields: customer.id,country.")
    for number, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(names) or "" in row:
            raise _refused(
                "--file", f"line {number}", "has no text for each column.", "Give every subject all of them."
            )
        fields = tuple((_path(name), text) for name, text in zip(names, row, strict=True))
        yield Subject(key=row[0]) if names == [KEY] else Subject(fields=fields)


def _refused(key: str, value: str | None, rule: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(key, value, rule, remedy)])


def _comparables(value: Any, path: Path) -> Iterator[Comparable]:
    """Yield what is compared of a field; nothing if it is not there."""
    if isinstance(value, list):
        for item in value:
            yield from _comparables(item, path)
    elif path:
        if isinstance(value, Mapping) and path[0] in value:
            yield from _comparables(value[path[0]], path[1:])
        elif isinstance(value, tuple) and value[0] == path[0]:  # a map of Parquet
            yield from _comparables(value[1], path[1:])
    elif (form := comparable(value)) is not None:
        yield form


def comparable(value: Any) -> Comparable | None:
    """Return a value as it is compared; None for what has no text of its own."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return Decimal(value)
        case float() if math.isfinite(value):
            return Decimal(repr(value))
        case Decimal():
            return value
        case bytes():
            return value.decode("utf-8", "replace")
        case None | dict() | list() | tuple():
            return None
    return str(value)


def _key_texts(key: Any) -> Iterable[Comparable]:
    if isinstance(key, Mapping | list):
        return [_sorted(key)]
    form = comparable(key)
    return [] if form is None else [form, _document_text(form)] if isinstance(form, str) else [form]


def _document_text(text: str) -> str:
    """A text that is a JSON document, with its members in order; else itself."""
    try:
        document = parse_all_members(text)
    except (ValueError, RecursionError):
        return text
    return _sorted(document) if isinstance(document, dict | list) else text


def _sorted(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> int | float | str:
    if not isinstance(value, Decimal) or not value.is_finite():
        return str(value)
    return (
        int(value)
        if -MOST_DIGITS < value.adjusted() < MOST_DIGITS and value == value.to_integral_value()
        else float(value)
    )
