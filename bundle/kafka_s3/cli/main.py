"""What can be typed? Errors without stack traces, exit codes that mean something, and a table of all commands.

A command's module, with all that it needs, is imported when the command is called. Help is plain text: Typer's panels load Rich's whole
renderer of Markdown for it, which takes longer than all else. The exit codes are those of the errors (`model/errors.py`);
docs/operations.md has a table of them.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar, Final, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kafka_s3 import __version__
from kafka_s3.model.errors import SinkError
from kafka_s3.model.text import printable_lines
from kafka_s3.run.java.cache import LocalServiceError

ENTRY_POINTS: Final = "kafka_s3.commands"


@dataclass(frozen=True, slots=True)
class Command:
    """Command of the program: its name, where its function (or a Typer with several) is, and its line of the help.

    `location` is `module:attribute`; blank: the distribution `kafka-s3-testing` brings the command as an entry point of the same name.
    """

    name: str
    location: str
    help: str

    def load(self) -> Any:
        """Import and return the function or the Typer. Raises LocalServiceError if `kafka-s3-testing` is not installed."""
        module, _, attribute = (self.location or _entry_point(self.name)).partition(":")
        gc.disable()  # among what is being imported there is no garbage, and looking for it takes a quarter of the time
        try:
            return getattr(import_module(module), attribute)
        finally:
            gc.enable()


def _entry_point(name: str) -> str:
    from importlib.metadata import entry_points  # here: it is slow to load

    for point in entry_points(group=ENTRY_POINTS, name=name):
        return point.value
    raise LocalServiceError(f"`kafka-s3 {name}` needs kafka-s3-testing: pip install 'kafka-s3[spark,local,delta]'")


class FullHelp(TyperGroup):
    """Commands whose lines of the help are shown in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A line or more for each command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help or "") for name, command in self.commands.items()])


class LazyGroup(FullHelp):
    """Commands whose names and help are known beforehand; the one that is called is imported."""

    known: ClassVar[Mapping[str, Command]] = {}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The real command, where the name is that of a known one."""
        name, found, rest = super().resolve_command(ctx, args)
        known = self.known.get(name or "")
        return name, _real(known) if known else found, rest


def lazy_app(commands: Sequence[Command], **options: Any) -> typer.Typer:
    """An app of these commands; `options` are Typer's."""
    group = type("Commands", (LazyGroup,), {"known": {command.name: command for command in commands}})
    app = typer.Typer(cls=group, rich_markup_mode=None, pretty_exceptions_enable=False, **options)
    for command in commands:
        app.command(name=command.name, help=command.help)(_placeholder)
    return app


def _placeholder() -> None:
    """Takes the place of a command in the help, and is never called."""


def _real(command: Command) -> Any:
    found = command.load()
    if isinstance(found, typer.Typer):
        found.info.cls, found.rich_markup_mode = FullHelp, None
        return get_command(found)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name=command.name)(found)
    return get_command(app)


