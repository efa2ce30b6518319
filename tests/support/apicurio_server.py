"""The part of an Apicurio registry that readers ask: schemas by id in versions 2 and 3 of its interface, and the compatible one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from tests.support.http_server import Asked, HttpServer

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
        self._http = HttpServer(self._answer)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._http.url

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

    def _answer(self, request: Asked) -> tuple[int, Any]:
        if request.method == "POST":
            return 404, {"message": "No artifact with such a content.", "error_code": 40403}
        self.asked.append(request.path)
        return (
            self.answer(request.path.partition("?")[0])
            if self._allowed(request.authorization)
            else (401, {"message": "no"})
        )

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
        self._http.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        self._http.stop()
