"""Do the translated security settings open a real broker: SCRAM and PLAIN over TLS, and client certificates, to librdkafka and to Spark?"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafka_s3.connect.config.read import read_worker
from kafka_s3.connect.config.validate import validate
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.clients import brokers_of
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.process import HOST, free_ports
from tests.support.bucket import Bucket
from tests.support.configurations import BASE
from tests.support.kafka import Given, document, group_offsets, produce
from tests.support.surroundings import Surroundings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.s3 import EmbeddedS3

MODULES = "org.apache.kafka.common.security."
PASSWORD = 'canary"\\pass'
QUOTED = '"canary\\"\\\\pass"'
TOPIC = "secured"


@dataclass(frozen=True)
class Secured:
    """A broker with a listener for passwords and one for certificates, both encrypted; `files` are PEM files."""

    kafka: EmbeddedKafka
    by_password: str
    by_certificate: str
    files: dict[str, Path]

    def text(self, name: str) -> str:
        return self.files[name].read_text()

    def config(self, way: str) -> dict[str, str]:
        """A connector's configuration that goes one of the ways, with all PEM texts in it."""
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.text("authority")}
        if way == "certificate":
            client = {
                "security.protocol": "SSL", **trust, "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": self.text("client"), "ssl.keystore.key": self.text("client-key"),
            }  # fmt: skip
        else:
            module = "plain.PlainLoginModule" if way == "PLAIN" else "scram.ScramLoginModule"
            client = {
                "security.protocol": "SASL_SSL", "sasl.mechanism": way, **trust,
                "sasl.jaas.config": f'{MODULES}{module} required username="ann" password={QUOTED};',
            }  # fmt: skip
        return {
            **BASE, "name": f"by-{way}", "topics": TOPIC, "flush.size": "2", "s3.bucket.name": "bucket",
            "kafka.bootstrap.servers": self.by_certificate if way == "certificate" else self.by_password,
            **{f"consumer.override.{name}": value for name, value in client.items()},
        }  # fmt: skip


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    files = certificates(tmp_path_factory.mktemp("certificates"))
    password, certificate = (f"{HOST}:{port}" for port in free_ports(2))
    settings = {
        "listeners": f"PASSWORDS://{password},CERTIFICATES://{certificate}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PASSWORDS:SASL_SSL,CERTIFICATES:SSL",
        "listener.name.passwords.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "listener.name.passwords.plain.sasl.jaas.config": f'{MODULES}plain.PlainLoginModule required user_ann="{QUOTED[1:-1]}";'
        .replace("\\", "\\\\"),  # a properties file takes one backslash away
        "listener.name.passwords.scram-sha-256.sasl.jaas.config": f"{MODULES}scram.ScramLoginModule required;",
        "listener.name.passwords.scram-sha-512.sasl.jaas.config": f"{MODULES}scram.ScramLoginModule required;",
        "listener.name.certificates.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(files["server-both"]),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(files["authority"]),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS", "allow.everyone.if.no.acl.found": "true",
    }  # fmt: skip
    with EmbeddedKafka(settings=settings) as kafka:
        add_user(kafka.bootstrap_servers)
        kafka.create_topic(TOPIC)
        produce(kafka.bootstrap_servers, TOPIC, [Given(document(n=n)) for n in range(4)])
        yield Secured(kafka, password, certificate, files)


def add_user(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):  # brokers take one a request
        change = UserScramCredentialUpsertion("ann", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(30)


@pytest.mark.parametrize("way", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "certificate"])
def test_the_drivers_client_gets_in(way: str, secured: Secured) -> None:
    checked = validate(secured.config(way))
    assert (checked.problems, checked.warnings) == ((), ())
    brokers = brokers_of(checked.usable())
    assert brokers.topic_names() == [TOPIC]
    assert brokers.describe([TOPIC])[TOPIC].partitions == (0,)


