"""Positions are shown as log, Kafka and group see them, and moved by an entry that fences a running driver."""

from __future__ import annotations

import io
from contextlib import nullcontext

import pytest
from rich.console import Console

from kafka_s3.cli.position import chosen, confirm, log_text, positions_table, show_moves
from kafka_s3.engine.control.heartbeat import Heartbeat, Phase
from kafka_s3.engine.log.entry import EntryKind, Progress
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.errors import CommitError, ConfigError, Fenced, SourceError, TopicRecreated
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from kafka_s3.ops.positions import (
    DriverAtWork,
    Move,
    PartitionOffsets,
    check_idle,
    epoch_ms,
    moves_to,
    offset_named,
    offsets_at_time,
    read_positions,
    write_positions,
)
from kafka_s3.run.wiring.clients import configured_topics, group_of
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import failure
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World

SECOND = TopicPartition("orders", 1)


def world_at_work(records: int = 7, **config: str) -> World:
    world = World({"flush.size": "2", **config})
    world.add(range(records))
    world.start()
    world.sink.poll_and_commit()
    return world


def rows_of(world: World) -> dict[TopicPartition, PartitionOffsets]:
    return read_positions(
        world.log().load(),
        world.kafka,
        topics=configured_topics(world.settings, world.kafka),
        group=group_of(world.settings),
    )


def shown(*things: object) -> str:
    out = Console(file=io.StringIO(), width=220)
    out.print(*things)
    return out.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_place_says_what_log_kafka_and_group_know() -> None:
    world = world_at_work()
    world.kafka.create(SECOND, start=5)
    rows = rows_of(world)

    assert rows[ORDERS] == PartitionOffsets(ORDERS, Progress(6, 6, leader_epoch=0), 0, 7, 6)
    assert (rows[ORDERS].lag, rows[ORDERS].remark) == (1, "")
    assert rows[SECOND] == PartitionOffsets(SECOND, None, 5, 5, None)
    assert "first start" in rows[SECOND].remark
    table = shown(positions_table(rows.values(), group="connect-orders"))
    assert "connect-orders" in table
    assert [cell.strip() for cell in table.splitlines()[-3].split("│")[1:4]] == ["orders", "0", "6"]


def test_what_stops_a_sink_is_remarked() -> None:
    assert "3 offsets are no longer in Kafka" in PartitionOffsets(ORDERS, Progress(2), 5, 9, None).remark
    assert PartitionOffsets(ORDERS, Progress(2), 5, 9, None, held=5).remark == ""
    assert "1 offsets are no longer in Kafka" in PartitionOffsets(ORDERS, Progress(2), 5, 9, None, held=4).remark
    assert "beyond Kafka's head" in PartitionOffsets(ORDERS, Progress(12), 5, 9, None).remark
    gone = PartitionOffsets(ORDERS, Progress(12), None, None, None)
    assert (gone.remark, gone.lag) == ("not in Kafka", None)


def test_dead_letters_beyond_the_frontier_are_counted() -> None:
    world = World({**TOLERANT, "flush.size": "4"})
    world.add([0])
    world.kafka.add(ORDERS, MemoryRecord(1, START_MS, None, b"{broken"))
    world.start().poll_and_commit()
    world.now += 120_000
    world.sink.poll_and_commit()
    place = rows_of(world)[ORDERS]

    assert place.progress == Progress(0, None, OffsetSet(((1, 1),)), leader_epoch=0)


def test_dead_letters_ahead_of_a_position_stay_recorded_while_kafka_has_their_records() -> None:
    world = World({**TOLERANT, "flush.size": "10", "tail.check.interval.ms": "0"})
    world.add(range(3))
    for offset in (3, 6):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b"{broken"))
    world.start().poll_and_commit()
    world.kafka.cut(ORDERS, at=5)
    world.add(range(5, 9))
    entry = write_positions(world.log(), world.kafka, {ORDERS: 1})

    assert entry is not None
    assert entry.progress == {ORDERS: Progress(1, None, OffsetSet(((3, 3),)), leader_epoch=1)}
    world.start().poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert list(world.numbers().values()) == [[1, 2, 5, 6, 7, 8]]


