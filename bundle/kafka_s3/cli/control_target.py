"""Which sink is meant on the command line: that of a configuration file, or a name in a bucket?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from kafka_s3.cli.validate import pairs
from kafka_s3.config.settings import Settings
from kafka_s3.config.validate import load
from kafka_s3.errors import ConfigError, Problem
from kafka_s3.heartbeat import Heartbeat, read_heartbeat
from kafka_s3.naming import StatePaths
from kafka_s3.sinks_in_bucket import is_known, sink_names
from kafka_s3.storage.options import StoreOptions, store_options
from kafka_s3.storage.s3 import S3Store
from kafka_s3.storage.store import ObjectStore

SinkName = Annotated[
    str, typer.Argument(metavar="CONFIG|NAME", help="A sink's configuration file, or its name with --bucket.")
]
BucketName = Annotated[
    str | None, typer.Option("--bucket", envvar="KAFKA_S3_BUCKET", help="The bucket, where no configuration names it.")
]
StoreUrl = Annotated[
    str | None, typer.Option("--store-url", envvar="KAFKA_S3_STORE_URL", help="Address of an S3-compatible service.")
]
Region = Annotated[str, typer.Option("--region", envvar="KAFKA_S3_REGION", help="The bucket's region.")]
Prefix = Annotated[str, typer.Option("--state-prefix", help="Folder of the sinks' state in the bucket.")]
REGION: Final = StoreOptions("").region


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket, and the folder in it that holds the sinks' state."""

    bucket: str
    prefix: str
    store: ObjectStore

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix.strip('/')}/"


@dataclass(frozen=True, slots=True)
class Target:
    """One sink in a place."""

    place: Place
    name: str

    @property
    def paths(self) -> StatePaths:
        """Where its state lies."""
        return StatePaths(self.place.prefix, self.name)

    @property
    def store(self) -> ObjectStore:
        """The bucket."""
        return self.place.store

    def heartbeat(self) -> Heartbeat | None:
        """Its last heartbeat."""
        return read_heartbeat(self.store, self.paths)


def place_of(settings: Settings) -> Place:
    """The bucket and state folder of resolved settings."""
    options = store_options(settings)
    return Place(options.bucket, settings.text("state.prefix"), S3Store(options))


def target_of(
    sink: str,
    worker: Path | None,
    *,
    overrides: list[str] | None,
    bucket: str | None,
    store_url: str | None,
    region: str,
    prefix: str,
) -> Target:
    """The sink of a configuration file, or of a name. Raises ConfigError where the bucket holds nothing of it."""
    if sink.endswith((".json", ".properties")) or Path(sink).is_file():
        settings = load(Path(sink), worker_path=worker, overrides=pairs(overrides)).resolved()
        target = Target(place_of(settings), settings.name)
    else:
        target = Target(named_place(bucket, store_url, region=region, prefix=prefix), sink)
    if not is_known(target.store, target.paths):
        known = ", ".join(sink_names(target.store, target.place.prefix))
        way_out = f"Sinks there: {known}." if known else "There is no sink. Run one, or store one with kafka-s3 create."
        raise ConfigError([Problem("sink", target.name, f"has no state in {target.place}.", way_out)])
    return target


def named_place(bucket: str | None, store_url: str | None, *, region: str, prefix: str) -> Place:
    """A bucket without a configuration: credentials are those of the surroundings. Raises ConfigError without a name."""
    if not bucket:
        raise ConfigError([Problem("--bucket", None, "is needed without a configuration file.", "Or name the file.")])
    url = store_url if not store_url or "://" in store_url else f"https://{store_url}"
    return Place(bucket, prefix, S3Store(StoreOptions(bucket, region=region, endpoint_url=url or None)))
