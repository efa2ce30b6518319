"""A table has each record once while objects take the place of others, and these stay as long as a table names them."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from pyiceberg.table.snapshots import Operation

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.followers.delta import follower
from kafka_s3.followers.iceberg.maintain import check_table, rebuild
from kafka_s3.model.errors import TableError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.readers import avro_rows, sliced
from kafka_s3.ops.erasure.forgetting import Forgetting
from kafka_s3.ops.erasure.purging import Purging
from kafka_s3.ops.erasure.subjects import subjects_of
from kafka_s3.run.wiring.iceberg import iceberg_planner, iceberg_tables
from kafka_s3.store.memory import MemoryStore
from tests.support.configurations import TIME
from tests.support.iceberg_world import IcebergWorld
from tests.support.memory_world import ORDERS
from tests.support.rewriting import ask_for_compaction

GRACE_MS = 3_600_000
TWO_FILES = 600
"""Bytes in which two files have place, and three have not."""
CONFIG = {"rewrite__grace__ms": str(GRACE_MS)}


def filled(folder: Path, records: int = 6, **config: str) -> IcebergWorld:
    """Objects of two records each, in entries of their own."""
    world = IcebergWorld(folder, **CONFIG, **config)
    world.start()
    more(world, records)
    return world


def more(world: IcebergWorld, until: int) -> None:
    for n in range(len(world.kafka.records[ORDERS]), until, 2):
        world.add({"n": n}, {"n": n + 1})
        assert world.sink.poll_and_commit()


def later(world: IcebergWorld, ms: int = 61_000) -> None:
    world.now += ms
    world.sink.rewrites.notice(str(world.now))
    assert world.sink.poll_and_commit()


def compacted(world: IcebergWorld, *, target: int = 1 << 20) -> None:
    assert ask_for_compaction(world, world.store, target=target)
    later(world)


def objects(world: IcebergWorld) -> list[str]:
    assert isinstance(world.store, MemoryStore)
    return sorted(key for key in world.store.objects if key.startswith("topics/orders/") and key.endswith(".parquet"))


def held(world: IcebergWorld) -> list[str]:
    return sorted(task.file.file_path.removeprefix("s3://bucket/") for task in world.table().scan().plan_files())


def numbers(world: IcebergWorld) -> list[int]:
    return [row["n"] for row in world.rows()]


def rewrites(world: IcebergWorld) -> list[CommitEntry]:
    return [entry for entry in world.log().entries() if entry.kind is EntryKind.REWRITE]


def findings(world: IcebergWorld) -> list[str]:
    table = iceberg_tables(world.settings, world.store, warn=pytest.fail)("orders")
    found = check_table(world.log(), iceberg_planner(world.settings, world.store), table, topic="orders")
    return [one.text for one in found.findings]


def test_a_compaction_is_one_version_of_the_table_without_a_change_of_records(tmp_path: Path) -> None:
    world = filled(tmp_path)
    compacted(world)
    (entry,) = rewrites(world)
    assert held(world) == [entry.files[0].key]
    assert len(objects(world)) == 4
    assert numbers(world) == list(range(6))
    snapshot = world.table().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.REPLACE
    assert snapshot.summary.additional_properties["kafka-s3.entry"] == str(entry.version)
    assert findings(world) == []
    later(world, GRACE_MS)
    assert objects(world) == held(world)
    more(world, 8)
    assert numbers(world) == list(range(8))
    assert findings(world) == []


def test_files_of_several_partitions_are_one_file_of_the_table_which_erasures_know(tmp_path: Path) -> None:
    world = IcebergWorld(tmp_path, **{**TIME, **CONFIG, "compact.across.partitions": "true"})
    for partition in range(3):
        world.add(*({"n": partition * 4 + n} for n in range(4)), tp=TopicPartition("orders", partition))
    world.start()
    assert world.sink.poll_and_commit()
    compacted(world)
    (entry,) = rewrites(world)
    assert [len(file.slices) for file in entry.files] == [3]
    (task,) = world.table().scan().plan_files()
    assert task.file.record_count == 12
    snapshot = world.table().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.REPLACE
    assert numbers(world) == list(range(12))
    assert findings(world) == []
    later(world, GRACE_MS)
    assert objects(world) == held(world)

    world.now += GRACE_MS  # no driver is at work
    subjects = subjects_of(None, "n = 5", None)
    work = Forgetting(world.settings, world.store, subjects, lambda: world.now, pytest.fail, wait_s=0.0)
    (erased,) = work.run(work.search())
    assert {tp.partition: offsets.ranges for tp, offsets in erased.erased.items()} == {1: ((1, 1),)}
    world.start()
    later(world)
    assert numbers(world) == [n for n in range(12) if n != 5]
    assert findings(world) == []


def test_a_second_compaction_takes_the_place_of_the_first(tmp_path: Path) -> None:
    world = filled(tmp_path)
    compacted(world)
    more(world, 12)
    compacted(world)
    later(world, 2 * GRACE_MS)
    assert len(held(world)) == 1
    assert objects(world) == held(world)
    assert numbers(world) == list(range(12))


def test_a_table_that_is_switched_on_later_begins_without_what_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "BATCH", 2)
    world = filled(tmp_path, iceberg__enable="false")
    compacted(world)
    later(world, GRACE_MS)
    more(world, 16)
    assert len(objects(world)) == 6
    world.configure(iceberg__enable="true")
    world.run()
    assert numbers(world) == list(range(16))
    assert held(world) == objects(world)
    assert findings(world) == []
    assert world.warnings.texts == []


def test_a_table_that_was_switched_off_meanwhile_goes_on_though_originals_are_gone(tmp_path: Path) -> None:
    world = filled(tmp_path, 4)
    world.configure(iceberg__enable="false")
    world.start()
    more(world, 12)
    compacted(world, target=TWO_FILES)
    later(world, GRACE_MS)
    more(world, 14)
    assert len(objects(world)) == 4
    world.configure(iceberg__enable="true")
    world.run()
    assert numbers(world) == list(range(14))
    assert held(world) == objects(world)
    assert world.warnings.texts == []


def test_originals_stay_as_long_as_the_table_names_them(tmp_path: Path) -> None:
    world = filled(tmp_path)
    database = tmp_path / "catalog.db"
    away = database.rename(tmp_path / "away.db")
    database.mkdir()  # the catalog does not answer
    compacted(world)
    later(world, 3 * GRACE_MS)
    assert len(objects(world)) == 4
    assert world.sink.followers.problems
    database.rmdir()
    away.rename(database)
    assert numbers(world) == list(range(6))
    later(world)
    later(world)
    assert numbers(world) == list(range(6))
    assert objects(world) == held(world)


def test_where_another_writer_has_rewritten_some_of_the_files_the_table_waits_for_a_rebuild(tmp_path: Path) -> None:
    world = filled(tmp_path)
    world.table().delete("n = 3")
    compacted(world)
    assert "kafka-s3 iceberg rebuild" in world.warnings.texts[-1]
    assert numbers(world) == [0, 1, 2, 4, 5]
    later(world, 2 * GRACE_MS)
    assert len([key for key in objects(world) if "orders+0" in key]) >= 4
    table = iceberg_tables(world.settings, world.store, warn=pytest.fail)("orders")
    rebuild(
        world.log(), iceberg_planner(world.settings, world.store), table, topic="orders", clock_ms=lambda: world.now
    )
    assert numbers(world) == list(range(6))
    later(world)
    later(world)
    assert findings(world) == []
    assert [key for key in objects(world) if key.rpartition("/")[2].startswith("orders+0")] == held(world)


def test_where_another_writer_has_rewritten_all_of_the_files_a_compaction_changes_nothing(tmp_path: Path) -> None:
    world = filled(tmp_path)
    whole = world.table().scan().to_arrow()
    world.table().overwrite(whole)
    compacted(world)
    assert any("is not in the table" in text for text in world.warnings.texts)
    assert numbers(world) == list(range(6))


def test_forgotten_records_leave_the_table_in_the_same_step(tmp_path: Path) -> None:
    world = filled(tmp_path)
    work = Forgetting(world.settings, world.store, subjects_of(None, "n = 3", None), lambda: world.now, pytest.fail)
    world.now += 120_000  # the driver is gone
    assert len(list(work.run(work.search()))) == 1
    world.run()
    assert numbers(world) == [0, 1, 2, 4, 5]
    snapshot = world.table().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.OVERWRITE
    assert findings(world) == []


def metadata(world: IcebergWorld) -> bytes:
    """All manifests and their lists that are in the bucket, unpacked."""
    assert isinstance(world.store, MemoryStore)
    keys = [key for key in world.store.objects if "/metadata/" in key and key.endswith(".avro")]
    return b"".join(repr(list(avro_rows(sliced(world.store.get(key))))).encode() for key in keys)


def bound(text: str) -> bytes:
    """As `metadata` has it."""
    return b64encode(text.encode())


def test_purged_history_keeps_no_value_of_what_was_erased_and_the_sink_goes_on(tmp_path: Path) -> None:
    world = IcebergWorld(tmp_path, **CONFIG)
    world.start()
    for who in ("Ann", "somebody", "Zoe"):
        world.add({"n": len(world.kafka.records[ORDERS]), "who": who}, {"n": 9, "who": who})
        assert world.sink.poll_and_commit()
    world.now += 120_000  # the driver is gone
    work = Forgetting(
        world.settings, world.store, subjects_of(None, "who = somebody", None), lambda: world.now, pytest.fail
    )
    assert len(list(work.run(work.search()))) == 1
    assert sorted(row["who"] for row in world.rows()) == ["Ann", "Ann", "Zoe", "Zoe"]
    assert bound("somebody") in metadata(world)
    purging = Purging(world.settings, world.store, lambda: world.now, pytest.fail)
    (purged,) = purging.run()
    assert purged.objects > 0
    assert bound("somebody") not in metadata(world)
    assert bound("Zoe") in metadata(world)
    assert len(world.table().metadata.snapshots) == 1
    assert [one.objects for one in purging.run()] == [0]
    world.run()
    world.add({"n": 20, "who": "Eve"}, {"n": 21, "who": "Eve"})
    assert world.sink.poll_and_commit()
    assert len(world.rows()) == 6
    assert findings(world) == []


def test_a_table_that_does_not_follow_an_erasure_keeps_its_history_and_nobody_says_it_is_gone(tmp_path: Path) -> None:
    """Another writer has put the objects' rows into files of its own: the erased records are still in the table."""
    world = IcebergWorld(tmp_path, **CONFIG)
    world.add({"n": 0, "who": "somebody"}, {"n": 1, "who": "Ann"})
    world.run()
    world.table().overwrite(world.table().scan().to_arrow())
    world.now += 120_000
    warned = list[str]()
    subjects = subjects_of(None, "who = somebody", None)
    work = Forgetting(world.settings, world.store, subjects, lambda: world.now, warned.append)
    assert len(list(work.run(work.search()))) == 1
    assert any("another writer has rewritten them" in text for text in warned), warned
    assert "somebody" in {row["who"] for row in world.rows()}
    snapshots = len(world.table().metadata.snapshots)
    with pytest.raises(TableError, match="another writer has rewritten them"):
        list(Purging(world.settings, world.store, lambda: world.now, warned.append).run())
    assert len(world.table().metadata.snapshots) == snapshots
