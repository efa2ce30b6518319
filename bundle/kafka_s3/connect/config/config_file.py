"""What is found in a configuration file, and what is said of one that is odd or cannot be read?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_s3.connect.config.options.table import presentable
from kafka_s3.model.errors import ConfigError, Problem


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file's settings by key, what is odd about its form, and which of its values have none that a configuration takes."""

    texts: dict[str, str]
    warnings: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()


def repeated(pairs: Sequence[tuple[str, Any]], path: Path) -> tuple[Problem, ...]:
    """A warning for each key that occurs more than once in one object."""
    last = dict(pairs)
    counts = Counter(key for key, _ in pairs)
    rule = f"is the last of several in {path.name}, and the one that counts, as in Connect."
    return tuple(
        Problem(key, presentable(key, str(last[key])), rule, "Keep one of them.") for key, n in counts.items() if n > 1
    )


def empty(path: Path) -> ConfigError:
    """The error of a file without any key."""
    return fault(
        path, None, "is empty: it holds no key.", "Write keys and values; kafka-s3 new makes a first configuration."
    )


def fault(path: Path, place: str | None, rule: str, remedy: str = "") -> ConfigError:
    """The error of a file that cannot be read as what it is."""
    return ConfigError([Problem(str(path), place or "configuration file", rule, remedy)])
