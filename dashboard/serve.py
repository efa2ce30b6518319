"""How is the first visitor served as quickly as the next? All is imported, and the newest entries are read, before the server listens.

`python serve.py run app.py ...` takes what `streamlit run app.py ...` takes, and shows the same.
"""

from __future__ import annotations

import gc
import importlib
import logging
import sys
import time
from threading import Event, Thread
from typing import Final

import streamlit as st
from streamlit.web import cli

from kafka_s3.model.errors import SinkError
from kafka_s3_dashboard.page import resources
from kafka_s3_dashboard.reading.background import PAGES_FIRST
from kafka_s3_dashboard.reading.bucket import surroundings

VIEWS: Final = ("fleet", "overview", "rotation", "dead_letters", "layout", "tables", "commits", "configuration")
QUICK_TURNS_S: Final = 0.001
"""Many threads read: whoever waits for a page shall not wait for a long turn of each of them."""
READ_S: Final = 2.0
"""A bucket that answers later does not keep the server from listening."""
START_S: Final = 2.0
"""What Streamlit itself takes to start, in which the many older entries are not read yet."""
_log = logging.getLogger(__name__)


def main() -> None:
    """Serves until Ctrl-C."""
    sys.setswitchinterval(QUICK_TURNS_S)
    known = Event()
    Thread(target=_begin_to_read, args=[known], name="begin", daemon=True).start()
    for view in VIEWS:
        importlib.import_module(f"kafka_s3_dashboard.views.{view}")
    known.wait(READ_S)  # a visitor who came now would wait as long
    gc.freeze()  # Streamlit collects garbage after each run of a page: what was imported need not be looked through every time
    try:
        cli.main(prog_name="streamlit")
    finally:  # threads that read would complain that the interpreter takes no more work
        st.cache_resource.clear()


def _begin_to_read(known: Event) -> None:
    """Looks for the sinks, and reads the log of the one that was named; whatever is wrong with them, pages say."""
    variables = surroundings()
    with PAGES_FIRST.drawing():
        try:
            bucket = resources.bucket(variables)
            watch = resources.watch(variables)
            watch.ask(0)
            if bucket.sink:
                resources.history(variables, bucket.sink).ask(READ_S)
            watch.ask(READ_S)
        except SinkError as error:
            _log.info("Nothing is read before the first visit: %s", error)
        finally:
            known.set()
        time.sleep(START_S)


if __name__ == "__main__":
    main()
