"""What do the tables of a commit log say of a sink? Pure functions from frames to frames; nothing here knows of pages or buckets.

Sums are over the selected time range, by the time of commit. Times are epoch ms in, timezone-aware only in `local`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from kafka_s3.engine.control.heartbeat import POINTS
from kafka_s3.engine.control.status import SinkSnapshot, partition_statuses
from kafka_s3.ops.positions import CAUSE
from kafka_s3_dashboard.reading.frames import NO_TIME, SKIPPED, Frames, Reach, counted_files, data_files, taken
from kafka_s3_dashboard.reading.groups import Numbers, groups_by

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
STEPS_MS: Final = (
    1000, 5000, 15_000, MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, DAY_MS, 7 * DAY_MS, 30 * DAY_MS,
)  # fmt: skip
MOST_BUCKETS: Final = 120
LOST: Final = frozenset({"retention", "truncated", "recreated", CAUSE})


@dataclass(frozen=True, slots=True)
class Window:
    """What of the log is looked at: commits from `since_ms` (included) to `until_ms` (excluded), of these topics; empty is all topics."""

    since_ms: int
    until_ms: int
    topics: tuple[str, ...] = ()

    @property
    def step_ms(self) -> int:
        """The width of a time bucket: round, and not too many of them."""
        length = max(self.until_ms - self.since_ms, 1)
        return next((step for step in STEPS_MS if length / step <= MOST_BUCKETS), STEPS_MS[-1])


def within(frame: pd.DataFrame, window: Window, *columns: str) -> pd.DataFrame:
    """The rows of the window, of these columns if any are named; frames without topics are cut by time alone.

    Nothing is copied where the log is in order of time, but for the rows of chosen topics, so name the columns that are needed.
    """
    times = frame["committed_ms"].to_numpy()
    if bool((times[1:] >= times[:-1]).all()):
        begin, end = times.searchsorted([window.since_ms, window.until_ms])
        cut = frame.iloc[int(begin) : int(end)]
    else:
        cut = frame[(times >= window.since_ms) & (times < window.until_ms)]
    rows = _of_topics(cut["topic"], window) if window.topics and "topic" in cut else np.ones(len(cut), bool)
    return taken(cut, rows, columns)


def _of_topics(topic: pd.Series, window: Window) -> Numbers:
    chosen = np.array([name in window.topics for name in topic.cat.categories] or [False])
    found: Numbers = chosen[topic.cat.codes.to_numpy()]
    return found


def selected(frames: Frames, window: Window) -> Frames:
    """All frames, cut to the window."""
    every = (frames.entries, frames.files, frames.counts, frames.gaps, frames.rewrites, frames.swaps)
    return Frames(*(within(frame, window) for frame in every))


def narrowed(frames: Frames, window: Window, now_ms: int) -> Window:
    """The window without the empty time before the log's first entry, and to now: that nothing comes any more has to be seen."""
    times = within(frames.entries, window)["committed_ms"]
    if times.empty:
        return window
    last = int(times.max()) + 1
    return Window(int(times.min()), max(min(window.until_ms, now_ms), last), window.topics)


def topics_in(frames: Frames) -> list[str]:
    """Every topic that the log names, in order."""
    found: set[str] = set()
    for frame in (frames.files, frames.counts, frames.gaps):
        found.update(map(str, frame["topic"].cat.categories))
    return sorted(found)


def local(times_ms: pd.Series, zone: str) -> pd.Series:
    """Epoch ms as times of a zone; NO_TIME is not a time, nor is one beyond the calendar (of a producer that counts in nanoseconds)."""
    known = times_ms.where(times_ms != NO_TIME).astype("Int64")
    return pd.to_datetime(known, unit="ms", utc=True, errors="coerce").dt.tz_convert(zone)


def wall(times_ms: pd.Series, zone: str) -> pd.Series:
    """Epoch ms as a zone's wall clock, labelled UTC: charts draw it as it is, whatever zone the browser is in."""
    shown: pd.Series = local(times_ms, zone).dt.tz_localize(None).dt.tz_localize("UTC")
    return shown


# ------------------------------------------------------------ is my data arriving?


