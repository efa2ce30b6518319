"""Charts mark what changed, as often as a reader can tell it apart; what is exported holds what is shown, and no formula."""

from __future__ import annotations

import csv
from io import BytesIO, StringIO

import pandas as pd
import pytest

from kafka_s3.engine.control.heartbeat import StateSince
from kafka_s3.engine.control.stored_settings import NotedSettings
from kafka_s3.model.files import Role
from kafka_s3_dashboard.figures.charts import MARKS, Axis, bars_over_time, with_marks
from kafka_s3_dashboard.figures.data import HOUR_MS, Window
from kafka_s3_dashboard.figures.export import as_csv, as_parquet
from kafka_s3_dashboard.figures.marks import KINDS, LOOKED_AT, NAMED, marks

WINDOW = Window(0, 100 * HOUR_MS)


def files(*rows: tuple[int, str, int, str]) -> pd.DataFrame:
    """Files by hour, topic, partition and schema."""
    made = pd.DataFrame(rows, columns=list(LOOKED_AT)).assign(role=str(Role.VALUE), reason="flush.size")
    made["committed_ms"] *= HOUR_MS
    return made.astype({"topic": "category", "schema": "category", "role": "category", "reason": "category"})


def test_each_kind_of_change_is_marked_where_it_happened() -> None:
    notes = [
        NotedSettings(1, 0, "0.1", {"flush.size": "5"}, ()),
        NotedSettings(2, 30 * HOUR_MS, "0.1", {"flush.size": "9"}, ()),
    ]
    states = [StateSince(10 * HOUR_MS, "DEGRADED", "topic x is not in Kafka"), StateSince(200 * HOUR_MS, "RUNNING")]
    found = marks(files((1, "a", 0, "v1"), (2, "a", 1, "v2"), (50, "a", 0, "v2")), notes, states, WINDOW)
    assert list(found.itertuples(index=False, name=None)) == [
        (10 * HOUR_MS, "state", "DEGRADED: topic x is not in Kafka"),
        (30 * HOUR_MS, "settings", "flush.size: 5 \u2192 9"),
        (50 * HOUR_MS, "schema", "a: v1 \u2192 v2"),
    ]
    assert set(MARKS) == set(KINDS)


def test_schemas_that_take_turns_are_one_mark_a_bar() -> None:
    turns = files(*((hour // 40, "a", 0, f"v{hour % 7}") for hour in range(4000)))
    found = marks(turns, (), (), WINDOW)
    assert len(found) <= 101
    assert all(text.count(";") <= NAMED for text in found["text"])
    assert "and 3 more" in found["text"].iloc[0]


def test_a_chart_without_a_mark_has_the_layers_of_one_with_marks() -> None:
    at = pd.Timestamp("2026-01-01", tz="UTC")
    axis = Axis(HOUR_MS, at, at + pd.Timedelta(hours=3))
    rows = pd.DataFrame({"at": [at], "files": [1], "topic": ["a"]})
    drawn = bars_over_time(rows, "files", by="topic", axis=axis, titles=("files", "topic"), domain=["a"])
    none = with_marks(drawn, pd.DataFrame(columns=["at", "kind", "text"]), axis=axis)
    some = with_marks(drawn, pd.DataFrame({"at": [at], "kind": ["state"], "text": ["FAILED"]}), axis=axis)
    assert none["layer"] == some["layer"]
    assert none["layer"][0]["params"][0]["select"] == {"type": "interval", "encodings": ["x"]}


FORMULAS = ["=HYPERLINK(1)", "+1+1", "-cmd", "@SUM(A1)"]


@pytest.mark.parametrize("formula", FORMULAS)
def test_an_export_is_what_is_shown_and_no_formula(formula: str) -> None:
    shown = pd.DataFrame({"topic": pd.Series([formula, "a"], dtype="category"), "lag": [3, -4]})
    titles = {"topic": "Topic", "lag": "=Lag"}
    rows = list(csv.DictReader(StringIO(as_csv(shown, titles).decode())))
    assert rows == [{"Topic": f"'{formula}", "'=Lag": "3"}, {"Topic": "a", "'=Lag": "-4"}]
    parquet = pd.read_parquet(BytesIO(as_parquet(shown, titles)))
    assert parquet["Topic"].tolist() == [f"'{formula}", "a"]
    assert parquet["'=Lag"].tolist() == [3, -4]


def test_times_and_columns_of_one_title_are_kept() -> None:
    at = pd.to_datetime([0], unit="ms", utc=True).tz_convert("Asia/Kolkata")
    shown = pd.DataFrame({"a": at, "b": ["x"]})
    assert as_csv(shown, {"a": "T", "b": "T"}).decode().splitlines() == ["T,T (b)", "1970-01-01T05:30:00+0530,x"]
    assert pd.read_parquet(BytesIO(as_parquet(shown, {})))["a"].tolist() == [at[0]]
