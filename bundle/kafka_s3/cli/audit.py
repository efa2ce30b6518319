"""`kafka-s3 verify|explain`: is every record exactly once where the log says, and what became of one?

`verify` checks log, objects and Kafka against each other; `explain` says where one object comes from, or what became of a
record.
Exit codes: 0 nothing found (or explained), 1 findings, a record or key that no entry of the log knows, or Kafka or the bucket cannot be
asked, 2 the configuration or the call is wrong.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from kafka_s3.cli.arguments import Output, OutputFormat, check_topic, composed, sink_settings, time_of
from kafka_s3.cli.display import console, new_table, show_json, show_line, show_table, size_text, styled
from kafka_s3.cli.tables import check_all_tables, print_checks
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.files import DataFile
from kafka_s3.model.text import printable
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.explain.answer import Account, Answer, Outcome
from kafka_s3.ops.verify.audit import audit_of
from kafka_s3.ops.verify.claims import SegmentSelection
from kafka_s3.ops.verify.findings import PartitionTally, Report
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import consumes_topic, plain_reader
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.s3 import S3Store

About = Annotated[
    str,
    typer.Argument(
        metavar="KEY|TOPIC:PARTITION:OFFSET", help="An object's key, with or without s3://BUCKET/; or a record."
    ),
]
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
    tables: Annotated[
        bool, typer.Option("--tables", help="Then compare the Delta and Iceberg tables with the log, too.")
    ] = False,
    output: Output = OutputFormat.TABLE,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="A progress bar; default: on a terminal.")
    ] = None,
) -> None:
    """Check that every offset is exactly once in objects, dead letters, skips or classified gaps. Changes nothing."""
    selection = SegmentSelection(topic, partition, first, last, time_of("--since", since) if since else None)
    if topic is not None:
        _check_topic(settings, topic)
    audit = audit_of(settings, selection, sample=sample, kafka=None if no_kafka else plain_reader(settings))
    with _Bar() if (progress if progress is not None else sys.stderr.isatty()) else nullcontext() as bar:
        if bar is not None:
            audit.notify = bar.show
        report = audit.run()
    checked = check_all_tables(settings, topic) if tables else []
    if output is OutputFormat.JSON:
        show_json(report.document() | ({"tables": [asdict(one) for one in checked]} if tables else {}))
    else:
        print_report(report, console())
        print_checks(checked, console())
    if not report.clean or any(one.findings for one in checked):
        raise typer.Exit(1)


def _check_topic(settings: Settings, topic: str) -> None:
    """Raises ConfigError for a topic that neither the configuration nor the log has: of that nothing would be verified."""
    if consumes_topic(settings, topic):
        return
    log = CommitLog(S3Store(store_options(settings)), state_paths(settings), clock_ms=now_ms)
    check_topic(topic, [*settings.names("topics"), *(tp.topic for tp in log.load().progress)])


def print_report(report: Report, out: Console) -> None:
    """The report for people: a table of what was looked at, then what was found."""
    title = f"Sink {report.sink}: {report.entries:,} commit entries"
    table = new_table(title, left=["topic-partition"], right=COLUMNS)
    for tally in report.tallies:
        table.add_row(str(tally.topic_partition), *_cells(tally))
    show_table(out, table)
    for tally in report.tallies:
        if tally.erased:
            what = "records and dead letters that it counts were erased, as was asked for"
            show_line(out, f"{tally.topic_partition}: {tally.erased:,} {what}.")
    for note in report.notes:
        show_line(out, ("note:", "dim"), f" {note}")
    for finding in report.findings:
        show_line(out, (finding.kind, "red"), f" {finding.place}")
        show_line(out, f"    {finding.text}")
    well = report.clean and not report.empty and not report.twice
    show_line(out, report.verdict(), style="green" if well else "yellow" if report.clean else "red")


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

    def show(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(printable(what), total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


@composed(settings=sink_settings)
def explain(
    settings: Settings,
    about: About,
    no_kafka: Annotated[bool, typer.Option("--no-kafka", help="Ask no broker: what log and bucket say alone.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show which entry, rule, schema and object a record or a key belongs to; also for dead letters, skips and gaps. Changes nothing."""
    from kafka_s3.ops.explain.inquiry import explain as explained

    kafka = None if no_kafka else plain_reader(settings)
    answer = explained(settings, about, store=S3Store(store_options(settings)), kafka=kafka)
    if output is OutputFormat.JSON:
        show_json(answer.document())
    else:
        show(answer, console())
    if answer.outcome is Outcome.UNKNOWN:
        raise typer.Exit(1)


def show(answer: Answer, out: Console) -> None:
    """The answer for people: the sentence, then each entry's account with its objects."""
    show_line(out, (answer.about, "bold"), f": {answer.outcome}")
    show_line(out, answer.text)
    for note in answer.notes:
        show_line(out, ("note:", "dim"), f" {note}")
    for account in answer.accounts:
        _show_account(account, answer, out)


def _spans(file: DataFile) -> str:
    spans = (f"{one.first_offset} to {one.last_offset} of partition {one.partition}" for one in file.slices)
    return ", ".join(spans) or f"{file.first_offset} to {file.last_offset}"


def _show_account(account: Account, answer: Answer, out: Console) -> None:
    void = "" if account.current else " (does not count any more)"
    head = f"entry {account.entry} of {account.committed_at}{void}: {account.text}"
    for file in account.files:
        known = (answer.objects or {}).get(file.key)
        if known is None:
            continue
        table = Table(title=styled(head), title_justify="left", show_header=False)
        rows = {
            "object": file.key, "role": file.role.value,
            "offsets": f"{_spans(file)}, {file.records:,} records", "size": size_text(file.bytes),
            "schema": file.schema or "none", "format": file.format, "closed by": known.rule, "directory": known.file.encoded_partition,
            "named by": known.directory, "in the bucket": known.bucket,
        }  # fmt: skip
        for name, text in rows.items():
            table.add_row(name, styled(text))
        show_table(out, table)
    if not account.files:
        show_line(out, head)
