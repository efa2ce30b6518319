"""Which registry does a converter ask, and how do its records name their schemas?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from kafka_s3.connect.config.classes import CONFLUENT_CONVERTERS, CONVERTERS, GLUE_CONVERTERS, REGISTRY_CONVERTERS
from kafka_s3.connect.config.registry import apicurio_framing, apicurio_ids, apicurio_options, registry_options
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.registry.options import Framing
from kafka_s3.connect.schemas.registered import Language, SchemaRegistry

if TYPE_CHECKING:
    from kafka_s3.connect.registry.glue import GlueOptions

COMPONENTS: Final = {
    ours: java for java, ours in CONVERTERS.items() if ours in REGISTRY_CONVERTERS - CONFLUENT_CONVERTERS
}
"""Whom dead letters name, where it is not Confluent's converter."""


class OpenRegistry(SchemaRegistry, Protocol):
    """A registry that is closed when done."""

    def close(self) -> None:
        """Closes the connections."""
        ...


def registry_of(
    settings: Settings, converter: str, *, timeout_s: float | None = None, retries: int | None = None
) -> tuple[OpenRegistry, str]:
    """The registry of `key.converter` or `value.converter`, and its address for a report; it is asked nothing yet.

    Raises ValueError where its settings do not go together. A registry's packages are imported where it is used.
    """
    limits = {"timeout_s": timeout_s, "retries": retries} if timeout_s is not None else {}
    match settings.text(converter):
        case name if name in GLUE_CONVERTERS:
            from kafka_s3.connect.registry.glue import GlueRegistry

            glue = glue_options(settings, converter)
            if timeout_s is not None:
                glue = replace(glue, timeout_s=timeout_s, attempts=1 + (retries or 0))
            return GlueRegistry(glue), glue.shown_urls
        case "apicurio_avro":
            from kafka_s3.connect.registry.apicurio import ApicurioOptions, ApicurioRegistry

            http = replace(apicurio_options(settings, converter), **limits)  # type: ignore[arg-type]
            asked = ApicurioOptions(http, apicurio_ids(settings, converter), Language.AVRO)
            return ApicurioRegistry(asked), http.shown_urls
        case _:
            from kafka_s3.connect.registry.client import RegistryClient

            options = replace(registry_options(settings, converter), **limits)  # type: ignore[arg-type]
            return RegistryClient(options), options.shown_urls


def framing_of(settings: Settings, converter: str) -> Framing:
    """Where the records of a converter name their schemas."""
    match settings.text(converter):
        case name if name in GLUE_CONVERTERS:
            return Framing.GLUE
        case "apicurio_avro":
            return apicurio_framing(settings, converter)
        case _:
            return Framing.CONFLUENT


def glue_options(settings: Settings, converter: str) -> GlueOptions:
    """How AWS Glue is reached: by AWS's default chain, as in Connect, or by the bucket's service credential of Unity Catalog.

    Raises ValueError where no region is known.
    """
    from kafka_s3.connect.registry.glue import GlueOptions
    from kafka_s3.store.credentials import Credentials, Provider, default_region
    from kafka_s3.store.options import store_options

    region = settings.text(f"{converter}.region") or default_region()
    if not region:
        raise ValueError("names no region of AWS Glue: set it, or AWS_REGION.")
    bucket = store_options(settings).credentials
    return GlueOptions(
        region,
        endpoint=settings.text(f"{converter}.endpoint") or None,
        credentials=bucket if bucket.provider is Provider.SERVICE_CREDENTIAL else Credentials(),
        proxy=settings.text(f"{converter}.proxyUrl") or None,
        cache_size=settings.number(f"{converter}.cacheSize"),
    )
