"""State tables hold the newest value of every key though the driver or executors are killed at any time in a merge."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import psutil
import pytest

from kafka_s3.followers.state import ABANDONED_MS
from tests.services.state.spark_state_world import SparkStateWorld
from tests.support.state_world import random_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.s3 import EmbeddedS3

SEEDS = 20


class Keeper:
    """A process that keeps states (`keeper`); the next one where it was killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[str] | None = None
        self.deaths = {"driver": 0, "executor": 0}

    def advance(self, config: str, *, victim: str = "", after_s: float = 0.0) -> str:
        """What it says; blank where it was killed before it said something."""
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        print(config, file=process.stdin, flush=True)
        if victim:
            time.sleep(after_s)
            self._kill(victim)
        return self._answer(process)

    def stop(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._end(self._process)
            if self._process.stdout is not None:
                self._process.stdout.close()

    def _started(self) -> subprocess.Popen[str]:
        with (self.folder / "keeper.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.services.state.keeper", str(self.folder)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ}
            )
        assert self._answer(process).startswith("ready"), (self.folder / "keeper.log").read_text()[-3000:]
        return process

    def _answer(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(("ready", "done", "refused")):
                return line
        process.stdout.close()
        return ""

    def _kill(self, victim: str) -> None:
        assert self._process is not None
        if victim == "driver":
            self._end(self._process)
            self._process = None
            self.deaths[victim] += 1
            return
        for one in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline()):
                    one.kill()
                    self.deaths[victim] += 1
                    return

    def _end(self, process: subprocess.Popen[str]) -> None:
        family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        for one in [psutil.Process(process.pid), *family] if process.poll() is None else family:
            with contextlib.suppress(psutil.Error):
                one.kill()
        process.wait(60)
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # nobody is there to take what was not sent
                process.stdin.close()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_kills_of_driver_and_executors_leave_the_newest_value_of_every_key(
    s3: EmbeddedS3, bucket: str, spark: SparkSession, tmp_path: Path
) -> None:
    keeper = Keeper(tmp_path)
    try:
        for seed in range(SEEDS):
            _check(keeper, seed, s3, bucket, spark, tmp_path)
    finally:
        keeper.stop()
    print(f"killed: {keeper.deaths}")
    assert min(keeper.deaths.values()) > 0


def _check(keeper: Keeper, seed: int, s3: EmbeddedS3, bucket: str, spark: SparkSession, folder: Path) -> None:
    random, numbers, moving = Random(seed), itertools.count(), seed % 2 == 0
    own = {"state.prefix": f"_s{seed}", "topics.dir": f"s{seed}", **({"state.order.by": "at"} if moving else {})}
    world = SparkStateWorld(s3.endpoint_url, bucket, spark, f"deaths{seed}", **own)
    config = folder / f"{seed}"
    config.mkdir()
    path = world.file(config)
    for _ in range(3):
        world.take(*random_records(random, count=12, numbers=numbers, partitions=3, moving=moving))
        victim = random.choice(("driver", "executor", "executor", ""))
        keeper.advance(path, victim=victim, after_s=random.uniform(0.2, 6))
    _give_up_rebuild(world)
    answer = keeper.advance(path)
    assert answer.startswith("done"), answer
    table = folder / "warehouse" / f"deaths{seed}.db" / "orders"
    rows = {row["_key"]: row["n"] for row in spark.read.format("delta").load(str(table)).collect()}
    assert rows == world.committed(), seed


def _give_up_rebuild(world: SparkStateWorld) -> None:
    """Sets the note of a rebuild that died back by the time for which merges wait for it."""
    note = world.merger.notes.read("orders")
    if note is not None and note.rebuilding:
        path = world.merger.notes._key("orders")
        document = json.loads(world.store.get(path))
        world.store.put(path, json.dumps({**document, "merged_ms": note.merged_ms - ABANDONED_MS}).encode())
