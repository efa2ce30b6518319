"""How quick is the dashboard on a log of 50,000 entries and 500,000 files? Figures for docs/dashboard.md."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.dashboard.big_log import big_log
from tests.dashboard.browser import chromium, served

ENTRIES, FILES = 50_000, 10


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Such a log on an S3 server, whose bucket is a folder."""
    from kafka_s3.embedded.s3 import EmbeddedS3, Engine

    with EmbeddedS3(engine=Engine.VERSITYGW) as server:
        server.create_bucket("big")
        assert server._folder is not None
        folder = server._folder / "objects" / "big"
        for key, content in big_log(ENTRIES, FILES, until_ms=time.time_ns() // 1_000_000).objects.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield server.endpoint_url


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
def test_first_paint_and_filters_on_half_a_million_files(endpoint: str, tmp_path: Path) -> None:
    arguments = ["--bucket", "big", "--store-url", endpoint, "--region", "us-east-1"]
    environment = {"KAFKA_S3_DASHBOARD_CACHE": str(tmp_path / "cache")}
    for start in ("cold", "warm"):
        with (
            served(arguments, environment, tmp_path / f"{start}.log") as url,
            chromium(url, tmp_path) as browser,
        ):
            browser.visit(sink="none")  # so that the browser has Streamlit's scripts, as every later day
            began = time.monotonic()
            browser.visit(range="everything", refresh="off")
            print(f"\n{start}: first paint {time.monotonic() - began:.2f} s (the browser's share included)")
            while "Reading the history" in browser.text():
                time.sleep(5)
                browser.visit(range="everything", refresh="off")
            print(f"{start}: whole log after {time.monotonic() - began:.1f} s")
            if start == "warm":
                for page in ("", "rotation", "dead-letters", "layout", "commits"):
                    began = time.monotonic()
                    browser.visit(page, range="everything", refresh="off")
                    paint = time.monotonic() - began
                    began = time.monotonic()
                    browser.visit(page, range="everything", refresh="off", topics="orders")
                    print(f"{page or 'overview'}: paint {paint:.2f} s, with a filter {time.monotonic() - began:.2f} s")
            servers = [
                one
                for one in psutil.Process(os.getpid()).children(recursive=True)
                if "streamlit" in " ".join(one.cmdline())
            ]
            memory = max(one.memory_info().rss for one in servers)
            print(f"{start}: memory of the server {memory / 1e6:.0f} MB")
            assert memory < 500e6
