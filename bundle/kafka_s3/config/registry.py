"""How does a configuration reach its schema registry? Converter settings in, options of the registry client out."""

from __future__ import annotations

from kafka_s3.config.settings import Settings
from kafka_s3.model.secret import Secret
from kafka_s3.registry.options import RegistryOptions


def registry_options(settings: Settings, converter: str) -> RegistryOptions:
    """The options of `key.converter` or `value.converter`. Raises ValueError where they do not go together."""

    def text(name: str) -> str:
        return settings.text(f"{converter}.{name}")

    def secret(name: str) -> Secret | None:
        found = settings.secret(f"{converter}.{name}")
        return found if found is not None and found.reveal() else None

    ssl = "schema.registry.ssl."
    by_user_info = text("basic.auth.credentials.source") == "USER_INFO"
    user_info = secret("basic.auth.user.info") or secret("schema.registry.basic.auth.user.info")
    by_token = text("bearer.auth.credentials.source") == "STATIC_TOKEN"
    return RegistryOptions(
        urls=tuple(url for url in settings.names(f"{converter}.schema.registry.url") if url),
        basic_auth=user_info if by_user_info else None,
        bearer_token=secret("bearer.auth.token") if by_token else None,
        logical_cluster=text("bearer.auth.logical.cluster"),
        identity_pool=text("bearer.auth.identity.pool.id") or None,
        ca=text(f"{ssl}truststore.certificates") or text(f"{ssl}truststore.location") or None,
        client_certificate=text(f"{ssl}keystore.certificate.chain") or text(f"{ssl}keystore.location") or None,
        client_key=secret(f"{ssl}keystore.key"),
        client_key_password=secret(f"{ssl}key.password"),
        cache_size=settings.number(f"{converter}.schemas.cache.config"),
    )
