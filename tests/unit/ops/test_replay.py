"""Replayed dead letters are in exactly one object, whatever crashes; the counts add up before and after."""

from __future__ import annotations

import json

import pytest

from kafka_s3.cli.display import totals_verdict
from kafka_s3.connect.config.validate import resolved
from kafka_s3.engine.log.dead_letters import FiledLetter, LetterSelection, LetterState, letters, read_ledger
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.model.errors import CommitError, CommitUnknown, ConfigError, Fenced, RecordError, StorageUnavailable
from kafka_s3.model.files import Reason, Role, Totals
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.positions import DriverAtWork, check_idle, write_positions
from kafka_s3.ops.replay import Replay, make_replay
from kafka_s3.run.wiring.followers import tagging_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.store import ObjectStore
from kafka_s3_testing.faults import Fault, FaultyStore, Moment, any_key, failure, lost_answer
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TIME, TOLERANT
from tests.support.deaths import Died
from tests.support.memory_world import BASE, ORDERS, START_MS, World, settings_of

OTHER = TopicPartition("orders", 1)
CONFIG = {"flush.size": "3", **TOLERANT, "behavior.on.null.values": "ignore"}
FIXED = {
    **CONFIG,
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}
ALL = LetterSelection()


def key(offset: int, partition: int = 0) -> str:
    return f"topics/orders/partition={partition}/orders+{partition}+{offset:010d}.json"


def broken(config: dict[str, str] = CONFIG) -> World:
    """Ten records per partition; those at 2, 3 and 7 are not JSON, the last of partition 0 is null."""
    world = World(config, topics=(ORDERS, OTHER))
    world.start()
    for tp in (ORDERS, OTHER):
        for offset in range(10):
            good = json.dumps({"n": offset}).encode()
            value = f"text {offset}".encode() if offset in (2, 3, 7) else good
            world.kafka.add(tp, MemoryRecord(offset, START_MS, None, None if (tp, offset) == (ORDERS, 9) else value))
    work_off(world)
    return world


def work_off(world: World) -> None:
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)


def at(world: World, config: dict[str, str] = FIXED, store: ObjectStore | None = None) -> Replay:
    return make_replay(settings_of(config), store or world.store, clock_ms=lambda: world.now)


def states(world: World) -> dict[tuple[int, int], LetterState]:
    return {(f.letter.partition, f.letter.offset): f.state for f in filed(world)}


def filed(world: World) -> list[FiledLetter]:
    paths = state_paths(world.settings)
    return list(letters(read_ledger(world.store, paths), world.store, selection=ALL, missing=pytest.fail))


def totals(world: World) -> Totals:
    found = world.log().load().totals
    assert found.read == found.written + found.dead_letters + found.skipped
    return found


def test_replayed_letters_are_in_one_file_per_partition_named_by_its_first_offset_and_the_counts_move() -> None:
    world = broken()
    assert totals(world) == Totals(20, 13, 7, 0, totals(world).files, totals(world).bytes)
    before = world.objects()

    outcome, entry = at(world).run(ALL)

    assert entry is not None
    assert {name: found for name, found in world.objects().items() if name not in before} == {
        key(2): ["text 2", "text 3", "text 7"],
        key(2, 1): ["text 2", "text 3", "text 7"],
    }
    assert {name: world.objects()[name] for name in before} == before
    assert [(letter.offset, letter.message) for letter in outcome.failed] == [(9, "Skipping null value record.")]
    assert {place for place, state in states(world).items() if state is LetterState.OPEN} == {(0, 9)}
    assert (totals(world).written, totals(world).dead_letters, totals(world).read) == (19, 1, 20)
    assert totals(world).files == len(world.objects())
    assert totals(world).bytes == sum(
        len(data) for name, data in world.store.objects.items() if name in world.objects()
    )
    assert world.store.uploads == {}


def test_the_entry_says_what_it_resolves_and_reads_back_as_it_was() -> None:
    world = broken()
    _, entry = at(world).run(ALL)
    stored = world.entries()[-1]

    assert stored == entry
    assert stored.kind is EntryKind.REPLAY
    assert {tp: found.ranges for tp, found in stored.resolved.items()} == {
        ORDERS: ((2, 3), (7, 7)),
        OTHER: ((2, 3), (7, 7)),
    }
    assert {tp: (c.count, c.stages) for tp, c in stored.dead_letters.items()} == {
        ORDERS: (-3, {"VALUE_CONVERTER": -3}),
        OTHER: (-3, {"VALUE_CONVERTER": -3}),
    }
    assert not stored.progress
    assert world.frontier() == 10


