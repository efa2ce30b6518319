"""Topics and partitions come, go and lose records while the sink runs; no record is skipped in silence."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import pytest

from kafka_s3.engine.log.entry import Progress
from kafka_s3.engine.loop.topics import names_like
from kafka_s3.model.errors import OffsetsLost, SourceError, TopicMissing, TopicRecreated
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from kafka_s3.model.tasks import Assignment, TaskReport
from kafka_s3.run.wiring.running import run_until_drained
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World, settings_of, world_of
from tests.support.observers import Warnings

SECOND = TopicPartition("orders", 1)
RESET = "consumer.override.auto.offset.reset"


def key(offset: int, tp: TopicPartition = ORDERS) -> str:
    return f"topics/{tp.topic}/partition={tp.partition}/{tp.topic}+{tp.partition}+{offset:010d}.json"


def cycle_later(world: World) -> None:
    world.now += 60_000
    assert world.sink.poll_and_commit()


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_new_partition_is_read_from_its_first_record(reset: str) -> None:
    world = world_of(2, **{RESET: reset})
    world.start()
    world.add(range(3, 5), tp=SECOND)
    world.sink.poll_and_commit()
    assert world.numbers() == {}  # not looked up yet
    cycle_later(world)

    assert world.numbers() == {key(3, SECOND): [3, 4]}


def test_new_topics_are_found_by_the_regular_expression() -> None:
    world = world_of(2, **{"topics": "", "topics.regex": "ord.*"})
    world.start()
    for name in ("orders-new", "other", "my-orders"):
        world.add(range(2), tp=TopicPartition(name, 0))
    cycle_later(world)

    assert world.numbers() == {key(0, TopicPartition("orders-new", 0)): [0, 1]}


def test_a_pattern_selects_topics_as_java_does() -> None:
    world = world_of(2, **{"topics": "", "topics.regex": r"ord[a-z&&[^x]]+(?<suffix>\Q.v1\E)"})
    world.start()
    for name in ("orders.v1", "ordx.v1", "orders-v1"):
        world.add(range(2), tp=TopicPartition(name, 0))
    cycle_later(world)

    assert world.numbers() == {key(0, TopicPartition("orders.v1", 0)): [0, 1]}


def test_a_topic_that_does_not_exist_yet_is_picked_up_when_it_does() -> None:
    world = World({"flush.size": "2"}, topics=())
    world.start()
    cycle_later(world)
    world.add(range(2))
    cycle_later(world)

    assert world.numbers() == {key(0): [0, 1]}


@pytest.mark.parametrize(("reset", "first"), [("earliest", 3), ("latest", 7)])
def test_a_fresh_sink_begins_where_the_reset_policy_says_and_a_restart_goes_on(reset: str, first: int) -> None:
    world = world_of(2, **{RESET: reset})
    world.add(range(3, 7))
    world.start()
    world.add(range(7, 9))
    world.start()
    world.add(range(9, 11))
    world.sink.poll_and_commit()

    assert world.numbers() == {key(offset): [offset, offset + 1] for offset in range(first, 11, 2)}


def test_without_a_reset_policy_a_fresh_sink_stops_and_says_so() -> None:
    world = world_of(2, **{RESET: "none"})

    with pytest.raises(OffsetsLost, match=r"no position for orders-0.*auto\.offset\.reset to earliest or latest"):
        world.start()


def test_records_lost_to_retention_stop_the_sink_with_their_offsets() -> None:
    world = world_of(2)
    world.start()
    world.add(range(8))
    world.kafka.trim(ORDERS, start=5)

    with pytest.raises(OffsetsLost, match=r"orders-0: wanted 0, available from 5.*behavior\.on\.lost\.offsets=gap"):
        world.sink.poll_and_commit()
    assert world.numbers() == {}


def test_records_lost_to_retention_are_a_gap_where_asked() -> None:
    world = world_of(2, **{"behavior.on.lost.offsets": "gap"})
    world.start()
    world.add(range(9))
    world.kafka.trim(ORDERS, start=5)
    world.sink.poll_and_commit()
    world.sink.poll_and_commit()

    assert world.numbers() == {key(5): [5, 6], key(7): [7, 8]}
    assert [gap for entry in world.entries() for gap in entry.gaps] == [Gap("orders", 0, 0, 4, "retention")]


@pytest.mark.parametrize("restarts", [True, False])
def test_dead_letters_beyond_a_gap_stay_recorded_and_those_within_are_not_lost(restarts: bool) -> None:
    config = {**TOLERANT, "flush.size": "10", "behavior.on.lost.offsets": "gap", "tail.state.enable": "false"}
    world = world_of(2, **config)
    world.start()
    for offset in range(12):
        world.kafka.add(
            ORDERS, MemoryRecord(offset, START_MS, None, b"{" if offset in (3, 8) else b'{"n":%d}' % offset)
        )
    world.sink.poll_and_commit()
    world.sink.drain()
    assert world.log().load().progress[ORDERS].recorded == OffsetSet.of([])  # 0 to 11 filled one file
    for offset in range(12, 20):
        world.kafka.add(
            ORDERS, MemoryRecord(offset, START_MS, None, b"{" if offset in (13, 18) else b'{"n":%d}' % offset)
        )
    world.sink.poll()
    world.sink.drain()
    assert world.log().load().progress[ORDERS].recorded == OffsetSet.of([13, 18])
    world.kafka.trim(ORDERS, start=16)
    world.add(range(20, 30))
    if restarts:
        world.start()
    world.sink.poll_and_commit()

    moved = [entry.progress[ORDERS] for entry in world.entries() if entry.gaps]
    assert moved == [Progress(16, 12, OffsetSet.of([18]), 0)]
    assert world.numbers()[key(16)] == [16, 17, *range(19, 27)]
    letters = [file for entry in world.entries() for file in entry.files if file.role is Role.DEAD_LETTER]
    assert [(file.first_offset, file.last_offset, file.records) for file in letters] == [(3, 8, 2), (13, 18, 2)]
    gaps = [gap for entry in world.entries() for gap in entry.gaps]
    assert gaps == [Gap("orders", 0, 12, 12, "retention"), Gap("orders", 0, 14, 15, "retention")]


def test_missing_offsets_in_the_log_are_no_gap() -> None:
    world = world_of(2)
    world.start()
    world.add([2, 5, 9, 14])
    world.sink.poll_and_commit()

    assert world.numbers() == {key(2): [2, 5], key(9): [9, 14]}
    assert not any(entry.gaps for entry in world.entries())


def truncated(lost: str) -> World:
    world = world_of(2, **{"behavior.on.lost.offsets": lost})
    world.start()
    world.add(range(4))
    world.sink.poll_and_commit()
    del world.kafka.records[ORDERS][2:]
    return world


def test_a_truncated_partition_stops_the_sink_with_the_offsets() -> None:
    with pytest.raises(OffsetsLost, match="orders-0 ends at 2, but 4 is wanted next"):
        truncated("fail").sink.poll_and_commit()


def test_a_truncated_partition_goes_on_at_its_end_where_asked() -> None:
    world = truncated("gap")
    cycle_later(world)
    entries = len(world.entries())
    cycle_later(world)
    assert len(world.entries()) == entries
    world.add([2, 3])
    cycle_later(world)

    assert world.frontier() == 4
    assert [file.first_offset for entry in world.entries() for file in entry.files] == [0, 2, 2]


def recreated(lost: str) -> World:
    world = World({"flush.size": "2", "behavior.on.lost.offsets": lost}, topics=(ORDERS, SECOND))
    world.start()
    world.add(range(4))
    world.add(range(4), tp=SECOND)
    world.sink.poll_and_commit()
    world.kafka.records[ORDERS].clear()
    del world.kafka.records[SECOND], world.kafka.begins[SECOND]
    world.kafka.ids["orders"] = "another"
    return world


def test_a_topic_that_was_created_again_stops_the_sink() -> None:
    with pytest.raises(TopicRecreated, match="topic orders was deleted and created again"):
        cycle_later(recreated("fail"))


@pytest.mark.parametrize("restarts", [True, False])
def test_a_topic_that_was_created_again_is_read_from_its_first_record_where_asked(restarts: bool) -> None:
    world = recreated("gap")
    world.add([0, 1, 2])
    if restarts:
        world.start()
    cycle_later(world)
    cycle_later(world)

    assert world.frontier() == 2
    assert [file.first_offset for entry in world.entries() for file in entry.files if file.partition == 0] == [0, 2, 0]


def test_a_partition_of_the_topic_before_begins_at_zero_when_the_new_topic_gets_it() -> None:
    world = recreated("gap")
    cycle_later(world)
    world.add([0, 1], tp=SECOND)
    cycle_later(world)

    assert world.frontier(SECOND) == 2
    assert [file.first_offset for entry in world.entries() for file in entry.files if file.partition == 1] == [0, 2, 0]


@pytest.mark.parametrize("lost", ["gap", "fail"])
def test_a_topic_that_was_created_again_and_outgrew_the_old_one_is_seen_before_it_is_read(lost: str) -> None:
    world = world_of(2, **{"behavior.on.lost.offsets": lost})
    world.start()
    world.add(range(4))
    world.sink.poll_and_commit()
    world.kafka.records[ORDERS].clear()
    world.kafka.ids["orders"] = "another"
    world.add(range(6))  # the next refresh is not due yet, and the frontier 4 is well within
    if lost == "fail":
        with pytest.raises(TopicRecreated):
            world.sink.poll_and_commit()
    else:
        world.sink.poll_and_commit()
        world.sink.poll_and_commit()

    found = [file.first_offset for entry in world.entries() for file in entry.files if file.partition == 0]
    assert found == ([0, 2] if lost == "fail" else [0, 2, 0, 2, 4])


@pytest.mark.parametrize("lost", ["gap", "fail"])
def test_a_topic_that_was_created_again_and_is_shorter_is_not_taken_for_a_truncated_one(lost: str) -> None:
    world = recreated(lost)
    world.kafka.create(SECOND)
    world.add(range(3))
    if lost == "fail":
        with pytest.raises(TopicRecreated):
            world.sink.poll_and_commit()
    else:
        world.sink.poll_and_commit()
        assert world.frontier() == 2
    assert not any(entry.gaps for entry in world.entries())


def test_a_topic_that_does_not_exist_is_warned_of_once_and_is_open_until_it_does() -> None:
    other = TopicPartition("other", 0)
    world = World({"flush.size": "2", "topics": "orders,other"})
    world.add(range(2))
    world.start()
    seen = Warnings()
    world.sink.topics.observer = seen
    gone = "topic other is not in Kafka, or may not be described"
    assert world.sink.topics.open_problems == (gone,)
    cycle_later(world)
    assert (world.sink.topics.open_problems, seen.texts) == ((gone,), [])  # it was reported at the start
    world.kafka.create(other)
    cycle_later(world)
    assert world.sink.topics.open_problems == ()
    del world.kafka.records[other], world.kafka.begins[other]
    cycle_later(world)
    assert world.sink.topics.open_problems == (gone,)


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("odrers", ["orders"]),
        ("ORDERS", ["orders", "orders-eu"]),
        ("order", ["orders", "orders-eu"]),
        ("orderseu", ["orders-eu", "orders"]),
        ("prod.orders", ["orders"]),
        ("invoices", []),
    ],
)
def test_names_like_a_misspelt_one_are_found_nearest_first(name: str, like: list[str]) -> None:
    assert names_like(name, ["orders", "payments", "orders-eu"]) == like


def test_a_run_to_the_end_fails_for_a_topic_that_never_was_there_when_the_others_are_read() -> None:
    world = World({"flush.size": "2", "topics": "orders,ordres"})
    world.add(range(2))
    with pytest.raises(
        TopicMissing, match=r"Topic ordres is not in Kafka.*; names like it: orders\. Correct the key"
    ) as raised:
        run_until_drained(world.start(), world.settings, Event())
    assert world.numbers() == {key(0): [0, 1]}
    assert raised.value.exit_code == 4


def test_a_run_that_is_asked_to_stop_does_not_fail_for_a_topic_that_never_was_there() -> None:
    world, stop = World({"flush.size": "2", "topics": "ordres"}), Event()
    stop.set()
    run_until_drained(world.start(), world.settings, stop)


def test_a_run_to_the_end_waits_for_a_topic_that_was_there_before() -> None:
    """Also one without a record, and in a later run."""
    world = World({"flush.size": "2"})
    run_until_drained(world.start(), world.settings, Event())
    del world.kafka.records[ORDERS], world.kafka.begins[ORDERS]
    run_until_drained(world.start(), world.settings, Event())
    assert world.sink.topics.open_problems == ("topic orders is not in Kafka, or may not be described",)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_topic_that_is_awaited_under_any_reset_policy_was_not_there(reset: str) -> None:
    """Under latest the log notes that it was looked for in vain."""
    world = World({"flush.size": "2", "topics": "ordres", RESET: reset})
    for _ in range(2):
        with pytest.raises(TopicMissing):
            run_until_drained(world.start(), world.settings, Event())


def test_a_run_to_the_end_waits_for_a_pattern_that_fits_no_topic_yet() -> None:
    world = World({"flush.size": "2", "topics.regex": "click.*", "topics": ""})
    run_until_drained(world.start(), world.settings, Event())


def test_a_pattern_that_fits_no_topic_is_reported() -> None:
    world = World({"flush.size": "2", "topics.regex": "click.*", "topics": ""})
    world.start()
    assert world.sink.topics.open_problems == ("no topic has a name that topics.regex=click.* fits",)


def test_the_lag_of_a_partition_that_nobody_leads_is_unknown_and_not_zero() -> None:
    world = World({"flush.size": "2"}, topics=(ORDERS, SECOND))
    world.add(range(3))
    world.start()
    world.kafka.leaderless.add(SECOND)
    world.sink.poll()
    assert world.sink.topics.lag() == {ORDERS: 3}
    assert world.sink.topics.open_problems == ("no broker answers for orders-1",)


def test_a_deleted_topic_is_left_out_with_a_warning_and_the_others_go_on() -> None:
    other = TopicPartition("other", 0)
    world = World({"flush.size": "2", "topics": "orders,other"}, topics=(ORDERS, other))
    world.start()
    seen = Warnings()
    world.sink.topics.observer = seen
    world.add(range(3))
    world.sink.poll_and_commit()
    del world.kafka.records[ORDERS], world.kafka.begins[ORDERS]
    world.add(range(2), tp=other)
    cycle_later(world)

    assert world.numbers() == {key(0): [0, 1], key(0, other): [0, 1]}
    assert seen.texts == ["orders-0 is not in Kafka any more: left out. The sink is at 2, 1 offsets before its end."]
    world.add(range(4))  # it was only the brokers that did not know it for a while
    cycle_later(world)
    assert world.frontier() == 4


@pytest.mark.parametrize("how", ["deleted", "leaderless"])
def test_a_topic_that_nobody_leads_is_left_out_and_reported_once_and_the_others_go_on(how: str) -> None:
    other = TopicPartition("other", 0)
    world = World({"flush.size": "2", "topics": "orders,other"}, topics=(ORDERS, other))
    world.start()
    seen = Warnings()
    world.sink.topics.observer = seen
    world.add(range(2))
    world.add(range(4), tp=other)
    records = world.kafka.records[ORDERS]
    if how == "deleted":
        del world.kafka.records[ORDERS]
    else:
        world.kafka.leaderless.add(ORDERS)
    for _ in range(3):
        assert world.sink.poll_and_commit()  # no refresh is due

    assert sorted(world.numbers()) == [key(0, other), key(2, other)]
    assert [text for text in seen.texts if "orders-0" in text] == seen.texts
    assert len(seen.texts) == 1
    world.kafka.records[ORDERS] = records
    world.kafka.leaderless.clear()
    assert world.sink.poll_and_commit()
    assert world.numbers()[key(0)] == [0, 1]


def test_a_topic_that_nobody_leads_at_the_first_start_gets_its_position_when_someone_does() -> None:
    other = TopicPartition("other", 0)
    world = World({"flush.size": "2", "topics": "orders,other"}, topics=(ORDERS, other))
    world.kafka.leaderless.add(ORDERS)
    world.add(range(2))
    world.add(range(2), tp=other)
    world.start()
    assert world.sink.poll_and_commit()
    assert sorted(world.numbers()) == [key(0, other)]
    world.kafka.leaderless.clear()
    cycle_later(world)

    assert sorted(world.numbers()) == [key(0), key(0, other)]


@pytest.mark.parametrize("regex", [True, False])
def test_what_appears_while_the_sink_is_down_is_read_from_its_first_record(regex: bool) -> None:
    names = {"topics": "", "topics.regex": "orders.*"} if regex else {"topics": "orders,orders-new"}
    world = world_of(2, **{RESET: "latest", **names})
    world.start()
    new = TopicPartition("orders-new", 0)
    world.add(range(5), tp=SECOND)
    world.add(range(3), tp=new)
    world.start()
    world.sink.poll_and_commit()

    assert world.frontier(SECOND) == 4
    assert world.numbers() == {key(0, SECOND): [0, 1], key(2, SECOND): [2, 3], key(0, new): [0, 1]}


def test_a_topic_that_is_added_to_the_list_follows_the_reset_policy() -> None:
    world = world_of(2, **{RESET: "latest"})
    world.start()
    world.add(range(3), tp=TopicPartition("old", 0))
    world.settings = settings_of({"flush.size": "2", RESET: "latest", "topics": "orders,old"})
    world.start()

    assert world.frontier(TopicPartition("old", 0)) == 3


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("lost", ["fail", "gap"])
def test_a_log_that_is_truncated_above_the_position_is_believed_at_once(lost: str, restarts: bool) -> None:
    world = world_of(10, **{"behavior.on.lost.offsets": lost, "tail.check.interval.ms": "0"})
    world.start()
    world.add(range(14))
    world.sink.poll_and_commit()
    assert (world.frontier(), world.sink.partition_states[ORDERS].head) == (10, 14)
    del world.kafka.records[ORDERS][12:]
    if restarts:
        world.start()
    assert world.sink.poll_and_commit()
    assert world.sink.topics.lag() == {ORDERS: 2}
    for offset in range(12, 20):  # other records now
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b'{"n":%d}' % (100 + offset)))
    assert world.sink.poll_and_commit()

    assert world.numbers()[key(10)] == [10, 11, *range(112, 120)]
    assert not [gap for entry in world.entries() for gap in entry.gaps]
    assert not [key for key in world.store.objects if "/open/" in key]


@pytest.mark.parametrize("restarts", [True, False])
def test_dead_letters_beyond_a_truncation_are_of_records_that_are_gone(restarts: bool) -> None:
    world = world_of(10, **{**TOLERANT, "tail.check.interval.ms": "0"})
    world.start()
    world.add(range(3))
    for offset in (3, 5):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b"{"))
    world.sink.poll_and_commit()
    assert world.log().load().progress[ORDERS].recorded == OffsetSet.of([3, 5])
    del world.kafka.records[ORDERS][4:]
    world.sink.poll_and_commit()
    assert world.log().load().progress[ORDERS].recorded == OffsetSet.of([3])
    if restarts:
        world.start()
    world.add(range(4, 12))
    world.sink.poll_and_commit()

    assert world.numbers() == {key(0): [0, 1, 2, *range(4, 11)]}


def test_a_log_that_is_truncated_between_look_and_read_is_looked_at_again() -> None:
    world = world_of(2)
    world.start()
    world.add(range(4))
    read, calls = world.kafka.read, []

    def first_truncated(assignments: Sequence[Assignment]) -> list[TaskReport]:
        calls.append(assignments)
        if len(calls) == 1:
            del world.kafka.records[ORDERS][2:]
            raise OffsetsLost("offset 3 is out of range")
        return read(assignments)

    world.kafka.read = first_truncated  # type: ignore[method-assign]
    assert not world.sink.poll_and_commit()
    assert world.sink.poll_and_commit()

    assert world.numbers() == {key(0): [0, 1]}


def test_another_cluster_is_refused_by_name() -> None:
    world = world_of(2)
    world.start()
    world.kafka.cluster_id = lambda: "elsewhere"  # type: ignore[method-assign]

    with pytest.raises(SourceError, match=r"orders was fed by Kafka cluster memory, but this is cluster elsewhere"):
        world.start()


# ------------------------------------------------------------ a log that was cut and has grown again


def regrown(at: int, until: int, **more: str) -> World:
    """Eight records were written; then a leader without those from `at` on took over, and others came up to `until`."""
    world = world_of(2, **more)
    world.start()
    world.add(range(8))
    world.sink.poll_and_commit()
    world.kafka.cut(ORDERS, at=at)
    for offset in range(at, until):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b'{"n":%d}' % (100 + offset)))
    return world


@pytest.mark.parametrize("restarts", [True, False])
def test_a_log_that_was_cut_below_the_position_and_has_grown_past_it_stops_the_sink(restarts: bool) -> None:
    world = regrown(5, 12)
    expected = (
        r"orders-0 was truncated at 5, before 8, which is wanted next, and has grown again to 12.*lost\.offsets=gap"
    )
    if restarts:
        world.start()
    with pytest.raises(OffsetsLost, match=expected):
        world.sink.poll_and_commit()
    assert world.frontier() == 8


@pytest.mark.parametrize("restarts", [True, False])
def test_a_log_that_was_cut_below_the_position_and_has_grown_past_it_is_written_from_there_where_asked(
    restarts: bool,
) -> None:
    world = regrown(5, 12, **{"behavior.on.lost.offsets": "gap"})
    if restarts:
        world.start()
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    found = world.numbers()
    assert [found[key(offset)] for offset in (5, 7, 9, 11)] == [[105, 106], [107, 108], [109, 110], [111]]
    world.sink.poll_and_commit()
    assert world.frontier() == 12


def test_a_log_that_was_cut_above_the_position_and_has_grown_again_is_believed() -> None:
    world = world_of(10)
    world.start()
    world.add(range(8))
    world.sink.poll_and_commit()
    world.kafka.cut(ORDERS, at=5)
    for offset in range(5, 12):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b'{"n":%d}' % (100 + offset)))
    world.sink.poll_and_commit()
    assert world.numbers() == {key(0): [0, 1, 2, 3, 4, *range(105, 110)]}


def test_another_leader_with_the_same_log_changes_nothing() -> None:
    world = regrown(8, 10)
    world.sink.poll_and_commit()
    world.start()
    world.sink.poll_and_commit()
    assert sorted(world.numbers()) == [key(offset) for offset in range(0, 10, 2)]


def test_damage_in_kafka_holds_its_topic_partition_alone_and_is_looked_at_again() -> None:
    world = World({"flush.size": "2"}, topics=(ORDERS, SECOND))
    world.start()
    world.sink.topics.observer = warnings = Warnings()
    world.kafka.damaged[ORDERS] = 5
    for tp in (ORDERS, SECOND):
        world.add(range(8), tp=tp)
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)

    assert (world.frontier(), world.frontier(SECOND)) == (5, 8)
    assert warnings.texts == [
        "orders-0 is damaged at 5. Until then orders-0 is read up to there, and the others go on."
    ]
    assert world.sink.topics.open_problems == ("what Kafka holds of orders-0 from offset 5 on is damaged",)
    cycle_later(world)
    assert len(warnings.texts) == 2
    del world.kafka.damaged[ORDERS]
    cycle_later(world)
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert world.frontier() == 8
