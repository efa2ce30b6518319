"""How are payloads of a registered JSON Schema decoded? One by one: parsed, validated if asked, and given the schema's types."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
from jsonschema import exceptions, validators
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from kafka_s3.connect.converters.converter import Payloads, decode_each
from kafka_s3.connect.converters.json_values import SPACE, parse_document
from kafka_s3.connect.records.values import Objects
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError
from kafka_s3.connect.schemas.expansion import Allowance, depth_check, width
from kafka_s3.connect.schemas.json_form import JsonRules, from_json, has_decimal
from kafka_s3.connect.schemas.json_schema import JsonSchemaOptions, connect_schema_of_json, parsed_references
from kafka_s3.connect.schemas.registered import RegisteredSchema

ALL_DIGITS = json.JSONDecoder(parse_float=Decimal)


class JsonSchemaPayloads:
    """Decodes the payloads of one JSON Schema. Raises SchemaError where Connect has no form for it (`connect_schema_of_json`)."""

    schema: ConnectSchema | None

    def __init__(self, registered: RegisteredSchema, options: JsonSchemaOptions, *, version: int | None = None) -> None:
        try:
            document = json.loads(registered.text)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"The JSON Schema is not JSON: {error}.") from None
        references = parsed_references(registered.references)
        self._schema = connect_schema_of_json(document, options=options, version=version, references=references)
        self._exact = has_decimal(self._schema)
        self._validator = _validator(document, references) if options.fail_invalid else None
        self.schema, self._width = self._schema, width(self._schema)
        self._check_depth = depth_check(self._schema)

    def decode_payloads(self, payloads: pa.Array) -> Payloads:
        """The values of JSON texts; what is not JSON or does not match the schema is among the failures.

        Raises TooManyValues where several texts become more values than may be held at once.
        """
        found = decode_each(payloads, self._value, _reason)
        return Payloads(found.rows, Objects(found.items), found.failures, found.nulls)

    def _value(self, raw: bytes) -> tuple[Any, int]:
        value, text = parse_document(raw)
        if not text:
            raise ValueError("the payload is empty")
        if self._validator is not None:
            _validate(value, self._validator)
        if self._exact:
            value, _ = ALL_DIGITS.raw_decode(raw.decode("utf-8-sig").strip(SPACE))
        allowance = Allowance(len(raw))
        item = from_json(value, self._schema, allowance=allowance, rules=JsonRules.JSON_SCHEMA)
        self._check_depth(item)
        return item, self._width + allowance.spent


def _validator(document: Any, references: dict[str, Any]) -> Any:
    resources = [
        (name, Resource.from_contents(found, default_specification=DRAFT7)) for name, found in references.items()
    ]
    resources += [(uri, resource) for _, resource in resources if (uri := resource.id())]
    chosen = validators.validator_for(document, default=validators.Draft7Validator)
    try:
        chosen.check_schema(document)
    except exceptions.SchemaError as error:
        raise SchemaError(f"The JSON Schema is invalid at {error.json_path}: {error.message[:200]}.") from None
    return chosen(document, registry=Registry().with_resources(resources))


def _validate(value: Any, validator: Any) -> None:
    try:
        error = next(validator.iter_errors(value), None)
    except (Unresolvable, re.error, exceptions.UnknownType, TypeError) as problem:
        raise SchemaError(f"The JSON Schema cannot be used to validate: {str(problem)[:200]}.") from None
    if error is not None:
        raise SchemaError(f"JSON does not match the schema at {error.json_path}: {error.message[:200]}.")


def _reason(error: Exception) -> str:
    text = "the document is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return f"Converting byte[] to Kafka Connect data failed: {text}"
