"""`kafka-s3 list|status|check|watch`: how are the sinks of a bucket? From their state in it alone.

`list` and `status` show it, `check` says it in one line and an exit code for a scheduler, `watch` reports each change to a webhook or a
command. A change that could not be reported is reported after the next look. A bucket that does not answer is a change of its own: nobody
sees the sinks then.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from kafka_s3.cli.arguments import (
    Output,
    OutputFormat,
    Overrides,
    Target,
    Where,
    WorkerPath,
    composed,
    of_each,
    settings_of,
    target_of,
    usage_error,
)
from kafka_s3.cli.display import console, new_table, show_json, show_line, show_table, size_text, styled
from kafka_s3.engine.control.damage import DamageWatch
from kafka_s3.engine.control.heartbeat import percent
from kafka_s3.engine.control.status import (
    TYPE,
    SinkHealth,
    SinkSnapshot,
    SinkState,
    all_snapshots,
    check_sink,
    health,
    partition_statuses,
    sink_id,
    state_history,
    whole_snapshot_of,
)
from kafka_s3.followers.state import StateNote, state_notes
from kafka_s3.model.addresses import careful_opener
from kafka_s3.model.errors import StorageError
from kafka_s3.model.text import printable
from kafka_s3.model.timing import age, duration_text, iso_time, now_ms
from kafka_s3.run.wiring.bucket import SinkFolder, folder_of
from kafka_s3.run.wiring.running import stop_on_signals

ReadHealth = Callable[[], Mapping[str, SinkHealth]]
"""The health of each sink by its name. Raises StorageError."""
PATIENCE_S: Final = 30.0
SHOWN_STATES: Final = 4
"""`status` shows so many of the last states; JSON has all that are kept."""
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


@composed(where=Where)
def list_(
    where: Where,
    config: Annotated[Path | None, typer.Argument(help="A configuration that names the bucket.")] = None,
    worker: WorkerPath = None,
    overrides: Overrides = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List the sinks that keep their state in a bucket, with status, lag and last commit."""
    folder = where.folder() if config is None else folder_of(settings_of(config, worker, overrides))
    found = all_snapshots(folder.store, folder.prefix, seen_ms=now_ms())
    if output is OutputFormat.JSON:
        show_json({"sinks": [row_document(one, folder.bucket) for one in found]})
    elif found:
        show_table(console(), sinks_table(found, folder.bucket))
    else:
        show_line(console(), f"No sink has state below {folder}")


@composed(target=target_of)
def status(target: Target, output: Output = OutputFormat.TABLE) -> None:
    """Show the state of one sink, with every topic-partition."""
    known = whole_snapshot_of(target.store, target.paths, seen_ms=now_ms())
    states = state_notes(target.store, target.paths)
    if output is OutputFormat.JSON:
        show_json({**detail_document(known, target.folder.bucket), "state_tables": states_document(states)})
        return
    out = console()
    for part in (*detail(known, target.folder.bucket), *states_detail(states, known.seen_ms)):
        if isinstance(part, Text):
            out.print(part, soft_wrap=True)
        else:
            show_table(out, part)


