"""How do files come out, and what do they cost? Distributions, requests, and the pace of topics whose files are small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from kafka_s3.model.files import Role
from kafka_s3.ops.alternatives import TopicPace
from kafka_s3.ops.forecast import Prices
from kafka_s3_dashboard.figures.data import DAY_MS, Window
from kafka_s3_dashboard.reading.frames import NO_TIME, counted_files, made_from_others, taken
from kafka_s3_dashboard.reading.groups import groups_by, middle

MIB: Final = 1 << 20
GIB: Final = 1 << 30
SUMMED_UP: Final = ("committed_ms", "records", "bytes", "min_ms", "max_ms", "reason")
"""The columns of files that `summary` looks at, beside KINDS."""
SMALL: Final = 16 * MIB
ENOUGH: Final = 10
MONTH_MS: Final = 30 * DAY_MS


def by_reason(rows: pd.DataFrame, window: Window) -> pd.DataFrame:
    """Files per bucket of time (`at_ms` is its beginning) and reason, of files."""
    at = rows["committed_ms"] // window.step_ms
    groups = groups_by(at, rows["reason"])
    reasons = rows["reason"].iloc[groups.first].astype(object).to_numpy()
    return pd.DataFrame(
        {"at_ms": at.to_numpy()[groups.first] * window.step_ms, "reason": reasons, "files": groups.sizes()}
    )


def by_step(files: pd.DataFrame, window: Window) -> pd.DataFrame:
    """The files of records per bucket of time (`at_ms` is its beginning), the newest first: files, records, bytes, and why they closed."""
    rows = counted_files(files, "committed_ms", "records", "bytes", "reason")
    at = rows["committed_ms"] // window.step_ms
    groups = groups_by(at)
    counts = by_reason(rows, window).sort_values(["at_ms", "files"], ascending=[True, False])
    texts = counts.assign(
        text=[f"{files:,} by {reason}" for reason, files in zip(counts["reason"], counts["files"], strict=True)]
    )
    found = pd.DataFrame({
        "at_ms": at.to_numpy()[groups.first] * window.step_ms, "files": groups.sizes(), "records": groups.sums(rows["records"]),
        "bytes": groups.sums(rows["bytes"]),
    })  # fmt: skip
    found["reasons"] = found["at_ms"].map(texts.groupby("at_ms")["text"].agg(", ".join)).to_numpy()
    return found.sort_values("at_ms", ascending=False, ignore_index=True)


def reasons(rows: pd.DataFrame) -> pd.DataFrame:
    """Each reason of files: files, share, records, the median size and number of records; most files first."""
    groups = groups_by(rows["reason"])
    sizes, records = groups.medians(rows["bytes"], rows["records"])
    found = pd.DataFrame({
        "reason": rows["reason"].iloc[groups.first].astype(object).to_numpy(), "files": groups.sizes(),
        "records": groups.sums(rows["records"]), "bytes": groups.sums(rows["bytes"]),
        "median_bytes": sizes, "median_records": records,
    })  # fmt: skip
    found = found.assign(share=found["files"] / max(found["files"].sum(), 1))
    return found.sort_values(["files", "reason"], ascending=[False, True], ignore_index=True)


def histogram(values: pd.Series) -> pd.DataFrame:
    """How many values lie in each class; the bounds are powers of two. Columns `lower`, `upper`, `files`."""
    positive = values.to_numpy()[values.to_numpy() > 0]
    if not len(positive):
        return pd.DataFrame({"lower": [], "upper": [], "files": []})
    classes = np.frexp(positive)[1] - 1
    numbers = np.arange(classes.min(), classes.max() + 1)
    counts = np.bincount(classes - classes.min(), minlength=len(numbers))
    return pd.DataFrame({"lower": 2.0**numbers, "upper": 2.0 ** (numbers + 1), "files": counts})


def spans(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each data file with record times: `span_ms` from first to last record, `age_ms` of the oldest when it became visible."""
    first, last, seen = (rows[name].to_numpy() for name in ("min_ms", "max_ms", "committed_ms"))
    timed = first != NO_TIME
    if not timed.all():
        first, last, seen = first[timed], last[timed], seen[timed]
    return pd.DataFrame({"span_ms": last - first, "age_ms": np.maximum(seen - first, 0)})


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What compactions, or erasures, put in the place of what: numbers of objects and bytes, and records whose content is gone."""

    before: int
    bytes_before: int
    after: int
    bytes_after: int
    erased: int

    @property
    def mean_before(self) -> float:
        """How large an object was."""
        return self.bytes_before / self.before if self.before else 0.0

    @property
    def mean_after(self) -> float:
        """How large an object is."""
        return self.bytes_after / self.after if self.after else 0.0


def rewritten(rows: pd.DataFrame) -> dict[str, Rewritten]:
    """By the reason of an entry what it rewrote."""
    columns = ["before", "bytes_before", "after", "bytes_after", "erased"]
    sums = rows.assign(reason=rows["reason"].astype(str)).groupby("reason")[columns].sum()
    return {str(reason): Rewritten(*(int(one[name]) for name in columns)) for reason, one in sums.iterrows()}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of objects of records that others replaced, and of those in their place, in the same classes of `histogram`.

    `known` is false where entries with some of the objects before are not read.
    """

    before: pd.DataFrame
    after: pd.DataFrame
    known: bool


