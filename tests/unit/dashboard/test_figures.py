"""What the dashboard says of a log is what the log says: pure functions, judged by the entries themselves."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from statistics import median
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.engine.control.catch_up import CatchUp
from kafka_s3.engine.control.heartbeat import Heartbeat, Phase, Tally
from kafka_s3.engine.control.status import SinkHealth, SinkSnapshot, SinkState
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.history import tables_of
from kafka_s3.followers.ddl.table import topics_of
from kafka_s3.model.files import Reason, Role, Totals, counted
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.alternatives import TopicPace
from kafka_s3.ops.erasure.forgetting import Forgetting
from kafka_s3.ops.erasure.subjects import subjects_of
from kafka_s3_dashboard.figures import data, delta, partitions, rotations, text
from kafka_s3_dashboard.figures.charts import (
    BOX_COLOURS,
    IEC,
    PALETTE,
    Axis,
    bars_over_time,
    boxes,
    classes,
    heat_map,
    lines_over_time,
    squarified,
    treemap,
)
from kafka_s3_dashboard.figures.data import DAY_MS, NO_TIME, Window, delays
from kafka_s3_dashboard.figures.fleet import URGENCY, by_urgency, caught_up_text, counts, fleet, why
from kafka_s3_dashboard.figures.partitions import Heat, heat, medians
from kafka_s3_dashboard.figures.text import cells, plain
from kafka_s3_dashboard.reading.frames import (
    KINDS,
    Frames,
    LogPart,
    cut,
    data_files,
    frames_of,
    joined,
    part_of,
    part_of_rows,
    part_of_tables,
    read_rows,
)
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.examples import examples
from tests.support.filled import HOUR_MS, worked
from tests.support.memory_world import ORDERS, START_MS, World, pieces
from tests.support.rewriting import ask_for_compaction

EVERYTHING = Window(0, 1 << 52)
JSON_FORMAT = "io.confluent.connect.s3.format.json.JsonFormat"


@pytest.fixture(scope="module")
def made() -> World:
    return worked()


@pytest.fixture(scope="module")
def entries(made: World) -> list[CommitEntry]:
    return made.entries()


@pytest.fixture(scope="module")
def frames(entries: list[CommitEntry]) -> Frames:
    return frames_of([part_of(entries, first=0, last=len(entries) - 1)])


def test_the_tables_hold_every_entry_file_and_count_of_the_log(entries: list[CommitEntry], frames: Frames) -> None:
    files = [file for entry in entries for file in entry.files]
    assert list(frames.entries["version"]) == [entry.version for entry in entries]
    assert [f"{folder}{name}" for folder, name in zip(frames.files["folder"], frames.files["name"], strict=True)] == [
        f.key for f in files
    ]
    assert list(frames.files["records"]) == [file.records for file in files]
    assert list(frames.files["reason"]) == [str(file.reason) for file in files]
    letters = sum(count.count for entry in entries for count in entry.dead_letters.values())
    assert data.dead_letter_counts(frames.counts)["count"].sum() == letters == 3


def test_totals_are_those_of_the_log_and_add_up(made: World, frames: Frames) -> None:
    totals = data.totals(frames.entries)
    state = made.log().load()
    assert (totals["read"], totals["written"], totals["dead_letters"]) == (
        state.totals.read,
        state.totals.written,
        state.totals.dead_letters,
    )
    assert totals["read"] == totals["written"] + totals["dead_letters"] + totals["skipped"]


def test_a_number_of_files_is_the_same_in_the_log_and_on_every_page() -> None:
    """Beside the values lie keys and headers, a file of tombstones has keys alone, and a record became a dead letter."""
    made = World({
        **TOLERANT, "flush.size": "2", "store.kafka.keys": "true", "keys.format.class": JSON_FORMAT, "store.kafka.headers": "true",
        "headers.format.class": JSON_FORMAT, "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "behavior.on.null.values": "write",
    })  # fmt: skip
    made.start()
    for offset, value in enumerate([b'{"n":0}', b'{"n":1}', None, None, b"{broken", b'{"n":5}', None]):
        made.kafka.add(ORDERS, MemoryRecord(offset, START_MS, b"key", value, (("h", b"x"),)))
    made.sink.poll_and_commit()
    log, frames = made.entries(), frames_of([part_of(made.entries(), first=0, last=len(made.entries()) - 1)])
    roles = Counter(file.role for entry in log for file in entry.files)
    assert roles == {Role.VALUE: 2, Role.KEY: 4, Role.HEADER: 4, Role.DEAD_LETTER: 1}

    totals, window = made.log().load().totals, data.narrowed(frames, EVERYTHING, 0)
    told = [data.totals(frames.entries), data.totals_of_topics(data.throughput(frames.files, window), frames.counts)]
    assert [(one["files"], one["bytes"]) for one in told] == [(totals.files, totals.bytes)] * 2
    assert totals.files == 4
    for found in (
        data.throughput(frames.files, window),
        partitions.directories(frames.files),
        partitions.by_kafka_partition(frames.files),
        rotations.summary(frames.files, window).reasons,
    ):
        assert (found["files"].sum(), found["records"].sum()) == (totals.files, totals.written)


def test_the_totals_of_the_topics_sum_up_to_those_of_all(frames: Frames) -> None:
    written = data.throughput(frames.files, EVERYTHING)
    both = [
        data.totals_of_topics(
            written[written["topic"] == topic], data.within(frames.counts, Window(0, 1 << 52, (topic,)))
        )
        for topic in ("orders", "payments")
    ]
    assert {name: both[0][name] + both[1][name] for name in both[0]} == data.totals(frames.entries)


def test_files_are_cut_to_the_chosen_topics_column_by_column(frames: Frames) -> None:
    window = Window(0, 1 << 52, ("payments",))
    whole, narrow = data.within(frames.files, window), data.within(frames.files, window, "records", *KINDS)
    assert set(whole["topic"]) == {"payments"}
    assert narrow.equals(whole[["records", *KINDS]])
    assert data.within(frames.files, replace(window, topics=("nothing",))).empty
    assert data.within(frames.files.iloc[:0], window).empty


def test_the_entries_of_a_page_have_their_files_words_and_offsets(made: World, frames: Frames) -> None:
    chosen = frames.entries.iloc[1:4]
    rows = data.commit_rows(chosen, data.files_of(chosen, frames.files))
    assert rows["version"].tolist() == [3, 2, 1]
    for row in rows.itertuples():
        files = made.entries()[row.version].files
        assert row.reasons == ", ".join(sorted({str(file.reason) for file in files}))
        assert row.topics == ", ".join(sorted({file.topic for file in files}))
        assert all(f"{file.topic}-{file.partition} " in row.offsets for file in counted(files))
    assert data.files_of(chosen.iloc[:0], frames.files).empty


@cache
def log() -> list[CommitEntry]:
    return worked().entries()


@given(cuts=st.lists(st.integers(0, 99), max_size=6))
@settings(max_examples=examples(25))
def test_a_log_read_in_pieces_and_in_any_order_gives_the_same_tables(cuts: list[int]) -> None:
    entries = log()
    whole = joined([part_of(entries[a:b], first=a, last=b - 1) for a, b in pieces(len(entries), cuts)][::-1])
    assert [(part.first, part.last) for part in whole] == [(0, len(entries) - 1)]
    expected = frames_of([part_of(entries, first=0, last=len(entries) - 1)])
    for name in ("entries", "files", "counts", "gaps", "swaps"):
        pd.testing.assert_frame_equal(getattr(frames_of(whole), name), getattr(expected, name), check_categorical=False)


def test_a_part_can_be_cut_to_some_entries() -> None:
    part = cut(part_of(log(), first=0, last=18), first=5, last=7)
    assert (part.first, part.last, len(part)) == (5, 7, 3)
    assert set(frames_of([part]).files["version"]) == {5, 6, 7}


def test_parts_with_a_hole_between_them_stay_apart() -> None:
    parts = [part_of(log()[a:b], first=a, last=b - 1) for a, b in ((0, 3), (5, 9))]
    assert [(part.first, part.last) for part in joined(parts)] == [(0, 2), (5, 8)]


def test_the_window_takes_the_first_moment_and_leaves_the_last_one_out(frames: Frames) -> None:
    times = frames.entries["committed_ms"]
    chosen = data.within(frames.entries, Window(int(times.iloc[3]), int(times.iloc[-1])))
    assert set(chosen["committed_ms"]) == set(times[(times >= times.iloc[3]) & (times < times.iloc[-1])])


def test_a_clock_that_went_back_loses_no_entry_of_the_window(frames: Frames) -> None:
    shuffled = frames.entries.iloc[::-1]
    window = Window(START_MS, START_MS + HOUR_MS + 1)
    assert set(data.within(shuffled, window)["version"]) == set(data.within(frames.entries, window)["version"])


def test_throughput_sums_up_to_what_was_written_in_each_topic(entries: list[CommitEntry], frames: Frames) -> None:
    found = data.throughput(frames.files, data.narrowed(frames, EVERYTHING, 0))
    wanted: Counter[str] = Counter()
    for entry in entries:
        for file in entry.files:
            if file.role is Role.VALUE:
                wanted[file.topic] += file.records
    assert found.groupby("topic", observed=True)["records"].sum().to_dict() == dict(wanted)


def known(lag: dict[TopicPartition, int], beat_ms: int, looked_ms: int | None = None) -> SinkSnapshot:
    heartbeat = Heartbeat(
        "orders", "run", "host", 1, "0", 0, 10_000, Phase.RUNNING, beat_ms, lag=lag, looked_ms=looked_ms
    )
    return SinkSnapshot("orders", heartbeat=heartbeat)


def test_a_partition_without_lag_is_complete_up_to_the_heartbeat() -> None:
    found = data.lag_table(known({TopicPartition("t", 0): 0}, 5000), {})
    assert found[["complete_ms", "lag", "lag_s"]].values.tolist() == [[5000, 0, 0.0]]


def test_a_heartbeat_that_repeats_an_older_look_does_not_make_a_partition_more_complete() -> None:
    lag = {TopicPartition("t", 0): 0, TopicPartition("t", 1): 4}
    found = data.lag_table(known(lag, 90_000, looked_ms=60_000), {("t", 1): (50_000, 55_000)})
    assert found[["complete_ms", "lag_s"]].values.tolist() == [[60_000, 0.0], [50_000, 10.0]]


def test_a_partition_with_lag_is_complete_up_to_its_latest_record_in_an_object() -> None:
    found = data.lag_table(known({TopicPartition("t", 0): 7}, 65_000), {("t", 0): (5000, 9000)})
    assert found[["complete_ms", "lag", "lag_s", "committed_ms"]].values.tolist() == [[5000, 7, 60.0, 9000]]


def test_a_partition_of_which_nothing_is_known_makes_its_topic_unknown() -> None:
    lags = data.lag_table(known({TopicPartition("t", 0): 0, TopicPartition("t", 1): 3}, 5000), {})
    assert data.completeness(lags)["complete_ms"].tolist() == [NO_TIME]


def test_lag_without_a_heartbeat_is_unknown_and_not_nothing(made: World) -> None:
    found = data.lag_table(SinkSnapshot("orders", log=made.log().load()), {})
    assert found["lag"].isna().all()
    assert data.completeness(found)["lag"].isna().all()


def test_settled_letters_are_taken_from_the_open_ones() -> None:
    counts = pd.DataFrame({"topic": ["t", "t"], "stage": ["VALUE_CONVERTER"] * 2, "count": [5, -2]})
    assert data.letters_by(counts, "topic").to_dict("records") == [{"topic": "t", "became": 5, "settled": 2, "open": 3}]


def test_times_are_drawn_at_the_wall_clock_of_the_zone() -> None:
    shown = data.wall(pd.Series([1_705_312_800_000, NO_TIME]), "Asia/Kolkata")
    assert shown.iloc[0] == pd.Timestamp("2024-01-15T15:30:00Z")
    assert pd.isna(shown.iloc[1])


def test_a_schema_change_is_seen_within_a_partition_and_not_between_partitions() -> None:
    file = log()[2].files[0]
    entry = replace(log()[2], files=tuple(
        replace(file, partition=partition, first_offset=offset, schema=schema)
        for partition, offset, schema in ((0, 0, "a v1"), (0, 5, "a v2"), (1, 0, "a v1"), (1, 5, "a v1"))
    ))  # fmt: skip
    found = delta.changes(frames_of([part_of([entry], first=2, last=2)]).files)
    assert found[["partition", "first_offset", "before", "after"]].values.tolist() == [[0, 5, "a v1", "a v2"]]


def test_schemas_that_take_turns_are_one_pair_with_its_changes_counted() -> None:
    file = log()[2].files[0]
    names = ("a v1", "a v2", "a v1", "a v2", "a v3")
    turns = tuple(replace(file, first_offset=offset, schema=name) for offset, name in enumerate(names))
    frames = frames_of([part_of([replace(log()[2], files=turns)], first=2, last=2)])
    found = delta.pairs(delta.changes(frames.files))
    assert found[["before", "after", "changes", "back", "partitions"]].values.tolist() == [
        ["a v1", "a v2", 3, 1, 1], ["a v2", "a v3", 1, 0, 1],
    ]  # fmt: skip
    newest = delta.object_at(frames.files, 3)
    assert newest is not None
    assert (newest.key, newest.format) == (file.key, file.format)


def test_a_schema_of_the_same_name_that_closed_a_file_is_a_change() -> None:
    """Schemas were compared by name: beside 59 of 140 files closed by schema every topic-partition had kept its schema."""
    file = log()[2].files[0]

    def changed(*given: tuple[str, Reason]) -> pd.DataFrame:
        files = tuple(
            replace(file, first_offset=offset, schema="", encoded_partition=name, reason=reason)
            for offset, (name, reason) in enumerate(given)
        )
        return delta.changes(frames_of([part_of([replace(log()[2], files=files)], first=2, last=2)]).files)

    found = changed(("a", Reason.SCHEMA), ("b", Reason.SCHEMA), ("a", Reason.FLUSH_SIZE), ("b", Reason.FLUSH_SIZE))
    assert found[["first_offset", "before_at", "after_at"]].values.tolist() == [[2, 0, 2], [3, 1, 3]]
    assert delta.pairs(found)[["before", "after", "changes", "back"]].values.tolist() == [["", "", 2, 0]]
    assert delta.schema_name("", "") == "(no name), of other fields"
    assert changed(("a", Reason.FLUSH_SIZE), ("a", Reason.FLUSH_SIZE)).empty
    assert changed(("a", Reason.SCHEMA)).empty


# ------------------------------------------------------------ rotation


def test_every_file_is_in_one_class_of_the_histogram(frames: Frames) -> None:
    sizes = data_files(frames.files)["bytes"]
    found = rotations.histogram(sizes)
    assert found["files"].sum() == len(sizes)
    for row in found.itertuples():
        assert ((sizes >= row.lower) & (sizes < row.upper)).sum() == row.files


def test_reasons_count_every_data_file(entries: list[CommitEntry], frames: Frames) -> None:
    wanted = Counter(str(file.reason) for entry in entries for file in entry.files if file.role is Role.VALUE)
    found = rotations.reasons(data_files(frames.files))
    assert dict(zip(found["reason"], found["files"], strict=True)) == dict(wanted)
    assert found["share"].sum() == pytest.approx(1)


def files_of(reason: Reason, *, count: int, size: int, records: int, directories: int = 1) -> pd.DataFrame:
    file = log()[2].files[0]
    made = tuple(
        replace(
            file,
            first_offset=n * records,
            records=records,
            bytes=size,
            reason=reason,
            encoded_partition=f"d={n % directories}",
        )
        for n in range(count)
    )
    return frames_of([part_of([replace(log()[2], files=made)], first=2, last=2)]).files


def test_a_topic_of_small_files_is_found_with_its_pace_and_why_they_closed() -> None:
    files = files_of(Reason.FLUSH_SIZE, count=256, size=1 << 20, records=1000, directories=4)
    (found,) = rotations.small(files, Window(0, HOUR_MS))
    assert (found.files, found.reason, found.share, found.median_bytes) == (256, "flush.size", 1.0, 1 << 20)
    assert found.pace == TopicPace(per_second=71, record_bytes=1000, partitions=1, directories=4, files=6100)


def test_delay_over_time_is_that_of_the_records_of_each_step() -> None:
    columns = {
        "committed_ms": [1_000, 1_500, 61_000],
        "records": [3, 1, 1],
        "min_ms": [900, 500, -1],
        "max_ms": [900, 500, -1],
    }
    files = pd.DataFrame(columns).assign(role="value", reason="flush.size").astype({"reason": "category"})
    window = Window(0, HOUR_MS)
    found = delays(files, window)
    assert found.to_dict("list") == {"at_ms": [0], "median_ms": [100], "slow_ms": [1000], "newest_ms": [100]}
    assert delays(files.iloc[2:], window).empty


def test_the_sink_that_needs_a_look_comes_first_and_unknown_is_not_zero() -> None:
    def seen(name: str, **changes: Any) -> SinkSnapshot:
        beat = Heartbeat(name, "run", "host", 7, "0.1.0", 0, 10_000, phase=Phase.RUNNING, beat_ms=DAY_MS, looked_ms=DAY_MS, lag={ORDERS: 0},
                         hours=(Tally(DAY_MS - HOUR_MS, 5),))  # fmt: skip
        return SinkSnapshot(
            name, LogState(1, 1, totals=Totals(9, 4, 5)), heartbeat=replace(beat, **changes), seen_ms=DAY_MS
        )

    sinks = [seen("well"), seen("stopped", phase=Phase.STOPPED), seen("failed", phase=Phase.FAILED), seen("late", lag={ORDERS: 9}),
             seen("letters", recent=Tally(0, 10, 2, 8)), seen("gone", beat_ms=0),
             SinkSnapshot("new", configured=True, seen_ms=DAY_MS)]  # fmt: skip
    ordered = by_urgency(sinks)
    assert [known.name for known in ordered] == ["failed", "gone", "letters", "new", "late", "well", "stopped"]
    rows = fleet(ordered).set_index("sink")
    assert rows["lag"].to_dict() == {
        "failed": "unknown", "gone": "unknown", "letters": "0", "new": "unknown", "late": "9", "well": "0", "stopped": "unknown",
    }  # fmt: skip
    assert rows.loc["well", "day"] == [*([0] * 22), 5, 0]
    assert rows.loc["new", "day"] is None
    assert rows["letters"].dropna().unique().tolist() == [5]
    assert counts(ordered) == {
        **dict.fromkeys(URGENCY, 1), SinkState.DEGRADED: 1, SinkState.UNKNOWN: 0, SinkState.PAUSED: 0, SinkState.RUNNING: 2,
    }  # fmt: skip
    assert rows.loc["well", "why"] == ""


def test_a_long_reason_keeps_both_ends_and_a_sink_that_is_behind_says_by_when() -> None:
    long = "S3 refused " + "x/" * 200 + " more than 5 (health.lag.max.records)."
    found = why(SinkHealth(SinkState.FAILED, long))
    assert found.startswith("S3 refused")
    assert found.endswith("more than 5 (health.lag.max.records).")
    assert len(found) < 200
    beat = Heartbeat("a", "run", "host", 7, "0.1.0", 0, 10_000, phase=Phase.RUNNING, beat_ms=DAY_MS)
    texts = [
        caught_up_text(SinkSnapshot("a", heartbeat=replace(beat, catch_up=one), seen_ms=DAY_MS))
        for one in (None, CatchUp(0, 9), CatchUp(0, 9, 1.0, 2.0), CatchUp(0, 9, 2.0, 1.0, DAY_MS + 7_140_000))
    ]
    assert texts == ["\u2013", "unknown", "falls behind", "in 1 h 59 min"]


def test_charts_run_to_now(frames: Frames) -> None:
    last = int(frames.entries["committed_ms"].max())
    assert data.narrowed(frames, EVERYTHING, last + DAY_MS).until_ms == last + DAY_MS
    ended = Window(0, last + HOUR_MS)
    assert data.narrowed(frames, ended, last + DAY_MS).until_ms == last + HOUR_MS


def test_large_files_and_few_files_are_no_small_files() -> None:
    large = files_of(Reason.FLUSH_SIZE, count=50, size=100 << 20, records=1000)
    few = files_of(Reason.FLUSH_SIZE, count=9, size=1, records=1)
    assert [rotations.small(files, Window(0, HOUR_MS)) for files in (large, few)] == [[], []]


def test_the_cost_counts_the_requests_of_uploads_and_entries() -> None:
    files = files_of(Reason.FLUSH_SIZE, count=10, size=1 << 30, records=1)
    found = rotations.cost(2, rotations.objects(files), Window(0, rotations.MONTH_MS), rotations.Prices(1.0, 2.0, 3.0))
    assert (found.writes, found.write_cost) == (10 * 3 + 2, 0.032)
    assert (found.added_gib, found.storage_cost) == (10.0, 30.0)
    assert (found.reads, found.read_cost) == (10, 0.02)


# ------------------------------------------------------------ layout


def test_the_share_of_a_kafka_partition_is_that_of_its_topics_records() -> None:
    files = pd.DataFrame(
        {"topic": ["a", "a", "b", "a"], "partition": [0, 1, 0, 0], "records": [80, 10, 5, 10], "bytes": [1, 1, 1, 1]}
    )
    files = files.assign(role="value", reason="flush.size", counted=True, live=True)
    found = partitions.by_kafka_partition(files.astype({"topic": "category", "reason": "category"}))
    assert found[["topic", "partition", "files", "records", "share"]].values.tolist() == [
        ["b", 0, 1, 5, 1.0], ["a", 0, 2, 90, 0.9], ["a", 1, 1, 10, 0.1],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "times"), [(["partition=0"], False), (["partition=0", "dt=2024-01-15"], True), ([], False)]
)
def test_directories_that_are_no_times_are_listed_apart(names: list[str], times: bool) -> None:
    assert partitions.are_times(pd.DataFrame({"encoded": names}, dtype=object)) is times


@pytest.mark.parametrize(
    ("encoded", "start", "unit"),
    [
        ("year=2024/month=01/day=15/hour=10", "2024-01-15T10:00", "hour"),
        ("dt=2024-01-15", "2024-01-15T00:00", "day"),
        ("20240115/07", "2024-01-15T07:00", "hour"),
        ("year=2024", "2024-01-01T00:00", "year"),
        ("month=2024-02", "2024-02-01T00:00", "month"),
    ],
)
def test_directories_of_time_are_recognised(encoded: str, start: str, unit: str) -> None:
    slot = partitions.slot_of(encoded)
    assert slot is not None
    assert (slot.start.isoformat()[:16], slot.unit) == (start, unit)


@pytest.mark.parametrize(
    "encoded",
    [
        "partition=0",
        "country=DE",
        "day=32/hour=1",
        "year=2024/month=13",
        "",
        "a=2024/b=1/c=1/d=1/e=1/f=1",
        "tenant=t01971",
        "2024",
        "order=2024/11",
    ],
)
def test_other_directories_are_no_times(encoded: str) -> None:
    assert partitions.slot_of(encoded) is None


def test_the_tree_sums_up_at_every_level(frames: Frames) -> None:
    found = partitions.directories(frames.files)
    top = partitions.children(found, "")
    assert partitions.children(found, "orders/nothing").empty
    assert top["name"].tolist() == ["orders", "payments"]
    for path, row in zip(top["path"], top.itertuples(), strict=True):
        below = partitions.children(found, path)
        assert (below["files"].sum(), below["records"].sum(), below["bytes"].sum()) == (
            row.files,
            row.records,
            row.bytes,
        )
    hours = partitions.children(found, "orders/year=2024/month=01/day=15")
    assert hours["name"].tolist() == [f"hour={hour}" for hour in (10, 11, 12, 14, 15)]
    assert not hours["deeper"].any()


def test_the_hour_without_records_is_a_gap(frames: Frames) -> None:
    found = partitions.gaps(partitions.directories(frames.files))
    assert found[["topic", "unit", "missing"]].values.tolist() == [["orders", "hour", 1], ["payments", "hour", 1]]
    assert found["before"].str.endswith("hour=14").all()


def test_the_record_that_came_late_is_found(frames: Frames) -> None:
    found = partitions.late(frames.files)
    assert found[["topic", "encoded", "files", "records", "behind_s"]].values.tolist() == [
        ["orders", "year=2024/month=01/day=15/hour=11", 1, 1, 3 * 3600.0]
    ]


def test_the_objects_of_a_topic_are_those_that_the_log_itself_names(entries: list[CommitEntry], frames: Frames) -> None:
    for topic, objects in topics_of(entries).items():
        found = partitions.topic_objects(frames.files, topic)
        assert found is not None
        assert (list(found.newest), found.folder, found.sidecars) == (
            list(objects.newest),
            objects.folder,
            objects.sidecars,
        )
        assert sorted(found.encoded_partitions) == sorted(objects.encoded_partitions)
    assert partitions.topic_objects(frames.files, "none") is None


# ------------------------------------------------------------ charts and text


@given(weights=st.lists(st.floats(0.01, 1000), min_size=1, max_size=40))
def test_boxes_of_a_treemap_have_the_areas_of_their_weights_and_stay_inside(weights: list[float]) -> None:
    placed = squarified(sorted(weights, reverse=True))
    for weight, box in zip(sorted(weights, reverse=True), placed, strict=True):
        assert box.width * box.height == pytest.approx(weight / sum(weights), rel=1e-6)
        assert min(box.x, box.y) >= -1e-9
        assert max(box.x + box.width, box.y + box.height) <= 1 + 1e-6


def test_many_directories_are_put_together_in_the_treemap() -> None:
    found = boxes(pd.DataFrame({"name": [f"d{n}" for n in range(500)], "bytes": range(1, 501)}), "bytes")
    assert len(found) == 60
    assert found["bytes"].sum() == sum(range(1, 501))


def test_charts_are_valid_and_draw_what_they_were_given() -> None:
    import altair as alt  # takes long, and no other test needs it

    at = pd.Timestamp("2024-01-15T10:00:00Z")
    axis = Axis(60_000, at, at + pd.Timedelta(hours=1))
    frame = pd.DataFrame({"at": [at], "reason": ["a"], "files": [2]})
    bars = bars_over_time(frame, "files", by="reason", axis=axis, titles=("files", "reason"), domain=["a"])
    assert bars["layer"][0]["encoding"]["x"]["scale"] == {"type": "utc"}
    assert (bars["layer"][0]["encoding"]["y"]["stack"], bars["datasets"]["rows"]["rank"].tolist()) == ("zero", [0])
    histogram = classes(rotations.histogram(pd.Series([1, 2, 3])), title="size", texts=["1", "2"], labels=IEC)
    assert histogram["datasets"]["rows"].to_dict("list") == {
        "lower": [1.0, 2.0], "upper": [2.0, 4.0], "files": [1, 2], "text": ["1", "2"],
    }  # fmt: skip
    late = pd.DataFrame({"at": [at, at], "line": ["a", "a"], "value": [1.0, 3.0], "shown": ["1 s", "3 s"]})
    lines = lines_over_time(late, axis=axis, title="delay, s", domain=["a"], limit=2.0)
    assert lines["datasets"]["above"]["value"].tolist() == [3.0]
    placed = boxes(pd.DataFrame({"name": ["a"], "bytes": [1]}), "bytes")
    areas = treemap(placed, "bytes", title="bytes", texts=["1 B"])
    for chart in (bars, histogram, lines, areas):
        alt.Chart.from_dict(
            {name: value for name, value in chart.items() if name != "datasets"}
        )  # raises where Vega-Lite would not have it
        for part in chart.get("layer", [chart]):
            columns = chart["datasets"][part["data"]["name"]].columns
            assert {one["field"] for one in drawn(part["encoding"])} <= set(columns)


def drawn(encoding: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything of an encoding that shows a column."""
    found = [one for channel in encoding.values() for one in (channel if isinstance(channel, list) else [channel])]
    return [one for one in found if "field" in one]


