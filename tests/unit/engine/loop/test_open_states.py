"""Open files that cannot go on are dropped with one line that says why; nothing of them is left, and no record is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.engine.open_files.states import MAGIC, HintedState, HintUnusable, OpenFileStates
from kafka_s3.model.errors import Fenced, StorageError, StorageUnavailable
from kafka_s3.model.files import Reason
from kafka_s3.model.tasks import OpenState, Tail
from kafka_s3.ops.positions import write_positions
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import Fault, Moment, raising
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import STATE, TOLERANT
from tests.support.deaths import Died, strikes
from tests.support.memory_world import ORDERS, START_MS, World, settings_of
from tests.support.observers import Warnings
from tests.support.open_files import CONFIG, OPEN, states, world_with_open_files

HINT = f"{STATE}orders/open-files.json"


def damaged(world: World) -> None:
    (key,) = states(world)
    content = world.store.get(key)
    world.store.put(key, content[:60] + bytes([content[60] ^ 1]) + content[61:])


def of_another_form(world: World) -> None:
    (key,) = states(world)
    world.store.put(key, world.store.get(key).replace(MAGIC, b"KS3OPEN0"))


def missing(world: World) -> None:
    (key,) = states(world)
    world.store.delete(key)


def without_its_upload(world: World) -> None:
    for number, upload in world.store.uploads.items():
        world.store.abort_upload(upload.key, number)


def of_another_configuration(world: World) -> None:
    world.settings = settings_of({**CONFIG, "s3.part.size": "6000000"})


def of_another_epoch(world: World) -> None:
    """The hint names a state as one of another driver than the state itself does."""
    noted = json.loads(world.store.get(HINT))
    noted["open"][0]["state"]["epoch"] += 1
    world.store.put(HINT, json.dumps(noted).encode())


def of_another_topic(world: World) -> None:
    noted = json.loads(world.store.get(HINT))
    noted["open"][0]["topic_id"] = "another"
    world.store.put(HINT, json.dumps(noted).encode())


def overtaken(world: World) -> None:
    """Another driver, whose hint was lost, has written what was open."""
    hint, open_files = world.store.get(HINT), {key: world.store.get(key) for key in states(world)}
    world.settings = settings_of({**CONFIG, "tail.state.enable": "false"})
    world.start().poll()
    world.sink.drain(close=Reason.FLUSH_NOW)
    world.settings = settings_of(CONFIG)
    for key, content in {HINT: hint, **open_files}.items():
        world.store.put(key, content)


WHY: dict[Callable[[World], None], str] = {
    damaged: "it is damaged",
    of_another_form: "it is not a state of open files, or one of another version",
    missing: "it is gone",
    without_its_upload: "the upload of topics/orders/partition=0/orders+0+0000000000.json is gone",
    of_another_configuration: "they are of another configuration or version",
    of_another_epoch: "it is of another epoch",
    of_another_topic: "they are of another topic of that name",
    overtaken: "they begin at offset 0, and the sink is at 4",
}


@pytest.mark.parametrize("happened", WHY, ids=lambda happened: happened.__name__)
def test_a_new_driver_drops_open_files_that_do_not_hold_and_says_why(happened: Callable[[World], None]) -> None:
    world = world_with_open_files()
    happened(world)
    reported = Warnings()
    world.start(observer=reported)
    world.add(range(4, 9))
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)

    assert reported.texts == [
        f"orders-0: open files of an earlier task are not continued, because {WHY[happened]}; read again."
    ]
    assert sorted(number for found in world.numbers().values() for number in found) == list(range(9))
    assert not states(world)
    if happened not in {damaged, of_another_form, missing}:  # of what cannot be read the uploads are swept
        assert not world.store.uploads


def test_open_files_without_a_dead_letter_are_read_again_where_a_position_was_set_ahead_and_back() -> None:
    world = World({**CONFIG, **TOLERANT})
    world.start()
    world.add(range(2))
    world.kafka.add(ORDERS, MemoryRecord(2, START_MS, None, b"{oops"))
    world.add([3])
    world.sink.poll_and_commit()
    assert world.entries()[-1].progress[ORDERS].recorded.ranges == ((2, 2),)
    for offset in (3, 0):
        write_positions(world.log(), world.kafka, {ORDERS: offset})
    reported = Warnings()
    world.start(observer=reported)
    world.add([4])
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert list(world.numbers().values()) == [[0, 1, 3, 4]]
    assert world.frontier() == 5
    assert (
        "because the position was set since, and dead letters that they do without are tried again" in reported.texts[0]
    )


def test_a_driver_that_was_not_stopped_goes_on_where_the_last_task_stopped() -> None:
    world = world_with_open_files()
    reported = Warnings()
    world.start(observer=reported)
    world.add(range(4, 9))
    world.sink.poll_and_commit()

    assert world.sink.partition_states[next(iter(world.sink.partition_states))].tail.records == 9
    assert not reported.texts


def test_without_the_right_to_delete_nothing_is_kept_and_nothing_is_lost() -> None:
    world, reported = World(CONFIG), Warnings()
    denied = StorageError("Deleting it failed with AccessDenied (403).")
    world.start([Fault("delete", raising(denied), nth=None)], reported)
    for first in (0, 4, 8):
        world.add(range(first, first + 4))
        world.now += 60_000
        world.sink.poll_and_commit()

    assert reported.texts == [
        "Open files are not kept, and each poll reads their records again: Deleting it failed with AccessDenied (403). "
        f"Grant s3:DeleteObject on {OPEN}*, or set tail.state.enable=false."
    ]
    assert not states(world)
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert list(world.numbers().values()) == [list(range(12))]


@pytest.mark.parametrize("moment", list(Moment))
def test_a_driver_that_dies_when_it_notes_open_files_leaves_them_to_the_next(moment: Moment) -> None:
    world = world_with_open_files()
    world.start([strikes("put", "open-files.json", moment)])
    world.add(range(4, 9))
    with pytest.raises(Died):
        world.sink.poll_and_commit()
    assert len(states(world)) == 2
    reported = Warnings()
    world.start(observer=reported)
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)

    assert not reported.texts
    assert list(world.numbers().values()) == [list(range(9))]
    assert not states(world)
    assert not world.store.uploads


def test_a_driver_that_was_overtaken_learns_it_with_its_next_open_files_and_harms_nothing() -> None:
    world = world_with_open_files()
    overtaken, reported = world.sink, Warnings()
    world.start(observer=reported)
    world.add(range(4, 9))
    before = dict(world.store.objects)
    with pytest.raises(Fenced, match="written by another driver"):
        overtaken.poll_and_commit()
    assert world.store.objects == before

    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert not reported.texts
    assert list(world.numbers().values()) == [list(range(9))]
    assert not world.store.uploads


def test_an_upload_that_was_taken_over_stays_with_the_successor_where_its_file_cannot_be_committed() -> None:
    """Both go on with one state: the first driver's task closes the file, then the second one takes over, then the entry is refused."""
    world = world_with_open_files({"flush.size": "7"})
    (upload,), reported = world.store.uploads, Warnings()
    world.start(
        [Fault("put_new", lambda key: successor(world, reported), nth=2, matches=lambda key: "/commits/" in key)]
    )
    zombie = world.sink
    world.add(range(4, 7))
    with pytest.raises(Fenced, match="owned by another driver"):
        zombie.poll_and_commit()
    assert list(world.store.uploads) == [upload]

    world.sink.poll_and_commit()
    assert (reported.texts, list(world.numbers().values())) == ([], [list(range(7))])
    assert [file.upload.id for entry in world.entries() for file in entry.files] == [upload]


