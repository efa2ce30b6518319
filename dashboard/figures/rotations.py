"""How do files come out, and what would fewer and larger ones take? Distributions, costs, and advice worked out on the files there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from figures.data import DAY_MS, Window
from figures.text import duration_text, size_text
from kafka_s3.model.files import Reason
from kafka_s3.ops.forecast import Prices
from reading.frames import NO_TIME, counted_files
from reading.groups import Numbers, groups_by, middle

MIB: Final = 1 << 20
GIB: Final = 1 << 30
SUMMED_UP: Final = ("committed_ms", "records", "bytes", "min_ms", "max_ms", "reason")
"""The columns of files that `summary` looks at, beside KINDS."""
SMALL: Final = 16 * MIB
ENOUGH: Final = 10
MONTH_MS: Final = 30 * DAY_MS
BY_CLOCK: Final = (Reason.ROTATE_INTERVAL, Reason.ROTATE_SCHEDULE, Reason.OFFSET_FLUSH, Reason.FLUSH_IDLE)


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
class Advice:
    """A setting to change for a topic, why, and what the files of the window would have been with it. `note`: what limits that."""

    topic: str
    why: str
    setting: str
    value: str
    effect: str
    price: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Pace:
    """Of one topic: the size to aim at, bytes of a record and of the middle file, and how long a file of that aim takes to fill."""

    aim: float
    per_record: float
    median: float
    fill_ms: float


def advice(
    files: pd.DataFrame, window: Window, *, target_bytes: int, in_effect: Callable[[str], int] | None
) -> list[Advice]:
    """One piece for each topic whose middle file is below SMALL, by the reason that closes most of its files, unless nothing would help.

    `in_effect` gives the number of a setting, where the settings are known.
    """
    rows = counted_files(files, "topic", "partition", "encoded", "bytes", "records", "reason")
    found = []
    for topic, own in rows.groupby("topic", observed=True):
        if len(own) >= ENOUGH and middle(own["bytes"]) < min(SMALL, target_bytes / 2):
            found.append(_advice(str(topic), own, window, target_bytes=target_bytes, in_effect=in_effect))
    return [one for one in found if one is not None]


def merged(files: pd.DataFrame, target_bytes: int) -> int:
    """How many files the same records would make if each were closed at `target_bytes` or at the end of its directory."""
    return int(np.ceil(_per_directory(files) / target_bytes).clip(min=1).sum())


def _per_directory(files: pd.DataFrame) -> Numbers:
    """Bytes of each topic-partition in each directory: no file can be larger."""
    return groups_by(files["topic"], files["partition"], files["encoded"]).sums(files["bytes"])


def _advice(
    topic: str, own: pd.DataFrame, window: Window, *, target_bytes: int, in_effect: Callable[[str], int] | None
) -> Advice | None:
    counts, median = own["reason"].value_counts(), middle(own["bytes"])
    reason, most = str(counts.index[0]), float(np.median(_per_directory(own)))
    why = f"{counts.iloc[0] / len(own):.0%} of {len(own):,} files closed by {reason}; the middle one has {size_text(median)}."
    if most < 2 * median and reason != Reason.SCHEMA:
        if own["encoded"].astype(str).str.fullmatch(r"partition=\d+").all():
            return None  # a directory for each Kafka partition: none of them could be coarser
        return Advice(topic, why, *COARSER[:2], _effect(own, _above(own), target_bytes), COARSER[2], _limit(most))
    pace = own["bytes"].sum() / max(window.until_ms - window.since_ms, 1) / max(own["partition"].nunique(), 1)
    aim = min(target_bytes, most)
    about = _Pace(aim, max(own["bytes"].sum() / max(own["records"].sum(), 1), 1), median, aim / max(pace, 1e-9))
    setting, value, price = _change(reason, about, in_effect)
    return Advice(
        topic,
        why,
        setting,
        value,
        _effect(own, own, target_bytes),
        price,
        _limit(most) if most < target_bytes / 2 else "",
    )


def _effect(own: pd.DataFrame, placed: pd.DataFrame, target_bytes: int) -> str:
    fewer = merged(placed, target_bytes)
    noun = "file" if fewer == 1 else "files"
    return f"at best {fewer:,} {noun} instead of {len(own):,}, of {size_text(own['bytes'].sum() / fewer)} on average"


def _limit(most: float) -> str:
    return (
        f"A directory gets only {size_text(most)} of each Kafka partition, and no file can be larger: coarser directories (path.format and "
        "partition.duration.ms, or another field) or fewer Kafka partitions allow for more."
    )


def _above(files: pd.DataFrame) -> pd.DataFrame:
    """The files as if they lay one directory higher."""
    names = [str(name).rpartition("/")[0] for name in files["encoded"].cat.categories]
    codes, above = pd.factorize(pd.Series(names, dtype=object))
    placed = pd.Categorical.from_codes(codes[files["encoded"].cat.codes.to_numpy()], above)
    return files.assign(encoded=placed)


def _change(reason: str, about: _Pace, in_effect: Callable[[str], int] | None) -> tuple[str, str, str]:
    """Setting, value, and what has to be borne for it."""
    wait = f"a file then takes about {duration_text(about.fill_ms)} to fill at this pace"
    if reason in BY_CLOCK:
        times, now = about.aim / max(about.median, 1), _number(in_effect, reason)
        value = str(min(_round(now * times), DAY_MS)) if now else f"{_round(times)} times what it is (a day at most)"
        return reason, value, f"records become visible that much later; {wait}"
    if reason == Reason.FLUSH_BYTES:
        return reason, str(_round(about.aim)), wait
    return _OTHERS.get(reason) or (
        "flush.size",
        str(_round(about.aim / about.per_record)),
        f"{wait}; a rotation interval bounds that",
    )


COARSER: Final = (
    "path.format",
    "one directory less, such as a day instead of an hour",
    "queries for less than that read more",
)
_OTHERS: Final[Mapping[str, tuple[str, str, str]]] = {
    Reason.PARTITION_CHANGE: (
        "rotate.file.on.partition.change", "false", "several files are open at once; or make path.format and partition.duration.ms coarser"
    ),
    Reason.SCHEMA: ("schema.compatibility.unify", "true", "alternating versions share a file under a schema that holds them all"),
    Reason.MAX_OPEN_FILES: ("partitioner.max.open.files", "more", "more memory; or fewer values in partition.field.name"),
    Reason.FLUSH_NOW: ("--flush", "less often", "the open tail stays in Kafka until a rule closes it"),
    Reason.LOST_OFFSETS: ("the topic's retention.ms", "longer", "Kafka keeps more; records were lost before the sink had read them"),
}  # fmt: skip


def _number(in_effect: Callable[[str], int] | None, key: str) -> int:
    try:
        return in_effect(key) if in_effect is not None else 0
    except (KeyError, TypeError):
        return 0


def _round(value: float) -> int:
    """Two leading digits are as much as an estimate knows."""
    digits: int = 10 ** max(len(str(int(value))) - 2, 0)
    return max(round(value / digits) * digits, 1)
