"""Run a sink on Spark: the records of Kafka topics become objects in S3, exactly once.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 jobs/run_sink.py CONFIG [--available-now [--flush]]

If you know Structured Streaming: there is no query and no checkpoint location here. The driver asks Kafka for the ends of the
partitions, plans ranges of offsets in which files can close, and has Spark run the tasks of a round in one job. A classic session runs an
RDD of the tasks' numbers, which needs no query plan:

    spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(task).collect()

Spark Connect has no RDDs, so there it is a DataFrame:

    spark.range(0, tasks, 1, tasks).mapInArrow(task, "report string").collect()

Each task reads its ranges from Kafka by itself, with librdkafka straight into Arrow (`kafka.reader=tasks`): a fifth to a sixth of the CPU
that a record costs otherwise (docs/benchmarks.md). If tasks cannot reach the brokers, or the login is one of Java's alone, Spark's own
source reads (`kafka.reader=spark`); `auto`, the default, has a task try, and reports the choice:

    spark.read.format("kafka").option("assign", ...).option("startingOffsets", ...).option("endingOffsets", ...).load()
         .select(...).mapInArrow(task, "report string").collect()

Either way tasks write files and upload them without completing the uploads; `collect` brings back their reports, never records. The driver
puts the reports into one entry of the commit log in the bucket, with a conditional put, and completes the uploads: all files of a round
appear, or none. That log is all that a restart needs, so this process may be killed at any time. CONFIG is a Kafka Connect S3 sink's
configuration (docs/configuration.md). The code: `run/spark/source.py` starts the jobs, `run/spark/task.py` is what runs in them.
"""

from __future__ import annotations

from argparse import Namespace

from kafka_s3.connect.config.settings import masking
from kafka_s3.model.files import Reason
from kafka_s3.model.protocols import join_observers
from kafka_s3.ops.jobs import configurations, job_parser, job_settings, leave, outcome
from kafka_s3.run.logs import LogFormat, LogObserver, log_to_stderr, mask_logs
from kafka_s3.run.spark.process import process_of
from kafka_s3.state import states_on_spark


def main(given: Namespace) -> int:
    """Run the sink until SIGTERM, or with --available-now until what is in Kafka now is processed; of a folder, all side by side."""
    log_to_stderr(given.log_format, verbosity=given.verbose)
    # every problem of a configuration at once; secrets are looked up here
    sinks = [job_settings(path, given) for path in configurations(given.config)]
    for one in sinks:
        mask_logs(masking(one))
    # without --flush records wait in Kafka until a file can close
    close = Reason.FLUSH_NOW if given.flush else None
    # the cluster's own session of Spark, a local one where there is none; SIGTERM ends each sink after its commit
    with process_of(sinks, available_now=given.available_now, close=close, states=states_on_spark) as process:
        # a thread and a driver for each; one that fails stops alone
        return process.run_all(sinks, join_observers(LogObserver()))


if __name__ == "__main__":
    parser = job_parser(
        __doc__, config="The sink's configuration (Connect JSON or .properties), or a folder with several."
    )
    parser.add_argument("--available-now", action="store_true", help="Process what is in Kafka now, then end.")
    parser.add_argument("--flush", action="store_true", help="With --available-now: close the files still open.")
    parser.add_argument("--log-format", type=LogFormat, choices=list(LogFormat), default=LogFormat.TEXT)
    parser.add_argument("-v", "--verbose", action="count", default=0, help="Log what the sink does; -vv also why.")
    arguments = parser.parse_args()
    if arguments.flush and not arguments.available_now:
        parser.error("--flush goes with --available-now; a continuous sink closes idle files by flush.idle.ms")
    leave(outcome(lambda: main(arguments)))