def test_colours_are_visible_on_both_backgrounds() -> None:
    for colour in PALETTE:
        assert contrast(colour, "#ffffff") >= 3
        assert contrast(colour, "#0e1117") >= 3
    for colour in BOX_COLOURS:
        assert contrast(colour, "#ffffff") >= 4.5


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@given(st.text())
def test_no_text_becomes_markup_or_a_formula(text: str) -> None:
    shown = plain(text)
    assert not any(char in shown.replace("\\" + char, "") for char in "`*[]<>$|")
    (cell,) = cells(pd.DataFrame({"text": [text]}))["text"]
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")) or cell.removeprefix("-").replace(".", "").isdecimal()


def test_sizes_and_durations_read_well() -> None:
    assert [text.size_text(size) for size in (0, 1023, 1536, 5 << 20)] == ["0 B", "1023 B", "1.5 KiB", "5.0 MiB"]
    assert [text.duration_text(ms) for ms in (5, 1500, 90_000, 36_000_000)] == ["5 ms", "1.5 s", "1 min 30 s", "10 h"]


def test_a_part_knows_its_length() -> None:
    assert len(LogPart(3, 7, {})) == 5


def heated(**encoded: int) -> Heat | None:
    """A map of files of so many bytes each in directories of these names, with their median sizes."""
    file = log()[2].files[0]
    files = tuple(
        replace(file, encoded_partition=name, first_offset=offset, bytes=size)
        for offset, (name, size) in enumerate(encoded.items())
    )
    rows = frames_of([part_of([replace(log()[2], files=files)], first=2, last=2)]).files
    found = heat(partitions.directories(rows))
    return found and replace(found, cells=found.cells.assign(median_bytes=medians(found, rows)))


