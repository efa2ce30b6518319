"""Kafka topics to S3 objects on Spark, exactly once, with the objects of the Kafka Connect S3 sinks.

The names in `__all__` are the public ones. What each is for, what else semantic versioning covers, and how names go away:
docs/versions.md. Every other name of the package may change with any version. A name is imported when it is first asked for, so that
`import kafka_s3` costs nothing; type checkers read the names in `__init__.pyi`.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0.dev0"

_PUBLIC = {
    "connect.config.option": ("InvalidValue", "OneOf", "Option", "Range", "Type"),
    "connect.config.plugins": ("options",),
    "connect.config.read": ("read_config",),
    "connect.config.settings": ("Settings",),
    "connect.config.transforms": ("Configured",),
    "connect.records.runs": ("Run",),
    "connect.records.values": ("Longs", "Values"),
    "connect.transforms.record": ("ConnectRecord", "Header", "Predicate", "Refused", "Transform"),
    "engine.task.partitioning.partitioners": ("Encoded", "Partitioner", "encoded_each"),
    "model.errors": ("ConfigError", "RecordError", "SinkError"),
    "model.offsets": ("TopicPartition",),
    "objects.format": ("Encoder", "Format", "Keeping", "Pausing"),
    "objects.text": ("TextStream",),
    "spark": ("KafkaS3", "read_committed"),
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _PUBLIC.items() for name in names}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    """A public name, from the module that holds it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """What `dir(kafka_s3)` shows: the public names."""
    return sorted(__all__)
