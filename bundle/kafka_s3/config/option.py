"""What is a row of the option table, and how does a text become its value?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol

from kafka_s3.model.secret import MASK, Secret

Value = str | int | bool | tuple[str, ...] | Secret | None
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_INTEGER = re.compile(r"[+-]?[0-9]+")
_SENSITIVE = re.compile(
    r"passw|passphrase|pwd|secret|token(?!\.endpoint\.url)|jaas|user\.info|external\.id|keystore\.key|private",
    re.IGNORECASE,
)
_USER_IN_URL = re.compile(r"(?<=//)[^/@\s]+(?=@)")


class Type(StrEnum):
    """Connect's types. `int` has 32 bits, `long` 64; a list is separated by commas."""

    STRING = "string"
    INT = "int"
    LONG = "long"
    BOOLEAN = "boolean"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"


class OptionStatus(StrEnum):
    """What this version does with a key."""

    ACTED_ON = "acted on"
    INFORMATIONAL = "informational"
    NOT_YET = "not yet"
    REFUSED = "refused"


class OptionGroup(StrEnum):
    """The chapters of the reference page."""

    FRAMEWORK = "Connector and topics"
    TRANSFORMS = "Transforms"
    CONVERTERS = "Converters"
    ROTATION = "Rotation and object names"
    PARTITIONER = "Partitioner"
    FORMAT = "Formats"
    RECORDS = "Null values, keys and headers"
    STORAGE = "S3"
    ERRORS = "Errors and dead letters"
    KAFKA = "Kafka"
    OURS = "Additions of kafka-s3"
    DELTA = "Delta tables"
    BLOCK_GZIP = "Block-GZIP"
    CLOUD = "Managed cloud spelling"


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
        known = list(dict.fromkeys((*self.names, *ours)))
        bare = given.rpartition(".")[2]
        near = f"Did you mean {bare}?" if bare in simple else did_you_mean(bare, [*simple, *ours])
        raise InvalidValue(f"is not a known class. Known: {', '.join(known)}.", near)


@dataclass(frozen=True, slots=True)
class Option:
    """One key. A key that ends in `.*` stands for all keys below it.

    `default` is the text a user would write, None where the original's default is null; `example` is a value
    that shows more than that. `not_yet` are canonical values that the
    original takes and this version does not; `note` says why a key has no effect, or what to do instead.
    """

    key: str
    type: Type
    default: str | None
    doc: str
    group: OptionGroup
    valid: Valid = Anything()
    since: str = "0.1.0"
    status: OptionStatus = OptionStatus.ACTED_ON
    note: str = ""
    not_yet: tuple[str, ...] = ()
    required: bool = False
    trimmed: bool = True
    example: str = ""

    @property
    def family(self) -> bool:
        """Whether the row stands for all keys below a prefix."""
        return self.key.endswith(".*")


def parse(option: Option, text: str) -> Value:
    """The canonical value of a text. Raises InvalidValue, whose words never repeat the text."""
    value = option.valid.accept(_typed(option, text.strip() if option.trimmed else text))
    if option.required and value in ("", ()):
        raise InvalidValue("is required and must not be blank.")
    return value


def unsupported(option: Option, value: Value) -> InvalidValue | None:
    """Why this version refuses a value that the original takes, None where it does not."""
    if shown(value) in option.not_yet:
        return InvalidValue("is a value of the original that this version does not support yet.", option.note)
    if option.status is OptionStatus.NOT_YET and value != default_of(option):
        default = "unset" if option.default is None else option.default
        return InvalidValue(
            "is a key of the original that this version does not act on yet.", f"{option.note} Leave it {default}."
        )
    if option.status is OptionStatus.REFUSED and value not in ("", ()):
        return InvalidValue("is not supported.", option.note)
    return None


def default_of(option: Option) -> Value:
    """The canonical default, None where it is null."""
    if option.default is None or option.family:
        return None
    return option.valid.accept(_typed(option, option.default))


def _typed(option: Option, text: str) -> Value:
    match option.type:
        case Type.INT | Type.LONG:
            return _integer(text, INT_MAX if option.type is Type.INT else LONG_MAX)
        case Type.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise InvalidValue("must be true or false.")
            return text.lower() == "true"
        case Type.LIST:
            return tuple(part.strip() for part in text.split(",")) if text else ()
        case Type.PASSWORD:
            return Secret(text)
        case _:
            return text


def _integer(text: str, most: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise InvalidValue("must be a whole number.")
    number = (
        int(text) if len(text) <= 20 else most + 1
    )  # no number of that length fits, and int() limits lengths itself
    if not -most - 1 <= number <= most:
        raise InvalidValue(f"must be a number of {32 if most == INT_MAX else 64} bits: {-most - 1} to {most}.")
    return number


def shown(value: Value) -> str:
    """A value as a user would write it; secrets masked."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


@lru_cache(2048)
def sensitive(key: str, type_: Type = Type.STRING) -> bool:
    """Whether the values of a key must never be shown."""
    return type_ is Type.PASSWORD or _SENSITIVE.search(key) is not None


def masked(key: str, text: str, type_: Type = Type.STRING) -> str:
    """The text, or what may be shown of it: nothing of a sensitive key, no user and password of an address."""
    return MASK if sensitive(key, type_) else _USER_IN_URL.sub(MASK, text)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known name other than itself, or nothing."""
    spelt = {name.lower(): name for name in known if name and name != given}
    near = difflib.get_close_matches(given.lower(), spelt, n=1, cutoff=0.75)
    return f"Did you mean {spelt[near[0]]}?" if near else ""
