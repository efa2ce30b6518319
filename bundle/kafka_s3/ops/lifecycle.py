"""Which lifecycle rules go with a sink's objects? Those that archive data and clean up after crashes, and leave the commit log alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.ops.iam import data_prefixes
from kafka_s3.run.wiring.pipeline import is_block_gzip, state_paths

ABORT_DAYS: Final = 7
"""A committed file may wait for its completion as long as the sink is down."""
CLASSES: Final = ("STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE")
ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})
"""Classes whose objects cannot be read before they are restored."""


@dataclass(frozen=True, slots=True)
class Transition:
    """After so many days objects go into a storage class."""

    days: int
    storage_class: str


def transition_of(text: str) -> Transition:
    """`90:GLACIER`. Raises ConfigError."""
    found = re.fullmatch(r"([1-9]\d{0,4}):([A-Z_]+)", text.strip(), re.ASCII)
    if found is None or found[2] not in CLASSES:
        remedy = f"Write DAYS:CLASS, as 90:GLACIER; the classes are {', '.join(CLASSES)}."
        raise ConfigError([Problem("--transition", text, "is no transition.", remedy)])
    return Transition(int(found[1]), found[2])


def lifecycle_rules(settings: Settings, transitions: Sequence[Transition] = ()) -> dict[str, Any]:
    """The rules, as `aws s3api put-bucket-lifecycle-configuration` takes them; a transition acts on data alone.

    Raises ConfigError for one that would break the sink or its readers.
    """
    root, data = state_paths(settings).root, data_prefixes(settings)
    if transitions:
        _check(settings, transitions, root, data)
    moves = [{"Days": one.days, "StorageClass": one.storage_class} for one in sorted(transitions, key=lambda t: t.days)]
    rules = [{**_rule(settings, "archive", prefix), "Transitions": moves} for prefix in data if moves]
    abort = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": ABORT_DAYS}}
    rules += [{**_rule(settings, "uploads", prefix), **abort} for prefix in dict.fromkeys((*data, root))]
    return {"Rules": rules}


def _rule(settings: Settings, what: str, prefix: str) -> dict[str, Any]:
    name = f"kafka-s3 {settings.name} {what} {prefix}".strip()
    return {"ID": name[:255], "Status": "Enabled", "Filter": {"Prefix": prefix}}


def _check(settings: Settings, transitions: Sequence[Transition], root: str, data: Sequence[str]) -> None:
    shown = ", ".join(f"{one.days}:{one.storage_class}" for one in transitions)
    archived = any(one.storage_class in ARCHIVES for one in transitions)
    problems = [
        Problem(
            "--transition", shown, f"would move the commit log, which lies below {prefix!r}, too.", "Set topics.dir."
        )
        for prefix in data
        if root.startswith(prefix)
    ]
    if archived and settings.flag("delta.enable"):
        rule = "would archive the files and the log of Delta tables, which could not be read any more."
        problems.append(Problem("--transition", shown, rule, "Use GLACIER_IR, or delta.enable=false."))
    if archived and is_block_gzip(settings) and settings.text("block.gzip.dialect") == "original":
        rule = "would archive the objects that say where the sink resumes."
        problems.append(Problem("--transition", shown, rule, "Use GLACIER_IR."))
    if problems:
        raise ConfigError(problems)
