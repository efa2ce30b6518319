"""How quickly do a sink and the dashboard start on a log of 1,000,000 entries and 10,000,000 files? Prints figures of docs/log-tables.md.

`KAFKA_S3_LONG_LOG` names a folder that has such a log already; else it is made, which takes ten minutes.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.memory import MemoryKafka
from kafka_s3_testing.services.process import free_ports
from kafka_s3_testing.services.s3 import REGION, EmbeddedS3
from tests.benchmarks.test_dashboard import PAINTED, memory, painted
from tests.support.browser import chromium, served
from tests.support.long_log import PATHS, long_log
from tests.support.memory_world import settings_of
from tests.support.s3_servers import strict_engine

ENTRIES, FILES = 1_000_000, 10
START_S = 3.0
BUCKET = "long"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedS3]:
    """Such a log on an S3 server, whose bucket is a folder."""
    with EmbeddedS3(engine=strict_engine()) as server:
        server.create_bucket(BUCKET)
        folder = server.folder / BUCKET
        if given := os.environ.get("KAFKA_S3_LONG_LOG"):
            shutil.copytree(given, folder, copy_function=os.link, dirs_exist_ok=True)
        else:
            _made(folder)
        yield server


def _made(folder: Path) -> None:
    for key, content in long_log(ENTRIES, FILES, until_ms=now_ms()):
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.fixture
def store(server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return S3Store(StoreOptions(BUCKET, region=REGION, endpoint_url=server.endpoint_url))


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
def test_a_sink_starts_quickly_on_a_long_log(store: S3Store) -> None:
    settings = settings_of({"name": PATHS.sink, "topics": "clicks,orders", "flush.size": "5000"})
    log = CommitLog(store, PATHS, clock_ms=now_ms)
    began = time.monotonic()
    progress = log.load().progress
    print(f"\nthe log's state: {time.monotonic() - began:.2f} s of entry {log.state.version:,}")
    kafka = MemoryKafka(lambda: make_pipeline(settings), store)
    for tp, place in progress.items():
        kafka.create(tp, start=place.frontier)
    sink = build_sink(settings, kafka, source=kafka, store=store, clock_ms=now_ms)
    began = time.monotonic()
    sink.open()
    took = time.monotonic() - began
    print(f"the sink is open: {took:.2f} s")
    assert took < START_S


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
def test_the_dashboard_paints_quickly_on_a_long_log(server: EmbeddedS3, tmp_path: Path) -> None:
    arguments = [PATHS.sink, "--bucket", BUCKET, "--store-url", server.endpoint_url, "--region", REGION]
    (port,) = free_ports(1)
    with chromium(f"http://127.0.0.1:{port}", tmp_path, recorded=False) as browser:
        browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": PAINTED})
        for start in ("unmeasured", "cold"):  # the browser has Streamlit's scripts, as on every later day
            with served(arguments, server.environment, tmp_path / f"{start}.log", port=port):
                took = painted(browser, "")
                if start == "unmeasured":
                    continue
                print(f"\nfirst paint {took:.2f} s")
                began = time.monotonic()
                while "entries are shown, with" not in browser.text():
                    time.sleep(5)
                    browser.visit(range="everything", refresh="off")
                print(f"the newest million files after {time.monotonic() - began:.0f} s more, {memory() / 1e6:.0f} MB")
    assert took < START_S
