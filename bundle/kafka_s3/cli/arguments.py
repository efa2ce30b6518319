"""Which arguments and options do several commands take? Each is defined here once, with its name and its help."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_s3.connect.config.options.ours import STATE_PREFIX
from kafka_s3.connect.config.read import pairs
from kafka_s3.connect.config.settings import REGION, Settings, masking
from kafka_s3.connect.config.validate import load, resolved
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.run.logs import mask_logs

if TYPE_CHECKING:
    from kafka_s3.run.wiring.sink_folder import SinkFolder

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

SinkNames = Annotated[
    list[str],
    typer.Argument(metavar="CONFIG|NAME...", help="Sinks' configuration files, or their names with --bucket."),
]


class OutputFormat(StrEnum):
    """What a command prints."""

    TABLE = "table"
    JSON = "json"


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
        from kafka_s3.run.wiring.sink_folder import named_folder  # loads the S3 client

        return named_folder(
            self.bucket,
            self.prefix,
            region=self.region,
            store_url=self.store_url,
            service_credential=self.service_credential,
        )


TopicName = Annotated[str, typer.Argument(help="The topic.")]
PartitionNumber = Annotated[int, typer.Argument(min=0, help="The partition.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait for the running sink's answer.")]
Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="For people, or for programs.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen and change nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Also where a driver committed lately; it is fenced, and stops.")]


def time_of(option: str, text: str) -> datetime:
    """The time that an option names, UTC where it does not say otherwise. Raises ConfigError for what is no time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        problem = Problem(option, text, "is not a time.", "Write 2025-01-31 or 2025-01-31T10:00:00Z.")
        raise ConfigError([problem]) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def settings_of(config: ConfigPath, worker: WorkerPath = None, overrides: Overrides = None) -> Settings:
    """The checked settings of a configuration file, references resolved. Raises ConfigError with every problem of it."""
    return unlogged(resolved(load(config, worker_path=worker, overrides=pairs(overrides))))


def unlogged(settings: Settings) -> Settings:
    """The settings, whose secrets no line of the log shows from now on."""
    mask_logs(masking(settings))
    return settings
