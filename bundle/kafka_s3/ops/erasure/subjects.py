"""Whose records are to be erased? By the key of a record, or by fields of its value; one subject, or a file of them.

Texts are compared: `customer.id = 42` means the number 42 and the text 42. A path goes through members; where one is a list, through each
of its items.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from io import StringIO
from itertools import product
from typing import Any, Final

from kafka_s3.model.errors import ConfigError, Problem

KEY: Final = "key"
"""The column of a file that holds keys."""
ROUNDS: Final = 10_000
"""A guess at a subject of which the log has the hash costs so many."""
Path = tuple[str, ...]


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
        self._keys = {form for key in keys for form in (key, _document_text(key))}
        self._fields: dict[tuple[Path, ...], set[tuple[str, ...]]] = {}
        for one in self.all:
            if one.key is None:
                paths, texts = zip(*sorted(one.fields), strict=True)
                self._fields.setdefault(paths, set()).add(texts)

    @property
    def by_key(self) -> bool:
        """Whether keys are asked for."""
        return bool(self._keys)

    @property
    def paths(self) -> frozenset[Path]:
        """The fields that are asked for."""
        return frozenset(path for paths in self._fields for path in paths)

    def texts_of(self, path: Path) -> frozenset[str]:
        """The texts that are asked for in a field."""
        return frozenset(
            texts[paths.index(path)] for paths, every in self._fields.items() if path in paths for texts in every
        )

    def has_key(self, key: Any) -> bool:
        """Whether the key of a record, a document or bytes, is one of theirs."""
        return self.by_key and not self._keys.isdisjoint(_key_texts(key))

    def has_value(self, value: Any) -> bool:
        """Whether the value of a record is of one of them."""
        return any(
            texts in wanted
            for paths, wanted in self._fields.items()
            for texts in product(*(tuple(_texts(value, path)) for path in paths))
        )


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
    if not names or not all(names) or (KEY in names and len(names) > 1):
        rule = "does not begin with a line that names its columns."
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


def _texts(value: Any, path: Path) -> Iterator[str]:
    """The texts of a field; none where it is not there."""
    if isinstance(value, list):
        for item in value:
            yield from _texts(item, path)
    elif path:
        if isinstance(value, Mapping) and path[0] in value:
            yield from _texts(value[path[0]], path[1:])
    elif (text := text_of(value)) is not None:
        yield text


def text_of(value: Any) -> str | None:
    """A value as it is compared; None for what has no text of its own."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case Decimal():
            return f"{value.normalize():f}"
        case bytes():
            return value.decode("utf-8", "replace")
        case None | dict() | list() | tuple():
            return None
    return str(value)


def _key_texts(key: Any) -> Iterable[str]:
    if isinstance(key, Mapping | list):
        return [_sorted(key)]
    text = text_of(key)
    return [] if text is None else [text, _document_text(text)] if isinstance(key, bytes | str) else [text]


def _document_text(text: str) -> str:
    """A text that is a JSON document, with its members in order; else itself."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _sorted(document) if isinstance(document, dict | list) else text


def _sorted(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), default=str)
