"""Compact and vacuum the Delta tables that Spark writes for sinks (`delta.writer=spark`): copies of what the sinks' objects hold.

    spark-submit --packages io.delta:delta-spark_2.13:4.0.1 jobs/maintain_tables.py CONFIG|FOLDER [--no-optimize] [--vacuum HOURS]

For each topic of a sink it is what one would type:

    DeltaTable.forName(spark, name).optimize().executeCompaction()
    DeltaTable.forName(spark, name).vacuum(hours)

Tables over the sinks' own Parquet objects need no Spark: `kafka-s3 delta maintain CONFIG|FOLDER`. The sinks may run.
"""

from __future__ import annotations

from argparse import BooleanOptionalAction, Namespace

from kafka_s3.connect.config.settings import Settings
from kafka_s3.followers.delta.maintain import chores_of
from kafka_s3.model.errors import TableError
from kafka_s3.ops.jobs import each_sink, job_parser, leave
from kafka_s3.run.spark.launch import maintained_copies
from kafka_s3.run.wiring.delta import topics_of_tables, written_by_spark


def maintain(settings: Settings, given: Namespace) -> bool:
    """Maintain the tables of one sink, whatever happens to one of them; return whether all went well."""
    if not written_by_spark(settings):
        print(f"{settings.name}: Spark writes no tables for this sink. For others: kafka-s3 delta maintain.")
        return True
    chores = chores_of(optimize=given.optimize, vacuum=given.vacuum)
    well = True
    for topic, done in maintained_copies(settings, topics_of_tables(settings), chores, dry_run=given.dry_run):
        if isinstance(done, TableError):
            well = False
            print(f"{topic}: not done. {done}")
        else:
            print(f"{topic}: {done or 'there is no table yet'}")
    return well


if __name__ == "__main__":
    parser = job_parser(__doc__, config="A sink's configuration, or a folder with several.")
    parser.add_argument("--optimize", action=BooleanOptionalAction, default=True, help="Put small files together.")
    parser.add_argument("--vacuum", type=int, metavar="HOURS", help="Delete replaced files after so many hours.")
    parser.add_argument("--dry-run", action="store_true", help="Only show what there is.")
    arguments = parser.parse_args()
    leave(each_sink(arguments, lambda settings: maintain(settings, arguments)))
