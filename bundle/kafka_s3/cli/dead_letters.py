"""`kafka-s3 dead-letters list|show|export|replay|resolve CONFIG|NAME`: which records were not written, why, and write them after all."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer
from rich.console import Console
from rich.table import Table

from kafka_s3.cli.arguments import (
    DryRun,
    Force,
    Output,
    OutputFormat,
    PartitionNumber,
    TopicName,
    Yes,
    composed,
    sink_settings,
    usage_error,
)
from kafka_s3.cli.display import console, new_table, show_json, show_line, show_table, size_text
from kafka_s3.cli.position import confirm
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.dead_letters import (
    FiledLetter,
    LetterFile,
    LetterGroup,
    LetterSelection,
    LetterState,
    grouped,
    letters,
    read_ledger,
)
from kafka_s3.model.dead_letters import Stage
from kafka_s3.model.files import DataFile, counted
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.dead_letter_text import csv_rows, details, json_lines, time_text
from kafka_s3.ops.positions import check_idle, epoch_ms
from kafka_s3.ops.replay import DryRunResult, Replay, check_replayable, make_replay
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.followers import tagging_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.s3 import S3Store

IDLE_MS: Final = 120_000
SHOWN_FILES: Final = 20
SHOWN_REASONS: Final = 20
SHOWN_MESSAGE: Final = 200
"""Characters of an example in the list; `dead-letters show` has all of a message."""
dead_letters = typer.Typer(
    help="Look at dead letters, replay or resolve them.", no_args_is_help=True, add_completion=False
)


class Which(StrEnum):
    """Which letters are listed or exported, by what became of them."""

    OPEN = "open"
    SETTLED = "settled"
    ALL = "all"

    @property
    def states(self) -> frozenset[LetterState]:
        """The states that are meant."""
        is_open = frozenset({LetterState.OPEN})
        return {Which.OPEN: is_open, Which.SETTLED: frozenset(LetterState) - is_open}.get(self, frozenset(LetterState))


WhichOnly = Annotated[Which, typer.Option("--state", help="Which letters.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Not more than this many.")]


class ExportFormat(StrEnum):
    """What an export looks like."""

    JSONL = "jsonl"
    CSV = "csv"


def selection(
    stage: Annotated[Stage | None, typer.Option("--stage", help="Only letters that failed at this stage.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only letters of this topic; may be given several times.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Only letters of this partition.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="Only the letter of this offset.")] = None,
    exception: Annotated[
        str | None, typer.Option("--class", metavar="EXCEPTION", help="Only letters of this exception class.")
    ] = None,
    entry: Annotated[int | None, typer.Option("--entry", min=0, help="Only letters of this commit entry.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only what became a dead letter then or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only what became a dead letter before.")
    ] = None,
) -> LetterSelection:
    """The filters of the command line. Raises ConfigError for a time that is none."""
    return LetterSelection(
        stage=None if stage is None else str(stage),
        topics=frozenset(topic or ()),
        partition=partition,
        offset=offset,
        exception=exception,
        entry=entry,
        since_ms=None if since is None else epoch_ms(since),
        until_ms=None if until is None else epoch_ms(until),
    )


@dead_letters.command(name="list")
@composed(settings=sink_settings, chosen=selection)
def list_(
    settings: Settings,
    chosen: LetterSelection,
    which: WhichOnly = Which.ALL,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Count dead letters by stage, exception class, topic-partition and what became of them."""
    with dead_letter_store(settings) as at:
        groups = grouped(at.found(replace(chosen, states=which.states)))
    out, shown = console(), groups[:limit]
    if output is OutputFormat.JSON:
        show_json(document(shown))
        return
    if shown:
        show_table(out, table(shown))
    counts = Counter[LetterState]()
    for group in groups:
        counts[group.state] += group.count
    parts = ", ".join(
        f"{counts[state]:,} {state}" for state in LetterState if counts[state] or state is LetterState.OPEN
    )
    rest = f" ({len(groups) - len(shown)} more groups are not shown)" if len(groups) > len(shown) else ""
    show_line(out, f"{sum(counts.values()):,} dead letters: {parts}{rest}")