def lag_table(known: SinkSnapshot | None, reached: Reach) -> pd.DataFrame:
    """Each topic-partition: frontier, lag in records and seconds, and `complete_ms`, up to which no record is missing.

    A partition that had no lag is complete up to the look that measured it, also where nobody looks any more and lag itself is unknown. One
    with lag is complete up to the latest record in an object, if records are in the order of time: their own times are all that the log
    has. Of a log that cannot be read to its end it is unknown. `committed_ms` is the last commit with its records.
    """
    columns = ["topic", "partition", "frontier", "lag", "lag_s", "complete_ms", "committed_ms", "recorded"]
    points = partition_statuses(known) if known else []
    looked, measured = looked_ms(known), known.heartbeat.lag if known and known.heartbeat else {}
    rows = []
    for point in points:
        last_ms, committed = reached.get(
            (point.topic_partition.topic, point.topic_partition.partition), (NO_TIME, NO_TIME)
        )
        complete = (
            NO_TIME
            if known and known.damage
            else looked
            if measured.get(point.topic_partition) == 0 and looked is not None
            else last_ms
        )
        lag_s = None if point.lag is None or looked is None or complete == NO_TIME else max(looked - complete, 0) / 1000
        rows.append((*point.topic_partition, point.frontier, point.lag, lag_s, complete, committed, point.dead_ahead))
    return pd.DataFrame(rows, columns=columns).astype({"frontier": "Int64", "lag": "Int64", "lag_s": "Float64"})


def looked_ms(known: SinkSnapshot | None) -> int | None:
    """When lag was measured, None where nothing says so; a sink of an earlier version says only when its heartbeat was written."""
    if known is None or known.heartbeat is None:
        return None
    return known.heartbeat.beat_ms if known.heartbeat.looked_ms is None else known.heartbeat.looked_ms


def completeness(lags: pd.DataFrame) -> pd.DataFrame:
    """Each topic: partitions, lag, and the time through which all of its partitions are complete (NO_TIME where one does not say)."""
    grouped = lags.groupby("topic", observed=True)
    return pd.DataFrame({
        "partitions": grouped["partition"].count(),
        "lag": grouped["lag"].sum(min_count=1),
        "lag_s": grouped["lag_s"].max(),
        "complete_ms": grouped["complete_ms"].min(),
        "committed_ms": grouped["committed_ms"].max(),
    }).reset_index()  # fmt: skip


def throughput(files: pd.DataFrame, window: Window) -> pd.DataFrame:
    """Records, bytes and files per topic and bucket of time (`at_ms` is its beginning), and records per second."""
    rows = counted_files(files, "committed_ms", "topic", "records", "bytes")
    at = rows["committed_ms"] // window.step_ms
    groups = groups_by(at, rows["topic"])
    records = groups.sums(rows["records"])
    return pd.DataFrame({
        "at_ms": at.to_numpy()[groups.first] * window.step_ms, "topic": rows["topic"].iloc[groups.first].astype(object).to_numpy(),
        "records": records, "bytes": groups.sums(rows["bytes"]), "files": groups.sizes(),
        "per_second": records / (window.step_ms / 1000),
    })  # fmt: skip


def totals(entries: pd.DataFrame) -> dict[str, int]:
    """Sums over entries, whole ones: read, written, dead_letters, skipped, files, bytes.

    Files are those of records, as in the log: objects of keys, headers and dead letters beside them do not count, nor do their bytes.
    """
    return {name: int(entries[name].sum()) for name in ("read", "written", "dead_letters", "skipped", "files", "bytes")}


def totals_of_topics(written: pd.DataFrame, counts: pd.DataFrame) -> dict[str, int]:
    """The same of some topics, from their `throughput` and their counts of dead letters and skipped records."""
    sums = {"written": int(written["records"].sum()), **{name: int(written[name].sum()) for name in ("files", "bytes")}}
    letters = int(dead_letter_counts(counts)["count"].sum())
    skipped = int(counts["count"].sum()) - letters
    read = sums["written"] + letters + skipped
    return {**sums, "dead_letters": letters, "skipped": skipped, "read": read}


def lost(gaps: pd.DataFrame) -> pd.DataFrame:
    """The gaps that are lost records: deleted by retention before they were read, or passed over by hand."""
    found = gaps[gaps["cause"].isin(LOST).to_numpy()]
    return found.assign(offsets=found["last"] - found["first"] + 1)


# ------------------------------------------------------------ what went wrong?


def dead_letter_counts(counts: pd.DataFrame) -> pd.DataFrame:
    """The rows of dead letters: those that an entry settled are negative."""
    return counts[(counts["stage"] != SKIPPED).to_numpy()]


