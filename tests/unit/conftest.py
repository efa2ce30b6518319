"""Unit tests start nothing, no process and no server: what does belongs to tests/services. The interpreter itself keeps watch."""

from __future__ import annotations

import logging
import resource
import sys
from collections.abc import Iterator

import pytest

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind"}
watched = False


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    if watched and event in STARTS:
        what = (
            arguments[0] if event == "subprocess.Popen" else arguments[-1]
        )  # never the environment, which has secrets
        raise AssertionError(f"A unit test starts something ({event} {what}): move it to tests/services.")


sys.addaudithook(refuse)


def watch() -> Iterator[None]:
    global watched
    watched = True
    try:
        return (yield)
    finally:
        watched = False


pytest_runtest_setup = pytest.hookimpl(wrapper=True)(watch)
pytest_runtest_call = pytest.hookimpl(wrapper=True)(watch)


@pytest.fixture(autouse=True, scope="module")
def entries_one_by_one() -> Iterator[None]:
    """A bucket in memory answers at once: reading a log with threads costs four times as much. `engine/log/test_reading.py` has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kafka_s3.engine.log.reading.READ_THREADS", 1)
        yield


def pytest_collection_finish() -> None:
    """Each of Streamlit's sixty loggers stands alone, and would be given handlers of its own in every phase of every test."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("streamlit.") and isinstance(logger, logging.Logger):
            logger.propagate = True


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Files of this process may not grow beyond 64 KiB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
