"""A stream of committed records into a Delta table, killed again and again beside a running sink: every record once."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest
import typer
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from typer.testing import CliRunner

from kafka_s3.cli.audit import verify
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.files import Reason
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import brokers_of
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.s3 import S3Store
from tests.support.configurations import BASE
from tests.support.direct_sink import OwnProcess
from tests.support.kafka import Given, document, produce
from tests.support.sink_process import SinkProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3

JOB = str(Path(__file__).parent / "streaming_job.py")
PARTITIONS = 2
FILE = 60
"""Records of a file."""


class Table:
    """The Delta table as a reader without Spark has it."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "table")

    @property
    def version(self) -> int:
        try:
            return int(DeltaTable(self._path).version())
        except TableNotFoundError:
            return -1

    def rows(self) -> Counter[tuple[int, int, int]]:
        if self.version < 0:
            return Counter()
        found = DeltaTable(self._path).to_pyarrow_table(columns=["_partition", "_offset", "n"])
        return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


class RunningSink:
    """A sink at work in a thread, without Spark, while records come: so many files a minute."""

    def __init__(self, config: dict[str, str], servers: str, topic: str) -> None:
        self.sent = 0
        self._config, self._servers, self._topic = config, servers, topic
        self._over, self._error = Event(), list[BaseException]()

    @contextmanager
    def at_work(self, *, files_a_minute: int) -> Iterator[None]:
        threads = [
            Thread(target=self._guarded, args=(work,)) for work in (self._sink, lambda: self._send(files_a_minute))
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
        assert not self._error, self._error

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._error.append(error)

    def _send(self, files_a_minute: int) -> None:
        """A file's worth for one partition after the other."""
        while not self._over.wait(60 / files_a_minute):
            partition = self.sent // FILE % PARTITIONS
            produce(self._servers, self._topic, [Given(document(n=self.sent + n), partition) for n in range(FILE)])
            self.sent += FILE

    def _sink(self) -> None:
        settings = resolved(validate(self._config).usable())
        store = S3Store(store_options(settings))
        sink = build_sink(
            settings, brokers_of(settings), source=OwnProcess(settings, store), store=store, clock_ms=now_ms
        )
        sink.open()
        while not self._over.wait(0.5):
            sink.poll()
            sink.drain(close=None)
        sink.poll()
        sink.drain(close=Reason.FLUSH_NOW)


def verified(path: Path) -> dict[str, Any]:
    app = typer.Typer()
    app.command()(verify)
    done = CliRunner().invoke(app, [str(path), "--output", "json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.nightly
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("seconds", [pytest.param(20, id="short"), pytest.param(600, id="ten minutes")])
def test_a_stream_that_is_killed_three_times_has_every_record_once_in_its_table(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path, seconds: int
) -> None:
    name = topic("stream", PARTITIONS)
    places = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "s3.bucket.name": bucket,
        "store.url": s3.endpoint_url,
    }
    config = {**BASE, "name": "streamed", "topics": name, **places, "flush.size": str(FILE)}
    file = tmp_path / "sink.json"
    file.write_text(json.dumps(config))
    table, job = Table(tmp_path), SinkProcess([JOB, str(file), name, str(tmp_path)], tmp_path / "job.log")
    sink, begun = RunningSink(config, kafka.bootstrap_servers, name), time.monotonic()
    with sink.at_work(files_a_minute=100):
        for kill in range(1, 4):
            before = table.version
            job.start()
            eventually(lambda: table.version > before + 1, seconds=600, what=job.output)  # noqa: B023
            while time.monotonic() - begun < seconds * kill / 4:
                time.sleep(0.1)
            job.signal_all(signal.SIGKILL)
            job.wait()
        while time.monotonic() - begun < seconds:
            time.sleep(0.1)
    job.start()
    try:
        eventually(lambda: table.rows().total() >= sink.sent, seconds=600, what=job.output)
    finally:
        job.signal_all(signal.SIGKILL)
        job.wait()
    found = table.rows()
    assert set(found.values()) == {1}, "nothing twice"
    assert sorted(n for _, _, n in found) == list(range(sink.sent))
    assert {(n // FILE % PARTITIONS, n // FILE // PARTITIONS * FILE + n % FILE, n) for n in range(sink.sent)} == set(
        found
    )
    report = verified(file)
    assert sum(one["compared"] for one in report["partitions"]) == len(found), "row for row what verify counts"
    print(f"{sink.sent:,} records, {table.version + 1} versions of the table; verify: {json.dumps(report)[:400]}")
