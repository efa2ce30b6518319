"""Keeps the state tables of sinks: merges what was committed since the last time, with the newest value of every key.

    spark-submit --packages io.delta:delta-spark_2.13:4.0.1 jobs/keep_states.py CONFIG|FOLDER [--check]

For sinks with `state.run.on=job`, whose own process keeps none; safe where the sink keeps them, too. A table that is not there is made
from the whole commit log. Needs a Spark that knows Delta.
"""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import TableError
from kafka_s3.ops.jobs import each_sink, job_parser, leave


def keep(settings: Settings, given: Namespace) -> bool:
    """Brings the tables of one sink up to date, or only compares them, whatever happens to one of them; whether all went well."""
    if not settings.flag("state.enable"):
        print(f"{settings.name} keeps no state tables (state.enable=false).")
        return True
    from kafka_s3.state import opened_states  # loads pyspark

    well = True
    with closing(opened_states(settings, warn=print)) as states:
        for topic in states.topics:
            try:
                if given.check:
                    found = states.compare(topic)
                    well = well and found.difference is None
                    print(f"{topic}: {found.text()}")
                else:
                    print(f"{topic}: {states.merger.advance(topic, states.log)}")
            except TableError as error:
                well = False
                print(f"{topic}: not done. {error}")
    return well


if __name__ == "__main__":
    parser = job_parser(__doc__, config="A sink's configuration, or a folder with several.")
    parser.add_argument("--check", action="store_true", help="Only compare the tables with the log.")
    arguments = parser.parse_args()
    leave(each_sink(arguments, lambda settings: keep(settings, arguments)))
