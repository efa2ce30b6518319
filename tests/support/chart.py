"""Is the Helm chart right? Linted, rendered with its example values, and each manifest checked against Kubernetes' own schemas.

    python -m tests.support.chart HELM        # as `make chart` does

Kubernetes' types come with the package kubernetes-validate: unknown fields, missing ones and wrong types are refused. A ServiceMonitor is
of the Prometheus operator, not of Kubernetes, and is checked against the few fields below, as the operator's reference documents them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import yaml

from tests.support.repository import ROOT

CHART: Final = ROOT / "examples" / "kubernetes"
OLDEST, NEWEST = "1.27", "1.37"
"""The versions of Kubernetes whose schemas are asked; the chart's `kubeVersion` begins with the first."""
TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
SERVICE_MONITOR: Final = {
    "type": "object",
    "required": ["selector", "endpoints"],
    "additionalProperties": False,
    "properties": {
        "jobLabel": {"type": "string"},
        "selector": {"type": "object", "required": ["matchLabels"], "properties": {"matchLabels": TEXTS}},
        "endpoints": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["port"],
                "properties": {
                    "port": {"type": "string"},
                    "interval": {"type": "string", "pattern": r"^\d+(ms|s|m|h)$"},
                },
            },
        },
    },
}


def main(words: Sequence[str]) -> int:
    """Checks the chart with each of its examples of values; 1 where something is wrong."""
    (helm,) = words
    failed = False
    for values in sorted(CHART.glob("values-*.yaml")):
        run([helm, "lint", "--strict", CHART, "--values", values])
        found = [line for manifest in rendered(helm, values) for line in problems(manifest)]
        print("\n".join(found) or f"{values.name}: every manifest is one that Kubernetes {OLDEST} and {NEWEST} take")
        failed |= bool(found)
    return failed


def rendered(helm: str, values: Path) -> list[Mapping[str, Any]]:
    """The manifests that the chart makes of a file of values."""
    command = [
        helm,
        "template",
        "sinks",
        CHART,
        "--values",
        values,
        "--kube-version",
        f"{NEWEST}.0",
        "--namespace",
        "sinks",
    ]
    return [manifest for manifest in yaml.safe_load_all(run(command)) if manifest]


def problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What the schemas say against a manifest."""
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    try:
        if manifest["kind"] == "ServiceMonitor":
            jsonschema.validate(manifest["spec"], SERVICE_MONITOR)
            return
        for version in (OLDEST, NEWEST):
            kubernetes_validate.validate(manifest, version, strict=True)
    except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
        yield f"{name}: {error.message}"


def run(command: Sequence[str | Path]) -> str:
    """What a program prints; it ends this one where it fails."""
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
