"""When did something change? Marks for charts over time: another state of the sink, another schema of a topic, other settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pandas as pd

from kafka_s3.engine.control.heartbeat import StateSince
from kafka_s3.engine.control.stored_settings import NotedSettings, changes
from kafka_s3_dashboard.figures.data import Window
from kafka_s3_dashboard.reading.frames import data_files
from kafka_s3_dashboard.reading.groups import groups_by

STATE: Final = "state"
SCHEMA: Final = "schema"
SETTINGS: Final = "settings"
KINDS: Final = (STATE, SCHEMA, SETTINGS)
LOOKED_AT: Final = ("committed_ms", "topic", "partition", "schema")
"""The columns of files that tell of schemas, beside those of `reading.frames.KINDS`."""
NAMED: Final = 4
"""Where more changed within a bar of a chart, so many are named, and the others counted."""


def marks(
    files: pd.DataFrame, notes: Sequence[NotedSettings], states: Iterable[StateSince], window: Window
) -> pd.DataFrame:
    """The changes of a window, one mark for each kind and bar of a chart: `at_ms`, `kind`, and what changed as `text`."""
    found = [*_of_states(states), *_of_settings(notes), *_of_schemas(files, window)]
    rows = pd.DataFrame(found, columns=["at_ms", "kind", "text"])
    rows = rows[(rows["at_ms"] >= window.since_ms) & (rows["at_ms"] <= window.until_ms)].sort_values("at_ms")
    step = rows["at_ms"] // window.step_ms
    together = [
        (int(group["at_ms"].iloc[0]), str(kind), _together(group["text"].tolist()))
        for (_, kind), group in rows.groupby([step, "kind"], sort=True)
    ]
    return pd.DataFrame(together, columns=["at_ms", "kind", "text"])


def _of_states(states: Iterable[StateSince]) -> list[tuple[int, str, str]]:
    return [(one.at_ms, STATE, f"{one.state}: {one.why}" if one.why else one.state) for one in states]


def _of_settings(notes: Sequence[NotedSettings]) -> list[tuple[int, str, str]]:
    return [
        (one.at_ms, SETTINGS, f"{one.key}: {_value(one.before)} \u2192 {_value(one.after)}") for one in changes(notes)
    ]


def _value(value: str | None) -> str:
    return "unset" if value is None else value or "blank"


def _of_schemas(files: pd.DataFrame, window: Window) -> list[tuple[int, str, str]]:
    """A topic-partition whose next file has another schema: once for each bar of the chart, topic and pair of schemas."""
    rows = data_files(files, *LOOKED_AT)
    group, schema = groups_by(rows["topic"], rows["partition"]).of_row, rows["schema"].cat.codes.to_numpy()
    order = group.argsort(kind="stable")
    here, before = order[1:], order[:-1]
    changed = (group[here] == group[before]) & (schema[here] != schema[before])
    found = pd.DataFrame({
        "at": rows["committed_ms"].to_numpy()[here[changed]], "topic": rows["topic"].cat.codes.to_numpy()[here[changed]],
        "former": schema[before[changed]], "new": schema[here[changed]],
    })  # fmt: skip
    first = found.assign(bar=found["at"] // window.step_ms).drop_duplicates(["bar", "topic", "former", "new"])
    topics, names = rows["topic"].cat.categories, rows["schema"].cat.categories
    return [
        (int(at), SCHEMA, f"{topics[topic]}: {names[former] or 'none'} \u2192 {names[new] or 'none'}")
        for at, topic, former, new, _ in first.itertuples(index=False)
    ]


def _together(texts: Sequence[str]) -> str:
    named = list(dict.fromkeys(texts))
    more = f"; and {len(named) - NAMED:,} more" if len(named) > NAMED else ""
    return "; ".join(named[:NAMED]) + more