def test_hours_of_directories_are_a_map_with_sums_and_the_median_size() -> None:
    found = heated(**{"dt=2024-01-15/hr=10": 100, "dt=2024-01-15/hr=11": 300, "dt=2024-01-16/hr=10": 500, "other": 9})
    assert found is not None
    assert found.cells[["row", "column", "files", "bytes", "median_bytes"]].values.tolist() == [
        ["2024-01-15", "10", 1, 100, 100.0], ["2024-01-15", "11", 1, 300, 300.0], ["2024-01-16", "10", 1, 500, 500.0],
    ]  # fmt: skip
    assert (found.titles, found.columns[0], len(found.columns), found.left_out) == (("day", "hour"), "00", 24, 0)
    minutes = heated(**{"2024/01/15/10/05": 100, "2024/01/15/10/35": 300})
    assert minutes is not None
    assert minutes.cells[["files", "bytes", "median_bytes"]].values.tolist() == [[2, 400, 200.0]]


def test_days_of_directories_are_a_map_of_months_and_what_names_no_time_is_none() -> None:
    found = heated(**{"2024-01-31": 1, "2024-02-01": 2})
    assert found is not None
    assert (found.cells["row"].tolist(), found.cells["column"].tolist()) == (["2024-01", "2024-02"], ["31", "01"])
    assert (found.titles, len(found.columns)) == (("month", "day"), 31)
    assert heated(**{"region=eu": 1, "2024": 1}) is None


