"""Which arguments do several commands take, and which sink do they mean: that of a configuration file, or a name in a bucket?

Each option is defined here once, with its name and its help. A parameter of a command may be made of other parameters:

    @composed(settings=sink_settings, chosen=selection)
    def show(settings: Settings, chosen: Selection, output: Output = OutputFormat.TABLE) -> None:

takes on the command line whatever `sink_settings` and `selection` take, in their places, and `--output`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from kafka_s3.connect.config.options.ours import STATE_PREFIX
from kafka_s3.connect.config.read import CONFIGURATIONS, pairs, read_properties, read_worker, under
from kafka_s3.connect.config.references import refused_of_stored
from kafka_s3.connect.config.settings import REGION, Settings, masking
from kafka_s3.connect.config.validate import CheckedConfig, check_file, load, resolved, validate
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.text import MASK
from kafka_s3.ops.jobs import configurations, outcome
from kafka_s3.run.logs import mask_logs

if TYPE_CHECKING:
    from kafka_s3.engine.control.heartbeat import Heartbeat
    from kafka_s3.run.wiring.bucket import SinkFolder
    from kafka_s3.store.options import StoreOptions
    from kafka_s3.store.store import ObjectStore

ConfigPath = Annotated[Path, typer.Argument(help="The connector's configuration: Connect JSON or .properties.")]
WorkerPath = Annotated[
    Path | None,
    typer.Option("--worker", help="Connect's worker.properties: brokers, default converters, consumer settings."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key over the file; may be given more than once."),
]
SinkName = Annotated[
    str, typer.Argument(metavar="CONFIG|NAME", help="A sink's configuration file, or its name with --bucket.")
]
SettingsText = Annotated[
    str,
    typer.Option("--settings", metavar="TEXT", help="Keys over the file, as a .properties text; --set goes over them."),
]
SinkOrFolder = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG|NAME|FOLDER", help="As elsewhere; or a folder, for each of the configurations in it."
    ),
]
SinkNames = Annotated[
    list[str],
    typer.Argument(metavar="CONFIG|NAME...", help="Sinks' configuration files, or their names with --bucket."),
]
T = TypeVar("T")
AGE: Final = re.compile(r"\d+[smhd]")
NOT_STORED: Final = "is masked in the stored configuration, so the secret is not there."


class OutputFormat(StrEnum):
    """What a command prints."""

    TABLE = "table"
    JSON = "json"


Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="For people, or for programs.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen and change nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Also where a driver committed lately; it is fenced, and stops.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait for the running sink's answer.")]
TopicName = Annotated[str, typer.Argument(help="The topic.")]
Only = Annotated[
    list[str] | None, typer.Option("--topic", help="Only this topic; may be given more than once. Default: all.")
]
PartitionNumber = Annotated[int, typer.Argument(min=0, help="The partition.")]


@dataclass(frozen=True, slots=True)
class Where:
    """Where sinks keep their state, if no configuration says so."""

    bucket: Annotated[
        str | None,
        typer.Option("--bucket", envvar="KAFKA_S3_BUCKET", help="The bucket, where no configuration names it."),
    ] = None
    store_url: Annotated[
        str | None,
        typer.Option("--store-url", envvar="KAFKA_S3_STORE_URL", help="Address of an S3-compatible service."),
    ] = None
    region: Annotated[str, typer.Option("--region", envvar="KAFKA_S3_REGION", help="The bucket's region.")] = REGION
    service_credential: Annotated[
        str | None,
        typer.Option(
            "--service-credential",
            envvar="KAFKA_S3_SERVICE_CREDENTIAL",
            help="A service credential of Unity Catalog, instead of AWS's own chain.",
        ),
    ] = None
    prefix: Annotated[str, typer.Option("--state-prefix", help="Folder of the sinks' state in the bucket.")] = (
        STATE_PREFIX
    )

    def folder(self) -> SinkFolder:
        """The folder in the bucket. Raises ConfigError without a bucket."""
        from kafka_s3.run.wiring.bucket import named_folder  # loads the S3 client

        return named_folder(
            self.bucket,
            self.prefix,
            region=self.region,
            store_url=self.store_url,
            service_credential=self.service_credential,
        )


@dataclass(frozen=True, slots=True)
class Target:
    """One sink in a folder of state."""

    folder: SinkFolder
    name: str
    given: str = ""
    """How the user named it: the file, or the name."""

    @property
    def paths(self) -> StatePaths:
        return self.folder.paths(self.name)

    @property
    def store(self) -> ObjectStore:
        """The bucket."""
        return self.folder.store

    def heartbeat(self) -> Heartbeat | None:
        """Its last heartbeat."""
        from kafka_s3.engine.control.heartbeat import read_heartbeat  # here: most commands read a file

        return read_heartbeat(self.store, self.paths)


def composed(**makers: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A command, or a maker, some of whose parameters are made, under their names, of other parameters."""
    parts = {name: signature(make, eval_str=True).parameters for name, make in makers.items()}

    def of(command: Callable[..., T]) -> Callable[..., T]:
        own = signature(command, eval_str=True).parameters
        taken = [part for name in own for part in (parts[name].values() if name in parts else [own[name]])]

        @wraps(command)
        def run(**given: Any) -> T:
            made = {name: make(**{part: given.pop(part) for part in parts[name]}) for name, make in makers.items()}
            return command(**given, **made)

        del run.__wrapped__  # typer is to see what is taken here
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in taken}
        run.__signature__ = Signature(  # type: ignore[attr-defined]
            [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in taken]
        )
        return run

    return of


