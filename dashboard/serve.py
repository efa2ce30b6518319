"""How is the first visitor served as quickly as the next? Everything is imported, and reading has begun, before the server listens.

`python serve.py run app.py ...` takes what `streamlit run app.py ...` takes, and shows the same.
"""

from __future__ import annotations

import gc
import importlib
import logging
import sys
from threading import Thread
from typing import Final

from streamlit.web import cli

from kafka_s3.errors import SinkError
from page import resources
from reading.place import surroundings

VIEWS: Final = ("overview", "rotation", "dead_letters", "layout", "commits", "configuration")
QUICK_TURNS_S: Final = 0.001
"""Many threads read: whoever waits for a page shall not wait for a long turn of each of them."""
_log = logging.getLogger(__name__)


def main() -> None:
    """Serves until Ctrl-C."""
    for view in VIEWS:
        importlib.import_module(f"views.{view}")
    gc.freeze()  # Streamlit collects garbage after each run of a page: what was imported need not be looked through every time
    sys.setswitchinterval(QUICK_TURNS_S)
    Thread(target=_begin_to_read, name="begin", daemon=True).start()
    cli.main(prog_name="streamlit")


def _begin_to_read() -> None:
    """Looks for the sinks, and reads the log of the one that was named; whatever is wrong with them, pages say."""
    variables = surroundings()
    try:
        at = resources.place(variables)
        resources.watch(variables).ask(0)
        if at.sink:
            resources.history(variables, at.sink).ask()
    except SinkError as error:
        _log.info("Nothing is read before the first visit: %s", error)


if __name__ == "__main__":
    main()
