"""The commands on a Delta table, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from kafka_s3.cli.main import app
from tests.support.delta_world import PARQUET, TableWorld
from tests.support.memory_world import BASE


class Shell:
    def __init__(self, folder: Path, world: TableWorld) -> None:
        places = {"s3.bucket.name": world.bucket, "store.url": world.s3.endpoint_url}
        self.path = folder / "sink.json"
        self.path.write_text(json.dumps({**BASE, **PARQUET, **places, **world.config}))

    def __call__(self, *words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["delta", words[0], str(self.path), *words[1:]])
        return done.exit_code, done.output if done.exception is None else f"{done.output}{done.exception}"


def kinds(shell: Shell) -> list[str]:
    code, text = shell("check", "--output", "json")
    found = [finding["kind"] for one in json.loads(text.removesuffix("1")) for finding in one["findings"]]
    assert code == (1 if found else 0)
    return found