def test_going_ahead_is_a_gap_and_the_sink_goes_on_there() -> None:
    world = world_at_work()
    world.add(range(7, 12))
    entry = write_positions(world.log(), world.kafka, {ORDERS: 10})

    assert entry is not None
    assert entry.kind is EntryKind.POSITION
    assert entry.gaps == (Gap("orders", 0, 6, 9, "position"),)
    assert entry.progress == {ORDERS: Progress(10, 6, leader_epoch=0)}
    world.start().poll_and_commit()
    assert list(world.numbers().values())[-1] == [10, 11]
    assert world.frontier() == 12


def test_going_back_is_no_gap_and_writes_the_records_again() -> None:
    world = world_at_work()
    entry = write_positions(world.log(), world.kafka, {ORDERS: 3})

    assert entry is not None
    assert entry.gaps == ()
    assert entry.progress == {ORDERS: Progress(3, 3, leader_epoch=0)}
    world.start().poll_and_commit()
    assert [key[-6:-5] for key in world.numbers()] == ["0", "2", "4", "3", "5"]


def test_a_position_after_the_offset_at_which_a_log_was_cut_is_refused() -> None:
    world = world_at_work()
    world.kafka.cut(ORDERS, at=3)
    world.add(range(3, 9))
    with pytest.raises(ConfigError, match=r"'5'.* is after offset 3, at which the log of orders-0 was cut.* Set 3, or"):
        write_positions(world.log(), world.kafka, {ORDERS: 5})
    assert write_positions(world.log(), world.kafka, {ORDERS: 3}) is not None


def test_a_running_driver_is_fenced_by_a_move() -> None:
    world = world_at_work()
    write_positions(world.log(), world.kafka, {ORDERS: 7})
    world.add(range(7, 10))

    with pytest.raises(Fenced):
        world.sink.poll_and_commit()


def test_a_sink_without_a_log_gets_its_first_position() -> None:
    world = World({"flush.size": "2"})
    world.add(range(7))
    entry = write_positions(world.log(), world.kafka, {ORDERS: 5})

    assert entry is not None
    assert entry.gaps == ()
    assert entry.topic_ids == {"orders": "id-orders"}
    world.start().poll_and_commit()
    assert list(world.numbers().values()) == [[5, 6]]


def test_a_move_to_where_it_is_already_writes_no_position() -> None:
    world = world_at_work()
    assert moves_to(world.log().load(), {ORDERS: 6}) == []
    assert write_positions(world.log(), world.kafka, {ORDERS: 6}) is None


@pytest.mark.parametrize(("ahead", "kept"), [(5, ((5, 5), (8, 9))), (9, ((9, 9),)), (3, ()), (1, ())])
def test_recorded_dead_letters_are_kept_ahead_and_tried_again_behind(
    ahead: int, kept: tuple[tuple[int, int], ...]
) -> None:
    move = Move(ORDERS, Progress(4, 4, OffsetSet(((5, 5), (8, 9)))), ahead)
    assert move.progress == Progress(ahead, min(ahead, 4), OffsetSet(kept))


def test_a_driver_that_committed_lately_is_not_fenced_by_accident() -> None:
    world = world_at_work()
    log = world.log()
    log.load()
    with pytest.raises(DriverAtWork, match=r"driver .+ wrote entry \d+ 60 s ago.*--force.*fenced"):
        check_idle(log, now_ms=world.now + 60_000, within_ms=600_000)
    check_idle(log, now_ms=world.now + 600_000, within_ms=600_000)
    write_positions(log, world.kafka, {ORDERS: 3})
    check_idle(log, now_ms=world.now, within_ms=600_000)  # by hand: nobody is at work behind it
    check_idle(CommitLog(MemoryStore(), log.paths, clock_ms=lambda: 0), now_ms=world.now, within_ms=600_000)
    world.start()
    log.load()
    with pytest.raises(DriverAtWork):
        check_idle(log, now_ms=world.now, within_ms=600_000)


