"""The part of AWS Glue's Schema Registry that readers ask: `GetSchemaVersion` by a version's id, over AWS's JSON protocol."""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

TARGET = "AWSGlue.GetSchemaVersion"


class GlueServer:
    """A server on this machine; a context manager. It serves whoever signs with `access_key` for glue, and refuses others.

    `asked` lists the version ids of requests; the next `failures` requests get an internal error.
    """

    def __init__(self, *, access_key: str) -> None:
        self.asked: list[str] = []
        self.failures = 0
        self._access_key = access_key
        self._versions: dict[str, dict[str, Any]] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.headers["X-Amz-Target"] == TARGET
                status, answer = server.answer(body, self.headers.get("Authorization", ""))
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def register(self, definition: str, *, kind: str = "AVRO") -> uuid.UUID:
        """A new schema version; gives its id."""
        version = uuid.uuid4()
        self._versions[str(version)] = {
            "SchemaVersionId": str(version), "SchemaDefinition": definition, "DataFormat": kind, "VersionNumber": 1,
            "SchemaArn": "arn:aws:glue:eu-west-1:1:schema/default-registry/orders", "Status": "AVAILABLE",
        }  # fmt: skip
        return version

    def answer(self, body: dict[str, Any], authorization: str) -> tuple[int, dict[str, Any]]:
        """Status and body."""
        self.asked.append(body["SchemaVersionId"])
        if self.failures:
            self.failures -= 1
            return 500, {"__type": "InternalServiceException", "Message": "try again"}
        if f"Credential={self._access_key}/" not in authorization or "/glue/aws4_request" not in authorization:
            return 400, {
                "__type": "AccessDeniedException",
                "Message": "not authorized to perform: glue:GetSchemaVersion",
            }
        found = self._versions.get(body["SchemaVersionId"])
        return (
            (200, found)
            if found
            else (400, {"__type": "EntityNotFoundException", "Message": "Schema version is not found."})
        )

    def __enter__(self) -> Self:
        """The started server."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        self._server.shutdown()
        self._server.server_close()
