"""Keeps the Delta tables of sinks quick to read: compacts small files, writes checkpoints, deletes what was replaced.

    python jobs/maintain_tables.py CONFIG|FOLDER [--no-optimize] [--vacuum HOURS] [--dry-run]

The tables lie over the sinks' own Parquet objects (`delta.enable`). Small ones are put together by the sinks' logs, as `kafka-s3 compact`
does it, and the tables follow; the rest goes through delta-rs. It needs no Spark, and the sinks may run. Tables that Spark writes
(`delta.writer=spark`) hold copies: Spark compacts and vacuums them by `delta.tables.DeltaTable`, where this job runs on one; elsewhere they
are named and left alone.
"""

from __future__ import annotations

from argparse import BooleanOptionalAction, Namespace
from collections.abc import Iterable

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import TableError
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.jobs import each_sink, job_parser, leave
from kafka_s3.run.spark.session import is_given as spark_is_here
from kafka_s3.run.wiring.delta import topics_of_tables, why_not_maintained


def maintain(settings: Settings, given: Namespace) -> bool:
    """Maintains the tables of one sink, whatever happens to one of them; whether all went well."""
    reason = why_not_maintained(settings)
    if reason is not None and not (settings.flag("delta.enable") and spark_is_here()):
        print(reason)
        return True
    # loads delta-rs, which jobs of sinks without tables do without
    from kafka_s3.followers.delta.maintain import Maintained, chores_of
    from kafka_s3.ops.table_chores import maintain_tables

    chores = chores_of(optimize=given.optimize, vacuum=given.vacuum)
    if reason is not None:  # Spark writes them
        from kafka_s3.run.spark.launch import maintained_copies

        return printed(maintained_copies(settings, topics_of_tables(settings), chores, dry_run=given.dry_run))
    tables = maintain_tables(settings, chores, dry_run=given.dry_run, clock_ms=now_ms, warn=print)
    return printed((topic, done.summary() if isinstance(done, Maintained) else done) for topic, done in tables)


def printed(tables: Iterable[tuple[str, str | TableError | None]]) -> bool:
    """Says of each topic's table what was done; whether all went well."""
    well = True
    for topic, done in tables:
        refused = isinstance(done, TableError)
        well = well and not refused
        print(f"{topic}: {f'not done. {done}' if refused else done or 'there is no table yet'}")
    return well


if __name__ == "__main__":
    parser = job_parser(__doc__, config="A sink's configuration, or a folder with several.")
    parser.add_argument("--optimize", action=BooleanOptionalAction, default=True, help="Put small files together.")
    parser.add_argument("--vacuum", type=int, metavar="HOURS", help="Delete replaced files after so many hours.")
    parser.add_argument("--dry-run", action="store_true", help="Only show what there is, and what would be deleted.")
    arguments = parser.parse_args()
    leave(each_sink(arguments, lambda settings: maintain(settings, arguments)))
