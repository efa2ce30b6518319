"""Drivers, compactions and erasures are killed (SIGKILL) at any moment, on a real broker and a real S3: nothing is lost, twice or left."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.fold import live_objects
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import BASE, FIELD
from tests.support.examples import NIGHTLY
from tests.support.kafka import Given, document, produce
from tests.support.sink_process import SinkProcess
from tests.support.waiting import eventually

ROUNDS = 6 if os.environ.get(NIGHTLY) else 2
RECORDS, PEOPLE, PARTITIONS = 60, 10, 2
TRIES, IDLE_S = 5, 15
COMPACTIONS = (("compact", "--older-than", "1s"), ("compact", "--older-than", "1s", "--across-partitions"))
FORGOTTEN = 3
"""Of this person nothing is sent once the first erasure was asked for."""


class Scene:
    """One sink, whose processes are killed and started again."""

    def __init__(self, config: dict[str, str], folder: Path) -> None:
        self.config, self.folder, self.draw = config, folder, random.Random(34)
        self.path = folder / "people.json"
        self.path.write_text(json.dumps(config))
        self.settings: Settings = resolved(validate(config).usable())
        self.sent, self.names = 0, 0
        self.driver = self.drive()

    def process(self, *words: str) -> SinkProcess:
        self.names += 1
        return SinkProcess(["-m", *words], self.folder / f"{self.names}.log").start()

    def drive(self) -> SinkProcess:
        return self.process("tests.services.ops.driver_without_spark", str(self.path))

    def command(self, *words: str) -> SinkProcess:
        return self.process("kafka_s3", words[0], str(self.path), *words[1:])

    def send(self, without: int | None) -> None:
        given = []
        for n in range(self.sent, self.sent + RECORDS):
            if n % PEOPLE != without:
                given.append(Given(document(n=n, who=n % PEOPLE, d="x"), partition=n // PEOPLE % PARTITIONS))
        produce(self.config["kafka.bootstrap.servers"], self.config["topics"], given)
        self.sent += RECORDS

    def kill(self, process: SinkProcess) -> None:
        """Some moment after somebody has begun to work."""
        before, until = self.work(), time.monotonic() + IDLE_S
        eventually(lambda: self.work() != before or time.monotonic() > until, what=process.output)
        time.sleep(self.draw.uniform(0, 0.5))
        process.signal_all(signal.SIGKILL)
        assert process.wait() in (-signal.SIGKILL, 0), process.output()

    def work(self) -> list[str]:
        """What is in the bucket, uploads among it, but for heartbeats."""
        with closing(S3Store(store_options(self.settings))) as store:
            state = state_paths(self.settings)
            here = [info.key for info in store.list("") if info.key not in (state.heartbeat(), state.control())]
            return [*here, *(upload.id for upload in store.pending(""))]

    def done(self, *words: str) -> str:
        """A command to its end; once more where what a killed one had asked for came first."""
        for _ in range(TRIES):
            process = self.command(*words)
            if process.wait() == 0:
                return process.output()
            assert "Nothing has changed; repeat the command." in process.output(), process.output()
        raise AssertionError(process.output())

    def entries(self) -> list[CommitEntry]:
        with closing(S3Store(store_options(self.settings))) as store:
            return list(CommitLog(store, state_paths(self.settings), clock_ms=now_ms).entries())

    def has_read_all(self) -> bool:
        totals = [entry.totals.read for entry in self.entries()]
        return sum(totals) == self.expected()

    def expected(self) -> int:
        before = RECORDS * (ROUNDS // 2)
        return before + (self.sent - before) * (PEOPLE - 1) // PEOPLE


@pytest.fixture
def scene(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> Iterator[Scene]:
    config = {
        **BASE, **FIELD, "name": "people", "topics": topic("people", PARTITIONS), "flush.size": "3", "s3.bucket.name": bucket,
        "store.url": s3.endpoint_url, "kafka.bootstrap.servers": kafka.bootstrap_servers, "rewrite.grace.ms": "500",
        "s3.compression.type": "gzip", "poll.interval.ms": "100", "heartbeat.interval.ms": "1000",
    }  # fmt: skip
    scene = Scene(config, tmp_path)
    yield scene
    scene.driver.__exit__()  # the last one, if a check failed before its end


@pytest.mark.nightly  # by day the schedules of tests/unit/engine/loop kill them at every step
def test_killed_drivers_compactions_and_erasures_lose_nothing_double_nothing_and_leave_nothing(scene: Scene) -> None:
    forget = ("forget", "--where", f"who = {FORGOTTEN}", "--yes")
    for number in range(ROUNDS):
        scene.send(without=FORGOTTEN if number >= ROUNDS // 2 else None)
        words = forget if number >= ROUNDS // 2 else COMPACTIONS[number % len(COMPACTIONS)]
        command = scene.command(*words)
        for victim in scene.draw.sample([command, scene.driver], 2):
            scene.kill(victim)
        scene.driver = scene.drive()
    eventually(scene.has_read_all, what=scene.driver.output)
    scene.done(*forget)
    scene.done(*COMPACTIONS[1])
    with closing(S3Store(store_options(scene.settings))) as store:
        log = CommitLog(store, state_paths(scene.settings), clock_ms=now_ms)
        eventually(lambda: log.load().replaced == {}, what=scene.driver.output)
        scene.driver.signal_all(signal.SIGKILL)
        scene.driver.wait()
        scene.done("sweep", "--older-than", "1s")
        entries, paths = scene.entries(), state_paths(scene.settings)
        live = [one.file for one in live_objects(entries).values()]
        held = Counter[int]()
        for file in live:
            lines = gzip.decompress(store.get(file.key)).splitlines()
            held.update(json.loads(line)["n"] for line in lines)
        assert held == Counter(n for n in range(scene.sent) if n % PEOPLE != FORGOTTEN)
        assert {info.key for info in store.list("topics/")} == {file.key for file in live}
        assert list(store.pending("topics/")) == []
        assert list(store.list(paths.rewrite_requests())) == []
    swaps = [entry for entry in entries if entry.kind is EntryKind.REWRITE and entry.swaps]
    assert {entry.reason for entry in swaps} == {"compaction", "erasure"}
    assert any(file.slices for file in live), "files of both partitions are one"
    verified = " ".join(scene.done("verify").split())
    erased = re.findall(r"(\d+) records and dead letters that it counts were erased", verified)
    assert sum(map(int, erased)) == RECORDS * ROUNDS // 2 // PEOPLE, verified
