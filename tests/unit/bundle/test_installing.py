"""Do the workflows, the chart and the site name what there is? What they do is tried by `make workflows`, `chart`, `site` and `release`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import kafka_s3_testing
from kafka_s3 import __version__
from kafka_s3.connect.config.validate import validate
from tests.support.repository import ROOT
from tests.support.smoke import EXTRAS, PYTHONS, SMOKES

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
VALUES = sorted((ROOT / "examples" / "kubernetes").glob("values-*.yaml"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: str(path.stem))
def test_a_workflow_runs_targets_that_there_are_and_actions_of_one_commit(workflow: Path) -> None:
    for step in steps(workflow):
        assert set(re.findall(r"^make ([a-z-]+)", step.get("run", ""), re.MULTILINE)) <= TARGETS
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step.get("uses", f"none/none@{'0' * 40}"))


def test_every_push_runs_what_ci_runs() -> None:
    runs = [step.get("run") for step in steps(ROOT / ".github" / "workflows" / "tests.yml")]
    assert "bash .ci/run" in runs


def test_the_pythons_of_the_nightly_matrix_are_the_supported_ones() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["matrix"]["strategy"]["matrix"]["python"] == list(PYTHONS)


def test_each_extra_has_a_smoke_test() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = set(
        re.findall(
            r"^(\w+) = \[", text.partition("[project.optional-dependencies]")[2].partition("[dep")[0], re.MULTILINE
        )
    )
    assert extras - {"dev"} == {*SMOKES} - {"", *EXTRAS}


def test_the_version_is_written_once_and_the_changelog_begins_with_it() -> None:
    assert re.search(r'^dynamic = \["version"\]$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if ".dev" in __version__:
        assert headings.pop(0) == f"{__version__.partition('.dev')[0]} - unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - 20\d\d-\d\d-\d\d", heading) for heading in headings)


@pytest.mark.parametrize("values", VALUES, ids=lambda path: str(path.stem))
def test_the_sinks_of_the_charts_examples_are_valid(values: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_USER", "KAFKA_PASSWORD"):
        monkeypatch.setenv(name, "x")
    given = yaml.safe_load(values.read_text(encoding="utf-8"))
    for name, sink in given["sinks"].items():
        own = {"name": name, "s3.bucket.name": given["bucket"], "s3.region": given["region"]}
        keys = {**given.get("sinkDefaults", {}), **sink, **own}
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in keys.items()}
        checked = validate(texts)
        assert (checked.problems, checked.warnings) == ((), ())


def test_both_distributions_have_the_same_version() -> None:
    assert kafka_s3_testing.__version__ == __version__
