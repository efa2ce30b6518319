"""Which client properties are refused for where they come from, or because they do not go together? And which addresses under any key?

No configuration may name a metadata service of a cloud. Host names that lead to one are found where they are connected to
(`model.addresses`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from kafka_s3.connect.config.jaas import IAM_MECHANISM, MECHANISMS, read_login
from kafka_s3.connect.config.librdkafka import AUTO_RACK, RACK, obstacles
from kafka_s3.connect.config.option import InvalidValue, parse, shown
from kafka_s3.connect.config.options.client import ADDRESSES, ADMIN, ALLOWED_OTHERS, CLASSES, CONSUMER, FILES, PRODUCER
from kafka_s3.connect.config.options.table import EXACT
from kafka_s3.connect.config.references import has_reference
from kafka_s3.connect.config.rules import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.addresses import is_metadata_service
from kafka_s3.model.errors import Problem
from kafka_s3.model.text import Secret

PREFIXES: Final = (CONSUMER, PRODUCER, ADMIN)
_WHAT: Final = {
    **dict.fromkeys(FILES, "names a file of the machines that run the sink"),
    **dict.fromkeys(ADDRESSES, "names an address that secrets are sent to"),
    **dict.fromkeys(CLASSES, "names a class"),
}
_INSTEAD: Final = {
    "ssl.truststore.location": "or put the certificates themselves into ssl.truststore.certificates, with ssl.truststore.type=PEM",
    "ssl.keystore.location": "or put the PEM texts into ssl.keystore.certificate.chain and ssl.keystore.key, with ssl.keystore.type=PEM",
}
_PROTOCOL, _MECHANISM, _JAAS = (
    f"{CONSUMER}{name}" for name in ("security.protocol", "sasl.mechanism", "sasl.jaas.config")
)
_LOGIN: Final = {IAM_MECHANISM: f"For example: {MECHANISMS[IAM_MECHANISM]} required;"}
_TOKENS: Final = f"{CONSUMER}sasl.oauthbearer.token.endpoint.url"
_STORES: Final = tuple(
    f"{CONSUMER}ssl.{name}" for name in (
        "truststore.location", "truststore.type", "truststore.certificates", "keystore.location", "keystore.type", "keystore.key",
        "keystore.certificate.chain"))  # fmt: skip


def _only_the_operator_names_files(settings: Settings) -> Iterator[Problem]:
    """Files, addresses and classes come from the worker file, also where their values are references still."""
    for key, text in settings.source.items():
        prefix = next((one for one in PREFIXES if key.startswith(one)), None)
        name = key.removeprefix(prefix) if prefix else ""
        if name not in _WHAT or not text.strip() or settings.worker.get(key) == text:
            continue
        if key not in settings.pending and settings.values.get(key) is None:
            continue  # not even a value of the key, which is reported already
        rule = f"{_WHAT[name]}: only the operator's worker file may set it."
        mine = f"Set consumer.{name} there, and give the file with --worker"
        yield problem(key, rule, f"{mine}, {_INSTEAD[name]}." if name in _INSTEAD else f"{mine}, or leave it out.")


def _others_are_known(settings: Settings) -> Iterator[Problem]:
    """`producer.override.*` and `admin.override.*` have no effect, and still hold nothing that no client may get."""
    for prefix in (PRODUCER, ADMIN):
        for key in sorted(key for key in settings.given_keys if key.startswith(prefix) and key != prefix):
            name = key.removeprefix(prefix)
            if name not in ALLOWED_OTHERS:
                near = difflib.get_close_matches(name, ALLOWED_OTHERS, n=1, cutoff=0.75)
                meant = f"Did you mean {prefix}{near[0]}? " if near else ""
                rule = "is not a client property that is allowed."
                yield problem(
                    key, rule, f"{meant}Leave it out: every client takes its settings from consumer.override.*."
                )
            else:
                yield from _unfit(settings, key, name)


def _unfit(settings: Settings, key: str, name: str) -> Iterator[Problem]:
    row = EXACT.get(CONSUMER + name)
    text = settings.values.get(key)
    if row is None or not isinstance(text, str) or has_reference(text):
        return
    try:
        parse(row, text)
    except InvalidValue as unfit:
        yield problem(key, unfit.rule, unfit.remedy or row.note)


def _login_is_complete(settings: Settings) -> Iterator[Problem]:
    if not settings.text(_PROTOCOL).startswith("SASL_"):
        return
    mechanism, login = settings.text(_MECHANISM), settings.secret(_JAAS)
    if not mechanism:
        yield problem(_MECHANISM, "is required with SASL.", f"Set it to one of: {', '.join(MECHANISMS)}.")
    if login is None:
        yield problem(
            _JAAS, "is required with SASL.", _LOGIN.get(mechanism, "It names the login module, with user and password.")
        )
    if not mechanism or login is None:
        return
    module = read_login(login.reveal()).module
    if MECHANISMS[mechanism] is not module:
        wanted = MECHANISMS[mechanism].rpartition(".")[2]
        yield problem(
            _JAAS, f"names {module.rpartition('.')[2]}, but {mechanism} needs {wanted}.", "Change one of the two."
        )
    if mechanism == "OAUTHBEARER" and not settings.text(_TOKENS):
        remedy = "Set consumer.sasl.oauthbearer.token.endpoint.url in the operator's worker file."
        yield problem(_TOKENS, "is required with OAUTHBEARER.", remedy)


def _stores_are_readable(settings: Settings) -> Iterator[Problem]:
    """What librdkafka, which the driver speaks, cannot read: reported before anything is connected."""
    for obstacle in obstacles(_given(settings)):
        yield problem(CONSUMER + obstacle.name, obstacle.rule, obstacle.remedy)


def _given(settings: Settings) -> Mapping[str, str]:
    found = {}
    for key in _STORES:
        value = settings.values.get(key)
        if settings.given(key) and value is not None:
            text = value.reveal() if isinstance(value, Secret) else shown(value)
            if text:
                found[key.removeprefix(CONSUMER)] = text
    return found


def _password_in_clear(settings: Settings) -> Iterator[Problem]:
    if settings.text(_PROTOCOL) == "SASL_PLAINTEXT" and settings.text(_MECHANISM) in (
        "PLAIN",
        "OAUTHBEARER",
        IAM_MECHANISM,
    ):
        rule = f"sends the secret of {settings.text(_MECHANISM)} without encryption."
        yield problem(_PROTOCOL, rule, "Use SASL_SSL, or SCRAM, which does not send it.")


_RACK: Final = f"{CONSUMER}{RACK}"


def _zones_need_tasks(settings: Settings) -> Iterator[Problem]:
    by = "kafka.reader" if settings.text("kafka.reader") == "spark" else "tasks.run.on"
    if settings.optional_text(_RACK) == AUTO_RACK and settings.text(by) in ("spark", "driver"):
        rule = f"needs tasks that read for themselves. With {by}={settings.text(by)} Spark's consumers do, which all have one rack."
        remedy = f"Set {_RACK} to the rack of all machines, leave it out, or let tasks read: kafka.reader=auto."
        yield problem(_RACK, rule, remedy)


PROBLEMS: Final = (
    Rule((), _only_the_operator_names_files),
    Rule((), _others_are_known),
    Rule((_PROTOCOL, _MECHANISM, _JAAS, _TOKENS), _login_is_complete),
    Rule(_STORES, _stores_are_readable),
    Rule((_RACK, "kafka.reader", "tasks.run.on"), _zones_need_tasks),
)
WARNINGS: Final = (Rule((_PROTOCOL, _MECHANISM), _password_in_clear),)


_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s,;\"'<>]+")
OWN_RULE: Final = "registry.url"
"""How keys end whose addresses are looked at where the registry is."""
PLACES: Final = ("kafka.bootstrap.servers", "s3.proxy.url", "store.url")
"""Keys whose addresses need no `http://` before them."""


def hosts(key: str, text: str) -> Iterator[str]:
    """The hosts of the addresses in a value."""
    urls = _URL.findall(text)
    if key in PLACES or key.endswith(".proxyUrl"):
        urls += [f"//{part.strip()}" for part in text.split(",") if "://" not in part]
    for url in urls:
        try:
            yield urlsplit(url).hostname or ""
        except ValueError:
            continue  # no address at all, which its own rule says


def _no_metadata_service(settings: Settings) -> Iterator[Problem]:
    for key, text in {**settings.worker, **settings.source}.items():
        if not key.endswith(OWN_RULE) and any(map(is_metadata_service, hosts(key, text))):
            rule = "is a link-local address or a cloud's metadata service, which hands out this machine's credentials."
            yield problem(key, rule, "Name the service that is meant.")


ADDRESS_PROBLEMS: Final = (Rule((), _no_metadata_service),)
