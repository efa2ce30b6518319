"""How quickly are 200 sinks of one bucket listed, watched and shown? Prints the seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_s3.cli.status import healths
from kafka_s3.engine.control.status import SinkState
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import named_folder
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.process import free_ports
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.browser import chromium, served
from tests.support.fleet import fleet_objects
from tests.support.s3_servers import strict_engine
from tests.support.sink_process import SinkProcess

SINKS, LIMIT_S = 200, 5.0


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Such a bucket on an S3 server, whose bucket is a folder."""
    with EmbeddedS3(engine=strict_engine()) as server:
        server.create_bucket("fleet")
        assert server._folder is not None
        folder = server._folder / "objects" / "fleet"
        for key, content in fleet_objects(SINKS, now_ms=now_ms()):
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield server.endpoint_url


@pytest.mark.benchmark
@pytest.mark.timeout(600)
def test_two_hundred_sinks_are_listed_watched_and_shown(endpoint: str, tmp_path: Path) -> None:
    place = ["--bucket", "fleet", "--store-url", endpoint, "--region", "us-east-1"]
    began = time.monotonic()
    with SinkProcess(["-m", "kafka_s3", "list", *place], tmp_path / "list.log") as process:
        assert process.wait(240) == 0, process.output()
    listed_s = time.monotonic() - began
    assert process.output().count("orders-") == SINKS

    folder = named_folder("fleet", region="us-east-1", store_url=endpoint)
    began = time.monotonic()
    found = healths(folder)
    watched_s = time.monotonic() - began
    assert isinstance(folder.store, S3Store)
    requests = sum(one.count for one in folder.store.requests.taken().durations.values())
    assert [one.state for one in found.values()] == [SinkState.RUNNING] * SINKS

    (port,) = free_ports(1)
    environment = {"KAFKA_S3_DASHBOARD_CACHE": str(tmp_path / "cache")}
    with (
        chromium(f"http://127.0.0.1:{port}", tmp_path, recorded=False) as browser,
        served(place, environment, tmp_path / "dashboard.log", port=port),
    ):
        began = time.monotonic()
        browser.visit(refresh="off")
        shown = f"Sinks in this bucket ({SINKS})"
        browser.until(
            lambda: shown in browser.text() and "They are being read" not in browser.text(),
            what="all sinks",
            seconds=60,
        )
        shown_s = time.monotonic() - began
    reported = f"list {listed_s:.1f} s, a look of watch {watched_s:.1f} s with {requests} requests, overview page {shown_s:.1f} s"
    print(f"\n{SINKS} sinks: {reported}", file=sys.stderr)
    assert max(listed_s, watched_s, shown_s) < LIMIT_S, reported
