"""Which claims on offsets still hold? Incarnations are compared with all resets, one by one, and come back from checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.engine.log.entry import BY_HAND, LAST_OFFSET, CommitEntry, EntryKind, Progress, Swap, read_entry
from kafka_s3.engine.log.fold import LogState, checkpoint_json, read_checkpoint
from kafka_s3.engine.log.incarnations import Incarnations, Reset
from kafka_s3.model.offsets import OffsetSet, TopicPartition

TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def entry(version: int, kind: EntryKind = EntryKind.POSITION, **more: object) -> CommitEntry:
    return replace(
        CommitEntry(version, f"id-{version}", 1, "sink", kind, "2024-01-15T10:00:00Z"),
        **more,  # type: ignore[arg-type]
    )


def moved(version: int, frontier: int, **more: object) -> CommitEntry:
    return entry(version, progress={TP: Progress(frontier)}, **more)


def after(*entries: CommitEntry) -> LogState:
    state = LogState()
    for one in entries:
        state = state.after(one)
    return state


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 12))
def test_claims_hold_before_the_first_offset_of_every_later_reset(frontiers: list[int], since: int) -> None:
    incarnations = Incarnations()
    for version, frontier in enumerate(frontiers):
        incarnations = incarnations.after([Reset(TP, version, 10, frontier, OffsetSet())])
    later = [frontier for version, frontier in enumerate(frontiers) if version > since]
    assert incarnations.end_of(TP, since=since) == min(later, default=LAST_OFFSET + 1)
    assert incarnations.end_of(OTHER, since=since) == LAST_OFFSET + 1
    assert incarnations.latest(TP) == incarnations.newest == len(frontiers) - 1


def test_erased_offsets_end_where_a_driver_goes_back_and_not_where_an_operator_does() -> None:
    erasure = entry(1, EntryKind.REWRITE, erased={TP: OffsetSet(((3, 3), (7, 7)))})
    first = moved(0, 10)
    assert after(first, erasure, moved(2, 5)).erased == {TP: OffsetSet(((3, 3),))}
    assert after(first, erasure, moved(2, 5, driver=f"operator{BY_HAND}")).erased == erasure.erased
    assert after(first, erasure, moved(2, 2, cuts={TP: 7})).erased == {TP: OffsetSet(((3, 3),))}
    assert after(first, erasure, entry(2, topic_ids={"orders": "A"})).erased == erasure.erased
    known = entry(2, topic_ids={"orders": "A"}), entry(3, topic_ids={"orders": "B"})
    assert after(first, erasure, *known).erased == {}


def test_a_cut_is_said_in_a_form_of_its_own_and_comes_back() -> None:
    plain, cut = moved(3, 5), moved(3, 5, cuts={TP: 7})
    assert (plain.form, cut.form) == (1, 5)
    assert "cuts" not in json.loads(plain.to_json())
    assert read_entry(cut.to_json(), key="e") == cut


def test_a_checkpoint_keeps_incarnations_and_names_originals_apart_whose_offsets_were_reset() -> None:
    swap = Swap(TP, ("a", "b"), "", 2, partitions=((0,), (1,)))
    state = after(
        entry(0, progress={TP: Progress(10), OTHER: Progress(10)}),
        entry(1, EntryKind.REWRITE, swaps=(swap,)),
        moved(2, 5),
    )
    content = checkpoint_json(state, moved(2, 5))
    document = json.loads(content)
    (replaced,) = document["replaced"]
    assert (replaced["of"], replaced["reset"]) == ([[*OTHER]], [[*TP]]), (
        "an earlier version leaves these originals alone"
    )
    assert read_checkpoint(content, key="c")[0] == state
    del document["incarnations"]
    earlier, _ = read_checkpoint(json.dumps(document).encode(), key="c")
    assert earlier.incarnations == Incarnations()
