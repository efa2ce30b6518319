"""Which sink is meant on the command line: that of a configuration file, or a name in a bucket?"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_s3.cli.arguments import Overrides, SinkName, Where, WorkerPath, settings_of, unlogged
from kafka_s3.cli.composed import composed
from kafka_s3.connect.config.options.ours import STATE_PREFIX
from kafka_s3.connect.config.read import CONFIGURATIONS, pairs, read_worker, under
from kafka_s3.connect.config.references import refused_of_stored
from kafka_s3.connect.config.settings import REGION, Settings
from kafka_s3.connect.config.validate import CheckedConfig, check_file, resolved, validate
from kafka_s3.engine.control.commands import read_stored_config
from kafka_s3.engine.control.heartbeat import Heartbeat, read_heartbeat
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.text import MASK

if TYPE_CHECKING:
    from kafka_s3.run.wiring.sink_folder import SinkFolder
    from kafka_s3.store.options import StoreOptions
    from kafka_s3.store.store import ObjectStore

NOT_STORED: Final = "is masked in the stored configuration, so the secret is not there."


@dataclass(frozen=True, slots=True)
class Target:
    """One sink in a place."""

    place: SinkFolder
    name: str
    given: str = ""
    """How the user named it: the file, or the name."""

    @property
    def paths(self) -> StatePaths:
        """Where its state lies."""
        return self.place.paths(self.name)

    @property
    def store(self) -> ObjectStore:
        """The bucket."""
        return self.place.store

    def heartbeat(self) -> Heartbeat | None:
        """Its last heartbeat."""
        return read_heartbeat(self.store, self.paths)


def is_file(sink: str) -> bool:
    """Whether a configuration file is meant, and not a sink's name."""
    return sink.endswith(CONFIGURATIONS) or Path(sink).is_file()


@composed(where=Where)
def named_target(sink: SinkName, where: Where, worker: WorkerPath = None, overrides: Overrides = None) -> Target:
    """The sink of a configuration file, or of a name, whether or not the bucket holds anything of it."""
    if is_file(sink):
        from kafka_s3.run.wiring.sink_folder import folder_of  # loads the S3 client

        settings = settings_of(Path(sink), worker, overrides)
        return Target(folder_of(settings), settings.name, sink)
    return Target(where.folder(), sink, sink)


@composed(target=named_target)
def target_of(target: Target) -> Target:
    """The sink of a configuration file, or of a name. Raises ConfigError where the bucket holds nothing of it."""
    target.place.known(target.name)
    return target


@composed(where=Where)
def sink_settings(sink: SinkName, where: Where, worker: WorkerPath = None, overrides: Overrides = None) -> Settings:
    """The checked settings of a file, or of the configuration that is stored by a name; references resolved. Raises ConfigError."""
    checked = sink_config(sink, where, worker, overrides)
    return unlogged(resolved(checked.usable()))


def sink_config(sink: str, where: Where, worker: Path | None, overrides: list[str] | None) -> CheckedConfig:
    """What a file says, or the configuration that is stored by a name, with what is wrong with it. Raises ConfigError without either."""
    if is_file(sink):
        return check_file(Path(sink), worker_path=worker, overrides=pairs(overrides))
    return stored_config_of(Target(where.folder(), sink), overrides, worker)


def stored_config_of(target: Target, overrides: list[str] | None, worker: Path | None = None) -> CheckedConfig:
    """A sink's stored configuration, references unresolved. `overrides` win over it, and a worker file over its worker's settings.

    Whoever may write to the bucket has written it: its worker's settings may name no more than a connector's author, and its references
    are looked up only where this machine's operator allows it. Raises ConfigError there, where it has none, where a secret in it is only
    a mask, and where it belongs to another sink or bucket.
    """
    stored = read_stored_config(target.store, target.paths)
    if stored is None:
        rule = f"has no stored configuration in {target.place}{target.name}/."
        raise ConfigError([Problem("sink", target.name, rule, "Store one with kafka-s3 create, or name its file.")])
    operators = read_worker(worker).texts if worker is not None else {}
    of_bucket = under(stored.config, stored.worker if worker is None else {})
    config = {**of_bucket, **pairs(overrides)}
    masked = [Problem(key, MASK, NOT_STORED, _give(key)) for key, text in config.items() if MASK in text]
    refused = refused_of_stored({key: text for key, text in of_bucket.items() if key not in pairs(overrides)})
    if problems := [*masked, *refused]:
        raise ConfigError(problems)
    checked = validate(config, worker=operators)
    settings = checked.settings
    for key, meant in (
        ()
        if checked.problems
        else (
            ("name", target.name),
            ("s3.bucket.name", target.place.bucket),
            ("state.prefix", target.place.prefix),
        )
    ):
        if settings.text(key).strip("/") != meant.strip("/"):
            rule = f"is not that of the stored configuration's own place, {target.place}{target.name}/."
            raise ConfigError([Problem(key, settings.text(key), rule, "Store it again with kafka-s3 create CONFIG.")])
    if not checked.problems and "store.url" not in settings.pending:
        _check_store(settings.text("store.url"), target.place.endpoint)
    return checked


def _check_store(url: str, endpoint: str) -> None:
    """Raises ConfigError where a stored configuration would send this machine's signed requests to another store than it lies in."""
    meant = url if not url or "://" in url else f"https://{url}"
    if meant.rstrip("/") != endpoint.rstrip("/"):
        rule = f"is not the store that the configuration lies in, {endpoint or 'AWS'}."
        raise ConfigError(
            [
                Problem(
                    "store.url", url, rule, "Name the store with --store-url, or one of them with --set store.url=..."
                )
            ]
        )


def place_words(place: SinkFolder, options: StoreOptions) -> str:
    """The options of a command line that name a place."""
    words = ["--bucket", place.bucket]
    if options.endpoint_url:
        words += ["--store-url", options.endpoint_url]
    if options.region != REGION:
        words += ["--region", options.region]
    if place.prefix != STATE_PREFIX:
        words += ["--state-prefix", place.prefix]
    return shlex.join(words)


def _give(key: str) -> str:
    return f"Give it with --set {key}=${{env:NAME}}, or store a reference: kafka-s3 create CONFIG --replace."
