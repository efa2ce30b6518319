"""`kafka-s3 compact CONFIG|NAME`: which small objects would become large ones, and what does that cost? Shows it, and does it."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Annotated, Final

import typer
from rich.console import Console

from kafka_s3.cli.arguments import DryRun, Only, Output, OutputFormat, composed, of_each, sink_settings, usage_error
from kafka_s3.cli.display import console, new_table, show_json, show_line, show_table, size_text
from kafka_s3.connect.config.rules.followers import why_not_across, why_not_sorted
from kafka_s3.connect.config.settings import Settings
from kafka_s3.followers.compaction import CompactionRules
from kafka_s3.model.timing import duration_text, now_ms
from kafka_s3.ops.compaction import Compaction, CompactionForecast, forecast_of, why_not_compacted
from kafka_s3.ops.forecast import Prices
from kafka_s3.ops.sweep import duration_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store

UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
PRICES: Final = Prices()


@of_each
@composed(settings=sink_settings)
def compact(
    settings: Settings,
    topic: Only = None,
    directory: Annotated[
        str,
        typer.Option(
            "--directory", metavar="PREFIX", help="Only directories that begin with this, such as year=2026/month=01."
        ),
    ] = "",
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="AGE", help="Only files committed at least this long ago: 30m, 24h, 7d."),
    ] = "1h",
    target_size: Annotated[
        str, typer.Option("--target-size", metavar="SIZE", help="Roughly how large an object becomes: 25MiB, 40MiB.")
    ] = "25MiB",
    sort_by: Annotated[
        list[str] | None,
        typer.Option(
            "--sort-by",
            metavar="COLUMN",
            help="Sort the rows of Parquet; may be given more than once. Else compact.sort.by.",
        ),
    ] = None,
    across: Annotated[
        bool | None,
        typer.Option(
            "--across-partitions/--no-across-partitions",
            help="Put files of all Kafka partitions of a topic together. Else compact.across.partitions.",
        ),
    ] = None,
    dry_run: DryRun = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Merge small files of a directory, without changing records. Safe while the sink runs."""
    out = console(stderr=output is OutputFormat.JSON)
    if (reason := why_not_compacted(settings)) is not None:
        show_line(out, f"{settings.name} is left as it is. {reason}")
        return
    rules = CompactionRules(
        bytes_of(target_size), now_ms() - duration_ms(older_than), frozenset(topic or ()), directory,
        sort_by=sort_columns(settings, sort_by), across=takes_all_partitions(settings, across, sort_by),
    )  # fmt: skip
    grace_ms = settings.number("rewrite.grace.ms")
    with closing(S3Store(store_options(settings))) as store:
        work = Compaction(settings, store, clock_ms=now_ms, warn=lambda text: show_line(out, text, style="yellow"))
        _, merges = work.plan(rules)
        found = forecast_of(merges)
        if merges:
            show_forecast(out, found, grace_ms)
        else:
            show_line(out, work.explain_nothing(rules, older_than=older_than))
        entries = [] if dry_run or not merges else list(work.run(rules))
    for entry in entries:
        show_line(
            out,
            f"Entry {entry.version}: {len(entry.files)} objects in the place of {sum(len(one.keys) for one in entry.swaps)}.",
        )
    if entries:
        show_line(
            out,
            f"The originals stay for {duration_text(grace_ms)} (rewrite.grace.ms); then the sink deletes them.",
        )
    if output is OutputFormat.JSON:
        show_json({**found.document(PRICES, grace_ms=grace_ms), "entries": [entry.version for entry in entries]})


def show_forecast(out: Console, found: CompactionForecast, grace_ms: int) -> None:
    """What a compaction would do, for people."""
    document = found.document(PRICES, grace_ms=grace_ms)
    table = new_table("What a compaction does", left=["what"], right=["before", "after"])
    table.add_row("files", f"{found.before:,}", f"{found.after:,}")
    table.add_row("objects, sidecars included", f"{found.objects_before:,}", f"{found.objects_after:,}")
    table.add_row("middle size of a file", size_text(found.bytes / found.before), size_text(found.bytes / found.after))
    table.add_row("records", f"{found.records:,}", f"{found.records:,}")
    table.add_row("requests: reading, writing", "", f"{found.reads:,}, {found.writes:,}")
    table.add_row(
        "price: requests, storage of both",
        "",
        f"{document['requests_price']:.4f}, {document['storage_price_of_grace']:.4f}",
    )
    show_table(out, table)


def sort_columns(settings: Settings, given: list[str] | None) -> tuple[str, ...]:
    """The columns by which rows are sorted. Raises ConfigError where the sink writes what cannot be sorted."""
    if given:
        why = why_not_sorted(settings)
        if why is not None:
            raise usage_error("--sort-by", ", ".join(given), why, "Leave it out.")
    return tuple(given) if given else settings.names("compact.sort.by")


def takes_all_partitions(settings: Settings, given: bool | None, sort_by: list[str] | None) -> bool:
    """Whether files of all partitions of a topic become one. Raises ConfigError where they cannot."""
    across = settings.flag("compact.across.partitions") if given is None else given
    if across and sort_by:
        why = "mixes the rows of all files, and --across-partitions needs to know which are of which partition."
        raise usage_error("--sort-by", ", ".join(sort_by), why, "Leave one of them out (--no-across-partitions).")
    why_not = why_not_across(settings) if given else None
    if why_not is not None:
        raise usage_error("--across-partitions", "true", why_not, "Leave it out.")
    return across


def bytes_of(text: str) -> int:
    """`25MiB` in bytes. Raises ConfigError."""
    found = re.fullmatch(r"(\d{1,9})\s?(KiB|MiB|GiB|)", text.strip(), re.ASCII)
    if not found or int(found[1]) == 0:
        raise usage_error("--target-size", text, "is not a size above zero.", "Write a number and a unit: 25MiB.")
    return int(found[1]) * UNITS[found[2]]
