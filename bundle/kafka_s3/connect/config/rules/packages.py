"""Reports the optional packages that a configuration needs and that this environment lacks, each with the command that installs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Final

from kafka_s3.connect.config.classes import PARTITIONERS
from kafka_s3.connect.config.jaas import IAM_MECHANISM
from kafka_s3.connect.config.options.client import CONSUMER
from kafka_s3.connect.config.rules import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import Problem

CATALOG_TYPE: Final = "iceberg.catalog.type"
CATALOG_URI: Final = "iceberg.catalog.uri"
PORT: Final = "metrics.prometheus.port"
OTLP: Final = "metrics.otlp.enable"
PROTOBUF: Final = ("protobuf", "glue_protobuf")
PROVIDER: Final = "s3.credentials.provider.class"
MECHANISM: Final = f"{CONSUMER}sasl.mechanism"


@dataclass(frozen=True, slots=True)
class OptionalPackage:
    """A package that some configurations need.

    `module` is imported when it is there, `reads` are the keys that decide, and `key_of` returns the one that needs the package.
    """

    name: str
    module: str
    source: str
    reads: tuple[str, ...]
    key_of: Callable[[Settings], str | None]


def _delta_by_rust(settings: Settings) -> str | None:
    by_rust = settings.text("delta.writer") == "delta-rs"
    return "delta.enable" if settings.flag("delta.enable") and by_rust else None


def delta_by_spark(settings: Settings) -> str | None:
    """Return the key by which the sink's own Spark needs Delta, None when it does not."""
    if settings.flag("delta.enable"):
        if settings.text("delta.writer") == "spark":
            return "delta.writer"
        if settings.text("delta.table.name"):
            return "delta.table.name"
    keeps_state = settings.flag("state.enable") and settings.text("state.run.on") == "sink"
    return "state.enable" if keeps_state and settings.text("state.table.format") == "delta" else None


def _iceberg(settings: Settings) -> str | None:
    return "iceberg.enable" if settings.flag("iceberg.enable") else None


def _hive(settings: Settings) -> str | None:
    return CATALOG_TYPE if _iceberg(settings) and settings.text(CATALOG_TYPE) == "hive" else None


def _protobuf(settings: Settings) -> str | None:
    if settings.text("value.converter") in PROTOBUF:
        return "value.converter"
    reads_keys = settings.flag("store.kafka.keys") or settings.strict or settings.names("transforms")
    by_plugin = settings.text("partitioner.class") not in PARTITIONERS.values()
    is_read = reads_keys or by_plugin or settings.text("partitioner.class") == "key"
    return "key.converter" if is_read and settings.text("key.converter") in PROTOBUF else None


def _msk(settings: Settings) -> str | None:
    return MECHANISM if settings.text(MECHANISM) == IAM_MECHANISM else None


def _databricks(settings: Settings) -> str | None:
    return PROVIDER if settings.text(PROVIDER) == "service_credential" else None


def _prometheus(settings: Settings) -> str | None:
    return PORT if settings.number(PORT) else None


def _otlp(settings: Settings) -> str | None:
    return OTLP if settings.flag(OTLP) else None


_SPARK_TABLES: Final = (
    "delta.enable",
    "delta.writer",
    "delta.table.name",
    "state.enable",
    "state.run.on",
    "state.table.format",
)
_CONVERTERS: Final = (
    "value.converter",
    "key.converter",
    "store.kafka.keys",
    "compatibility.strict",
    "transforms",
    "partitioner.class",
)
PACKAGES: Final = (
    OptionalPackage("deltalake", "deltalake", "kafka-s3[delta]", ("delta.enable", "delta.writer"), _delta_by_rust),
    OptionalPackage("delta-spark", "delta", "kafka-s3[delta]", _SPARK_TABLES, delta_by_spark),
    OptionalPackage("pyiceberg", "pyiceberg", "kafka-s3[iceberg]", ("iceberg.enable",), _iceberg),
    OptionalPackage("thrift", "thrift", "pyiceberg[hive]", ("iceberg.enable", CATALOG_TYPE), _hive),
    OptionalPackage("grpcio-tools", "grpc_tools", "kafka-s3[protobuf]", _CONVERTERS, _protobuf),
    OptionalPackage("aws-msk-iam-sasl-signer-python", "aws_msk_iam_sasl_signer", "kafka-s3[msk]", (MECHANISM,), _msk),
    OptionalPackage("databricks-sdk", "databricks.sdk", "kafka-s3[databricks]", (PROVIDER,), _databricks),
    OptionalPackage("prometheus-client", "prometheus_client", "kafka-s3[metrics]", (PORT,), _prometheus),
    OptionalPackage(
        "opentelemetry-exporter-otlp-proto-http",
        "opentelemetry.exporter.otlp.proto.http",
        "kafka-s3[otlp]",
        (OTLP,),
        _otlp,
    ),
)


def is_installed(module: str) -> bool:
    """Return whether a module can be imported here. Imports the packages above it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


def _is_missing(package: OptionalPackage, settings: Settings) -> Iterator[Problem]:
    key = package.key_of(settings)
    if key is not None and not is_installed(package.module):
        yield problem(key, f"needs the package {package.name}.", f"pip install '{package.source}'")


def _driver_is_missing(settings: Settings) -> Iterator[Problem]:
    """Report the database driver of a SQL catalog, which the address names, when SQLAlchemy cannot import it."""
    uri = settings.text(CATALOG_URI)
    if not _iceberg(settings) or settings.text(CATALOG_TYPE) != "sql" or not uri or not is_installed("sqlalchemy"):
        return
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        make_url(uri).get_dialect().import_dbapi()
    except ImportError as error:
        rule = f"needs the driver of that database, which cannot be imported: {error}."
        yield problem(CATALOG_URI, rule, "Install the driver's package, or name another driver: dialect+driver://host.")
    except ArgumentError as error:
        rule = f"is not an address of a database: {error}."
        yield problem(CATALOG_URI, rule, "For example postgresql+psycopg2://host/catalog.")


PROBLEMS: Final = (
    *(Rule(package.reads, partial(_is_missing, package)) for package in PACKAGES),
    Rule(("iceberg.enable", CATALOG_TYPE, CATALOG_URI), _driver_is_missing),
)
