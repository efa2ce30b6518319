"""What does a checked configuration say, and what of it may be shown? Typed access to every key, with defaults.

Nothing secret shows in the text form. `masking` takes secrets out of other texts, `reason_of` out of errors that go into the bucket.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from kafka_s3.connect.config.jaas import read_login
from kafka_s3.connect.config.option import InvalidValue, Value, default_of, sensitive, shown
from kafka_s3.connect.config.options.table import OPTIONS, option_of, presentable
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.text import MASK, Secret


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """An immutable, picklable configuration under the self-managed keys, whatever its spelling was.

    Class names are given by our names (`format.class` is `json`, `partitioner.class` is `time`). Asking for an unknown key, or for
    a key by a type it does not have, is a programming error: KeyError and TypeError. Asking for a value that still holds an
    unresolved reference raises ConfigError.
    """

    values: Mapping[str, Value]
    given_keys: frozenset[str]
    pending: frozenset[str]
    concealed: frozenset[str]
    source: Mapping[str, str]
    worker: Mapping[str, str]

    def text(self, key: str) -> str:
        """The text of a key, blank where it has no value."""
        return self.optional_text(key) or ""

    def optional_text(self, key: str) -> str | None:
        """The text of a key, None where it has no value."""
        value = self._value(key)
        if value is None or isinstance(value, str):
            return value
        raise TypeError(f"{key} is not a text.")

    def number(self, key: str) -> int:
        value = self._value(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise TypeError(f"{key} is not a number.")

    def flag(self, key: str) -> bool:
        """Whether a switch is on."""
        value = self._value(key)
        if isinstance(value, bool):
            return value
        raise TypeError(f"{key} is not a boolean.")

    def names(self, key: str) -> tuple[str, ...]:
        """The parts of a list."""
        value = self._value(key)
        if isinstance(value, tuple):
            return value
        raise TypeError(f"{key} is not a list.")

    def secret(self, key: str) -> Secret | None:
        """The password of a key, None where it has none."""
        value = self._value(key)
        if value is None or isinstance(value, Secret):
            return value
        raise TypeError(f"{key} is not a password.")

    def given(self, key: str) -> bool:
        """Whether the connector's or the worker's file sets the key."""
        return key in self.given_keys

    def prefixed(self, prefix: str) -> dict[str, str | Secret]:
        """The given settings below a prefix that ends in a dot, by the rest of their keys; what came from a reference is a Secret."""
        keys = sorted(key for key in self.given_keys if key.startswith(prefix) and key != prefix)
        return {key.removeprefix(prefix): self._guarded(key) for key in keys if self._value(key) is not None}

    def _guarded(self, key: str) -> str | Secret:
        value = self._value(key)
        if isinstance(value, Secret):
            return value
        return Secret(shown(value)) if key in self.concealed else shown(value)

    @property
    def strict(self) -> bool:
        """Whether the original's behaviour is asked for, failures included."""
        return self.flag("compatibility.strict")

    @property
    def name(self) -> str:
        """The connector's name."""
        return self.text("name")

    def masked(self) -> dict[str, str]:
        """Every setting in effect, defaults included, as a user would write it; secrets and resolved references are masked."""
        return self._masked(self.values)

    def masked_choices(self) -> dict[str, str]:
        """Of those the ones that are not the default."""
        return self._masked(key for key, value in self.values.items() if value != defaults().get(key))

    def _masked(self, keys: Iterable[str]) -> dict[str, str]:
        found = sorted({*keys, *self.pending})
        return {key: self._shown(key) for key in found if key in self.pending or self.values[key] is not None}

    def _shown(self, key: str) -> str:
        if key in self.pending or key in self.concealed:
            return MASK
        return presentable(key, shown(self.values[key]))

    def _value(self, key: str) -> Value:
        if key in self.pending:
            rule = "holds a reference that has not been resolved."
            raise ConfigError([Problem(key, MASK, rule, "Resolve the settings before they are used.")])
        if key in self.values:
            return self.values[key]
        if key in defaults():
            return defaults()[key]
        if option_of(key) is None:
            raise KeyError(key)
        return None

    def __repr__(self) -> str:
        return f"Settings({self.masked()})"


@cache
def defaults() -> Mapping[str, Value]:
    """The default of every key that has a row of its own."""
    return MappingProxyType({option.key: default_of(option) for option in OPTIONS if not option.family})


REGION: Final = str(defaults()["s3.region"])
"""The bucket's region where nothing says another."""


PUBLIC: Final = (
    "username", "clientId", "scope", "awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsStsRegion", "awsRoleAccessKeyId",
    "awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs",
)  # fmt: skip
_IN_URL: Final = re.compile(r"//[^/@\s:]*:([^/@\s]+)@")


def _inside(text: str) -> set[str]:
    """What is secret by itself in a secret that has parts: the options of a login, and the password of `user:password`."""
    if ";" in text and "=" in text:
        try:
            return {value.reveal() for name, value in read_login(text).options.items() if name not in PUBLIC}
        except InvalidValue:
            return set()
    return {text.partition(":")[2]} if text.count(":") == 1 else set()


def masking(settings: Settings) -> Callable[[str], str]:
    """Takes the secrets of resolved settings out of texts, should one be in them all the same."""
    secrets = set[str]()
    for key, value in settings.values.items():
        text = value.reveal() if isinstance(value, Secret) else shown(value)
        if isinstance(value, Secret) or key in settings.concealed or sensitive(key):
            secrets |= {text, *_inside(text)}
        secrets |= set(_IN_URL.findall(text))
    ordered = sorted((text for text in secrets if len(text.strip()) > 3 and text != MASK), key=len, reverse=True)

    def mask(text: str) -> str:
        for secret in ordered:
            text = text.replace(secret, MASK)
        return text

    return mask
