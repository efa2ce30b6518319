"""Settings of a sink's S3 side out of a dictionary of texts."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_s3.model.text import Secret
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.options import StoreOptions

DEFAULTS = {
    "s3.bucket.name": "bucket",
    "s3.region": "us-west-2",
    "s3.path.style.access.enabled": "true",
    "s3.wan.mode": "false",
    "s3.part.retries": "3",
    "s3.retry.backoff.ms": "200",
    "s3.send.digest": "false",
    "s3.http.send.expect.continue": "true",
}

ROLE = {
    "s3.credentials.provider.class": "assume_role",
    "s3.credentials.provider.sts.role.arn": "arn:aws:iam::123456789012:role/sink",
    "s3.credentials.provider.sts.role.session.name": "session",
    "s3.credentials.provider.sts.role.external.id": "ext-1",
}

STATIC = {"aws.access.key.id": "AKIA", "aws.secret.access.key": "very-secret"}


class Given:
    """Settings out of a dictionary of texts."""

    def __init__(self, changes: Mapping[str, str]) -> None:
        self._texts = DEFAULTS | changes

    def text(self, key: str) -> str:
        return self._texts[key]

    def optional_text(self, key: str) -> str | None:
        return self._texts.get(key)

    def number(self, key: str) -> int:
        return int(self._texts[key])

    def flag(self, key: str) -> bool:
        return self._texts[key] == "true"

    def secret(self, key: str) -> Secret | None:
        return Secret(self._texts[key]) if key in self._texts else None

    def prefixed(self, prefix: str) -> dict[str, str | Secret]:
        return {key: text for key, text in self._texts.items() if key.startswith(prefix)}


def options(changes: Mapping[str, str] | None = None) -> StoreOptions:
    return store_options(Given(changes or {}))
