"""Mirror the sink's positions as the committed offsets of a consumer group, so that tools for lag see how far the sink is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import MIRRORED, Brokers

SHOWN: Final = 3
_log = logging.getLogger(__name__)


def warn_nobody(text: str) -> None:
    """Drop a warning."""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """Mirrors the frontier to consumer group `connect-<name>`, so that lag tools work; followed once a round.

    Strict: as the original, one past the last record in an object, and nothing where no object was written yet (SEMANTICS A3.6). `warn`
    is called with offsets that another program has set, which the sink does not follow.
    """

    brokers: Brokers
    group: str
    strict: bool
    name: str = "group offsets"
    warn: Callable[[str], None] = warn_nobody

    def catch_up(self, log: CommitLog) -> None:
        """Commit the offsets that are not the group's already. Raises Fenced if another driver owns the log: they are its to commit."""
        positions = {tp: p.written if self.strict else p.frontier for tp, p in log.state.progress.items()}
        committed = self.brokers.group_progress(self.group, positions)
        changed = {
            tp: offset
            for tp, offset in positions.items()
            if offset is not None and committed.get(tp) != (offset, MIRRORED)
        }
        if not changed:
            return
        log.check_owner(log.state.version)
        by_others = {
            tp: at
            for tp, (at, metadata) in committed.items()
            if tp in changed and metadata != MIRRORED and at != changed[tp]
        }
        if by_others:
            self.warn(self._describe(by_others, changed))
        self.brokers.commit_group(self.group, changed)
        _log.debug("group offsets committed", extra={"facts": {"group": self.group, "partitions": len(changed)}})

    def _describe(self, by_others: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]) -> str:
        shown = [f"{tp} at {by_others[tp]}, the sink at {positions[tp]}" for tp in islice(sorted(by_others), SHOWN)]
        more = f"; and {len(by_others) - SHOWN} more" if len(by_others) > SHOWN else ""
        first = min(by_others)
        return (
            f"Consumer group {self.group} was set by another program: {'; '.join(shown)}{more}. That does not move the sink, whose "
            "position is in its commit log, and the group is set to it again. To move the sink, stop it and call "
            f"`kafka-s3 position set CONFIG {first.topic} {first.partition} {by_others[first]}`."
        )
