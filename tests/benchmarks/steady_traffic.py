"""What does a sink do and need under steady traffic? A producer at a rate, the sink in processes of its own, samples from outside."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import psutil
from confluent_kafka import Producer

from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.support import BUCKET
from tests.benchmarks.topics import value
from tests.support.configurations import BASE, STATE
from tests.support.memory_limit import MemoryLimit
from tests.support.sink_process import SinkProcess
from tests.support.waiting import eventually

TICK = 0.1
MB = 1 << 20
IDLE = {"linger.ms": 20, "batch.size": 1 << 19, "queue.buffering.max.messages": 1_000_000, "message.max.bytes": 1 << 21}


class Traffic:
    """Sends orders at `rate` records a second to all partitions in turn, until it is left. A context manager; `sent` counts them."""

    def __init__(self, servers: str, topic: str, *, rate: int, partitions: int) -> None:
        self.sent = 0
        self._producer = Producer({"bootstrap.servers": servers, **IDLE})
        self._topic, self._rate, self._partitions = topic, rate, partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def record(self, number: int) -> dict[str, Any]:
        """Value, and what else is sent of the record of that number."""
        return {"value": value(number)}

    def send(self, records: int) -> None:
        """Sends so many at once."""
        for _ in range(records):
            while True:
                try:
                    self._producer.produce(
                        self._topic, **self.record(self.sent), partition=self.sent % self._partitions
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
            self.sent += 1
        self._producer.poll(0)

    def flush(self) -> None:
        """Waits until the broker has all of it."""
        assert self._producer.flush(120) == 0

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.flush()

    def _run(self) -> None:
        began, before = time.monotonic(), self.sent
        while not self._stop.wait(TICK):
            self.send(int((time.monotonic() - began) * self._rate) - (self.sent - before))


@dataclass(frozen=True, slots=True)
class Sample:
    """The sink at one moment: resident megabytes, threads and open files of all its processes, and what lies in the bucket for it."""

    seconds: float
    driver_mb: float
    java_mb: float
    workers_mb: float
    threads: int
    handles: int
    uploads: int
    states: int
    limited_mb: float
    """What all hold together, where they have a limit: memory that forked workers share is counted once."""


@dataclass
class RunningSink:
    """`kafka-s3 run` on this machine, its rounds as it logs them, and its processes."""

    server: EmbeddedS3
    config: dict[str, str]
    folder: Path
    limit: MemoryLimit | None = None
    process: SinkProcess = field(init=False)

    def __enter__(self) -> RunningSink:
        path = self.folder / f"{self.config['name']}.json"
        path.write_text(json.dumps(self.config))
        command = ["-m", "kafka_s3", "run", str(path), "--log-format", "json", "--cores", "2"]
        self.process = SinkProcess(command, self.folder / f"{self.config['name']}.log").start()
        if self.limit is not None:
            self.limit.add(self._pid)
        return self

    def __exit__(self, *error: object) -> None:
        self.process.__exit__(*error)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of the log so far that tell of such an event."""
        lines = self.process.output().splitlines()
        return [line for text in lines if text.startswith("{") and (line := json.loads(text))["event"] == name]

    def rounds(self) -> list[dict[str, Any]]:
        return self.events("round")

    def total(self, fact: str) -> int:
        """The sum of a fact over all rounds."""
        return sum(int(line[fact]) for line in self.rounds())

    def has_read(self, records: int) -> None:
        """Waits until so many records were read."""
        eventually(lambda: self.total("read") >= records, what=self.process.output, seconds=300)

    def cpu_seconds(self) -> float:
        """User and system of the sink's processes so far, those that ended included."""
        return sum(sum(process.cpu_times()[:4]) for process in self._alive())

    def sample(self, began: float) -> Sample:
        """How it is now; `began` is the monotonic time of the first sample."""
        driver, java, workers, threads, handles = 0, 0, 0, 0, 0
        for process in self._alive():
            with contextlib.suppress(psutil.Error):
                size = process.memory_info().rss
                threads, handles = threads + process.num_threads(), handles + process.num_fds()
                if process.pid == self._pid:
                    driver += size
                elif "java" in process.name():
                    java += size
                else:
                    workers += size
        pending, states = self._pending(), len(self.keys(self.open_folder))
        limited = self.limit.held / MB if self.limit is not None else 0.0
        return Sample(
            time.monotonic() - began, driver / MB, java / MB, workers / MB, threads, handles, pending, states, limited
        )

    @property
    def open_folder(self) -> str:
        return f"{STATE}{self.config['name']}/open/"

    def keys(self, prefix: str) -> dict[str, float]:
        """The objects below a prefix, with the time (epoch s) since which each is visible."""
        client = boto3.client("s3", endpoint_url=self.server.endpoint_url)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        found = {item["Key"]: item["LastModified"].timestamp() for page in pages for item in page.get("Contents", [])}
        client.close()
        return found

    def entries(self) -> Iterator[dict[str, Any]]:
        """The commit log."""
        client = boto3.client("s3", endpoint_url=self.server.endpoint_url)
        for key in sorted(self.keys(f"{STATE}{self.config['name']}/commits/")):
            yield json.loads(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        client.close()

    def _pending(self) -> int:
        client = boto3.client("s3", endpoint_url=self.server.endpoint_url)
        found = client.list_multipart_uploads(Bucket=BUCKET, Prefix=f"{self.config['topics.dir']}/").get("Uploads", [])
        client.close()
        return len(found)

    @property
    def _pid(self) -> int:
        assert self.process.process is not None
        return self.process.process.pid

    def _alive(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            me = psutil.Process(self._pid)
            return [me, *me.children(recursive=True)]
        return []


def configuration(servers: str, server: EmbeddedS3, topic: str, **more: str) -> dict[str, str]:
    """A sink of a topic that rotates by the schedule alone, in folders of its own."""
    return {
        **BASE, "name": topic, "topics": topic, "topics.dir": topic, "flush.size": "1000000000", "timezone": "UTC",
        "kafka.bootstrap.servers": servers, "s3.bucket.name": BUCKET, "store.url": server.endpoint_url, "tasks.max": "2",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat", "s3.compression.type": "gzip", **more,
    }  # fmt: skip
