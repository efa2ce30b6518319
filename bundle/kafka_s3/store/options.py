"""Which bucket, and how is it reached? The S3 part of a configuration as one picklable value."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from kafka_s3.model.addresses import is_metadata_service
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.text import Secret
from kafka_s3.store.credentials import Credentials, credentials_of

CUSTOMER_KEY_BYTES = 32
ANSWER_S: Final = 10
"""A service that does not answer a look for so long is taken for unreachable; a sink at work is more patient."""
METADATA = "is the address of a cloud's metadata service, which hands out the machine's own credentials."


class StoreSettings(Protocol):
    """What this module asks of a validated configuration; keys carry their Connect names."""

    def text(self, key: str) -> str:
        """The text of a key, its default where unset."""
        ...

    def optional_text(self, key: str) -> str | None:
        """The text of a key, None where unset."""
        ...

    def number(self, key: str) -> int:
        """The integer of a key."""
        ...

    def flag(self, key: str) -> bool:
        """The boolean of a key."""
        ...

    def secret(self, key: str) -> Secret | None:
        """The secret of a key, None where unset."""
        ...

    def prefixed(self, prefix: str) -> Mapping[str, str | Secret]:
        """Every setting whose key begins with the prefix."""
        ...


@dataclass(frozen=True, slots=True)
class Encryption:
    """Server-side encryption of every object: an algorithm S3 knows (empty: none asked for), a KMS key, or a customer's own key."""

    algorithm: str = ""
    kms_key_id: str = ""
    customer_key: Secret | None = None


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; `url` is free of user and password."""

    url: str
    user: str = ""
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """All that S3Store needs. The defaults are the connector's (SEMANTICS A1.3); its text form shows no secret.

    `part_retries` counts all attempts of one request, the first included; `retry_backoff_ms` is the first wait's upper bound;
    `max_connections` bounds the connections of one process; the timeouts are those of one attempt.
    """

    bucket: str
    region: str = "us-west-2"
    endpoint_url: str | None = None
    path_style: bool = True
    accelerate: bool = False
    credentials: Credentials = field(default_factory=Credentials)
    encryption: Encryption = field(default_factory=Encryption)
    acl: str | None = None
    proxy: Proxy | None = None
    part_retries: int = 3
    retry_backoff_ms: int = 200
    send_digest: bool = False
    expect_continue: bool = True
    max_connections: int = 50
    connect_timeout_s: float = 10
    read_timeout_s: float = 60


def store_options(settings: StoreSettings) -> StoreOptions:
    """The options of a configuration. Raises ConfigError with every problem that only shows when the pieces meet."""
    problems: list[Problem] = []
    options = StoreOptions(
        bucket=settings.text("s3.bucket.name"),
        region=settings.text("s3.region"),
        endpoint_url=_endpoint(settings.optional_text("store.url"), problems),
        path_style=settings.flag("s3.path.style.access.enabled"),
        accelerate=settings.flag("s3.wan.mode"),
        credentials=_credentials(settings, problems),
        encryption=_encryption(settings, problems),
        acl=settings.optional_text("s3.acl.canned") or None,
        proxy=_proxy(settings, problems),
        part_retries=max(1, settings.number("s3.part.retries")),
        retry_backoff_ms=settings.number("s3.retry.backoff.ms"),
        send_digest=settings.flag("s3.send.digest"),
        expect_continue=settings.flag("s3.http.send.expect.continue"),
    )
    if problems:
        raise ConfigError(problems)
    return options


def quick(options: StoreOptions, *, tries: int) -> StoreOptions:
    """The same for a look at the state: small objects, and somebody waits who shall soon be told that nobody answers."""
    return replace(options, part_retries=tries, connect_timeout_s=ANSWER_S, read_timeout_s=ANSWER_S)


def _endpoint(url: str | None, problems: list[Problem]) -> str | None:
    if not url or not url.strip():
        return None
    full = url.strip() if "://" in url else f"https://{url.strip()}"
    if not _host(full) or urlsplit(full).scheme not in ("http", "https"):
        problems.append(
            Problem("store.url", url, "is not an address.", "Write https://host:port, or http:// without TLS.")
        )
    elif is_metadata_service(_host(full) or ""):
        problems.append(Problem("store.url", url, METADATA, "Write the address of the S3 service."))
    return full


def _host(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # only reading it checks it
    except ValueError:
        return None
    return parts.hostname


def _credentials(settings: StoreSettings, problems: list[Problem]) -> Credentials:
    found = credentials_of(
        settings.optional_text("s3.credentials.provider.class") or "default",
        settings.prefixed("s3.credentials.provider."),
        access_key_id=settings.optional_text("aws.access.key.id") or "",
        secret_access_key=settings.secret("aws.secret.access.key"),
    )
    if isinstance(found, Credentials):
        return found
    problems.extend(found)
    return Credentials()


def _encryption(settings: StoreSettings, problems: list[Problem]) -> Encryption:
    algorithm, kms_key_id = (
        settings.optional_text("s3.ssea.name") or "",
        settings.optional_text("s3.sse.kms.key.id") or "",
    )
    customer_key = settings.secret("s3.sse.customer.key")
    if algorithm == "AES256" and customer_key and customer_key.reveal().strip():
        if not _is_customer_key(customer_key.reveal()):
            rule = f"must be the base64 form of {CUSTOMER_KEY_BYTES} bytes."
            problems.append(
                Problem("s3.sse.customer.key", str(customer_key), rule, "`openssl rand -base64 32` makes one.")
            )
        return Encryption(algorithm, customer_key=customer_key)
    if algorithm == "aws:kms" and not kms_key_id:
        return Encryption()  # the connector sends no header then: the bucket's own default rules (SEMANTICS A1.3)
    return Encryption(algorithm, kms_key_id if algorithm.startswith("aws:kms") else "")


def _is_customer_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text.strip(), validate=True)) == CUSTOMER_KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _proxy(settings: StoreSettings, problems: list[Problem]) -> Proxy | None:
    given = (settings.optional_text("s3.proxy.url") or "").strip()
    if not given:
        return None
    full = given if "://" in given else f"http://{given}"
    host = _host(full)
    if not host:
        # the value is not repeated: it may hold a password
        problems.append(Problem("s3.proxy.url", "****", "is not an address.", "Write http://host:port."))
        return None
    if is_metadata_service(host):
        problems.append(Problem("s3.proxy.url", host, METADATA, "Write the address of the proxy."))
    parts = urlsplit(full)
    in_url = Secret(unquote(parts.password)) if parts.password else None
    user = settings.optional_text("s3.proxy.user") or unquote(parts.username or "")
    separate = settings.secret("s3.proxy.password")
    password = separate if separate and separate.reveal() else in_url
    if not (user + (password.reveal() if password else "")).isascii():
        # HTTP's basic authentication names no character set, and none is guessed at the first request
        problems.append(
            Problem("s3.proxy.password", "****", "and s3.proxy.user must be plain ASCII.", "Change them at the proxy.")
        )
    return Proxy(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", user, password)