def test_an_upload_that_was_taken_over_stays_with_the_successor_where_the_state_of_both_is_gone() -> None:
    """While the first driver's task keeps its files, the second one takes over, and removes the state with which both began."""
    world = world_with_open_files()
    (upload,), reported = world.store.uploads, Warnings()

    def goes_on(key: str) -> None:
        successor(world, reported).poll_and_commit()

    world.start([Fault("put", goes_on, matches=lambda key: key.startswith(OPEN))])
    zombie = world.sink
    world.add(range(4, 9))
    with pytest.raises(Fenced, match="written by another driver"):
        zombie.poll_and_commit()
    assert upload in world.store.uploads

    world.sink.drain(close=Reason.FLUSH_NOW)
    assert (reported.texts, list(world.numbers().values())) == ([], [list(range(9))])
    assert [file.upload.id for entry in world.entries() for file in entry.files] == [upload]
    assert not states(world)


def test_a_start_that_was_overtaken_leaves_the_state_that_its_successor_keeps() -> None:
    world, reported = world_with_open_files(), Warnings()
    world.add(range(4, 9))

    def goes_on(key: str) -> None:
        successor(world, reported).poll_and_commit()

    with pytest.raises(Fenced, match="written by another driver"):
        world.start([Fault("list", goes_on, matches=lambda key: key == OPEN)])
    assert len(states(world)) == 1
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert (reported.texts, list(world.numbers().values())) == ([], [list(range(9))])


