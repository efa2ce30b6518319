"""Whose credentials sign the requests to AWS? One boto3 session finds them, renews them, and makes the clients of all services.

What boto3 finds without being configured is what the AWS command line finds: the environment, profiles with their roles, SSO logins and
credential processes, containers, instances. The data plane signs with the keys of the same session, so that a role is assumed, a login used
and a process started once for all of S3, STS, Glue, SNS and SQS. What boto3 has no name for (a client's settings, chains of providers,
models) is taken from botocore here; elsewhere its typed errors alone are imported.

Provider names are the canonical ones; Java class names are mapped to them by `connect.config.classes`. A service credential of Unity
Catalog gives keys for an hour at a time: inside a task of Spark by the platform's own provider, because tasks have no identity with which
to ask the workspace; everywhere else (driver, dashboard, a laptop) the workspace is asked.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import cache
from typing import Any, Final
from weakref import WeakValueDictionary

import boto3
import botocore.session
from botocore import UNSIGNED as UNSIGNED
from botocore.config import Config as Config
from botocore.credentials import CredentialProvider, CredentialResolver, DeferredRefreshableCredentials
from botocore.credentials import Credentials as Keys
from botocore.exceptions import CredentialRetrievalError, EndpointConnectionError
from botocore.loaders import Loader, create_loader

from kafka_s3.model.addresses import ForbiddenAddress, check_url
from kafka_s3.model.text import Secret


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


class AwsSession:
    """A boto3 session that signs with some credentials, and whose clients may be made by several threads. Asks nobody by itself."""

    def __init__(self, credentials: Credentials, *, region: str, config: Config) -> None:
        inner = botocore.session.Session(profile=credentials.profile or None)
        inner.lazy_register_component("data_loader", lambda: _models(inner.get_config_variable("data_path")))
        inner.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=timestamp)
        _provide(inner, credentials, region=region, config=config)
        self.boto = boto3.Session(botocore_session=inner, region_name=region or None)
        self._inner, self._lock = inner, threading.Lock()
        folders = inner.get_component("data_loader").search_paths
        folders[:] = dict.fromkeys(folders)  # the loader is shared, and each boto3 session adds its own folder

    def client(self, service: str, *urls: str | None, config: Config, region: str | None = None) -> Any:
        """A client of a service, safe for threads. The first of `urls` is its address, None for AWS's own; no request is sent.

        Nor is one later, while the name in one of these addresses leads to a cloud's metadata service.
        """
        address = urls[0] if urls else None
        make: Any = self.boto.client  # its types know a service by its literal name only
        with self._lock:  # boto3's clients are safe for threads, making one is not
            made = make(service, region_name=region, endpoint_url=address, config=config)
        return _careful(made, *urls)

    def credentials(self) -> Any:
        """What signs now, by botocore's own type, which renews itself; None where there is nothing. Raises botocore's errors."""
        return self.boto.get_credentials()

    def authorities(self) -> str | None:
        """The file of certificate authorities that AWS_CA_BUNDLE or the profile name, or REQUESTS_CA_BUNDLE."""
        return self._inner.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")


_sessions: WeakValueDictionary[Hashable, AwsSession] = WeakValueDictionary()
_making = threading.Lock()


def session_of(credentials: Credentials, *, region: str, config: Config | None = None) -> AwsSession:
    """The session of this process for these credentials; `config` (timeouts, proxies) is for its requests to STS.

    Stores and clients of one sink have the same one, and so the same keys. One that nobody uses any more is forgotten, so that a profile
    that was edited since counts. Asks nobody yet.
    """
    surroundings = frozenset(pair for pair in os.environ.items() if pair[0].startswith("AWS_"))
    config = config or Config()
    options: Any = config  # its types do not know its options
    proxies = frozenset((options.proxies or {}).items())
    key = (os.getpid(), surroundings, credentials, region, options.connect_timeout, options.read_timeout, proxies)
    with _making:
        found = _sessions.get(key)
        if found is None:
            found = _sessions[key] = AwsSession(credentials, region=region, config=config)
        return found


def _provide(inner: Any, credentials: Credentials, *, region: str, config: Config) -> None:
    """Has the session use these credentials alone, where they are not to be found by all of boto3's own ways."""
    if credentials.role:
        renew = _renewal(credentials, credentials.role, region=region, config=config)
        _only(inner, _Held(lambda: DeferredRefreshableCredentials(renew, method="sts-assume-role")))
    elif credentials.secret_access_key:
        pair = (credentials.access_key_id, credentials.secret_access_key.reveal())
        _only(inner, _Held(lambda: Keys(*pair)))
    elif credentials.service_credential:
        _only(inner, _Held(lambda: service_credentials(credentials.service_credential)))
    elif credentials.provider in _METHODS:
        wanted = _METHODS[credentials.provider]
        chain = inner.get_component("credential_provider").providers
        _only(inner, *(provider for provider in chain if provider.METHOD in wanted))


def _only(inner: Any, *providers: Any) -> None:
    inner.register_component("credential_provider", CredentialResolver(list(providers)))


