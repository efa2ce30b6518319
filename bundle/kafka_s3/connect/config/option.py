"""What is a row of the option table, and which texts are values of it?

Texts become values in two steps: by the row's type, then by its `valid`, an object that accepts a value or says which rule it breaks.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlsplit

from kafka_s3.model.text import MASK, Secret

_INTEGER = re.compile(r"[+-]?[0-9]+")
_SENSITIVE = re.compile(
    r"passw|passphrase|pwd|secret|token(?!\.endpoint\.url)|jaas|user\.info|external\.id|keystore\.key|private",
    re.IGNORECASE,
)
_USER_IN_URL = re.compile(r"(?<=//)[^/@\s]+(?=@)")
TOPIC: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""Kafka's own rule for topic names."""
BUCKET: Final = re.compile(r"(?!.*\.\.|\d+(?:\.\d+){3}$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
OLD_BUCKET: Final = re.compile(r"[A-Za-z0-9._-]{3,255}")
"""What S3 gave out in us-east-1 before March 2018."""
_ARN: Final = re.compile(r"arn:[\w-]+:s3[\w-]*:[^/\s]*[:/]accesspoint[:/][\w./-]+")
_WITH_FOLDER: Final = re.compile(r"(?:s3[an]?://)?[^/:]+/.*")
_BROKER: Final = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+_.-]*://)?(?:\[[0-9a-zA-Z:.%]+\]|[0-9a-zA-Z_.%-]+):([0-9]{1,5})")
_REGION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
AWS_REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+")
_PLACEHOLDER: Final = re.compile(r"<[A-Za-z][\w .-]*>")
_UNRENDERED: Final = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_NAMED_GROUPS: Final = "transforms."
"""Below it `${NAME}` may be a group of a regular expression."""
_DELIMITERS: Final = ("directory.delim", "file.delim")
Value = str | int | bool | tuple[str, ...] | Secret | None
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


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
    ICEBERG = "Iceberg tables"
    STATE = "State tables"
    BLOCK_GZIP = "Block-GZIP"
    CLOUD = "Managed cloud spelling"
    PLUGIN = "Plugins"
    """Keys that an installed package declares; the reference page has none of them."""


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
class Accepted:
    """The values that a function accepts: it gives each in its canonical form, or raises InvalidValue."""

    text: str
    accept: Callable[[Value], Value]


def accepts(text: str) -> Callable[[Callable[[Value], Value]], Accepted]:
    """Makes a function what a row's values have to pass; `text` says the values, for the reference page."""
    return lambda accept: Accepted(text, accept)


@accepts("")
def anything(value: Value) -> Value:
    """Every value of the type."""
    return value


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
    valid: Valid = anything
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


@dataclass(frozen=True, slots=True)
class Range:
    """Integers from `low` to `high`, both included."""

    low: int
    high: int = LONG_MAX

    @property
    def text(self) -> str:
        return f"at least {self.low}" if self.high == LONG_MAX else f"{self.low} to {self.high}"

    def accept(self, value: Value) -> Value:
        if isinstance(value, int) and self.low <= value <= self.high:
            return value
        raise InvalidValue(f"must be {self.text}.")


@dataclass(frozen=True, slots=True)
class OneOf:
    """A fixed set of texts, by exact case."""

    values: tuple[str, ...]

    @property
    def text(self) -> str:
        return ", ".join(value or "blank" for value in self.values)

    def accept(self, value: Value) -> Value:
        if value in self.values:
            return value
        raise InvalidValue(f"must be one of: {self.text}.", did_you_mean(str(value), self.values))


@dataclass(frozen=True, slots=True)
class OneOfAnyCase:
    """A fixed set of texts, in any case."""

    values: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{', '.join(self.values)} (any case)"

    def accept(self, value: Value) -> Value:
        found = {known.lower(): known for known in self.values}.get(str(value).lower())
        if found is None:
            raise InvalidValue(f"must be one of: {self.text}.", did_you_mean(str(value), self.values))
        return found


@dataclass(frozen=True, slots=True)
class KnownClass:
    """Java class names, whole or simple, and our names for them; `registered` gives names that are looked up when asked for.

    `others` are classes that are not here, each with what to do instead; `group` is that of the entry points by which packages add some,
    `instead` the way for a class of one's own where none can be added.
    """

    names: Mapping[str, str]
    registered: Callable[[], Iterable[str]] = tuple
    others: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    instead: str = ""

    @property
    def text(self) -> str:
        return ", ".join(dict.fromkeys(self.names)) + f"; or by our names: {', '.join(self._ours())}"

    def _ours(self) -> list[str]:
        return [*dict.fromkeys(self.names.values())]

    def accept(self, value: Value) -> Value:
        given = str(value)
        ours = [*self._ours(), *self.registered()]
        # of two classes with one simple name the first has it
        simple = {java.rpartition(".")[2]: name for java, name in reversed(list(self.names.items()))}
        if given in self.names or given in simple or given in ours:
            return self.names.get(given) or simple.get(given, given)
        remedies = {java.rpartition(".")[2]: remedy for java, remedy in self.others.items()} | dict(self.others)
        if given in remedies:
            raise InvalidValue("is a class that this sink does not have.", remedies[given])
        bare = given.rpartition(".")[2]
        names = [*simple, *(name for name in ours if name not in simple)]
        near = f"Did you mean {bare}?" if bare in simple else f"{_corrected(bare, names)} {_nearest(bare, names)}"
        raise InvalidValue("is not a known class.", f"{near} {self._own_class(given)}".strip())

    def _own_class(self, given: str) -> str:
        """The way for a class of one's own: one of a package that is none of those whose classes are known."""
        kind = self.group.rpartition(".")[2]
        way = f"write your own in Python, and name it by its entry point of {self.group} (docs/own-{kind}.md)."
        way = way if self.group else self.instead
        own = "." in given and _vendor(given) not in {_vendor(java) for java in (*self.names, *self.others)}
        return f"No Java class is loaded: {way}" if own and way else ""