@pytest.mark.parametrize(("values", "number"), [([51, 49_990], ",d"), ([0.004, 1.4], ",.3~r")])
def test_the_colours_of_the_map_tell_small_numbers_beside_large_ones(values: list[float], number: str) -> None:
    """As thousands, 51 was "0k", and 0.004 MiB none."""
    cells = pd.DataFrame({"row": ["a", "a"], "column": ["00", "01"], "amount": values, "shown": "", "files": 1})
    chart = heat_map(cells, "amount", titles=("day", "hour", "amount"), columns=["00", "01"])
    assert chart["encoding"]["color"]["legend"]["format"] == number


def test_a_year_of_hours_is_a_map_of_months_and_days() -> None:
    """365 rows of days did not fit on any screen, and a quarter of them was all that was shown."""
    days = pd.date_range("2024-01-01", "2024-12-31")
    found = heated(**{f"year={day:%Y}/month={day:%m}/day={day:%d}/hour=10": 1 for day in days})
    assert found is not None
    assert (found.titles, found.cells["row"].nunique(), len(found.cells), found.left_out) == (
        ("month", "day"),
        12,
        366,
        0,
    )
    assert found.cell_of(datetime(2024, 3, 9, 10, 30, tzinfo=UTC)) == ("2024-03", "09")


