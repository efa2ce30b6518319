"""What of an error may be written into the bucket? Its text if it is the product's own, and never a secret of the settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kafka_s3.connect.config.jaas import read_login
from kafka_s3.connect.config.option import sensitive, shown
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.valid_values import InvalidValue
from kafka_s3.model.errors import SinkError
from kafka_s3.model.text import MASK, Secret

PUBLIC: Final = (
    "username", "clientId", "scope", "awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsStsRegion", "awsRoleAccessKeyId",
    "awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs",
)  # fmt: skip
_IN_URL: Final = re.compile(r"//[^/@\s:]*:([^/@\s]+)@")


def reason_of(error: Exception) -> str:
    """An error's text where it is the product's own and so free of secrets; of others the kind only."""
    if isinstance(error, SinkError):
        return f"{type(error).__name__}: {error}"
    return (
        f"{type(error).__name__}, which is not an error of the product's own. Its text is in the output of the process."
    )


def _inside(text: str) -> set[str]:
    """What is secret by itself in a secret that has parts: the options of a login, and the password of `user:password`."""
    if ";" in text and "=" in text:
        try:
            return {value.reveal() for name, value in read_login(text).options.items() if name not in PUBLIC}
        except InvalidValue:
            return set()
    return {text.partition(":")[2]} if text.count(":") == 1 else set()


def masking(settings: Settings) -> Callable[[str], str]:
    """Takes the secrets of resolved settings out of texts, should one be in them all the same."""
    secrets = set[str]()
    for key, value in settings.values.items():
        text = value.reveal() if isinstance(value, Secret) else shown(value)
        if isinstance(value, Secret) or key in settings.concealed or sensitive(key):
            secrets |= {text, *_inside(text)}
        secrets |= set(_IN_URL.findall(text))
    ordered = sorted((text for text in secrets if len(text.strip()) > 3 and text != MASK), key=len, reverse=True)

    def mask(text: str) -> str:
        for secret in ordered:
            text = text.replace(secret, MASK)
        return text

    return mask
