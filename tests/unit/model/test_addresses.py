"""No address that a configuration names leads to a cloud's metadata service: not as it is written, and not by a name."""

from __future__ import annotations

import socket
import warnings
from typing import Any, NamedTuple

import pycurl
import pytest
from botocore.exceptions import EndpointConnectionError

from kafka_s3.connect.config.validate import validate
from kafka_s3.connect.registry.client import RegistryClient
from kafka_s3.connect.registry.options import RegistryOptions
from kafka_s3.followers.notifications import Webhook
from kafka_s3.kafka.clients import TOKENS, Clients
from kafka_s3.model.addresses import ForbiddenAddress, careful_opener, check_url
from kafka_s3.model.errors import NotificationFailed, RegistryError, SourceError
from kafka_s3.store.connections import _opened
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import aws_client
from tests.support.memory_world import BASE

GLUE = {"value.converter": "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter"}
AVRO = {"value.converter": "io.confluent.connect.avro.AvroConverter"}
APICURIO = {"value.converter": "io.apicurio.registry.utils.converter.AvroConverter"}
SERVICE = "http://169.254.169.254/latest"


@pytest.mark.parametrize("spelt", [SERVICE, "http://0xa9fea9fe/", "http://metadata.google.internal/x"])
@pytest.mark.parametrize(
    ("key", "beside"),
    [
        ("store.url", {}),
        ("s3.proxy.url", {}),
        ("aws.endpoint.url", {"glue.database.name": "lake"}),
        ("notification.target", {"notification.class": "webhook"}),
        ("notification.target", {"notification.class": "sqs"}),
        ("value.converter.schema.registry.url", AVRO),
        ("value.converter.endpoint", {**GLUE, "value.converter.region": "eu-central-1"}),
        ("value.converter.proxyUrl", {**GLUE, "value.converter.region": "eu-central-1"}),
        ("value.converter.apicurio.registry.url", APICURIO),
        ("value.converter.apicurio.auth.service.token.endpoint", APICURIO),
    ],
)
def test_a_metadata_service_is_refused_under_every_key_that_takes_an_address(
    key: str, beside: dict[str, str], spelt: str
) -> None:
    if key.endswith("apicurio.registry.url"):
        spelt = f"{spelt.rstrip('/')}/apis/registry/v3"
    given = {name: text for name, text in BASE.items() if not name.startswith("value.converter")} if beside else BASE
    found = validate({**given, "value.converter": BASE["value.converter"], **beside, key: spelt}).problems
    assert any(one.key == key and "metadata service" in one.rule for one in found), found


def test_a_worker_file_names_no_metadata_service_for_tokens() -> None:
    key = f"consumer.override.{TOKENS}"
    found = validate(BASE, worker={key: "https://169.254.169.254/token"}).problems
    assert any(one.key == key and "metadata service" in one.rule for one in found), found


@pytest.fixture
def rebound(monkeypatch: pytest.MonkeyPatch) -> str:
    """A harmless name that leads to a metadata service."""
    lookup = socket.getaddrinfo

    def found(host: Any, *given: Any, **more: Any) -> Any:
        return lookup("169.254.169.254" if host == "harmless.example" else host, *given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    return "http://harmless.example"


def test_a_name_that_leads_to_one_is_refused_before_anything_is_sent(rebound: str) -> None:
    with pytest.raises(ForbiddenAddress, match=r"harmless\.example leads to 169\.254\.169\.254"):
        check_url(rebound)
    with pytest.raises(OSError, match="link-local"):
        careful_opener().open(rebound, timeout=5)
    with pytest.raises(NotificationFailed):
        Webhook(rebound).send({})


def test_a_name_that_nobody_knows_is_what_the_client_says_of_it() -> None:
    check_url("http://nobody.invalid")


@pytest.mark.parametrize(
    ("service", "call"),
    [("glue", "get_databases"), ("sns", "list_topics"), ("sqs", "list_queues"), ("s3", "list_buckets")],
)
def test_aws_services_are_not_asked_at_such_a_name(
    service: str, call: str, rebound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SK")
    client = aws_client(service, StoreOptions("bucket", region="eu-central-1"), rebound)
    with pytest.raises(EndpointConnectionError, match="leads to 169"):
        getattr(client, call)()


def test_a_registry_is_not_asked_at_such_a_name(rebound: str) -> None:
    registry = RegistryClient(RegistryOptions((rebound,)))
    with pytest.raises(RegistryError, match="leads to 169"):
        registry.by_id(1)


def test_no_token_is_asked_for_at_such_a_name(rebound: str) -> None:
    clients = Clients(
        "localhost:1", {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_PLAINTEXT", TOKENS: rebound}
    )
    with pytest.raises(SourceError, match=r"leads to 169.*token\.endpoint"):
        clients.admin()


class Place(NamedTuple):
    family: int
    socktype: int
    protocol: int
    addr: tuple[str, int]


def test_libcurl_opens_no_socket_to_such_an_address() -> None:
    assert _opened(0, Place(socket.AF_INET, socket.SOCK_STREAM, 0, ("169.254.169.254", 80))) == pycurl.SOCKET_BAD
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        opened = _opened(0, Place(socket.AF_INET, socket.SOCK_STREAM, 0, ("10.0.0.1", 80)))
        assert opened.fileno() >= 0
        del opened
    assert not said, "each connection would leave a ResourceWarning"