@dataclass(frozen=True, slots=True)
class _Held:
    """A provider, as botocore's resolver wants it, of credentials that are known already."""

    load: Callable[[], Any]
    METHOD = "kafka-s3"


def load_models() -> None:
    """Reads from disk what boto3 knows of S3, for all sessions of this process and of those that are forked from it."""
    importlib.import_module("boto3.s3.inject")  # the first client of S3 would
    models = _models(None)
    for service in ("service-2", "endpoint-rule-set-1"):
        models.load_service_model("s3", service)
    for name in ("endpoints", "partitions", "sdk-default-configuration"):
        models.load_data(name)


@cache
def _models(folders: str | None) -> Loader:
    """What all sessions of the process share: reading it again takes nine tenths of what a client costs."""
    return create_loader(folders)


def timestamp(given: Any) -> datetime:
    """The time in an answer. botocore's own parser guesses its form for 0.1 ms, and a page of a listing has a thousand of them.

    Raises ValueError.
    """
    if isinstance(given, str) and "T" in given:
        with suppress(ValueError):
            return datetime.fromisoformat(given)
    with suppress(ValueError):
        return datetime.fromtimestamp(float(given), UTC)
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        return parsedate_to_datetime(given)


class Signing(CredentialProvider):
    """Credentials in the form in which libraries that sign for other services of AWS ask botocore for them."""

    METHOD = "kafka-s3"

    def __init__(self, credentials: Credentials, *, region: str) -> None:
        super().__init__()
        self._session = session_of(credentials, region=region)

    def load(self) -> Any:
        """The credentials by botocore's own type, None where there are none. Raises botocore's errors."""
        return self._session.credentials()


def default_region() -> str:
    """The region of the environment or of AWS's shared files, blank where there is none."""
    return boto3.Session().region_name or ""


def _renewal(
    credentials: Credentials, role: AssumedRole, *, region: str, config: Config
) -> Callable[[], dict[str, str]]:
    base = Credentials(access_key_id=credentials.access_key_id, secret_access_key=credentials.secret_access_key)
    external = {"ExternalId": role.external_id.reveal()} if role.external_id.reveal() else {}

    def renew() -> dict[str, str]:
        sts = session_of(base, region=role.region or region, config=config).client("sts", config=config)
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


ATTEMPTS: Final = 4
TIMEOUT_S: Final = 30


def patient_config(proxy: str | None = None, *, attempts: int = ATTEMPTS, timeout_s: float = TIMEOUT_S) -> Config:
    """For clients of services that are asked rarely: a request that failed for a moment is tried again."""
    return Config(
        connect_timeout=timeout_s,
        read_timeout=timeout_s,
        proxies={"http": proxy, "https": proxy} if proxy else None,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )


def _careful(client: Any, *urls: str | None) -> Any:
    named = [url for url in urls if url]

    def check(**_: Any) -> None:
        for url in named:
            try:
                check_url(url)
            except ForbiddenAddress as error:
                raise EndpointConnectionError(endpoint_url=f"{url} ({error})") from None

    if named:
        client.meta.events.register("before-send", check)
    return client


METHOD = "service-credential"
NEEDED: Final = "service credentials need the package databricks-sdk: pip install 'kafka-s3[databricks]'"


def service_credentials(name: str) -> Any:
    """Credentials for botocore that renew themselves. Asks nobody yet, but for the platform's provider in a task."""
    return _of_a_task(name) or DeferredRefreshableCredentials(lambda: _from_the_workspace(name), method=METHOD)


def _of_a_task(name: str) -> Any:
    """None where the platform has no such provider, or has it only in name."""
    try:
        from databricks.service_credentials import getServiceCredentialsProvider
    except ImportError:
        return None
    try:
        return getServiceCredentialsProvider(name).get_credentials()
    except Exception:
        return None  # it is for tasks only; the workspace's own answer says more than its error


def _from_the_workspace(name: str) -> dict[str, str]:
    try:
        from databricks.sdk import WorkspaceClient

        answer = WorkspaceClient().credentials.generate_temporary_service_credential(name)
    except ImportError:
        raise CredentialRetrievalError(provider=METHOD, error_msg=NEEDED) from None
    except Exception as error:  # of many kinds; its text may hold what was sent
        refused = f"the workspace gave no keys for the service credential {name} ({type(error).__name__})"
        reason = f"{refused}: check its name and the ACCESS right"
        raise CredentialRetrievalError(provider=METHOD, error_msg=reason) from None
    keys = answer.aws_temp_credentials
    if keys is None or not keys.access_key_id or not keys.secret_access_key or answer.expiration_time is None:
        reason = f"the service credential {name} holds no AWS role: make one for AWS"
        raise CredentialRetrievalError(provider=METHOD, error_msg=reason)
    return {
        "access_key": keys.access_key_id,
        "secret_key": keys.secret_access_key,
        "token": keys.session_token or "",
        "expiry_time": datetime.fromtimestamp(answer.expiration_time / 1000, UTC).isoformat(),
    }
