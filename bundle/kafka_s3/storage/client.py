"""How is a boto3 client for one bucket built, and what goes with every request of a kind? Pure wiring, no decisions about failures."""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import quote

from botocore import UNSIGNED
from botocore.config import Config
from botocore.utils import determine_content_length

from kafka_s3 import __version__
from kafka_s3.storage.credentials import Provider, session_of
from kafka_s3.storage.options import Encryption, Proxy, StoreOptions

EXPECT_FROM_BYTES = 1 << 20
"""A request asks first (`Expect: 100-continue`) from this size on, as the AWS SDK does: below, the body costs less than the wait."""

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60


def s3_client(options: StoreOptions) -> Any:
    """A thread-safe S3 client that tries once only; connects nowhere yet."""
    config = _config(options)
    session = session_of(options.credentials, region=options.region, config=plain_config(options))
    client = session.client("s3", endpoint_url=options.endpoint_url, config=config)
    client.meta.events.register(
        "request-created.s3", _ask_first_if_large if options.expect_continue else _never_ask_first
    )
    return client


def plain_config(options: StoreOptions) -> Config:
    """Timeouts, proxies and user agent, for requests to any AWS service."""
    return Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        proxies=proxies(options.proxy),
        user_agent_extra=f"kafka-s3/{__version__}",
    )


def _config(options: StoreOptions) -> Config:
    special = {"signature_version": UNSIGNED} if options.credentials.provider is Provider.ANONYMOUS else {}
    path_style = options.path_style and not options.accelerate
    wanted = Config(
        s3={"addressing_style": "path" if path_style else "virtual", "use_accelerate_endpoint": options.accelerate},
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=options.max_connections,
        tcp_keepalive=True,
        # the newer checksum trailers are unknown to many S3-compatible services; the signature covers the body anyway
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        **special,
    )
    return plain_config(options).merge(wanted)


def proxies(proxy: Proxy | None) -> dict[str, str] | None:
    """Both schemes through the proxy; None leaves the choice to the environment (HTTPS_PROXY, NO_PROXY)."""
    if proxy is None:
        return None
    scheme, _, address = proxy.url.partition("://")
    if proxy.user:
        password = quote(proxy.password.reveal(), safe="") if proxy.password else ""
        address = f"{quote(proxy.user, safe='')}:{password}@{address}"
    return {name: f"{scheme}://{address}" for name in ("http", "https")}


def _never_ask_first(request: Any, **_: Any) -> None:
    # botocore asks with every body, and has no option against it
    del request.headers["Expect"]


def _ask_first_if_large(request: Any, **_: Any) -> None:
    if (determine_content_length(request.data) or 0) < EXPECT_FROM_BYTES:
        _never_ask_first(request)


def creation_fields(options: StoreOptions) -> dict[str, Any]:
    """Encryption and ACL, for the requests that create an object."""
    acl = {"ACL": options.acl} if options.acl else {}
    return acl | encryption_fields(options.encryption)


def encryption_fields(encryption: Encryption) -> dict[str, Any]:
    """The encryption asked for at creation; nothing where the bucket's own default is to rule."""
    if encryption.customer_key:
        return customer_key_fields(encryption)
    if not encryption.algorithm:
        return {}
    key = {"SSEKMSKeyId": encryption.kms_key_id} if encryption.kms_key_id else {}
    return {"ServerSideEncryption": encryption.algorithm} | key


def customer_key_fields(encryption: Encryption) -> dict[str, Any]:
    """The customer's key, which S3 forgets after each request and so needs with every part, GET and HEAD; {} without one."""
    if not encryption.customer_key:
        return {}
    # boto3 takes the bytes, and adds base64 and the digest itself
    return {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": base64.b64decode(encryption.customer_key.reveal())}


def digest_fields(data: bytes) -> dict[str, str]:
    """The Content-MD5 of a body."""
    return {"ContentMD5": base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()}


def secrets_of(options: StoreOptions) -> tuple[str, ...]:
    """The texts that must not show in errors or logs."""
    held = (options.encryption.customer_key, options.proxy.password if options.proxy else None)
    return options.credentials.secrets() + tuple(secret.reveal() for secret in held if secret)
