"""Ends the uploads, and removes the states of open files, that crashed tasks left in the buckets of sinks: invisible, but paid for.

    python jobs/sweep_sinks.py CONFIG|FOLDER [--older-than 24h] [--dry-run]

A task uploads files as multipart uploads, and the driver completes them after the commit; a task that dies leaves its uploads pending.
Kept are those that the last commit still waits for, those of open files that the sink goes on with, and young ones, which a running task
may be about to report. Needs no Spark; safe while the sinks run.
"""

from __future__ import annotations

from argparse import Namespace

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.jobs import each_sink, job_parser, leave
from kafka_s3.ops.sweep import sweep_sink


def sweep(settings: Settings, given: Namespace) -> bool:
    """Looks through one sink's pending uploads and states, and ends what nobody goes on with."""
    found = sweep_sink(settings, older_than=given.older_than, dry_run=given.dry_run, clock_ms=now_ms)
    print(*(f"{one.verdict}  {one.upload.key}" for one in found.uploads), *found.lines(), sep="\n")
    return True


if __name__ == "__main__":
    parser = job_parser(__doc__, config="A sink's configuration, or a folder with several.")
    parser.add_argument("--older-than", default="24h", metavar="AGE", help="Keep younger ones: 30m, 24h, 7d.")
    parser.add_argument("--dry-run", action="store_true", help="Only show what would be aborted.")
    arguments = parser.parse_args()
    leave(each_sink(arguments, lambda settings: sweep(settings, arguments)))