@pytest.mark.parametrize(("phase", "epoch", "idle"), [
    (Phase.STOPPED, 1, True), (Phase.FAILED, 1, True), (Phase.STOPPED, 0, False), (Phase.RUNNING, 1, False),
])  # fmt: skip
def test_a_driver_is_believed_that_it_has_ended(phase: Phase, epoch: int, idle: bool) -> None:
    world = world_at_work()
    log = world.log()
    log.load()
    heartbeat = Heartbeat("orders", "run", "host", 7, "0.1.0", 0, 10_000, phase=phase, beat_ms=world.now, epoch=epoch)
    world.store.put(log.paths.heartbeat(), heartbeat.to_json())
    with nullcontext() if idle else pytest.raises(DriverAtWork):
        check_idle(log, now_ms=world.now, within_ms=600_000)


@pytest.mark.parametrize(
    ("phase", "epoch", "heard_ago_ms", "idle"),
    [
        (Phase.RUNNING, 1, 29_000, False),
        (Phase.PAUSED, 1, 0, False),
        (Phase.STARTING, 0, 0, False),  # it claims the log in a moment
        (Phase.RUNNING, 1, 31_000, True),
        (Phase.STOPPED, 1, 0, True),
    ],
)
def test_a_driver_with_a_heartbeat_is_at_work_however_quiet_its_log_is(
    phase: Phase, epoch: int, heard_ago_ms: int, idle: bool
) -> None:
    world = world_at_work()
    log, now = world.log(), world.now + 3_600_000
    log.load()
    beat = Heartbeat(
        "orders", "run", "host", 7, "0.1.0", 0, 10_000, phase=phase, beat_ms=now - heard_ago_ms, epoch=epoch
    )
    world.store.put(log.paths.heartbeat(), beat.to_json())
    with (
        nullcontext()
        if idle
        else pytest.raises(DriverAtWork, match=r"running: pid 7 on host, last heartbeat .*Stop it first")
    ):
        check_idle(log, now_ms=now, within_ms=600_000)


def test_a_driver_that_was_overtaken_holds_nobody_up_while_it_still_beats() -> None:
    world = world_at_work()
    log = world.log()
    log.load()
    beat = Heartbeat("orders", "run", "host", 7, "0.1.0", 0, 10_000, phase=Phase.RUNNING, beat_ms=world.now, epoch=1)
    world.store.put(log.paths.heartbeat(), beat.to_json())
    write_positions(log, world.kafka, {ORDERS: 3})
    check_idle(log, now_ms=world.now, within_ms=600_000)


@pytest.mark.parametrize(("text", "offset"), [("earliest", 3), ("latest", 9), ("3", 3), ("9", 9)])
def test_offsets_have_names(text: str, offset: int) -> None:
    assert offset_named(text, PartitionOffsets(ORDERS, None, 3, 9, None)) == offset


@pytest.mark.parametrize("text", ["2", "10", "-1", "soon", "٣"])
def test_an_offset_that_kafka_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"from 3 to 9|is not an offset"):
        offset_named(text, PartitionOffsets(ORDERS, None, 3, 9, None))


