"""`kafka-s3 delta maintain`: small files become large ones, and nothing is deleted that anyone needs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3.followers.delta.maintain import Chores, Maintained, MaintenanceStep, is_original
from kafka_s3.ops.table_chores import maintenance_of
from kafka_s3.run.wiring.delta import tables_of
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.services.followers.delta.shell import Shell, kinds
from tests.support.configurations import FIELD
from tests.support.delta_world import TableWorld


@pytest.fixture
def world(objects: EmbeddedS3, own_bucket: str) -> TableWorld:
    """A table of six small files in two directories, with names that need quoting, and a broken record."""
    world = TableWorld(objects, own_bucket, **FIELD, **{"flush.size": "1", "errors.tolerance": "all"})
    world.add(*({"n": n, "d": ("a b/c%", "x")[n % 2]} for n in range(6)))
    world.run()
    world.add({"n": "dead", "d": "x"})
    assert world.sink.poll_and_commit()
    return world


@pytest.fixture
def shell(tmp_path: Path, world: TableWorld) -> Shell:
    return Shell(tmp_path, world)


def keys(world: TableWorld, prefix: str = "") -> set[str]:
    return {info.key for info in world.store.list(prefix) if "/_delta_log/" not in info.key}


def maintain(world: TableWorld, *steps: MaintenanceStep, hours: int = 0) -> Maintained:
    """By a command, after the driver has ended."""
    world.now += 3 * 60_000
    table = tables_of(world.settings, world.store)("orders")
    work = maintenance_of(world.settings, world.store, clock_ms=lambda: world.now, warn=pytest.fail)
    done = work.run(table, Chores(frozenset(steps), hours), topic="orders")
    assert done is not None
    return done


def optimize_as_others_do(world: TableWorld) -> None:
    world.table().optimize.compact()


def test_small_files_become_large_ones_by_the_log_without_a_change_of_data_and_the_sink_goes_on(
    world: TableWorld, shell: Shell
) -> None:
    before, rows = keys(world, "topics/"), world.rows()
    code, text = shell("maintain")
    assert code == 0, text
    assert re.search(r"small files\W+6\W+0\W", text), text
    assert world.rows() == rows
    changes = [one[kind] for one in world.actions(1) for kind in ("add", "remove") if kind in one]
    assert len(changes) == 8
    assert not any(one["dataChange"] for one in changes)
    assert len(keys(world, "topics/") - before) == 2
    assert len(world.table().file_uris()) == 2
    (entry,) = [one for one in world.log().entries() if one.swaps]
    assert sorted(len(swap.keys) for swap in entry.swaps) == [3, 3]
    assert kinds(shell) == []
    world.start()
    verified = CliRunner().invoke(app, ["verify", str(shell.path), "--no-kafka", "--no-progress"])
    assert verified.exit_code == 0, verified.output
    world.add({"n": 7, "d": "x"})
    assert world.sink.poll_and_commit()
    world.run()
    assert world.warnings.texts == []
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5, 7]
    assert kinds(shell) == []


def test_originals_that_were_vacuumed_are_not_written_again_by_a_start(world: TableWorld) -> None:
    world.add({"n": 7, "d": "x"})
    assert world.sink.poll_and_commit()
    optimize_as_others_do(world)
    maintain(world, MaintenanceStep.VACUUM, MaintenanceStep.ORIGINALS)
    left = keys(world, "topics/")
    assert len(left) == 2  # of seven objects, one of them the last entry's
    world.start()

    assert keys(world, "topics/") == left
    world.add({"n": 8, "d": "x"})
    assert world.sink.poll_and_commit()
    assert len(keys(world, "topics/")) == 3


def test_the_log_gets_a_checkpoint_from_which_the_sink_goes_on(world: TableWorld, shell: Shell) -> None:
    world.add({"n": 7, "d": "x"})
    assert world.sink.poll_and_commit()
    assert shell("maintain", "--no-optimize")[0] == 0
    assert world.store.head("topics/orders/_delta_log/_last_checkpoint") is not None
    assert world.table().version() == 1
    world.store.delete("topics/orders/_delta_log/00000000000000000000.json")  # as what is past the retention
    world.start()
    world.add({"n": 8, "d": "x"})
    assert world.sink.poll_and_commit()
    assert world.warnings.texts == []
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5, 7, 8]


def test_vacuum_deletes_what_other_writers_made_and_keeps_every_object_of_the_log(
    world: TableWorld, shell: Shell
) -> None:
    objects = keys(world)
    strangers = {
        "topics/orders/d=x/orders+0+0000000001.keys.avro",
        "topics/orders/notes.parquet",
        "topics/orders/_x/y.parquet",
    }
    for key in strangers:
        world.store.put(key, b"stranger")
    upload = world.store.create_upload("topics/orders/d=x/orders+0+0000000009.snappy.parquet")
    optimize_as_others_do(world)
    compacted = keys(world) - objects - strangers
    world.add(*({"n": n, "d": "x"} for n in (7, 8)))
    assert world.sink.poll_and_commit()
    optimize_as_others_do(world)  # replaces one of the compacted files
    assert shell("maintain", "--vacuum", "0", "--no-optimize")[0] == 0
    left = keys(world)
    assert objects | strangers <= left
    assert len(compacted - left) == 1
    assert world.store.upload_exists("topics/orders/d=x/orders+0+0000000009.snappy.parquet", upload)
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5, 7, 8]
    assert kinds(shell) == []
    assert shell("rebuild")[0] == 0
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5, 7, 8]


def test_originals_go_only_when_asked_for_and_only_those_that_were_replaced(world: TableWorld, shell: Shell) -> None:
    state = keys(world, "_kafka_s3/")
    optimize_as_others_do(world)
    world.add({"n": 7, "d": "new"})
    assert world.sink.poll_and_commit()
    code, text = shell("maintain", "--vacuum", "0", "--originals", "--dry-run", "--no-optimize")
    assert code == 0
    assert text.count("would delete") == 6
    code, text = shell("maintain", "--vacuum", "0", "--originals")
    assert code == 0
    assert "6 replaced files deleted" in text
    left = keys(world, "topics/")
    assert len(left) == 3
    assert [key for key in left if "d=new" in key] == ["topics/orders/d=new/orders+0+0000000007.snappy.parquet"]
    assert state <= keys(world, "_kafka_s3/")
    assert world.warnings.texts == []
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5, 7]
    assert kinds(shell) == []


def test_replaced_files_are_kept_for_the_hours_that_were_asked_for(world: TableWorld) -> None:
    optimize_as_others_do(world)
    before = keys(world)
    done = maintain(world, MaintenanceStep.VACUUM, MaintenanceStep.ORIGINALS, hours=1)
    assert done.deletable == ()
    assert (done.after.replaced, keys(world)) == (6, before)


def test_a_dry_run_changes_nothing(world: TableWorld, shell: Shell) -> None:
    before = [(info.key, info.etag) for info in world.store.list("")]
    code, text = shell("maintain", "--dry-run", "--vacuum", "0")
    assert code == 0
    assert "small files" in text
    assert [(info.key, info.etag) for info in world.store.list("")] == before


def test_a_table_that_cannot_be_compacted_is_named_and_is_no_reason_to_leave_the_others(
    world: TableWorld, shell: Shell
) -> None:
    world.table().alter.add_constraint({"small": "n < 100"})
    code, text = shell("maintain")
    assert code == 1
    assert "orders: not done." in text
    assert "constraint delta.constraints.small" in text


def test_a_sink_without_tables_has_nothing_to_do(tmp_path: Path, world: TableWorld) -> None:
    world.configure(**{"delta.enable": "false"})
    code, text = Shell(tmp_path, world)("maintain")
    assert (code, text) == (0, "orders keeps no Delta tables (delta.enable=false).\n")


def test_the_tables_of_every_configuration_in_a_folder_are_maintained(world: TableWorld, shell: Shell) -> None:
    other = json.loads(shell.path.read_text()) | {"name": "others", "delta.enable": "false"}
    (shell.path.parent / "a.json").write_text(json.dumps(other))
    done = CliRunner().invoke(app, ["delta", "maintain", str(shell.path.parent)])
    assert done.exit_code == 0, done.output
    assert "others keeps no Delta tables" in done.stdout
    assert "--- sink.json" in done.stderr
    assert len(world.table().file_uris()) == 2


def test_originals_without_vacuum_are_refused(shell: Shell) -> None:
    code, text = shell("maintain", "--originals")
    assert code != 0
    assert "--vacuum 168 --originals" in text


@pytest.mark.parametrize(
    ("name", "original"),
    [
        ("orders+0+0000000001.snappy.parquet", True),
        ("orders-12-1.parquet", True),
        ("part-00000-5c772aca-49b5-42fd-a6d0-89d338c24ae5-c000.zstd.parquet", False),
    ],
)
def test_objects_are_distinguished_from_other_writers_files_by_their_names(name: str, original: bool) -> None:
    assert is_original(f"topics/orders/partition=0/{name}", "orders") is original
