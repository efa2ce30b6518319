"""Translate JSON Schemas to Connect schemas by the rules of Confluent's JsonSchemaData, generalized names off (SEMANTICS A11).

Beyond the original, an object that has no properties but a schema for additional ones is a map, also without `connect.type`; title,
description, version and default are kept if a type is beside enum, const or allOf; and a constant without a type is a string, number or
boolean as its value is, where the original takes each for a string. A `$ref` points to a part of its own document, or to another document
that was registered with it. One that leads back to an object around it becomes a recursion.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from kafka_s3.connect.schemas.connect import INNER, ConnectSchema, Field, Recursion, SchemaError, SchemaType, in_order
from kafka_s3.connect.schemas.expansion import check_parts
from kafka_s3.connect.schemas.json_form import ONE_OF, JsonRules, dumps, from_json, to_json
from kafka_s3.connect.schemas.registered import Reference

DATA = ("enum", "const", "default", "examples")


@dataclass(frozen=True, slots=True)
class Scope:
    """The document that a part of a schema is in, and the URI that its references are relative to."""

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


ENUM: Final = "io.confluent.connect.json.Enum"
NULL_SYMBOL: Final = "<NULL>"
TYPES: Final = {
    "boolean": SchemaType.BOOLEAN, "integer": SchemaType.INT64, "number": SchemaType.FLOAT64, "string": SchemaType.STRING,
    "array": SchemaType.ARRAY, "object": SchemaType.STRUCT,
}  # fmt: skip
CONNECT_NUMBERS: Final = {
    "int8": SchemaType.INT8, "int16": SchemaType.INT16, "int32": SchemaType.INT32, "int64": SchemaType.INT64,
    "float32": SchemaType.FLOAT32, "float64": SchemaType.FLOAT64, "bytes": SchemaType.BYTES,
}  # fmt: skip
CONSTANTS: Final = {
    str: SchemaType.STRING, bool: SchemaType.BOOLEAN, int: SchemaType.INT64, float: SchemaType.FLOAT64,
}  # fmt: skip
SIGNS: Final = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"),
    "array": ("items", "minItems", "maxItems", "uniqueItems", "contains"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern", "format"),
}
"""Keywords that imply the type of a schema without `type`."""


@dataclass(frozen=True, slots=True)
class JsonSchemaOptions:
    """`use.optional.for.nonrequired`: fields outside `required` are optional. `json.fail.invalid.schema`: payloads are validated.

    `name_key` and `doc_key` are the keywords that name and describe a schema.
    """

    optional_for_nonrequired: bool = False
    fail_invalid: bool = False
    name_key: str = "title"
    doc_key: str = "description"


def connect_schema_of_json(
    document: Any,
    *,
    options: JsonSchemaOptions,
    version: int | None = None,
    references: Mapping[str, Any] | None = None,
) -> ConnectSchema:
    """The Connect schema of a parsed JSON Schema; `references` are parsed documents by name.

    `version` is the one in the registry; `connect.version` in the document goes before. Raises SchemaError with the place.
    """
    try:
        found, scope = resolver(document, references or {})
        translation = _Translation(options, found)
        return translation.complete(translation.definition(document, scope, version=version, where="schema"))
    except RecursionError:
        raise SchemaError("The JSON Schema is nested too deeply. Flatten it.") from None


def parsed_references(references: Iterable[Reference]) -> dict[str, Any]:
    """The referenced documents by name. Raises SchemaError where one is not JSON."""
    found = {}
    for reference in references:
        try:
            found[reference.name] = json.loads(reference.text)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"The referenced JSON Schema {reference.name} is not JSON: {error}.") from None
    return found


@dataclass(slots=True)
class _Translation:
    """One run over a document; `open` are the definitions around the current part, by the `id` of their nodes.

    `recursions` stand for the definitions that references have led back to, by the same `id`. `definitions` are the schemas of these, by
    the `id` of the recursion; `complete` names the structs at recursions, which are not known before.
    """

    options: JsonSchemaOptions
    resolver: Resolver
    open: list[int] = field(default_factory=list)
    recursions: dict[int, Recursion] = field(default_factory=dict)
    definitions: dict[int, ConnectSchema] = field(default_factory=dict)
    parts: int = 0

    def definition(self, node: Any, scope: Scope, *, version: int | None, where: str) -> ConnectSchema:
        """Return the schema of the document or of what a reference means; a recursion if that is around the reference."""
        if id(node) in self.open:
            self.recursions.setdefault(id(node), Recursion(where))
        if id(node) in self.recursions:
            return ConnectSchema(SchemaType.STRUCT, fields=self.recursions[id(node)])
        self.open.append(id(node))
        try:
            schema = self.schema(node, scope, version=version, where=where)
        finally:
            self.open.pop()
        if id(node) in self.recursions:
            if schema.kind is not SchemaType.STRUCT:
                raise SchemaError(
                    f"{self.recursions[id(node)].name}: $ref leads back to {where} with no object in between, which has no Connect schema. "
                    "Put the recursion into a property of an object, or take ByteArrayConverter for this topic."
                )
            self.definitions[id(self.recursions[id(node)])] = schema
        return schema

    def complete(self, schema: ConnectSchema) -> ConnectSchema:
        """Return the schema whose recursions have the names and the fields of their definitions."""
        for recursion in self.recursions.values():
            recursion.define(self._completed(self.definitions[id(recursion)]).fields)
        return self._completed(schema) if self.definitions else schema

    def _completed(self, schema: ConnectSchema) -> ConnectSchema:
        if isinstance(schema.fields, Recursion):
            definition = self.definitions[id(schema.fields)]
            optional = schema.optional or definition.optional
            return replace(definition, fields=schema.fields, optional=optional, version=None)
        inner: dict[str, Any] = {name: getattr(schema, name) for name in INNER}
        completed: dict[str, Any] = {
            name: None if part is None else self._completed(part) for name, part in inner.items()
        }
        fields = tuple(replace(member, schema=self._completed(member.schema)) for member in schema.fields)
        return replace(schema, fields=fields, **completed)

    def schema(self, node: Any, scope: Scope, *, version: int | None = None, where: str) -> ConnectSchema:
        """The schema of one part of the document."""
        self._count()
        if not isinstance(node, dict):
            raise SchemaError(f"{where} is {json.dumps(node)[:80]}, not a schema object with a type.")
        if "$ref" in node:
            return self._referred(node, scope, version=version, where=where)
        for criterion in ("oneOf", "anyOf"):
            if criterion in node and not self._properties(node, scope):
                return self._union(node, node[criterion], scope, version=version, where=where)
        if isinstance(node.get("type"), list):
            parts = [node | {"type": kind} for kind in node["type"]]
            return self._union({}, parts, scope, version=version, where=where)
        return self._annotated(
            self._plain(node, scope, version=version, where=where), node, version=version, where=where
        )

    def _count(self) -> None:
        self.parts += 1
        check_parts(self.parts)

    def _referred(self, node: Any, scope: Scope, *, version: int | None, where: str) -> ConnectSchema:
        reference, passed = node["$ref"], list[int]()
        while isinstance(node, dict) and "$ref" in node:
            node, scope = self.resolver.resolve(node["$ref"], scope)
            if id(node) in passed:
                raise SchemaError(f"{where}: $ref {reference} leads back to itself, and to no schema.")
            passed.append(id(node))
        return self.definition(node, scope, version=version, where=where)

    def _union(self, node: Any, parts: Any, scope: Scope, *, version: int | None, where: str) -> ConnectSchema:
        if not isinstance(parts, list) or not parts:
            raise SchemaError(f"{where}: oneOf, anyOf and lists of types need members.")
        branches = [part for part in parts if not (isinstance(part, dict) and part.get("type") == "null")]
        null = len(branches) < len(parts)
        if len(branches) == 1 and (null or len(parts) == 1):
            schema = self.schema(branches[0], scope, version=version, where=where)
            return replace(schema, optional=schema.optional or null)
        if not branches:
            raise SchemaError(f"{where}: the type null alone holds nothing. Name a second type.")
        fields = []
        for index, part in enumerate(branches):
            schema = self.schema(part, scope, where=f"{where}.{index}")
            fields.append(Field(f"{ONE_OF}.field.{index}", replace(schema, optional=True)))
        union = ConnectSchema(SchemaType.STRUCT, name=ONE_OF, optional=null, fields=tuple(fields))
        return self._annotated(union, node, version=version, where=where)

    def _plain(self, node: dict[str, Any], scope: Scope, *, version: int | None, where: str) -> ConnectSchema:
        """The schema of a part with one type, not yet annotated."""
        properties = self._properties(node, scope)
        if properties and node.get("connect.type") != "map":
            return self._struct(properties, where)
        kind = _type_of(node)
        if kind is None and isinstance(node.get("allOf"), list):
            return self._all_of(node["allOf"], scope, version=version, where=where)
        if "enum" in node and kind in (None, "string"):
            return ConnectSchema(SchemaType.STRING, parameters=_symbols(node["enum"], where))
        if kind is None and "const" in node and type(node["const"]) in CONSTANTS:
            return ConnectSchema(CONSTANTS[type(node["const"])])
        if not isinstance(kind, str) or kind not in TYPES:
            given = f"type {json.dumps(kind)[:80]} is unknown" if "type" in node else "it names no type"
            raise SchemaError(f"{where}: {given}. Name one of: {', '.join(TYPES)}.")
        if kind == "array":
            return self._array(node, scope, where)
        if kind == "object":
            return self._object(node, scope, where)
        return ConnectSchema(_scalar(kind, node, where))

    def _all_of(self, parts: list[Any], scope: Scope, *, version: int | None, where: str) -> ConnectSchema:
        """One schema of parts that are no objects: a union goes first, then whatever says the most of the type."""
        rank = ("oneOf", "anyOf", "allOf", "$ref", "enum")
        merged: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, dict) and not any(name in merged for name in ("oneOf", "anyOf", "$ref")):
                merged |= part
        if not any(name in merged for name in (*rank, "const")) and _type_of(merged) is None:
            raise SchemaError(f"{where}: allOf names no type. Give one of its members a type.")
        return self.schema(merged, scope, version=version, where=where)

    def _properties(self, node: Any, scope: Scope, *, depth: int = 0) -> dict[str, tuple[Any, Scope, bool]]:
        """The properties of an object with those of its allOf: schema, scope, and whether it is required."""
        self._count()
        if not isinstance(node, dict):
            return {}
        if depth and "$ref" in node:
            return self._properties(*self.resolver.resolve(node["$ref"], scope), depth=depth + 1)
        found: dict[str, tuple[Any, Scope, bool]] = {}
        for part in node["allOf"] if isinstance(node.get("allOf"), list) else []:
            found |= self._properties(part, scope, depth=depth + 1)
        required = node["required"] if isinstance(node.get("required"), list) else []
        own = node["properties"] if isinstance(node.get("properties"), dict) else {}
        found |= {name: (part, scope, name in required) for name, part in own.items()}
        return {name: (part, inside, must or name in required) for name, (part, inside, must) in found.items()}

    def _struct(self, properties: dict[str, tuple[Any, Scope, bool]], where: str) -> ConnectSchema:
        fields = []
        for name, (part, scope, required) in _in_order(properties).items():
            schema = self.schema(part, scope, where=f"{where}.{name}")
            optional = schema.optional or (self.options.optional_for_nonrequired and not required)
            fields.append(Field(name, replace(schema, optional=optional)))
        return ConnectSchema(SchemaType.STRUCT, fields=tuple(fields))

    def _object(self, node: dict[str, Any], scope: Scope, where: str) -> ConnectSchema:
        more = node.get("additionalProperties")
        if node.get("connect.type") == "map" or (isinstance(more, dict) and more):
            values = self.schema(more, scope, where=f"{where}.additionalProperties")
            return ConnectSchema(SchemaType.MAP, keys=ConnectSchema(SchemaType.STRING), values=values)
        return ConnectSchema(SchemaType.STRUCT)

    def _array(self, node: dict[str, Any], scope: Scope, where: str) -> ConnectSchema:
        items = node.get("items")
        if not isinstance(items, dict):
            raise SchemaError(f"{where}: Array schema did not specify the items type: items must be one schema.")
        if node.get("connect.type") == "map":
            members = self._properties(items, scope, depth=1)
            missing = (None, scope, False)
            (key, of_key, _), (value, of_value, _) = (members.get(name, missing) for name in ("key", "value"))
            keys = self.schema(key, of_key, where=f"{where}.items.key")
            values = self.schema(value, of_value, where=f"{where}.items.value")
            return ConnectSchema(SchemaType.MAP, keys=keys, values=values)
        return ConnectSchema(SchemaType.ARRAY, items=self.schema(items, scope, where=f"{where}.items"))

    def _annotated(self, schema: ConnectSchema, node: Any, *, version: int | None, where: str) -> ConnectSchema:
        """The schema with its title, version, description, parameters and default, as far as the node has them."""
        given = node.get("connect.version")
        parameters = node.get("connect.parameters")
        own = parameters if isinstance(parameters, dict) else {}
        title, doc = node.get(self.options.name_key), node.get(self.options.doc_key)
        schema = replace(
            schema,
            name=schema.name or (title if isinstance(title, str) else None),
            version=given if isinstance(given, int) else version if schema.version is None else schema.version,
            doc=doc if isinstance(doc, str) else schema.doc,
            parameters=in_order((dict(schema.parameters) | {k: str(v) for k, v in own.items()}).items()),
        )
        if node.get("default") is None:
            return schema
        default = from_json(node["default"], schema, where=f"{where}.default", rules=JsonRules.JSON_SCHEMA)
        return replace(schema, default=dumps(to_json(default, schema)))


def _type_of(node: dict[str, Any]) -> Any:
    """The type that a schema names, or that its other keywords imply."""
    if "type" in node:
        return node["type"]
    return next((kind for kind, signs in SIGNS.items() if any(sign in node for sign in signs)), None)


def _scalar(kind: str, node: dict[str, Any], where: str) -> SchemaType:
    connect = node.get("connect.type")
    if kind == "string":
        return SchemaType.BYTES if connect == "bytes" else SchemaType.STRING
    if kind == "boolean" or connect is None:
        return TYPES[kind]
    if str(connect) not in CONNECT_NUMBERS:
        raise SchemaError(
            f"{where}: connect.type {connect!r} of a number is unknown; it may be {', '.join(CONNECT_NUMBERS)}."
        )
    return CONNECT_NUMBERS[str(connect)]


def _symbols(values: Any, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(values, list):
        raise SchemaError(f"{where}: enum is {json.dumps(values)[:80]}, not a list of values.")
    texts = [NULL_SYMBOL if v is None else v if isinstance(v, str) else json.dumps(v) for v in values]
    return ((ENUM, ""), *((f"{ENUM}.{text}", text) for text in texts))


def _in_order(properties: dict[str, tuple[Any, Scope, bool]]) -> dict[str, tuple[Any, Scope, bool]]:
    """The properties by `connect.index`; one without it keeps its place in the document."""
    order = {}
    for position, (name, (part, _, _)) in enumerate(properties.items()):
        index = part.get("connect.index") if isinstance(part, dict) else None
        order[name] = index if isinstance(index, int) else position
    return {name: properties[name] for name in sorted(properties, key=lambda name: order[name])}
