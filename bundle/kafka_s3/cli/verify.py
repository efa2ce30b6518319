"""`kafka-s3 verify CONFIG|NAME`: is every record exactly once where the log says? An independent check of log, objects and Kafka.

Exit codes: 0 nothing found, 1 findings (or Kafka or the bucket cannot be asked), 2 the configuration or the call is wrong.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from kafka_s3.cli.arguments import Output, OutputFormat, time_of
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import sink_settings
from kafka_s3.cli.display import console, show_table, styled
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.text import printable
from kafka_s3.ops.verify.audit import audit_of, kafka_of
from kafka_s3.ops.verify.claims import SegmentSelection
from kafka_s3.ops.verify.findings import PartitionTally, Report

COLUMNS = (
    "offsets", "in Kafka", "written", "dead letters", "skipped", "gaps", "no record", "before log start", "objects", "read", "compared",
)  # fmt: skip


@composed(settings=sink_settings)
def verify(
    settings: Settings,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    first: Annotated[
        int | None, typer.Option("--from", min=0, help="Only from this offset on, with the whole of its commit.")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--to", min=0, help="Only up to this offset, with the whole of its commit.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only commits since this time, as 2025-01-31 or 2025-01-31T10:00:00Z."),
    ] = None,
    no_kafka: Annotated[
        bool, typer.Option("--no-kafka", help="Ask no broker: check the log against the objects alone.")
    ] = False,
    sample: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Read only N objects, spread evenly; default: all.")
    ] = None,
    output: Output = OutputFormat.TABLE,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="A progress bar; default: on a terminal.")
    ] = None,
) -> None:
    """Check that every offset is exactly once in objects, dead letters, skips or classified gaps. Changes nothing."""
    selection = SegmentSelection(topic, partition, first, last, time_of("--since", since) if since else None)
    audit = audit_of(settings, selection, sample=sample, kafka=None if no_kafka else kafka_of(settings))
    with _Bar() if (progress if progress is not None else sys.stderr.isatty()) else nullcontext() as bar:
        if bar is not None:
            audit.tell = bar.tell
        report = audit.run()
    if output is OutputFormat.JSON:
        print(json.dumps(report.document(), indent=2))
    else:
        print_report(report, console())
    if not report.clean:
        raise typer.Exit(1)


def print_report(report: Report, out: Console) -> None:
    """The report for people: a table of what was looked at, then what was found."""
    table = Table(title=f"Sink {report.sink}: {report.entries:,} commit entries", title_justify="left")
    table.add_column("topic-partition")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for tally in report.tallies:
        table.add_row(str(tally.topic_partition), *_cells(tally))
    show_table(out, table)
    for note in report.notes:
        out.print(styled(("note:", "dim"), f" {note}"), soft_wrap=True)
    for finding in report.findings:
        out.print(styled((finding.kind, "red"), f" {finding.place}"), soft_wrap=True)
        out.print(styled(f"    {finding.text}"), soft_wrap=True)
    well = report.clean and not report.empty and not report.twice
    out.print(
        report.verdict(),
        style="green" if well else "yellow" if report.clean else "red",
        highlight=False,
        soft_wrap=True,
    )


def _cells(tally: PartitionTally) -> list[str]:
    gaps = ", ".join(f"{count:,} {cause}" for cause, count in tally.gaps.items()) or "0"
    numbers = (tally.written, tally.dead_letters, tally.skipped)
    rest = (tally.without_record, tally.retention, tally.objects, tally.read, tally.compared)
    return [
        f"[{tally.start}, {tally.until})",
        "not asked" if tally.kafka is None else f"{tally.kafka:,}",
        *(f"{number:,}" for number in numbers),
        gaps,
        *(f"{number:,}" for number in rest),
    ]


class _Bar:
    """Progress bars by what is worked on."""

    def __init__(self) -> None:
        self._bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=console(stderr=True),
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}

    def tell(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(printable(what), total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
