"""What a sink holds above its frontier is believed while Kafka's log is the one it was read from, and written though retention took it."""

from __future__ import annotations

import pytest

from kafka_s3.engine.log.entry import Progress
from kafka_s3.model.errors import OffsetsLost
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World, settings_of
from tests.support.observers import Warnings
from tests.support.open_files import CONFIG, states

SECOND = TopicPartition("orders", 1)
GAP = {"behavior.on.lost.offsets": "gap"}


def numbers(world: World) -> list[int]:
    return sorted(number for found in world.numbers().values() for number in found)


def regrow(world: World, *, at: int, until: int) -> None:
    """A leader without the records from `at` on takes over, and others come up to `until`: 100 more than the offset."""
    world.kafka.cut(ORDERS, at=at)
    for offset in range(at, until):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b'{"n":%d}' % (100 + offset)))


def holding(records: int = 10, **config: str) -> World:
    """A sink whose open file holds that many records, and whose log has no entry of data yet."""
    world = World({**CONFIG, **config})
    world.start()
    world.add(range(records))
    world.sink.poll_and_commit()
    assert world.sink.partition_states[ORDERS].first_unread == records
    return world


def flushed(world: World) -> None:
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)


# ------------------------------------------------------------ a log that was cut and has grown again


@pytest.mark.parametrize("restarts", [True, False])
def test_open_files_of_a_log_that_was_cut_and_has_grown_again_are_dropped_with_a_warning_and_read_again(
    restarts: bool,
) -> None:
    world, reported = holding(), Warnings()
    regrow(world, at=4, until=14)
    if restarts:
        world.start(observer=reported)
    else:
        world.sink.topics.observer = reported
    flushed(world)

    assert numbers(world) == [*range(4), *range(104, 114)]
    assert reported.texts == [
        "orders-0 was truncated at 4, above the sink's position 0: it had reached to 10, and ends at 14 now. "
        "The open files of what is gone are dropped, and it is read again."
    ]
    assert (states(world), world.store.uploads) == ([], {})


@pytest.mark.parametrize("restarts", [True, False])
def test_open_files_that_end_before_a_cut_go_on(restarts: bool) -> None:
    world, reported = holding(), Warnings()
    regrow(world, at=10, until=14)
    if restarts:
        world.start(observer=reported)
    flushed(world)

    assert (numbers(world), reported.texts) == ([*range(10), *range(110, 114)], [])
    assert [file.first_offset for entry in world.entries() for file in entry.files] == [0]


def test_open_files_that_were_kept_under_several_leader_epochs_are_believed_after_a_restart() -> None:
    """The epoch of the frontier is older than that of the open files, whose records came under the new leader."""
    world, reported = holding(), Warnings()
    regrow(world, at=10, until=14)
    world.sink.poll_and_commit()
    world.kafka.cut(ORDERS, at=14)
    world.start(observer=reported)
    world.add(range(14, 16))
    flushed(world)

    assert (numbers(world), reported.texts) == ([*range(10), 14, 15, *range(110, 114)], [])


def test_open_files_of_a_partition_that_nobody_leads_are_believed_only_once_their_log_is_known() -> None:
    world, reported = holding(), Warnings()
    world.kafka.leaderless = {ORDERS}
    world.start()
    world.sink.poll_and_commit()
    regrow(world, at=4, until=14)
    world.start(observer=reported)
    world.sink.poll_and_commit()
    world.kafka.leaderless = set()
    flushed(world)

    assert numbers(world) == [*range(4), *range(104, 114)]
    assert [text for text in reported.texts if "truncated at 4" in text]


@pytest.mark.parametrize("state", ["true", "false"])
def test_recorded_dead_letters_of_a_log_that_was_cut_and_has_grown_again_hide_no_record(state: str) -> None:
    world, reported = (
        World({**CONFIG, **TOLERANT, "tail.state.enable": state, "tail.check.interval.ms": "0"}),
        Warnings(),
    )
    world.start()
    world.add(range(3))
    for offset in (3, 5):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b"{"))
    world.sink.poll_and_commit()
    assert world.log().load().progress[ORDERS].recorded == OffsetSet.of([3, 5])
    regrow(world, at=4, until=14)
    world.start(observer=reported)
    world.sink.poll_and_commit()
    assert world.log().load().progress[ORDERS].recorded == OffsetSet.of([3])
    flushed(world)

    assert numbers(world) == [0, 1, 2, *range(104, 114)]
    (text,) = reported.texts
    assert "1 recorded dead letters of what is gone are dropped, and it is read again" in text


def test_recorded_dead_letters_of_a_log_that_is_shorter_after_a_restart_hide_no_record() -> None:
    world = World({**CONFIG, **TOLERANT, "tail.state.enable": "false", "tail.check.interval.ms": "0"})
    world.start()
    world.add(range(3))
    world.kafka.add(ORDERS, MemoryRecord(3, START_MS, None, b"{"))
    world.sink.poll_and_commit()
    world.kafka.cut(ORDERS, at=2)
    world.start()
    world.sink.poll_and_commit()
    world.add(range(2, 6))
    flushed(world)

    assert numbers(world) == list(range(6))


def test_a_sink_that_began_at_the_end_of_a_log_notices_that_it_was_cut_before_anything_was_written() -> None:
    world = World({**CONFIG, "consumer.override.auto.offset.reset": "latest"})
    world.add(range(10))
    world.start()
    assert world.log().load().progress[ORDERS] == Progress(10, leader_epoch=0)
    regrow(world, at=4, until=14)
    world.start()
    with pytest.raises(OffsetsLost, match=r"orders-0 was truncated at 4, before 10, .* has grown again to 14"):
        world.sink.poll_and_commit()


