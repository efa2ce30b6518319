"""What of an error may be written into the bucket? Its text if it is the product's own, and never a secret of the settings."""

from __future__ import annotations

from collections.abc import Callable

from kafka_s3.config.option import shown
from kafka_s3.config.secret import MASK, Secret
from kafka_s3.config.settings import Settings
from kafka_s3.errors import SinkError


def reason_of(error: Exception) -> str:
    """An error's text where it is the product's own and so free of secrets; of others the kind only."""
    if isinstance(error, SinkError):
        return f"{type(error).__name__}: {error}"
    return (
        f"{type(error).__name__}, which is not an error of the product's own. Its text is in the output of the process."
    )


def masking(settings: Settings) -> Callable[[str], str]:
    """Takes the secrets of resolved settings out of texts, should one be in them all the same."""
    secrets = {value.reveal() for value in settings.values.values() if isinstance(value, Secret)}
    secrets |= {shown(settings.values[key]) for key in settings.concealed if key in settings.values}
    ordered = sorted((text for text in secrets if len(text.strip()) > 3 and text != MASK), key=len, reverse=True)

    def mask(text: str) -> str:
        for secret in ordered:
            text = text.replace(secret, MASK)
        return text

    return mask
