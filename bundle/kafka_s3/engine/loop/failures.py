"""Which topic-partitions fail, why, and when are they tried again? One that fails costs itself only: the others go on.

What is worth another try is tried alone, by reads beside the loop, with pauses that grow; what only an operator can mend stops the
topic-partition. How far a stop reaches is `errors.stop.scope`: the topic-partition, as in the original, whose tasks fail one by one, or the
whole sink. Where nothing answers at all, the loop itself waits until the outage is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_s3.model.errors import (
    CommitUnknown,
    EngineDied,
    KafkaUnavailable,
    OffsetsLost,
    PartitionsStopped,
    RegistryUnavailable,
    SinkError,
    StorageUnavailable,
    TaskTimedOut,
    UploadMissing,
)
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Observer
from kafka_s3.model.timing import Backoff, iso_time

PASSING: Final = (
    EngineDied, KafkaUnavailable, RegistryUnavailable, StorageUnavailable, TaskTimedOut, UploadMissing,
)  # fmt: skip
"""What may be over at the next try."""
TAKES_ALONG: Final = (EngineDied, TaskTimedOut)
"""What ends the whole task in which it happens."""
NAMED: Final = 3
"""So many topic-partitions are named where several fail alike."""
LISTED: Final = 10
"""So many are listed where a sink ends with them."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionFailure:
    """Why a topic-partition does not go on, since when and until when (epoch ms), and how often it was tried.

    `next_ms` is None where it has stopped: only an operator can mend that, and a restart tries it again.
    """

    error: SinkError
    tries: int
    since_ms: int
    next_ms: int | None

    @property
    def stopped(self) -> bool:
        """Whether it waits for an operator."""
        return self.next_ms is None


