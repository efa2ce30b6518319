"""Do the commands for named sinks steer and tell the truth of a real sink process, through nothing but the bucket?"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from kafka_s3.cli.control import create, delete, flush, pause, resume
from kafka_s3.cli.position import position
from kafka_s3.cli.status import list_, status
from tests.support.bucket import Bucket
from tests.support.configurations import BASE, STATE
from tests.support.kafka import Given, document, produce
from tests.support.sink_process import SinkProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3

INTERVAL_MS = 400
app = typer.Typer()
app.command(name="list")(list_)
for command in (status, create, pause, resume, delete, flush):
    app.command()(command)


@dataclass
class Named:
    """A sink with a bucket and a topic of its own."""

    servers: str
    endpoint: str
    bucket: Bucket
    topic: str
    folder: Path

    @property
    def config(self) -> Path:
        """Its configuration file."""
        path = self.folder / "orders.json"
        config = {
            **BASE, "name": "orders", "topics": self.topic, "flush.size": "5", "kafka.bootstrap.servers": self.servers,
            "s3.bucket.name": self.bucket.name, "store.url": self.endpoint, "poll.interval.ms": "100",
            "heartbeat.interval.ms": str(INTERVAL_MS),
        }  # fmt: skip
        path.write_text(json.dumps(config))
        return path

    @property
    def place(self) -> list[str]:
        """The options that say where the sink's state lies."""
        return ["--bucket", self.bucket.name, "--store-url", self.endpoint, "--region", "us-east-1"]

    def process(self, name: str, *sink: str) -> SinkProcess:
        """A process of `kafka-s3 run`, of the configuration file where no other words say which sink."""
        words = ["-m", "kafka_s3", "run", *(sink or [str(self.config)]), "--log-format", "json", "--cores", "1"]
        return SinkProcess(words, self.folder / f"{name}.log")

    def by_name(self, *words: str) -> Result:
        """A command that names sink and bucket, without a configuration."""
        return CliRunner().invoke(app, [*words, *self.place])

    def reported(self) -> dict[str, Any]:
        """What `status --json` says."""
        found: dict[str, Any] = json.loads(self.by_name("status", "orders", "--output", "json").stdout)
        return found

    def becomes(self, state: str) -> dict[str, Any]:
        """Waits until the sink is in a state."""
        eventually(lambda: self.reported()["status"] == state, what=lambda: str(self.reported()))
        return self.reported()

    def produce(self, numbers: range) -> None:
        """Sends records."""
        produce(self.servers, self.topic, [Given(document(n=n)) for n in numbers])

    def sizes(self) -> list[int]:
        """The records of each object."""
        return [len(rows) for rows in self.bucket.contents().values()]

    def state_keys(self) -> set[str]:
        """What lies directly in the sink's folder of the state."""
        root = f"{STATE}orders/"
        return {key.removeprefix(root).partition("/")[0] for key in self.bucket.listing() if key.startswith(root)}


@pytest.fixture
def sink(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> Iterator[Named]:
    content = Bucket(s3.endpoint_url, bucket)
    yield Named(kafka.bootstrap_servers, s3.endpoint_url, content, topic("controlled"), tmp_path)
    content.close()


def started(
    kafka: EmbeddedKafka, s3: EmbeddedS3, folder: Path, values: list[bytes]
) -> Iterator[tuple[Named, SinkProcess]]:
    """A sink of its own at work on these records."""
    name = folder.name
    s3.create_bucket(name)
    kafka.create_topic(name, 1, config=None)
    content = Bucket(s3.endpoint_url, name)
    sink = Named(kafka.bootstrap_servers, s3.endpoint_url, content, name, folder)
    produce(sink.servers, sink.topic, [Given(value) for value in values])
    with sink.process("run") as process:
        yield sink, process
    content.close()


@pytest.fixture(scope="module", autouse=True)
def broken(
    kafka: EmbeddedKafka, s3: EmbeddedS3, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Named, SinkProcess]]:
    """A sink that meets a broken record. It is started first, because a process with Spark takes its time."""
    values = [document(n=0), document(n=1), b"{broken", document(n=3), document(n=4)]
    yield from started(kafka, s3, tmp_path_factory.mktemp("broken"), values)


@pytest.fixture(scope="module", autouse=True)
def healthy(
    kafka: EmbeddedKafka, s3: EmbeddedS3, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Named, SinkProcess]]:
    """A sink that works, started as early."""
    yield from started(kafka, s3, tmp_path_factory.mktemp("healthy"), [document(n=n) for n in range(7)])


