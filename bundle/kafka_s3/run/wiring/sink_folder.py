"""In which bucket, and in which folder of it, do sinks keep their state? As a configuration says it, or as it is named without one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kafka_s3 import __version__
from kafka_s3.connect.config.options.ours import STATE_PREFIX
from kafka_s3.connect.config.read import is_setting
from kafka_s3.connect.config.settings import REGION, Settings
from kafka_s3.engine.control.status import is_known, sink_names
from kafka_s3.engine.control.stored_settings import StoredConfig, plain_secrets
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.credentials import Credentials, Provider
from kafka_s3.store.options import StoreOptions, quick
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore

TRIES: Final = 2
"""One request that fails is no outage."""


@dataclass(frozen=True, slots=True)
class SinkFolder:
    """A bucket, and the folder in it that holds the sinks' state."""

    bucket: str
    prefix: str
    store: ObjectStore
    endpoint: str = ""
    """The address of the store, blank for AWS."""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix.strip('/')}/"

    def paths(self, sink: str) -> StatePaths:
        """Where the state of a sink lies."""
        return StatePaths(self.prefix, sink)

    def known(self, sink: str) -> StatePaths:
        """Where the state of a sink lies. Raises ConfigError where the bucket holds nothing of it."""
        paths = self.paths(sink)
        if not is_known(self.store, paths):
            names = ", ".join(sink_names(self.store, self.prefix))
            remedy = (
                f"Sinks there: {names}." if names else "There is no sink. Run one, or store one with kafka-s3 create."
            )
            raise ConfigError([Problem("sink", sink, f"has no state in {self}.", remedy)])
        return paths


def folder_of(settings: Settings) -> SinkFolder:
    """The bucket and state folder of resolved settings, for looks at the state: nobody waits long for a bucket that does not answer."""
    options = quick(store_options(settings), tries=TRIES)
    return SinkFolder(options.bucket, settings.text("state.prefix"), S3Store(options), options.endpoint_url or "")


def stored_config(settings: Settings, *, now_ms: int) -> StoredConfig:
    """The form in which unresolved settings may be stored. Raises ConfigError with every secret that is not a reference."""
    worker = {key: text for key, text in settings.worker.items() if is_setting(key)}
    problems = [*plain_secrets(settings.source), *plain_secrets(worker)]
    if problems:
        raise ConfigError(problems)
    at = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return StoredConfig(settings.name, at, __version__, dict(settings.source), worker)


def named_folder(
    bucket: str | None,
    prefix: str = STATE_PREFIX,
    *,
    region: str = REGION,
    store_url: str | None = None,
    service_credential: str | None = None,
) -> SinkFolder:
    """A bucket without a configuration: credentials are those of the surroundings, or of a service credential of Unity Catalog.

    Raises ConfigError without a name.
    """
    if not bucket:
        raise ConfigError([Problem("--bucket", None, "is needed without a configuration file.", "Or name the file.")])
    url = store_url if not store_url or "://" in store_url else f"https://{store_url}"
    by_name = Credentials(Provider.SERVICE_CREDENTIAL, service_credential=service_credential or "")
    credentials = by_name if service_credential else Credentials()
    options = StoreOptions(bucket, region=region, endpoint_url=url or None, credentials=credentials)
    return SinkFolder(bucket, prefix, S3Store(quick(options, tries=TRIES)), url or "")
