"""What do `kafka-s3 list` and `kafka-s3 status` print? Tables for people, documents for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from kafka_s3.cli.display import size_text, styled
from kafka_s3.engine.control.heartbeat import percent
from kafka_s3.engine.control.status import TYPE, SinkSnapshot, SinkState, health, sink_id, standpoints
from kafka_s3.model.timing import age

COLOURS: Final = {
    SinkState.RUNNING: "green",
    SinkState.PROVISIONING: "cyan",
    SinkState.PAUSED: "blue",
    SinkState.STOPPED: "dim",
    SinkState.DEGRADED: "yellow",
    SinkState.STALE: "yellow",
    SinkState.UNKNOWN: "yellow",
    SinkState.FAILED: "red",
}


def sinks_table(found: Sequence[SinkSnapshot], bucket: str) -> Table:
    """One line a sink."""
    table = Table()
    for name in ("ID", "Name", "Status", "Type", "Lag", "Last commit"):
        table.add_column(name, justify="right" if name == "Lag" else "left", overflow="fold")
    for known in found:
        row = row_document(known, bucket)
        state = SinkState(row["status"])
        cells = (
            row["id"],
            known.name,
            styled((state, COLOURS[state])),
            TYPE,
            str(known.lag),
            known.last_commit or "-",
        )
        table.add_row(*cells)
    return table


def row_document(known: SinkSnapshot, bucket: str) -> dict[str, Any]:
    """A sink of the list."""
    judged = health(known)
    return {
        "id": sink_id(bucket, known.name),
        "name": known.name,
        "status": judged.state.value,
        "type": TYPE,
        "lag": known.lag.told,
        "lag_exact": known.lag.exact,
        "last_commit": known.last_commit or None,
        "reason": judged.reason,
        "well": judged.well,
    }


def detail_document(known: SinkSnapshot, bucket: str) -> dict[str, Any]:
    """Everything that is known of a sink."""
    heartbeat = known.heartbeat
    beat = {**asdict(heartbeat), "phase": heartbeat.phase.value} if heartbeat else None
    if beat is not None:
        del beat["lag"]  # the topic-partitions have it
    return {
        **row_document(known, bucket),
        "configured": known.configured,
        "control": asdict(known.control) if known.control else None,
        "heartbeat": beat,
        "log": {"version": known.log.version, "epoch": known.log.epoch, "totals": asdict(known.log.totals)}
        if known.log
        else None,
        "topic_partitions": [
            {
                "topic": point.topic_partition.topic,
                "partition": point.topic_partition.partition,
                "frontier": point.frontier,
                "written": point.written,
                "dead_letters_ahead": point.dead_ahead,
                "lag": point.lag,
            }
            for point in standpoints(known)
        ],
    }


def detail(known: SinkSnapshot, bucket: str) -> Iterator[Text | Table]:
    """Everything that is known of a sink, for people."""
    judged = health(known)
    colour = COLOURS[judged.state]
    yield styled(f"Sink {known.name} ({sink_id(bucket, known.name)}): ", (judged.state, colour), f"  {judged.reason}")
    for name, text in _facts(known, known.seen_ms):
        yield styled(f"  {name:<15}{text}")
    points = standpoints(known)
    if not points:
        return
    table = Table()
    for name in ("topic", "partition", "frontier", "written up to", "dead letters ahead", "lag"):
        table.add_column(name, justify="left" if name == "topic" else "right", overflow="fold")
    for point in points:
        numbers = (point.frontier, point.written, point.dead_ahead)
        cells = ("-" if number is None else f"{number:,}" for number in numbers)
        lag = "unknown" if point.lag is None else f"{point.lag:,}"
        table.add_row(point.topic_partition.topic, str(point.topic_partition.partition), *cells, lag)
    yield table


def _facts(known: SinkSnapshot, now_ms: int) -> Iterator[tuple[str, str]]:
    beat, log = known.heartbeat, known.log
    if beat is not None:
        yield "process", f"pid {beat.pid} on {beat.host}, kafka-s3 {beat.product}, driver {beat.driver or 'unknown'}"
        yield "started", f"{_iso(beat.started_ms)} ({age(now_ms - beat.started_ms)} ago)"
        yield "heartbeat", f"{age(now_ms - beat.beat_ms)} ago ({beat.phase}), every {beat.interval_ms / 1000:g} s"
        if beat.last_round_ms is not None:
            yield "last round", _iso(beat.last_round_ms)
        looked = "" if known.lag.looked_ms is None else f" (looked {age(now_ms - known.lag.looked_ms)} ago)"
        yield "lag", f"{known.lag}{looked}; records of files that are still open count"
        if beat.delay is not None:
            yield (
                "delay",
                f"{age(beat.delay.median_ms)} in the middle, 95 % below {age(beat.delay.slow_ms)}; of the last commit",
            )
        if beat.recent.read:
            yield (
                "last hour",
                f"{beat.recent.read:,} records read since its start, {percent(beat.recent.dead_letters / beat.recent.read)} dead letters",
            )
        if beat.open_states:
            yield (
                "open files",
                f"kept {beat.open_states:,} times since the start, {size_text(beat.open_state_bytes)} in all",
            )
        if beat.warning and beat.warned_ms is not None:
            yield "last warning", f"{_iso(beat.warned_ms)} {beat.warning}"
    if log is not None:
        totals = log.totals
        yield "log", f"entry {log.version}, epoch {log.epoch}; last commit {known.last_commit or 'none yet'}"
        yield (
            "totals",
            f"{totals.read:,} read = {totals.written:,} written + {totals.dead_letters:,} dead letters + {totals.skipped:,} skipped; "
            f"{totals.files:,} files, {size_text(totals.bytes)}",
        )
    if known.control is not None:
        wanted = "paused" if known.control.paused else "running"
        yield "asked", f"{wanted}; last request by {known.control.requested_by} at {known.control.requested_at}"
    yield "configuration", "stored" if known.configured else "not stored"


def _iso(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms, which is no time"
