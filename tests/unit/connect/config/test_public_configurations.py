"""Configurations like those that people publish: each is taken as it stands, or refused for what the original refuses, too."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.public_configurations import CLOUD, FORMAT, MANAGED, OWN, REGISTRY, SELF_MANAGED, URL, checked

REFUSED: dict[str, tuple[Mapping[str, str], set[str]]] = {
    "a package that does not exist": ({"format.class": "io.confluent.connect.s3.json.JsonFormat"}, {"format.class"}),
    "all topics by a star": ({"topics": ".*"}, {"topics"}),
    "a bucket left to the reader": ({"s3.bucket.name": "<your bucket>"}, {"s3.bucket.name"}),
    "parquet of values without schema": ({"format.class": f"{FORMAT}parquet.ParquetFormat"}, {"value.converter.schemas.enable"}),
    "a partitioner of their own": ({"partitioner.class": "com.mycompany.connect.FlexiblePartitioner"}, {"partitioner.class"}),
    "a converter of their own": ({"value.converter": "jp.example.OwnJsonConverter"}, {"value.converter"}),
}  # fmt: skip
BARE = {"kafka.api.key": "", "kafka.api.secret": ""}
MANAGED_REFUSED: dict[str, tuple[Mapping[str, str], set[str], str]] = {
    "a service account whose login nobody named": (
        {"kafka.auth.mode": "SERVICE_ACCOUNT", "kafka.service.account.id": "sa-1", **BARE}, set(BARE), "in the file of --worker"),
    "Avro, with the registry of the platform": ({"input.data.format": "AVRO"}, {URL}, f"--set {URL}="),
    "JSON Schema, with the registry of the platform": ({"input.data.format": "JSON_SR"}, {URL}, f"--set {URL}="),
    "encrypted fields": ({"csfle.enabled": "true"}, {"csfle.enabled"}, "cannot be decrypted"),
    "schemas where records do not name them": (
        {"input.data.format": "AVRO", "value.converter.value.schema.id.deserializer": "PrefixSchemaIdDeserializer", **REGISTRY},
        {"value.converter.value.schema.id.deserializer"}, "header goes before"),
    "a filter by JSONPath": (
        {"transforms": "f", "transforms.f.type": "io.confluent.connect.transforms.Filter$Value"}, {"transforms.f.type"},
        "transforms.Filter with a predicate"),
    "the platform's own router": (
        {"transforms": "r", "transforms.r.type": "io.confluent.connect.cloud.transforms.TopicRegexRouter"}, {"transforms.r.type"},
        "RegexRouter"),
}  # fmt: skip


@pytest.mark.parametrize("name", SELF_MANAGED)
def test_a_self_managed_configuration_goes_in(name: str) -> None:
    given, warned = SELF_MANAGED[name]
    found = checked(OWN, given)
    assert found.problems == ()
    assert {warning.key for warning in found.warnings} == warned


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_original_refuses_is_refused_with_the_key(name: str) -> None:
    given, keys = REFUSED[name]
    assert {problem.key for problem in checked(OWN, given).problems} == keys


@pytest.mark.parametrize("name", MANAGED)
def test_a_managed_configuration_goes_in_with_what_the_platform_knows_named_by_the_worker(name: str) -> None:
    given, worker, warned = MANAGED[name]
    found = checked(CLOUD, given, worker)
    assert found.problems == ()
    assert {warning.key for warning in found.warnings} == warned


@pytest.mark.parametrize("name", MANAGED_REFUSED)
def test_what_only_the_platform_can_do_is_refused_with_the_way_out(name: str) -> None:
    given, keys, reported = MANAGED_REFUSED[name]
    problems = checked(CLOUD, given).problems
    assert {problem.key for problem in problems} == keys
    assert all(reported in f"{problem.rule} {problem.remedy}" for problem in problems)