@dead_letters.command()
@composed(settings=sink_settings)
def show(
    settings: Settings,
    topic: TopicName,
    partition: PartitionNumber,
    offset: Annotated[int, typer.Argument(min=0, help="The offset.")],
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show everything of one dead letter; nothing of its content reaches the terminal as a control character."""
    wanted = LetterSelection(topics=frozenset({topic}), partition=partition, offset=offset)
    with dead_letter_store(settings) as at:
        found = list(at.found(wanted))
    if not found:
        show_line(
            console(stderr=True),
            f"There is no dead letter of {topic}-{partition} offset {offset}. "
            "`dead-letters export` writes all there are.",
        )
        raise typer.Exit(1)
    out = console()
    if output is OutputFormat.JSON:
        show_json([dict(details(filed)) for filed in found])
        return
    for filed in found:
        for name, text in details(filed):
            show_line(out, (f"{name:<18}", "bold"), f" {text}")


@dead_letters.command()
@composed(settings=sink_settings, chosen=selection)
def export(
    settings: Settings,
    chosen: LetterSelection,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="A file that does not exist yet. Default: standard output."),
    ] = None,
    form: Annotated[
        ExportFormat, typer.Option("--format", help="JSON lines, or CSV for a spreadsheet.")
    ] = ExportFormat.JSONL,
    which: WhichOnly = Which.OPEN,
    limit: Limit = None,
) -> None:
    """Write dead letters to a file or to standard output, one by one: keys, values and headers as base64."""
    written = 0
    with dead_letter_store(settings) as at, target(to) as file:
        found = islice(at.found(replace(chosen, states=which.states)), limit)
        for line in csv_rows(found) if form is ExportFormat.CSV else json_lines(found):
            file.write(line)
            written += 1
    written -= form is ExportFormat.CSV  # its header
    show_line(console(stderr=True), f"{written:,} dead letters written to {to or 'standard output'}")


@dead_letters.command()
@composed(settings=sink_settings, chosen=selection)
def replay(
    settings: Settings,
    chosen: LetterSelection,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    limit: Limit = None,
) -> None:
    """Write open dead letters to objects, as this configuration reads them. Stop the sink first: a running one is fenced."""
    out = console()
    with dead_letter_store(settings) as at:
        check_replayable(at.settings)
        work = at.replay()
        if dry_run:
            outcome = work.dry_run(chosen, limit=limit)
        else:
            check_driver_stopped(work, forced=force)
            _ask(at, chosen, out, limit=limit, yes=yes)
            outcome, committed = work.run(chosen, limit=limit)
        at.missing.extend(outcome.missing)
    print_dry_run(out, outcome)
    if dry_run:
        show_line(out, f"{len(outcome.done):,} would succeed, {len(outcome.failed):,} would fail again (--dry-run)")
        return
    result = f"in entry {committed.version} of the commit log" if committed else "nothing was changed"
    show_line(out, f"{len(outcome.done):,} replayed, {len(outcome.failed):,} failed again and stay open: {result}")
    if outcome.failed:
        raise typer.Exit(1)


@dead_letters.command()
@composed(settings=sink_settings, chosen=selection)
def resolve(
    settings: Settings,
    chosen: LetterSelection,
    reason: Annotated[str, typer.Option("--reason", help="Why they need not be written; the commit log keeps it.")],
    yes: Yes = False,
    force: Force = False,
) -> None:
    """Mark open dead letters as resolved without writing them. Stop the sink first: a running one is fenced."""
    if not reason.strip():
        raise usage_error("--reason", reason, "is blank.", "Say why the records need not be written.")
    out = console()
    with dead_letter_store(settings) as at:
        groups = grouped(at.found(replace(chosen, states=Which.OPEN.states)))
        if not groups:
            show_line(out, "There are no such open dead letters.")
            return
        show_table(out, table(groups))
        work = at.replay()
        check_driver_stopped(work, forced=force)
        count = sum(group.count for group in groups)
        confirm(None if yes else f"Mark {count:,} dead letters as resolved, never to be written?")
        committed = work.resolve(chosen, reason=reason)
    done = -committed.totals.dead_letters if committed else 0
    where = f" in entry {committed.version} of the commit log" if committed else ""
    show_line(out, f"{done:,} dead letters resolved without writing them{where}")


def _ask(at: DeadLetterStore, chosen: LetterSelection, out: Console, *, limit: int | None, yes: bool) -> None:
    """Shows what would be replayed, and asks, unless `yes` or there is nothing."""
    groups = [] if yes else grouped(islice(at.found(replace(chosen, states=Which.OPEN.states)), limit))
    if groups:
        show_table(out, table(groups))
        count = sum(group.count for group in groups)
        confirm(f"Write {count:,} dead letters to objects, as far as this configuration can read them?")


@dataclass(frozen=True, slots=True)
class DeadLetterStore:
    """A sink's settings and its bucket, open for one command."""

    settings: Settings
    store: S3Store
    missing: list[LetterFile]

    def found(self, selection: LetterSelection) -> Iterator[FiledLetter]:
        ledger = read_ledger(self.store, state_paths(self.settings))
        return letters(ledger, self.store, selection=selection, missing=self.missing.append)

    def replay(self) -> Replay:
        """The replay of this sink."""
        return make_replay(self.settings, self.store, clock_ms=now_ms, tagging=tagging_of(self.settings))


@contextmanager
def dead_letter_store(settings: Settings) -> Iterator[DeadLetterStore]:
    """The sink's bucket for one command; files that the log names and the bucket has not are reported at its end."""
    store = S3Store(store_options(settings))
    at = DeadLetterStore(settings, store, [])
    try:
        yield at
    finally:
        store.close()
    for gone in at.missing:
        show_line(
            console(stderr=True),
            f"not there: {gone.file.key}, {gone.file.records:,} dead letters of entry {gone.entry}. Where that is the last entry, the next "
            "run of the sink makes it visible; else restore it from a bucket version or backup.",
        )


def check_driver_stopped(work: Replay, *, forced: bool) -> None:
    """Raises DriverAtWork where a driver sends heartbeats, or wrote the log in the last two minutes, unless that is forced."""
    work.log.load()
    if not forced:
        check_idle(work.log, now_ms=now_ms(), within_ms=IDLE_MS)


@contextmanager
def target(output: Path | None) -> Iterator[TextIO]:
    """Where an export goes. Raises ConfigError where the file exists; a file that is not finished is removed."""
    if output is None:
        yield sys.stdout
        return
    try:
        file = output.open("x", encoding="utf-8", newline="")
    except FileExistsError:
        raise usage_error("--to", str(output), "exists already.", "Name another file.") from None
    except OSError as error:
        raise usage_error("--to", str(output), f"cannot be written ({error.strerror}).") from None
    try:
        with file:
            yield file
    except BaseException:
        output.unlink(missing_ok=True)
        raise


def document(groups: Sequence[LetterGroup]) -> dict[str, Any]:
    """Groups of dead letters for programs."""
    return {
        "groups": [
            {
                "stage": group.stage,
                "exception": group.exception,
                "topic": group.topic_partition.topic,
                "partition": group.topic_partition.partition,
                "first_ms": group.first_ms,
                "last_ms": group.last_ms,
                "state": group.state.value,
                "letters": group.count,
                "example": group.example,
            }
            for group in groups
        ]
    }


def table(groups: Sequence[LetterGroup]) -> Table:
    """Groups of dead letters as a table, each with the first letter's message; class names are never cut, long messages are."""
    names = ("stage", "exception class", "topic-partition", "first (UTC)", "last (UTC)", "state")
    found = new_table("Dead letters", left=names, right=["letters"])
    found.add_column("example", overflow="fold", ratio=1)
    for group in groups:
        texts = (
            group.stage,
            group.exception,
            str(group.topic_partition),
            time_text(group.first_ms),
            time_text(group.last_ms),
            group.state,
        )
        style = "yellow" if group.state is LetterState.OPEN else None
        example = group.example[:SHOWN_MESSAGE] + (" ..." if len(group.example) > SHOWN_MESSAGE else "")
        found.add_row(*texts, f"{group.count:,}", example, style=style)
    return found


def print_dry_run(out: Console, outcome: DryRunResult) -> None:
    """The objects, and the reasons of the letters that fail again; long lists are cut, with the number left out."""

    def line(file: DataFile) -> str:
        return f"{file.key}: {file.records:,} records, {size_text(file.bytes)}"

    _some(out, [line(file) for file in counted(outcome.files)], most=SHOWN_FILES, style="green")
    _some(out, [f"still fails: {letter}" for letter in outcome.failed], most=SHOWN_REASONS, style="yellow")


def _some(out: Console, lines: Sequence[str], *, most: int, style: str) -> None:
    for line in lines[:most]:
        show_line(out, line, style=style)
    if len(lines) > most:
        show_line(out, f"... and {len(lines) - most:,} more", style=style)
