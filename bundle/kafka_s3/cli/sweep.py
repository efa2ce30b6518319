"""`kafka-s3 sweep CONFIG|NAME`: what is left of uploads and open files that nobody goes on with? Shows it, and ends it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from kafka_s3.cli.arguments import Output, OutputFormat, composed, of_each, sink_settings
from kafka_s3.cli.display import console, show_json, show_line
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.sweep import JudgedUpload, Swept, UploadState, age_text, sweep_sink


@of_each
@composed(settings=sink_settings)
def sweep(
    settings: Settings,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Keep uploads younger than this: 30m, 24h, 7d.")
    ] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be aborted.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Clean up after crashed tasks: abort their unfinished uploads and remove their open files. Safe while the sink runs."""
    found = sweep_sink(settings, older_than=older_than, dry_run=dry_run, clock_ms=now_ms)
    out = console(stderr=output is OutputFormat.JSON)
    if output is OutputFormat.JSON:
        show_json(document(found))
    elif found.uploads:
        print_uploads(out, found.uploads, now_ms=now_ms())
    for line in found.lines():
        show_line(out, line)


def document(found: Swept) -> dict[str, Any]:
    """What was found, for programs."""
    return {
        "states": found.states,
        "uploads": [
            {
                "key": one.upload.key,
                "id": one.upload.id,
                "started_ms": one.upload.started_ms,
                "verdict": one.verdict.value,
            }
            for one in found.uploads
        ],
    }


def print_uploads(out: Console, judged: Sequence[JudgedUpload], *, now_ms: int) -> None:
    """The uploads as a table; keys are never broken or cut, so that they can be searched for and copied."""
    wide = max(map(len, UploadState))
    show_line(out, f"{'verdict':<{wide}}  {'started (UTC)':<16}  {'age':>6}  key", style="bold")
    for one in judged:
        started = datetime.fromtimestamp(one.upload.started_ms / 1000, UTC)
        age = age_text(now_ms - one.upload.started_ms)
        line = f"{one.verdict:<{wide}}  {started:%Y-%m-%d %H:%M}  {age:>6}  {one.upload.key}"
        style = "yellow" if one.verdict is UploadState.ABANDONED else ""
        show_line(out, line, style=style)