def test_entries_from_before_there_were_replays_can_be_read() -> None:
    world = broken()
    for entry in world.entries():
        document = json.loads(entry.to_json())
        assert "resolved" not in document
        assert "reason" not in document
        assert read_entry(json.dumps(document).encode(), key="any") == entry


def test_what_is_resolved_is_never_replayed_again() -> None:
    world = broken()
    at(world).run(ALL)
    before, entries = world.objects(), len(world.entries())

    outcome, entry = at(world).run(ALL)

    assert (entry, outcome.done, len(outcome.failed)) == (None, (), 1)
    assert world.objects() == before
    assert len(world.entries()) == entries, "a replay without success does not even fence the driver"


def test_with_the_same_configuration_every_letter_fails_again_and_nothing_is_written() -> None:
    world = broken()
    before = dict(world.store.objects)

    outcome, entry = at(world, CONFIG).run(ALL)

    assert (entry, len(outcome.failed)) == (None, 7)
    assert {letter.stage for letter in outcome.failed} == {"VALUE_CONVERTER", "TASK_PUT"}
    assert world.store.objects == before
    assert world.store.uploads == {}


def test_a_letter_fails_again_for_its_reason_even_where_the_configuration_tolerates_no_error() -> None:
    world = broken()
    strict = {name: value for name, value in CONFIG.items() if name not in TOLERANT} | {"errors.tolerance": "none"}
    outcome = at(world, {**strict, "behavior.on.null.values": "fail", "compatibility.strict": "true"}).dry_run(ALL)

    assert len(outcome.failed) == 7


def test_a_dry_run_names_the_objects_and_touches_nothing() -> None:
    world = broken()
    before = dict(world.store.objects)
    store = FaultyStore(world.store)

    outcome = at(world, store=store).dry_run(ALL)

    assert [(file.key, file.records) for file in outcome.files] == [(key(2), 3), (key(2, 1), 3)]
    assert (len(outcome.done), len(outcome.failed)) == (6, 1)
    assert {verb for verb, _ in store.calls} == {"list", "get"}
    assert world.store.objects == before


def test_filters_and_limit_choose_what_is_replayed_the_rest_follows_later() -> None:
    world = broken()
    at(world).run(LetterSelection(partition=1, offset=3))
    assert world.objects()[key(3, 1)] == ["text 3"]
    at(world).run(LetterSelection(stage="VALUE_CONVERTER"), limit=2)
    assert world.objects()[key(2)] == ["text 2", "text 3"]
    at(world).run(LetterSelection(partition=1))

    assert world.objects()[key(2, 1)] == ["text 2", "text 7"]
    assert {place for place, state in states(world).items() if state is LetterState.OPEN} == {(0, 7), (0, 9)}
    assert (totals(world).written, totals(world).dead_letters) == (18, 2)


def test_rotation_is_off_and_every_directory_gets_one_file() -> None:
    world = World(CONFIG)
    world.start()
    for offset in range(12):
        timestamp = START_MS + offset % 3 * 3_600_000
        world.kafka.add(ORDERS, MemoryRecord(offset, timestamp, None, b"text"))
    work_off(world)
    assert totals(world).dead_letters == 12

    rotating = {"flush.size": "1", "rotate.interval.ms": "1000", "partitioner.max.open.files": "1"}
    at(world, {**FIXED, **TIME, **rotating}).run(ALL)

    assert {name: len(found) for name, found in world.objects().items()} == {
        f"topics/orders/h={10 + hour}/orders+0+{hour:010d}.json": 4 for hour in range(3)
    }


def test_keys_headers_and_timestamps_go_into_the_objects_as_from_kafka() -> None:
    more = {
        **CONFIG,
        "store.kafka.keys": "true",
        "store.kafka.headers": "true",
        "key.converter": FIXED["value.converter"],
    }
    world = World(more)
    world.start()
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, b"the key", b"no json", (("h", b"1"),)))
    work_off(world)

    at(world, {**more, **TIME, "value.converter": FIXED["value.converter"]}).run(ALL)

    (file,) = [file for file in world.entries()[-1].files if file.role is Role.VALUE]
    assert file.key == "topics/orders/h=10/orders+0+0000000000.json"
    assert (file.min_timestamp, world.store.objects[file.key]) == (START_MS, b'"no json"\n')
    assert {role: count for role, count in ((f.role, f.records) for f in world.entries()[-1].files)} == {
        Role.VALUE: 1, Role.KEY: 1, Role.HEADER: 1,
    }  # fmt: skip
    assert any(b"the key" in data for name, data in world.store.objects.items() if ".keys." in name)


