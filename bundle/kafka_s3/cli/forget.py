"""`kafka-s3 forget CONFIG|NAME`: where are somebody's records, and what is out of reach? Shows it, asks, and erases them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from kafka_s3.cli.arguments import DryRun, Only, Output, OutputFormat, Yes, composed, sink_settings, usage_error
from kafka_s3.cli.display import console, new_table, show_json, show_line, show_table
from kafka_s3.cli.position import confirm
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.erasure.forgetting import Forgetting, Searched
from kafka_s3.ops.erasure.purging import Purged, Purging
from kafka_s3.ops.erasure.reach import Unreached, unreached
from kafka_s3.ops.erasure.subjects import Subjects, subjects_of
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import plain_reader
from kafka_s3.store.s3 import S3Store

SHOWN: Final = 20
"""Files of which nothing can be said, one line each; the others are counted."""


@composed(settings=sink_settings)
def forget(
    settings: Settings,
    topic: Only = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Records with this key.")] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help='Records with this in a field: "customer.id = 42".'),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Several: a CSV file whose first line is `key`, or names fields."),
    ] = None,
    purge: Annotated[
        bool,
        typer.Option(
            "--purge", help="Delete the history of the Delta and Iceberg tables, too: their earlier versions."
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Erase one person's records from what a sink wrote. Searches first, shows what it found, and asks. Safe while the sink runs."""
    out = console(stderr=output is OutputFormat.JSON)
    subjects = subjects_of(key, where, _content(file))
    with closing(S3Store(store_options(settings))) as store:
        work = Forgetting(
            settings, store, subjects, now_ms, lambda text: show_line(out, text, style="yellow"), plain_reader(settings),
            frozenset(topic or ()),
        )  # fmt: skip
        unflushed = () if dry_run else work.end_open_files()
        searched = work.search()
        out_of_reach = unreached(
            settings,
            searched,
            topics=sorted(topic or settings.names("topics")),
            now_ms=now_ms(),
            purged=purge and not dry_run,
            unflushed=unflushed,
        )
        show_search(out, searched, out_of_reach)
        entries: list[CommitEntry] = []
        purged: list[Purged] = []
        if not dry_run and (searched.found.matches or purge):
            confirm(None if yes else question(searched, purge=purge))
            entries = list(work.run(searched))
        for entry in entries:
            show_line(out, f"Entry {entry.version}: {_count(entry)} erased.")
        if not dry_run:
            work.check_replays(searched)
        if purge and not dry_run:
            for done in Purging(settings, store, now_ms, work.warn).run(topic or ()):
                purged.append(done)
                show_line(
                    out, f"{done.table}: its earlier versions are gone, with {done.objects:,} objects of its metadata."
                )
    if output is OutputFormat.JSON:
        tables = {"purged": [asdict(one) for one in purged]} if purge else {}
        show_json(document(searched, out_of_reach, subjects, entries) | tables)


def _content(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise usage_error(
            "--file", str(file), f"cannot be read ({type(error).__name__}).", "Give a CSV file."
        ) from None


def question(searched: Searched, *, purge: bool = False) -> str:
    """What is asked before anything is erased."""
    found = searched.found
    letters = f" and {found.letters:,} dead letters" if found.letters else ""
    history = ", and all earlier versions of the tables" if purge else ""
    return f"Erase {found.records:,} records{letters} from {found.objects:,} objects{history}, for good?"


def show_search(out: Console, searched: Searched, out_of_reach: Sequence[Unreached]) -> None:
    """What was searched and found, and what is out of reach, for people."""
    found = searched.found
    table = new_table("Records of the subjects", left=["what"], right=["number"])
    rows = {
        "records": found.records, "dead letters": found.letters, "objects that hold them": found.objects,
        "files read": found.read, "files excluded by their statistics": found.excluded,
        "dead letters read": found.letters_read,
    }  # fmt: skip
    for name, number in rows.items():
        table.add_row(name, f"{number:,}")
    show_table(out, table)
    for key, why in found.problems[:SHOWN]:
        show_line(out, ("not searched:", "yellow"), f" {key}: {why}")
    if len(found.problems) > SHOWN:
        show_line(out, f"and {len(found.problems) - SHOWN:,} others (--output json has all)", style="yellow")
    show_line(out, "Out of reach of this command:")
    for one in out_of_reach:
        show_line(out, f"  {one.text}")
        for command in one.commands:
            show_line(out, f"    {command}", style="dim")


def document(
    searched: Searched, out_of_reach: Sequence[Unreached], subjects: Subjects, entries: Sequence[CommitEntry]
) -> dict[str, Any]:
    """The same for programs. No key and no value is in it."""
    found = searched.found
    return {
        "subjects": len(subjects.all),
        "through_entry": searched.version,
        "records": found.records,
        "dead_letters": found.letters,
        "objects": list(dict.fromkeys(file.key for match in found.matches for file in match.file.objects.values())),
        "files_read": found.read,
        "files_excluded": found.excluded,
        "dead_letters_read": found.letters_read,
        "not_searched": [{"key": key, "why": why} for key, why in found.problems],
        "out_of_reach": [{"what": one.text, "commands": list(one.commands)} for one in out_of_reach],
        "entries": [entry.version for entry in entries],
    }


def _count(entry: CommitEntry) -> str:
    assert entry.erasure is not None
    records, letters = sum(entry.erasure.records.values()), sum(entry.erasure.letters.values())
    return f"{records:,} records" + (f" and {letters:,} dead letters" if letters else "")
