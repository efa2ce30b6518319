"""How is the bucket of a configuration reached, and in which folder of it do sinks keep their state?

As a configuration says it; the folder also as it is named without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from kafka_s3 import __version__
from kafka_s3.connect.config.options.ours import STATE_PREFIX
from kafka_s3.connect.config.read import is_setting
from kafka_s3.connect.config.rules.delivery import CUSTOMER_KEY_BYTES, is_customer_key
from kafka_s3.connect.config.settings import REGION, Settings
from kafka_s3.engine.control.status import is_known, sink_names
from kafka_s3.engine.control.stored_settings import StoredConfig, plain_secrets
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.addresses import is_metadata_service
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.text import Secret
from kafka_s3.model.timing import iso_time
from kafka_s3.store.credentials import AssumedRole, Credentials, Provider
from kafka_s3.store.options import Encryption, Proxy, StoreOptions, quick
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore

METADATA: Final = "is the address of a cloud's metadata service, which hands out the machine's own credentials."
PREFIX: Final = "s3.credentials.provider."
NAME: Final = "service.credential.name"


def store_options(settings: Settings) -> StoreOptions:
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


def _credentials(settings: Settings, problems: list[Problem]) -> Credentials:
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


def credentials_of(
    provider: str, settings: Mapping[str, str | Secret], *, access_key_id: str, secret_access_key: Secret | None
) -> Credentials | tuple[Problem, ...]:
    """The credentials of a configuration, or what is wrong with it.

    `settings` are those below `s3.credentials.provider.`, with or without that prefix. Static keys count only if both are
    non-blank; they win over every provider except `assume_role`, which signs its STS request with them (SEMANTICS A1.3).
    """
    known = [name.value for name in Provider]
    if provider not in known:
        return (Problem(f"{PREFIX}class", provider, "is not a known provider.", f"Known: {', '.join(known)}."),)
    blank = not access_key_id.strip() or not (secret_access_key and secret_access_key.reveal().strip())
    texts = {
        key.removeprefix(PREFIX): value.reveal() if isinstance(value, Secret) else value
        for key, value in settings.items()
    }
    keys = ("", None) if blank else (access_key_id, secret_access_key)
    if provider == Provider.ASSUME_ROLE:
        role = _role(texts)
        return Credentials(Provider.ASSUME_ROLE, *keys, role) if isinstance(role, AssumedRole) else role
    if not blank:
        return Credentials(Provider.STATIC, *keys)
    if provider == Provider.STATIC:
        return (
            Problem(f"{PREFIX}class", provider, "needs both aws.access.key.id and aws.secret.access.key.", "Set both."),
        )
    if provider == Provider.SERVICE_CREDENTIAL:
        return _named(texts.get(NAME, "").strip())
    return Credentials(Provider(provider))


def _named(name: str) -> Credentials | tuple[Problem, ...]:
    if name:
        return Credentials(Provider.SERVICE_CREDENTIAL, service_credential=name)
    rule = "is required by the provider service_credential."
    return (Problem(f"{PREFIX}{NAME}", None, rule, "Name a service credential of Unity Catalog."),)


def _role(texts: Mapping[str, str]) -> AssumedRole | tuple[Problem, ...]:
    required = ("sts.role.arn", "sts.role.session.name", "sts.role.external.id")
    missing = [key for key in required if not texts.get(key, "").strip()]
    if missing:
        rule = "is required by the provider that assumes a role."
        return tuple(Problem(f"{PREFIX}{key}", None, rule, "Set it.") for key in missing)
    arn, session_name, external_id = (texts[key] for key in required)
    return AssumedRole(arn, session_name, Secret(external_id), texts.get("sts.region", "").strip())


def _encryption(settings: Settings, problems: list[Problem]) -> Encryption:
    algorithm, kms_key_id = (
        settings.optional_text("s3.ssea.name") or "",
        settings.optional_text("s3.sse.kms.key.id") or "",
    )
    customer_key = settings.secret("s3.sse.customer.key")
    if algorithm == "AES256" and customer_key and customer_key.reveal().strip():
        if not is_customer_key(customer_key.reveal()):
            rule = f"must be the base64 form of {CUSTOMER_KEY_BYTES} bytes."
            problems.append(
                Problem("s3.sse.customer.key", str(customer_key), rule, "`openssl rand -base64 32` makes one.")
            )
        return Encryption(algorithm, customer_key=customer_key)
    if algorithm == "aws:kms" and not kms_key_id:
        return Encryption()  # the connector sends no header then: the bucket's own default rules (SEMANTICS A1.3)
    return Encryption(algorithm, kms_key_id if algorithm.startswith("aws:kms") else "")


def _proxy(settings: Settings, problems: list[Problem]) -> Proxy | None:
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


TRIES: Final = 2
"""One request that fails is no outage."""


@dataclass(frozen=True, slots=True)
class SinkFolder:
    """A bucket, and the folder in it that holds the sinks' state."""

    bucket: str
    prefix: str
    store: ObjectStore
    endpoint: str = ""
    """The address of the store, blank for AWS."""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix.strip('/')}/"

    def paths(self, sink: str) -> StatePaths:
        return StatePaths(self.prefix, sink)

    def known(self, sink: str) -> StatePaths:
        """Where the state of a sink lies. Raises ConfigError where the bucket holds nothing of it."""
        paths = self.paths(sink)
        if not is_known(self.store, paths):
            names = ", ".join(sink_names(self.store, self.prefix))
            remedy = (
                f"Sinks there: {names}." if names else "There is no sink. Run one, or store one with kafka-s3 create."
            )
            raise ConfigError([Problem("sink", sink, f"has no state in {self}.", remedy)])
        return paths


def folder_of(settings: Settings) -> SinkFolder:
    """The bucket and state folder of resolved settings, for looks at the state: nobody waits long for a bucket that does not answer."""
    options = quick(store_options(settings), tries=TRIES)
    return SinkFolder(options.bucket, settings.text("state.prefix"), S3Store(options), options.endpoint_url or "")


def named_folder(
    bucket: str | None,
    prefix: str = STATE_PREFIX,
    *,
    region: str = REGION,
    store_url: str | None = None,
    service_credential: str | None = None,
) -> SinkFolder:
    """A bucket without a configuration: credentials are those of the surroundings, or of a service credential of Unity Catalog.

    Raises ConfigError without a name.
    """
    if not bucket:
        raise ConfigError([Problem("--bucket", None, "is needed without a configuration file.", "Or name the file.")])
    url = store_url if not store_url or "://" in store_url else f"https://{store_url}"
    by_name = Credentials(Provider.SERVICE_CREDENTIAL, service_credential=service_credential or "")
    credentials = by_name if service_credential else Credentials()
    options = StoreOptions(bucket, region=region, endpoint_url=url or None, credentials=credentials)
    return SinkFolder(bucket, prefix, S3Store(quick(options, tries=TRIES)), url or "")


def stored_config(settings: Settings, *, now_ms: int) -> StoredConfig:
    """The form in which unresolved settings may be stored. Raises ConfigError with every secret that is not a reference."""
    worker = {key: text for key, text in settings.worker.items() if is_setting(key)}
    problems = [*plain_secrets(settings.source), *plain_secrets(worker)]
    if problems:
        raise ConfigError(problems)
    return StoredConfig(settings.name, iso_time(now_ms), __version__, dict(settings.source), worker)
