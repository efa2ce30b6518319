"""`kafka-s3 delta check` and `rebuild`, as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3_testing.services.memory import MemoryTables
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.services.followers.delta.shell import Shell, kinds
from tests.support.delta_world import TableWorld


@pytest.fixture
def world(objects: EmbeddedS3, own_bucket: str) -> TableWorld:
    """A sink with two objects in its table."""
    world = TableWorld(objects, own_bucket)
    world.add(*({"n": n} for n in range(4)))
    world.run()
    return world


@pytest.fixture
def shell(tmp_path: Path, world: TableWorld) -> Shell:
    return Shell(tmp_path, world)


def test_a_table_that_follows_has_no_findings(shell: Shell) -> None:
    code, text = shell("check")
    assert code == 0
    assert "2 objects, 4 records in the log" in text
    assert "Nothing found." in text


def test_an_object_that_was_deleted_from_the_bucket_is_found(world: TableWorld, shell: Shell) -> None:
    world.store.delete("topics/orders/partition=0/orders+0+0000000002.snappy.parquet")
    assert kinds(shell) == ["missing object"]


def test_an_object_that_was_written_over_is_found(world: TableWorld, shell: Shell) -> None:
    world.store.put("topics/orders/partition=0/orders+0+0000000002.snappy.parquet", b"other")
    assert kinds(shell) == ["wrong size"]


def test_a_table_that_does_not_exist_is_found_and_rebuilt(world: TableWorld, shell: Shell) -> None:
    for info in list(world.store.list("topics/orders/_delta_log/")):
        world.store.delete(info.key)
    assert kinds(shell) == ["no table"]
    assert shell("rebuild") == (0, "orders: 2 files added, 0 taken out\n")
    assert kinds(shell) == []
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]


def test_a_table_that_is_behind_is_found(world: TableWorld, shell: Shell) -> None:
    world.configure(**{"delta.enable": "false"})
    world.add({"n": 4}, {"n": 5})
    world.run()
    assert kinds(shell) == ["table behind", "object not in table"]


def test_rows_that_another_writer_deleted_are_found_and_come_back_with_a_rebuild(
    world: TableWorld, shell: Shell
) -> None:
    world.table().delete("n = 1")
    assert kinds(shell) == ["wrong count"]
    assert shell("rebuild") == (0, "orders: 1 files added, 1 taken out\n")
    assert kinds(shell) == []
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]


def test_objects_that_another_writer_has_compacted_are_no_finding(world: TableWorld, shell: Shell) -> None:
    world.table().optimize.compact()
    code, text = shell("check")
    assert code == 0
    assert "2 objects were rewritten by other writers" in text


def test_a_rebuild_does_not_take_out_what_the_bucket_cannot_give_back(world: TableWorld, shell: Shell) -> None:
    world.table().optimize.compact()
    world.store.delete("topics/orders/partition=0/orders+0+0000000002.snappy.parquet")
    code, text = shell("rebuild")
    assert code == 1
    assert "orders+0+0000000002.snappy.parquet" in text
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]


def test_a_table_that_delta_rs_does_not_write_is_named_and_made_again_on_demand(
    world: TableWorld, shell: Shell
) -> None:
    world.table().alter.add_constraint({"small": "n < 100"})
    assert kinds(shell) == ["table refused"]
    code, text = shell("rebuild")
    assert code == 1
    assert "constraint delta.constraints.small" in text
    code, text = shell("rebuild", "--fresh", "--yes", "--force")
    assert (code, text) == (0, "orders: 2 files added, 0 taken out\n")
    assert kinds(shell) == []
    assert world.table().version() == 0


def test_a_running_sink_goes_on_after_a_rebuild(world: TableWorld, shell: Shell) -> None:
    shell("rebuild", "--fresh", "--yes", "--force")
    world.add({"n": 4}, {"n": 5})
    assert world.sink.poll_and_commit()
    assert [row["n"] for row in world.rows()] == list(range(6))
    assert kinds(shell) == []


def test_a_rebuild_that_changes_nothing_says_so_and_ends_with_1_if_objects_stay_out(
    objects: EmbeddedS3, own_bucket: str, tmp_path: Path
) -> None:
    by_field = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner", "partition.field.name": "p",
        "errors.tolerance": "all",
    }  # fmt: skip
    world = TableWorld(objects, own_bucket, **{**by_field, "delta.enable": "false"})
    world.add({"n": 0, "p": None}, {"n": 1, "p": "null"})  # into one object, of before the table
    world.run()
    world.configure(**{"delta.enable": "true"})
    world.add({"n": 2, "p": None}, {"n": 3, "p": "null"})
    world.run()
    assert [(row["n"], row["p"]) for row in world.rows()] == [(2, None), (3, "null")]

    shell = Shell(tmp_path, world)
    code, text = shell("check")
    assert code == 1
    assert "stays out: its directory p=... holds several values of p" in " ".join(text.split())
    assert "rebuild" not in text
    code, text = shell("rebuild")
    assert (code, text.partition("\n")[0]) == (1, "orders: nothing was changed")
    assert "A rebuild does not change that." in " ".join(text.split())
    assert shell("rebuild", "--fresh", "--yes", "--force")[0] == 1
    assert [row["n"] for row in world.rows()] == [2, 3]


def test_a_rebuild_of_a_table_that_lacks_nothing_says_so(shell: Shell) -> None:
    assert shell("rebuild") == (0, "orders: nothing was changed\n")


def test_a_topic_without_objects_is_named(shell: Shell) -> None:
    code, text = shell("check", "--topic", "others")
    assert code == 1  # of the runner: `main` turns ConfigError into 2
    assert "Topics with objects: orders." in text


def test_what_is_sparks_is_left_to_spark(world: TableWorld, tmp_path: Path) -> None:
    world.spark = MemoryTables(world.store)
    world.configure(**{"delta.writer": "spark", "delta.table.name": "main.raw.orders"})
    world.start()
    shell = Shell(tmp_path, world)
    code, text = shell("check")
    assert code == 0
    assert (
        "main.raw.orders has come to entry 3; what it holds was not compared; 2 objects, 4 records in the log" in text
    )
    for info in list(world.store.list("_kafka_s3/orders/followers/delta-spark-")):
        world.store.delete(info.key)
    assert kinds(shell) == ["table behind"]
    code, text = shell("rebuild", "--fresh", "--yes")
    assert code == 1
    assert "cannot be rebuilt here. To rebuild one, DROP TABLE it" in text
    assert shell("maintain") == (
        0, "orders leaves its tables to Spark (delta.writer=spark): run jobs/maintain_tables.py on it, or OPTIMIZE and VACUUM "
        "main.raw.orders there.\n",
    )  # fmt: skip


def test_verify_takes_the_tables_own_objects_for_what_they_are(shell: Shell) -> None:
    done = CliRunner().invoke(app, ["verify", str(shell.path), "--no-kafka", "--no-progress"])
    assert done.exit_code == 0, done.output
    assert "Nothing found" in done.output
