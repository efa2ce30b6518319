"""`kafka-s3 list|status`: how are the sinks of a bucket? From their state in it alone, and without what only a sink at work loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kafka_s3.cli.arguments import Output, OutputFormat, Overrides, Where, WorkerPath, settings_of
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import Target, target_of
from kafka_s3.cli.control_text import detail, detail_document, row_document, sinks_table
from kafka_s3.cli.display import console, show_table
from kafka_s3.engine.control.status import all_known, known_of
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.sink_folder import folder_of


@composed(where=Where)
def list_(
    where: Where,
    config: Annotated[Path | None, typer.Argument(help="A configuration that names the bucket.")] = None,
    worker: WorkerPath = None,
    overrides: Overrides = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List the sinks that keep their state in a bucket, with status, lag and last commit."""
    place = where.folder() if config is None else folder_of(settings_of(config, worker, overrides))
    found = all_known(place.store, place.prefix, seen_ms=now_ms())
    if output is OutputFormat.JSON:
        print(json.dumps({"sinks": [row_document(one, place.bucket) for one in found]}, indent=2))
    elif found:
        show_table(console(), sinks_table(found, place.bucket))
    else:
        console().print(f"No sink has state below {place}", highlight=False, soft_wrap=True)


@composed(target=target_of)
def status(target: Target, output: Output = OutputFormat.TABLE) -> None:
    """Show how one sink is, with every topic-partition."""
    known = known_of(target.store, target.paths, seen_ms=now_ms())
    if output is OutputFormat.JSON:
        print(json.dumps(detail_document(known, target.place.bucket), indent=2))
        return
    out = console()
    for part in detail(known, target.place.bucket):
        if isinstance(part, Text):
            out.print(part, soft_wrap=True)
        else:
            show_table(out, part)
