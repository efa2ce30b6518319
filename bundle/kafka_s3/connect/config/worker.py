"""What does Connect's worker file say about a sink? Its clients and converters; the rest is about the worker itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafka_s3.connect.config.config_file import ConfigFile
from kafka_s3.connect.config.read import read_config
from kafka_s3.connect.config.valid_values import did_you_mean

CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
TAKEN: Final = ("bootstrap.servers", "offset.flush.interval.ms", "offset.flush.timeout.ms", *CONVERTERS)
SECURITY: Final = ("security.protocol", "sasl.", "ssl.")
IGNORED: Final = (
    "group.id", "client.id", "client.dns.lookup", "listeners", "plugin.path", "plugin.discovery", "connect.protocol",
    "connector.client.config.override.policy", "task.shutdown.graceful.timeout.ms", "session.timeout.ms", "heartbeat.interval.ms",
    "rebalance.timeout.ms", "scheduled.rebalance.max.delay.ms", "exactly.once.source.support", "request.timeout.ms",
    "retry.backoff.ms", "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "receive.buffer.bytes",
    "send.buffer.bytes", "connections.max.idle.ms", "header.converter.type", "response.http.headers.config", "cluster",
)  # fmt: skip
IGNORED_PREFIXES: Final = (
    "rest.", "admin.", "producer.", "config.storage.", "offset.storage.", "status.storage.", "config.providers", "internal.",
    "inter.worker.", "topic.creation.", "topic.tracking.", "access.control.", "metric.", "metrics.", "metadata.", "worker.",
    "socket.", "confluent.", "listeners.", "security.providers", "ssl.client.auth", "ssl.principal.mapping.rules",
)  # fmt: skip


def read_worker(path: Path) -> ConfigFile:
    """The part of a worker file that matters to a sink, by the connector's own keys; unknown keys stay as they are, to be warned of.

    `bootstrap.servers` becomes `kafka.bootstrap.servers`; `consumer.x` becomes `consumer.override.x`, and so do the worker's
    own security settings where the consumer has none. Raises ConfigError as `read_config` does.
    """
    given = read_config(path)
    taken = {key: value for key, value in given.texts.items() if not ignored(key)}
    security = {f"consumer.override.{key}": taken.pop(key) for key in list(taken) if key.startswith(SECURITY)}
    consumer = {
        f"consumer.override.{key.removeprefix('consumer.')}": taken.pop(key)
        for key in list(taken)
        if key.startswith("consumer.") and not key.startswith("consumer.override.")
    }
    if "bootstrap.servers" in taken:
        taken["kafka.bootstrap.servers"] = taken.pop("bootstrap.servers")
    return ConfigFile({**security, **consumer, **taken}, given.warnings)


def ignored(key: str) -> bool:
    """Whether a worker key is known to be without meaning for a sink."""
    return key in IGNORED or key.startswith(IGNORED_PREFIXES)


def is_setting(key: str) -> bool:
    """Whether a key of `read_worker` is a setting of the sink; another one is unknown."""
    return (
        key == "kafka.bootstrap.servers"
        or key in TAKEN
        or key.startswith(("consumer.override.", *(f"{c}." for c in CONVERTERS)))
    )


def remedy_for(key: str) -> str:
    """What an unknown worker key may have been meant to be."""
    return did_you_mean(key, (*TAKEN, *IGNORED))


def under(connector: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """The connector's settings with the worker's as defaults. Who names a converter gets none of the worker's settings of it."""
    own = {converter for converter in CONVERTERS if converter in connector}
    defaults = {
        key: value
        for key, value in worker.items()
        if is_setting(key) and not any(key == converter or key.startswith(f"{converter}.") for converter in own)
    }
    return {**defaults, **connector}