def test_letters_ahead_of_the_frontier_are_replayed_and_the_sink_does_not_write_them_again() -> None:
    world = World({**CONFIG, "flush.size": "5", "tail.check.interval.ms": "0"})
    world.start()
    for offset in range(4):
        value = b"text" if offset == 1 else json.dumps({"n": offset}).encode()
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, value))
    world.sink.poll_and_commit()
    assert world.frontier() == 0
    at(world).run(ALL)

    world.start()
    world.add(range(4, 7))
    world.sink.poll_and_commit()

    assert world.objects() == {key(1): ["text"], key(0): [{"n": n} for n in (0, 2, 3, 4, 5)]}
    assert (totals(world).written, totals(world).dead_letters) == (6, 0)


def test_objects_are_tagged_as_always() -> None:
    world = broken()
    config = {**FIXED, "s3.object.tagging": "true"}
    make_replay(
        settings_of(config), world.store, clock_ms=lambda: world.now, tagging=tagging_of(settings_of(config))
    ).run(ALL)

    assert world.store.tags[key(2)] == {"startOffset": "2", "endOffset": "7", "recordCount": "3"}


# ---------------------------------------------------------------- crashes


def made_by_replay(name: str) -> bool:
    """Other objects are completed again, too, where the log is claimed."""
    return name.endswith("+0000000002.json")


def dies(verb: str, moment: Moment, nth: int = 1) -> Fault:
    def strike(_: str) -> None:
        raise Died

    return Fault(verb, strike, moment, nth, made_by_replay if verb == "complete_upload" else any_key)


def replayed(world: World) -> bool:
    return any(entry.kind is EntryKind.REPLAY for entry in world.entries())


STEPS = {"create_upload": 2, "upload_part": 2, "put_new": 2, "complete_upload": 2}


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize(("verb", "nth"), [(verb, nth) for verb, most in STEPS.items() for nth in range(1, most + 1)])
@pytest.mark.parametrize("then", ["replay", "sink"])
def test_wherever_a_replay_dies_the_next_start_leaves_every_record_in_one_object(
    verb: str, nth: int, moment: Moment, then: str
) -> None:
    world = broken()
    with pytest.raises(Died):
        at(world, store=FaultyStore(world.store, [dies(verb, moment, nth)])).run(ALL)
    if then == "sink":
        world.start()
    at(world).run(ALL)

    rows = [row for name, found in world.objects().items() for row in found]
    assert sorted(row for row in rows if isinstance(row, str)) == sorted(f"text {n}" for n in (2, 2, 3, 3, 7, 7))
    assert (totals(world).written, totals(world).dead_letters) == (19, 1)
    assert sum(entry.kind is EntryKind.REPLAY for entry in world.entries()) == 1


def test_a_crash_between_entry_and_publication_is_made_good_by_the_next_sink() -> None:
    world = broken()
    with pytest.raises(StorageUnavailable, match="is committed, but not all of its objects are visible"):
        at(world, store=FaultyStore(world.store, [failure("complete_upload", nth=None, matches=made_by_replay)])).run(
            ALL
        )
    assert replayed(world)
    assert key(2) not in world.objects()

    world.start()

    assert world.objects()[key(2)] == ["text 2", "text 3", "text 7"]


@pytest.mark.parametrize("then", ["replay", "sink"])
@pytest.mark.parametrize("extractor", ["Record", "Wallclock"])
def test_uploads_that_are_gone_are_made_again_from_the_letters(then: str, extractor: str) -> None:
    timed = {**FIXED, **TIME, "timestamp.extractor": extractor}
    world = broken()
    world.settings = settings_of(timed)
    with pytest.raises(Died):
        at(world, timed, FaultyStore(world.store, [dies("complete_upload", Moment.BEFORE)])).run(ALL)
    for upload_id, pending in world.store.uploads.items():
        world.store.abort_upload(pending.key, upload_id)

    if then == "sink":
        world.start()
    else:
        at(world, timed).run(ALL)

    assert world.objects()["topics/orders/h=10/orders+0+0000000002.json"] == ["text 2", "text 3", "text 7"]
    assert world.store.uploads == {}


def test_a_file_that_cannot_be_made_again_as_it_was_is_named() -> None:
    world = broken()
    with pytest.raises(Died):
        at(world, store=FaultyStore(world.store, [dies("complete_upload", Moment.BEFORE)])).run(ALL)
    for upload_id, pending in world.store.uploads.items():
        world.store.abort_upload(pending.key, upload_id)

    with pytest.raises(CommitError, match=r"orders\+0\+0000000002.json cannot be made again from its dead letters"):
        at(world, CONFIG).run(ALL)
    assert world.store.uploads == {}