def test_a_start_that_was_overtaken_is_fenced_before_it_removes_what_never_held() -> None:
    world, reported = world_with_open_files(), Warnings()
    (noted,) = states(world)

    def takes_over(key: str) -> None:
        successor(world, reported)
        world.store.put(f"{noted}-unused", world.store.get(noted))

    with pytest.raises(Fenced, match="written by another driver"):
        world.start([Fault("list", takes_over, matches=lambda key: key == OPEN)])
    assert sorted(states(world)) == [noted, f"{noted}-unused"]
    assert world.store.uploads


@pytest.mark.parametrize("asked", ["get", "list"])
def test_a_driver_that_is_replaced_between_claim_and_restore_ends_as_fenced(asked: str) -> None:
    """Its successor has recorded a dead letter and keeps open files that count it: taken over, they would not add up with the log."""
    world, reported = world_with_open_files({**TOLERANT, "tail.check.interval.ms": "0"}), Warnings()

    def goes_on(key: str) -> None:
        world.kafka.add(ORDERS, MemoryRecord(4, START_MS, None, b"{"))
        world.add(range(5, 8))
        successor(world, reported).poll_and_commit()

    with pytest.raises(Fenced, match="written by another driver"):
        world.start([Fault(asked, goes_on, matches=lambda key: key in (HINT, OPEN))]).poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert (reported.texts, list(world.numbers().values())) == ([], [[0, 1, 2, 3, 5, 6, 7]])


def test_a_driver_that_does_not_know_whether_it_was_replaced_notes_no_open_files() -> None:
    world, reported = world_with_open_files(), Warnings()
    world.start(
        [Fault("head", raising(StorageUnavailable("503")), nth=None, matches=lambda key: "/commits/" in key)], reported
    )
    before = world.store.get(HINT)
    world.add(range(4, 9))
    world.sink.poll_and_commit()
    assert world.store.get(HINT) == before


# ------------------------------------------------------------ a hint that no driver has written


def changed(**members: object) -> Callable[[World], None]:
    """The hint with other members of its one topic-partition; `state_key` and the like reach into its parts."""

    def change(world: World) -> None:
        noted = json.loads(world.store.get(HINT))
        for name, value in members.items():
            part, _, inner = name.partition("__")
            if inner:
                noted["open"][0][part][inner] = value
            else:
                noted["open"][0][part] = value
        world.store.put(HINT, json.dumps(noted).encode())

    return change


def written(content: bytes) -> Callable[[World], None]:
    return lambda world: world.store.put(HINT, content)


