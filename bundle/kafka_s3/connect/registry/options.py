"""Where is the schema registry, how does it know us, whose serializers wrote the records, and under which subject are schemas kept?"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final
from urllib.parse import unquote, urlsplit

from kafka_s3.model.addresses import address_of, is_metadata_service
from kafka_s3.model.files import Role
from kafka_s3.model.text import MASK, Secret

PACKAGE: Final = "io.confluent.kafka.serializers.subject."


class SubjectNameStrategy(StrEnum):
    """The subject name strategies, by the short names of their Java classes."""

    TOPIC = "TopicNameStrategy"
    RECORD = "RecordNameStrategy"
    TOPIC_RECORD = "TopicRecordNameStrategy"


def strategy_of(name: str) -> SubjectNameStrategy:
    """The strategy of a Java class name or a short name. Raises ValueError with the known names."""
    try:
        return SubjectNameStrategy(name.strip().removeprefix(PACKAGE))
    except ValueError:
        known = ", ".join(SubjectNameStrategy)
        raise ValueError(
            f"Unknown subject name strategy {name!r}: use one of {known}, or its class name in {PACKAGE[:-1]}."
        ) from None


def subject(strategy: str, topic: str, record_name: str | None, *, role: Role) -> str:
    """The subject of a record's value or key schema; `record_name` is the full name of that schema.

    Raises ValueError where the strategy is unknown, or needs a name and the schema has none.
    """
    known = strategy_of(strategy)
    if known is SubjectNameStrategy.TOPIC:
        return f"{topic}-{role}"
    if not record_name:
        raise ValueError(
            f"{known} needs the name of the record, and the {role} schema of topic {topic} has none: use TopicNameStrategy."
        )
    return record_name if known is SubjectNameStrategy.RECORD else f"{topic}-{record_name}"


class Framing(Enum):
    """Whose serializers wrote the records."""

    CONFLUENT = "confluent"
    GLUE = "glue"
    APICURIO_8 = "apicurio 8"
    APICURIO_4 = "apicurio 4"
    APICURIO_EITHER = "apicurio 4 or 8"
    """Eight bytes where the first four are zero: no id is zero, and none is larger than four bytes hold."""


PEM_MARK: Final = "-----BEGIN "


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """How to reach a schema registry. Its text form shows no secret; user and password of a URL move to `basic_auth`.

    `urls` are tried in turn. `basic_auth` is `user:password`; `bearer_token` excludes it, and `logical_cluster` and `identity_pool` go with
    the token to Confluent Cloud. `ca` and `client_certificate` are a path or PEM text; so is `client_key`, needed where the certificate's
    file does not hold the key. A request is repeated `retries` times, after a random share of `backoff_ms`, doubled per failure.
    `cache_size` bounds each of the client's caches. What the registry does not know is asked again after `negative_ttl_s`, a subject's
    latest version after `latest_ttl_s`. With `token_url`, `basic_auth` is a client's id and secret, for which that address gives tokens
    of this `scope` (Apicurio only).

    Raises ValueError where there is no URL, one is not http or https, or names a cloud's metadata service, where both kinds of credentials
    are given, and where the URLs hold different ones: each is sent to every URL.
    """

    urls: tuple[str, ...]
    basic_auth: Secret | None = None
    bearer_token: Secret | None = None
    logical_cluster: str = ""
    identity_pool: str | None = None
    ca: str | None = field(default=None, repr=False)
    client_certificate: str | None = field(default=None, repr=False)
    client_key: Secret | None = None
    client_key_password: Secret | None = None
    token_url: str | None = None
    scope: str = ""
    timeout_s: float = 30.0
    retries: int = 3
    backoff_ms: int = 500
    cache_size: int = 1000
    negative_ttl_s: float = 30.0
    latest_ttl_s: float = 60.0

    def __post_init__(self) -> None:
        if not self.urls:
            raise ValueError("No URL of a schema registry is given: set schema.registry.url.")
        parts = [_without_credentials(url) for url in self.urls]
        object.__setattr__(self, "urls", tuple(url for url, _ in parts))
        if self.token_url:
            _without_credentials(self.token_url)
        if self.basic_auth is None and self.bearer_token is None:
            if len({found for _, found in parts if found}) > 1:
                raise ValueError(
                    "The URLs of the schema registry hold different users and passwords: set basic.auth.user.info for all of them."
                )
            object.__setattr__(self, "basic_auth", next((found for _, found in parts if found), None))
        if self.basic_auth is not None and self.bearer_token is not None:
            raise ValueError(
                "Both user info and a bearer token are given for the schema registry: set only one of them."
            )

    @property
    def shown_urls(self) -> str:
        """The URLs for an error text."""
        return ", ".join(self.urls)

    @property
    def in_clear_text(self) -> tuple[str, ...]:
        """The URLs to which credentials would go without encryption, over a network."""
        if self.basic_auth is None and self.bearer_token is None:
            return ()
        return tuple(
            url for url in (self.token_url, *self.urls) if url and url.startswith("http:") and not _is_loopback(url)
        )

    def masked(self, text: str) -> str:
        """The text without any of the secrets, for whatever comes back from the network."""
        password = Secret(self.basic_auth.reveal().partition(":")[2]) if self.basic_auth else None
        for secret in (self.basic_auth, password, self.bearer_token, self.client_key, self.client_key_password):
            if secret is not None and secret.reveal():
                text = text.replace(secret.reveal(), MASK)
        return text


def _without_credentials(url: str) -> tuple[str, Secret | None]:
    """The URL without a user and password, and those as `user:password`."""
    parts = urlsplit(url.strip())
    user, at, host = parts.netloc.rpartition("@")
    plain = parts._replace(netloc=host).geturl().rstrip("/")
    if "@" in plain:  # the text might be a password: it is not shown
        raise ValueError(
            "A URL of the schema registry has an @ after the host: write / ? # and @ of its password as %2F %3F %23 %40."
        )
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"{plain!r} is not a URL of a schema registry: write http://host:port or https://host:port.")
    if is_metadata_service(parts.hostname or ""):
        raise ValueError(
            f"{plain!r} is the address of a cloud's metadata service, not of a schema registry: write the registry's."
        )
    return plain, Secret(unquote(user)) if at else None


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    found = address_of(host)
    return host == "localhost" or (found is not None and found.is_loopback)
