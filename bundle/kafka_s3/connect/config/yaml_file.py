"""What does a YAML file say? Strimzi's `KafkaConnector`, or the maps that JSON files hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from kafka_s3.connect.config.config_file import fault, repeated
from kafka_s3.model.errors import Problem

KIND: Final = "KafkaConnector"
"""The resource of Strimzi's operator: `metadata.name`, `spec.class`, `spec.tasksMax`, and the rest in `spec.config`."""
_NULLS: Final = ("", "~", "null", "Null", "NULL")


def read_yaml(text: str, path: Path) -> tuple[Any, list[Problem]]:
    """The document as JSON would have it, and a warning for each key that a map repeats.

    Numbers and booleans keep their spelling. Of several documents the one that is a `KafkaConnector` counts. Raises ConfigError where
    the text is no YAML, and where there is not one document that can be meant.
    """
    warnings: list[Problem] = []

    class Loader(yaml.BaseLoader):
        """Every scalar as the text it is written as."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [(str(self.construct_object(key)), getattr(value, "value", "")) for key, value in node.value]
            warnings.extend(repeated(keys, path))
            return super().construct_mapping(node, deep)

        def construct_scalar(self, node: yaml.ScalarNode) -> Any:
            plain = node.style is None
            return None if plain and node.value in _NULLS else str(super().construct_scalar(node))

    try:
        documents = [one for one in yaml.load_all(text, Loader) if one is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else None
        raise fault(path, place, f"is not valid YAML: {error.problem or error}.", "Mend the file there.") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise fault(path, None, f"is not valid YAML: {error}.", "Mend the file.") from None
    return _connector(_only(documents, path), path), warnings


def _only(documents: Sequence[Any], path: Path) -> Any:
    connectors = [one for one in documents if isinstance(one, dict) and one.get("kind") == KIND]
    chosen = connectors or documents
    if len(chosen) != 1:
        what = f"holds {len(chosen)} {'connectors' if connectors else 'documents'}."
        raise fault(path, None, what, "Give a file with one connector.")
    return chosen[0]


def _connector(document: Any, path: Path) -> Any:
    if not isinstance(document, dict) or "kind" not in document:
        return document
    spec = document.get("spec")
    if document["kind"] != KIND or not isinstance(spec, dict):
        rule = f"is a resource of kind {document['kind']}, which holds no connector's configuration."
        raise fault(path, None, rule, f"Give the {KIND} of the sink: its spec has class, tasksMax and config.")
    outside = {"connector.class": spec.get("class"), "tasks.max": spec.get("tasksMax")}
    config = {**(spec.get("config") or {}), **{key: text for key, text in outside.items() if text is not None}}
    return {"name": (document.get("metadata") or {}).get("name"), "config": config}
