"""`kafka-s3 simulate CONFIG|NAME`: estimate what a configuration makes of the topic's traffic. Nothing is written anywhere."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.console import Console

from kafka_s3.cli.arguments import Output, OutputFormat, composed, sink_settings, usage_error
from kafka_s3.cli.display import console, new_table, show_json, show_line, show_table, size_text
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.timing import duration_text
from kafka_s3.ops.forecast import Forecast, Prices
from kafka_s3.ops.forecast import forecast as forecast_of
from kafka_s3.ops.sampling import Traffic, made_traffic, sampled_traffic
from kafka_s3.run.wiring.delta import written_by_spark

USUAL: Final = Prices()


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
    """Return the prices of the region and contract; without options those of S3 Standard in us-east-1."""
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
    asked: Prices = USUAL,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Estimate what a configuration would write: number, size and delay of files, requests, and the cost of a month."""
    traffic = _traffic(settings, rate=rate, record_bytes=record_bytes, partitions=partitions, sample=sample)
    forecast = forecast_of(settings, traffic.paces)
    notes = [*traffic.notes, *_notes(settings)]
    if output is OutputFormat.JSON:
        show_json({**forecast.document(asked), "notes": notes})
    else:
        _show(forecast, asked, notes, console())


def _traffic(
    settings: Settings, *, rate: float | None, record_bytes: int | None, partitions: int | None, sample: int
) -> Traffic:
    if record_bytes is not None:
        if rate is None:
            raise usage_error("--rate", None, "is needed with --record-bytes.", "Give the records a second.")
        return made_traffic(settings, rate=rate, record_bytes=record_bytes, partitions=partitions or 1)
    if partitions is not None:
        rule = "goes with --record-bytes: a sample has the topic's own."
        raise usage_error("--partitions", str(partitions), rule, "Leave it out.")
    from kafka_s3.run.wiring.clients import plain_reader

    return sampled_traffic(settings, plain_reader(settings), records=sample, rate=rate)


def _show(forecast: Forecast, asked: Prices, notes: list[str], out: Console) -> None:
    for note in notes:
        show_line(out, ("note:", "dim"), f" {note}")
    table = new_table("A day under this configuration", left=["what"], right=["how much"], show_header=False)
    for name, text in _rows(forecast, asked).items():
        table.add_row(name, text)
    show_table(out, table)


def _rows(forecast: Forecast, asked: Prices) -> dict[str, str]:
    month = forecast.month(asked)
    reasons = ", ".join(f"{count / forecast.files:.0%} {reason}" for reason, count in forecast.reasons.items())
    return {
        "records": f"{forecast.records:,.0f}",
        "files": f"{forecast.files:,.0f}",
        "closed by": reasons or "none closed",
        "objects, sidecars included": f"{forecast.objects:,.0f}",
        "bytes": size_text(forecast.bytes),
        "size of a file, mean": size_text(forecast.file_bytes),
        "a record is visible after, at most": duration_text(forecast.delay_ms),
        "commit entries": f"{forecast.entries:,.0f}",
        "dead letters": f"{forecast.dead_letters:,.0f}",
        "requests: writing, reading": f"{forecast.writes:,.0f}, {forecast.reads:,.0f}",
        "a month: requests, storage of its objects": f"{month['writes'] + month['reads']:,.2f}, {month['storage']:,.2f}",
        "a month in all": f"{month['total']:,.2f}",
    }


def _notes(settings: Settings) -> list[str]:
    notes = []
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
        notes.append("Requests to Glue and notifications are not counted.")
    return notes
