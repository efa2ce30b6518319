"""What can be typed? The command line: each command in a module of its own, errors without stack traces, exit codes that mean something.

The exit codes are those of the errors (`model/errors.py`); docs/operations.md has a table of them.
"""

from __future__ import annotations

import re
import sys
from typing import Annotated, Final, NoReturn

import typer

from kafka_s3 import __version__
from kafka_s3.cli.lazy import Command, lazy_app
from kafka_s3.model.errors import SinkError
from kafka_s3.model.text import printable_lines
from kafka_s3.run.java.cache import LocalServiceError

COMMANDS: Final = tuple(
    Command(name, f"kafka_s3.cli.{place}", text)
    for name, place, text in (
        ("run", "run:run", "Run a sink, or several, until told to stop (SIGTERM or Ctrl-C ends cleanly after the current commit)."),
        ("validate", "validate:validate_command",
         "Report everything that is wrong with a configuration: no broker and no bucket is asked, a schema registry for two seconds."),
        ("new", "new:new", "Write a checked configuration of the self-managed connector's kind: asks in a terminal what no flag answers."),
        ("catalog", "catalog:catalog", "The connectors whose configurations are taken, and their keys."),
        ("demo", "demo:demo",
         "Start Kafka, S3 and a schema registry, produce orders in JSON and shipments in Avro (some broken), and run sinks on them."),
        ("list", "look:list_", "List the sinks that keep their state in a bucket, with status, lag and last commit."),
        ("status", "look:status", "Show how one sink is, with every topic-partition."),
        ("check", "check:check",
         "Say in one line how a sink is; exit code 1 where it is DEGRADED, FAILED, STALE or UNKNOWN, or too far behind."),
        ("watch", "watch:watch",
         "Look at all sinks of a bucket again and again, and tell a webhook or a command whenever the state of one changes."),
        ("create", "control:create",
         "Store a checked configuration in its bucket, beside the sink's log. Secrets must be references; nothing is started."),
        ("pause", "control:pause",
         "Let a sink do nothing until it is resumed, after the commit it is at; a restart does not end the pause."),
        ("resume", "control:resume", "Let a paused sink go on where it stands."),
        ("flush", "control:flush", "Let a running sink close its open files now, so that everything that is in Kafka is in objects."),
        ("delete", "control:delete",
         "Remove a sink's stored configuration, control object and heartbeat; never its data, its log only with --with-log."),
        ("seek", "seek:seek", "Print the records of a Block-GZIP sink from an offset on, fetching only the blocks they are in."),
        ("doctor", "doctor:doctor",
         "Try everything that a sink will need of Kafka, the registry and the bucket; exit code 1 if anything failed."),
        ("sweep", "sweep:sweep",
         "Abort the unfinished uploads and remove the open files that crashed tasks of a sink left. Safe while the sink runs."),
        ("verify", "verify:verify",
         "Check that every offset is exactly once in objects, dead letters, skips or classified gaps. Changes nothing."),
        ("explain", "explain:explain",
         "Say which entry, rule, schema and object a record or a key belongs to; also of dead letters, skips and gaps. Changes nothing."),
        ("simulate", "simulate:simulate",
         "Say how many files a configuration would write, how large and how late, with how many requests, and what a month costs."),
        ("restore", "restore:restore",
         "Write records of the bucket back to Kafka, in order and each once; what cannot come back as it was is said first."),
        ("migrate", "migrate:migrate", "Compare the connector's group offsets with its objects and take over where it stopped."),
        ("position", "position:position", "Show where a sink stands, or move it."),
        ("dead-letters", "dead_letters:dead_letters", "Look at dead letters, replay or resolve them."),
        ("dashboard", "dashboard:dashboard",
         "Serve the dashboard of a bucket's sinks until Ctrl-C. It only reads; anyone who can reach the port can see what it shows."),
        ("ddl", "ddl:ddl", "Print how a query engine gets to know a sink's topics: tables with the columns that the objects have."),
        ("iam", "policies:iam", "Print the least policy with which this sink runs. Nothing is changed, and nothing is asked of AWS."),
        ("lifecycle", "policies:lifecycle",
         "Print lifecycle rules for this sink's objects, which leave its commit log alone. Nothing is changed."),
        ("delta", "delta:delta", "Compare a sink's Delta tables with log and bucket, or make them again."),
    )
)  # fmt: skip
app = lazy_app(
    COMMANDS,
    name="kafka-s3",
    help="Kafka topics to S3 objects on Spark: a Kafka Connect S3 sink configuration in, the same objects out, exactly once.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"kafka-s3 {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Kafka topics to S3 objects on Spark."""
    from kafka_s3.run.logs import LogFormat, log_to_stderr  # here: the help needs no logs

    log_to_stderr(LogFormat.TEXT)  # what is tried again is told, with its reason


def main() -> None:
    """The entry point: product errors become one message and an exit code."""
    try:
        app()
    except SinkError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        if (extra := extra_of(error.name or "")) is None:
            raise
        _fail(LocalServiceError(f"{error.name} is not installed here: pip install 'kafka-s3[{extra}]'"))
    except Exception as error:
        if not _told_as_json(error):
            raise
        sys.exit(1)


def extra_of(module: str) -> str | None:
    """The extra of ours that brings a module, by the name of its distribution; None where no extra does."""
    from importlib.metadata import requires  # here: it is slow to load

    own = re.escape(module.partition(".")[0].replace("_", "-"))
    found = (re.match(rf"{own}\b.*extra == ['\"](\w+)['\"]", text) for text in requires("kafka-s3") or ())
    return next((match[1] for match in found if match is not None), None)


def _told_as_json(error: Exception) -> bool:
    from kafka_s3.run.logs import told_as_json  # here: the help needs no logs

    return told_as_json(error)


def _fail(error: SinkError) -> NoReturn:
    if _told_as_json(error):
        sys.exit(error.exit_code)
    typer.secho(type(error).__name__, fg=typer.colors.RED, nl=False, err=True)
    print(f" {printable_lines(str(error))}", file=sys.stderr)
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