def of_each(command: Callable[..., None]) -> Callable[..., None]:
    """Have a composed command take a folder, too: it does its work for each configuration, and the highest exit code counts."""

    @wraps(command)
    def run(**arguments: Any) -> None:
        folder = Path(arguments["sink"])
        if not folder.is_dir():
            return command(**arguments)
        codes = []
        for path in configurations(folder):
            typer.echo(f"--- {path.name}", err=True)
            codes.append(outcome(partial(_exit_code, command, {**arguments, "sink": str(path)})))
        raise typer.Exit(max(codes))

    given = signature(command)
    parameters = [
        one.replace(annotation=SinkOrFolder) if one.name == "sink" else one for one in given.parameters.values()
    ]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = given.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _exit_code(command: Callable[..., None], arguments: dict[str, Any]) -> int:
    try:
        command(**arguments)
    except typer.Exit as end:
        return end.exit_code
    return 0


def settings_of(config: ConfigPath, worker: WorkerPath = None, overrides: Overrides = None) -> Settings:
    """The checked settings of a configuration file, references resolved. Raises ConfigError with every problem of it."""
    return unlogged(resolved(load(config, worker_path=worker, overrides=pairs(overrides))))


@composed(where=Where)
def sink_settings(
    sink: SinkName,
    where: Where,
    worker: WorkerPath = None,
    settings_text: SettingsText = "",
    overrides: Overrides = None,
) -> Settings:
    """Return the checked settings of a file, or of the configuration that is stored by a name; references resolved. Raises ConfigError."""
    checked = sink_config(sink, where, worker, _all_overrides(settings_text, overrides))
    return unlogged(resolved(checked.usable()))


@composed(where=Where)
def named_target(
    sink: SinkName,
    where: Where,
    worker: WorkerPath = None,
    settings_text: SettingsText = "",
    overrides: Overrides = None,
) -> Target:
    """Return the sink of a configuration file, or of a name, whether or not the bucket holds anything of it."""
    if is_file(sink):
        from kafka_s3.run.wiring.bucket import folder_of  # loads the S3 client

        settings = settings_of(Path(sink), worker, _all_overrides(settings_text, overrides))
        return Target(folder_of(settings), settings.name, sink)
    return Target(where.folder(), sink, sink)


def _all_overrides(settings_text: str, overrides: list[str] | None) -> list[str]:
    texts = read_properties(settings_text, Path("--settings"))
    return [*(f"{key}={text}" for key, text in texts.items()), *(overrides or ())]


@composed(target=named_target)
def target_of(target: Target) -> Target:
    """The sink of a configuration file, or of a name. Raises ConfigError where the bucket holds nothing of it."""
    target.folder.known(target.name)
    return target


def usage_error(key: str, value: str | None, rule: str, remedy: str = "") -> ConfigError:
    """The call is wrong, or what it names."""
    return ConfigError([Problem(key, value, rule, remedy)])


def check_topic(topic: str, known: Iterable[str]) -> None:
    """Raises ConfigError, with the sink's topics, for a topic that is none of them."""
    names = sorted(set(known))
    if topic not in names:
        raise usage_error(
            "--topic", topic, "is not a topic of this sink.", f"It reads {', '.join(names) or 'none yet'}."
        )


