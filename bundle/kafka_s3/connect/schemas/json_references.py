"""What does a `$ref` in a JSON Schema point to? A part of its own document, or another document that was registered with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from kafka_s3.connect.schemas.connect import SchemaError

DATA = ("enum", "const", "default", "examples")


@dataclass(frozen=True, slots=True)
class Scope:
    """The document that a part of a schema stands in, and the URI that its references are relative to."""

    root: Any
    base: str = ""


@dataclass(frozen=True, slots=True)
class Resolver:
    """The documents of a schema by every URI that they are known under."""

    known: Mapping[str, tuple[Any, Scope]]

    def resolve(self, reference: Any, scope: Scope) -> tuple[Any, Scope]:
        """The schema that a `$ref` means, and its scope. Raises SchemaError where there is none."""
        if not isinstance(reference, str):
            raise SchemaError(f"$ref is {str(reference)[:80]!r}, not a text.")
        uri, fragment = urldefrag(reference)
        wanted = ((name, fragment) for name in (uri, urljoin(scope.base, uri))) if uri else ()
        for name, part in wanted:
            if name in self.known:
                return self._part(*self.known[name], fragment=part, reference=reference)
        if uri:
            names = ", ".join(sorted(name for name in self.known if name)) or "none"
            raise SchemaError(
                f'$ref "{reference}" is not known; the schemas registered with this one: {names}. '
                "Register the referenced schema and name it in the references."
            )
        return self._part(scope.root, scope, fragment=fragment, reference=reference)

    def _part(self, node: Any, scope: Scope, *, fragment: str, reference: str) -> tuple[Any, Scope]:
        if fragment and not fragment.startswith("/"):
            anchored = self.known.get(f"{scope.base}#{fragment}")
            if anchored is None:
                raise SchemaError(f'$ref "{reference}" names an anchor that the schema does not have.')
            return anchored
        for step in fragment.split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and name in node:
                node = node[name]
            elif isinstance(node, list) and name.isdecimal() and len(name) < 9 and int(name) < len(node):
                node = node[int(name)]
            else:
                raise SchemaError(f'$ref "{reference}" points to nothing: there is no {name!r}.')
        return node, scope


def resolver(root: Any, references: Mapping[str, Any]) -> tuple[Resolver, Scope]:
    """A resolver for a document and those registered with it by name, and the document's own scope."""
    known: dict[str, tuple[Any, Scope]] = {}
    for name, document in [*references.items(), ("", root)]:
        base = urljoin(name, _id(document))
        known.setdefault(name, (document, Scope(document, base)))
        for uri, node, scope in _named(document, Scope(document, base)):
            known.setdefault(uri, (node, scope))
    return Resolver(known), known[""][1]


def _named(node: Any, scope: Scope) -> Iterator[tuple[str, Any, Scope]]:
    """The parts of a document that have an id or an anchor, by their URIs."""
    if isinstance(node, dict):
        name, anchor = _id(node), node.get("$anchor")
        if name.startswith("#"):
            anchor = name[1:]
        elif name:
            scope = Scope(node, urljoin(scope.base, name))
            yield scope.base, node, scope
            yield name, node, scope
        if isinstance(anchor, str):
            yield f"{scope.base}#{anchor}", node, scope
        for key, member in node.items():
            if key not in DATA:
                yield from _named(member, scope)
    elif isinstance(node, list):
        for member in node:
            yield from _named(member, scope)


def _id(node: Any) -> str:
    found = node.get("$id", "") if isinstance(node, dict) else ""
    return found if isinstance(found, str) else ""