def succeeded(result: Result) -> str:
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def test_a_running_sink_is_paused_resumed_flushed_and_missed_when_it_is_killed(sink: Named) -> None:
    created = succeeded(CliRunner().invoke(app, ["create", str(sink.config)]))
    assert "stored as" in created
    assert f"kafka-s3 run orders --bucket {sink.bucket.name} --store-url {sink.endpoint}" in created
    assert sink.reported()["status"] == "PROVISIONING"
    sink.produce(range(7))
    sink.config.unlink()  # it runs from what is stored
    with sink.process("run", "orders", *sink.place) as process:
        eventually(lambda: sink.sizes() == [5], what=process.output)
        running = sink.becomes("RUNNING")
        assert (running["heartbeat"]["pid"], running["configured"]) == (process.process.pid, True)  # type: ignore[union-attr]
        # the lag is the heartbeat's, which may be as of before the entry
        written = {"topic": sink.topic, "partition": 0, "frontier": 5, "written": 5, "dead_letters_ahead": 0, "lag": 2}
        eventually(lambda: sink.reported()["topic_partitions"] == [written], what=process.output)

        assert "Sink orders is paused." in succeeded(sink.by_name("pause", "orders"))
        versions = len(sink.bucket.entries("orders"))
        sink.produce(range(7, 17))
        time.sleep(1.5)
        assert (sink.sizes(), len(sink.bucket.entries("orders"))) == ([5], versions)
        assert sink.reported()["status"] == "PAUSED"
        refused = sink.by_name("flush", "orders")
        assert (refused.exit_code, "is paused" in str(refused.exception)) == (1, True)

        assert "Sink orders is running." in succeeded(CliRunner().invoke(app, ["resume", str(sink.config)]))
        eventually(lambda: sink.sizes() == [5, 5, 5])

        assert "has flushed" in succeeded(sink.by_name("flush", "orders"))
        assert sink.sizes() == [5, 5, 5, 2]
        assert [file["reason"] for file in sink.bucket.entries("orders")[-1]["files"]] == ["flush.now"]
        assert "is running" in str(sink.by_name("delete", "orders").exception)

        process.signal(signal.SIGKILL)
        killed = time.monotonic()
        assert process.wait() == -signal.SIGKILL
        assert str(running["heartbeat"]["pid"]) in sink.becomes("STALE")["reason"]
        assert time.monotonic() - killed > 2 * INTERVAL_MS / 1000
    assert "No sink orders is running" in str(sink.by_name("flush", "orders").exception)
    assert "Once started, it will be paused." in succeeded(sink.by_name("pause", "orders"))
    assert succeeded(sink.by_name("delete", "orders")).startswith("Sink orders: 3 objects")
    assert sink.state_keys() == {"commits", "published", "open-files.json", "settings"}  # all that the log goes on with
    assert sink.sizes() == [5, 5, 5, 2]


def test_a_flush_says_which_topic_it_could_not_read(sink: Named, tmp_path: Path) -> None:
    config = json.loads(sink.config.read_text())
    sink.produce(range(3))
    two = tmp_path / "two.json"
    two.write_text(json.dumps({**config, "topics": f"{sink.topic},{sink.topic}x"}))
    with sink.process("run", str(two)) as process:
        eventually(
            lambda: '"lag": 3' in sink.by_name("status", "orders", "--output", "json").stdout, what=process.output
        )
        flushed = sink.by_name("flush", "orders")
        assert flushed.exit_code == 1
        reported = str(flushed.exception)
        assert f"topic {sink.topic}x is not in Kafka, or may not be described; names like it: {sink.topic}" in reported
        assert "Every other record in Kafka" in reported
        assert sink.sizes() == [3]
        assert not sink.reported()["well"]


def test_a_sink_that_failed_says_why_and_can_be_deleted(broken: tuple[Named, SinkProcess]) -> None:
    sink, process = broken
    assert process.wait() == 1, process.output()
    failed = sink.reported()
    assert failed["status"] == "FAILED"
    assert failed["reason"].startswith("RecordError: Sink orders cannot pass over ")
    assert "offset 2" in failed["reason"]
    shown = succeeded(sink.by_name("status", "orders"))
    assert all(words in shown for words in ("FAILED", "offset 2", sink.topic, "frontier"))
    (heading, row) = [
        line for line in succeeded(sink.by_name("list")).splitlines() if "ame" in line or "orders" in line
    ]
    assert [cell.strip() for cell in heading.split("┃")[1:-1]] == ["ID", "Name", "Status", "Type", "Lag", "Last commit"]
    assert [cell.strip() for cell in row.split("│")[1:5]] == [failed["id"], "orders", "FAILED", "sink"]

    assert "--yes" in str(sink.by_name("delete", "orders", "--with-log").exception)
    assert "the log with them" in succeeded(sink.by_name("delete", "orders", "--with-log", "--yes"))
    assert sink.state_keys() == set()
    assert "No sink has state" in succeeded(sink.by_name("list"))
    gone = sink.by_name("status", "orders")
    assert "has no state in" in str(gone.exception)


def test_a_sink_whose_processes_are_all_asked_to_end_stops_cleanly_and_is_believed(
    healthy: tuple[Named, SinkProcess],
) -> None:
    sink, process = healthy
    running = sink.becomes("RUNNING")
    assert (running["lag"], running["lag_exact"]) == (2, True)
    process.signal_all(signal.SIGTERM)
    assert process.wait() == 0, process.output()
    assert "Traceback" not in process.output()
    stopped = sink.reported()
    assert (stopped["status"], stopped["well"], stopped["lag_exact"]) == ("STOPPED", True, False)

    moved = CliRunner().invoke(position, ["set", str(sink.config), sink.topic, "0", "2", "--yes"])  # without --force
    assert "of the commit log has it" in succeeded(moved)
    assert "the log with them" in succeeded(sink.by_name("delete", "orders", "--with-log", "--yes"))
    assert "nothing was removed" in succeeded(sink.by_name("delete", "orders", "--with-log", "--yes"))
