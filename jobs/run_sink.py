"""Runs a sink on Spark: the records of Kafka topics become objects in S3, exactly once.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 jobs/run_sink.py CONFIG [--available-now [--flush]]

For who knows Structured Streaming: there is no query and no checkpoint location here. The driver asks Kafka for the ends of the
partitions, plans ranges of offsets in which files can close, and reads each round's ranges in one batch,

    spark.read.format("kafka").option("assign", ...).option("startingOffsets", ...).option("endingOffsets", ...).load()
         .select(...).mapInArrow(task, "report string").collect()

Tasks write files and upload them without completing the uploads; `collect` brings back their reports, never records. The driver puts the
reports into one entry of the commit log in the bucket, with a conditional put, and completes the uploads: all files of a round appear, or
none. That log is all that a restart needs, so this process may be killed at any time. CONFIG is a Kafka Connect S3 sink's configuration
(docs/configuration.md).
"""

from __future__ import annotations

from argparse import Namespace
from threading import Event

from kafka_s3.config.masking import masking
from kafka_s3.model.clock import now_ms
from kafka_s3.model.files import Reason
from kafka_s3.spark.launch import sink_on_spark
from kafka_s3.spark.session import end_session, spark_session
from kafka_s3.spark.task_values import set_task_values
from kafka_s3.tools.jobs import OK, job_parser, job_settings, leave, outcome
from kafka_s3.tools.logs import LogFormat, LogObserver, log_to_stderr, mask_logs
from kafka_s3.tools.preflight import ask_bucket, ask_kafka
from kafka_s3.wiring.metering import metering
from kafka_s3.wiring.running import attended, run_until_drained, run_until_stopped, stopping


def main(given: Namespace) -> int:
    """Runs the sink until SIGTERM, or with --available-now until what is in Kafka now has been worked off."""
    log_to_stderr(given.log_format, verbosity=given.verbose)
    settings = job_settings(
        given.config, given
    )  # every problem of the configuration at once; secrets are looked up here
    mask_logs(masking(settings))
    stop, observer = Event(), LogObserver()
    ask_bucket(settings, observer.preparing)  # what is refused or silent ends the run before Spark starts
    # a heartbeat in the bucket for `kafka-s3 status` and the dashboard, and an ear for `kafka-s3 pause`, `resume` and `flush`
    # SIGTERM ends the sink after its commit
    with (
        metering([settings]) as meters,  # its numbers for Prometheus or a collector, where the configuration names one
        attended(settings, observer=observer, clock_ms=now_ms, meters=meters) as attendance,
        stopping(stop),
    ):
        ask_kafka(settings, observer.preparing)
        spark = spark_session(name=settings.name)  # the cluster's own; a local one where there is none
        try:
            sink = sink_on_spark(settings, spark, observer=attendance.heartbeat, store=attendance.store)
            if given.available_now:
                close = (
                    Reason.FLUSH_NOW if given.flush else None
                )  # without --flush records wait in Kafka until a file can close
                run_until_drained(sink, settings, stop, close=close, channel=attendance.channel)
            else:
                run_until_stopped(sink, settings, stop, channel=attendance.channel)
        finally:
            set_task_values(spark, attendance.heartbeat.current)  # on Databricks, for the job's tasks behind this one
            end_session(spark)  # on a platform that shares its session this leaves it alone
    return OK


if __name__ == "__main__":
    parser = job_parser(__doc__, config="The sink's configuration: Connect JSON or .properties.")
    parser.add_argument("--available-now", action="store_true", help="Work off what is in Kafka now, then end.")
    parser.add_argument("--flush", action="store_true", help="With --available-now: close the files still open.")
    parser.add_argument("--log-format", type=LogFormat, choices=list(LogFormat), default=LogFormat.TEXT)
    parser.add_argument("-v", "--verbose", action="count", default=0, help="Tell what the sink does; -vv also why.")
    arguments = parser.parse_args()
    if arguments.flush and not arguments.available_now:
        parser.error("--flush goes with --available-now; a continuous sink closes idle files by flush.idle.ms")
    leave(outcome(lambda: main(arguments)))
