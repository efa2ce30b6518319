"""What can be typed? The command line: each command in a module of its own, errors without stack traces, exit codes that mean something.

Exit codes: 0 done, 1 the sink stopped or a check failed, 2 the configuration or the call is wrong.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from kafka_s3 import __version__
from kafka_s3.cli.control import create, delete, flush, list_, pause, resume, status
from kafka_s3.cli.dead_letters import dead_letters
from kafka_s3.cli.demo import demo
from kafka_s3.cli.doctor import doctor
from kafka_s3.cli.migrate import migrate
from kafka_s3.cli.position import position
from kafka_s3.cli.run import run
from kafka_s3.cli.seek import seek
from kafka_s3.cli.sweep import sweep
from kafka_s3.cli.validate import validate_command
from kafka_s3.cli.verify import verify
from kafka_s3.errors import ConfigError, SinkError

app = typer.Typer(
    name="kafka-s3",
    help="Kafka topics to S3 objects on Spark: a Kafka Connect S3 sink configuration in, the same objects out, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(run)
app.command(name="validate")(validate_command)
app.command()(demo)
app.command(name="list")(list_)
app.command()(status)
app.command()(create)
app.command()(pause)
app.command()(resume)
app.command()(flush)
app.command()(delete)
app.command()(seek)
app.command()(doctor)
app.command()(sweep)
app.command()(verify)
app.command()(migrate)
app.add_typer(position, name="position")
app.add_typer(dead_letters, name="dead-letters")


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


def main() -> None:
    """The entry point: product errors become one message and an exit code."""
    try:
        app()
    except ConfigError as error:
        Console(stderr=True).print(f"[red]{type(error).__name__}[/]", end=" ")
        print(error, file=sys.stderr)
        sys.exit(2)
    except SinkError as error:
        Console(stderr=True).print(f"[red]{type(error).__name__}[/]", end=" ")
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
