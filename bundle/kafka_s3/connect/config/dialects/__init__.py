"""What comes out of a translation of the managed cloud or Block-GZIP spelling? A configuration in self-managed keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_s3.model.errors import Problem


@dataclass(frozen=True, slots=True)
class SpelledConfig:
    """A configuration in self-managed keys. `failed` are those whose own key is at fault; `spelled` gives the user's key of a key."""

    texts: Mapping[str, str]
    problems: tuple[Problem, ...] = ()
    failed: frozenset[str] = frozenset()
    spelled: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()
