"""What does the doctor find of a schema registry?"""

from __future__ import annotations

import json

from kafka_s3.cli.doctor import document
from kafka_s3.ops.doctor.findings import CheckStatus
from kafka_s3_testing.services.registry import EmbeddedRegistry
from tests.support.doctor import ROTATING, bad, diagnosed, of


def avro(url: str, **more: str) -> dict[str, str]:
    converter = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": url,
    }
    rest = {key: value for key, value in ROTATING.items() if not key.startswith("value.converter")}
    return {**rest, **converter, **{f"value.converter.{key}": value for key, value in more.items()}}


def test_a_registry_that_answers_is_ok_and_one_that_does_not_know_us_names_the_credentials() -> None:
    with EmbeddedRegistry(basic_auth="user:s3cr3t") as registry:
        known = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "user:s3cr3t"}
        assert bad(diagnosed(avro(registry.url, **known))) == {}
        unknown = diagnosed(avro(registry.url, **{**known, "basic.auth.user.info": "user:wr0ng"}))
    assert bad(unknown) == {f"value.converter at {registry.url}": CheckStatus.FAILED}
    assert "basic.auth.user.info" in str(of(unknown, "value.converter"))
    assert "wr0ng" not in document(unknown)


def test_a_registered_field_that_a_directory_hides_is_reported() -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": one, "type": "long"} for one in ("n", "Partition")],
    }
    with EmbeddedRegistry() as registry:
        registry.register("orders-value", json.dumps(schema))
        found = diagnosed(avro(registry.url))
    assert bad(found) == {"schema of orders": CheckStatus.WARNING}
    assert "has the field Partition, and objects lie in directories partition=" in str(of(found, "schema of orders"))
