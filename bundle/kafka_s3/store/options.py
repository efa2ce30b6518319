"""Which bucket, and how is it reached? All that a client of S3 needs, as one picklable value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from kafka_s3.model.text import Secret
from kafka_s3.store.credentials import Credentials

ANSWER_S: Final = 10
"""A service that does not answer a look for so long is taken for unreachable; a sink at work is more patient."""


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


def quick(options: StoreOptions, *, tries: int) -> StoreOptions:
    """The same for a look at the state: small objects, and somebody waits who shall soon know that nobody answers."""
    return replace(options, part_retries=tries, connect_timeout_s=ANSWER_S, read_timeout_s=ANSWER_S)
