"""`kafka-s3 run CONFIG|NAME...`: run sinks, continuously or until what is there now has been processed."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_s3.cli.arguments import Overrides, SinkNames, Where, WorkerPath, composed, sink_config, unlogged, usage_error
from kafka_s3.cli.display import ProgressObserver, console, progress_bar
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import Reason
from kafka_s3.model.protocols import join_observers
from kafka_s3.ops.jobs import configurations
from kafka_s3.run.logs import LogFormat, LogObserver, log_to_stderr
from kafka_s3.run.spark.session import begun_jvm, duty_of_all
from kafka_s3.run.wiring.state import kept_by_sink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_s3.run.spark.launch import MakeStates


@composed(where=Where)
def run(
    sinks: SinkNames,
    where: Where,
    worker: WorkerPath = None,
    overrides: Overrides = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is in Kafka now, then stop.")
    ] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="With --available-now: also close the files still open.")
    ] = False,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines look.")] = LogFormat.TEXT,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, help="Log what the sink does; -vv also why: plans, closed files, requests."
        ),
    ] = 0,
    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress", help="A progress bar instead of log lines; default: on a terminal without -v."
        ),
    ] = None,
    cores: Annotated[
        str, typer.Option(help="Cores of a local Spark session, where none is given by the surroundings.")
    ] = "*",
) -> None:
    """Run one or more sinks until SIGTERM or Ctrl-C; both stop cleanly after the current commit."""
    log_to_stderr(log_format, verbosity=verbose)
    if flush and not available_now:
        raise usage_error("--flush", None, "goes with --available-now.", "Use flush.idle.ms for a continuous sink.")
    known = _settings(sinks, where, worker, overrides)
    with begun_jvm(
        name="kafka-s3", cores=cores, duty=duty_of_all(known)
    ) as jvm:  # beside what is imported and asked until Spark is needed
        from kafka_s3.run.spark.process import process_of

        close = Reason.FLUSH_NOW if flush else None
        shown = len(known) == 1 and (progress if progress is not None else sys.stderr.isatty() and not verbose)
        starting = process_of(
            known, available_now=available_now, close=close, cores=cores, jvm=jvm, states=_states(known)
        )
        with starting as process, _observer(shown) as observer:
            code = process.run_all(known, join_observers(observer))
    raise typer.Exit(code)


def _states(sinks: Sequence[Settings]) -> MakeStates | None:
    """What makes the keepers of state tables, where a sink has some."""
    if not any(map(kept_by_sink, sinks)):
        return None
    from kafka_s3.state import states_on_spark  # loads pyspark

    return states_on_spark


def _observer(progress: bool) -> AbstractContextManager[ProgressObserver | LogObserver]:
    return ProgressObserver(progress_bar(console(stderr=True))) if progress else nullcontext(LogObserver())


def _settings(sinks: list[str], where: Where, worker: Path | None, overrides: list[str] | None) -> list[Settings]:
    """The settings of all sinks. Raises ConfigError with every problem of each, before anything is begun."""
    known, problems = list[Settings](), list[Problem]()
    sinks = [str(path) for sink in sinks for path in (configurations(Path(sink)) if Path(sink).is_dir() else [sink])]
    for sink in sinks:
        try:
            known.append(unlogged(resolved(sink_config(sink, where, worker, overrides).usable())))
        except ConfigError as error:
            if len(sinks) == 1:
                raise
            problems += [replace(one, key=f"{sink}: {one.key}") for one in error.problems]
    if problems:
        raise ConfigError(problems)
    return known