@pytest.mark.parametrize(
    ("pattern", "encoded", "start"),
    [
        (
            "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
            "tenant=t01971/year=2024/month=01/day=15/hour=10",
            "2024-01-15T10:00",
        ),
        ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "tenant=t01971", None),
        ("yyyyMMdd'T'HH", "x/20240115T07", "2024-01-15T07:00"),
        ("MMM-yyyy", "Jan-2024", None),
        ("YYYY/MM/dd/", "dt=2024-01-15", "2024-01-15T00:00"),
    ],
)
def test_a_pattern_says_where_the_time_of_a_directory_is(pattern: str, encoded: str, start: str | None) -> None:
    slot = partitions.slots_by(pattern)(encoded)
    assert (slot and slot.start.isoformat()[:16]) == start


def test_objects_that_take_the_place_of_others_count_no_record_twice() -> None:
    entry = next(one for one in log() if one.files)
    again = replace(entry, version=entry.version + 1, kind=EntryKind.REWRITE, totals=Totals())
    files = frames_of([part_of([entry, again], first=entry.version, last=again.version)]).files
    assert files[files["counted"]]["version"].unique().tolist() == [entry.version]


def rewritten_log() -> list[CommitEntry]:
    """Six files of a record each are compacted to one; of that one a record is erased."""
    made = World({"flush.size": "1", "rewrite.grace.ms": "1"})
    made.start()
    for offset in range(6):
        made.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, json.dumps({"n": offset}).encode()))
    assert made.sink.poll_and_commit()
    ask_for_compaction(made, made.store)
    made.sink.rewrites.look()
    assert made.sink.poll_and_commit()
    made.now += 3 * 60_000
    work = Forgetting(made.settings, made.store, subjects_of(None, "n = 4", None), lambda: made.now, pytest.fail)
    assert len(list(work.run(work.search()))) == 1
    return made.entries()