def test_a_lost_answer_to_the_commit_is_settled() -> None:
    world = broken()
    store = FaultyStore(world.store, [lost_answer("put_new", 2)])
    _, entry = at(world, store=store).run(ALL)

    assert entry == world.entries()[-1]
    assert key(2) in world.objects()


def test_where_the_commit_is_uncertain_the_uploads_stay() -> None:
    world = broken()
    lost = [Fault("put_new", failure("put_new").strike, Moment.BEFORE, nth) for nth in (2, 3, 4)]
    with pytest.raises(CommitUnknown):
        at(world, store=FaultyStore(world.store, lost)).run(ALL)

    assert len(world.store.uploads) == 2


def test_another_driver_that_takes_over_meanwhile_fences_the_replay_which_leaves_nothing_behind() -> None:
    world = broken()

    def other_driver(_: str) -> None:
        world.start()

    store = FaultyStore(world.store, [Fault("create_upload", other_driver)])
    with pytest.raises(Fenced):
        at(world, store=store).run(ALL)

    assert world.store.uploads == {}
    assert key(2) not in world.objects()
    assert LetterState.REPLAYED not in states(world).values()


def test_a_replay_fences_the_running_sink() -> None:
    world = broken()
    at(world).run(ALL)
    world.add(range(10, 13))

    with pytest.raises(Fenced):
        world.sink.poll_and_commit()


def test_letters_that_come_to_light_with_the_claim_are_replayed_too() -> None:
    world = World(CONFIG)
    world.start([failure("complete_upload", nth=None)])
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, b"text 0"))
    world.add([1, 2, 3])
    world.sink.poll_and_commit()
    assert world.objects() == {}

    outcome, _ = at(world).run(ALL)

    assert [letter.offset for letter in outcome.done] == [0]
    assert world.objects() == {key(0): ["text 0"], key(1): [{"n": 1}, {"n": 2}, {"n": 3}]}


def test_a_letter_whose_record_was_read_again_and_failed_again_is_replayed_once() -> None:
    world = broken()
    write_positions(world.log(), world.kafka, {ORDERS: 0})
    world.start()
    work_off(world)

    outcome, _ = at(world).run(LetterSelection(partition=0))

    assert [letter.offset for letter in outcome.done] == [2, 3, 7]
    assert totals(world).dead_letters == 7 + 4 - 3


# ---------------------------------------------------------------- resolve


def test_resolved_letters_are_skipped_records_and_are_never_replayed() -> None:
    world = broken()
    entry = at(world).resolve(LetterSelection(partition=0), reason="test data")

    assert entry is not None
    assert (entry.kind, entry.reason, entry.files, entry.skipped) == (EntryKind.REPLAY, "test data", (), {ORDERS: 4})
    assert entry == world.entries()[-1]
    assert (totals(world).dead_letters, totals(world).skipped, totals(world).written) == (3, 4, 13)
    at(world).run(ALL)
    assert key(2) not in world.objects()
    assert [(f.state, f.reason, f.settled) for f in filed(world) if f.letter.partition == 0] == [
        (LetterState.RESOLVED, "test data", entry.version)
    ] * 4
    assert at(world).resolve(ALL, reason="again") is None


def test_letters_that_come_to_light_with_the_claim_are_not_resolved_unseen() -> None:
    world = broken()
    world.start([failure("complete_upload", nth=None, matches=lambda name: "dead-letters" in name)])
    world.kafka.add(ORDERS, MemoryRecord(10, START_MS, None, b"text 10"))
    world.add([11, 12, 13])
    world.sink.poll_and_commit()

    entry = at(world).resolve(ALL, reason="old")

    assert entry is not None
    assert entry.totals.dead_letters == -7
    assert states(world)[0, 10] is LetterState.OPEN


def test_totals_add_up_over_a_checkpoint_that_falls_on_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_s3.engine.log.log.CHECKPOINT_EVERY", 20)
    world = broken({**CONFIG, "flush.size": "1"})
    for _ in range(18 - len(world.entries())):
        world.start()
    _, entry = at(world).run(ALL)

    assert entry is not None
    assert entry.version == 19
    assert any("checkpoints/" in name for name in world.store.objects)
    assert (totals(world).written, totals(world).dead_letters, totals(world).read) == (19, 1, 20)
    world.start()
    assert (totals(world).written, totals(world).dead_letters) == (19, 1)
    assert "read = written + dead letters + skipped" in totals_verdict(world.log().load())


# ---------------------------------------------------------------- guards