def test_an_unknown_partition_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"orders-1.*not a topic-partition"):
        offset_named("3", PartitionOffsets(SECOND, None, None, None, None))


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1705312800000", START_MS),
        ("2024-01-15T10:00:00Z", START_MS),
        ("2024-01-15T10:00:00", START_MS),
        ("2024-01-15T11:00:00.007+01:00", START_MS + 7),
        ("2024-01-15", START_MS - 36_000_000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_times_are_iso_8601_or_epoch_milliseconds(text: str, ms: int) -> None:
    assert epoch_ms(text) == ms


def test_another_time_is_refused() -> None:
    with pytest.raises(ConfigError, match="yesterday"):
        epoch_ms("yesterday")


def test_a_time_is_looked_up_and_the_head_stands_for_the_future() -> None:
    world = world_at_work()
    world.add(range(7, 9), timestamp=START_MS + 5000)
    rows = rows_of(world).values()

    assert offsets_at_time(world.kafka, rows, time_ms=START_MS + 1) == {ORDERS: 7}
    assert offsets_at_time(world.kafka, rows, time_ms=START_MS + 5001) == {ORDERS: 9}


def test_a_recreated_topic_and_another_cluster_are_refused() -> None:
    world = world_at_work()
    world.kafka.ids["orders"] = "another"
    with pytest.raises(TopicRecreated, match=r"behavior\.on\.lost\.offsets=gap"):
        write_positions(world.log(), world.kafka, {ORDERS: 3})
    world.kafka.cluster_id = lambda: "elsewhere"  # type: ignore[method-assign]
    with pytest.raises(SourceError, match="elsewhere"):
        write_positions(world.log(), world.kafka, {ORDERS: 3})
    assert world.log().load().epoch == 1


def died_before_publication(*, records_begin: int = 0) -> World:
    """A sink whose last entry, of offsets 6 and 7, has lost its upload."""
    world = world_at_work()
    world.add([7])
    world.start([failure("complete_upload", None)])
    assert not world.sink.poll_and_commit()
    for upload_id, upload in world.store.uploads.items():
        world.store.abort_upload(upload.key, upload_id)
    world.kafka.trim(ORDERS, start=records_begin)
    return world


def test_a_committed_file_whose_upload_is_gone_is_left_to_a_run() -> None:
    world = died_before_publication()

    with pytest.raises(CommitError, match=r"offsets 6 to 7.*kafka-s3 run.*their first offset or before"):
        write_positions(world.log(), world.kafka, {ORDERS: 7})


def test_a_move_behind_a_file_whose_upload_is_gone_writes_its_records_again() -> None:
    world = died_before_publication()
    entry = write_positions(world.log(), world.kafka, {ORDERS: 6})
    world.start().poll_and_commit()

    assert entry is not None
    assert not [gap for found in world.entries() for gap in found.gaps]
    assert list(world.numbers().values())[-1] == [6, 7]


def test_a_move_records_a_gap_where_upload_and_records_are_gone() -> None:
    world = died_before_publication(records_begin=8)
    write_positions(world.log(), world.kafka, {ORDERS: 8})
    assert [gap for found in world.entries() for gap in found.gaps] == [Gap("orders", 0, 6, 7, "unpublished")]
    world.add([8, 9])
    world.start().poll_and_commit()

    assert list(world.numbers().values())[-1] == [8, 9]


def test_an_object_that_was_published_and_then_deleted_is_no_obstacle_to_a_move() -> None:
    world = world_at_work()
    world.store.delete(world.entries()[-1].files[-1].key)
    world.kafka.trim(ORDERS, start=6)

    assert write_positions(world.log(), world.kafka, {ORDERS: 7}) is not None


def test_a_topic_that_the_sink_does_not_read_is_named() -> None:
    rows = rows_of(world_at_work()).values()
    assert [place.topic_partition for place in chosen(rows, ["orders"])] == [ORDERS]
    with pytest.raises(ConfigError, match=r"order.*It reads orders"):
        chosen(rows, ["order"])


def test_moves_are_reported_with_their_price() -> None:
    out = Console(file=io.StringIO(), width=300)
    show_moves(out, [Move(ORDERS, Progress(4), 9), Move(SECOND, Progress(9), 4), Move(SECOND, None, 1)])
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "orders-0: 4 -> 9" in text
    assert "offsets 4 to 8 are passed over" in text
    assert "5 offsets are read again" in text
    assert "orders-1: no position -> 1" in text


def test_nobody_is_asked_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    confirm(None)
    with pytest.raises(ConfigError, match="--yes"):
        confirm("Really?")


def test_the_line_above_the_table_says_who_wrote_last() -> None:
    world = World({"flush.size": "2"})
    log = world.log()
    log.load()
    assert "no commit log yet" in log_text("orders", log)
    world.start()
    log.load()
    assert "entry 1, epoch 1, position at 2024-01-15T10:00:00.000Z" in log_text("orders", log)
