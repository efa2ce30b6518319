"""`kafka-s3 delta|iceberg check|rebuild|maintain CONFIG|NAME`, `kafka-s3 ddl CONFIG|NAME --engine ENGINE`: a sink's topics as tables.

Do the tables hold what the log says, and how do they hold it again; which statements make the topics known to a query engine. Those
go to standard output, ready to be run; what a table does not show is in comments in front of them.
Exit codes: 0 nothing found, 1 findings (or the bucket cannot be asked), 2 the configuration or the call is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from kafka_s3.cli.arguments import Only, Output, OutputFormat, composed, sink_settings, usage_error
from kafka_s3.cli.display import console, new_table, show_json, show_line, show_table, size_text
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.ddl.statements import QueryEngine, notes, script, statements
from kafka_s3.followers.ddl.table import ExternalTable
from kafka_s3.model.errors import TableError
from kafka_s3.model.timing import now_ms
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from kafka_s3.followers.delta.findings import Rebuilt, TableCheck
    from kafka_s3.followers.delta.maintain import Figures, Maintained
    from kafka_s3.followers.iceberg.maintain import Tidied

MINUTE_MS: Final = 60_000
RECENT_MINUTES: Final = 10
delta = typer.Typer(
    help="Check a sink's Delta tables against the log and the bucket, rebuild or maintain them.",
    no_args_is_help=True,
    add_completion=False,
)


@delta.command()
@composed(settings=sink_settings)
def check(
    settings: Settings,
    topics: Only = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Compare every table with the commit log and the bucket. Changes nothing; exit code 1 if anything was found."""
    here = _opened(settings)
    _show_checks(_checked_delta(here, here.topics(topics)), output)