def test_a_position_behind_a_gap_is_of_the_log_that_was_looked_at() -> None:
    """A leader changed between the last entry and the gap: the epoch of that entry ended before the gap does."""
    world, reported = World({**CONFIG, **GAP, "tail.state.enable": "false", "flush.size": "2"}), Warnings()
    world.start()
    world.add(range(2))
    world.sink.poll_and_commit()
    world.kafka.cut(ORDERS, at=2)
    world.add(range(2, 9))
    world.kafka.trim(ORDERS, start=6)
    world.sink.poll_and_commit()
    assert world.log().load().progress[ORDERS].leader_epoch == 1
    world.start(observer=reported)
    flushed(world)

    assert (numbers(world), reported.texts) == ([0, 1, 6, 7, 8], [])


def test_a_topic_that_was_created_again_is_not_compared_with_the_log_of_the_old_one() -> None:
    world = World({**CONFIG, **GAP, "tail.state.enable": "false", "flush.size": "2"})
    world.start()
    world.kafka.cuts[ORDERS] = [0, 0]
    world.add(range(2))
    world.sink.poll_and_commit()
    world.kafka.records[ORDERS].clear()
    world.kafka.cuts.clear()
    world.kafka.ids["orders"] = "again"
    world.now += 600_000
    asked = world.kafka.cut_before
    world.kafka.cut_before = lambda known: asked(known) if not known else pytest.fail(str(known))  # type: ignore[method-assign]
    world.sink.poll_and_commit()
    assert world.sink.partition_states[ORDERS].leader_epoch == 0


# ------------------------------------------------------------ what retention has taken from Kafka


@pytest.mark.parametrize("lost", ["gap", "fail"])
@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("first", ["a cycle", "a flush"])
def test_records_that_retention_took_while_open_files_held_them_are_written(
    lost: str, restarts: bool, first: str
) -> None:
    world, reported = holding(**{"behavior.on.lost.offsets": lost}), Warnings()
    world.kafka.trim(ORDERS, start=5)
    world.add(range(10, 12))
    if restarts:
        world.start(observer=reported)
    world.sink.topics.observer = reported
    world.sink.poll() if first == "a flush" else world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)

    assert list(world.numbers().values()) == [list(range(12))]
    assert [gap for entry in world.entries() for gap in entry.gaps] == []
    assert (reported.texts, states(world), world.store.uploads) == ([], [], {})


def test_a_log_that_retention_emptied_has_its_last_records_in_the_open_files() -> None:
    world = holding()
    world.kafka.trim(ORDERS, start=10)
    world.start()
    flushed(world)

    assert list(world.numbers().values()) == [list(range(10))]


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("first", ["a cycle", "a flush"])
def test_what_open_files_hold_is_written_before_a_gap_and_the_rest_behind_it(restarts: bool, first: str) -> None:
    world, reported = holding(**GAP), Warnings()
    world.add(range(10, 20))
    world.kafka.trim(ORDERS, start=15)
    if restarts:
        world.start(observer=reported)
    world.sink.topics.observer = reported
    world.sink.poll() if first == "a flush" else world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)

    assert list(world.numbers().values()) == [list(range(10)), list(range(15, 20))]
    assert [gap for entry in world.entries() for gap in entry.gaps] == [Gap("orders", 0, 10, 14, "retention")]
    assert [str(file.reason) for entry in world.entries() for file in entry.files] == [
        "behavior.on.lost.offsets", "flush.now",
    ]  # fmt: skip
    assert reported.texts == ["records lost to retention, gap recorded: orders-0: wanted 10, available from 15"]


def test_what_open_files_hold_is_written_before_a_sink_stops_for_what_is_lost_behind() -> None:
    world = holding()
    world.add(range(10, 20))
    world.kafka.trim(ORDERS, start=15)
    world.start()
    with pytest.raises(OffsetsLost, match="orders-0: wanted 10, available from 15"):
        world.sink.poll_and_commit()

    assert list(world.numbers().values()) == [list(range(10))]
    world.settings = settings_of({**CONFIG, **GAP})
    world.start()
    flushed(world)
    assert numbers(world) == [*range(10), *range(15, 20)]


def test_what_one_topic_partition_holds_is_written_before_the_sink_stops_for_another() -> None:
    world = World(CONFIG, topics=(ORDERS, SECOND))
    world.start()
    world.add(range(10))
    world.sink.poll_and_commit()
    world.add(range(10, 20))
    world.add(range(8), tp=SECOND)
    for tp, start in ((ORDERS, 15), (SECOND, 5)):
        world.kafka.trim(tp, start=start)
    world.start()
    with pytest.raises(
        OffsetsLost, match="orders-0: wanted 10, available from 15; orders-1: wanted 0, available from 5"
    ):
        world.sink.poll_and_commit()

    assert list(world.numbers().values()) == [list(range(10))]


@pytest.mark.parametrize("lost", ["gap", "fail"])
def test_records_are_lost_where_retention_took_them_and_the_state_that_held_them_cannot_be_used(lost: str) -> None:
    world, reported = holding(**{"behavior.on.lost.offsets": lost}), Warnings()
    world.kafka.trim(ORDERS, start=5)
    (key,) = states(world)
    world.store.delete(key)
    world.start(observer=reported)
    if lost == "fail":
        with pytest.raises(OffsetsLost, match="orders-0: wanted 0, available from 5"):
            flushed(world)
    else:
        flushed(world)

    assert numbers(world) == ([] if lost == "fail" else list(range(5, 10)))
    gaps = [gap for entry in world.entries() for gap in entry.gaps]
    assert gaps == ([] if lost == "fail" else [Gap("orders", 0, 0, 4, "retention")])
    assert (
        "orders-0: open files of an earlier task are not continued, because it is gone; read again." in reported.texts
    )
