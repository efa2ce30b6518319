"""What do all sessions of the dashboard share? The bucket, one reader of the sinks, one history for each sink that is looked at.

What a page had to ask the bucket for it shows at once if it is known, else as soon as it comes; no page waits for it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final, TypeVar

import streamlit as st

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.timing import now_ms
from kafka_s3_dashboard.reading.background import FIRST_S, Answers
from kafka_s3_dashboard.reading.bucket import OpenBucket, opened
from kafka_s3_dashboard.reading.delta import TableLogs
from kafka_s3_dashboard.reading.history import History
from kafka_s3_dashboard.reading.letters import LetterDecoder
from kafka_s3_dashboard.reading.watch import Watch

MOST: Final = 64
LOOKS_S: Final = 1.0
T = TypeVar("T")


class KeptResults:
    """Results by their key, of one state of a log: another state begins with none, and beyond MOST the one used longest ago goes.

    Thread-safe; whoever asks at once may work it out twice.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._state: object = None
        self._results: OrderedDict[Hashable, Any] = OrderedDict()

    def of(self, state: object, key: Hashable, *, make: Callable[[], T]) -> T:
        """The result of this key for this state (by its identity), made if it is not there."""
        with self._lock:
            if self._state is not state:
                self._state, self._results = state, OrderedDict()
            results = self._results
            if key in results:
                results.move_to_end(key)
                found: T = results[key]
                return found
        made = make()
        with self._lock:
            results[key] = made
            while len(results) > MOST:
                results.popitem(last=False)
        return made


Variables = tuple[tuple[str, str], ...]


@st.cache_resource(show_spinner=False)
def bucket(variables: Variables) -> OpenBucket:
    """The bucket that the surroundings name. Raises ConfigError."""
    return opened(dict(variables))


@st.cache_resource(show_spinner=False, on_release=Watch.close)
def watch(variables: Variables) -> Watch:
    """The reader of all sinks."""
    shown = bucket(variables)
    return Watch(shown.reader, shown.folder.prefix, clock_ms=now_ms)


@st.cache_resource(show_spinner=False, max_entries=4, on_release=History.close)
def history(variables: Variables, sink: str) -> History:
    """The reader of one sink's log."""
    shown = bucket(variables)
    return History(shown.reader, StatePaths(shown.folder.prefix, sink), clock_ms=now_ms)


@st.cache_resource(show_spinner=False, max_entries=4, on_release=TableLogs.close)
def table_logs(variables: Variables, sink: str) -> TableLogs:
    """The reader of the logs of one sink's Delta tables."""
    return TableLogs(bucket(variables).reader, sink)


@st.cache_resource(show_spinner=False, max_entries=4)
def kept(variables: Variables, sink: str) -> KeptResults:
    """What was worked out of one sink's log."""
    del variables, sink  # they tell the sinks apart
    return KeptResults()


@st.cache_resource(show_spinner=False, on_release=Answers.close)
def answers(variables: Variables) -> Answers:
    """Who asks the bucket for single objects, and keeps what came."""
    del variables
    return Answers("answers", threads=4, most=64)


@st.cache_resource(show_spinner=False, on_release=Answers.close)
def letters(variables: Variables) -> Answers:
    """Who reads dead letters, for all sessions: of the four answers that are kept each is bounded in bytes (`reading.letters`)."""
    del variables
    return Answers("letters", threads=2, most=4)


@st.cache_resource(show_spinner=False, max_entries=4)
def decoder(variables: Variables, sink: str, _settings: Settings) -> LetterDecoder:
    """The registry converters of a configuration. Raises ConfigError, ValueError."""
    del variables, sink
    return LetterDecoder(resolved(_settings))


def asked(
    by: Answers,
    key: tuple[Hashable, ...],
    make: Callable[[], T],
    *,
    what: str,
    again_s: float = math.inf,
    wait_s: float = FIRST_S,
) -> T | None:
    """The answer; None while it is on its way: the page says so, and draws itself again when it is there. Raises what `make` raised."""
    found = by.of(key, make, again_s=again_s, wait_s=wait_s)
    if found is None:
        st.caption(f":material/hourglass_top: {what} ...")
        st.fragment(lambda: _look(by, key), run_every=LOOKS_S, key=f"asked-{hash(key)}")()
    return found


def _look(by: Answers, key: Hashable) -> None:
    if by.ready(key):
        st.rerun()