def test_compactions_and_erasures_are_summed_up_apart_from_what_was_written() -> None:
    log = rewritten_log()
    own = part_of(log, first=0, last=len(log) - 1)
    tables = part_of_tables(tables_of(log), first=0, last=len(log) - 1)
    assert tables.tables["rewrites"] == own.tables["rewrites"]
    frames = frames_of([own])
    assert rotations.summary(frames.files, EVERYTHING).files == 6
    found = rotations.rewritten(frames.rewrites)
    compacted, erased = found["compaction"], found["erasure"]
    assert (compacted.before, compacted.after, compacted.erased) == (6, 1, 0)
    assert compacted.bytes_before == compacted.bytes_after == 6 * compacted.mean_before == compacted.mean_after
    assert (erased.before, erased.after, erased.erased) == (1, 1, 1)
    assert erased.bytes_before == compacted.bytes_after
    assert erased.bytes_after * 6 == erased.bytes_before * 5


def test_an_entry_gives_the_same_rows_with_and_without_being_made() -> None:
    for entry in log():
        made = part_of_rows([read_rows(entry.to_json(), key="k")])
        assert made.tables == part_of([entry], first=entry.version, last=entry.version).tables


def test_a_map_is_of_the_directory_that_was_chosen() -> None:
    files = frames_of([part_of(log(), first=0, last=len(log()) - 1)]).files
    found = partitions.directories(files)
    maps = {at: heat(found, at) for at in ("", "payments", "payments/year=2024/month=01/day=15/hour=12", "nothing")}

    assert maps.pop("nothing") is None
    every, topic, hour = (one.cells["records"].sum() for one in maps.values() if one)
    assert hour < topic < every
    for at, one in maps.items():
        assert one is not None
        expected: dict[str, list[int]] = {}
        for row in files[files["counted"]].itertuples():
            if f"{row.topic}/{row.encoded}/".startswith(f"{at}/" if at else ""):
                slot = partitions.slot_of(row.encoded)
                assert slot is not None
                expected.setdefault(f"{slot.start:%Y-%m-%d %H}", []).append(row.bytes)
        names = one.cells["row"] + " " + one.cells["column"]
        found_sizes = dict(zip(names, medians(one, files, at), strict=True))
        assert found_sizes == {cell: median(sizes) for cell, sizes in expected.items()}
