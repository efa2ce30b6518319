"""What do the `dead-letters` commands share? Filters, the sink's bucket for one command, and the check before anything is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer
from rich.console import Console

from kafka_s3.cli.display import console
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.dead_letters import FiledLetter, LetterFile, LetterSelection, LetterState, letters, read_ledger
from kafka_s3.model.dead_letters import Stage
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.dead_letters.replay import Replay, make_replay
from kafka_s3.ops.positions import check_idle, epoch_ms
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.run.wiring.sink import tagging_of
from kafka_s3.store.options import store_options
from kafka_s3.store.s3 import S3Store

IDLE_MS: Final = 120_000


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
StageOnly = Annotated[Stage | None, typer.Option("--stage", help="Only letters that failed at this stage.")]
TopicOnly = Annotated[str | None, typer.Option("--topic", help="Only letters of this topic.")]
PartitionOnly = Annotated[int | None, typer.Option("--partition", min=0, help="Only letters of this partition.")]
OffsetOnly = Annotated[int | None, typer.Option("--offset", min=0, help="Only the letter of this offset.")]
ClassOnly = Annotated[
    str | None, typer.Option("--class", metavar="EXCEPTION", help="Only letters of this exception class.")
]
EntryOnly = Annotated[int | None, typer.Option("--entry", min=0, help="Only letters of this commit entry.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only records that became dead letters then or later.")
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only records that became dead letters before.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Not more than this many.")]


@dataclass(frozen=True, slots=True)
class DeadLetterStore:
    """A sink's settings and its bucket, open for one command."""

    settings: Settings
    store: S3Store
    missing: list[LetterFile]

    def found(self, selection: LetterSelection) -> Iterator[FiledLetter]:
        """The selected letters, file by file."""
        ledger = read_ledger(self.store, state_paths(self.settings))
        return letters(ledger, self.store, selection=selection, missing=self.missing.append)

    def replay(self) -> Replay:
        """The replay of this sink."""
        return make_replay(self.settings, self.store, clock_ms=now_ms, tagging=tagging_of(self.settings))


def selection(
    stage: StageOnly = None,
    topic: TopicOnly = None,
    partition: PartitionOnly = None,
    offset: OffsetOnly = None,
    exception: ClassOnly = None,
    entry: EntryOnly = None,
    since: Since = None,
    until: Until = None,
) -> LetterSelection:
    """The filters of the command line. Raises ConfigError for a time that is none."""
    return LetterSelection(
        stage=None if stage is None else str(stage),
        topic=topic,
        partition=partition,
        offset=offset,
        exception=exception,
        entry=entry,
        since_ms=None if since is None else epoch_ms(since),
        until_ms=None if until is None else epoch_ms(until),
    )


@contextmanager
def dead_letter_store(settings: Settings) -> Iterator[DeadLetterStore]:
    """The sink's bucket for one command; files that the log names and the bucket has not are told at its end."""
    store = S3Store(store_options(settings))
    at = DeadLetterStore(settings, store, [])
    try:
        yield at
    finally:
        store.close()
    for gone in at.missing:
        print_line(
            console(stderr=True),
            f"not there: {gone.file.key}, {gone.file.records:,} dead letters of entry {gone.entry}. Where that is the last entry, the next "
            "run of the sink makes it visible; else restore it from a bucket version or backup.",
        )


def check_driver_stopped(work: Replay, *, forced: bool) -> None:
    """Raises DriverAtWork where a driver is heard of, or wrote the log in the last two minutes, unless that is forced."""
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
        raise ConfigError([Problem("--to", str(output), "exists already.", "Name another file.")]) from None
    except OSError as error:
        raise ConfigError([Problem("--to", str(output), f"cannot be written ({error.strerror}).")]) from None
    try:
        with file:
            yield file
    except BaseException:
        output.unlink(missing_ok=True)
        raise


def print_line(out: Console, text: str, *, style: str | None = None) -> None:
    """A line that is not broken, with nothing in it that a terminal would obey."""
    out.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
