"""Ends the uploads that crashed tasks left in the buckets of sinks: invisible, but paid for. Needs no Spark; safe while the sinks run.

    python jobs/sweep_sinks.py CONFIG|FOLDER [--older-than 24h] [--dry-run]

A task uploads files as multipart uploads, and the driver completes them after the commit; a task that dies leaves its uploads pending.
Kept are those that the last commit still waits for, and young ones, which a running task may be about to report.
"""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing

from kafka_s3.config.settings import Settings
from kafka_s3.model.clock import now_ms
from kafka_s3.storage.bucket import S3Bucket
from kafka_s3.storage.options import store_options
from kafka_s3.storage.s3 import S3Store
from kafka_s3.tools.jobs import each_sink, job_parser, leave
from kafka_s3.tools.sweep import duration_ms, summary, sweeper_of


def sweep(settings: Settings, given: Namespace) -> bool:
    """Looks through one sink's pending uploads and aborts those that nobody will complete."""
    options = store_options(settings)
    with closing(S3Bucket(options)) as bucket, closing(S3Store(options)) as store:
        sweeper = sweeper_of(settings, bucket, store, clock_ms=now_ms)
        judged = sweeper.judged(older_than_ms=duration_ms(given.older_than))
        for one in judged:
            print(f"{one.verdict}  {one.upload.key}")
        aborted = 0 if given.dry_run else sweeper.abort(judged)
    print(summary(judged, aborted))
    return True


if __name__ == "__main__":
    parser = job_parser(__doc__, config="A sink's configuration, or a folder with several.")
    parser.add_argument("--older-than", default="24h", metavar="AGE", help="Keep younger ones: 30m, 24h, 7d.")
    parser.add_argument("--dry-run", action="store_true", help="Only show what would be aborted.")
    arguments = parser.parse_args()
    leave(each_sink(arguments, lambda settings: sweep(settings, arguments)))
