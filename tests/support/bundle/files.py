"""What does the bundle say for a target? The YAML files put together and interpolated, as far as it can be done without a workspace.

Written from the documentation: `databricks.yml` and the files it includes are merged, the target's part is laid over them, variables are
settled, and every `${...}` is replaced; one that points nowhere is an error. What only a workspace knows (the user) comes from `Workspace`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.repository import ROOT

REFERENCE = re.compile(r"\$\{([A-Za-z]\w*(?:[.-]\w+)*)\}")
VARIABLES = {
    "bucket": "lake",
    "kafka_bootstrap_servers": "kafka-1:9092,kafka-2:9092",
    "instance_profile_arn": "arn:aws:iam::123456789012:instance-profile/kafka-s3",
    "service_principal": "11111111-2222-3333-4444-555555555555",
    "operators": "operators@example.org",
}
"""What a deployment must say."""
TOP_LEVEL = {
    "artifacts", "bundle", "experimental", "include", "permissions", "presets", "python", "resources", "run_as", "scripts", "sync",
    "targets", "variables", "workspace",
}  # fmt: skip
TARGET_LEVEL = (TOP_LEVEL - {"include", "targets"}) | {"default", "mode"}


class Unresolved(ValueError):
    """A reference that points nowhere, a variable without a value, an unknown key."""


@dataclass(frozen=True)
class Workspace:
    """What the workspace would say."""

    user: str = "jane.doe@example.org"
    short_name: str = "jane_doe"
    domain_friendly_name: str = "jane-doe"
    file_path: str | None = None


@dataclass(frozen=True)
class Bundle:
    """A bundle for one target, everything interpolated. `origins` says in which file a resource stands, by `kind.key`."""

    target: str
    mode: str
    content: Mapping[str, Any]
    origins: Mapping[str, Path] = field(default_factory=dict)

    def resources(self, kind: str) -> dict[str, Any]:
        """The resources of a kind, by key."""
        found: dict[str, Any] = self.content["resources"].get(kind, {})
        return found


def read_yaml(path: Path) -> dict[str, Any]:
    """A file's content."""
    content = yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert isinstance(content, dict), f"{path} holds no mapping"
    return content


def load_bundle(
    target: str, *, variables: Mapping[str, Any] | None = None, workspace: Workspace | None = None, root: Path = ROOT
) -> Bundle:
    """The bundle for a target. Raises Unresolved."""
    content, origins = _merged(root)
    chosen = content.pop("targets")[target]
    if unknown := (set(content) - TOP_LEVEL) | (set(chosen) - TARGET_LEVEL):
        raise Unresolved(f"unknown keys: {sorted(unknown)}")
    values = _values(content.pop("variables"), chosen.pop("variables", {}), variables or {})
    content = _laid_over(content, chosen)
    known = _known(target, content, values, workspace or Workspace())
    return Bundle(target, chosen.get("mode", ""), _settled(content, known, ()), origins)


def _merged(root: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    content = read_yaml(root / "databricks.yml")
    origins: dict[str, Path] = {}
    for path in sorted(path for pattern in content["include"] for path in root.glob(pattern)):
        included = read_yaml(path)
        if set(included) != {"resources"}:
            raise Unresolved(f"{path} holds {sorted(included)}: only resources belong there")
        for kind, resources in included["resources"].items():
            for key, resource in resources.items():
                if f"{kind}.{key}" in origins:
                    raise Unresolved(f"{kind}.{key} stands in {origins[f'{kind}.{key}']} and in {path}")
                origins[f"{kind}.{key}"] = path
                content.setdefault("resources", {}).setdefault(kind, {})[key] = resource
    return content, origins


def _values(declared: Mapping[str, Any], of_target: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := (set(of_target) | set(given)) - set(declared):
        raise Unresolved(f"values for undeclared variables: {sorted(unknown)}")
    values = {}
    for name, declaration in declared.items():
        override = of_target.get(name, declaration)
        if name in given:
            values[name] = given[name]
        elif not isinstance(override, Mapping):
            values[name] = override
        elif "default" in override:
            values[name] = override["default"]
        else:
            raise Unresolved(f"the variable {name} has no value: give one with --var or BUNDLE_VAR_{name}")
    return values


def _laid_over(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        both = {key: _laid_over(below[key], above[key]) for key in below.keys() & above.keys()}
        return below | above | both
    return above


def _known(target: str, content: Mapping[str, Any], values: Mapping[str, Any], workspace: Workspace) -> dict[str, Any]:
    root_path = f"/Workspace/Users/{workspace.user}/.bundle/${{bundle.name}}/${{bundle.target}}"
    paths = {"root_path": root_path, "file_path": workspace.file_path or "${workspace.root_path}/files"}
    user = {
        "userName": workspace.user, "short_name": workspace.short_name, "domain_friendly_name": workspace.domain_friendly_name,
    }  # fmt: skip
    return {
        "bundle": {**content["bundle"], "target": target},
        "workspace": {**paths, **content.get("workspace", {}), "current_user": user},
        "var": values,
        "resources": content["resources"],
    }


def _settled(value: Any, known: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    if isinstance(value, Mapping):
        return {key: _settled(item, known, path) for key, item in value.items()}
    if isinstance(value, list):
        return [_settled(item, known, path) for item in value]
    if not isinstance(value, str):
        return value
    if whole := REFERENCE.fullmatch(value):
        return _looked_up(whole[1], known, path)
    while found := REFERENCE.search(value):
        value = value[: found.start()] + str(_looked_up(found[1], known, path)) + value[found.end() :]
    return value


def _looked_up(name: str, known: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    if name in path:
        raise Unresolved(f"${{{name}}} refers to itself")
    at: Any = known
    parts = name.split(".")
    for depth, part in enumerate(parts):
        if isinstance(at, str):
            at = _settled(at, known, (*path, name))
        if parts[0] == "resources" and depth == 3 and part == "id":
            return f"id-of-{parts[2]}"
        if not isinstance(at, Mapping) or part not in at:
            raise Unresolved(f"${{{name}}} points nowhere")
        at = at[part]
    return _settled(at, known, (*path, name))


def project() -> dict[str, Any]:
    """The project's own description."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, Any] = tomllib.load(file)["project"]
        return found