ELSEWHERE = "topics/other/partition=0/other+0+0000000000.json"
BAD_HINTS: dict[str, Callable[[World], None]] = {
    "no JSON": written(b"\xff{"),
    "a list": written(b"[]"),
    "deep nesting": written(b"[" * 200_000),
    "an older form": written(b'{"format":1,"open":[]}'),
    "a later form": written(b'{"format":99,"open":[]}'),
    "no members": written(b'{"format":2,"open":[{}]}'),
    "a topic-partition of one": changed(topic_partition=["orders"]),
    "a text for a number": changed(state__frontier="0"),
    "a number for a text": changed(topic_id=7),
    "a truth for a number": changed(tail__records=True),
    "no number": changed(state__examined=1.5),
    "a time beyond all times": changed(tail__base_ms=10**30),
    "a range that ends before it begins": changed(state__examined=-1),
    "a list for a part": changed(tail=[]),
    "an epoch that is none": changed(leader_epoch="0"),
    "a key elsewhere": changed(state__key=ELSEWHERE),
    "the key of a commit entry": changed(state__key=f"{STATE}orders/commits/00000000000000000000.json"),
    "a key of another sink": changed(state__key=f"{STATE}other/open/orders/0/0000000001-00000000000000000004-a"),
    "a key of another partition": changed(state__key=f"{OPEN}orders/1/0000000001-00000000000000000004-a"),
    "a key that climbs": changed(state__key=f"{OPEN}orders/0/../../../commits/00000000000000000000.json"),
}


@pytest.mark.parametrize("bad", BAD_HINTS.values(), ids=list(BAD_HINTS))
def test_a_hint_that_no_driver_has_written_is_dropped_with_one_line_and_harms_nothing(
    bad: Callable[[World], None],
) -> None:
    world, reported = world_with_open_files(), Warnings()
    world.store.put(ELSEWHERE, b"of another")
    bad(world)
    world.start(observer=reported)
    world.start(observer=reported)
    world.add(range(4, 9))
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)

    (text,) = reported.texts
    assert text.startswith(f"{HINT}, the note of open files, cannot be used (")
    assert len(text) < 400
    assert world.store.get(ELSEWHERE) == b"of another"
    world.store.delete(ELSEWHERE)
    assert list(world.numbers().values()) == [list(range(9))]
    assert [entry.version for entry in world.entries()] == list(range(len(world.entries())))
    assert not states(world)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_value_in_any_place_of_a_hint_is_a_hint_or_a_reason_against_it(value: object) -> None:
    tp, paths = ORDERS, StatePaths("_kafka_s3", "orders")
    key = paths.open_state(tp, epoch=1, offset=4, unique="a")
    hint = asdict(HintedState(tp, "id", "f", None, Tail(4, 9, 7, 1), OpenState(key, 9, 1, 0, 4), 0))
    places = [(hint, name) for name in hint] + [(hint[part], name) for part in ("tail", "state") for name in hint[part]]
    for part, name in places:
        before, part[name] = part[name], value
        store = MemoryStore(lambda: 0)
        store.put(paths.open_files(), json.dumps({"format": 2, "open": [hint]}).encode())
        with suppress(HintUnusable):
            (noted,) = OpenFileStates(store, paths).read_hint()
            assert paths.is_open_state(noted.state.key, tp)
        part[name] = before


def test_an_object_of_somebody_else_among_the_states_is_left_alone() -> None:
    world, reported = world_with_open_files(), Warnings()
    world.store.put(f"{OPEN}orders/0/readme.txt", b"hello")
    world.start(observer=reported)
    world.add(range(4, 9))
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert (reported.texts, states(world)) == ([], [f"{OPEN}orders/0/readme.txt"])


def successor(world: World, observer: Warnings) -> Sink:
    """Another driver that takes over, and is the world's from then on."""
    return world.start(observer=observer)