def swapped(files: pd.DataFrame, swaps: pd.DataFrame) -> Sizes:
    """Of the files and swaps of a window."""
    made = taken(files, made_from_others(files) & (files["role"] == Role.VALUE).to_numpy(), ("bytes",))
    gone = swaps["bytes"][(swaps["role"] == Role.VALUE).to_numpy(dtype=bool, na_value=False)]
    before, after = histogram(gone), histogram(made["bytes"])
    classes = pd.concat([before, after])[["lower", "upper"]].drop_duplicates().sort_values("lower")
    before, after = (
        classes.merge(one, how="left").fillna({"files": 0}).astype({"files": int}) for one in (before, after)
    )
    return Sizes(before, after, known=bool((swaps["bytes"] >= 0).all()))


@dataclass(frozen=True, slots=True)
class Summary:
    """How the data files of a window came out. Sizes in bytes, `least_bytes` and `most_bytes` those of 5 % and 95 %.

    `slow_ms` is the age that 95 % of the files stay below.
    """

    files: int
    median_bytes: float
    least_bytes: float
    most_bytes: float
    median_records: float
    small: float
    slow_ms: float | None
    by_reason: pd.DataFrame
    reasons: pd.DataFrame
    sizes: pd.DataFrame
    records: pd.DataFrame
    spans: pd.DataFrame


def summary(files: pd.DataFrame, window: Window) -> Summary:
    """Everything that the page of rotations shows of these files; without files, a summary of none."""
    rows = counted_files(files, *SUMMED_UP)
    times = spans(rows)
    least, median, most = rows["bytes"].quantile([0.05, 0.5, 0.95])
    return Summary(
        files=len(rows),
        median_bytes=median,
        least_bytes=least,
        most_bytes=most,
        median_records=middle(rows["records"]),
        small=float((rows["bytes"] < SMALL).mean()),
        slow_ms=float(times["age_ms"].quantile(0.95)) if len(times) else None,
        by_reason=by_reason(rows, window),
        reasons=reasons(rows),
        sizes=histogram(rows["bytes"]),
        records=histogram(rows["records"]),
        spans=histogram(times["span_ms"]),
    )


# ------------------------------------------------------------ what it costs


@dataclass(frozen=True, slots=True)
class Cost:
    """A month at the pace of the window: requests that write objects and entries, what is added, and one full read of a month's objects."""

    writes: float
    write_cost: float
    added_gib: float
    storage_cost: float
    reads: float
    read_cost: float


def objects(files: pd.DataFrame) -> pd.DataFrame:
    """Each topic's objects of whatever kind: `objects`, their `bytes` and the `parts` of their uploads."""
    groups = groups_by(files["topic"])
    return pd.DataFrame({
        "topic": files["topic"].iloc[groups.first].astype(object).to_numpy(), "objects": groups.sizes(),
        "bytes": groups.sums(files["bytes"]), "parts": groups.sums(files["parts"]),
    })  # fmt: skip


def cost(entries: int, written: pd.DataFrame, window: Window, prices: Prices) -> Cost:
    """What so many entries and these `objects` cost: one takes a request to begin, one per part, one to complete; an entry takes one."""
    months = max(window.until_ms - window.since_ms, 1) / MONTH_MS
    count = int(written["objects"].sum())
    writes = (2 * count + int(written["parts"].sum()) + entries) / months
    added = int(written["bytes"].sum()) / GIB / months
    reads = count / months
    return Cost(
        writes, writes / 1000 * prices.per_thousand_writes, added, added * prices.per_gib_month, reads,
        reads / 1000 * prices.per_thousand_reads,
    )  # fmt: skip


# ------------------------------------------------------------ what to change


@dataclass(frozen=True, slots=True)
class Small:
    """A topic whose files are mostly small: how many the log shows, why most of them closed, the middle size in bytes, and its pace."""

    topic: str
    files: int
    reason: str
    share: float
    median_bytes: float
    pace: TopicPace


def small(files: pd.DataFrame, window: Window) -> list[Small]:
    """The topics whose middle file is below SMALL, most files first; those with fewer than ENOUGH files are not judged."""
    rows = counted_files(files, "committed_ms", "topic", "partition", "encoded", "bytes", "records", "reason")
    found = []
    for topic, own in rows.groupby("topic", observed=True):
        if len(own) >= ENOUGH and (median := middle(own["bytes"])) < SMALL:
            reasons = own["reason"].value_counts()
            share = float(reasons.iloc[0] / len(own))
            found.append(Small(str(topic), len(own), str(reasons.index[0]), share, median, pace(own, window)))
    return sorted(found, key=lambda one: -one.files)


def pace(own: pd.DataFrame, window: Window) -> TopicPace:
    """What the files of one topic say of its traffic, in two digits: a few more records are the same pace."""
    seconds = max(window.until_ms - window.since_ms, 1000) / 1000
    records, sizes = max(int(own["records"].sum()), 1), max(int(own["bytes"].sum()), 1)
    together = groups_by(own["committed_ms"], own["partition"], own["encoded"]).first
    firsts = own.iloc[together]
    directories = groups_by(firsts["committed_ms"], firsts["partition"]).sizes()
    return TopicPace(
        per_second=_round(records / seconds), record_bytes=_round(sizes / records), partitions=own["partition"].nunique(),
        directories=max(round(_round(float(np.median(directories)))), 1), files=_round(len(own) / seconds * DAY_MS / 1000),
    )  # fmt: skip


def _round(value: float) -> float:
    return float(f"{value:.2g}")
