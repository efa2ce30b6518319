"""`kafka-s3 restore CONFIG|NAME --to-topic T`: how do records come back from the bucket to Kafka?

Exit codes: 0 written (or shown, with --dry-run), 1 Kafka, the bucket or an object stopped it (the same call goes on), 2 the call is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from kafka_s3.cli.arguments import DryRun, Output, OutputFormat, Yes, composed, sink_settings, time_of
from kafka_s3.cli.display import console, new_table, show_json, show_line, show_table, size_text
from kafka_s3.cli.position import confirm
from kafka_s3.connect.config.settings import Settings
from kafka_s3.ops.restore.files import RestoreSelection
from kafka_s3.ops.restore.plan import PartitionRestore


def chosen(
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only records of this topic; may be given more than once.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition.")] = None,
    first: Annotated[int | None, typer.Option("--from", min=0, help="Only from this offset on.")] = None,
    last: Annotated[int | None, typer.Option("--to", min=0, help="Only up to this offset.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only objects with records of this time or later, as 2025-01-31T10:00:00Z."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only objects with records before this time.")
    ] = None,
) -> RestoreSelection:
    """Which records are wanted back. Raises ConfigError for what is not a time."""
    topics = frozenset(topic) if topic else None
    return RestoreSelection(topics, partition, first, last, _ms("--since", since), _ms("--until", until))


@composed(settings=sink_settings, selection=chosen)
def restore(
    settings: Settings,
    to_topic: Annotated[
        str,
        typer.Option(
            "--to-topic", help="The topic to write to, created where it is missing; ${topic} is the records' own."
        ),
    ],
    selection: RestoreSelection,
    by_name: Annotated[
        bool,
        typer.Option(
            "--by-name", help="Find objects by their names, not by the log: those of a connector, or of another writer."
        ),
    ] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Write to a topic that holds records of others, after them.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write records from the bucket back to Kafka, in order and each once. Reports first what cannot come back as it was."""
    from kafka_s3.ops.restore.plan import plan_of, reading_of, target_of
    from kafka_s3.ops.restore.plan import restore as run
    from kafka_s3.run.wiring.bucket import store_options
    from kafka_s3.store.s3 import S3Store

    store, target, out, err = S3Store(store_options(settings)), target_of(settings), console(), console(stderr=True)
    plan = plan_of(settings, store, target, to_topic=to_topic, selection=selection, by_name=by_name, append=append)
    people = output is OutputFormat.TABLE
    for note in plan.notes if people else ():
        show_line(out, ("note:", "yellow"), f" {note}")
    done: Sequence[PartitionRestore] = plan.partitions
    if not dry_run:
        if people:
            show_table(out, table(plan.partitions, title="To be written"))
        confirm(None if yes else f"Write these records to {to_topic}?")
        done = run(
            plan.partitions,
            store=store,
            reading=reading_of(settings),
            target=target,
            notify=lambda one: show_line(err, f"{one.source}: {one.written:,} records written to {one.target}"),
        )
    if people:
        show_table(out, table(done, title="Would be written (--dry-run)" if dry_run else "Written"))
    else:
        document = {
            "dry_run": dry_run,
            "notes": list(plan.notes),
            "partitions": [restored.document() for restored in done],
        }
        show_json(document)


def table(partitions: Sequence[PartitionRestore], *, title: str) -> Table:
    """Each source partition with its target and counts."""
    names = ("files", "bytes", "records", "of others", "there already", "written")
    found = new_table(title, left=("source", "target"), right=names)
    for restored in partitions:
        row = restored.document()
        counts = [
            row["files"],
            size_text(row["bytes"]),
            row["records"],
            restored.others and restored.others.count,
            row["already_there"],
            row["written"],
        ]
        shown = ["unknown" if one is None else one if isinstance(one, str) else f"{one:,}" for one in counts]
        found.add_row(row["source"], row["target"], *shown)
    return found


def _ms(option: str, text: str | None) -> int | None:
    return None if text is None else int(time_of(option, text).timestamp() * 1000)
