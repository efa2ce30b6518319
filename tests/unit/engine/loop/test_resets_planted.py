"""What if one of its uses forgets that offsets have incarnations? Then a scene or a schedule fails: each of them is looked at by some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from kafka_s3.engine.log.dead_letters import LetterState, Settled
from kafka_s3.engine.log.rewrites import originals
from kafka_s3.model.errors import SinkError
from kafka_s3.model.offsets import OffsetSet
from tests.support.reset_schedules import Schedule
from tests.unit.engine.loop import test_resets as scenes

NONE = OffsetSet()
Scene = Callable[[Path], object]


def scene(work: Callable[[], object]) -> Scene:
    return lambda folder: work()


def schedule(seed: int) -> Scene:
    return lambda folder: Schedule(seed).play()


def with_tables(seed: int) -> Scene:
    """A schedule with tables, each time in a folder of its own."""
    return lambda folder: Schedule(seed, Path(mkdtemp(dir=folder))).play()


def erased_for_ever(entry: Any, resets: object, erased: Mapping[Any, OffsetSet]) -> Mapping[Any, OffsetSet]:
    return {**erased, **{tp: erased.get(tp, NONE).plus(offsets) for tp, offsets in entry.erased.items()}}


def by_offset(self: Any, tp: Any, states: Any) -> bool:
    """As a read beside the loop was compared before."""
    before, state = self.before[tp], states.get(tp)
    return state is not None and (state.frontier, state.open_state) == (before.frontier, before.open_state)


def all_originals(self: Any, entry: Any) -> list[str]:
    return list(originals(entry, self.log.state.replaced[entry.version].topic_partitions))


def originals_but_of_resets(self: Any, entry: Any) -> list[str]:
    state = self.log.state
    mine = state.replaced[entry.version].topic_partitions
    return list(originals(entry, [tp for tp in mine if state.incarnations.latest(tp) <= entry.version]))


def by_log_start(entry: Any, gone: Any, brokers: Any, state: Any) -> list[Any]:
    starts = brokers.starts({file.topic_partition for file in gone})
    return [file for file in gone if starts.get(file.topic_partition, file.first_offset + 1) > file.first_offset]


def erase_all_letters(self: Any, tp: Any, version: int, offsets: OffsetSet) -> None:
    self.settled.setdefault(tp, []).insert(0, Settled(version, LetterState.ERASED, offsets))


@dataclass(frozen=True)
class Plant:
    """A use that forgets incarnations: what takes its place, and where that is seen."""

    target: str
    forgets: Any
    seen: Scene


LOG, LOOP = "kafka_s3.engine.log", "kafka_s3.engine.loop"
PLANTS = {
    "erased offsets of the log": Plant(
        f"{LOG}.fold.erased_after", erased_for_ever, scene(scenes.test_a_new_record_at_an_erased_offset_is_written_once_its_log_was_cut)
    ),
    "erased offsets of a restore": Plant(
        "kafka_s3.ops.restore.files.erased_after", erased_for_ever,
        scene(scenes.test_erased_offsets_of_a_topic_say_nothing_of_the_one_that_was_created_in_its_place),
    ),
    "cuts that an operator's move notes": Plant(
        "kafka_s3.ops.positions._cuts_of", lambda *_: {},
        scene(scenes.test_a_new_record_at_an_erased_offset_is_written_after_a_move_by_hand_to_where_the_log_was_cut),
    ),
    "cuts that a driver looks for": Plant(
        f"{LOOP}.topics.Topics._erased", lambda *_: NONE,
        scene(scenes.test_an_erased_offset_above_the_position_is_read_once_the_log_was_cut_before_it),
    ),
    "dead letters of erased records": Plant(
        f"{LOG}.dead_letters.Ledger._erase", erase_all_letters, scene(scenes.test_an_erasure_settles_no_dead_letter_of_an_earlier_log)
    ),
    "reads beside the loop": Plant(
        f"{LOOP}.beside.ReadBeside.holds", by_offset,
        scene(scenes.test_what_was_read_beside_the_loop_does_not_count_for_a_topic_that_was_created_since),
    ),
    "assignments": Plant(f"{LOOP}.topics.Topics._holds", lambda *_: True,
        scene(scenes.test_what_was_planned_before_a_topic_was_found_to_be_another_is_not_begun)),
    "originals whose names are taken": Plant(
        f"{LOOP}.rewrites.Rewrites._originals", all_originals, scene(scenes.test_originals_whose_names_later_objects_have_got_stay)
    ),
    "originals whose names are free": Plant(
        f"{LOOP}.rewrites.Rewrites._originals", originals_but_of_resets,
        scene(scenes.test_originals_are_deleted_though_records_behind_them_were_read_again),
    ),
    "lost uploads of another log": Plant(
        f"{LOOP}.committer.beyond_recovery", by_log_start,
        scene(scenes.test_an_upload_that_is_lost_is_not_made_again_from_a_topic_that_was_created_since),
    ),
    "lost uploads that do not count": Plant(f"{LOOP}.committer.is_counted", lambda *_: True,
        scene(scenes.test_an_upload_that_is_lost_is_given_up_once_its_offsets_are_another_topics)),
    "objects that cannot be divided": Plant(
        "kafka_s3.ops.positions.undivided", lambda entries, positions, starts: dict(positions),
        scene(scenes.test_a_position_among_rows_whose_offsets_are_not_known_becomes_that_of_the_first_row),
    ),
    "objects that were written over": Plant(f"{LOG}.committed._Stretch.check", lambda *_: None, schedule(8)),
    "tables": Plant(f"{LOG}.incarnations.Incarnations.latest_of", lambda *_: -1, with_tables(1)),
    "states": Plant("kafka_s3.followers.state.StateMerger._was_reset", lambda *_: False, with_tables(53)),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTS)
def test_a_use_that_forgets_incarnations_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = PLANTS[name]
    plant.seen(tmp_path)
    monkeypatch.setattr(plant.target, plant.forgets)
    with pytest.raises((AssertionError, LookupError, SinkError)):
        plant.seen(tmp_path)
