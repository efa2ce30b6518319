"""The part of AWS Glue's Schema Registry that readers ask: `GetSchemaVersion` by a version's id, over AWS's JSON protocol."""

from __future__ import annotations

import json
import uuid
from typing import Any, Self

from tests.support.http_server import Asked, HttpServer

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
        self._http = HttpServer(self._answer, content_type="application/x-amz-json-1.1")

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._http.url

    def register(self, definition: str, *, kind: str = "AVRO") -> uuid.UUID:
        """A new schema version; gives its id."""
        version = uuid.uuid4()
        self._versions[str(version)] = {
            "SchemaVersionId": str(version), "SchemaDefinition": definition, "DataFormat": kind, "VersionNumber": 1,
            "SchemaArn": "arn:aws:glue:eu-west-1:1:schema/default-registry/orders", "Status": "AVAILABLE",
        }  # fmt: skip
        return version

    def _answer(self, request: Asked) -> tuple[int, dict[str, Any]]:
        assert request.headers["X-Amz-Target"] == TARGET
        body, authorization = json.loads(request.body), request.authorization
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
        self._http.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        self._http.stop()
