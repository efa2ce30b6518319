"""How is foreign text shown? As text: no name, key or message of the data becomes markup, a formula, or a control character."""

from __future__ import annotations

import re
from typing import Final

import pandas as pd

from kafka_s3.model.text import printable
from kafka_s3.model.timing import age
from kafka_s3.model.timing import duration_text as duration_text
from kafka_s3.ops.dead_letter_text import formula_safe
from kafka_s3_dashboard.figures.data import DAY_MS

UNITS: Final = (("d", DAY_MS), ("h", DAY_MS / 24), ("min", DAY_MS / 1440), ("s", 1000))


def size_text(size: float) -> str:
    """A size for people."""
    unit, name = size_unit(size)
    return f"{size / unit:.0f} B" if name == "B" else f"{size / unit:.1f} {name}"


def size_unit(size: float) -> tuple[float, str]:
    """IEC's unit (its bytes, and its name) in which sizes up to this one read well."""
    power = next((power for power in range(4) if abs(size) < 1024 ** (power + 1)), 4)
    return 1024.0**power, ("B", "KiB", "MiB", "GiB", "TiB")[power]


def unit_of(ms: float) -> tuple[float, str]:
    """The unit (its ms, and its name) in which durations up to this one read well."""
    return next(((length, unit) for unit, length in UNITS if ms >= 2 * length), (1, "ms"))


_MARKUP: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$:<>&@])")
JOINER: Final = "\u2060"
_SHORTHAND: Final = re.compile(
    r"(?<=:)(?=(?:[0-9]{3,}|[\w+/-]*[A-Za-z_+-][\w+/-]*):)|(?<=:)(?=//)|(?i:(?<=\bwww)(?=\.))|(?<=\S@)(?=\S)"
    r"|(?<=-)(?=[->])|(?<=<)(?=[-=])|(?<=[>~=])(?==)"
)
"""Where `:material/home:`, `:smile:`, `http://`, `www.`, `me@example.com`, `--`, `->` and their like are parted."""
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


def plain(text: object) -> str:
    """The text for a place that takes Markdown: everything that could be markup is escaped.

    Addresses, icons, emojis and arrows are looked for in what is left when escapes are gone: a joiner that nobody sees parts them.
    """
    return _MARKUP.sub(r"\\\1", _SHORTHAND.sub(JOINER, printable(str(text))))


def cells(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with every text made fit for a table and for the spreadsheet that somebody saves it to."""
    texts = [name for name in frame.columns if isinstance(frame[name].dtype, pd.CategoricalDtype) or frame[name].dtype.kind == "O"
             or pd.api.types.is_string_dtype(frame[name].dtype)]  # fmt: skip
    return frame.assign(**{name: frame[name].astype(object).map(cell) for name in texts})


def cell(value: object) -> object:
    """A text fit for a table; other values as they are."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    return formula_safe(printable(value))


def ago(then_ms: int | None, now_ms: int) -> str:
    """How long ago, for people."""
    return "never" if then_ms is None or then_ms < 0 else f"{age(now_ms - then_ms)} ago"
