"""Which values does a key take, beyond those of its type?"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from kafka_s3.model.text import Secret

Value = str | int | bool | tuple[str, ...] | Secret | None
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class InvalidValue(ValueError):
    """A text is not a value of its option: the rule it breaks and a remedy, both free of the text itself."""

    def __init__(self, rule: str, remedy: str = "") -> None:
        self.rule, self.remedy = rule, remedy
        super().__init__(rule)


class Valid(Protocol):
    """What values a key takes beyond its type."""

    @property
    def text(self) -> str:
        """The values, for the reference page."""
        ...

    def accept(self, value: Value) -> Value:
        """The value in its canonical form. Raises InvalidValue."""
        ...


@dataclass(frozen=True, slots=True)
class Anything:
    """Every value of the type."""

    text: str = ""

    def accept(self, value: Value) -> Value:
        """The value as it is."""
        return value


@dataclass(frozen=True, slots=True)
class Distinct:
    """A list whose blank and repeated parts do not count."""

    text: str = ""

    def accept(self, value: Value) -> Value:
        """Each part once."""
        return tuple(dict.fromkeys(part for part in value if part)) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Range:
    """Integers from `low` to `high`, both included."""

    low: int
    high: int = LONG_MAX

    @property
    def text(self) -> str:
        """The range in words."""
        return f"at least {self.low}" if self.high == LONG_MAX else f"{self.low} to {self.high}"

    def accept(self, value: Value) -> Value:
        """The number, if it lies in the range."""
        if isinstance(value, int) and self.low <= value <= self.high:
            return value
        raise InvalidValue(f"must be {self.text}.")


@dataclass(frozen=True, slots=True)
class OneOf:
    """A fixed set of texts, by exact case."""

    values: tuple[str, ...]

    @property
    def text(self) -> str:
        """The texts."""
        return ", ".join(value or "blank" for value in self.values)

    def accept(self, value: Value) -> Value:
        """The text, if it is one of the set."""
        if value in self.values:
            return value
        raise InvalidValue(f"must be one of: {self.text}.", did_you_mean(str(value), self.values))


@dataclass(frozen=True, slots=True)
class OneOfAnyCase:
    """A fixed set of texts, in any case."""

    values: tuple[str, ...]

    @property
    def text(self) -> str:
        """The texts."""
        return f"{', '.join(self.values)} (any case)"

    def accept(self, value: Value) -> Value:
        """The text as the set spells it."""
        found = {known.lower(): known for known in self.values}.get(str(value).lower())
        if found is None:
            raise InvalidValue(f"must be one of: {self.text}.", did_you_mean(str(value), self.values))
        return found


@dataclass(frozen=True, slots=True)
class KnownClass:
    """Java class names, whole or simple, and our names for them; `registered` gives names that are looked up when asked for.

    `others` are classes that are not here, each with what to do instead.
    """

    names: Mapping[str, str]
    registered: Callable[[], Iterable[str]] = tuple
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The Java names, each with ours where it is not part of it."""
        return ", ".join(dict.fromkeys(self.names)) + f"; or by our names: {', '.join(self._ours())}"

    def _ours(self) -> list[str]:
        return [*dict.fromkeys(self.names.values())]

    def accept(self, value: Value) -> Value:
        """Our name of the class."""
        given = str(value)
        ours = [*self._ours(), *self.registered()]
        # of two classes with one simple name the first has it
        simple = {java.rpartition(".")[2]: name for java, name in reversed(list(self.names.items()))}
        if given in self.names or given in simple or given in ours:
            return self.names.get(given) or simple.get(given, given)
        if given in self.others:
            raise InvalidValue("is a class that this sink does not have.", self.others[given])
        bare = given.rpartition(".")[2]
        if bare in simple:
            raise InvalidValue("is not a known class.", f"Did you mean {bare}?")
        names = [*simple, *(name for name in ours if name not in simple)]
        raise InvalidValue("is not a known class.", f"{did_you_mean(bare, names)} {_nearest(bare, names)}".strip())


def _nearest(given: str, known: Iterable[str]) -> str:
    """A sentence with the known names that are most like one, five at most."""
    names = {name.lower(): name for name in reversed([*known])}
    near = [names[one] for one in difflib.get_close_matches(given.lower(), names, n=5, cutoff=0.0)]
    return f"The nearest that there are: {', '.join(near)}."


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known name other than itself, or nothing."""
    spelt = {name.lower(): name for name in known if name and name != given}
    near = difflib.get_close_matches(given.lower(), spelt, n=1, cutoff=0.75)
    return f"Did you mean {spelt[near[0]]}?" if near else ""
