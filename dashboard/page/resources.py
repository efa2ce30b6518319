"""What do all sessions of the dashboard share? The place, one reader of the sinks, one history for each sink that is looked at."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.timing import now_ms
from page.kept import KeptResults
from reading.answers import Answers
from reading.decoding import LetterDecoder
from reading.delta_versions import TableLogs
from reading.history import History
from reading.place import Opened, opened
from reading.watch import Watch

Variables = tuple[tuple[str, str], ...]


@st.cache_resource(show_spinner=False)
def place(variables: Variables) -> Opened:
    """The place that the surroundings name. Raises ConfigError."""
    return opened(dict(variables))


@st.cache_resource(show_spinner=False, on_release=Watch.close)
def watch(variables: Variables) -> Watch:
    """The reader of all sinks."""
    at = place(variables)
    return Watch(at.reader, at.place.prefix, clock_ms=now_ms)


@st.cache_resource(show_spinner=False, max_entries=4, on_release=History.close)
def history(variables: Variables, sink: str) -> History:
    """The reader of one sink's log."""
    at = place(variables)
    return History(at.reader, StatePaths(at.place.prefix, sink), clock_ms=now_ms)


@st.cache_resource(show_spinner=False, max_entries=4, on_release=TableLogs.close)
def table_logs(variables: Variables, sink: str) -> TableLogs:
    """The reader of the logs of one sink's Delta tables."""
    return TableLogs(place(variables).reader, sink)


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
def decoder(variables: Variables, sink: str, _make: Callable[[], LetterDecoder]) -> LetterDecoder:
    """The registry converters of a configuration. Raises ConfigError, ValueError."""
    del variables, sink
    return _make()
