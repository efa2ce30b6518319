"""`kafka-s3 state run|check|rebuild CONFIG|NAME`: the tables with the newest value of every key, brought up to date, compared, rebuilt.

All three need a Spark that knows Delta: on Databricks, by spark-submit, or by Spark Connect (SPARK_REMOTE).
Exit codes: 0 done and nothing found, 1 findings (or a table could not follow), 2 the configuration or the call is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from kafka_s3.cli.arguments import Only, Output, OutputFormat, check_topic, composed, sink_settings, usage_error
from kafka_s3.cli.display import console, show_json, show_line
from kafka_s3.connect.config.settings import Settings
from kafka_s3.followers.state import Advance
from kafka_s3.model.errors import TableError

if TYPE_CHECKING:
    from kafka_s3.state import OpenStateTables

state = typer.Typer(
    help="Keep a sink's state tables (the newest value of every key), compare them with the log, rebuild them.",
    no_args_is_help=True,
    add_completion=False,
)


@state.command()
@composed(settings=sink_settings)
def run(settings: Settings, topics: Only = None, output: Output = OutputFormat.TABLE) -> None:
    """Merge what was committed since the last time; make tables that are not there. Safe while the sink runs."""
    _each(settings, topics, output, lambda states, topic: states.merger.advance(topic, states.log))


@state.command()
@composed(settings=sink_settings)
def rebuild(settings: Settings, topics: Only = None, output: Output = OutputFormat.TABLE) -> None:
    """Replace all rows of the tables by what the whole commit log says, in one pass. Safe while the sink runs."""
    _each(settings, topics, output, lambda states, topic: states.merger.rebuild(topic, states.log))


@state.command()
@composed(settings=sink_settings)
def check(settings: Settings, topics: Only = None, output: Output = OutputFormat.TABLE) -> None:
    """Compare the tables with the whole commit log, and name the first key that differs. Changes nothing; exit code 1 if one does."""
    out, found, well = console(stderr=output is OutputFormat.JSON), [], True
    with closing(_opened(settings)) as states:
        for topic in _topics(states, topics):
            try:
                one = states.compare(topic)
            except TableError as error:
                show_line(out, f"{topic}: not compared. {error}")
                well = False
                continue
            found.append(asdict(one))
            well = well and one.difference is None
            show_line(out, f"{topic}: {one.text()}")
    if output is OutputFormat.JSON:
        show_json(found)
    if not well:
        raise typer.Exit(1)


def _each(
    settings: Settings,
    topics: Sequence[str] | None,
    output: OutputFormat,
    work: Callable[[OpenStateTables, str], Advance],
) -> None:
    out, done, well = console(stderr=output is OutputFormat.JSON), [], True
    with closing(_opened(settings)) as states:
        for topic in _topics(states, topics):
            try:
                one = work(states, topic)
            except TableError as error:
                well = False
                show_line(out, f"{topic}: not done. {error}")
                continue
            done.append(asdict(one))
            show_line(out, f"{topic}: {one}")
    if output is OutputFormat.JSON:
        show_json(done)
    if not well:
        raise typer.Exit(1)


def _topics(states: OpenStateTables, wanted: Sequence[str] | None) -> list[str]:
    for topic in wanted or ():
        check_topic(topic, states.topics)
    return list(wanted or states.topics)


def _opened(settings: Settings) -> OpenStateTables:
    if not settings.flag("state.enable"):
        raise usage_error(
            "state.enable", "false", "must be true: this sink keeps no state tables.", "Set it, with state.table."
        )
    from kafka_s3.state import opened_states  # here: the help needs no Spark

    return opened_states(settings, warn=lambda text: show_line(console(stderr=True), text, style="yellow"))
