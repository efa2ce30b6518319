"""Proves that every offset of a sink is exactly once in objects, dead letters, skips or explained gaps. Needs no Spark; changes nothing.

    python jobs/verify_sinks.py CONFIG|FOLDER [--days 7] [--sample 500] [--no-kafka]

The commit log says which offsets are in which object. This lists the bucket, reads objects (all, or a sample) with readers of its own,
reads Kafka again, and compares: counts of every commit, values where Kafka still has them.
"""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta

from kafka_s3.connect.config.settings import Settings
from kafka_s3.ops.jobs import each_sink, job_parser, leave
from kafka_s3.ops.verify.audit import audit_of
from kafka_s3.ops.verify.claims import SegmentSelection
from kafka_s3.run.wiring.clients import plain_reader


def verify(settings: Settings, given: Namespace) -> bool:
    """Verifies one sink; whether nothing was found."""
    kafka = None if given.no_kafka else plain_reader(settings)
    since = datetime.now(UTC) - timedelta(days=given.days) if given.days is not None else None
    report = audit_of(settings, SegmentSelection(since=since), sample=given.sample, kafka=kafka).run()
    for tally in report.tallies:
        numbers = f"{tally.written} written, {tally.dead_letters} dead letters, {tally.skipped} skipped"
        print(
            f"{tally.topic_partition} [{tally.start}, {tally.until}): {numbers}; {tally.read} of {tally.objects} objects read"
        )
    for note in report.notes:
        print(f"note: {note}")
    for finding in report.findings:
        print(f"{finding.kind} {finding.place}: {finding.text}")
    print(report.verdict())
    return report.clean


if __name__ == "__main__":
    parser = job_parser(__doc__, config="A sink's configuration, or a folder with several.")
    parser.add_argument("--sample", type=int, metavar="N", help="Read only N objects of each sink, spread evenly.")
    parser.add_argument(
        "--days", type=int, metavar="N", help="Only commits of the last N days, before a lifecycle rule archives them."
    )
    parser.add_argument(
        "--no-kafka", action="store_true", help="Ask no broker: check the log against the objects alone."
    )
    arguments = parser.parse_args()
    leave(each_sink(arguments, lambda settings: verify(settings, arguments)))
