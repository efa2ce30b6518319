"""Fails where a sink is not well, so that the scheduler alerts somebody. Needs no Spark; reads only the sinks' state in their buckets.

    python jobs/check_sinks.py CONFIG|FOLDER [--max-lag 10000000]

A running sink writes a heartbeat beside its commit log. A sink is unwell where that is missing or old, or says that something fails or
falls behind, that a topic is not there, or that its lag, its delay or its share of dead letters is above the limits: those of its
configuration (health.*), or these options. A lag that is not known is too much.
"""

from __future__ import annotations

from argparse import Namespace

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.status import check_sink
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.jobs import job_parser, leave, look_at_each
from kafka_s3.run.wiring.bucket import folder_of


def check(settings: Settings, given: Namespace) -> tuple[str, bool]:
    """One line that says how a sink is, and whether it is well. Raises ConfigError for one that has never run."""
    folder = folder_of(settings)
    return check_sink(
        folder.store, folder.known(settings.name), seen_ms=now_ms(),
        max_lag=given.max_lag, max_delay_s=given.max_delay, max_dead_letters=given.max_dead_letters,
    )  # fmt: skip


if __name__ == "__main__":
    parser = job_parser(__doc__, config="A sink's configuration, or a folder with several.")
    parser.add_argument("--max-lag", type=int, metavar="RECORDS", help="More than this behind Kafka is trouble.")
    parser.add_argument(
        "--max-delay", type=float, metavar="SECONDS", help="Older records at the last commit are trouble."
    )
    parser.add_argument("--max-dead-letters", type=float, metavar="SHARE", help="A larger share of records is trouble.")
    arguments = parser.parse_args()
    leave(look_at_each(arguments, lambda settings: check(settings, arguments)))
