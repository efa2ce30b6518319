"""`kafka-s3 simulate CONFIG|NAME`: what would this configuration make of the topic's traffic? Nothing is written anywhere."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from kafka_s3.cli.arguments import Output, OutputFormat, composed, sink_settings, usage_error
from kafka_s3.cli.display import console, new_table, show_json, show_line, show_table, size_text
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.timing import duration_text, now_ms
from kafka_s3.ops.forecast import DAY_MS, Forecast, Prices
from kafka_s3.ops.simulation import Load, made_load, sampled_load, window_of
from kafka_s3.ops.simulation import simulate as run
from kafka_s3.run.wiring.delta import written_by_spark

HOUR_MS: Final = 3_600_000
USUAL: Final = Prices()


def load_of(
    settings: Settings,
    *,
    rate: float | None,
    record_bytes: int | None,
    partitions: int | None,
    sample: int,
    today_ms: int,
) -> Load:
    """The traffic that the options mean; it begins at `today_ms` (epoch ms) where it has no times of its own. Raises ConfigError."""
    if record_bytes is not None:
        if rate is None:
            raise usage_error("--rate", None, "is needed with --record-bytes.", "Give the records a second.")
        return made_load(settings, rate=rate, record_bytes=record_bytes, partitions=partitions or 1, begun_ms=today_ms)
    if partitions is not None:
        rule = "goes with --record-bytes: a sample has the topic's own."
        raise usage_error("--partitions", str(partitions), rule, "Leave it out.")
    from kafka_s3.run.wiring.clients import plain_reader

    return sampled_load(settings, plain_reader(settings), records=sample, rate=rate, otherwise_ms=today_ms)


def prices(
    per_thousand_writes: Annotated[
        float, typer.Option("--price-writes", min=0, help="Per 1,000 writing requests.")
    ] = USUAL.per_thousand_writes,
    per_thousand_reads: Annotated[
        float, typer.Option("--price-reads", min=0, help="Per 1,000 reading requests.")
    ] = USUAL.per_thousand_reads,
    per_gib_month: Annotated[
        float, typer.Option("--price-storage", min=0, help="Per GiB and month.")
    ] = USUAL.per_gib_month,
) -> Prices:
    """The prices of the region and contract; without options those of S3 Standard in us-east-1."""
    return Prices(per_thousand_writes, per_thousand_reads, per_gib_month)


@composed(settings=sink_settings, asked=prices)
def simulate(
    settings: Settings,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Records a second in all; default: as fast as those of the sample came."),
    ] = None,
    record_bytes: Annotated[
        int | None, typer.Option("--record-bytes", min=1, help="Make JSON records of that size, and ask no broker.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="With --record-bytes: partitions of each topic; default: 1.")
    ] = None,
    sample: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of the topics' newest records are the sample.")
    ] = 20_000,
    hours: Annotated[
        float | None,
        typer.Option(min=0.01, help="How long a time is simulated; default: a day, or less for very many records."),
    ] = None,
    asked: Prices = USUAL,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Estimate what a configuration would write: number, size and delay of files, requests, and the cost of a month."""
    today_ms = now_ms() // DAY_MS * DAY_MS
    load = load_of(
        settings, rate=rate, record_bytes=record_bytes, partitions=partitions, sample=sample, today_ms=today_ms
    )
    window = window_of(load.streams) if hours is None else int(hours * HOUR_MS)
    with _bar() if sys.stderr.isatty() else nullcontext() as bar:
        task = bar.add_task("simulating", total=window) if bar is not None else None
        found = run(
            settings,
            load.streams,
            begun_ms=load.begun_ms,
            window_ms=window,
            progress=lambda done: bar.update(task, completed=done) if bar is not None and task is not None else None,
        )
    notes = [*load.notes, *_notes(settings, found)]
    if output is OutputFormat.JSON:
        show_json({**found.document(asked), "notes": notes})
    else:
        show(found, asked, notes, console())


def show(found: Forecast, asked: Prices, notes: list[str], out: Console) -> None:
    """The forecast for people."""
    for note in notes:
        show_line(out, ("note:", "dim"), f" {note}")
    table = new_table("A day under this configuration", left=["what"], right=["how much"], show_header=False)
    for name, text in _rows(found, asked).items():
        table.add_row(name, text)
    show_table(out, table)


def _rows(found: Forecast, asked: Prices) -> dict[str, str]:
    month = found.month(asked)
    sizes, delays = [size_text(size) for size in found.sizes], [f"{ms / 1000:,.0f} s" for ms in found.delays_ms]
    reasons = ", ".join(f"{count / max(found.files, 1):.0%} {reason}" for reason, count in found.reasons.items())
    return {
        "records": f"{found.per_day(found.records):,.0f}",
        "files": f"{found.per_day(found.files):,.0f}",
        "closed by": reasons or "none closed",
        "objects, sidecars included": f"{found.per_day(found.objects):,.0f}",
        "bytes": size_text(found.per_day(found.bytes)),
        "size of a file: median, 95 %, largest": ", ".join(sizes),
        "a record is visible after: median, 95 %, longest": ", ".join(delays),
        "commit entries": f"{found.per_day(found.entries):,.0f}",
        "dead letters": f"{found.per_day(found.dead_letters):,.0f}",
        "requests: writing, reading": f"{found.per_day(found.writes):,.0f}, {found.per_day(found.reads):,.0f}",
        "a month: requests, storage of its objects": f"{month['writes'] + month['reads']:,.2f}, {month['storage']:,.2f}",
        "a month in all": f"{month['total']:,.2f}",
    }


def _notes(settings: Settings, found: Forecast) -> list[str]:
    notes = []
    if found.window_ms != DAY_MS:
        notes.append(
            f"{duration_text(found.window_ms)} were simulated, and are given as a day; rules that act more rarely do not show."
        )
    if found.written + found.dead_letters + found.skipped < found.records:
        left = found.records - found.written - found.dead_letters - found.skipped
        notes.append(f"{left:,} records were still open at the end, in no file yet.")
    if settings.flag("delta.enable"):
        notes.append(
            "Requests of the copy that Spark writes as a Delta table are not counted, nor its objects."
            if written_by_spark(settings)
            else "Requests of the Delta table are counted as delta-rs sends them; its log's bytes are not."
        )
    if settings.flag("iceberg.enable"):
        notes.append(
            "Requests of the Iceberg tables are counted by rule; those to the catalog and their metadata's bytes are not."
        )
    if settings.text("glue.database.name") or settings.text("notification.class"):
        notes.append("Nobody was notified: requests to Glue and notifications are not counted.")
    return notes


def _bar() -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=console(stderr=True))
