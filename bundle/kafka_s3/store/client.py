"""How do the clients of one bucket follow from its options? botocore's, libcurl's connections, and those of libraries in Rust."""

from __future__ import annotations

import base64
import hashlib
import os
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from botocore import UNSIGNED
from botocore.config import Config
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies, parse_timestamp

from kafka_s3 import __version__
from kafka_s3.model.errors import StorageError
from kafka_s3.store.connections import Connections, Terms
from kafka_s3.store.credentials import Provider, careful, session_of
from kafka_s3.store.options import Encryption, Proxy, StoreOptions
from kafka_s3.store.store import Body, pieces_of

SSE = "x-amz-server-side-encryption"


def session_for(options: StoreOptions) -> Any:
    """The botocore session that holds the credentials; asks nobody for them yet."""
    session = session_of(options.credentials, region=options.region, config=plain_config(options))
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=timestamp)
    return session


def timestamp(given: Any) -> Any:
    """The time in an answer. botocore's own parser guesses its form for 0.1 ms, and a page of a listing has a thousand of them."""
    if isinstance(given, str) and "T" in given:
        with suppress(ValueError):
            return datetime.fromisoformat(given)
    return parse_timestamp(given)


def s3_client(options: StoreOptions, session: Any) -> Any:
    """A thread-safe S3 client that tries once only; connects nowhere yet."""
    client = session.create_client("s3", endpoint_url=options.endpoint_url, config=_config(options))
    client.meta.events.register("request-created.s3", _never_ask_first)
    return careful(client, options.endpoint_url, options.proxy.url if options.proxy else None)


def connections(options: StoreOptions, session: Any, url: str) -> Connections:
    """Connections like the client's own: timeouts, proxies, certificate authorities. `url` is the client's endpoint."""
    chosen = proxies(options.proxy)
    named = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
    terms = Terms(
        named or str(get_cert_path(True)),
        get_environ_proxies(url) if chosen is None else chosen,
        options.connect_timeout_s,
        options.read_timeout_s,
    )
    return Connections(terms, most=options.max_connections)


def plain_config(options: StoreOptions) -> Config:
    """Timeouts, proxies and user agent, for requests to any AWS service."""
    return Config(
        connect_timeout=options.connect_timeout_s,
        read_timeout=options.read_timeout_s,
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


def creation_headers(options: StoreOptions) -> dict[str, str]:
    """Encryption and ACL, for the requests that create an object."""
    acl = {"x-amz-acl": options.acl} if options.acl else {}
    return acl | encryption_headers(options.encryption)


def encryption_headers(encryption: Encryption) -> dict[str, str]:
    """The encryption asked for at creation; nothing where the bucket's own default is to rule."""
    if encryption.customer_key:
        return customer_key_headers(encryption)
    if not encryption.algorithm:
        return {}
    key = {f"{SSE}-aws-kms-key-id": encryption.kms_key_id} if encryption.kms_key_id else {}
    return {SSE: encryption.algorithm} | key


def customer_key_headers(encryption: Encryption) -> dict[str, str]:
    """The customer's key, which S3 forgets after each request and so needs with every part, GET and HEAD; {} without one."""
    if not encryption.customer_key:
        return {}
    key = base64.b64decode(encryption.customer_key.reveal())
    return {
        f"{SSE}-customer-algorithm": "AES256",
        f"{SSE}-customer-key": base64.b64encode(key).decode(),
        f"{SSE}-customer-key-md5": _md5(key),
    }


def digest_headers(body: Body) -> dict[str, str]:
    """The Content-MD5 of a body."""
    return {"Content-MD5": _md5(body)}


def _md5(body: Body) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for piece in pieces_of(body):
        digest.update(piece)
    return base64.b64encode(digest.digest()).decode()


def secrets_of(options: StoreOptions) -> tuple[str, ...]:
    """The texts that must not show in errors or logs."""
    held = (options.encryption.customer_key, options.proxy.password if options.proxy else None)
    return options.credentials.secrets() + tuple(secret.reveal() for secret in held if secret)


class RustOptions:
    """Makes the storage options anew at each call, so that credentials that expire are those of the moment; its text form shows none."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._session = session_of(options.credentials, region=options.region, config=plain_config(options))

    def __call__(self) -> dict[str, str]:
        """The options of `object_store`. Raises StorageError where there are no credentials."""
        options = self._options
        found = {
            "aws_region": options.region,
            "aws_virtual_hosted_style_request": "false" if options.path_style else "true",
            "aws_conditional_put": "etag",
            **self._credentials(),
            **_encryption(options.encryption),
            **_proxy(options.proxy),
        }
        if options.endpoint_url:
            found |= {"aws_endpoint_url": options.endpoint_url}
            found |= {"aws_allow_http": "true"} if options.endpoint_url.startswith("http://") else {}
        return found

    def _credentials(self) -> dict[str, str]:
        if self._options.credentials.provider is Provider.ANONYMOUS:
            return {"aws_skip_signature": "true"}
        held = self._session.get_credentials()
        if held is None:
            raise StorageError(
                "No S3 credentials were found for the Delta table. Set aws.access.key.id and its secret."
            )
        frozen = held.get_frozen_credentials()
        pair = {"aws_access_key_id": frozen.access_key, "aws_secret_access_key": frozen.secret_key}
        return pair | ({"aws_session_token": frozen.token} if frozen.token else {})


def _encryption(encryption: Encryption) -> dict[str, str]:
    if encryption.customer_key:
        return {"aws_server_side_encryption": "sse-c", "aws_sse_customer_key_base64": encryption.customer_key.reveal()}
    if not encryption.algorithm:
        return {}
    key = {"aws_sse_kms_key_id": encryption.kms_key_id} if encryption.kms_key_id else {}
    return {"aws_server_side_encryption": encryption.algorithm} | key


def _proxy(proxy: Proxy | None) -> dict[str, str]:
    """The proxy's user and password are part of its address here."""
    found = proxies(proxy)
    return {"proxy_url": found["https"]} if found else {}
