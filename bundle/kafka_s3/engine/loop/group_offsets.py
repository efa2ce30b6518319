"""How do tools for lag see where the sink stands? Its positions are the committed offsets of a consumer group."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.follower import Followed, Follower
from kafka_s3.model.errors import Fenced, SinkError
from kafka_s3.model.protocols import Brokers, Observer

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
        """Commits the offsets that are not the group's already. Raises Fenced where another driver owns the log: they are its to tell."""
        places = {tp: p.written if self.strict else p.frontier for tp, p in log.state.progress.items()}
        known = self.brokers.group_offsets(self.group, places)
        changed = {tp: offset for tp, offset in places.items() if offset is not None and known.get(tp) != offset}
        if not changed:
            return
        log.check_owner(log.state.version)
        self.brokers.commit_group(self.group, changed)
        _log.debug("group offsets committed", extra={"facts": {"group": self.group, "partitions": len(changed)}})


@dataclass
class GroupMirror:
    """Has the group's offsets told once a round, where something was committed since; what fails is told after the next round."""

    group: Follower | None
    log: CommitLog
    observer: Observer
    _version: int = -1
    _followed: Followed = field(default_factory=Followed)

    def tell(self) -> None:
        """Tells the group where the sink stands, where there is one. Raises Fenced."""
        version = self.log.state.version
        if self.group is None or version == self._version or self._followed.rests(self.group, self.log):
            return
        try:
            self._followed.catch_up(self.group, self.log)
            self._version = version
        except Fenced:
            raise
        except SinkError as error:
            self.observer.warned(f"{self.group.name}: {error} They are told after the next round.")
