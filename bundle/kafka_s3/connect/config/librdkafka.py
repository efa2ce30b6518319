"""What are the consumer's Java properties in librdkafka's words? The driver's clients speak librdkafka, the tasks' Java (Spark).

Only what makes a connection is translated; settings that tune the Java consumer's reading stay with Spark. ::

    Java                                           librdkafka
    sasl.jaas.config: Plain, Scram                 sasl.username, sasl.password
    sasl.jaas.config: OAuthBearer                  sasl.oauthbearer.method=oidc, .client.id, .client.secret, .scope, .extensions
    sasl.oauthbearer.token.endpoint.url            the same
    sasl.jaas.config: IAM (sasl.mechanism=AWS_MSK_IAM)  sasl.mechanism=OAUTHBEARER, with tokens that `kafka.iam` signs
    ssl.truststore.location (PEM)                  ssl.ca.location
    ssl.truststore.certificates                    ssl.ca.pem
    ssl.keystore.location (PEM)                    ssl.certificate.location and ssl.key.location: certificates and key in one file
    ssl.keystore.location (PKCS12), .password      ssl.keystore.location, .password
    ssl.keystore.certificate.chain, .key           ssl.certificate.pem, ssl.key.pem
    ssl.endpoint.identification.algorithm=         ssl.endpoint.identification.algorithm=none
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafka_s3.connect.config.jaas import Module, read_login

SAME: Final = (
    "client.id", "client.rack", "security.protocol", "sasl.mechanism", "sasl.oauthbearer.token.endpoint.url", "ssl.key.password",
)  # fmt: skip
RACK: Final = "client.rack"
AUTO_RACK: Final = "auto"
"""Each task puts its machine's zone in the place of this (`kafka.zone`); all other clients have no rack then."""
JAVA_DEFAULT_STORE: Final = "JKS"
READABLE_KEYS: Final = ("PEM", "PKCS12")
CONVERT_TRUST: Final = (
    "Convert it: keytool -list -rfc -keystore truststore.jks > truststore.pem; then set ssl.truststore.type=PEM and "
    "ssl.truststore.location to that file, without ssl.truststore.password."
)
CONVERT_KEYS: Final = (
    "Convert it: keytool -importkeystore -srckeystore keystore.jks -destkeystore keystore.p12 -deststoretype PKCS12; then set "
    "ssl.keystore.type=PKCS12 and ssl.keystore.location to that file."
)
_STORE_NAMES: Final = {".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12", ".jceks": "JCEKS"}
_STORE_MARKS: Final = {
    "JKS": rb"\xfe\xed\xfe\xed",
    "JCEKS": rb"\xce\xce\xce\xce",
    "PKCS12": rb"\x30(\x80|[\x81-\x84].{1,4})\x02\x01\x03",
}
"""How the files begin. PKCS12 is a sequence whose first member is the version, 3; a bare certificate is a sequence, too."""
_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class Obstacle(NamedTuple):
    """A property that librdkafka cannot have: its Java name, the rule it breaks, the remedy."""

    name: str
    rule: str
    remedy: str


def librdkafka_properties(java: Mapping[str, str]) -> dict[str, str]:
    """The properties by librdkafka's names. Right only where there are no `obstacles`."""
    found = {name: java[name] for name in SAME if name in java and (name != RACK or java[name] != AUTO_RACK)}
    return {**found, **_login(java), **_trust(java), **_certificate(java)}


def obstacles(java: Mapping[str, str]) -> Iterator[Obstacle]:
    """What of the properties librdkafka cannot have: Java's own key stores above all."""
    trust, keys = (_store_type(java, side) for side in ("truststore", "keystore"))
    if "ssl.truststore.location" in java and trust != "PEM":
        yield Obstacle(_named_by(java, "truststore"), f"is a {trust} store, which only Java reads.", CONVERT_TRUST)
    if "ssl.keystore.location" in java and keys not in READABLE_KEYS:
        yield Obstacle(_named_by(java, "keystore"), f"is a {keys} store, which only Java reads.", CONVERT_KEYS)
    inline = {"ssl.truststore.certificates": trust, "ssl.keystore.certificate.chain": keys, "ssl.keystore.key": keys}
    for name, kind in inline.items():
        if name in java and kind != "PEM":
            side = name.split(".")[1]
            yield Obstacle(name, f"is read only with ssl.{side}.type=PEM.", f"Set ssl.{side}.type=PEM.")
        elif name in java and not _PEM.search(java[name]):
            yield Obstacle(name, "holds no PEM text.", "It begins with -----BEGIN and ends with -----END ...-----.")
    yield from _halves(java)


