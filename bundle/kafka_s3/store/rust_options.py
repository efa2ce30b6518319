"""How does a client in Rust (the `object_store` library, as in delta-rs) reach the bucket of the same options?"""

from __future__ import annotations

from kafka_s3.model.errors import StorageError
from kafka_s3.store.client import plain_config, proxies
from kafka_s3.store.credentials import Provider, session_of
from kafka_s3.store.options import Encryption, Proxy, StoreOptions


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
