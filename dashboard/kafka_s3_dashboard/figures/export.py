"""How does what a page shows leave it? As CSV and as Parquet, in which no text of a stranger is a formula."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO

import pandas as pd

from kafka_s3_dashboard.figures.text import cell, cells


def as_csv(frame: pd.DataFrame, titles: Mapping[str, str]) -> bytes:
    """UTF-8 with a line of titles; times as ISO 8601."""
    return _titled(frame, titles).to_csv(index=False, date_format="%Y-%m-%dT%H:%M:%S%z").encode()


def as_parquet(frame: pd.DataFrame, titles: Mapping[str, str]) -> bytes:
    """The columns with their types; texts as in CSV."""
    made = BytesIO()
    _titled(frame, titles).to_parquet(made, index=False)
    return made.getvalue()


def _titled(frame: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Texts and titles made harmless; two columns never have one title."""
    names: dict[str, str] = {}
    for column in frame.columns:
        title = str(cell(titles.get(str(column), str(column))))
        names[str(column)] = title if title not in names.values() else f"{title} ({column})"
    return cells(frame).rename(columns=names)