@delta.command()
@composed(settings=sink_settings)
def rebuild(
    settings: Settings,
    topics: Only = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete the tables' own logs first: their history is lost, no object is.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --fresh: also where a driver committed lately. It must be stopped.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Make the tables again from the commit log: its objects go in, all other files go out; no object is deleted."""
    from kafka_s3.followers.delta.maintain import forget
    from kafka_s3.followers.delta.maintain import rebuild as rebuild_table
    from kafka_s3.ops.positions import check_idle
    from kafka_s3.run.wiring.delta import intake_of, table_layout, tables_of, written_by_spark

    here = _opened(settings)
    if written_by_spark(here.settings):
        hint = "To rebuild one, DROP TABLE it: the sink creates it again from the whole log after the next entry."
        raise usage_error("delta.writer", "spark", "leaves the tables to Spark: they cannot be rebuilt here.", hint)
    chosen = here.topics(topics)
    if fresh and not force:
        here.log.load()
        check_idle(here.log, now_ms=now_ms(), within_ms=RECENT_MINUTES * MINUTE_MS)
    if fresh and not yes:
        typer.confirm(f"Delete the history of {len(chosen)} tables ({', '.join(chosen)})?", abort=True)
    table, intake = tables_of(here.settings, here.store), intake_of(here.settings, here.store)

    def rebuilt(topic: str) -> Rebuilt:
        if fresh:
            forget(here.store, table_layout(here.settings).folder(topic))
        return rebuild_table(here.log, intake, table(topic), topic=topic, clock_ms=now_ms)

    _show_rebuilt(map(rebuilt, chosen), console())


@delta.command()
@composed(settings=sink_settings)
def maintain(
    settings: Settings,
    topics: Only = None,
    optimize: Annotated[
        bool,
        typer.Option("--optimize/--no-optimize", help="Put small files together. The small ones stay in the bucket."),
    ] = True,
    vacuum: Annotated[
        int | None,
        typer.Option(
            "--vacuum", metavar="HOURS", min=0, help="Delete replaced files this long after they were replaced."
        ),
    ] = None,
    originals: Annotated[
        bool,
        typer.Option(
            "--originals", help="With --vacuum: also the sink's own objects, where other files have replaced them."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what there is, and what would be deleted.")
    ] = False,
) -> None:
    """Compact the tables, checkpoint their logs, delete replaced files. Safe while the sink runs; without tables there is nothing to do."""
    from kafka_s3.followers.delta.maintain import chores_of
    from kafka_s3.ops.table_chores import maintain_tables
    from kafka_s3.run.wiring.delta import why_not_maintained

    chores = chores_of(optimize=optimize, vacuum=vacuum, originals=originals)
    out = console()
    if (reason := why_not_maintained(settings)) is not None:
        show_line(out, reason)
        return
    chosen, well = _here(settings).topics(topics) if topics else None, True

    def warn(text: str) -> None:
        show_line(out, text, style="yellow")

    for topic, done in maintain_tables(settings, chores, topics=chosen, dry_run=dry_run, clock_ms=now_ms, warn=warn):
        if isinstance(done, TableError):
            well = False
            show_line(out, f"{topic}: not done. {done}")
        elif done is None:
            show_line(
                out, f"{topic}: there is no table yet. A run of the sink makes it, as does kafka-s3 delta rebuild."
            )
        else:
            print_maintenance(done, out, dry=dry_run)
    if not well:
        raise typer.Exit(1)


iceberg = typer.Typer(
    help="Check a sink's Iceberg tables against the log and the bucket, rebuild or maintain them.",
    no_args_is_help=True,
    add_completion=False,
)


@iceberg.command("check")
@composed(settings=sink_settings)
def check_iceberg(settings: Settings, topics: Only = None, output: Output = OutputFormat.TABLE) -> None:
    """Compare every table with the commit log and the bucket. Changes nothing; exit code 1 if anything was found."""
    here = _opened(settings, "iceberg.enable")
    _show_checks(_checked_iceberg(here, here.topics(topics)), output)


@iceberg.command("rebuild")
@composed(settings=sink_settings)
def rebuild_iceberg(settings: Settings, topics: Only = None) -> None:
    """Put the tables right by the commit log: its objects go in, all other files go out; no object is deleted."""
    from kafka_s3.followers.iceberg.maintain import rebuild as rebuild_table
    from kafka_s3.run.wiring.iceberg import iceberg_planner, iceberg_tables

    here, out = _opened(settings, "iceberg.enable"), console()
    table = iceberg_tables(settings, here.store, warn=lambda text: show_line(out, text))
    planner = iceberg_planner(settings, here.store)
    done = (
        rebuild_table(here.log, planner, table(topic), topic=topic, clock_ms=now_ms) for topic in here.topics(topics)
    )
    _show_rebuilt(done, out)


def _show_rebuilt(done: Iterable[Rebuilt], out: Console) -> None:
    """Show what a rebuild did to each table; ends with exit code 1 if objects stay out of any."""
    well = True
    for one in done:
        changed = f"{one.added} files added, {one.removed} taken out"
        show_line(out, f"{one.topic}: {changed if one.added or one.removed else 'nothing was changed'}")
        for key, reason in one.left_out.items():
            well = False
            show_line(out, f"  {key} stays out: {reason}. A rebuild does not change that.")
    if not well:
        raise typer.Exit(1)


@iceberg.command("maintain")
@composed(settings=sink_settings)
def maintain_iceberg(
    settings: Settings,
    topics: Only = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
) -> None:
    """Delete the tables' own metadata that no snapshot names any more. Safe while the sink runs; no object is deleted."""
    from kafka_s3.run.wiring.iceberg import tidy_tables

    here, out, well = _opened(settings, "iceberg.enable"), console(), True
    for topic, done in tidy_tables(settings, here.store, topics=here.topics(topics), dry_run=dry_run):
        if isinstance(done, TableError):
            well = False
            show_line(out, f"{topic}: not done. {done}")
        elif done is None:
            show_line(
                out, f"{topic}: there is no table yet. A run of the sink makes it, as does kafka-s3 iceberg rebuild."
            )
        else:
            print_tidied(done, out, dry=dry_run)
    if not well:
        raise typer.Exit(1)


def print_tidied(done: Tidied, out: Console, *, dry: bool) -> None:
    """One table's metadata, and what went of it."""
    size = size_text(done.metadata_bytes)
    verb = "would be deleted" if dry else "deleted"
    show_line(
        out,
        f"{done.topic}: {done.snapshots} snapshots, {done.manifests} manifests, metadata of {size}; "
        f"{len(done.unused):,} files that no snapshot names {verb}",
    )
    for key in done.unused if dry else ():
        show_line(out, f"  {key}")


@composed(settings=sink_settings)
def ddl(
    settings: Settings,
    engine: Annotated[QueryEngine, typer.Option("--engine", help="For which engine.")],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic; may be given more than once.")
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Print statements that make a sink's topics tables of a query engine, with the columns of the objects."""
    from kafka_s3.run.wiring.bucket import store_options
    from kafka_s3.run.wiring.followers import tables_of_sink
    from kafka_s3.store.s3 import S3Store

    tables = list(tables_of_sink(settings, S3Store(store_options(settings)), topic or ()))
    if output is OutputFormat.JSON:
        show_json({"tables": [document(engine, table) for table in tables]})
        return
    typer.echo("\n".join(script(engine, table) for table in tables), nl=False)


def document(engine: QueryEngine, table: ExternalTable) -> dict[str, Any]:
    """A table for programs: Glue's table input is `statements`' only one, as text."""
    return {
        "topic": table.topic,
        "name": table.name,
        "engine": engine.value,
        "statements": statements(engine, table),
        "notes": notes(engine, table),
    }


def print_maintenance(done: Maintained, out: Console, *, dry: bool) -> None:
    """One table: before and after, or in a dry run how it is and what would be deleted."""
    columns = ("now",) if dry else ("before", "after")
    text = new_table(f"{done.topic}, version {done.after.version}", left=[""], right=columns)
    before, after = _lines(done.before), _lines(done.after)
    for name, value in before.items():
        text.add_row(name, value) if dry else text.add_row(name, value, after[name])
    show_table(out, text)
    if dry:
        for key in done.deletable:
            show_line(out, f"  would delete {key}")
    elif done.deleted:
        show_line(out, f"  {done.deleted:,} replaced files deleted")


def _lines(figures: Figures) -> dict[str, str]:
    return {
        "files": f"{figures.files:,}",
        "their size": size_text(figures.bytes),
        "small files": f"{figures.small:,}",
        "replaced files": f"{figures.replaced:,}",
        "their size in the bucket": size_text(figures.replaced_bytes),
        "objects of the log": f"{figures.log_objects:,}",
        "size of the log": size_text(figures.log_bytes),
    }


@dataclass(frozen=True, slots=True)
class _Here:
    settings: Settings
    store: ObjectStore
    log: CommitLog

    def topics(self, wanted: Sequence[str] | None) -> list[str]:
        """The topics with objects, or those that were asked for. Raises ConfigError for one without."""
        from kafka_s3.followers.delta.findings import topics_with_tables

        known = topics_with_tables(self.log)
        for topic in wanted or ():
            if topic not in known:
                hint = f"Topics with objects: {', '.join(known) or 'none'}."
                raise usage_error("--topic", topic, "has no Parquet object in the log.", hint)
        return list(wanted or known)


def _opened(settings: Settings, key: str = "delta.enable") -> _Here:
    if not settings.flag(key):
        rule = "must be true: this sink has no tables of that format."
        raise usage_error(key, "false", rule, f"Set it, or try --set {key}=true.")
    return _here(settings)


def _here(settings: Settings) -> _Here:
    from kafka_s3.run.wiring.bucket import store_options
    from kafka_s3.run.wiring.pipeline import state_paths
    from kafka_s3.store.s3 import S3Store

    store = S3Store(store_options(settings))
    return _Here(settings, store, CommitLog(store, state_paths(settings), clock_ms=now_ms))


def check_all_tables(settings: Settings, topic: str | None = None) -> list[TableCheck]:
    """Compares the tables of every format that a sink keeps with the log and the bucket. Raises StorageError, CommitError."""
    here = _here(settings)
    topics = [one for one in here.topics(None) if topic in (None, one)]
    found = _checked_delta(here, topics) if settings.flag("delta.enable") else []
    return found + (_checked_iceberg(here, topics) if settings.flag("iceberg.enable") else [])


def _show_checks(found: list[TableCheck], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        show_json([asdict(one) for one in found])
    else:
        print_checks(found, console())
    if any(one.findings for one in found):
        raise typer.Exit(1)


def _checked_delta(here: _Here, topics: Iterable[str]) -> list[TableCheck]:
    from kafka_s3.run.wiring.delta import written_by_spark

    return _checked_copies(here, topics) if written_by_spark(here.settings) else _checked_tables(here, topics)


def _checked_iceberg(here: _Here, topics: Iterable[str]) -> list[TableCheck]:
    from kafka_s3.followers.iceberg.maintain import check_table
    from kafka_s3.run.wiring.iceberg import iceberg_planner, iceberg_tables

    out = console(stderr=True)
    table = iceberg_tables(here.settings, here.store, warn=lambda text: show_line(out, text))
    planner = iceberg_planner(here.settings, here.store)
    return [check_table(here.log, planner, table(topic), topic=topic) for topic in topics]


def _checked_tables(here: _Here, topics: Iterable[str]) -> list[TableCheck]:
    from kafka_s3.followers.delta.maintain import check_table as check_table
    from kafka_s3.run.wiring.delta import intake_of, tables_of

    table, intake = tables_of(here.settings, here.store), intake_of(here.settings, here.store)
    return [check_table(here.log, intake, table(topic), topic=topic) for topic in topics]


def _checked_copies(here: _Here, topics: Iterable[str]) -> list[TableCheck]:
    from kafka_s3.connect.naming.table_names import TableNames
    from kafka_s3.followers.delta.maintain import check_copy
    from kafka_s3.run.wiring.delta import position_key

    names, key = TableNames(here.settings.text("delta.table.name")), position_key(here.settings)
    return [check_copy(here.log, here.store, key, topic=topic, name=str(names.of(topic))) for topic in topics]


def print_checks(found: Iterable[TableCheck], out: Console) -> None:
    """The result for people: a line a table, then what was found."""
    for one in found:
        at = _version_text(one)
        text = f"{one.topic}: {at}; {one.files:,} objects, {one.records:,} records in the log"
        rewritten = f"; {one.rewritten:,} objects were rewritten by other writers" if one.rewritten else ""
        show_line(out, text + rewritten)
        for finding in one.findings:
            show_line(out, "  ", (finding.kind, "red"), f" {finding.place}")
            show_line(out, f"      {finding.text}")
        if not one.findings:
            show_line(out, "  ", ("Nothing found.", "green"))


def _version_text(one: TableCheck) -> str:
    if one.version is not None:
        return f"version {one.version}, entry {one.position}"
    return (
        f"{one.address} has come to entry {one.position}; what it holds was not compared"
        if one.position >= 0
        else "no table"
    )
