"""How are sinks in other languages run beside ours? Each is built from its registry, and set up as its own documents advise for speed.

- **Go**: Benthos 4.24, the last of its versions whose Kafka and S3 parts have the MIT licence (Redpanda Connect is the same program, but
  those parts are under a licence that is not open), over the newest franz-go. Batches are made by the input, a topic-partition each, as its
  page on batching advises; several are sent at once.
- **Rust**: mq-bridge 1.3 over librdkafka and object_store, with the allocator of its own benchmarks. One object is one batch of the route.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.measuring import Cost
from tests.benchmarks.support import BUCKET
from tests.benchmarks.topics import FIELDS
from tests.support.repository import ROOT

SOURCES: Final = ROOT / "tests" / "benchmarks" / "peers"
BUILT: Final = ROOT / "build" / "peers"
BYTES, GZIP, PARQUET, SMALL = "bytes", "gzip", "parquet", "small files"
FILE, SMALL_FILE = 50_000, 1_000
"""Records a file. A topic-partition has a multiple of these: with a period for the last ones Benthos panics (Ticker.Reset) under load."""
LOOK_S: Final = 0.2
PATIENCE_S: Final = 600.0


@dataclass(frozen=True)
class Job:
    """What a peer shall do: which path, from which topic, into which folder of the bucket."""

    path: str
    servers: str
    topic: str
    folder: str

    @property
    def records_a_file(self) -> int:
        """As it is set; batches of the Rust peer may be smaller."""
        return SMALL_FILE if self.path == SMALL else FILE


@dataclass(frozen=True)
class Peer:
    """A sink in another language: how its program is built, and what it is given. Its configuration is YAML, of which JSON is a part."""

    name: str
    build: Callable[[], Path]
    configuration: Callable[[Job, EmbeddedS3], Mapping[str, Any]]
    arguments: tuple[str, ...] = ()

    def run(self, program: Path, job: Job, objects: EmbeddedS3, scratch: Path, *, is_done: Callable[[], bool]) -> Cost:
        """Runs until it is done, then interrupts it, and counts the process from its start to its end."""
        file = scratch / f"{job.folder}.yaml"
        file.write_text(json.dumps(self.configuration(job, objects)))
        began = time.monotonic()
        with (scratch / f"{job.folder}.log").open("wb") as log:
            process = subprocess.Popen(
                [program, *self.arguments, file], stdout=log, stderr=log, env=_surroundings(objects)
            )
            try:
                while not is_done():
                    assert process.poll() is None, f"{self.name} ended: {file.with_suffix('.log').read_text()[-2000:]}"
                    assert time.monotonic() < began + PATIENCE_S, f"{self.name} did not come to an end of {job}"
                    time.sleep(LOOK_S)
                wall = time.monotonic() - began
                process.send_signal(signal.SIGINT)
            except BaseException:
                process.kill()
                raise
            finally:
                if process.returncode is None:
                    _, _, used = os.wait4(process.pid, 0)
                    process.returncode = 0
        return Cost(used.ru_utime + used.ru_stime, wall)


def _surroundings(objects: EmbeddedS3) -> dict[str, str]:
    own = {"AWS_ENDPOINT_URL": objects.endpoint_url, "AWS_ENDPOINT": objects.endpoint_url, "AWS_ALLOW_HTTP": "true"}
    return {**os.environ, **objects.environment, **own, "AWS_REGION": "us-east-1"}


# ------------------------------------------------------------ Go


def _build_go() -> Path:
    program = BUILT / "go-peer"
    linking = (
        "-ldflags=-checklinkname=0"  # its Parquet library calls functions of Go's runtime, which Go refuses since 1.23
    )
    subprocess.run(["go", "build", "-trimpath", linking, "-o", program, "."], cwd=SOURCES / "go", check=True)
    return program


_GO_TYPES: Final = {"int64": "INT64", "int32": "INT32", "double": "DOUBLE", "string": "UTF8"}


def _go_configuration(job: Job, objects: EmbeddedS3) -> dict[str, Any]:
    columns = [{"name": name, "type": _GO_TYPES[kind], "optional": True} for name, kind in FIELDS.items()]
    lines: dict[str, Any] = {"archive": {"format": "lines"}}
    whole = {
        BYTES: [lines],
        SMALL: [lines],
        GZIP: [lines, {"compress": {"algorithm": "pgzip"}}],
        PARQUET: [{"parquet_encode": {"schema": columns, "default_compression": "zstd"}}],
    }[job.path]
    ending = {GZIP: "json.gz", PARQUET: "parquet"}.get(job.path, "json")
    name = f'{job.folder}/${{! meta("kafka_partition") }}-${{! meta("kafka_offset") }}.{ending}'
    return {
        "http": {"enabled": False},
        "logger": {"level": "WARN"},
        "input": {"kafka_franz": {
            "seed_brokers": job.servers.split(","), "topics": [job.topic], "consumer_group": job.folder,
            "checkpoint_limit": 8 * FILE, "commit_period": "500ms",
            "batching": {"count": job.records_a_file, "processors": whole},
        }},
        "output": {"aws_s3": {
            "bucket": BUCKET, "path": name, "region": "us-east-1", "endpoint": objects.endpoint_url, "force_path_style_urls": True,
            "max_in_flight": 64,
        }},
    }  # fmt: skip


# ------------------------------------------------------------ Rust


def _build_rust() -> Path:
    folder = BUILT / "rust"  # a copy: Cargo writes a lock beside the manifest
    shutil.copytree(SOURCES / "rust", folder, dirs_exist_ok=True)
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=folder, check=True)
    return folder / "target" / "release" / "rust-peer"


def _rust_configuration(job: Job, _objects: EmbeddedS3) -> dict[str, Any]:
    form = {PARQUET: {"format": "parquet", "compression": "zstd"}, GZIP: {"format": "raw", "compression": "gzip"}}
    return {"peer": {
        "batch_size": job.records_a_file,
        "input": {"kafka": {
            "url": job.servers, "topic": job.topic, "group_id": job.folder,
            "consumer_options": [["auto.offset.reset", "earliest"], ["queued.min.messages", "200000"]],
        }},
        "output": {"object_store": {
            "url": f"s3://{BUCKET}/{job.folder}", "date_partition": False, **form.get(job.path, {"format": "raw"}),
        }},
    }}  # fmt: skip


PEERS: Final = (
    Peer("Go, Benthos", _build_go, _go_configuration, ("-c",)),
    Peer("Rust, mq-bridge", _build_rust, _rust_configuration),
)