def letters_by(counts: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """How many became dead letters, and how many of these were settled, by these columns."""
    rows = dead_letter_counts(counts)
    rows = rows.assign(became=rows["count"].clip(lower=0), settled=-rows["count"].clip(upper=0))
    found = rows.groupby(list(columns), observed=True)[["became", "settled"]].sum().reset_index()
    return found.assign(open=found["became"] - found["settled"]).sort_values(
        "became", ascending=False, ignore_index=True
    )


def letters_over_time(counts: pd.DataFrame, window: Window) -> pd.DataFrame:
    """Records that became dead letters by bucket of time and stage."""
    rows = dead_letter_counts(counts)
    rows = rows[rows["count"] > 0]
    at = (rows["committed_ms"] // window.step_ms * window.step_ms).rename("at_ms")
    return rows.groupby([at, "stage"], observed=True)["count"].sum().reset_index()


# ------------------------------------------------------------ the log


def named_by(entries: pd.DataFrame, *frames: pd.DataFrame) -> Numbers:
    """Which of the entries have a row in any of these frames."""
    versions, found = entries["version"].to_numpy(), np.concatenate([frame["version"].to_numpy() for frame in frames])
    named = np.zeros(int(max(versions.max(initial=0), found.max(initial=0))) + 1, bool)
    named[found] = True
    chosen: Numbers = named[versions]
    return chosen


def files_of(entries: pd.DataFrame, files: pd.DataFrame) -> pd.DataFrame:
    """The files of these entries, of files in the order of the log."""
    if entries.empty:
        return files.iloc[:0]
    versions = files["version"].to_numpy()
    begin, end = versions.searchsorted([entries["version"].min(), entries["version"].max() + 1])
    near = files.iloc[int(begin) : int(end)]
    return near[near["version"].isin(entries["version"]).to_numpy()]


def commit_rows(entries: pd.DataFrame, files: pd.DataFrame) -> pd.DataFrame:
    """The entries, newest first, with what their files say: why they closed, their topics and schemas, and the offsets they hold."""
    about = {
        "reasons": _distinct(files, "reason"), "schemas": _distinct(files, "schema"), "topics": _distinct(files, "topic"),
        "offsets": offset_texts(counted_files(files)),
    }  # fmt: skip
    newest = entries.iloc[::-1]
    texts = {name: [found.get(version, "") for version in newest["version"]] for name, found in about.items()}
    return newest.assign(**texts).reset_index(drop=True)


def offset_texts(files: pd.DataFrame) -> dict[int, str]:
    """Per entry its offset ranges: `orders-0 10–19, orders-1 4–7`."""
    groups = groups_by(files["version"], files["topic"], files["partition"])
    places = files.iloc[groups.first]
    ends = zip(
        groups.lowest(files["first_offset"]).tolist(), groups.highest(files["last_offset"]).tolist(), strict=True
    )
    rows = zip(places["version"].tolist(), places["topic"].tolist(), places["partition"].tolist(), ends, strict=True)
    found: dict[int, list[str]] = {}
    for version, topic, partition, (first, last) in sorted(rows):
        found.setdefault(version, []).append(f"{topic}-{partition} {first}–{last}")
    return {version: ", ".join(texts) for version, texts in found.items()}


def _distinct(files: pd.DataFrame, column: str) -> dict[int, str]:
    """Per entry the different words of its files in a column: `a, b`."""
    places = files.iloc[groups_by(files["version"], files[column]).first]
    found: dict[int, set[str]] = {}
    for version, word in zip(places["version"].tolist(), places[column].tolist(), strict=True):
        found.setdefault(version, set()).add(str(word))
    return {version: ", ".join(sorted(words - {""})) for version, words in found.items()}


SHARES: Final = (0.5, 0.95)
MEASURED: Final = ("committed_ms", "records", "min_ms", "max_ms")
"""The columns of files that `delays` looks at, beside KINDS."""


def delays(files: pd.DataFrame, window: Window) -> pd.DataFrame:
    """Per bucket of time (`at_ms` is its beginning) the delay (ms) of records at their commit, as `engine.control.tallies.delay` counts it.

    `median_ms` half of the records do not exceed, `slow_ms` 95 % of them; `newest_ms` is how old the newest record in an object was: so far
    behind the sink was even after its commits.
    """
    rows = data_files(files, *MEASURED)
    rows = taken(rows, (rows["min_ms"] != NO_TIME).to_numpy())
    seen, records, first, last = (rows[name].to_numpy(np.int64) for name in MEASURED)
    at = seen // window.step_ms * window.step_ms
    order = at.argsort(kind="stable")  # as good as nothing to do: a log is in order of time
    ends = np.flatnonzero(np.diff(at[order])) + 1
    found = [
        (int(at[one[0]]), *_delay(seen[one] - first[one], seen[one] - last[one], records[one]))
        for one in np.split(order, ends)
        if len(one)
    ]
    return pd.DataFrame(found, columns=["at_ms", "median_ms", "slow_ms", "newest_ms"])


def _delay(oldest: Numbers, newest: Numbers, records: Numbers) -> tuple[int, ...]:
    """What a bucket's files say: the delays (ms) of their first and last records, those between spread evenly, and their records."""
    late = np.concatenate([oldest - (oldest - newest) * place // POINTS for place in range(POINTS + 1)]).clip(min=0)
    order = late.argsort()
    sums = np.tile(records, POINTS + 1)[order].cumsum()
    shares = late[order[sums.searchsorted([share * sums[-1] for share in SHARES])]]
    return *shares.tolist(), max(int(newest.min()), 0)
