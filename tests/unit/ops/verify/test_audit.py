"""Is whatever is wrong in a bucket or a log found, and is nothing found where all is well?"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from kafka_s3.cli.audit import print_report
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress, read_entry
from kafka_s3.engine.log.remade import Remade
from kafka_s3.model.errors import ConfigError, ObjectArchived, StorageUnavailable
from kafka_s3.model.files import DeadLetterCount, Reason, Role, Totals, Upload
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from kafka_s3.ops.positions import write_positions
from kafka_s3.ops.verify.claims import SegmentSelection
from kafka_s3.ops.verify.expected import JsonDigests
from kafka_s3.ops.verify.findings import FindingKind
from kafka_s3.store.faults import Fault, FaultyStore, Moment, Verb, failure
from kafka_s3.testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, STATE, TIME, TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World, settings_of
from tests.support.verifying import audited, kinds

HOUR = 3_600_000
PREFIX = "topics/orders/partition=0/"
FIRST = PREFIX + "orders+0+0000000000.json"
SECOND = PREFIX + "orders+0+0000000003.json"
STRING = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
BYTES = {
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}
FORMAT = "io.confluent.connect.s3.format."
NULLS = {"behavior.on.null.values": "ignore", "report.null.values.to.dlq": "false"}
BLOCKS = {
    "format.class": "block_gzip",
    "flush.size": None,
    "rotate.schedule.interval.ms": str(HOUR // 2),
    "timezone": "UTC",
}


def values(world: World, values: Sequence[bytes | None], *, start: int = 0, step: int = HOUR // 3) -> None:
    for offset, value in enumerate(values, start):
        record = MemoryRecord(offset, START_MS + offset * step, b"k", value, (("h", b"x"),))
        world.kafka.add(ORDERS, record)


def healthy(config: dict[str, str | None] | None = None) -> World:
    """Nine good records in commits of three, one dead letter, one null; a tail of one stays open."""
    given = {"flush.size": "3", **TOLERANT, **NULLS, **(config or {})}
    world = World({key: value for key, value in given.items() if value is not None})
    world.start()
    records: list[bytes | None] = [json.dumps({"n": n, "d": "ab"[n % 2]}).encode() for n in range(10)]
    records[4:4] = [b"{oops", None]
    for at in range(0, len(records), 4):
        values(world, records[at : at + 4], start=at)
        world.now += HOUR
        assert world.sink.poll_and_commit()
    return world


MODES: dict[str, dict[str, Any]] = {
    "count": {},
    "strict": {"compatibility.strict": "true"},
    "gzip": {"s3.compression.type": "gzip"},
    "record time": {**TIME, "flush.size": "1000", "rotate.interval.ms": str(HOUR)},
    "open directories": {**TIME, "flush.size": "4", "rotate.file.on.partition.change": "false"},
    "field": {**FIELD, "flush.size": "4", "rotate.file.on.partition.change": "false"},
    "wall clock": {**TIME, "timestamp.extractor": "Wallclock"},
    "schedule": {"rotate.schedule.interval.ms": str(HOUR // 2), "timezone": "UTC", "flush.size": "1000"},
    "bytes": {"flush.size": None, "flush.bytes": "20"},
    "idle": {"flush.size": None, "flush.idle.ms": "1000"},
    "open files": {**FIELD, "rotate.file.on.partition.change": "false", "partitioner.max.open.files": "1"},
    "keys and headers": {
        "store.kafka.keys": "true", "keys.format.class": FORMAT + "json.JsonFormat", "store.kafka.headers": "true",
        "headers.format.class": FORMAT + "json.JsonFormat", "key.converter": STRING["value.converter"],
    },
    "strings": STRING, "base64": BYTES,
    "raw bytes": {**BYTES, "format.class": FORMAT + "bytearray.ByteArrayFormat"},
    "raw bytes, long separator": {
        **BYTES, "format.class": FORMAT + "bytearray.ByteArrayFormat", "format.bytearray.separator": "<n>", "s3.compression.type": "gzip",
    },
    "parquet": {"format.class": FORMAT + "parquet.ParquetFormat", "value.schema.inference": "true"},
    "avro": {**STRING, "format.class": FORMAT + "avro.AvroFormat"},
    "blocks of lines": {**BLOCKS, **STRING, "block.gzip.dialect": "original"},
    "blocks of texts": {**BLOCKS, **BYTES, "block.gzip.dialect": "successor"},
    "blocks of bytes": {**BLOCKS, **BYTES, "block.gzip.dialect": "successor", "block.gzip.format": "binary"},
    "metadata": {"record.metadata.enable": "true"},
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_a_healthy_sink_of_every_mode_is_clean(mode: str) -> None:
    world = healthy(MODES[mode])
    world.sink.drain(close=Reason.FLUSH_NOW)
    comparable = mode not in ("parquet", "avro")
    for kafka in (True, False):
        report = audited(world, kafka=kafka)
        (tally,) = report.tallies
        assert report.findings == ()
        assert (tally.start, tally.until) == (0, 12)
        assert tally.written + tally.dead_letters + tally.skipped == 12
        assert tally.kafka == (12 if kafka else None)
        assert tally.compared == (tally.written if kafka and comparable else 0)


def test_a_table_and_json_show_what_was_looked_at() -> None:
    report = audited(healthy())
    out = io.StringIO()
    print_report(report, Console(file=out, width=200))
    assert "orders-0" in out.getvalue()
    assert "[0, 11)" in out.getvalue()
    assert "exactly once" in out.getvalue()
    document = json.loads(json.dumps(report.document()))
    assert document["clean"]
    assert document["partitions"][0]["written"] == 9


def test_json_has_the_digest_of_its_document_also_where_the_text_was_seen_before() -> None:
    digests = JsonDigests()
    first = digests.of(b'{"a":1,"b":2}')
    assert first == digests.of(b'{"b": 2, "a": 1.0}') == digests.of(b'{"a":1,"b":2}')
    assert first != digests.of(b'{"a":2,"b":1}')
    for _ in range(2):
        with pytest.raises(ValueError, match="Expecting"):
            digests.of(b"{")


@pytest.mark.parametrize("value", [b'{"n": 1.50, "x": 1e3}', b' {"b":1,"a":[1.0,2]} ', b'{"n":12345678901234567890}', b'"text"',
                                   b'{"n":1} trailing', '{"ä":"\u2028😀\\ud800"}'.encode(), b'{"a":1,"a":2}', b"7",
                                   b"{\n\"n\": 1\r\n}"])  # fmt: skip
def test_json_is_compared_as_documents(value: bytes) -> None:
    world = World({"flush.size": "2"})
    world.start()
    values(world, [value, b'{"n":2}'])
    assert world.sink.poll_and_commit()
    report = audited(world)
    assert report.findings == ()
    assert report.tallies[0].compared == 2


def test_a_topic_partition_whose_texts_differ_is_looked_at_by_value_and_reported_once() -> None:
    world = World({"flush.size": "2"})
    world.start()
    values(world, [b'{"n":1}', b'{"n":2}', b'{"n":3}', b'{"n":4.0}'])
    assert world.sink.poll_and_commit()
    last = max(file.key for entry in world.entries() for file in entry.files)
    changed(world, last, lambda content: content.replace(b"4.0", b"4e0"))
    reported: list[tuple[str, int, int]] = []
    report = audited(world, notify=lambda *progress: reported.append(progress))
    assert kinds(report) == [FindingKind.WRONG_ETAG]
    assert (report.tallies[0].compared, report.tallies[0].read) == (4, 2)
    assert max(done for what, done, _ in reported if what == "objects") == 2


# ------------------------------------------------------------ damaged objects


def changed(world: World, key: str, change: Callable[[bytes], bytes]) -> None:
    world.store.put(key, change(world.store.get(key)))


def second_value(content: bytes) -> bytes:
    return content.replace(b'"n": 1', b'"n": 7')


DAMAGES: dict[str, tuple[Callable[[World], object], FindingKind, str]] = {
    "an object is gone": (lambda w: w.store.delete(FIRST), FindingKind.MISSING_OBJECT, FIRST),
    "an object is cut": (lambda w: changed(w, FIRST, lambda c: c[:-9]), FindingKind.WRONG_SIZE, FIRST),
    "an object is not JSON": (lambda w: changed(w, FIRST, lambda c: b"x" * len(c)), FindingKind.UNREADABLE, FIRST),
    "a record is gone": (lambda w: changed(w, FIRST, lambda c: c.partition(b"\n")[2]), FindingKind.WRONG_COUNT, FIRST),
    "a record is there twice": (lambda w: changed(w, FIRST, lambda c: c + c.partition(b"\n")[0] + b"\n"), FindingKind.WRONG_COUNT, FIRST),
    "a value is another": (lambda w: changed(w, FIRST, second_value), FindingKind.WRONG_CONTENT, FIRST),
    "the same bytes were put by hand": (lambda w: changed(w, FIRST, bytes), FindingKind.WRONG_ETAG, FIRST),
    "a copy lies beside": (
        lambda w: w.store.put(PREFIX + "orders+0+0000000001.json", w.store.get(FIRST)), FindingKind.ORPHAN, "0000000001"
    ),
    "a stranger lies beside": (lambda w: w.store.put(PREFIX + "part-0.json", b"{}"), FindingKind.ORPHAN, "part-0.json"),
    "a dead letter file is gone": (lambda w: w.store.delete(letters(w)), FindingKind.MISSING_OBJECT, "dead-letters"),
    "a dead letter is another": (lambda w: relettered(w, {"offset": 5}), FindingKind.WRONG_CONTENT, "dead-letters"),
    "a dead letter is of another topic": (lambda w: relettered(w, {"topic": "x"}), FindingKind.WRONG_CONTENT, "dead-letters"),
    "a dead letter file is damaged": (lambda w: w.store.put(letters(w), b"\x1f\x8b"), FindingKind.UNREADABLE, "dead-letters"),
    "a dead letter file is empty": (lambda w: w.store.put(letters(w), gzip.compress(b"")), FindingKind.WRONG_COUNT, "dead-letters"),
    "a dead letter file nobody claims": (
        lambda w: w.store.put(f"{STATE}orders/dead-letters/orders/orders+0+0000000007.jsonl.gz", b""), FindingKind.ORPHAN, "0000000007"),
}  # fmt: skip


def letters(world: World) -> str:
    (key,) = [key for key in world.store.objects if "/dead-letters/" in key]
    return key


def relettered(world: World, change: dict[str, Any]) -> None:
    line = json.loads(gzip.decompress(world.store.get(letters(world))))
    world.store.put(letters(world), gzip.compress(json.dumps({**line, **change}).encode()))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kafka", [True, False], ids=["with Kafka", "log and objects"])
def test_damage_to_objects_is_found(damage: str, kafka: bool) -> None:
    world = healthy()
    hurt, kind, place = DAMAGES[damage]
    hurt(world)
    report = audited(world, kafka=kafka)
    found = {finding.kind for finding in report.findings if place in finding.place}
    assert kind in found or (damage == "a value is another" and not kafka and found == {FindingKind.WRONG_ETAG})
    assert all(place in finding.place or "commit entry" in finding.place for finding in report.findings)


@pytest.mark.parametrize("mode", ["parquet", "avro", "raw bytes", "gzip"])
def test_an_object_that_cannot_be_read_is_found_in_every_format(mode: str) -> None:
    world = healthy(MODES[mode])
    key = next(key for key in world.store.objects if not key.startswith(STATE))
    changed(world, key, lambda content: content[: len(content) // 2])
    assert FindingKind.UNREADABLE in kinds(audited(world, kafka=False))


def test_values_that_hold_the_separator_are_no_finding_and_changed_ones_are() -> None:
    world = World({"flush.size": "2", **MODES["raw bytes"]})
    world.start()
    values(world, [b"a\nb\n", b"\n"])
    assert world.sink.poll_and_commit()
    assert audited(world).findings == ()
    changed(
        world, next(key for key in world.store.objects if not key.startswith(STATE)), lambda c: c.replace(b"b", b"c")
    )
    assert set(kinds(audited(world))) == {FindingKind.NOT_ACCOUNTED, FindingKind.WRONG_CONTENT, FindingKind.WRONG_ETAG}


def test_a_record_in_two_directories_of_a_commit_is_found_by_its_value() -> None:
    world = healthy({**FIELD, "flush.size": "4", "rotate.file.on.partition.change": "false"})
    a, b = sorted(key for key in world.store.objects if key.startswith("topics/"))[:3:2]
    world.store.put(b, world.store.get(a)[: len(world.store.get(b))])
    assert FindingKind.WRONG_CONTENT in kinds(audited(world))


# ------------------------------------------------------------ damaged logs


def commit(version: int) -> str:
    return f"{STATE}orders/commits/{version:020d}.json"


def rewritten(world: World, version: int, change: Callable[[CommitEntry], CommitEntry]) -> None:
    entry = change(read_entry(world.store.get(commit(version)), key=""))
    world.store.put(commit(version), entry.to_json())


def first_data(world: World) -> int:
    return next(entry.version for entry in world.entries() if entry.files)


def without_files(entry: CommitEntry) -> CommitEntry:
    return replace(entry, files=(), totals=Totals(), dead_letters={}, skipped={})


def with_file(entry: CommitEntry, **changes: Any) -> CommitEntry:
    return replace(entry, files=(replace(entry.files[0], **changes), *entry.files[1:]))


LOG_DAMAGES: dict[str, tuple[Callable[[CommitEntry], CommitEntry], set[FindingKind]]] = {
    "totals": (lambda e: replace(e, totals=replace(e.totals, read=99)), {FindingKind.LOG}),
    "a file left out": (without_files, {FindingKind.NOT_ACCOUNTED, FindingKind.ORPHAN}),
    "too many records": (lambda e: with_file(e, records=9), {FindingKind.LOG, FindingKind.WRONG_COUNT}),
    "offsets turned round": (lambda e: with_file(e, first_offset=2, last_offset=0), {FindingKind.LOG}),
    "offsets outside": (lambda e: with_file(e, last_offset=40), {FindingKind.LOG, FindingKind.TWICE}),
    "another size": (lambda e: with_file(e, bytes=1), {FindingKind.LOG, FindingKind.WRONG_SIZE}),
    "another version": (lambda e: replace(e, version=77), {FindingKind.LOG}),
    "an epoch of the past": (lambda e: replace(e, epoch=0), {FindingKind.LOG}),
    "skips that are not there": (
        lambda e: replace(e, skipped={ORDERS: 1}, totals=replace(e.totals, skipped=1, read=e.totals.read + 1)), {FindingKind.TWICE}),
    "a frontier that jumps": (
        lambda e: replace(e, progress={ORDERS: replace(e.progress[ORDERS], frontier=9)}), {FindingKind.NOT_ACCOUNTED, FindingKind.LOG}),
}  # fmt: skip


@pytest.mark.parametrize("damage", LOG_DAMAGES)
def test_a_log_that_does_not_add_up_is_found(damage: str) -> None:
    world = healthy()
    change, expected = LOG_DAMAGES[damage]
    rewritten(world, first_data(world), change)
    assert expected <= set(kinds(audited(world)))


def test_the_same_offsets_claimed_twice_are_found_without_kafka_too() -> None:
    world = healthy()
    version = first_data(world)
    entry = read_entry(world.store.get(commit(version)), key="")
    again = next(e for e in world.entries() if e.version > version and any(f.role is Role.VALUE for f in e.files))
    rewritten(world, again.version, lambda e: replace(e, files=(*e.files, entry.files[0])))
    for kafka in (True, False):
        assert {FindingKind.TWICE, FindingKind.LOG} <= set(kinds(audited(world, kafka=kafka)))


def test_a_damaged_entry_and_a_missing_one_are_found_and_the_rest_is_still_checked() -> None:
    world = healthy()
    version = first_data(world)
    world.store.put(commit(version), b"{")
    report = audited(world)
    assert {FindingKind.DAMAGED_ENTRY, FindingKind.ORPHAN} == set(kinds(report))
    world.store.delete(commit(version))
    world.store.delete(SECOND)
    assert {FindingKind.LOG, FindingKind.ORPHAN, FindingKind.MISSING_OBJECT} <= set(kinds(audited(world)))


def test_a_commit_that_was_not_published_says_to_start_the_sink() -> None:
    class Died(BaseException):
        pass

    def die(key: str) -> None:
        raise Died

    world = World({"flush.size": "3"})
    world.start([Fault("complete_upload", die, Moment.BEFORE, 1)])
    world.add(range(3))
    with pytest.raises(Died):
        world.sink.poll_and_commit()
    (finding,) = audited(world).findings
    assert finding.kind is FindingKind.MISSING_OBJECT
    assert "start the sink" in finding.text
    world.start()
    assert audited(world).findings == ()


def test_a_file_of_an_earlier_entry_that_still_waits_to_be_visible_is_completed_by_the_sink() -> None:
    refuses = True

    def throttled(key: str) -> None:
        if refuses:
            raise StorageUnavailable("SlowDown")

    other = TopicPartition("orders", 1)
    world = World({"flush.size": "3"}, topics=(ORDERS, other))
    world.start([Fault("complete_upload", throttled, nth=None, matches=lambda key: "partition=0" in key)])
    for start in (0, 3):
        for tp in (ORDERS, other):
            world.add(range(start, start + 3), tp=tp)
        world.sink.poll_and_commit()
        world.now += HOUR
    assert world.entries()[-1].waiting
    report = audited(world)
    assert set(kinds(report)) == {FindingKind.MISSING_OBJECT}
    assert all("start the sink" in finding.text for finding in report.findings)
    refuses = False
    world.start()
    assert audited(world).findings == ()


@pytest.mark.parametrize("mode", ["count", "gzip", "parquet", "open directories", "blocks of lines"])
def test_files_that_were_made_again_after_their_uploads_were_lost_are_clean(mode: str) -> None:
    given = {"flush.size": "3", **MODES[mode]}
    world = World({key: value for key, value in given.items() if value is not None})

    def abort_all(key: str) -> None:
        for upload_id, upload in world.store.uploads.items():
            world.store.abort_upload(upload.key, upload_id)

    world.start([Fault("put_new", abort_all, Moment.AFTER, 3)])
    values(world, [json.dumps({"n": n, "d": "ab"[n % 2]}).encode() for n in range(8)])
    assert world.sink.poll_and_commit()
    world.now += HOUR
    assert world.sink.poll_and_commit()
    report = audited(world)
    assert report.findings == ()
    assert report.tallies[0].written > 0


# ------------------------------------------------------------ what Kafka has


def test_a_record_that_the_log_does_not_account_for_is_named() -> None:
    world = World({"flush.size": "3"})
    world.start()
    world.add([0, 1, 3])
    assert world.sink.poll_and_commit()
    assert audited(world).tallies[0].without_record == 1
    world.kafka.records[ORDERS].insert(2, MemoryRecord(2, START_MS, None, b'{"n":2}'))
    found = audited(world).findings
    assert {finding.kind for finding in found} == {FindingKind.NOT_ACCOUNTED}
    assert any("1 are lost" in finding.text for finding in found)
    assert any("offsets 2 " in finding.text for finding in found)


def test_records_that_vanished_are_twice_unless_the_topic_is_compacted() -> None:
    world = healthy()
    del world.kafka.records[ORDERS][1]
    assert kinds(audited(world)) == [FindingKind.TWICE, FindingKind.WRONG_CONTENT]
    report = audited(world, compact=("orders",))
    assert report.findings == ()
    assert report.tallies[0].without_record == 1


@pytest.mark.parametrize("start", [1, 3, 4, 11, 12])
def test_what_retention_removed_is_checked_from_log_and_objects(start: int) -> None:
    world = healthy()
    world.kafka.trim(ORDERS, start=start)
    report = audited(world)
    assert report.findings == ()
    assert report.tallies[0].retention == min(start, 11)
    world.store.delete(FIRST)
    assert kinds(audited(world)) == [FindingKind.MISSING_OBJECT]


def test_gaps_of_the_log_are_reported_by_their_cause() -> None:
    world = World({"flush.size": "3", "behavior.on.lost.offsets": "gap"})
    world.start()
    world.add(range(4))
    assert world.sink.poll_and_commit()
    world.kafka.trim(ORDERS, start=5)
    world.add(range(7, 10))
    world.sink.drain() if world.sink.poll_and_commit() else None
    report = audited(world)
    assert report.findings == ()
    assert report.tallies[0].gaps == {"retention": 1}  # an open file held offset 3
    gap = next(gap for entry in world.entries() for gap in entry.gaps)
    assert gap == Gap("orders", 0, 4, 4, "retention")


def test_a_recreated_topic_is_checked_against_its_new_records_only() -> None:
    world = World({"flush.size": "3", "behavior.on.lost.offsets": "gap", "topics.dir": "t"})
    world.start()
    world.add(range(6))
    assert world.sink.poll_and_commit()
    world.kafka.records[ORDERS].clear()
    world.kafka.ids["orders"] = "new"
    values(world, [b'{"n":100}', b'{"n":101}', b'{"n":102}'])
    world.start()
    assert world.sink.poll_and_commit()
    report = audited(world)
    assert report.findings == ()
    assert (report.tallies[0].kafka, report.tallies[0].until) == (3, 3)
    world.kafka.ids["orders"] = "newer"
    assert "created again" in audited(world).notes[0]


def test_a_partition_that_ends_before_the_frontier_is_found() -> None:
    world = healthy()
    del world.kafka.records[ORDERS][8:]
    assert kinds(audited(world)) == [FindingKind.LOG]


# ------------------------------------------------------------ what is looked at


def begun_at(start: int, config: dict[str, str] | None = None) -> World:
    """A sink that has written three records from an offset on, beside objects that the test adds."""
    world = World({"flush.size": "3", **(config or {})}, topics=())
    world.kafka.create(ORDERS, start=start)
    world.start()
    world.add(range(start, start + 3))
    assert world.sink.poll_and_commit()
    return world


def test_objects_of_the_writer_before_this_sink_that_end_before_it_began_are_no_findings() -> None:
    world = begun_at(6)
    world.store.put(FIRST, b"{}\n" * 3)
    world.store.put(SECOND, b"{}\n" * 3)
    world.store.put("topics/orders/_delta_log/0.json", b"{}\n")
    report = audited(world)
    assert report.findings == ()
    assert report.notes == ("1 objects of other topic-partitions or offsets than those verified were not looked at.",)
    assert report.verdict() == "Nothing found: offsets 6 to 8 of 1 topic-partition are accounted for exactly once."


@pytest.mark.parametrize(
    ("config", "name", "content"),
    [
        ({}, "orders+0+0000000003.json", b"{}\n" * 5),
        ({"s3.compression.type": "gzip"}, "orders+0+0000000003.json.gz", gzip.compress(b"{}\n" * 5)),
        ({}, "orders+0+0000000003-0000000007.5f2c91ab.json", b"{}\n" * 5),
    ],
    ids=["JSON", "gzip", "compacted"],
)
def test_an_object_that_began_before_this_sink_and_reaches_into_its_offsets_is_a_finding(
    config: dict[str, str], name: str, content: bytes
) -> None:
    world = begun_at(6, config)
    world.store.put(PREFIX + name, content)
    (finding,) = audited(world).findings
    assert (finding.kind, finding.place) == (FindingKind.TWICE, PREFIX + name)
    assert "offsets 6 to 7 of orders-0 are in its log, too" in finding.text
    assert "docs/migrate.md" in finding.text
    later = SegmentSelection(first=9)
    assert audited(world, selection=later).findings == ()


def test_every_directory_whose_last_object_reaches_into_the_log_is_a_finding() -> None:
    world = begun_at(6)
    for directory, start in (("a", 0), ("a", 2), ("b", 3), ("c", 4)):
        world.store.put(f"topics/orders/{directory}/orders+0+{start:010d}.json", b"{}\n" * 4)
    world.store.put("topics/orders/c/orders+0+0000000004.keys.json", b"{}\n" * 4)
    places = [finding.place for finding in audited(world).findings]
    assert places == [f"topics/orders/{name}/orders+0+000000000{start}.json" for name, start in (("b", 3), ("c", 4))]


def test_a_gap_that_was_set_by_hand_is_not_in_the_bucket_twice() -> None:
    world = World({"flush.size": "3"}, topics=())
    world.kafka.create(ORDERS, start=3)
    world.add(range(3, 9))
    world.start()
    write_positions(world.log(), world.kafka, {ORDERS: 6})
    assert world.start().poll_and_commit()
    world.store.put(FIRST, b"{}\n" * 6)
    assert audited(world).findings == ()
    world.store.put(FIRST, b"{}\n" * 7)
    assert ["offsets 6 to 6" in finding.text for finding in audited(world).findings] == [True]


def test_an_object_that_cannot_be_counted_is_a_note_that_names_it() -> None:
    world = begun_at(6)
    world.store.put(f"{PREFIX}orders+0+0000000003.bin", b"12345")
    report = audited(world)
    assert report.findings == ()
    assert "orders+0+0000000003.bin, so some may hold records of the log, too" in report.notes[0]


def test_of_many_directories_the_nearest_objects_are_counted_and_a_note_says_that_it_is_not_all() -> None:
    world = begun_at(100)
    for start in range(60):
        world.store.put(f"topics/orders/{start}/orders+0+{start:010d}.json", b"{}\n" * (50 if start in (3, 55) else 1))
    report = audited(world)
    assert [finding.place for finding in report.findings] == ["topics/orders/55/orders+0+0000000055.json"]
    assert "Not all objects that begin before offset 100 were counted" in report.notes[0]
    assert audited(world, sample=0).findings == ()


def test_a_sink_without_a_log_is_an_error_that_names_the_sinks_that_are_called_like_it() -> None:
    world = healthy()
    world.settings = settings_of({"name": "order", "flush.size": "3"})
    with pytest.raises(
        ConfigError, match=r"name \('order'\): has no commit log in _kafka_s3/order/.*Did you mean orders\?"
    ):
        audited(world)


def test_what_a_sink_at_work_writes_meanwhile_is_no_orphan() -> None:
    world = healthy()
    listed = world.store.list

    def at_work(prefix: str, *, start_after: str = "") -> Iterator[Any]:
        if prefix == "topics/orders/":
            values(world, [b'{"n":50}', b'{"n":51}'], start=12)
            world.sink.poll_and_commit()
        return listed(prefix, start_after=start_after)

    world.store.list = at_work  # type: ignore[method-assign]
    before = len(world.store.objects)
    assert audited(world).findings == ()
    assert len(world.store.objects) > before


def test_a_selection_looks_at_the_commits_that_it_touches_and_at_nothing_else() -> None:
    other = TopicPartition("orders", 1)
    world = World({"flush.size": "3"}, topics=(ORDERS, other))
    world.start()
    for start in (0, 3, 6):
        for tp in (ORDERS, other):
            world.add(range(start, start + 3), tp=tp)
        world.now += HOUR
        assert world.sink.poll_and_commit()
    world.store.delete(FIRST)
    world.store.put(PREFIX + "orders+0+0000000001.json", b"")
    assert audited(world, selection=SegmentSelection(partition=1)).findings == ()
    report = audited(world, selection=SegmentSelection(partition=0, first=4, last=6))
    assert report.findings == ()
    assert (report.tallies[0].start, report.tallies[0].until) == (3, 9)
    late = datetime.fromtimestamp((START_MS + 2 * HOUR) / 1000, UTC)
    assert [t.start for t in audited(world, selection=SegmentSelection("orders", first=2, since=late)).tallies] == [
        3,
        3,
    ]
    assert kinds(audited(world, selection=SegmentSelection(last=2))) == [FindingKind.MISSING_OBJECT, FindingKind.ORPHAN]


def test_a_sample_reads_few_objects_but_looks_at_all() -> None:
    world = healthy()
    report = audited(world, sample=1)
    assert report.findings == ()
    assert report.tallies[0].read == 1
    assert "1 of 3 objects were read" in report.notes[0]
    world.store.delete(SECOND)
    assert FindingKind.MISSING_OBJECT in kinds(audited(world, sample=0))


def test_progress_is_reported() -> None:
    reported: list[tuple[str, int, int]] = []
    audited(healthy(), notify=lambda *step: reported.append(step))
    assert ("objects", 3, 3) in reported
    assert ("Kafka orders-0", 11, 11) in reported


# ------------------------------------------------------------ dead letters settled by hand


def with_two_letters() -> World:
    """A sink whose dead letters are good JSON that lacks the field which names the directory."""
    world = World({"flush.size": "3", **TOLERANT, **FIELD, "rotate.file.on.partition.change": "false"})
    world.start()
    values(world, [b'{"n":0,"d":"a"}', b"{oops", b"{again", b'{"n":3,"d":"a"}', b'{"n":4,"d":"a"}'])
    assert world.sink.poll_and_commit()
    return world


def settled(world: World, *offsets: int, written: bool) -> None:
    """Writes the entry that a replay of dead letters by hand leaves in the log."""
    log = world.log()
    log.load()
    log.claim(cluster_id="memory", publish=lambda entry: ())
    files, skipped = [], {ORDERS: len(offsets)}
    if written:
        key = f"topics/orders/d=a/orders+0+{offsets[0]:010d}.json"
        content = b"".join(b'{"n":%d}\n' % offset for offset in offsets)
        upload = world.store.create_upload(key)
        tag = world.store.upload_part(key, upload, 1, content)
        template = next(f for entry in world.entries() for f in entry.files if f.role is Role.VALUE)
        sent = Upload(key, upload, (tag,), len(content))
        files = [
            replace(template, key=key, first_offset=offsets[0], last_offset=offsets[-1], records=len(offsets),
                    bytes=len(content), upload=sent)
        ]  # fmt: skip
        skipped = {}
    entry = log.new_entry(
        EntryKind.REPLAY, files=tuple(files), resolved={ORDERS: OffsetSet.of(offsets)}, skipped=skipped,
        dead_letters={ORDERS: DeadLetterCount(-len(offsets), {"VALUE_CONVERTER": -len(offsets)})},
        totals=Totals(0, len(offsets) if written else 0, -len(offsets), sum(skipped.values()), len(files), sum(f.bytes for f in files)),
    )  # fmt: skip
    log.append(entry)
    log.publish(entry, remake=lambda entry, gone: Remade())


def test_dead_letters_that_were_resolved_by_hand_are_skipped_ones() -> None:
    world = with_two_letters()
    settled(world, 1, 2, written=False)
    report = audited(world)
    assert report.findings == ()
    assert (report.tallies[0].dead_letters, report.tallies[0].skipped, report.tallies[0].written) == (0, 2, 3)
    settled(world, 2, written=False)
    assert kinds(audited(world)) == [FindingKind.TWICE]
    settled(world, 4, written=False)
    assert kinds(audited(world)) == [FindingKind.LOG, FindingKind.TWICE]


def test_replayed_dead_letters_are_compared_with_their_letters() -> None:
    world = with_two_letters()
    settled(world, 1, 2, written=True)  # what a better converter makes of "{oops" cannot be told from here: counted
    report = audited(world)
    assert report.findings == ()
    assert (report.tallies[0].dead_letters, report.tallies[0].written) == (0, 5)
    changed(world, "topics/orders/d=a/orders+0+0000000001.json", lambda content: content + content)
    assert {FindingKind.WRONG_SIZE, FindingKind.WRONG_COUNT} <= set(kinds(audited(world)))


def set_back(world: World, offset: int) -> World:
    """The world, whose sink begins anew at an offset."""
    log = world.log()
    log.load()
    log.claim(cluster_id="memory", publish=lambda entry: ())
    log.append(log.new_entry(EntryKind.POSITION, progress={ORDERS: Progress(offset)}))
    world.start()
    assert world.sink.poll_and_commit()
    return world


def test_a_position_set_back_leaves_what_was_written_before_to_its_objects() -> None:
    world = set_back(healthy(), 2)
    report = audited(world)
    assert report.findings == ()
    assert "went back" in report.notes[0]


def test_records_that_a_position_set_back_brought_into_the_bucket_twice_are_counted() -> None:
    """The first commit held 0 to 2; from 1 on, files begin at other offsets and overwrite nothing."""
    world = set_back(healthy(), 1)
    report = audited(world)
    doubled = sorted(n for found in world.numbers().values() for n in found)
    assert report.findings == ()
    assert report.tallies[0].twice == len(doubled) - len(set(doubled)) > 0
    assert f"{report.tallies[0].twice} records are in the bucket twice" in report.verdict()
    assert "exactly once" not in report.verdict()
    document = report.document()
    assert document["partitions"][0]["twice"] == report.tallies[0].twice


def test_records_are_twice_in_the_bucket_also_where_only_what_was_written_after_the_move_is_verified() -> None:
    world = healthy()
    world.now += 60_000
    since = datetime.fromtimestamp(world.now / 1000, UTC)
    set_back(world, 1)
    report = audited(world, selection=SegmentSelection(since=since))
    assert (report.findings, report.tallies[0].twice) == ((), audited(world).tallies[0].twice)
    assert "in the bucket twice" in report.verdict()
    world.store.delete(SECOND)
    assert audited(world, selection=SegmentSelection(since=since)).tallies[0].twice < report.tallies[0].twice


def test_where_nothing_is_selected_nothing_is_claimed() -> None:
    later = SegmentSelection(since=datetime(2100, 1, 1, tzinfo=UTC))
    assert audited(healthy(), selection=later).verdict().startswith("Nothing to verify")


def test_dead_letters_beyond_the_frontier_are_something_to_verify() -> None:
    world = World({**TOLERANT, "flush.size": "9"})
    world.start()
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, b'{"n":0}'))
    world.kafka.add(ORDERS, MemoryRecord(1, START_MS, None, b"{broken"))
    world.sink.poll()
    world.sink.drain()
    report = audited(world)
    assert (report.tallies[0].until, report.tallies[0].objects) == (0, 1)
    assert report.verdict().startswith("Nothing found")


def test_copies_that_were_removed_after_a_position_set_back_are_not_missed() -> None:
    world = set_back(healthy(), 1)
    world.store.delete(SECOND)  # of before: all of its records are in later objects
    report = audited(world)
    assert report.findings == ()
    world.store.delete(FIRST)  # record 0 is in no other
    assert kinds(audited(world)) == [FindingKind.MISSING_OBJECT]


def test_an_archived_object_is_a_finding_and_the_rest_is_checked() -> None:
    """The lifecycle rule of the connector's guide: `topics/` goes to GLACIER after 90 days."""
    world = healthy()
    archived = [failure(Verb.GET, None, matches=lambda key: key == FIRST, error=ObjectArchived("InvalidObjectState"))]
    all_read = audited(world).tallies[0].read
    assert audited(world, store=FaultyStore(world.store, archived)).tallies[0].read == all_read - 1
    changed(world, SECOND, lambda content: content + content)
    report = audited(world, store=FaultyStore(world.store, archived))
    assert {FindingKind.ARCHIVED, FindingKind.WRONG_SIZE} <= set(kinds(report))
    (found,) = (finding for finding in report.findings if finding.kind is FindingKind.ARCHIVED)
    assert found.place == FIRST
    later = SegmentSelection(since=datetime(2031, 1, 1, tzinfo=UTC))
    assert audited(world, store=FaultyStore(world.store, archived), selection=later).findings == ()


def test_a_topic_that_neither_kafka_nor_the_log_has_is_a_finding() -> None:
    """A name that is misspelt would be a report of nothing that ends well."""
    world = World({"flush.size": "3"}, topics=())
    world.start()
    assert audited(world, topics=("ordrs",)).clean  # of a sink that has written nothing, topics may still come
    assert audited(world, topics=(ORDERS.topic,)).clean  # it is there, and has no record yet
    assert audited(world, topics=("ordrs",), kafka=False).clean  # nobody was asked
    report = audited(healthy(), topics=(ORDERS.topic, "ordrs"))
    assert [(one.kind, one.place) for one in report.findings] == [(FindingKind.UNKNOWN_TOPIC, "ordrs")]
    assert [one.text for one in report.findings] == [
        "Neither Kafka nor the log has this topic: nothing of it is verified. Correct topics (did you mean orders?), or create it."
    ]
