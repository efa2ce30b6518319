"""Is every record in the Iceberg table once where drivers are killed (SIGKILL) at any moment, and two of them run side by side?

Each run starts one driver or two, lets them work for a moment, kills them, and lets another one work all off. Then the rows that pyiceberg
reads are those that `verify` counts, each once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from kafka_s3.ops.verify.audit import audit_of
from kafka_s3.ops.verify.claims import SegmentSelection
from tests.services.followers.iceberg.nursery import killed_world
from tests.support.iceberg_world import IcebergWorld
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3

ROOT = Path(__file__).parents[4]
RUNS, NIGHTLY_SERIES = 3, 30
RUNS_OF_A_SERIES = 11
LONGEST_S = 0.9


@dataclass
class Series:
    """Runs of one sink, one after the other, in one bucket; `struck` is how many processes the signal has reached."""

    seed: int
    world: IcebergWorld
    folder: Path
    orders: IO[str]
    answers: IO[str]
    sent: int = 0
    struck: int = 0
    draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def run(self) -> None:
        self.more()
        drivers = [self.start("run")]
        if self.draw.random() < 0.6:  # a second one takes over while the first is at work
            time.sleep(self.draw.uniform(0, LONGEST_S / 2))
            drivers.append(self.start("run"))
        for driver in drivers:
            time.sleep(self.draw.uniform(0, LONGEST_S))
            self.more()
            self.kill(driver)
        last = self.start("drain")
        done = self.folder / f"{last}.done"
        eventually(lambda: done.exists() or self.failed() != "", seconds=60, what=self.failed)
        assert self.failed() == ""
        self.judge()

    def more(self) -> None:
        self.sent += self.draw.randint(1, 7)
        (self.folder / "sent.new").write_text(str(self.sent))
        (self.folder / "sent.new").rename(self.folder / "sent")

    def start(self, what: str) -> int:
        print(what, file=self.orders, flush=True)
        return int(self.answers.readline())

    def kill(self, driver: int) -> None:
        ended = any((self.folder / f"{driver}.{how}").exists() for how in ("fenced", "failed"))
        with suppress(ProcessLookupError):
            os.kill(driver, signal.SIGKILL)
            self.struck += not ended

    def failed(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("*.failed"))

    def judge(self) -> None:
        report = audit_of(self.world.settings, SegmentSelection()).run()
        assert report.clean, report.verdict()
        assert sum(tally.written for tally in report.tallies) == self.sent
        assert Counter(row["n"] for row in self.world.rows()) == Counter(range(self.sent))
        entries = [
            one.summary.additional_properties["kafka-s3.entry"]
            for one in self.world.table().metadata.snapshots
            if one.summary
        ]
        assert [int(one) for one in entries] == sorted({int(one) for one in entries}), (
            "an entry came twice, or out of order"
        )


def play(seed: int, runs: int, objects: EmbeddedS3, bucket: str, folder: Path) -> Series:
    (folder / "sent").write_text("0")
    command = [
        sys.executable,
        "-m",
        "tests.services.followers.iceberg.nursery",
        bucket,
        objects.endpoint_url,
        str(folder),
    ]
    with (
        (folder / "nursery.log").open("wb") as log,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as nursery,
    ):
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        series = Series(seed, killed_world(bucket, objects.endpoint_url, folder), folder, nursery.stdin, nursery.stdout)
        for _ in range(runs):
            series.run()
        nursery.stdin.close()
    return series


def test_drivers_that_are_killed_leave_each_record_once(objects: EmbeddedS3, own_bucket: str, tmp_path: Path) -> None:
    assert play(0, RUNS, objects, own_bucket, tmp_path).struck >= 1


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, NIGHTLY_SERIES + 1))
def test_drivers_that_are_killed_more_often_do(seed: int, objects: EmbeddedS3, own_bucket: str, tmp_path: Path) -> None:
    assert play(seed, RUNS_OF_A_SERIES, objects, own_bucket, tmp_path).struck >= RUNS_OF_A_SERIES // 2
