"""How is a registry asked that confluent-kafka's client does not know? Plain GET requests, with a login, repeated where nobody answered."""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from kafka_s3.connect.registry.options import RegistryOptions
from kafka_s3.model.addresses import careful_opener
from kafka_s3.model.errors import RegistryError, RegistryUnavailable, UnknownSchema
from kafka_s3.model.timing import Backoff

LARGEST_ANSWER: Final = 64 << 20
LONGEST_PAUSE_MS: Final = 20_000
EARLY_S: Final = 30.0
"""A token is renewed so long before it ends."""
SHOWN_CHARACTERS: Final = 300


class Http:
    """GET requests to a registry. `basic_auth` of the options goes with each, or gets a token first where they have a `token_url`."""

    def __init__(self, options: RegistryOptions, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._options = options
        self._sleep = sleep
        self._opener = careful_opener()
        self._token: tuple[str, float] | None = None

    def get(self, url: str, what: str) -> bytes:
        """The answer to a request for `what`. Raises UnknownSchema, RegistryUnavailable after all retries, RegistryError."""
        return self._repeated(what, lambda: self._sent(urllib.request.Request(url, headers=self._login())))

    def _login(self) -> dict[str, str]:
        if self._options.basic_auth is None:
            return {}
        if not self._options.token_url:
            return {"Authorization": _basic(self._options.basic_auth.reveal())}
        if self._token is None or self._token[1] <= time.monotonic():
            self._token = self._new_token(self._options.token_url)
        return {"Authorization": f"Bearer {self._token[0]}"}

    def _new_token(self, url: str) -> tuple[str, float]:
        assert self._options.basic_auth is not None
        form = {"grant_type": "client_credentials"} | ({"scope": self._options.scope} if self._options.scope else {})
        headers = {"Authorization": _basic(self._options.basic_auth.reveal())}
        answer = json.loads(self._sent(urllib.request.Request(url, urlencode(form).encode(), headers)))
        return str(answer["access_token"]), time.monotonic() + float(answer.get("expires_in", 60)) - EARLY_S

    def _sent(self, request: urllib.request.Request) -> bytes:
        with self._opener.open(request, timeout=self._options.timeout_s) as answer:
            content: bytes = answer.read(LARGEST_ANSWER + 1)
        if len(content) > LARGEST_ANSWER:
            raise ValueError(f"the answer is larger than {LARGEST_ANSWER >> 20} MiB")
        return content

    def _repeated(self, what: str, request: Callable[[], bytes]) -> bytes:
        backoff, failures = Backoff(self._options.backoff_ms, LONGEST_PAUSE_MS, least=0.0), 0
        while True:
            try:
                return request()
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                known = self._meaning(error, what)
                failures += 1
                if not isinstance(known, RegistryUnavailable) or failures > self._options.retries:
                    raise known from None
            self._sleep(backoff.pause_ms(failures) / 1000)

    def _meaning(self, error: Exception, what: str) -> RegistryError:
        """What a failed request means to whoever has to act on it; free of secrets."""
        registry = f"The schema registry at {self._options.shown_urls}"
        if isinstance(error, urllib.error.HTTPError):
            said = self._options.masked(error.read(SHOWN_CHARACTERS).decode(errors="replace"))
            if error.code == 404:
                return UnknownSchema(f"{registry} has no {what} (HTTP 404: {said}).")
            if error.code in (401, 403):
                return RegistryError(
                    f"{registry} refused access to {what} (HTTP {error.code}): check user and password, or client id and secret."
                )
            if error.code >= 500 or error.code in (408, 429):
                return RegistryUnavailable(
                    f"{registry} failed at the request for {what}, after all retries (HTTP {error.code}: {said})."
                )
            return RegistryError(f"{registry} refused the request for {what} (HTTP {error.code}: {said}).")
        reason = self._options.masked(str(getattr(error, "reason", error)))[:SHOWN_CHARACTERS]
        if isinstance(error, OSError | http.client.HTTPException):
            return RegistryUnavailable(
                f"{registry} did not answer the request for {what} ({type(error).__name__}: {reason})."
            )
        return RegistryError(
            f"{registry} did not answer the request for {what} as Apicurio does ({reason}): check apicurio.registry.url."
        )


def _basic(credentials: str) -> str:
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"
