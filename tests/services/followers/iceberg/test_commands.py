"""What do the commands say of a sink's Iceberg tables, as a user types them?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from tests.services.followers.iceberg.test_readers import filled, world_on
from tests.support.iceberg_world import PARQUET, IcebergWorld
from tests.support.memory_world import BASE

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3


class Shell:
    """Runs commands on one sink; gives exit code and output."""

    def __init__(self, folder: Path, world: IcebergWorld) -> None:
        self.path = folder / "sink.json"
        catalog = {"iceberg.catalog.uri": f"sqlite:///{world.folder}/catalog.db"}
        self.path.write_text(json.dumps({**BASE, **PARQUET, **catalog, **world.config}))

    def __call__(self, *words: str, after: tuple[str, ...] = ()) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*words, str(self.path), *after])
        return done.exit_code, done.output if done.exception is None else f"{done.output}{done.exception}"


@pytest.fixture
def world(objects: EmbeddedS3, own_bucket: str, tmp_path: Path) -> IcebergWorld:
    return filled(world_on(objects, own_bucket, tmp_path, **{"delta.enable": "true"}))


def test_verify_compares_both_tables_and_says_what_one_lacks(world: IcebergWorld, tmp_path: Path) -> None:
    shell = Shell(tmp_path, world)
    after = ("--no-kafka", "--tables", "--output", "json")
    code, text = shell("verify", after=after)
    assert code == 0, text
    found = json.loads(text)["tables"]
    assert [(one["files"], one["records"], one["findings"]) for one in found] == [(3, 6, []), (3, 6, [])]
    first = world.table().metadata.snapshots[0].snapshot_id
    world.table().manage_snapshots().rollback_to_snapshot(first).commit()
    code, text = shell("verify", after=("--no-kafka", "--tables"))
    assert code == 1
    assert "kafka-s3 iceberg rebuild puts it right" in text
    assert shell("verify", after=("--no-kafka",))[0] == 0
    assert shell("iceberg", "check")[0] == 1
    assert "1 files added, 0 taken out" in shell("iceberg", "rebuild")[1]
    assert shell("verify", after=("--no-kafka", "--tables"))[0] == 0


def test_explain_knows_the_metadata_and_ddl_the_catalog(world: IcebergWorld, tmp_path: Path) -> None:
    shell = Shell(tmp_path, world)
    key = world.table().metadata_location.partition("://")[2].partition("/")[2]
    code, text = shell("explain", after=(key, "--no-kafka"))
    assert code == 0
    assert "metadata of an Iceberg table" in text
    world.configure(**{"delta.enable": "false"})
    catalog = ("--set", "iceberg.catalog.type=rest", "--set", "iceberg.catalog.uri=https://catalog.example.com")
    code, text = Shell(tmp_path, world)("ddl", after=("--engine", "trino", *catalog))
    assert code == 0
    assert "\"iceberg.rest-catalog.uri\" = 'https://catalog.example.com'" in text