def _login(java: Mapping[str, str]) -> dict[str, str]:
    if not java.get("sasl.jaas.config"):
        return {}
    login = read_login(java["sasl.jaas.config"])
    if login.module is Module.IAM:
        return {"sasl.mechanism": "OAUTHBEARER"}
    if login.module is not Module.OAUTHBEARER:
        return {"sasl.username": login.text("username"), "sasl.password": login.text("password")}
    found = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": login.text("clientId"),
        "sasl.oauthbearer.client.secret": login.text("clientSecret"),
        "sasl.oauthbearer.scope": login.text("scope"),
        "sasl.oauthbearer.extensions": ",".join(f"{name}={value}" for name, value in login.extensions().items()),
    }
    return {name: value for name, value in found.items() if value}


def _trust(java: Mapping[str, str]) -> dict[str, str]:
    found = {}
    if "ssl.truststore.location" in java:
        found["ssl.ca.location"] = java["ssl.truststore.location"]
    if "ssl.truststore.certificates" in java:
        found["ssl.ca.pem"] = pem(java["ssl.truststore.certificates"])
    if "ssl.endpoint.identification.algorithm" in java:
        found["ssl.endpoint.identification.algorithm"] = java["ssl.endpoint.identification.algorithm"] or "none"
    return found


def _certificate(java: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    location = java.get("ssl.keystore.location")
    if location and _store_type(java, "keystore") == "PEM":
        found |= {"ssl.certificate.location": location, "ssl.key.location": location}
    elif location:
        found |= {"ssl.keystore.location": location, "ssl.keystore.password": java.get("ssl.keystore.password", "")}
    if "ssl.keystore.certificate.chain" in java:
        found["ssl.certificate.pem"] = pem(java["ssl.keystore.certificate.chain"])
    if "ssl.keystore.key" in java:
        found["ssl.key.pem"] = pem(java["ssl.keystore.key"])
    return found


def java_store(location: str) -> str:
    """The kind of Java's key store that a file is, by its first bytes, else by its name; blank for anything else."""
    try:
        with Path(location).open("rb") as file:
            first = file.read(16)
    except (OSError, ValueError):
        return _STORE_NAMES.get(Path(location).suffix.lower(), "")
    return next((kind for kind, mark in _STORE_MARKS.items() if re.match(mark, first, re.DOTALL)), "")


def pem(text: str) -> str:
    """PEM text with the line ends that OpenSSL insists on; Java takes it in one line, too, as properties files often have it."""
    blocks = []
    for label, body in _PEM.findall(text):
        packed = "".join(body.split())
        lines = [packed[at : at + 64] for at in range(0, len(packed), 64)]
        blocks.append("\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]))
    return "".join(blocks)


def _store_type(java: Mapping[str, str], side: str) -> str:
    return (java.get(f"ssl.{side}.type") or JAVA_DEFAULT_STORE).upper()


def _named_by(java: Mapping[str, str], side: str) -> str:
    """The property that says what kind of store it is; without a type it is the location, for Java takes JKS then."""
    return f"ssl.{side}.type" if java.get(f"ssl.{side}.type") else f"ssl.{side}.location"


def _halves(java: Mapping[str, str]) -> Iterator[Obstacle]:
    chain, key = "ssl.keystore.certificate.chain", "ssl.keystore.key"
    if (chain in java) != (key in java):
        alone, other = (chain, key) if chain in java else (key, chain)
        yield Obstacle(alone, f"is of no use without {other}.", "Set both.")
    for side, inline in (("truststore", "ssl.truststore.certificates"), ("keystore", chain)):
        if inline in java and f"ssl.{side}.location" in java:
            yield Obstacle(inline, f"excludes ssl.{side}.location.", "Keep one of the two.")