def time_of(option: str, text: str) -> datetime:
    """Return the time that an option names, in UTC by default, or an age ago (`7d`). Raises ConfigError for what is neither."""
    if AGE.fullmatch(text):
        from kafka_s3.ops.sweep import duration_ms  # loads the S3 client

        return datetime.now(UTC) - timedelta(milliseconds=duration_ms(text))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise usage_error(
            option, text, "is not a time.", "Write 2025-01-31, 2025-01-31T10:00:00Z or, for a week ago, 7d."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def sink_config(sink: str, where: Where, worker: Path | None, overrides: list[str] | None) -> CheckedConfig:
    """What a file says, or the configuration that is stored by a name, with what is wrong with it. Raises ConfigError without either."""
    if is_file(sink):
        return check_file(Path(sink), worker_path=worker, overrides=pairs(overrides))
    return stored_config_of(Target(where.folder(), sink), overrides, worker)


def unlogged(settings: Settings) -> Settings:
    """The settings, whose secrets no line of the log shows from now on."""
    mask_logs(masking(settings))
    return settings


def is_file(sink: str) -> bool:
    """Whether a configuration file is meant, and not a sink's name."""
    return sink.endswith(CONFIGURATIONS) or Path(sink).is_file()


def stored_config_of(target: Target, overrides: list[str] | None, worker: Path | None = None) -> CheckedConfig:
    """A sink's stored configuration, references unresolved. `overrides` win over it, and a worker file over its worker's settings.

    Whoever may write to the bucket has written it: its worker's settings may name no more than a connector's author, and its references
    are looked up only where this machine's operator allows it. Raises ConfigError there, where it has none, where a secret in it is only
    a mask, and where it belongs to another sink or bucket.
    """
    from kafka_s3.engine.control.stored_settings import read_stored_config  # here: most commands read a file

    stored = read_stored_config(target.store, target.paths)
    if stored is None:
        rule = f"has no stored configuration in {target.folder}{target.name}/."
        raise usage_error("sink", target.name, rule, "Store one with kafka-s3 create, or name its file.")
    operators = read_worker(worker).texts if worker is not None else {}
    of_bucket = under(stored.config, stored.worker if worker is None else {})
    config = {**of_bucket, **pairs(overrides)}
    masked = [Problem(key, MASK, NOT_STORED, _give(key)) for key, text in config.items() if MASK in text]
    refused = refused_of_stored({key: text for key, text in of_bucket.items() if key not in pairs(overrides)})
    if problems := [*masked, *refused]:
        raise ConfigError(problems)
    checked = validate(config, worker=operators)
    if checked.problems:
        return checked
    settings, folder = checked.settings, target.folder
    for key, meant in (("name", target.name), ("s3.bucket.name", folder.bucket), ("state.prefix", folder.prefix)):
        if settings.text(key).strip("/") != meant.strip("/"):
            rule = f"is not that of the stored configuration's own place, {folder}{target.name}/."
            raise usage_error(key, settings.text(key), rule, "Store it again with kafka-s3 create CONFIG.")
    if "store.url" not in settings.pending:
        _check_store(settings.text("store.url"), folder.endpoint)
    return checked


def _check_store(url: str, endpoint: str) -> None:
    """Raises ConfigError where a stored configuration would send this machine's signed requests to another store than it lies in."""
    meant = url if not url or "://" in url else f"https://{url}"
    if meant.rstrip("/") != endpoint.rstrip("/"):
        rule = f"is not the store that the configuration lies in, {endpoint or 'AWS'}."
        raise usage_error(
            "store.url", url, rule, "Name the store with --store-url, or one of them with --set store.url=..."
        )


def folder_options(folder: SinkFolder, options: StoreOptions) -> str:
    """The options of a command line that name a folder of state."""
    words = ["--bucket", folder.bucket]
    if options.endpoint_url:
        words += ["--store-url", options.endpoint_url]
    if options.region != REGION:
        words += ["--region", options.region]
    if folder.prefix != STATE_PREFIX:
        words += ["--state-prefix", folder.prefix]
    return shlex.join(words)


def _give(key: str) -> str:
    return f"Give it with --set {key}=${{env:NAME}}, or store a reference: kafka-s3 create CONFIG --replace."
