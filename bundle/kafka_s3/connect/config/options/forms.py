"""Can a text be the name of a bucket, a topic, a region, or an address? The forms that S3, Kafka and HTTP give them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from kafka_s3.connect.config.option import Option, Type
from kafka_s3.connect.config.valid_values import InvalidValue, Value

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


@dataclass(frozen=True, slots=True)
class BucketName:
    """A bucket, or the ARN of an access point."""

    text: str = "3 to 63 lower-case letters, digits, dots and hyphens; or an access point's ARN"

    def accept(self, value: Value) -> Value:
        """The name. Raises InvalidValue."""
        given = str(value)
        if not given or BUCKET.fullmatch(given) or OLD_BUCKET.fullmatch(given) or _ARN.fullmatch(given):
            return value
        remedy = "The folder in it is topics.dir." if _WITH_FOLDER.fullmatch(given) else ""
        raise InvalidValue(
            f"is no name of a bucket: those have {self.text}.", f"Write the bucket alone. {remedy}".strip()
        )


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Topics, or one; blank and repeated parts of a list do not count."""

    text: str = "letters, digits, dots, underscores and hyphens, 249 at most"

    def accept(self, value: Value) -> Value:
        """Each name once. Raises InvalidValue."""
        names = tuple(dict.fromkeys(part for part in value if part)) if isinstance(value, tuple) else (str(value),)
        if all(not name or TOPIC.fullmatch(name) for name in names):
            return names if isinstance(value, tuple) else value
        plain = isinstance(value, tuple) and any(re.search(r"[*+?|()\[\]^$]", name) for name in names)
        remedy = "A pattern of names goes into topics.regex." if plain else "Write the names as Kafka has them."
        raise InvalidValue(f"is no topic name: those have {self.text}.", remedy)


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """An address of HTTP; without a scheme `https://` is meant, as in the original."""

    text: str = "an address, for example https://host:9000"

    def accept(self, value: Value) -> Value:
        """The address as it is. Raises InvalidValue."""
        given = str(value or "").strip()
        if given and not _is_http(given if "://" in given else f"https://{given}"):
            raise InvalidValue(f"is not {self.text}.", "Write https://host:port, or http:// without TLS.")
        return value


@dataclass(frozen=True, slots=True)
class BrokerList:
    """Kafka's brokers: each `host:port`, with a protocol before it where one is written."""

    text: str = "host:port,host:port"

    def accept(self, value: Value) -> Value:
        """The brokers as they are. Raises InvalidValue."""
        wrong = [part for part in _parts(str(value)) if not _is_broker(part)]
        if wrong:
            raise InvalidValue(
                "must be brokers as host:port, separated by commas.", "For example broker-1:9092,broker-2:9092."
            )
        return value


@dataclass(frozen=True, slots=True)
class Region:
    """A region's code, of AWS or of whoever serves `store.url`."""

    text: str = "a region's code, for example eu-west-1"

    def accept(self, value: Value) -> Value:
        """The code. Raises InvalidValue."""
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
        rule = f"holds ${{{variable[1]}}}, which is no reference: nothing replaces it."
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
