"""What is a row of the option table, and how does a text become its value?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from kafka_s3.connect.config.valid_values import INT_MAX, LONG_MAX, Anything, InvalidValue, Valid, Value
from kafka_s3.model.text import MASK, Secret

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
    """The chapters of the reference."""

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
    PLUGIN = "Plugins"
    """Keys that an installed package declares; the reference page has none of them."""


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
    group: OptionGroup = OptionGroup.PLUGIN
    valid: Valid = field(default_factory=Anything)
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
