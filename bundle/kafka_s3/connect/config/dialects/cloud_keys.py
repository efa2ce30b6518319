"""Which self-managed keys does each key of the managed cloud spelling stand for? (SEMANTICS A1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_s3.connect.config.option import OptionStatus
from kafka_s3.connect.config.options.client import CONSUMER
from kafka_s3.connect.config.options.table import CLOUD

JAAS: Final = f"{CONSUMER}sasl.jaas.config"
BROKERS: Final = "kafka.bootstrap.servers"
AFFECTS: Final[Mapping[str, tuple[str, ...]]] = {
    **{key: () for key, row in CLOUD.items() if row.status is not OptionStatus.ACTED_ON},
    "kafka.auth.mode": (),
    "authentication.method": (),
    "kafka.api.key": (JAAS,),
    "kafka.api.secret": (JAAS,),
    "kafka.endpoint": (BROKERS,),
    "input.data.format": ("value.converter", "value.converter.schemas.enable"),
    "input.key.format": ("key.converter", "key.converter.schemas.enable"),
    "output.data.format": ("format.class",),
    "output.keys.format": ("keys.format.class",),
    "output.headers.format": ("headers.format.class",),
    "compression.codec": ("s3.compression.type", "avro.codec"),
    "time.interval": ("partition.duration.ms", "path.format", "rotate.interval.ms"),
    "timestamp.field": ("timestamp.extractor", "timestamp.field"),
    "subject.name.strategy": ("value.converter.value.subject.name.strategy", "key.converter.key.subject.name.strategy"),
    "value.subject.name.strategy": ("value.converter.value.subject.name.strategy",),
    "key.subject.name.strategy": ("key.converter.key.subject.name.strategy",),
    "max.poll.records": (f"{CONSUMER}max.poll.records",),
    "max.poll.interval.ms": (f"{CONSUMER}max.poll.interval.ms",),
}
"""Which self-managed keys a cloud key stands for, where it is not the one of the same name."""
REPLACED: Final = {
    "format.class": "output.data.format",
    "value.converter": "input.data.format",
    "partition.duration.ms": "time.interval",
    "timestamp.extractor": "timestamp.field",
    "s3.compression.type": "compression.codec",
    "avro.codec": "compression.codec",
}
"""Self-managed keys that the managed cloud spelling does not have, and what it has instead."""
SAME: Final = ("subject.name.strategy", "value.subject.name.strategy", "key.subject.name.strategy", "max.poll.records",
                "max.poll.interval.ms")  # fmt: skip
"""Cloud keys whose value is that of the keys they stand for; a later one wins."""
OF_REGISTRY: Final = ("schema.registry.", "basic.auth.", "bearer.auth.")
"""How the names of a converter's settings begin that say which registry, and how it knows us."""


def translations(key: str) -> tuple[str, ...]:
    """The self-managed keys that take a key's value; those of the registry go to keys as well as to values."""
    prefix = "value.converter."
    if key.startswith(tuple(prefix + name for name in OF_REGISTRY)):
        return (key.replace(prefix, "key.converter.", 1),)
    return AFFECTS.get(key, ())
