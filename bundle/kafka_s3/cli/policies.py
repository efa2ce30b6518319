"""`kafka-s3 iam CONFIG|NAME`, `kafka-s3 lifecycle CONFIG|NAME`: what has to be set in AWS for exactly this sink? JSON, as AWS takes it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import sink_settings
from kafka_s3.connect.config.settings import Settings
from kafka_s3.ops.iam import sink_policy
from kafka_s3.ops.lifecycle import lifecycle_rules, transition_of


@composed(settings=sink_settings)
def iam(settings: Settings) -> None:
    """Print the least policy with which this sink runs. Nothing is changed, and nothing is asked of AWS."""
    typer.echo(json.dumps(sink_policy(settings), indent=2))


@composed(settings=sink_settings)
def lifecycle(
    settings: Settings,
    transition: Annotated[
        list[str] | None,
        typer.Option(metavar="DAYS:CLASS", help="Move data objects, as 90:GLACIER; may be given more than once."),
    ] = None,
) -> None:
    """Print lifecycle rules for this sink's objects, which leave its commit log alone. Nothing is changed."""
    transitions = [transition_of(text) for text in transition or ()]
    typer.echo(json.dumps(lifecycle_rules(settings, transitions), indent=2))
