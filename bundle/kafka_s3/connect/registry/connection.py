"""How is the schema registry reached through confluent-kafka, and what does it mean when that fails?"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

from kafka_s3.connect.registry.options import PEM_MARK, RegistryOptions
from kafka_s3.model.errors import RegistryError, RegistryUnavailable, UnknownSchema

SHOWN_CHARACTERS: Final = 300


def connect(options: RegistryOptions) -> SchemaRegistryClient:
    """confluent-kafka's client; it sends nothing yet. Raises RegistryError where certificates or credentials cannot be used."""
    # Certificates are loaded at once, so that files made from PEM text need not outlive this.
    with tempfile.TemporaryDirectory(prefix="kafka-s3-registry-") as folder:
        try:
            return SchemaRegistryClient(_configuration(options, Path(folder)))
        except (OSError, ValueError, TypeError) as error:
            reason = options.masked(str(error))
            client = f"The client of the schema registry at {options.shown_urls}"
            raise RegistryError(f"{client} cannot be set up ({reason}): check certificates and credentials.") from None


def _configuration(options: RegistryOptions, folder: Path) -> dict[str, Any]:
    configuration: dict[str, Any] = {
        "url": ",".join(options.urls),
        "timeout": options.timeout_s,
        "max.retries": options.retries,
        "retries.wait.ms": options.backoff_ms,
    }
    if options.basic_auth:
        configuration["basic.auth.user.info"] = options.basic_auth.reveal()
    if options.bearer_token:
        configuration |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": options.bearer_token.reveal().strip(),
            "bearer.auth.logical.cluster": options.logical_cluster,
        }
        if options.identity_pool:
            configuration["bearer.auth.identity.pool.id"] = options.identity_pool
    if options.ca:
        configuration["ssl.ca.location"] = _path(options.ca, folder / "ca.pem")
    if options.client_certificate:
        configuration["ssl.certificate.location"] = _path(options.client_certificate, folder / "certificate.pem")
        # Without any password OpenSSL would ask the terminal for that of an encrypted key.
        configuration["ssl.key.password"] = options.client_key_password.reveal() if options.client_key_password else ""
        if options.client_key:
            configuration["ssl.key.location"] = _path(options.client_key.reveal(), folder / "key.pem")
    return configuration


def _path(given: str, file: Path) -> str:
    """The path that was given, or that of a new file with the PEM text that was given."""
    if PEM_MARK not in given:
        return given
    file.write_text(given)
    return str(file)


def registry_error(error: Exception, what: str, *, options: RegistryOptions) -> RegistryError:
    """What a failed request for `what` means to whoever has to act on it; free of secrets."""
    registry = f"The schema registry at {options.shown_urls}"
    if isinstance(error, SchemaRegistryError):
        return _refusal(error, what, options=options)
    if _is_of(error, "TransportError"):
        cause = next((link for link in _chain(error) if isinstance(link, OSError)), None)
        reason = options.masked(f"{type(error).__name__}: {cause}" if cause else type(error).__name__)
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return RegistryError(
                f"{registry} and this client do not agree on TLS ({reason}): check the certificates and authorities."
            )
        return RegistryUnavailable(
            f"{registry} did not answer the request for {what}, tried {options.retries + 1} times ({reason})."
        )
    return RegistryError(
        f"{registry} did not answer the request for {what} as a schema registry does ({type(error).__name__}): check schema.registry.url."
    )


def _refusal(error: SchemaRegistryError, what: str, *, options: RegistryOptions) -> RegistryError:
    registry, status, code = f"The schema registry at {options.shown_urls}", error.http_status_code, error.error_code
    answer = options.masked(f"HTTP {status}, error {code}: {error.error_message}")[:SHOWN_CHARACTERS]
    if status == 404 and isinstance(code, int) and 40400 < code < 40500:
        return UnknownSchema(f"{registry} has no {what} ({answer}).")
    if status == 404:
        return RegistryError(
            f"{registry} does not know how to give {what} ({answer}): check schema.registry.url and the registry's version."
        )
    if status in (401, 403):
        return RegistryError(
            f"{registry} refused access to {what} (HTTP {status}): check basic.auth.user.info or the bearer token, and what they may read."
        )
    if status >= 500 or status in (408, 429):
        return RegistryUnavailable(f"{registry} failed at the request for {what}, after all retries ({answer}).")
    return RegistryError(f"{registry} refused the request for {what} ({answer}).")


def _is_of(error: Exception, name: str) -> bool:
    """By name, because confluent-kafka takes one of two HTTP packages and says which in a private module only."""
    return any(kind.__name__ == name for kind in type(error).__mro__)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
