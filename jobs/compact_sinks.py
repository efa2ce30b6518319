"""Puts small files of sinks together, without a change of records.

    python jobs/compact_sinks.py CONFIG|FOLDER [--older-than 24h] [--target-mib 25] [--dry-run]

A running sink puts the new objects into its log; where none runs the job does so itself. Needs no Spark; safe while the sinks run.
"""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing

from kafka_s3.connect.config.settings import Settings
from kafka_s3.followers.compaction import CompactionRules
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.compaction import check_compactable, compaction_of, forecast_of
from kafka_s3.ops.jobs import each_sink, job_parser, leave
from kafka_s3.ops.sweep import duration_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store


def compact(settings: Settings, given: Namespace) -> bool:
    """Compacts what one sink wrote, or says what that would do; a sink that cannot be compacted is named and left."""
    rules = CompactionRules(
        given.target_mib << 20,
        now_ms() - duration_ms(given.older_than),
        sort_by=settings.names("compact.sort.by"),
        across=settings.flag("compact.across.partitions"),
    )
    try:
        check_compactable(settings)
    except ConfigError as error:
        print(f"{settings.name} is left as it is. {error}")
        return True
    with closing(S3Store(store_options(settings))) as store:
        work = compaction_of(settings, store, clock_ms=now_ms, warn=print)
        _, merges = work.plan(rules)
        forecast = forecast_of(merges)
        if not merges:
            print(work.explain_nothing(rules, older_than=given.older_than))
        elif given.dry_run:
            print(
                f"{forecast.before:,} files with {forecast.records:,} records would become {forecast.after:,} (--dry-run)."
            )
        else:
            for entry in work.run(rules):
                replaced = sum(len(swap.keys) for swap in entry.swaps)
                print(f"Entry {entry.version}: {len(entry.files)} objects in the place of {replaced}.")
    return True


if __name__ == "__main__":
    parser = job_parser(__doc__, config="A sink's configuration, or a folder with several.")
    parser.add_argument(
        "--older-than", default="24h", metavar="AGE", help="Only files committed so long ago: 30m, 24h."
    )
    parser.add_argument("--target-mib", default=25, type=int, metavar="MIB", help="About how large an object becomes.")
    parser.add_argument("--dry-run", action="store_true", help="Only say how many files would become how many.")
    arguments = parser.parse_args()
    leave(each_sink(arguments, lambda settings: compact(settings, arguments)))
