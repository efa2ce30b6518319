"""What did `kafka-s3 delta maintain` do? Each table before and after, and what kept one from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as TextTable

from kafka_s3.cli.display import show_table, size_text
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.errors import ConfigError, Problem, TableError
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from kafka_s3.followers.delta.maintain import Chores, Figures, Maintained


def chores_of(*, optimize: bool, vacuum: int | None, originals: bool) -> Chores:
    """What the options ask for. Raises ConfigError for `--originals` alone."""
    from kafka_s3.followers.delta.maintain import Chores, MaintenanceStep

    if originals and vacuum is None:
        hint = "Say after how many hours: --vacuum 168 --originals."
        raise ConfigError([Problem("--originals", "", "deletes nothing without --vacuum.", hint)])
    steps = {step for step, on in ((MaintenanceStep.OPTIMIZE, optimize), (MaintenanceStep.ORIGINALS, originals)) if on}
    return Chores(steps) if vacuum is None else Chores(steps | {MaintenanceStep.VACUUM}, vacuum)


def maintain_tables(
    settings: Settings,
    store: ObjectStore,
    log: CommitLog,
    *,
    topics: Sequence[str],
    chores: Chores,
    dry: bool,
    out: Console,
) -> bool:
    """Maintains (dry: looks at) the tables, whatever happens to one, and shows them; whether all went well."""
    from kafka_s3.followers.delta.maintain import Maintenance
    from kafka_s3.run.wiring.delta import table_layout, tables_of

    table, work = tables_of(settings, store), Maintenance(store, log, table_layout(settings))
    well = True
    for topic in topics:
        try:
            done = (work.inspect if dry else work.run)(table(topic), chores, topic=topic)
        except TableError as error:
            well = False
            out.print(f"{topic}: not done. {error}", markup=False, highlight=False, soft_wrap=True)
            continue
        if done is None:
            text = f"{topic}: there is no table yet. A run of the sink makes it, as does kafka-s3 delta rebuild."
            out.print(text, markup=False, highlight=False, soft_wrap=True)
            continue
        print_maintenance(done, out, dry=dry)
    return well


def print_maintenance(done: Maintained, out: Console, *, dry: bool) -> None:
    """One table: before and after, or in a dry run how it is and what would be deleted."""
    text = TextTable(title=f"{done.topic}, version {done.after.version}", title_justify="left")
    text.add_column("")
    for column in ("now",) if dry else ("before", "after"):
        text.add_column(column, justify="right")
    before, after = _lines(done.before), _lines(done.after)
    for name, value in before.items():
        text.add_row(name, value) if dry else text.add_row(name, value, after[name])
    show_table(out, text)
    if dry:
        for key in done.deletable:
            out.print(f"  would delete {key}", markup=False, highlight=False, soft_wrap=True)
    elif done.deleted:
        out.print(f"  {done.deleted:,} replaced files deleted", markup=False, highlight=False)


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