def _vendor(java: str) -> str:
    """The first two parts of a class's package: `io.confluent`."""
    return ".".join(java.split(".")[:2])


def _nearest(given: str, known: Iterable[str]) -> str:
    """A sentence with the known names that are most like one, five at most."""
    names = {name.lower(): name for name in reversed([*known])}
    near = [names[one] for one in difflib.get_close_matches(given.lower(), names, n=5, cutoff=0.0)]
    return f"The nearest that there are: {', '.join(near)}."


def _corrected(name: str, names: Iterable[str]) -> str:
    """Return a question for the name that is meant if one is misspelt: by a letter more, less or other, or by two that changed places.

    Classes whose names are merely alike may do opposite things: HeaderFrom and HeaderToValue.
    """
    near = nearest(name, names)
    if near is None:
        return ""
    likeness = difflib.SequenceMatcher(None, near.lower(), name.lower()).ratio()
    return f"Did you mean {near}?" if (len(near) + len(name)) * (1 - likeness) < 2.5 else ""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known name other than itself, or nothing."""
    near = nearest(given, known)
    return f"Did you mean {near}?" if near else ""


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known name that is nearest to this one, and not it; None where none is near."""
    spelt = {name.lower(): name for name in known if name and name != given}
    near = difflib.get_close_matches(given.lower(), spelt, n=1, cutoff=0.75)
    return spelt[near[0]] if near else None


@accepts("3 to 63 lower-case letters, digits, dots and hyphens; or an access point's ARN")
def bucket_name(value: Value) -> Value:
    """A bucket, or the ARN of an access point."""
    given = str(value)
    if not given or BUCKET.fullmatch(given) or OLD_BUCKET.fullmatch(given) or _ARN.fullmatch(given):
        return value
    remedy = "The folder in it is topics.dir." if _WITH_FOLDER.fullmatch(given) else ""
    raise InvalidValue(
        f"is not a name of a bucket: those have {bucket_name.text}.", f"Write the bucket alone. {remedy}".strip()
    )


@accepts("letters, digits, dots, underscores and hyphens, 249 at most")
def topic_names(value: Value) -> Value:
    """Topics, or one; blank and repeated parts of a list do not count."""
    names = tuple(dict.fromkeys(part for part in value if part)) if isinstance(value, tuple) else (str(value),)
    if all(not name or TOPIC.fullmatch(name) for name in names):
        return names if isinstance(value, tuple) else value
    plain = isinstance(value, tuple) and any(re.search(r"[*+?|()\[\]^$]", name) for name in names)
    remedy = "A pattern of names goes into topics.regex." if plain else "Write the names as Kafka has them."
    raise InvalidValue(f"is not a topic name: those have {topic_names.text}.", remedy)


@accepts("an address, for example https://host:9000")
def http_address(value: Value) -> Value:
    """An address of HTTP; without a scheme `https://` is meant, as in the original."""
    given = str(value or "").strip()
    if given and not _is_http(given if "://" in given else f"https://{given}"):
        raise InvalidValue(f"is not {http_address.text}.", "Write https://host:port, or http:// without TLS.")
    return value


@accepts("host:port,host:port")
def broker_list(value: Value) -> Value:
    """Kafka's brokers: each `host:port`, with a protocol before it where one is written."""
    wrong = [part for part in _parts(str(value)) if not _is_broker(part)]
    if wrong:
        raise InvalidValue(
            "must be brokers as host:port, separated by commas.", "For example broker-1:9092,broker-2:9092."
        )
    return value


@accepts("a region's code, for example eu-west-1")
def region_code(value: Value) -> Value:
    """A region's code, of AWS or of whoever serves `store.url`."""
    if _REGION.fullmatch(str(value)):
        return value
    raise InvalidValue("must be the code of a region.", "For example eu-west-1.")


def check_rendered(key: str, text: str) -> None:
    """Raises InvalidValue where a key or its text waits for a tool: `{{ variable }}`, or `${VARIABLE}`, which no shell has replaced."""
    if _UNRENDERED.search(key) or _UNRENDERED.search(text):
        meant = "Where braces are meant, put the value into a variable and write ${env:NAME}."
        raise InvalidValue("holds {{ }}: a template that was not rendered.", f"Render the file first. {meant}")
    variable = _VARIABLE.search(text)
    if variable and not key.startswith(_NAMED_GROUPS):
        rule = "holds a name in ${ }, but does not say where to look it up."
        raise InvalidValue(rule, f"An environment variable is written ${{env:{variable[1]}}}.")


def check_filled_in(option: Option, text: str) -> None:
    """Raises InvalidValue where a text, or a part of a list, is a guide's `<place-holder>`."""
    parts = _parts(text) if option.type is Type.LIST else [text.strip()]
    if option.trimmed and option.key not in _DELIMITERS and any(_PLACEHOLDER.fullmatch(part) for part in parts):
        raise InvalidValue(
            "is the place where a guide leaves the value to you.", "Write your own, without the brackets."
        )


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _is_broker(text: str) -> bool:
    found = _BROKER.fullmatch(text)
    return found is not None and not text.lower().startswith("http") and 0 < int(found[1]) < 65536


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        misspelt = parts.hostname in ("http", "https")  # `http//host` and `http:/host`
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not misspelt and parts.port != 0
    except ValueError:
        return False
