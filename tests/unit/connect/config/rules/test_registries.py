"""Which settings of the converters of AWS Glue and Apicurio are refused?"""

from __future__ import annotations

import pytest

from kafka_s3.connect.config.classes import OTHER_CONVERTERS
from kafka_s3.connect.config.validate import validate
from tests.support.memory_world import BASE

CONVERTERS = {
    "glue": "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter",
    "apicurio": "io.apicurio.registry.utils.converter.AvroConverter",
}
URL = {"apicurio.registry.url": "http://apicurio:8080/apis/registry/v3"}


def problems(registry: str, **more: str) -> list[str]:
    given = {f"value.converter.{key}": text for key, text in more.items()}
    found = validate({**BASE, "flush.size": "3", "value.converter": CONVERTERS[registry], **given})
    assert "canary" not in f"{found.problems} {found.warnings}"
    return [problem.key.removeprefix("value.converter.") for problem in found.problems]


def test_glue_wants_nothing_and_refuses_a_second_deserializer() -> None:
    assert problems("glue") == []
    assert problems("glue", region="eu-west-1", secondaryDeserializer="com.example.Own") == ["secondaryDeserializer"]


@pytest.mark.parametrize(("more", "refused"), [
    ({}, ["apicurio.registry.url"]),
    (URL, []),
    ({"apicurio.registry.url": "http://apicurio:8080"}, ["apicurio.registry.url"]),
    ({"apicurio.registry.url": "http://169.254.169.254/apis/registry/v3"}, ["apicurio.registry.url"]),
    ({**URL, "apicurio.registry.headers.enabled": "true"}, ["apicurio.registry.headers.enabled"]),
    ({**URL, "apicurio.registry.avro.encoding": "JSON"}, ["apicurio.registry.avro.encoding"]),
    ({**URL, "apicurio.registry.id-handler": "com.example.Own"}, ["apicurio.registry.id-handler"]),
    ({**URL, "apicurio.registry.use-id": "other"}, ["apicurio.registry.use-id"]),
    ({**URL, "apicurio.registry.fallback.artifact-id": "orders"}, ["apicurio.registry.fallback.artifact-id"]),
    ({**URL, "apicurio.registry.auth.username": "sink"}, ["apicurio.registry.url"]),
    ({**URL, "apicurio.auth.password": "canary"}, ["apicurio.registry.url"]),
    ({**URL, "apicurio.auth.username": "sink", "apicurio.auth.password": "canary"}, []),
    ({**URL, "apicurio.auth.service.token.endpoint": "https://login/token"}, ["apicurio.registry.url"]),
])  # fmt: skip
def test_apicurio_refuses_what_does_not_go_together(more: dict[str, str], refused: list[str]) -> None:
    assert problems("apicurio", **more) == refused


@pytest.mark.parametrize("java", [
    "com.amazonaws.services.schemaregistry.kafkaconnect.jsonschema.JsonSchemaConverter",
    "com.amazonaws.services.schemaregistry.kafkaconnect.protobuf.ProtobufSchemaConverter",
])  # fmt: skip
def test_glue_has_converters_for_its_three_languages(java: str) -> None:
    found = validate({
        **BASE, "flush.size": "3", "value.converter": java, "value.converter.region": "eu-west-1",
        "value.converter.schemaAutoRegistrationEnabled": "false", "value.converter.protobufMessageType": "DYNAMIC_MESSAGE",
    })  # fmt: skip
    assert found.problems == ()


@pytest.mark.parametrize("java", OTHER_CONVERTERS)
def test_a_converter_that_is_not_here_is_refused_with_what_to_do_instead(java: str) -> None:
    (problem,) = validate({**BASE, "flush.size": "3", "value.converter": java}).problems
    assert (problem.key, problem.remedy) == ("value.converter", OTHER_CONVERTERS[java])
