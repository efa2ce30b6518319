"""Optional packages: a configuration that needs one which is not installed is refused with the command that installs it."""

from __future__ import annotations

import sys
import tomllib
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from kafka_s3.connect.config.rules.packages import PACKAGES
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.errors import ConfigError
from tests.support.memory_world import BASE
from tests.support.repository import ROOT

CONFIG = {**BASE, "value.converter.schemas.enable": "true", "flush.size": "10"}
PARQUET = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat"}
PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
REGISTRY = "converter.schema.registry.url"
VALUES = {"value.converter": PROTOBUF, f"value.{REGISTRY}": "http://registry:8081"}
KEYS = {"key.converter": PROTOBUF, f"key.{REGISTRY}": "http://registry:8081"}
ICEBERG = {**PARQUET, "iceberg.enable": "true"}
CATALOG = {"iceberg.catalog.type": "sql", "iceberg.catalog.uri": "sqlite:///catalog.db"}
STATE = {**PARQUET, "state.enable": "true", "state.table": "main.state", "state.key": "id", "state.delete.on": "op=d",
         "record.metadata.enable": "true"}  # fmt: skip
MSK = {
    "consumer.override.security.protocol": "SASL_SSL",
    "consumer.override.sasl.mechanism": "AWS_MSK_IAM",
    "consumer.override.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
}
NEEDS = [
    ("deltalake", {**PARQUET, "delta.enable": "true"}, "delta.enable", "kafka-s3[delta]"),
    (
        "delta",
        {**PARQUET, "delta.enable": "true", "delta.writer": "spark", "delta.table.name": "main.raw"},
        "delta.writer",
        "kafka-s3[delta]",
    ),
    ("delta", {**PARQUET, "delta.enable": "true", "delta.table.name": "a.b"}, "delta.table.name", "kafka-s3[delta]"),
    ("delta", STATE, "state.enable", "kafka-s3[delta]"),
    ("pyiceberg", {**ICEBERG, **CATALOG}, "iceberg.enable", "kafka-s3[iceberg]"),
    (
        "thrift",
        {**ICEBERG, "iceberg.catalog.type": "hive", "iceberg.catalog.uri": "thrift://metastore:9083"},
        "iceberg.catalog.type",
        "pyiceberg[hive]",
    ),
    ("grpc_tools", VALUES, "value.converter", "kafka-s3[protobuf]"),
    ("grpc_tools", {**KEYS, "store.kafka.keys": "true"}, "key.converter", "kafka-s3[protobuf]"),
    ("aws_msk_iam_sasl_signer", MSK, "consumer.override.sasl.mechanism", "kafka-s3[msk]"),
    (
        "databricks.sdk",
        {
            "s3.credentials.provider.class": "service_credential",
            "s3.credentials.provider.service.credential.name": "lake",
        },
        "s3.credentials.provider.class",
        "kafka-s3[databricks]",
    ),
    ("prometheus_client", {"metrics.prometheus.port": "9400"}, "metrics.prometheus.port", "kafka-s3[metrics]"),
    (
        "opentelemetry.exporter.otlp.proto.http",
        {"metrics.otlp.enable": "true"},
        "metrics.otlp.enable",
        "kafka-s3[otlp]",
    ),
]


@pytest.mark.parametrize(
    ("module", "changes", "key", "source"), NEEDS, ids=[f"{module}-{key}" for module, _, key, _ in NEEDS]
)
def test_a_package_that_is_missing_is_a_problem_of_the_key_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, module: str, changes: dict[str, str], key: str, source: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    [problem] = validate({**CONFIG, **changes}).problems
    assert problem.key == key
    assert problem.remedy == f"pip install '{source}'"
    assert not validate(CONFIG).problems

    there = ModuleType(module)
    there.__spec__ = ModuleSpec(module, None)
    monkeypatch.setitem(sys.modules, module, there)
    assert not validate({**CONFIG, **changes}).problems


def test_states_in_icebergs_tables_need_no_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "delta", None)
    assert not validate({**CONFIG, **STATE, "state.table.format": "iceberg"}).problems


def test_keys_that_nobody_reads_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    assert not validate({**CONFIG, **KEYS}).problems


def test_all_missing_packages_are_reported_together_with_other_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("grpc_tools", "prometheus_client"):
        monkeypatch.setitem(sys.modules, module, None)
    keys = [p.key for p in validate({**CONFIG, **VALUES, "metrics.prometheus.port": "9400", "topics": ""}).problems]
    assert {"value.converter", "metrics.prometheus.port", "topics"} <= set(keys)


def test_every_extra_that_an_option_can_need_is_checked() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    of_commands = {"spark", "dashboard", "local", "testing", "dev"}
    checked = {package.source.removeprefix("kafka-s3[").removesuffix("]") for package in PACKAGES}
    assert set(extras) - of_commands <= checked
    named = {requirement for extra in extras.values() for requirement in extra}
    for package in PACKAGES:
        assert package.name == "thrift" or any(text.startswith(package.name) for text in named)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("mysql+pymysql://host/catalog", "needs the driver of that database, which cannot be imported: No module named 'pymysql'"),
        ("postgres://user:geheim@host/catalog", "is not an address of a database: Can't load plugin"),
        ("catalog.db", "is not an address of a database: Could not parse"),
    ],
)  # fmt: skip
def test_a_sql_catalog_whose_driver_is_missing_is_refused_without_its_password(uri: str, words: str) -> None:
    [problem] = validate({**CONFIG, **ICEBERG, **CATALOG, "iceberg.catalog.uri": uri}).problems
    assert problem.key == "iceberg.catalog.uri"
    assert words in problem.rule
    assert "geheim" not in f"{problem.rule} {problem.remedy}"


def test_a_secret_of_the_workspace_names_the_package_that_looks_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", "https://workspace.invalid")
    monkeypatch.setitem(sys.modules, "databricks.sdk.errors", None)
    settings = validate({**CONFIG, "aws.secret.access.key": "${secrets:lake/key}", "aws.access.key.id": "id"}).usable()
    with pytest.raises(ConfigError) as refused:
        resolved(settings)
    assert "needs the package databricks-sdk: pip install 'kafka-s3[databricks]'" in str(refused.value)
