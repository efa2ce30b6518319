"""`kafka-s3 check CONFIG|NAME`: is a sink well? One line and an exit code, for a scheduler that tells somebody when it is not."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kafka_s3.cli.arguments import Output, OutputFormat
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import Target, target_of
from kafka_s3.engine.control.status import check_line, known_of, overridden
from kafka_s3.model.text import printable
from kafka_s3.model.timing import now_ms


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
    """Say in one line how a sink is; exit code 1 where it is DEGRADED, FAILED, STALE or UNKNOWN, or too far behind."""
    known = known_of(target.store, target.paths, seen_ms=now_ms())
    limits = overridden(known, lag=max_lag, delay_s=max_delay, dead_letters=max_dead_letters)
    line, well = check_line(known, limits)
    typer.echo(
        json.dumps({"sink": target.name, "well": well, "text": line})
        if output is OutputFormat.JSON
        else printable(line)
    )
    if not well:
        raise typer.Exit(1)
