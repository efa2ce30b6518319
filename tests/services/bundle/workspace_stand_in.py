"""What does a Databricks workspace answer a running job? Secrets and temporary keys, over the vendor's REST paths; enough for its SDK."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.support.http_server import Asked, HttpServer

TOKEN = "token-of-the-job"
HOUR_MS = 3_600_000


class WorkspaceStandIn:
    """A server on this machine; a context manager. `requests` lists what was asked for."""

    def __init__(self, secrets: Mapping[str, str], credentials: Mapping[str, tuple[str, str]]) -> None:
        self.requests: list[str] = []
        self._secrets, self._credentials = secrets, credentials
        self._http = HttpServer(self._answer)

    @property
    def environment(self) -> dict[str, str]:
        """What a job finds in its environment."""
        return {
            "DATABRICKS_HOST": self._http.url,
            "DATABRICKS_TOKEN": TOKEN,
            "DATABRICKS_CONFIG_FILE": "/dev/null",
        }

    def _answer(self, request: Asked) -> tuple[int, Mapping[str, Any]]:
        if request.path.startswith("/api/"):
            self.requests.append(request.path)
            if request.authorization != f"Bearer {TOKEN}":
                return 403, {"error_code": "PERMISSION_DENIED", "message": "not yours"}
        return self._keys(request) if request.method == "POST" else self._secret(request)

    def _secret(self, request: Asked) -> tuple[int, Mapping[str, Any]]:
        if request.path == "/.well-known/databricks-config":  # asked without a token
            return 200, {"oidc_endpoint": "http://127.0.0.1/oidc", "workspace_id": "1"}
        query = {key: values[0] for key, values in parse_qs(urlsplit(request.path).query).items()}
        secret = self._secrets.get(f"{query.get('scope')}/{query.get('key')}")
        if not request.path.startswith("/api/2.0/secrets/get") or secret is None:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such secret"}
        return 200, {"key": query["key"], "value": base64.b64encode(secret.encode()).decode()}

    def _keys(self, request: Asked) -> tuple[int, Mapping[str, Any]]:
        keys = self._credentials.get(json.loads(request.body).get("credential_name", ""))
        if not request.path.endswith("/temporary-service-credentials") or keys is None:
            return 404, {"error_code": "NOT_FOUND", "message": "no such credential"}
        aws = {"access_key_id": keys[0], "secret_access_key": keys[1], "session_token": "session"}
        return 200, {"aws_temp_credentials": aws, "expiration_time": int(time.time() * 1000) + HOUR_MS}

    def __enter__(self) -> Self:
        """The started server."""
        self._http.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        self._http.stop()
