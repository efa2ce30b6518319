"""Which client properties are taken, from where, and what do librdkafka and Spark get of them?"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka.admin import AdminClient

from kafka_s3.connect.config.jaas import Module, read_login, renamed
from kafka_s3.connect.config.librdkafka import pem
from kafka_s3.connect.config.option import InvalidValue
from kafka_s3.connect.config.settings import masking
from kafka_s3.connect.config.validate import CheckedConfig, validate
from kafka_s3.connect.registry.options import RegistryOptions
from kafka_s3.kafka.clients import client_properties
from kafka_s3.run.spark.source import KafkaClasses, kafka_classes, reading_properties
from kafka_s3.run.wiring.clients import consumer_properties
from tests.support.memory_world import BASE

SECURITY = "org.apache.kafka.common.security."
PLAIN = f'{SECURITY}plain.PlainLoginModule required username="ann" password="canary";'
SCRAM = f'{SECURITY}scram.ScramLoginModule required username="ann" password="canary";'
OAUTH = (
    f'{SECURITY}oauthbearer.OAuthBearerLoginModule required clientId="sink" clientSecret="canary" scope="read" '
    'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";'
)
IAM = "software.amazon.msk.auth.iam.IAMLoginModule required;"
MSK = {
    "security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": IAM,
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}  # fmt: skip
TOKENS = "https://login.example.com/token"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIC\n-----END PRIVATE KEY-----\n"
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
BEARER = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": OAUTH}


def checked(
    client: Mapping[str, str], *, worker: Mapping[str, str] | None = None, prefix: str = "consumer"
) -> CheckedConfig:
    mine = {f"{prefix}.override.{name}": text for name, text in client.items()}
    theirs = {f"consumer.override.{name}": text for name, text in (worker or {}).items()}
    return validate({**BASE, "flush.size": "3", **mine}, worker=theirs)


def refused(client: Mapping[str, str], *, worker: Mapping[str, str] | None = None) -> list[str]:
    found = checked(client, worker=worker)
    assert "canary" not in f"{found.problems} {found.warnings} {found.settings!r}"
    return [problem.key.removeprefix("consumer.override.") for problem in found.problems]


def properties(client: Mapping[str, str], *, worker: Mapping[str, str] | None = None) -> dict[str, str]:
    return consumer_properties(checked(client, worker=worker).usable())


# ------------------------------------------------------------ what is taken


@pytest.mark.parametrize("name", ["plugin.class", "ssl.engine.factory.class", "security.providers",
                                  "sasl.login.class", "sasl.oauthbearer.jwks.endpoint.url", "config.providers"])  # fmt: skip
def test_a_property_outside_of_the_list_is_refused_from_either_file(name: str) -> None:
    for found in (checked({name: "com.example.Own"}), checked({}, worker={name: "com.example.Own"})):
        (problem,) = found.problems
        assert problem.key == f"consumer.override.{name}"
        assert problem.value == "com.example.Own"
        assert "max.poll.records" in problem.remedy


@pytest.mark.parametrize(("name", "value", "further"), [
    ("ssl.truststore.location", "/etc/ca.pem", {"ssl.truststore.type": "PEM"}),
    ("ssl.keystore.location", "/etc/client.pem", {"ssl.keystore.type": "PEM"}),
    ("sasl.oauthbearer.token.endpoint.url", TOKENS, {}),
    ("sasl.login.callback.handler.class", f"{SECURITY}oauthbearer.OAuthBearerLoginCallbackHandler", {}),
    ("interceptor.classes", "io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor", {}),
    ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter", {}),
    ("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer", {}),
])  # fmt: skip
def test_files_addresses_and_classes_come_from_the_workers_file_only(
    name: str, value: str, further: dict[str, str]
) -> None:
    (problem,) = checked({name: value, **further}).problems
    assert (problem.key, problem.value) == (f"consumer.override.{name}", value)
    assert "only the operator's worker file" in problem.rule
    assert f"consumer.{name}" in problem.remedy
    assert refused(further, worker={name: value}) == []
    # a reference hides the value, not the key
    assert refused({name: "${env:ANYTHING}", **further}) == [name]
    for prefix in ("producer", "admin"):
        assert [p.key for p in checked({name: value}, prefix=prefix).problems] == [f"{prefix}.override.{name}"]


@pytest.mark.parametrize(
    "name", ["interceptor.classes", "metric.reporters", "key.deserializer", "sasl.login.callback.handler.class"]
)
def test_a_class_that_is_not_listed_is_refused_even_from_the_operator(name: str) -> None:
    assert refused({}, worker={name: "com.example.Own"}) == [name]
    assert refused({name: "com.example.Own"}) == [name]


def test_no_client_is_given_what_only_connects_consumer_reads() -> None:
    deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    worker = {"key.deserializer": deserializer, "enable.auto.commit": "false", "interceptor.classes": ""}
    assert properties({"max.poll.records": "7"}, worker=worker) == {"max.poll.records": "7"}


def test_producer_and_admin_properties_are_checked_though_they_have_no_effect() -> None:
    assert checked({"linger.ms": "5"}, prefix="producer").problems == ()
    (problem,) = checked({"lingr.ms": "5"}, prefix="producer").problems
    assert problem.remedy.startswith("Did you mean producer.override.linger.ms?")
    jndi = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://canary";'
    (problem,) = checked({"sasl.jaas.config": jndi}, prefix="admin").problems
    assert (problem.key, problem.value) == ("admin.override.sasl.jaas.config", "****")


# ------------------------------------------------------------ logins


@pytest.mark.parametrize("shade", ["", "kafkashaded."])
def test_the_three_login_modules_are_read_under_both_names(shade: str) -> None:
    assert read_login(shade + PLAIN).module is Module.PLAIN
    assert read_login(shade + SCRAM).text("password") == "canary"
    login = read_login(shade + OAUTH)
    assert login.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}
    assert "canary" not in repr(login)


@pytest.mark.parametrize(("text", "says"), [
    ("com.sun.security.auth.module.JndiLoginModule required a=b;", "any address"),
    ("com.sun.security.auth.module.LdapLoginModule required a=b;", "any server"),
    ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "SCRAM over SASL_SSL"),
    (IAM.replace("required", 'required awsRoleSessionToken="t"'), "Allowed are"),
    (PLAIN.removesuffix(";"), "semicolon"),
    (PLAIN + PLAIN, "semicolon"),
    (f"{PLAIN} com.sun.security.auth.module.JndiLoginModule required a=b;", "semicolon"),
    (PLAIN.replace(SECURITY, "org.example."), "semicolon"),
    (PLAIN.replace("plain.Plain", "plain.evil.Plain"), "semicolon"),
    (f'{SECURITY}plain.PlainLoginModule required username="ann";', "username, password"),
    (PLAIN.replace(";", ' file="/etc/shadow";'), "Allowed are"),
    (OAUTH.replace(";", ' ssl.truststore.location="/etc/shadow";'), "Allowed are"),
    (f'{SECURITY}oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";', "Allowed are"),
    ("", "semicolon"),
])  # fmt: skip
def test_any_other_login_is_refused_with_what_to_do(text: str, says: str) -> None:
    with pytest.raises(InvalidValue) as unfit:
        read_login(text)
    assert says in unfit.value.remedy
    assert "canary" not in unfit.value.rule + unfit.value.remedy


@pytest.mark.parametrize(
    ("password", "written"), [('a"b\\c', r'"a\"b\\c"'), ("it's", '"it\'s"'), ("x;y z", "'x;y z'"), ("p=w", "p=w")]
)
def test_passwords_are_read_with_their_quotes_and_escapes(password: str, written: str) -> None:
    assert (
        read_login(f"{SECURITY}plain.PlainLoginModule required username=u password={written} ;").text("password")
        == password
    )


def test_mechanism_and_login_go_together() -> None:
    assert refused(SASL) == []
    assert refused({**SASL, "sasl.jaas.config": SCRAM}) == ["sasl.jaas.config"]
    assert refused({"security.protocol": "SASL_SSL"}) == ["sasl.mechanism", "sasl.jaas.config"]
    assert refused(BEARER) == ["sasl.oauthbearer.token.endpoint.url"]
    assert refused(BEARER, worker={"sasl.oauthbearer.token.endpoint.url": TOKENS}) == []


def test_a_mechanism_that_is_not_supported_is_distinguished_from_a_misspelt_one() -> None:
    (problem,) = checked({**SASL, "sasl.mechanism": "GSSAPI"}).problems
    assert "use SCRAM over SASL_SSL or a client certificate" in problem.remedy


@pytest.mark.parametrize(
    "address", ["http://login.example.com/token", "file:///etc/shadow", "https://u:p@login.example.com/", "login"]
)
def test_the_clients_secret_goes_to_an_encrypted_address_only(address: str) -> None:
    name = "sasl.oauthbearer.token.endpoint.url"
    assert refused(BEARER, worker={name: address}) == [name]
    assert refused(BEARER, worker={name: "http://localhost:8080/token"}) == []


def test_a_password_in_clear_text_is_warned_of() -> None:
    assert [w.key for w in checked({**SASL, "security.protocol": "SASL_PLAINTEXT"}).warnings] == [
        "consumer.override.security.protocol"
    ]


# ------------------------------------------------------------ librdkafka


def translated(client: Mapping[str, str], *, worker: Mapping[str, str] | None = None) -> dict[str, str]:
    """What librdkafka is given, without what it always is."""
    found = client_properties("k:9092", properties(client, worker=worker))
    assert (found.pop("bootstrap.servers"), found.pop("client.id")) == ("k:9092", "kafka-s3")
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_user_and_password_reach_librdkafka(mechanism: str) -> None:
    login = PLAIN if mechanism == "PLAIN" else SCRAM
    found = translated({"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": login})
    assert found == {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.username": "ann",
                     "sasl.password": "canary"}  # fmt: skip
    AdminClient({"bootstrap.servers": "127.0.0.1:9", **found, "log_level": 0})


def test_a_client_of_oauthbearer_gets_its_tokens_by_oidc() -> None:
    found = translated(BEARER, worker={"sasl.oauthbearer.token.endpoint.url": TOKENS})
    assert found == {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": TOKENS, "sasl.oauthbearer.client.id": "sink",
        "sasl.oauthbearer.client.secret": "canary", "sasl.oauthbearer.scope": "read",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
    }  # fmt: skip
    AdminClient({"bootstrap.servers": "127.0.0.1:9", **found, "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:9/",
                 "log_level": 0})  # fmt: skip


def test_pem_stores_reach_librdkafka_as_files_or_as_texts() -> None:
    files = {
        "ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM", "ssl.keystore.location": "/me.pem",
        "ssl.keystore.type": "PEM", "ssl.key.password": "canary",
    }  # fmt: skip
    assert translated({"security.protocol": "SSL"}, worker=files) == {
        "security.protocol": "SSL", "ssl.ca.location": "/ca.pem", "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem", "ssl.key.password": "canary",
    }  # fmt: skip
    texts = {
        "security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM", "ssl.endpoint.identification.algorithm": "",
        "ssl.truststore.certificates": CERTIFICATE, "ssl.keystore.certificate.chain": CERTIFICATE, "ssl.keystore.key": KEY,
    }  # fmt: skip
    assert translated(texts) == {
        "security.protocol": "SSL", "ssl.ca.pem": CERTIFICATE, "ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": KEY,
        "ssl.endpoint.identification.algorithm": "none",
    }  # fmt: skip


def test_a_pkcs12_key_store_is_one_that_librdkafka_reads_itself() -> None:
    worker = {"ssl.keystore.location": "/me.p12", "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "canary"}
    assert translated({}, worker=worker) == {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "canary"}


def test_settings_of_the_java_consumers_reading_stay_with_spark() -> None:
    java = {
        "receive.buffer.bytes": "65536",
        "fetch.max.wait.ms": "100",
        "max.poll.records": "7",
        "ssl.protocol": "TLSv1.3",
    }
    assert translated({**java, "client.rack": "b"}) == {"client.rack": "b"}
    assert reading_properties(properties(java), KafkaClasses.PLAIN) == java


def test_only_tasks_find_out_their_rack() -> None:
    assert translated({"client.rack": "auto"}) == {}
    assert reading_properties(properties({"client.rack": "auto"}), KafkaClasses.PLAIN) == {}
    assert reading_properties(properties({"client.rack": "b"}), KafkaClasses.PLAIN) == {"client.rack": "b"}


@pytest.mark.parametrize(("key", "value"), [("kafka.reader", "spark"), ("tasks.run.on", "driver")])
def test_where_spark_reads_no_rack_can_be_found_out(key: str, value: str) -> None:
    def problems(rack: str, **more: str) -> list[str]:
        name = "consumer.override.client.rack"
        return [str(one) for one in validate({**BASE, name: rack, **more}).problems if one.key == name]

    (found,) = problems("auto", **{key: value})
    assert f"With {key}={value} Spark's consumers do" in found
    assert problems("b", **{key: value}) == problems("auto") == []


@pytest.mark.parametrize(("worker", "name", "says"), [
    ({"ssl.truststore.location": "/t.jks"}, "ssl.truststore.location", "keytool -list -rfc"),
    ({"ssl.truststore.location": "/t.jks", "ssl.truststore.type": "JKS"}, "ssl.truststore.type", "keytool -list -rfc"),
    ({"ssl.truststore.location": "/t.p12", "ssl.truststore.type": "PKCS12"}, "ssl.truststore.type", "keytool -list -rfc"),
    ({"ssl.keystore.location": "/k.jks", "ssl.keystore.type": "JKS"}, "ssl.keystore.type", "-deststoretype PKCS12"),
    ({"ssl.truststore.certificates": CERTIFICATE}, "ssl.truststore.certificates", "ssl.truststore.type=PEM"),
    ({"ssl.truststore.certificates": "MIIB", "ssl.truststore.type": "PEM"}, "ssl.truststore.certificates", "-----BEGIN"),
    ({"ssl.keystore.key": KEY, "ssl.keystore.type": "PEM"}, "ssl.keystore.key", "Set both"),
    ({"ssl.truststore.certificates": CERTIFICATE, "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
     "ssl.truststore.certificates", "Keep one"),
])  # fmt: skip
def test_a_store_that_librdkafka_cannot_read_is_refused_with_how_to_convert_it(
    worker: dict[str, str], name: str, says: str
) -> None:
    (problem,) = checked({}, worker=worker).problems
    assert problem.key == f"consumer.override.{name}"
    assert says in problem.remedy


def test_pem_text_in_one_line_gets_the_line_ends_that_openssl_needs() -> None:
    body = "A" * 64 + "BC=="
    assert pem(f"-----BEGIN CERTIFICATE----- {body} -----END CERTIFICATE-----") == (
        f"-----BEGIN CERTIFICATE-----\n{'A' * 64}\nBC==\n-----END CERTIFICATE-----\n"
    )


# ------------------------------------------------------------ Spark


def test_class_names_are_those_of_the_surroundings() -> None:
    assert kafka_classes({}) is KafkaClasses.PLAIN
    assert kafka_classes({"DATABRICKS_RUNTIME_VERSION": "16.4"}) is KafkaClasses.SHADED
    for given in (PLAIN, f"kafkashaded.{PLAIN}"):
        java = {**SASL, "sasl.jaas.config": given, "group.id": "g", "client.id": "c", "auto.offset.reset": "latest"}
        assert reading_properties(java, KafkaClasses.PLAIN) == SASL
        assert reading_properties(java, KafkaClasses.SHADED) == {**SASL, "sasl.jaas.config": f"kafkashaded.{PLAIN}"}
    assert renamed("something else;", prefix=KafkaClasses.SHADED.prefix) == "something else;"


def test_spark_knows_who_gets_the_tokens() -> None:
    handler = f"{SECURITY}oauthbearer.OAuthBearerLoginCallbackHandler"
    assert reading_properties(BEARER, KafkaClasses.PLAIN)["sasl.login.callback.handler.class"] == handler
    given = {**BEARER, "sasl.login.callback.handler.class": f"kafkashaded.{handler}"}
    assert reading_properties(given, KafkaClasses.PLAIN)["sasl.login.callback.handler.class"] == handler
    assert (
        reading_properties(given, KafkaClasses.SHADED)["sasl.login.callback.handler.class"] == f"kafkashaded.{handler}"
    )


def test_iam_access_is_taken_unchanged_from_the_connectors_own_configuration() -> None:
    assert refused(MSK) == []
    assert refused({**MSK, "sasl.client.callback.handler.class": "com.example.Own"}) == [
        "sasl.client.callback.handler.class"
    ]
    assert refused({**MSK, "sasl.jaas.config": PLAIN}) == ["sasl.jaas.config"]
    assert refused({name: text for name, text in MSK.items() if name != "sasl.jaas.config"}) == ["sasl.jaas.config"]


def test_librdkafka_sends_iam_tokens_as_those_of_oauthbearer() -> None:
    assert translated(MSK) == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def test_spark_signs_with_amazons_module_under_the_name_it_has_there() -> None:
    login = {name: text for name, text in MSK.items() if name != "sasl.client.callback.handler.class"}
    assert reading_properties(login, KafkaClasses.PLAIN) == MSK
    shaded = reading_properties(MSK, KafkaClasses.SHADED)
    assert shaded["sasl.jaas.config"] == f"shadedmskiam.{IAM}"
    assert shaded["sasl.client.callback.handler.class"].startswith("shadedmskiam.software.amazon.msk.auth.iam.")
    assert reading_properties(shaded, KafkaClasses.PLAIN) == MSK


# ------------------------------------------------------------ the registry's address


@pytest.mark.parametrize("url", [
    "http://169.254.169.254/latest", "http://2852039166/", "http://0xa9fea9fe", "http://[fe80::1]", "http://[::ffff:169.254.169.254]",
    "http://metadata.google.internal", "http://100.100.100.200", "http://[fd00:ec2::254]", "file:///etc/passwd", "ftp://registry",
    "registry:8081", "https://", "gopher://registry",
])  # fmt: skip
def test_a_registry_is_not_a_file_nor_a_clouds_metadata_service(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL of a schema registry|not of a schema registry"):
        RegistryOptions((url,))


def test_two_registries_with_different_passwords_do_not_get_each_others() -> None:
    with pytest.raises(ValueError, match=r"set basic\.auth\.user\.info") as error:
        RegistryOptions(("https://a:canary@one", "https://b:canary2@two"))
    assert "canary" not in str(error.value)


AVRO = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.basic.auth.credentials.source": "USER_INFO",
    "value.converter.basic.auth.user.info": "ann:canary",
}


@pytest.mark.parametrize(("url", "warned"), [
    ("http://registry:8081", True), ("https://one,http://two", True), ("https://registry", False), ("http://127.0.0.1:8081", False),
    ("http://localhost:8081", False),
])  # fmt: skip
def test_credentials_that_go_to_a_registry_in_clear_text_are_warned_of(url: str, warned: bool) -> None:
    base = {key: text for key, text in BASE.items() if not key.startswith("value.converter")}
    found = validate({**base, "flush.size": "3", **AVRO, "value.converter.schema.registry.url": url})
    assert (found.problems, [w.key for w in found.warnings]) == (
        (), ["value.converter.schema.registry.url"] if warned else []
    )  # fmt: skip
    assert "canary" not in f"{found.warnings}"


# ------------------------------------------------------------ texts for the bucket


def test_parts_of_secrets_are_masked_too() -> None:
    base = {key: text for key, text in BASE.items() if not key.startswith("value.converter")}
    config = {
        **base, "flush.size": "3", **AVRO, "value.converter.basic.auth.user.info": "ann:part-one",
        "value.converter.schema.registry.url": "https://r", "s3.proxy.url": "http://bob:part-two@proxy:3128",
        "consumer.override.sasl.jaas.config": PLAIN.replace("canary", "part-three"),
        "producer.override.sasl.jaas.config": PLAIN.replace("canary", "part-four"),
    }  # fmt: skip
    mask = masking(validate(config).usable())
    assert mask("part-one part-two part-three part-four stays, ann too") == "**** **** **** **** stays, ann too"
