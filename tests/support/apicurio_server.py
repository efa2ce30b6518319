"""The part of an Apicurio registry that readers ask: schemas by id in versions 2 and 3 of its interface, and the compatible one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

OWN = "/apis/registry/"
COMPATIBLE = "/apis/ccompat/v7"
NOT_FOUND = (404, {"message": "No content with such an id was found.", "error_code": 404})


class ApicurioServer:
    """A server on this machine; a context manager. `allowed` judges the Authorization header of each request.

    `asked` lists the paths. A registered artifact has a global id and, for its text, a content id.
    """

    def __init__(self, *, allowed: Callable[[str], bool] = lambda _: True) -> None:
        self.asked: list[str] = []
        self._allowed = allowed
        self._artifacts: dict[int, tuple[str, str, list[dict[str, str]]]] = {}
        self._contents: dict[int, int] = {}
        self._kinds: dict[int, dict[str, str]] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                denied = not server._allowed(self.headers.get("Authorization", ""))
                self._answer(*((401, {"message": "no"}) if denied else server.answer(self.path.partition("?")[0])))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(404, {"message": "No artifact with such a content.", "error_code": 40403})

            def _answer(self, status: int, body: Any) -> None:
                content = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
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

    def register(
        self,
        artifact: str,
        text: str,
        *,
        global_id: int,
        content_id: int,
        references: Sequence[str] = (),
        kind: str = "",
    ) -> None:
        """Keeps a text as version 1 of an artifact, which refers to these other artifacts by their names; no `kind` is Avro."""
        to = [{"groupId": "default", "artifactId": name, "version": "1", "name": name} for name in references]
        self._artifacts[global_id] = (artifact, text, to)
        self._contents[content_id] = global_id
        self._kinds[global_id] = {"schemaType": kind} if kind else {}

    def answer(self, path: str) -> tuple[int, Any]:
        """Status and body of a GET."""
        if path.startswith(f"{COMPATIBLE}/schemas/ids/"):
            number = int(path.rpartition("/")[2])
            found = self._artifacts.get(number)
            return (
                (200, {"schema": found[1], "references": [], **self._kinds[number]})
                if found
                else (404, {"message": "none", "error_code": 40403})
            )
        version, _, rest = path.removeprefix(OWN).partition("/")
        wants_references = rest.endswith("/references")
        rest = rest.removesuffix("/references")
        found = (
            self._by_id(rest) if rest.startswith("ids/") else self._by_name(rest, version, text=not wants_references)
        )
        if found is None:
            return NOT_FOUND
        return 200, found[2] if wants_references else found[1]

    def _by_id(self, path: str) -> tuple[str, str, list[dict[str, str]]] | None:
        _, kind, number = path.split("/")
        ids = self._contents if kind == "contentIds" else {number: number for number in self._artifacts}
        return self._artifacts.get(ids.get(int(number), -1))

    def _by_name(self, path: str, version: str, *, text: bool) -> tuple[str, str, list[dict[str, str]]] | None:
        if version == "v3" and text:
            if not path.endswith("/content"):
                return None
            path = path.removesuffix("/content")
        name = path.removeprefix("groups/default/artifacts/").removesuffix("/versions/1")
        return next((found for found in self._artifacts.values() if found[0] == name), None)

    def __enter__(self) -> Self:
        """The started server."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        self._server.shutdown()
        self._server.server_close()