COMMANDS: Final = tuple(
    Command(name, location and f"kafka_s3.cli.{location}", text)
    for name, location, text in (
        ("run", "run:run", "Run one or more sinks until SIGTERM or Ctrl-C; both stop cleanly after the current commit."),
        ("validate", "configuration:validate",
         "Check a configuration, and report all problems at once. Contacts no broker and no bucket, a registry for two seconds."),
        ("new", "new:new", "Write a checked configuration for a self-managed connector. In a terminal it asks for what no flag gives."),
        ("catalog", "configuration:catalog", "List the supported connectors and their keys."),
        ("demo", "",
         "Start Kafka, S3 and a schema registry, produce orders in JSON and shipments in Avro (some broken), and run sinks on them."),
        ("list", "status:list_", "List the sinks that keep their state in a bucket, with status, lag and last commit."),
        ("status", "status:status", "Show the state of one sink, with every topic-partition."),
        ("check", "status:check",
         "Print the state of a sink in one line; exit code 1 if it is DEGRADED, FAILED, STALE or UNKNOWN, or too far behind."),
        ("watch", "status:watch",
         "Watch all sinks of a bucket, and notify a webhook or a command when the state of one changes."),
        ("create", "control:create",
         "Store a checked configuration in its bucket, beside the sink's log. Secrets must be references; nothing is started."),
        ("pause", "control:pause",
         "Pause a sink after its current commit, until `resume`. A restart does not end the pause."),
        ("resume", "control:resume", "Resume a paused sink from its position."),
        ("flush", "control:flush", "Close the open files of a running sink now, so that everything in Kafka is in objects."),
        ("delete", "control:delete",
         "Remove a sink's stored configuration, control object and heartbeat; never its data, its log only with --with-log."),
        ("seek", "seek:seek", "Print the records of a Block-GZIP sink from an offset. Fetches only the blocks that hold them."),
        ("doctor", "doctor:doctor",
         "Test everything that a sink needs from Kafka, the registry and the bucket; exit code 1 if a test fails."),
        ("sweep", "sweep:sweep",
         "Clean up after crashed tasks: abort their unfinished uploads and remove their open files. Safe while the sink runs."),
        ("compact", "compact:compact",
         "Merge small files of a directory, without changing records. Safe while the sink runs."),
        ("forget", "forget:forget",
         "Erase one person's records from what a sink wrote. Searches first, shows what it found, and asks. Safe while the sink runs."),
        ("verify", "audit:verify",
         "Check that every offset is exactly once in objects, dead letters, skips or classified gaps. Changes nothing."),
        ("explain", "audit:explain",
         "Show which entry, rule, schema and object a record or a key belongs to; also for dead letters, skips and gaps. Changes nothing."),
        ("simulate", "simulate:simulate",
         "Estimate what a configuration would write: number, size and delay of files, requests, and the cost of a month."),
        ("restore", "restore:restore",
         "Write records from the bucket back to Kafka, in order and each once. Reports first what cannot come back as it was."),
        ("migrate", "position:migrate", "Take over from a Connect sink where it stopped: compares its group offsets with its objects."),
        ("position", "position:position", "Show the positions of a sink, or change them."),
        ("dead-letters", "dead_letters:dead_letters", "Look at dead letters, replay or resolve them."),
        ("dashboard", "dashboard:dashboard",
         "Serve the dashboard of a bucket's sinks until Ctrl-C. It only reads; anyone who can reach the port can see what it shows."),
        ("ddl", "tables:ddl", "Print statements that make a sink's topics tables of a query engine, with the columns of the objects."),
        ("iam", "configuration:iam", "Print the smallest AWS policy with which this sink runs. Changes nothing, and does not contact AWS."),
        ("lifecycle", "configuration:lifecycle",
         "Print lifecycle rules for this sink's objects that leave its commit log alone. Changes nothing."),
        ("delta", "tables:delta", "Check a sink's Delta tables against the log and the bucket, rebuild or maintain them."),
        ("state", "state:state", "Keep a sink's state tables (the newest value of every key), compare them with the log, rebuild them."),
        ("iceberg", "tables:iceberg", "Check a sink's Iceberg tables against the log and the bucket, rebuild or maintain them."),
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

    log_to_stderr(LogFormat.TEXT)  # what is tried again is logged, with its reason


def main() -> None:
    """Run the command: product errors become one message and an exit code. A command that went well returns.

    Platforms call this by its entry point, and some take any SystemExit, also that of 0, for a failure.
    """
    try:
        app()
    except SystemExit as end:
        if end.code:
            raise
    except SinkError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        if (extra := extra_of(error.name or "")) is None:
            raise
        _fail(LocalServiceError(f"{error.name} is not installed here: pip install 'kafka-s3[{extra}]'"))
    except Exception as error:
        if not _logged_as_json(error):
            raise
        sys.exit(1)


def extra_of(module: str) -> str | None:
    """The extra of ours that brings a module, by the name of its distribution; None where no extra does."""
    from importlib.metadata import requires  # here: it is slow to load

    own = re.escape(module.partition(".")[0].replace("_", "-"))
    found = (re.match(rf"{own}\b.*extra == ['\"](\w+)['\"]", text) for text in requires("kafka-s3") or ())
    return next((match[1] for match in found if match is not None), None)


def _logged_as_json(error: Exception) -> bool:
    from kafka_s3.run.logs import logged_as_json  # here: the help needs no logs

    return logged_as_json(error)


def _fail(error: SinkError) -> NoReturn:
    if _logged_as_json(error):
        sys.exit(error.exit_code)
    typer.secho(type(error).__name__, fg=typer.colors.RED, nl=False, err=True)
    print(f" {printable_lines(str(error))}", file=sys.stderr)
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
