"""What may operators do to a sink at work? They set positions and apply a migration while drivers and tasks take turns at every store call.

Each seed is one interleaving, as in `test_interleavings`: the commands run the product's own code, as processes of their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import pytest

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.dead_letters import read_letters
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.migration import apply, survey, takeover
from kafka_s3.ops.positions import write_positions
from kafka_s3.run.wiring.clients import configured_topics
from kafka_s3.run.wiring.pipeline import state_paths
from tests.support.interleaving import Process
from tests.support.memory_world import rows
from tests.unit.engine.loop.test_interleavings import BAD, GOOD, PARTITIONS, Case, one_at_a_time, settings_with

__all__ = ["one_at_a_time"]
SOME, MANY, CHUNK = 6, 606, 100
GROUP = "connect-orders"
MOST_MIGRATIONS = 6
Offsets = Mapping[TopicPartition, set[int]]


class MovedCase(Case):
    """As `Case`; an operator sets positions, ahead and back, some by force while a driver commits."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.moves: list[Process] = []

    def _event(self) -> None:
        if self.run.draw.random() < 0.2:
            self._move()
        else:
            super()._event()

    def _move(self) -> None:
        tp = self.run.draw.choice(PARTITIONS)
        head = max(self.sent[tp], default=-1) + 1
        offset = self.run.draw.randint(0, head)
        self.moves.append(self.run.start(self.world.store, lambda process: self._moved(process, {tp: offset})))

    def _moved(self, process: Process, positions: Mapping[TopicPartition, int]) -> None:
        log = CommitLog(process.store, state_paths(settings_with(0, self.codec)), clock_ms=lambda: self.world.now)
        write_positions(log, self.world.kafka, positions)

    def judge(self) -> None:
        """Each record is current in exactly one object, a dead letter, or passed over by a move ahead that the log names."""
        entries = self.world.entries()
        assert [entry.version for entry in entries] == list(range(len(entries)))
        assert self.world.store.uploads == {}
        current, buried, passed = self._followed(entries)
        for tp, sent in self.sent.items():
            assert self.world.frontier(tp) == max(sent, default=-1) + 1
            good, bad = ({offset for offset, kind in sent.items() if kind == one} for one in (GOOD, BAD))
            assert good - passed[tp] <= set(current[tp]) <= good
            assert bad - passed[tp] <= buried[tp] <= bad

    def _followed(self, entries: Sequence[CommitEntry]) -> tuple[Offsets, Offsets, Offsets]:
        """The offsets that objects hold after the last entry, those of dead letters, and those that a move passed over."""
        current, buried, passed = (defaultdict[TopicPartition, set[int]](set) for _ in range(3))
        known = set[TopicPartition]()
        for entry in entries:
            if entry.kind is EntryKind.POSITION:
                for tp, progress in entry.progress.items():
                    if tp not in known:  # its first position: the sink never had what is before it
                        passed[tp].update(range(progress.frontier))
                    current[tp] = {offset for offset in current[tp] if offset < progress.frontier}
            for gap in entry.gaps:
                passed[gap.topic_partition].update(range(gap.first, gap.last + 1))
            for file in entry.files:
                if file.role is Role.DEAD_LETTER:
                    buried[file.topic_partition].update(
                        one.offset for one in read_letters(self.world.store.objects[file.key])
                    )
                    continue
                now = (row["n"] for row in rows(file.key, self.world.store.objects[file.key]))
                # behind a move back a later file of this name may have taken its place, with more records
                found = {offset for offset in now if file.first_offset <= offset <= file.last_offset}
                assert not found & current[file.topic_partition], (
                    f"entry {entry.version} has records of {file.key} once more"
                )
                current[file.topic_partition] |= found
            known |= entry.progress.keys()
        return current, buried, passed


class MigratedCase(Case):
    """As `Case`; the log is empty at first, and people apply migrations while the first drivers start, and once they are at work."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.migrations: list[Process] = []

    def _driver(self, change: int, *, last: bool = False) -> Process:
        if not self.drivers:
            for tp in PARTITIONS:
                if sent := self.sent[tp]:
                    self.world.kafka.commit_group(GROUP, {tp: self.run.draw.choice([*sent])})
            for _ in range(self.run.draw.randint(1, 2)):
                self.migrations.append(self.run.start(self.world.store, self._migrated))
        return super()._driver(change, last=last)

    def _event(self) -> None:
        if len(self.migrations) < MOST_MIGRATIONS and self.run.draw.random() < 0.5:
            self.migrations.append(self.run.start(self.world.store, self._migrated))
        super()._event()

    def _migrated(self, process: Process) -> None:
        settings = settings_with(0, self.codec)
        topics = configured_topics(settings, self.world.kafka)
        found = survey(settings, self.world.kafka, store=process.store, group=GROUP, topics=topics)
        apply(
            takeover(found, {}),
            CommitLog(process.store, state_paths(settings), clock_ms=lambda: self.world.now),
            self.world.kafka,
        )

    def judge(self) -> None:
        """A migration moves what no driver has read yet, or is refused; each record after its positions is written once."""
        entries = self.world.entries()
        moved = [entry for entry in entries if entry.kind is EntryKind.POSITION]
        begun = next((entry.version for entry in entries if entry.totals.read), len(entries))
        assert [entry.version for entry in moved if entry.version > begun] == []
        started = {tp: progress.frontier for entry in moved for tp, progress in entry.progress.items()}
        written, _ = self._found([file for entry in entries for file in entry.files])
        expected = Counter(
            (tp.partition, offset) for tp, sent in self.sent.items() for offset, kind in sent.items()
            if kind == GOOD and offset >= started.get(tp, 0)
        )  # fmt: skip
        assert written == expected


REPLACED = 529
"""A file of one name is made again behind a move back, and has more records than the first one."""


@pytest.mark.parametrize("case", [MovedCase, MigratedCase])
@pytest.mark.parametrize("seed", [*range(SOME), REPLACED])
def test_an_operator_beside_a_sink_at_work_loses_and_doubles_no_record(case: type[Case], seed: int) -> None:
    case(seed).play()


@pytest.mark.nightly
@pytest.mark.parametrize("case", [MovedCase, MigratedCase])
@pytest.mark.parametrize("first", range(SOME, MANY, CHUNK))
def test_no_operator_beside_many_sinks_at_work_loses_or_doubles_a_record(case: type[Case], first: int) -> None:
    for seed in range(first, first + CHUNK):
        try:
            case(seed).play()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
