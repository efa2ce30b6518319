"""What does a Databricks workspace answer a running job? Secrets and temporary keys, over the vendor's REST paths; enough for its SDK."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

TOKEN = "token-of-the-job"
HOUR_MS = 3_600_000


class WorkspaceStandIn:
    """A server on this machine; a context manager. `requests` lists what was asked for."""

    def __init__(self, secrets: Mapping[str, str], credentials: Mapping[str, tuple[str, str]]) -> None:
        self.requests: list[str] = []
        workspace = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
                name = f"{query.get('scope')}/{query.get('key')}"
                if self.path == "/.well-known/databricks-config":  # asked without a token
                    return self._answer(200, {"oidc_endpoint": "http://127.0.0.1/oidc", "workspace_id": "1"})
                if not self.path.startswith("/api/2.0/secrets/get") or name not in secrets:
                    return self._answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such secret"})
                return self._answer(
                    200, {"key": query["key"], "value": base64.b64encode(secrets[name].encode()).decode()}
                )

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                keys = credentials.get(asked.get("credential_name", ""))
                if not self.path.endswith("/temporary-service-credentials") or keys is None:
                    return self._answer(404, {"error_code": "NOT_FOUND", "message": "no such credential"})
                aws = {"access_key_id": keys[0], "secret_access_key": keys[1], "session_token": "session"}
                return self._answer(
                    200, {"aws_temp_credentials": aws, "expiration_time": int(time.time() * 1000) + HOUR_MS}
                )

            def _answer(self, status: int, body: Mapping[str, Any]) -> None:
                if self.path.startswith("/api/"):
                    workspace.requests.append(self.path)
                if self.path.startswith("/api/") and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    status, body = 403, {"error_code": "PERMISSION_DENIED", "message": "not yours"}
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def environment(self) -> dict[str, str]:
        """What a job finds in its environment."""
        return {
            "DATABRICKS_HOST": f"http://127.0.0.1:{self._server.server_address[1]}",
            "DATABRICKS_TOKEN": TOKEN,
            "DATABRICKS_CONFIG_FILE": "/dev/null",
        }

    def __enter__(self) -> Self:
        """The started server."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        self._server.shutdown()
        self._server.server_close()
