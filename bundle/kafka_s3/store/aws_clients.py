"""How are AWS's other services reached? With the credentials of S3, through botocore."""

from __future__ import annotations

from typing import Any, Final

from botocore.config import Config
from botocore.exceptions import EndpointConnectionError

from kafka_s3.model.addresses import ForbiddenAddress, check_url
from kafka_s3.store.credentials import Credentials, session_of

ATTEMPTS: Final = 4
TIMEOUT_S: Final = 30


def aws_client(service: str, *, region: str, endpoint_url: str | None, credentials: Credentials) -> Any:
    """Botocore's client of a service; it tries a request that failed for a moment again. No request is sent."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS}, connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S
    )
    session = session_of(credentials, region=region, config=Config())
    return careful(session.create_client(service, endpoint_url=endpoint_url, config=config), endpoint_url)


def careful(client: Any, *urls: str | None) -> Any:
    """The client, which sends nothing while the name in one of these addresses leads to a cloud's metadata service."""
    named = [url for url in urls if url]

    def check(**_: Any) -> None:
        for url in named:
            try:
                check_url(url)
            except ForbiddenAddress as error:
                raise EndpointConnectionError(endpoint_url=f"{url} ({error})") from None

    if named:
        client.meta.events.register("before-send", check)
    return client
