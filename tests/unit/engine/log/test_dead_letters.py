"""Dead letters are read back from log and bucket with what became of them, and shown as text that nothing obeys."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from kafka_s3.engine.log.dead_letters import (
    FiledLetter,
    LetterFile,
    LetterSelection,
    LetterState,
    grouped,
    letters,
    letters_of,
    read_ledger,
)
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.dead_letter_text import csv_rows, details, formula_safe, json_lines, readable
from kafka_s3.ops.positions import write_positions
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3_testing.faults import failure
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World

OTHER = TopicPartition("orders", 1)
BAD = b"{oops"
CONFIG = {"flush.size": "2", **TOLERANT, "behavior.on.null.values": "ignore"}


def world_with_letters() -> World:
    """Bad records at 1 and 4 and a null at 5 of partition 0, a minute later a bad one at 0 of partition 1."""
    world = World(CONFIG, topics=(ORDERS, OTHER))
    world.start()
    for offset in range(8):
        value = {1: BAD, 4: BAD, 5: None}.get(offset, b'{"n": 1}')
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS + offset, b"key", value, (("h", b"\xff"),)))
    world.sink.poll_and_commit()
    world.now += 60_000
    for offset in range(3):
        world.kafka.add(OTHER, MemoryRecord(offset, None, None, BAD if offset == 0 else b"{}"))
    world.sink.poll_and_commit()
    return world


def found(
    world: World, selection: LetterSelection | None = None, missing: list[LetterFile] | None = None
) -> list[FiledLetter]:
    gone = missing if missing is not None else []
    ledger = read_ledger(world.store, state_paths(world.settings))
    return list(letters(ledger, world.store, selection=selection or LetterSelection(), missing=gone.append))


def places(some: list[FiledLetter]) -> list[tuple[int, int]]:
    return [(filed.letter.partition, filed.letter.offset) for filed in some]


def test_every_dead_letter_is_found_as_it_was_with_entry_and_state() -> None:
    world = world_with_letters()
    some = found(world)

    assert places(some) == [(0, 1), (0, 4), (0, 5), (1, 0)]
    assert {filed.state for filed in some} == {LetterState.OPEN}
    first = some[0]
    assert (first.letter.key, first.letter.value, first.letter.headers) == (b"key", BAD, (("h", b"\xff"),))
    assert world.entries()[first.entry].dead_letters[ORDERS].count == 3
    assert first.committed_ms == START_MS


def test_filters_choose_by_place_stage_class_time_and_entry() -> None:
    world = world_with_letters()
    some = found(world)

    def chosen(**filters: object) -> list[tuple[int, int]]:
        return places(found(world, replace(LetterSelection(), **filters)))  # type: ignore[arg-type]

    everything = places(some)
    assert chosen(topics=frozenset({"orders"})) == everything
    assert chosen(topics=frozenset({"order"})) == []
    assert chosen(partition=1) == [(1, 0)]
    assert chosen(offset=4) == [(0, 4)]
    assert chosen(stage="VALUE_CONVERTER") == [(0, 1), (0, 4), (1, 0)]
    assert chosen(stage="TASK_PUT") == [(0, 5)]
    assert chosen(entry=some[3].entry) == [(1, 0)]
    assert chosen(since_ms=START_MS + 1) == [(1, 0)]
    assert chosen(since_ms=START_MS, until_ms=START_MS + 60_000) == [(0, 1), (0, 4), (0, 5)]
    assert chosen(exception="org.apache.kafka.connect.errors.DataException") == everything
    assert chosen(exception="DataException", partition=1) == [(1, 0)]
    assert chosen(exception="Exception") == []
    assert chosen(states=frozenset({LetterState.REPLAYED})) == []


def test_groups_count_by_reason_and_place_the_largest_open_ones_first() -> None:
    groups = grouped(found(world_with_letters()))

    assert [(g.stage, g.topic_partition, g.count) for g in groups] == [
        ("VALUE_CONVERTER", ORDERS, 2),
        ("TASK_PUT", ORDERS, 1),
        ("VALUE_CONVERTER", OTHER, 1),
    ]
    assert "Converting byte[] to Kafka Connect data failed" in groups[0].example
    assert (groups[2].first_ms, groups[2].last_ms) == (START_MS + 60_000, START_MS + 60_000)


def test_letters_behind_a_position_that_was_moved_back_are_read_again_and_stand_for_nothing_any_more() -> None:
    world = world_with_letters()
    write_positions(world.log(), world.kafka, {ORDERS: 3})

    assert {filed.letter.offset: filed.state for filed in found(world, LetterSelection(partition=0))} == {
        1: LetterState.OPEN,
        4: LetterState.READ_AGAIN,
        5: LetterState.READ_AGAIN,
    }
    world.start().poll_and_commit()
    again = found(world, LetterSelection(partition=0, states=frozenset({LetterState.OPEN})))
    assert places(again) == [(0, 1), (0, 4), (0, 5)]


def test_recorded_letters_ahead_of_a_position_that_moves_over_a_gap_stay_open() -> None:
    world = World({**CONFIG, "flush.size": "100", "tail.check.interval.ms": "0"})
    world.start()
    world.add(range(4))
    world.kafka.add(ORDERS, MemoryRecord(4, START_MS, None, BAD))
    world.sink.poll_and_commit()
    assert world.frontier() == 0
    write_positions(world.log(), world.kafka, {ORDERS: 2})

    assert [filed.state for filed in found(world)] == [LetterState.OPEN]


def test_a_dead_letter_file_that_is_not_published_yet_is_reported_and_the_others_are_read() -> None:
    world = World(CONFIG, topics=(ORDERS, OTHER))
    world.start([failure("complete_upload", nth=None, matches=lambda key: "dead-letters" in key)])
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, BAD))
    world.add([1, 2])
    world.sink.poll_and_commit()
    missing: list[LetterFile] = []

    assert found(world, missing=missing) == []
    assert [(gone.file.records, gone.entry) for gone in missing] == [(1, world.entries()[-1].version)]


def test_a_damaged_dead_letter_file_is_named() -> None:
    world = world_with_letters()
    (key, *_) = [key for key in world.store.objects if "dead-letters" in key]
    world.store.put(key, b"no gzip")

    with pytest.raises(LogDamaged, match=r"orders\+0\+0000000001\.jsonl\.gz of entry \d+ is damaged"):
        found(world)


def test_a_long_log_is_read_in_the_order_of_its_entries() -> None:
    world = World({**CONFIG, "flush.size": "1"})
    world.start()
    for offset in range(0, 80, 2):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, BAD))
        world.add([offset + 1])
        world.sink.poll_and_commit()

    assert [filed.letter.offset for filed in found(world)] == list(range(0, 80, 2))


# ---------------------------------------------------------------- as text

HOSTILE = "\x1b[2J\x07\u202eevil\u2028\x9b31m\r\n\t"


def filed(value: bytes | None = b"\x1b]0;title\x07\xff", message: str = HOSTILE) -> FiledLetter:
    letter = DeadLetter("t", 0, 7, 1, b"=1+1", value, ((HOSTILE, HOSTILE.encode()),), "TASK_PUT", "c", "E", message)
    return FiledLetter(letter, 3, START_MS, LetterState.RESOLVED, 9, HOSTILE)


def test_nothing_of_a_hostile_record_reaches_the_terminal_as_a_control_character() -> None:
    shown = dict(details(filed()))

    assert all(name.isprintable() and text.isprintable() for name, text in shown.items())
    assert shown["value"] == r"\x1b]0;title\x07\xff"
    assert (shown["value, hex"], shown["value, base64"]) == ("1b5d303b7469746c6507ff", "G10wO3RpdGxlB/8=")
    assert shown["message"].startswith(r"\x1b[2J\x07\u202eevil\u2028\x9b31m\r\n\t")


def test_a_null_value_and_an_empty_one_are_distinguished() -> None:
    assert readable(None) == "null"
    assert readable(b"") == ""


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_cell_that_a_spreadsheet_would_calculate_gets_an_apostrophe(cell: str) -> None:
    assert formula_safe(cell) == f"'{cell}"


def test_csv_holds_every_letter_and_no_formula() -> None:
    text = "".join(csv_rows([filed(b'=HYPERLINK("http://x")', "=cmd|' /C calc'!A0"), filed(None, "-plain")]))
    first, second = csv.DictReader(io.StringIO(text))

    assert first["value_text"] == '\'=HYPERLINK("http://x")'
    assert first["message"] == "'=cmd|' /C calc'!A0"
    assert first["key_text"] == "'=1+1"
    assert (second["value"], second["message"], second["state"]) == ("", "'-plain", "resolved")
    assert all(
        not cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in (first, second) for cell in row.values()
    )


def test_json_lines_hold_the_record_as_it_was() -> None:
    (line,) = json_lines([filed(b"\xff\x00")])
    document = json.loads(line)

    assert line.isascii()
    assert (document["value"], document["offset"], document["settled_by_entry"]) == ("/wA=", 7, 9)
    assert document["dead_lettered_at"] == "2024-01-15T10:00:00Z"


def test_a_move_of_another_partition_changes_nothing() -> None:
    world = world_with_letters()
    write_positions(world.log(), world.kafka, {OTHER: 0})

    states = {(f.letter.partition, f.letter.offset): f.state for f in found(world)}
    assert [place for place, state in states.items() if state is LetterState.READ_AGAIN] == [(1, 0)]


def test_of_one_file_letters_are_unpacked_as_they_are_asked_for_from_any_of_them_on() -> None:
    world = World(CONFIG)
    world.start()
    for offset in range(250):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, BAD))
    world.sink.poll()
    world.sink.drain()
    ledger = read_ledger(world.store, state_paths(world.settings))
    (file,) = ledger.files.values()
    whole = list(letters(ledger, world.store, selection=LetterSelection(), missing=print))

    assert len(whole) == 250
    assert list(letters_of(world.store, file, ledger.settled, first=120)) == whole[120:]
    content = world.store.objects[file.file.key]
    world.store.put(file.file.key, content[: len(content) // 2])
    with pytest.raises(LogDamaged, match="damaged"):
        list(letters_of(world.store, file, ledger.settled))