def test_a_log_that_a_driver_has_just_written_is_refused_one_that_was_written_by_hand_is_not() -> None:
    world = broken()
    log = world.log()
    log.load()
    with pytest.raises(DriverAtWork, match="repeat with --force"):
        check_idle(log, now_ms=world.now + 119_000, within_ms=120_000)
    check_idle(log, now_ms=world.now + 120_000, within_ms=120_000)

    at(world).run(LetterSelection(partition=0))
    log.load()
    check_idle(log, now_ms=world.now, within_ms=120_000)


def test_block_gzip_is_refused_with_the_way_out() -> None:
    config = {
        "name": "b", "connector.class": "com.spredfast.kafka.connect.s3.sink.S3SinkConnector", "topics": "orders", "s3.bucket": "bucket",
        "s3.prefix": "p", "local.buffer.dir": "/tmp", "kafka.bootstrap.servers": "memory:9092",
    }  # fmt: skip
    from kafka_s3.connect.config.validate import validate

    world = World(CONFIG)
    replay = make_replay(resolved(validate(config).usable()), world.store, clock_ms=lambda: world.now)
    with pytest.raises(ConfigError, match="dead-letters export"):
        replay.dry_run(ALL)


# ---------------------------------------------------------------- the ceiling

CEILING = {**CONFIG, "flush.size": "1000", "errors.deadletter.max.ratio": "0.5"}


def flooded(bad: int, of: int, config: dict[str, str] = CEILING) -> World:
    world = World(config)
    world.start()
    for offset in range(of):
        value = b"text" if offset < bad else b'{"n": 1}'
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, value))
    return world


def test_above_the_ceiling_the_sink_stops_with_numbers_reason_and_way_out_and_leaves_nothing() -> None:
    world = flooded(51, 100)
    before, entries = dict(world.store.objects), len(world.entries())

    with pytest.raises(RecordError) as stopped:
        work_off(world)

    text = str(stopped.value)
    assert "51 of 100 records" in text
    assert "errors.deadletter.max.ratio is 0.5" in text
    assert (
        "51 times org.apache.kafka.connect.errors.DataException, for example orders-0 offset 0, stage VALUE_CONVERTER"
        in text
    )
    assert "raise errors.deadletter.max.ratio" in text
    assert (dict(world.store.objects), len(world.entries()), world.store.uploads) == (before, entries, {})


def test_above_the_ceiling_letters_that_were_committed_before_stay_as_they_are() -> None:
    world = flooded(99, 99)  # a batch that is small enough
    work_off(world)
    [key] = [file.key for entry in world.entries() for file in entry.files if file.role is Role.DEAD_LETTER]
    before = world.store.get(key)
    write_positions(world.log(), world.kafka, {ORDERS: 0})
    world.start()
    for offset in range(99, 120):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b"text"))
    with pytest.raises(RecordError):
        work_off(world)

    assert world.store.get(key) == before


@pytest.mark.parametrize(("bad", "of"), [(50, 100), (99, 99), (0, 200)])
def test_up_to_the_ceiling_and_in_small_batches_the_sink_goes_on(bad: int, of: int) -> None:
    world = flooded(bad, of)
    work_off(world)

    assert (totals(world).dead_letters, totals(world).read) == (bad, of)


def test_without_a_ceiling_every_record_may_be_a_dead_letter() -> None:
    world = flooded(100, 100, {**CEILING, "errors.deadletter.max.ratio": "1"})
    work_off(world)

    assert totals(world).dead_letters == 100


@pytest.mark.parametrize("ratio", ["", "half", "1.1", "-0.1", "nan", "inf", "1e-3", "0,5"])
def test_a_ratio_is_a_decimal_number_from_0_to_1(ratio: str) -> None:
    from kafka_s3.connect.config.validate import validate

    problems = validate({**BASE, **CONFIG, "errors.deadletter.max.ratio": ratio}).problems
    assert [problem.key for problem in problems] == ["errors.deadletter.max.ratio"]


@pytest.mark.parametrize("ratio", ["0", "1", "0.5", ".25", "1.0"])
def test_a_good_ratio_is_taken(ratio: str) -> None:
    assert settings_of({**CONFIG, "errors.deadletter.max.ratio": ratio}).text("errors.deadletter.max.ratio") == ratio


def test_an_entry_is_a_commit_entry_with_negative_counts_and_read_zero() -> None:
    world = broken()
    _, entry = at(world).run(ALL)

    assert isinstance(entry, CommitEntry)
    assert (entry.totals.read, entry.totals.written, entry.totals.dead_letters, entry.totals.skipped) == (0, 6, -6, 0)