def test_pem_files_of_the_operators_worker_file_open_the_broker_too(secured: Secured, tmp_path: Path) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text(
        f"bootstrap.servers={secured.by_certificate}\nconsumer.security.protocol=SSL\n"
        f"consumer.ssl.truststore.type=PEM\nconsumer.ssl.truststore.location={secured.files['authority']}\n"
        f"consumer.ssl.keystore.type=PEM\nconsumer.ssl.keystore.location={secured.files['client-both']}\n"
    )
    config = {**BASE, "name": "by-file", "topics": TOPIC, "flush.size": "2", "s3.bucket.name": "bucket"}
    assert brokers_of(validate(config, worker=read_worker(worker).texts).usable()).topic_names() == [TOPIC]


def test_a_login_that_fails_is_reported_soon_with_its_reason(secured: Secured) -> None:
    """Not after the ten minutes that a request may take here: the broker answers, but only that."""
    config = {key: text.replace("canary", "wrong") for key, text in secured.config("PLAIN").items()}
    config["consumer.override.default.api.timeout.ms"] = "600000"
    with pytest.raises(KafkaUnavailable, match=r"within 5 s: the login fails .*librdkafka says: .*[Aa]uthentication"):
        brokers_of(validate(config).usable()).cluster_id()


def test_what_cannot_be_used_is_reported_before_anything_is_sent(secured: Secured) -> None:
    broken = {**secured.config("certificate"), "consumer.override.ssl.keystore.key": secured.text("authority-key")}
    with pytest.raises(SourceError, match="cannot be used") as error:
        brokers_of(validate(broken).usable())
    assert "BEGIN" not in str(error.value)


def test_offsets_of_a_group_that_may_not_be_read_are_not_reported_as_none(secured: Secured) -> None:
    here, closed = TopicPartition(TOPIC, 0), TopicPartition("closed", 0)
    plain = KafkaBrokers(secured.kafka.bootstrap_servers)
    plain.create_topic(closed.topic)
    plain.commit_group("readers", {here: 2, closed: 1})
    brokers = brokers_of(validate(secured.config("PLAIN")).usable())
    assert brokers.group_offsets("readers", [here, closed]) == {here: 2, closed: 1}

    refuse(secured.kafka.bootstrap_servers, closed.topic, "User:ann")

    with pytest.raises(SourceError, match=r"read the offsets of group readers.*TOPIC_AUTHORIZATION_FAILED"):
        brokers.group_offsets("readers", [here, closed])
    assert brokers.group_offsets("readers", [here]) == {here: 2}
    plain.delete_topic(closed.topic)


def refuse(servers: str, topic: str, principal: str) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.DENY,
    )
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_acls([binding]).values():
        future.result(30)


@pytest.mark.parametrize("way", ["SCRAM-SHA-512", "certificate"])
def test_a_sink_reads_and_commits_over_an_encrypted_listener(
    way: str, secured: Secured, s3: EmbeddedS3, bucket: str, spark: SparkSession
) -> None:
    content = Bucket(s3.endpoint_url, bucket)
    around = Surroundings(secured.kafka, s3, content, spark)
    config = {**secured.config(way), "s3.bucket.name": bucket, "store.url": s3.endpoint_url}
    sink = around.sink(config)
    sink.open()
    assert sink.poll_and_commit()
    assert [[row["n"] for row in rows] for rows in content.contents().values()] == [[0, 1], [2, 3]]
    assert group_offsets(secured.kafka.bootstrap_servers, f"connect-by-{way}", TOPIC, 1) == {0: 4}
    content.close()


def certificates(folder: Path) -> dict[str, Path]:
    """PEM files: an authority, and a server and a client it vouches for, each with its key apart and in one file with it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    day, now = datetime.timedelta(days=1), datetime.datetime.now(datetime.UTC)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("authority", "server", "client")}
    names = {name: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in keys}
    here, signer, files = x509.IPAddress(ipaddress.ip_address(HOST)), keys["authority"], {}
    for name, key in keys.items():
        builder = (
            x509.CertificateBuilder(names["authority"], names[name], key.public_key(), x509.random_serial_number(), now - day, now + day)
            .add_extension(x509.BasicConstraints(ca=name == "authority", path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        )  # fmt: skip
        chain = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        for suffix, content in (("", chain), ("-key", secret), ("-both", secret + chain)):
            files[name + suffix] = folder / f"{name}{suffix}.pem"
            files[name + suffix].write_bytes(content)
    return files
