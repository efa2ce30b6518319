"""`kafka-s3 check CONFIG|NAME`: is a sink well? One line and an exit code, for a scheduler that tells somebody when it is not."""

from __future__ import annotations

from typing import Annotated

import typer

from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import Target, target_of
from kafka_s3.control.sinks import known_of
from kafka_s3.control.status import check_line
from kafka_s3.model.clock import now_ms


@composed(target=target_of)
def check(
    target: Target,
    max_lag: Annotated[
        int | None,
        typer.Option(
            "--max-lag", metavar="RECORDS", min=0, help="More records than this behind Kafka are trouble, too."
        ),
    ] = None,
) -> None:
    """Say in one line how a sink is; exit code 1 where it is DEGRADED, FAILED, STALE or UNKNOWN, or too far behind."""
    line, well = check_line(known_of(target.store, target.paths), now_ms(), max_lag=max_lag)
    typer.echo(line)
    if not well:
        raise typer.Exit(1)
