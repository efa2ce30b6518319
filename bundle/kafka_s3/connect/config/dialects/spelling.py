"""In which of the three spellings is a configuration, and what does it say in self-managed keys?"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from kafka_s3.connect.config.classes import BLOCK_GZIP_PACKAGES, MANAGED_CLOUD
from kafka_s3.connect.config.dialects.block_gzip import block_gzip_translation
from kafka_s3.connect.config.dialects.managed_cloud import managed_cloud_translation
from kafka_s3.connect.config.dialects.spelled import SpelledConfig


class Dialect(StrEnum):
    """The spellings of a sink's configuration."""

    SELF_MANAGED = "self-managed"
    MANAGED_CLOUD = "managed cloud"
    BLOCK_GZIP = "Block-GZIP"


def dialect_of(texts: Mapping[str, str]) -> Dialect:
    """The spelling, told by the connector's class, or by keys that only Block-GZIP has."""
    connector = texts.get("connector.class", "").strip()
    if connector == MANAGED_CLOUD:
        return Dialect.MANAGED_CLOUD
    if connector.startswith(BLOCK_GZIP_PACKAGES) or {"s3.bucket", "local.buffer.dir"} <= texts.keys():
        return Dialect.BLOCK_GZIP
    return Dialect.SELF_MANAGED


def self_managed(texts: Mapping[str, str], worker: Mapping[str, str]) -> SpelledConfig:
    """The configuration in self-managed keys, with what only its own spelling shows. `worker` are the settings of `read_worker`."""
    match dialect_of(texts):
        case Dialect.MANAGED_CLOUD:
            return managed_cloud_translation(texts, worker)
        case Dialect.BLOCK_GZIP:
            return block_gzip_translation(texts)
        case _:
            return SpelledConfig(texts)
