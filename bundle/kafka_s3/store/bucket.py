"""What does S3 know of a bucket as a whole? Region, clock, lifecycle rules and versioning: all reading, nothing changed.

`s3.S3Store` answers. The sink itself never asks these questions; `kafka-s3 doctor` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from kafka_s3.model.errors import StorageError


@dataclass(frozen=True, slots=True)
class BucketAnswer:
    """How the bucket answered: its region ("" where it does not say), the store's clock less ours in ms (None: no Date), the refusal."""

    region: str
    skew_ms: int | None
    refusal: StorageError | None = None


@dataclass(frozen=True, slots=True)
class LifecycleRule:
    """One enabled lifecycle rule that acts on keys below `prefix`; `abort_days` is None where it leaves incomplete uploads alone.

    `tagged`: it acts on objects with certain tags only. `expires` and `transitions` are about current objects.
    """

    name: str
    prefix: str
    tagged: bool = False
    abort_days: int | None = None
    expires: bool = False
    transitions: bool = False

    def meets(self, prefix: str) -> bool:
        """Whether some key below `prefix` is one of the rule's."""
        return prefix.startswith(self.prefix) or self.prefix.startswith(prefix)


class BucketFacts(Protocol):
    """What can be asked of a bucket as a whole. Every method but `look` raises StorageError where it is refused."""

    def ask(self) -> BucketAnswer:
        """Asks for the bucket itself; what went wrong is in the answer."""
        ...

    def lifecycle(self) -> tuple[LifecycleRule, ...]:
        """The enabled lifecycle rules."""
        ...

    def versioning(self) -> str:
        """`Enabled`, `Suspended`, or "" for none."""
        ...


def clock_skew_ms(headers: Mapping[str, str], before_ms: int, after_ms: int) -> int | None:
    """How far the store's clock is ahead of ours, at the least: its answer was made between the two, and has whole seconds."""
    if "date" not in headers:
        return None
    theirs = int(parsedate_to_datetime(headers["date"]).timestamp() * 1000)
    if theirs > after_ms:
        return theirs - after_ms
    return min(theirs + 999 - before_ms, 0)


def lifecycle_rule(rule: Mapping[str, Any]) -> LifecycleRule:
    """A rule as the service lists it."""
    found = rule.get("Filter", {})
    both = found.get("And", {})
    expiration = rule.get("Expiration", {})
    return LifecycleRule(
        name=str(rule.get("ID", "")),
        prefix=str(found.get("Prefix") or both.get("Prefix") or rule.get("Prefix") or ""),
        tagged=bool(found.get("Tag") or both.get("Tags")),
        abort_days=rule.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation"),
        expires="Days" in expiration or "Date" in expiration,
        transitions=bool(rule.get("Transitions")),
    )