@of_each
@composed(target=target_of)
def check(
    target: Target,
    max_lag: Annotated[
        int | None,
        typer.Option(
            "--max-lag",
            metavar="RECORDS",
            min=0,
            help="More records than this behind Kafka, or an unknown number, are trouble. Default: health.lag.max.records.",
        ),
    ] = None,
    max_delay: Annotated[
        float | None,
        typer.Option(
            "--max-delay",
            metavar="SECONDS",
            min=0,
            help="Trouble where 5 % of the records of the last commit were older. Default: health.delay.max.ms.",
        ),
    ] = None,
    max_dead_letters: Annotated[
        float | None,
        typer.Option(
            "--max-dead-letters",
            metavar="SHARE",
            min=0,
            max=1,
            help="A larger share of the last hour's records, 0 to 1, is trouble. Default: health.deadletter.max.ratio.",
        ),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Print the state of a sink in one line; exit code 1 if it is DEGRADED, FAILED, STALE or UNKNOWN, or too far behind."""
    line, well = check_sink(
        target.store, target.paths, seen_ms=now_ms(), max_lag=max_lag, max_delay_s=max_delay, max_dead_letters=max_dead_letters
    )  # fmt: skip
    typer.echo(
        json.dumps({"sink": target.name, "well": well, "text": line})
        if output is OutputFormat.JSON
        else printable(line)
    )
    if not well:
        raise typer.Exit(1)


@composed(where=Where)
def watch(
    where: Where,
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", envvar="KAFKA_S3_WEBHOOK", help="An address that takes each change as JSON by POST."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("--command", help="A command that is run for each change, with it as JSON on its input."),
    ] = None,
    every: Annotated[float, typer.Option("--every", min=1, metavar="SECONDS", help="Pause between two checks.")] = 30,
) -> None:
    """Watch all sinks of a bucket, and notify a webhook or a command when the state of one changes."""
    if webhook is not None and not webhook.startswith(("https://", "http://")):
        raise usage_error("--webhook", "****", "is not an address.", "Write https://...")
    words = shlex.split(command or "")
    folder, stop = where.folder(), Event()

    def report(change: StateChange) -> None:
        document = change.document()
        typer.echo(printable(f"{document['at']} {document['text']}"))
        if webhook:
            post(webhook, json.dumps(document).encode())
        if words:
            run(words, json.dumps(document).encode())

    stop_on_signals(stop)
    watcher = Watcher(
        partial(healths, folder, DamageWatch(folder.store)),
        report,
        failed=lambda why: typer.echo(printable(f"{why} Reported again later."), err=True),
    )
    while not stop.is_set():
        watcher.poll(now_ms())
        stop.wait(every)


class Watcher:
    """Reports each change once. `failed` is given the reason where that was not possible."""

    def __init__(
        self, look: ReadHealth, report: Callable[[StateChange], None], *, failed: Callable[[str], None]
    ) -> None:
        self._look, self._report, self._failed = look, report, failed
        self._reported: dict[str, SinkHealth] = {}

    def poll(self, now_ms: int) -> None:
        """One look. At the first one, and of sinks that are new, only those that are not well are reported."""
        try:
            seen = {**self._look(), "": SinkHealth(SinkState.RUNNING, "it answers again.")}
            self._reported = {name: health for name, health in self._reported.items() if name in seen}
        except StorageError as error:
            seen = {"": SinkHealth(SinkState.UNKNOWN, str(error))}
        for name, found in seen.items():
            self._compare(name, found, now_ms)

    def _compare(self, name: str, found: SinkHealth, now_ms: int) -> None:
        before = self._reported.get(name)
        same = found.well if before is None else (before.state, before.well) == (found.state, found.well)
        if not same:
            try:
                self._report(StateChange(name, before.state if before else None, found, now_ms))
            except NotReported as error:
                self._failed(str(error))
                return
        self._reported[name] = found


@dataclass(frozen=True, slots=True)
class StateChange:
    """A sink's state, and the one before (None at the first look). The sink is blank where it is the bucket that cannot be read."""

    sink: str
    before: SinkState | None
    health: SinkHealth
    at_ms: int

    def document(self) -> dict[str, Any]:
        """The change as JSON's members; `text` is the whole in a sentence, by the name that chats know."""
        who = f"Sink {self.sink}" if self.sink else "The bucket"
        return {
            "text": f"{who} {self.health.state}: {self.health.reason}",
            "sink": self.sink,
            "before": self.before,
            "status": self.health.state,
            "well": self.health.well,
            "reason": self.health.reason,
            "at": iso_time(self.at_ms, "seconds"),
        }


class NotReported(Exception):
    """A change could not be reported; the text says why."""


def healths(folder: SinkFolder, watch: DamageWatch) -> Mapping[str, SinkHealth]:
    """The health of every sink of a folder of state. Raises StorageError."""
    seen = all_snapshots(folder.store, folder.prefix, seen_ms=now_ms(), watch=watch)
    return {known.name: health(known) for known in seen}


def post(url: str, document: bytes) -> None:
    """Sends a document. Raises NotReported without the address, which may be a secret."""
    request = urllib.request.Request(url, document, {"Content-Type": "application/json"}, method="POST")
    try:
        with careful_opener().open(request, timeout=PATIENCE_S):
            return
    except urllib.error.HTTPError as error:
        raise NotReported(f"The webhook answered {error.code}.") from None
    except (OSError, ValueError) as error:
        raise NotReported(f"The webhook did not answer ({type(error).__name__}).") from None


def run(words: list[str], document: bytes) -> None:
    """Runs a command. Raises NotReported where it cannot be run, fails, or takes longer than PATIENCE_S."""
    try:
        subprocess.run(words, input=document, check=True, timeout=PATIENCE_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotReported(f"The command {words[0]} failed: {error}.") from None


def sinks_table(found: Sequence[SinkSnapshot], bucket: str) -> Table:
    """One line a sink."""
    table = Table()
    for name in ("ID", "Name", "Status", "Type", "Lag", "Last commit"):
        table.add_column(name, justify="right" if name == "Lag" else "left", overflow="fold")
    for known in found:
        state = health(known).state
        shown, commit = styled((state, COLOURS[state])), known.last_commit or "-"
        table.add_row(sink_id(bucket, known.name), known.name, shown, TYPE, str(known.lag), commit)
    return table


def row_document(known: SinkSnapshot, bucket: str) -> dict[str, Any]:
    """A sink of the list."""
    judged = health(known)
    return {
        "id": sink_id(bucket, known.name),
        "name": known.name,
        "status": judged.state.value,
        "type": TYPE,
        "lag": known.lag.number,
        "lag_exact": known.lag.exact,
        "last_commit": known.last_commit or None,
        "reason": judged.reason,
        "well": judged.well,
        "since": None if judged.since_ms is None else _iso(judged.since_ms),
        "catch_up": asdict(known.catch_up) if known.catch_up else None,
    }


def detail_document(known: SinkSnapshot, bucket: str) -> dict[str, Any]:
    """Everything that is known of a sink."""
    heartbeat = known.heartbeat
    beat = {**asdict(heartbeat), "phase": heartbeat.phase.value} if heartbeat else None
    if beat is not None:
        del beat["lag"], beat["states"]  # the topic-partitions have it, and the list below
    return {
        **row_document(known, bucket),
        "states": [{"at": _iso(one.at_ms), "state": one.state, "why": one.why} for one in state_history(known)],
        "configured": known.configured,
        "control": asdict(known.control) if known.control else None,
        "heartbeat": beat,
        "log": {
            "version": known.log.version,
            "epoch": known.log.epoch,
            "totals": asdict(known.log.totals),
            "originals": [{"entry": entry, "since": one.committed_at} for entry, one in known.log.replaced.items()],
        }
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
            for point in partition_statuses(known)
        ],
    }


def detail(known: SinkSnapshot, bucket: str) -> Iterator[Text | Table]:
    """Everything that is known of a sink, for people."""
    judged = health(known)
    colour = COLOURS[judged.state]
    yield styled(f"Sink {known.name} ({sink_id(bucket, known.name)}): ", (judged.state, colour), f"  {judged.reason}")
    for name, text in _facts(known, known.seen_ms):
        yield styled(f"  {name:<15}{text}")
    points = partition_statuses(known)
    if not points:
        return
    names = ("partition", "frontier", "written up to", "dead letters ahead", "lag")
    table = new_table("", left=["topic"], right=names)
    for point in points:
        numbers = (point.frontier, point.written, point.dead_ahead)
        cells = ("-" if number is None else f"{number:,}" for number in numbers)
        lag = "unknown" if point.lag is None else f"{point.lag:,}"
        table.add_row(point.topic_partition.topic, str(point.topic_partition.partition), *cells, lag)
    yield table


def states_document(states: Mapping[str, StateNote | str]) -> list[dict[str, Any]]:
    """How far each topic's state table has come."""
    return [{"topic": topic, "unreadable": one} if isinstance(one, str) else {
        "topic": topic,
        "table": one.name,
        "complete_through": one.position,
        "keys": one.rows,
        "changes_a_minute": one.changes_a_minute,
        "last_merge": _iso(one.merged_ms),
        "rebuilding": one.rebuilding,
        "held": {"why": one.why, "since": _iso(one.since_ms)} if one.why else None,
    } for topic, one in states.items()]  # fmt: skip


def states_detail(states: Mapping[str, StateNote | str], seen_ms: int) -> Iterator[Text | Table]:
    """How far each topic's state table has come, for people; above it what holds those that do not follow."""
    readable = {topic: one for topic, one in states.items() if isinstance(one, StateNote)}
    for topic, one in states.items():
        if isinstance(one, str):
            yield styled(f"  How far the state of {topic} has come cannot be read: {one}")
        elif one.why:
            yield styled(f"  The state of {topic} does not follow since {_iso(one.since_ms)}: {one.why}")
    if not readable:
        return
    names = ("complete through", "keys", "changes a minute", "last merge")
    table = new_table("", left=["topic", "state table"], right=names)
    for topic, note in readable.items():
        pace, rows = note.changes_a_minute, note.rows
        merged = f"{age(seen_ms - note.merged_ms)} ago"
        table.add_row(
            topic, note.name, f"entry {note.position:,}",
            "unknown" if rows is None else f"{rows:,}", "-" if pace is None else f"{pace:,.1f}",
            f"being rebuilt, since {merged}" if note.rebuilding else merged,
        )  # fmt: skip
    yield table


def _facts(known: SinkSnapshot, now_ms: int) -> Iterator[tuple[str, str]]:
    beat, log = known.heartbeat, known.log
    for number, one in enumerate(reversed(state_history(known)[-SHOWN_STATES:])):
        why = f": {one.why}" if one.why else ""
        yield (
            "before that" if number else "since",
            f"{_iso(one.at_ms)} ({age(now_ms - one.at_ms)} ago) {one.state}{why}",
        )
    if beat is not None:
        yield "process", f"pid {beat.pid} on {beat.host}, kafka-s3 {beat.product}, driver {beat.driver or 'unknown'}"
        yield "started", f"{_iso(beat.started_ms)} ({age(now_ms - beat.started_ms)} ago)"
        yield "heartbeat", f"{age(now_ms - beat.beat_ms)} ago ({beat.phase}), every {duration_text(beat.interval_ms)}"
        if beat.last_round_ms is not None:
            yield "last round", _iso(beat.last_round_ms)
        looked = "" if known.lag.polled_ms is None else f" (looked {age(now_ms - known.lag.polled_ms)} ago)"
        yield "lag", f"{known.lag}{looked}; records of files that are still open count"
        if known.catch_up is not None:
            yield "catching up", known.catch_up.text(now_ms)
        if beat.delay is not None:
            yield (
                "delay",
                f"median {age(beat.delay.median_ms)}, 95 % below {age(beat.delay.slow_ms)}; of the last commit",
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
        if log.replaced:
            oldest = min(one.committed_at for one in log.replaced.values())
            yield (
                "originals",
                f"of {len(log.replaced):,} compactions or erasures are still in the bucket, the first since {oldest}",
            )
    if known.control is not None:
        wanted = "paused" if known.control.paused else "running"
        yield "asked", f"{wanted}; last request by {known.control.requested_by} at {known.control.requested_at}"
    yield "configuration", "stored" if known.configured else "not stored"


def _iso(ms: int) -> str:
    try:
        return iso_time(ms, "seconds")
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms, which is not a time"