@dataclass
class PartitionFailures:
    """The topic-partitions of one sink that fail. `patience_ms`: how long a schema registry may be away, -1 without limit; `lost`: fail,
    or gap, under which offsets that are lost are jumped over by the next poll.
    """

    clock_ms: Callable[[], int]
    backoff: Backoff
    patience_ms: int
    lost: str
    known: dict[TopicPartition, PartitionFailure] = field(default_factory=dict)

    def note(self, failures: Mapping[TopicPartition, SinkError]) -> list[str]:
        """Notes what failed; gives the messages: a text for all that fail alike."""
        self.known |= {tp: self._noted(tp, error) for tp, error in failures.items()}
        return self._texts(failures, lambda one: (type(one.error), one.stopped, one.tries))

    def _noted(self, tp: TopicPartition, error: SinkError) -> PartitionFailure:
        now, before = self.clock_ms(), self.known.get(tp)
        same = before is not None and type(before.error) is type(error)
        since, tries = (before.since_ms, before.tries + 1) if same and before is not None else (now, 1)
        if self._stops(error, now - since):
            return PartitionFailure(error, tries, since, None)
        next_ms = now + self.backoff.pause_ms(tries)
        if isinstance(error, RegistryUnavailable) and self.patience_ms > 0:
            next_ms = min(next_ms, since + self.patience_ms)
        return PartitionFailure(error, tries, since, next_ms)

    def _stops(self, error: SinkError, away_ms: int) -> bool:
        if isinstance(error, RegistryUnavailable):
            return 0 <= self.patience_ms <= away_ms
        if isinstance(error, OffsetsLost):
            return self.lost == "fail"
        return not isinstance(error, PASSING)

    def succeeded(self, tp: TopicPartition, *, beside_others: bool) -> None:
        """The topic-partition goes on; logged where it failed while others did not."""
        before = self.known.pop(tp, None)
        if before is not None and beside_others:
            lasted_s = (self.clock_ms() - before.since_ms) / 1000
            _log.warning(
                "goes on again", extra={"facts": {"partition": str(tp), "tries": before.tries, "lasted_s": lasted_s}}
            )

    def forget(self, gone: Iterable[TopicPartition]) -> None:
        """These are not read any more."""
        for tp in gone:
            self.known.pop(tp, None)

    def is_final(self, error: SinkError) -> bool:
        """Whether a topic-partition has stopped because of this error."""
        return any(one.error is error for one in self.known.values() if one.stopped)

    @property
    def stopped(self) -> dict[TopicPartition, PartitionFailure]:
        """Those that wait for an operator."""
        return {tp: one for tp, one in self.known.items() if one.stopped}

    def has_stopped(self, tp: TopicPartition) -> bool:
        """Whether it waits for an operator."""
        return tp in self.known and self.known[tp].stopped

    @property
    def passing(self) -> dict[TopicPartition, PartitionFailure]:
        """Those that are tried again."""
        return {tp: one for tp, one in self.known.items() if not one.stopped}

    def due(self) -> list[TopicPartition]:
        """Those whose pause is over."""
        now = self.clock_ms()
        return [
            tp
            for tp, one in self.known.items()
            if one.next_ms is not None and not now < one.next_ms <= now + self.backoff.longest_ms
        ]

    def next_ms(self) -> int | None:
        """When the next try is due (epoch ms), None where nothing is tried again."""
        return min((one.next_ms for one in self.known.values() if one.next_ms is not None), default=None)

    def takes_along(self, tp: TopicPartition) -> bool:
        """Whether its last try took the whole task along in which it was."""
        return tp in self.known and isinstance(self.known[tp].error, TAKES_ALONG)

    @property
    def open_problems(self) -> tuple[str, ...]:
        """What is the matter, for status, heartbeat and check: a line for those that fail alike."""
        return tuple(self._texts(sorted(self.known), lambda one: (type(one.error), one.stopped)))

    def _texts(self, tps: Iterable[TopicPartition], kind: Callable[[PartitionFailure], Hashable]) -> list[str]:
        alike: dict[Hashable, list[TopicPartition]] = {}
        for tp in tps:
            alike.setdefault(kind(self.known[tp]), []).append(tp)
        return [self._text(group) for group in alike.values()]

    def _text(self, group: list[TopicPartition]) -> str:
        first = self.known[group[0]]
        names = ", ".join(map(str, group[:NAMED])) + (f" and {len(group) - NAMED} more" if len(group) > NAMED else "")
        since = iso_time(first.since_ms, "seconds")
        reason = str(first.error)
        if first.next_ms is None:
            has = "has" if len(group) == 1 else "have"
            return f"{names} {has} stopped at {since}: {reason} The others go on. Restart the sink once that is mended."
        fails, times = (
            ("fails" if len(group) == 1 else "fail"),
            ("once" if first.tries == 1 else f"{first.tries} times"),
        )
        at = iso_time(first.next_ms, "seconds")
        return f"{names} {fails} since {since}: {reason} Tried {times}, next at {at}; the others go on."

    def some_stopped(self, sink: str) -> PartitionsStopped:
        """What a sink ends with where some have stopped, and the others went on."""
        reasons = dict.fromkeys(str(one.error) for one in self.stopped.values())
        names = sorted(map(str, self.stopped))
        have = "topic-partition has" if len(names) == 1 else "topic-partitions have"
        listed = ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
        return PartitionsStopped(
            f"Sink {sink}: {len(names)} {have} stopped ({listed}). {' '.join(list(reasons)[:NAMED])}", names
        )


@dataclass
class Outage:
    """Remembers since when (epoch ms) nobody answers. Kafka and the bucket are waited for without limit, as in the original; a schema
    registry as long as `errors.retry.timeout` says (SEMANTICS A1.4): `is_final` says whether a wait is over.
    """

    lost: str
    observer: Observer
    clock_ms: Callable[[], int]
    is_final: Callable[[SinkError], bool]
    _since_ms: int | None = None

    def attempt(self, work: Callable[[], None]) -> bool:
        """Works; False, after a warning, where that has to be tried again later. Raises what waiting does not mend."""
        try:
            work()
        except (*PASSING, CommitUnknown, OffsetsLost) as error:
            # offsets that were lost between plan and read stop the sink, or the next poll passes over them
            final = self.lost == "fail" if isinstance(error, OffsetsLost) else self.is_final(error)
            if final:
                raise
            if self._since_ms is None:
                self._since_ms = self.clock_ms()
            self.observer.warned(str(error))
            return False
        if self._since_ms is not None:
            self.observer.recovered(self.clock_ms() - self._since_ms)
            self._since_ms = None
        return True
