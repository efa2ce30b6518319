"""`kafka-s3 sweep CONFIG|NAME`: what is left of uploads that nobody will complete? Shows and aborts it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from kafka_s3.cli.arguments import Output, OutputFormat
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import sink_settings
from kafka_s3.cli.display import console
from kafka_s3.config.settings import Settings
from kafka_s3.model.clock import now_ms
from kafka_s3.storage.bucket import S3Bucket
from kafka_s3.storage.options import store_options
from kafka_s3.storage.s3 import S3Store
from kafka_s3.tools.sweep import JudgedUpload, UploadState, age_text, duration_ms, summary, sweeper_of


@composed(settings=sink_settings)
def sweep(
    settings: Settings,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Keep uploads younger than this: 30m, 24h, 7d.")
    ] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be aborted.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Abort the unfinished uploads that crashed tasks of a sink left in its bucket. Safe while the sink runs."""
    age_ms = duration_ms(older_than)
    options = store_options(settings)
    bucket, store = S3Bucket(options), S3Store(options)
    try:
        sweeper = sweeper_of(settings, bucket, store, clock_ms=now_ms)
        judged = sweeper.judged(older_than_ms=age_ms)
        out = console(stderr=output is OutputFormat.JSON)
        if output is OutputFormat.JSON:
            print(json.dumps(uploads_document(judged), indent=2))
        elif judged:
            print_uploads(out, judged, now_ms=now_ms())
        aborted = 0 if dry_run else sweeper.abort(judged)
        states = sweeper.overtaken(older_than_ms=age_ms) if dry_run else sweeper.remove_overtaken(older_than_ms=age_ms)
    finally:
        bucket.close()
        store.close()
    out.print(summary(judged, aborted), markup=False, highlight=False, soft_wrap=True)
    if states:
        done = "would be removed (--dry-run)" if dry_run else "removed"
        out.print(f"{states} states of open files that nobody goes on with: {done}", soft_wrap=True)


def uploads_document(judged: Sequence[JudgedUpload]) -> dict[str, Any]:
    """The uploads for programs."""
    return {
        "uploads": [
            {
                "key": one.upload.key,
                "id": one.upload.id,
                "started_ms": one.upload.started_ms,
                "verdict": one.verdict.value,
            }
            for one in judged
        ]
    }


def print_uploads(out: Console, judged: Sequence[JudgedUpload], *, now_ms: int) -> None:
    """The uploads as a table; keys are never broken or cut, so that they can be searched for and copied."""
    wide = max(map(len, UploadState))
    out.print(f"{'verdict':<{wide}}  {'started (UTC)':<16}  {'age':>6}  key", style="bold", soft_wrap=True)
    for one in judged:
        started = datetime.fromtimestamp(one.upload.started_ms / 1000, UTC)
        age = age_text(now_ms - one.upload.started_ms)
        line = f"{one.verdict:<{wide}}  {started:%Y-%m-%d %H:%M}  {age:>6}  {one.upload.key}"
        style = "yellow" if one.verdict is UploadState.ABANDONED else ""
        out.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
