"""How is the running sink? What it says of itself in the bucket, every few seconds, and when it ends.

One object, `<state.prefix>/<sink>/heartbeat.json`, which `engine.control.heartbeat_writer` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from types import NoneType
from typing import Any, Final, TypeVar

from kafka_s3.engine.control.limits import DEFAULT, Limits
from kafka_s3.engine.control.tallies import NOTHING, Delay, Tally
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.files import Totals
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.store.store import ObjectStore

FORMAT: Final = 1
SIMPLE: Final[Mapping[str, Any]] = {
    "int": int, "str": str, "bool": bool, "float": (int, float), "int | None": (int, NoneType), "float | None": (int, float, NoneType),
}  # fmt: skip
"""What values of a type are, by how the type is written."""
T = TypeVar("T")
FRESH_INTERVALS: Final = 3


class Phase(StrEnum):
    """What a sink says it is doing."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"


ENDED: Final = frozenset({Phase.STOPPED, Phase.FAILED})


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What one run of a sink says of itself. Times in epoch ms by its host's clock.

    `run` names the process's run, `driver` and `epoch` what it is in the commit log (empty and 0 until it has claimed it), `version` the
    last entry it knows. `request` and `flushed` are the requests that it has acted on. `troubled`: something fails and is tried again.
    `looked_ms`: when lag was measured, None where the sink has not looked yet, or is older than the field.
    `totals` are those of the whole log up to that entry, None where they are not known.
    `open_states` and `open_state_bytes`: states of open files written since the start, and their size.
    `lag_grew`: at how many heartbeats in a row that followed a commit the lag was higher than at the one before.
    `standing` is what is wrong as long as it lasts, such as a topic that does not exist. `recent` is what this run did within the last
    hour, `hours` what the sink did in each of the last 24; `delay` that of the last commit with records; `limits` what is well of these.
    """

    sink: str
    run: str
    host: str
    pid: int
    product: str
    started_ms: int
    interval_ms: int
    phase: Phase = Phase.STARTING
    beat_ms: int = 0
    driver: str = ""
    epoch: int = 0
    version: int = -1
    totals: Totals | None = None
    last_round_ms: int | None = None
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    looked_ms: int | None = None
    lag_grew: int = 0
    open_states: int = 0
    open_state_bytes: int = 0
    standing: tuple[str, ...] = ()
    recent: Tally = NOTHING
    hours: tuple[Tally, ...] = ()
    delay: Delay | None = None
    limits: Limits = DEFAULT
    troubled: bool = False
    warning: str = ""
    warned_ms: int | None = None
    failure: str = ""
    request: str = ""
    flushed: str = ""

    @property
    def ended(self) -> bool:
        """Whether the run has said that it is over."""
        return self.phase in ENDED

    def is_over(self, epoch: int) -> bool:
        """Whether no driver of this epoch of the log, or of an earlier one, is at work any more."""
        return self.ended and self.epoch >= epoch

    def alive(self, now_ms: int) -> bool:
        """Whether the run is not over and was heard of within three intervals."""
        return not self.ended and now_ms - self.beat_ms <= FRESH_INTERVALS * self.interval_ms

    def to_json(self) -> bytes:
        """The heartbeat as stored."""
        lag: dict[str, dict[str, int]] = {}
        for (topic, partition), records in self.lag.items():
            lag.setdefault(topic, {})[str(partition)] = records
        plain = asdict(replace(self, lag={}))
        return json.dumps({"format": FORMAT, **plain, "lag": lag}, separators=(",", ":")).encode()


def read_heartbeat(store: ObjectStore, paths: StatePaths) -> Heartbeat | None:
    """The sink's last heartbeat, None where there is none. Raises LogDamaged where it cannot be read, StorageError."""
    key = paths.heartbeat()
    try:
        return _heartbeat(json.loads(store.get(key)))
    except ObjectMissing:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(
            f"Heartbeat {key} cannot be read ({type(error).__name__}: {error}). Delete it: a running sink writes it again."
        ) from error


def _heartbeat(document: dict[str, Any]) -> Heartbeat:
    known = {name: document[name] for name in Heartbeat.__dataclass_fields__ if name in document}
    lag = {
        TopicPartition(topic, int(partition)): int(records)
        for topic, partitions in document["lag"].items()
        for partition, records in partitions.items()
    }
    return typed(Heartbeat(**{**known, **_parts(known), "phase": Phase(document["phase"]), "lag": lag}))


def typed(one: T) -> T:
    """A dataclass that was read from the bucket, where anybody may have written it. Raises TypeError for a number or text that is none."""
    for part in fields(one):  # type: ignore[arg-type] # a dataclass has no type of its own
        value, wanted = getattr(one, part.name), SIMPLE.get(str(part.type))
        if wanted is not None and not isinstance(value, wanted):
            raise TypeError(f"{part.name} is of type {type(value).__name__}, not {part.type}")
        if is_dataclass(value) and not isinstance(value, type):
            typed(value)
    return one


def _parts(known: Mapping[str, Any]) -> dict[str, Any]:
    """The members that are more than a number or a text, as far as they are there: earlier versions did not write them."""
    made: dict[str, Callable[[Any], Any]] = {
        "totals": lambda one: None if one is None else Totals(**one),
        "standing": tuple,
        "recent": lambda one: Tally(**one),
        "hours": lambda many: tuple(typed(Tally(**one)) for one in many),
        "delay": lambda one: None if one is None else Delay(**one),
        "limits": lambda one: Limits(**one),
    }
    return {name: make(known[name]) for name, make in made.items() if name in known}


def may_replace(existing: Heartbeat | None, own: Heartbeat, now_ms: int) -> bool:
    """Whether a run may write over this heartbeat: its own, one of an earlier epoch, or that of an older run that is not alive."""
    if existing is None or existing.run == own.run or existing.epoch < own.epoch:
        return True
    # epochs begin anew where a log was deleted
    return not existing.alive(now_ms) and existing.started_ms <= own.started_ms
