"""How do tools for lag see how far the sink is? Its positions are the committed offsets of a consumer group."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.protocols import Brokers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """Mirrors the frontier to consumer group `connect-<name>`, so that lag tools work; followed once a round.

    Strict: as the original, one past the last record in an object, and nothing where no object was written yet (SEMANTICS A3.6).
    """

    brokers: Brokers
    group: str
    strict: bool
    name: str = "group offsets"

    def catch_up(self, log: CommitLog) -> None:
        """Commits the offsets that are not the group's already. Raises Fenced where another driver owns the log: they are its to commit."""
        positions = {tp: p.written if self.strict else p.frontier for tp, p in log.state.progress.items()}
        known = self.brokers.group_offsets(self.group, positions)
        changed = {tp: offset for tp, offset in positions.items() if offset is not None and known.get(tp) != offset}
        if not changed:
            return
        log.check_owner(log.state.version)
        self.brokers.commit_group(self.group, changed)
        _log.debug("group offsets committed", extra={"facts": {"group": self.group, "partitions": len(changed)}})
