"""Whose credentials sign the requests, and how does botocore find them?

Provider names are the canonical ones; Java class names are mapped to them by `kafka_s3.connect.config.classes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, DeferredRefreshableCredentials
from botocore.credentials import Credentials as BotoCredentials
from botocore.loaders import Loader, create_loader

from kafka_s3.model.errors import Problem
from kafka_s3.model.text import Secret
from kafka_s3.store.service_credential import service_credentials

PREFIX = "s3.credentials.provider."
NAME = "service.credential.name"


class Provider(StrEnum):
    """Where credentials come from."""

    DEFAULT = "default"
    STATIC = "static"
    ENVIRONMENT = "environment"
    PROFILE = "profile"
    INSTANCE = "instance"
    CONTAINER = "container"
    WEB_IDENTITY = "web_identity"
    ANONYMOUS = "anonymous"
    ASSUME_ROLE = "assume_role"
    SERVICE_CREDENTIAL = "service_credential"


@dataclass(frozen=True, slots=True)
class AssumedRole:
    """The role to assume; `region` is that of STS (empty: the session's), an empty `external_id` is not sent."""

    arn: str
    session_name: str
    external_id: Secret
    region: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A provider with what it needs: keys for `static`, a role (and perhaps base keys) for `assume_role`, the name of a credential.

    `profile` names one of AWS's shared files, where it is not that of the environment.
    """

    provider: Provider = Provider.DEFAULT
    access_key_id: str = ""
    secret_access_key: Secret | None = None
    role: AssumedRole | None = None
    service_credential: str = ""
    profile: str = ""

    def secrets(self) -> tuple[str, ...]:
        """The texts that must not show in errors or logs."""
        held = (self.secret_access_key, self.role.external_id if self.role else None)
        return tuple(secret.reveal() for secret in held if secret)


_METHODS: Mapping[Provider, frozenset[str]] = {
    Provider.ENVIRONMENT: frozenset({"env"}),
    Provider.PROFILE: frozenset(
        {"shared-credentials-file", "config-file", "custom-process", "assume-role", "sso", "login"}
    ),
    Provider.INSTANCE: frozenset({"iam-role"}),
    Provider.CONTAINER: frozenset({"container-role"}),
    Provider.WEB_IDENTITY: frozenset({"assume-role-with-web-identity"}),
}


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
    keys = ("", None) if blank else (access_key_id, secret_access_key)
    if provider == Provider.ASSUME_ROLE:
        role = _role({key.removeprefix(PREFIX): value for key, value in settings.items()})
        return Credentials(Provider.ASSUME_ROLE, *keys, role) if isinstance(role, AssumedRole) else role
    if not blank:
        return Credentials(Provider.STATIC, *keys)
    if provider == Provider.STATIC:
        return (
            Problem(f"{PREFIX}class", provider, "needs both aws.access.key.id and aws.secret.access.key.", "Set both."),
        )
    if provider == Provider.SERVICE_CREDENTIAL:
        return _named({key.removeprefix(PREFIX): value for key, value in settings.items()})
    return Credentials(Provider(provider))


def _named(settings: Mapping[str, str | Secret]) -> Credentials | tuple[Problem, ...]:
    given = settings.get(NAME, "")
    name = (given.reveal() if isinstance(given, Secret) else given).strip()
    if name:
        return Credentials(Provider.SERVICE_CREDENTIAL, service_credential=name)
    rule = "is required by the provider service_credential."
    return (Problem(f"{PREFIX}{NAME}", None, rule, "Name a service credential of Unity Catalog."),)


def _role(settings: Mapping[str, str | Secret]) -> AssumedRole | tuple[Problem, ...]:
    required = ("sts.role.arn", "sts.role.session.name", "sts.role.external.id")
    texts = {key: value.reveal() if isinstance(value, Secret) else value for key, value in settings.items()}
    missing = [key for key in required if not texts.get(key, "").strip()]
    if missing:
        rule = "is required by the provider that assumes a role."
        return tuple(Problem(f"{PREFIX}{key}", None, rule, "Set it.") for key in missing)
    arn, session_name, external_id = (texts[key] for key in required)
    return AssumedRole(arn, session_name, Secret(external_id), texts.get("sts.region", "").strip())


def session_of(credentials: Credentials, *, region: str, config: Config) -> Any:
    """A botocore session that signs with these credentials; `config` (timeouts, proxies) is for its requests to STS.

    No request is sent before credentials are needed.
    """
    inner = botocore.session.Session(profile=credentials.profile or None)
    inner.set_config_variable("region", region)
    inner.lazy_register_component("data_loader", lambda: _models(inner.get_config_variable("data_path")))
    if credentials.role:
        renew = _renewal(credentials, credentials.role, region=region, config=config)
        _only(inner, _Held(lambda: DeferredRefreshableCredentials(renew, method="sts-assume-role")))
    elif credentials.secret_access_key:
        pair = (credentials.access_key_id, credentials.secret_access_key.reveal())
        _only(inner, _Held(lambda: BotoCredentials(*pair)))
    elif credentials.service_credential:
        _only(inner, _Held(lambda: service_credentials(credentials.service_credential)))
    elif credentials.provider in _METHODS:
        wanted = _METHODS[credentials.provider]
        chain = inner.get_component("credential_provider").providers
        _only(inner, *(provider for provider in chain if provider.METHOD in wanted))
    return inner


def load_models() -> None:
    """Reads from disk what botocore knows of S3, for all sessions of this process and of those that are forked from it."""
    models = _models(None)
    for service in ("service-2", "endpoint-rule-set-1"):
        models.load_service_model("s3", service)
    for name in ("endpoints", "partitions", "sdk-default-configuration"):
        models.load_data(name)


@cache
def _models(folders: str | None) -> Loader:
    """What all sessions of the process share: reading it again takes nine tenths of what a client costs."""
    return create_loader(folders)


@dataclass(frozen=True, slots=True)
class _Held:
    """A provider, as botocore's resolver wants it, of credentials that are known already."""

    load: Callable[[], Any]
    METHOD = "kafka-s3"


class Signing(CredentialProvider):
    """Credentials in the form in which libraries that sign for other services of AWS ask botocore for them."""

    METHOD = "kafka-s3"

    def __init__(self, credentials: Credentials, *, region: str) -> None:
        super().__init__()
        self._session = session_of(credentials, region=region, config=Config())

    def load(self) -> Any:
        """The credentials by botocore's own type, None where there are none. Raises botocore's errors."""
        return self._session.get_credentials()


def default_region() -> str:
    """The region of the environment or of AWS's shared files, blank where there is none."""
    return botocore.session.Session().get_config_variable("region") or ""


def _only(session: Any, *providers: Any) -> None:
    session.register_component("credential_provider", CredentialResolver(list(providers)))


def _renewal(
    credentials: Credentials, role: AssumedRole, *, region: str, config: Config
) -> Callable[[], dict[str, str]]:
    base = Credentials(access_key_id=credentials.access_key_id, secret_access_key=credentials.secret_access_key)
    external = {"ExternalId": role.external_id.reveal()} if role.external_id.reveal() else {}

    def renew() -> dict[str, str]:
        sts = session_of(base, region=role.region or region, config=config).create_client("sts", config=config)
        try:
            answer = sts.assume_role(RoleArn=role.arn, RoleSessionName=role.session_name, **external)["Credentials"]
        finally:
            sts.close()
        return {
            "access_key": answer["AccessKeyId"],
            "secret_key": answer["SecretAccessKey"],
            "token": answer["SessionToken"],
            "expiry_time": answer["Expiration"].isoformat(),
        }

    return renew
