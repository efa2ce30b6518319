"""How does a configuration reach its schema registry? Converter settings in, options of the registry client out."""

from __future__ import annotations

from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.registry.options import Framing, RegistryOptions
from kafka_s3.model.text import Secret

WIDTHS: Final = {"8": Framing.APICURIO_8, "4": Framing.APICURIO_4, "either": Framing.APICURIO_EITHER}
CONTENT_IDS, GLOBAL_IDS = "contentIds", "globalIds"


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


def apicurio_options(settings: Settings, converter: str) -> RegistryOptions:
    """How `key.converter` or `value.converter` reaches Apicurio. Raises ValueError where its settings do not go together.

    With a token endpoint, client id and secret get a token there; else user and password go with every request.
    """
    token_url = _apicurio(settings, converter, "service.token.endpoint")
    name, password = ("client.id", "client.secret") if token_url else ("username", "password")
    user, secret = _apicurio(settings, converter, name), _apicurio(settings, converter, password)
    if bool(user) != bool(secret) or (token_url and not user):
        raise ValueError(f"needs both apicurio.registry.auth.{name} and apicurio.registry.auth.{password}.")
    url = settings.text(f"{converter}.apicurio.registry.url").rstrip("/")
    if not url.endswith(("/v2", "/v3")):
        raise ValueError("must end in /apis/registry/v2 or /apis/registry/v3, which say how schemas are asked for.")
    return RegistryOptions(
        urls=(url,),
        basic_auth=Secret(f"{user}:{secret}") if user else None,
        token_url=token_url or None,
        scope=_apicurio(settings, converter, "client.scope"),
        cache_size=settings.number(f"{converter}.schemas.cache.config"),
    )


def apicurio_framing(settings: Settings, converter: str) -> Framing:
    """How many bytes an id has; where nothing says so, as the version of the interface suggests: 8 with version 2, else 4."""
    if settings.flag(f"{converter}.apicurio.registry.as-confluent"):
        return Framing.APICURIO_4
    given = settings.text(f"{converter}.apicurio.registry.id-handler")
    return WIDTHS[given or ("8" if _is_version_2(settings, converter) else "4")]


def apicurio_ids(settings: Settings, converter: str) -> str:
    """Which ids records carry: `globalIds` or `contentIds`, as in the path of a request."""
    names = (f"{converter}.apicurio.{name}" for name in ("registry.use-id", "use-id"))
    given = next(
        filter(None, map(settings.text, names)), "globalId" if _is_version_2(settings, converter) else "contentId"
    )
    return CONTENT_IDS if given == "contentId" else GLOBAL_IDS


def _is_version_2(settings: Settings, converter: str) -> bool:
    return settings.text(f"{converter}.apicurio.registry.url").rstrip("/").endswith("/v2")


def _apicurio(settings: Settings, converter: str, name: str) -> str:
    """A setting of the login, by the name of version 3, else by that of version 2; secrets revealed."""
    for prefix in ("registry.auth.", "auth."):
        key = f"{converter}.apicurio.{prefix}{name}"
        secret = settings.secret(key) if name.endswith(("secret", "password")) else None
        found = secret.reveal() if secret else settings.text(key)
        if found:
            return found
    return ""
