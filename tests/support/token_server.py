"""A token server of OAuth 2.0: client credentials for a signed token, and the keys to check it with, as a broker fetches them."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.http_server import Asked, HttpServer

ISSUER: Final = "https://login.example.com/"
AUDIENCE: Final = "kafka"
KEY_ID: Final = "key-1"


class TokenServer:
    """A server on this machine; a context manager. `clients` are secrets by client id, `lifetime_s` that of its tokens.

    `asked` lists who got a token, with the scope that was wanted. A client of another secret gets 401.
    """

    def __init__(self, clients: Mapping[str, str], *, lifetime_s: int = 3600) -> None:
        self.asked: list[tuple[str, str]] = []
        self._clients = dict(clients)
        self._lifetime_s = lifetime_s
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._http = HttpServer(self._answer)

    @property
    def token_url(self) -> str:
        """Where clients get tokens."""
        return f"{self._http.url}/token"

    @property
    def keys_url(self) -> str:
        """Where brokers get the keys that tokens are checked with."""
        return f"{self._http.url}/keys"

    def keys(self) -> dict[str, Any]:
        """The public key, as a JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        parts = {name: _base64(_number(value)) for name, value in (("n", numbers.n), ("e", numbers.e))}
        return {"keys": [{"kty": "RSA", "kid": KEY_ID, "alg": "RS256", "use": "sig", **parts}]}

    def _answer(self, request: Asked) -> tuple[int, dict[str, Any]]:
        if request.method == "GET":
            return 200, self.keys()
        return self.token(request.authorization, parse_qs(request.body.decode()))

    def token(self, authorization: str, form: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """The answer to a request for a token: status and body."""
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if form.get("grant_type") != ["client_credentials"] or self._clients.get(client) != secret or not secret:
            return 401, {"error": "invalid_client", "error_description": "unknown client or wrong secret"}
        scope = " ".join(form.get("scope", []))
        self.asked.append((client, scope))
        now = int(time.time())
        claims = {
            "iss": ISSUER, "aud": AUDIENCE, "sub": client, "scope": scope, "iat": now, "exp": now + self._lifetime_s,
            "jti": str(uuid.uuid4()),
        }  # fmt: skip
        return 200, {
            "access_token": self.signed(claims),
            "token_type": "Bearer",
            "expires_in": self._lifetime_s,
            "scope": scope,
        }

    def signed(self, claims: Mapping[str, Any]) -> str:
        """A JSON Web Token of these claims."""
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        text = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        return f"{text}.{_base64(self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def __enter__(self) -> Self:
        """The started server."""
        self._http.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        self._http.stop()


def _number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
