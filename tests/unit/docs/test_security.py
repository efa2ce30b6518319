"""Do the policies and recipes of docs/security.md and docs/logins.md say what the product needs, and no more?"""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from inspect import getsource
from pathlib import Path

import pytest
import yaml

from kafka_s3.connect.config.read import read_properties, read_worker
from kafka_s3.connect.config.validate import validate
from kafka_s3.ops.doctor.diagnosis import Probe
from kafka_s3.ops.policies import sink_policy
from tests.support.memory_world import BASE, settings_of
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
POLICIES = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
LOGINS = (ROOT / "docs" / "logins.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"```properties\n(.*?)```", PAGE + LOGINS, re.DOTALL)
NEVER = {"s3:DeleteBucket", "s3:PutBucketPolicy", "s3:*", "*"}


def actions(policy: dict[str, list[dict[str, list[str]]]], ending: str = "") -> set[str]:
    """What a policy allows on resources that end so."""
    found: set[str] = set()
    for statement in policy["Statement"]:
        resources = statement["Resource"]
        if any(one.endswith(ending) for one in ([resources] if isinstance(resources, str) else resources)):
            found.update(statement["Action"])
    return found


def test_the_sink_may_do_what_the_doctor_tries_and_delete_states_of_open_files_alone() -> None:
    sink, _, _ = POLICIES
    tried = set(re.findall(r"s3:[A-Za-z]+", getsource(Probe)))
    assert tried - actions(sink) == {"s3:PutObjectAcl"}
    assert not actions(sink) & NEVER
    assert not {"s3:DeleteObject"} & {*actions(sink, "topics/*"), *actions(sink, "BUCKET/_kafka_s3/SINK/*")}
    assert actions(sink, "_kafka_s3/SINK/open/*") == {"s3:DeleteObject"}


@pytest.mark.parametrize("target", ["prod", "dev"])
def test_the_policy_of_the_databricks_page_fits_what_a_target_writes(target: str) -> None:
    page = (ROOT / "docs" / "databricks.md").read_text(encoding="utf-8")
    (policy,) = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    bundle = yaml.safe_load((ROOT / "databricks.yml").read_text(encoding="utf-8"))
    chosen = {
        key: str(bundle["targets"][target]["variables"].get(key, bundle["variables"][key]["default"]))
        .replace("${workspace.current_user.short_name}", "jane_doe")
        for key in ("topics_dir", "state_prefix")
    }  # fmt: skip
    config = {
        "flush.size": "3",
        "s3.bucket.name": "lake",
        "topics.dir": chosen["topics_dir"],
        "state.prefix": chosen["state_prefix"],
    }
    for statement in sink_policy(settings_of(config))["Statement"]:
        for resource in statement["Resource"]:
            allowed = {
                action for one in policy["Statement"] for action in one["Action"] if covers(one["Resource"], resource)
            }
            assert set(statement["Action"]) <= allowed, resource


def covers(given: str | list[str], resource: str) -> bool:
    """Whether a statement's resources hold one; in IAM, as here, a star also stands for slashes."""
    return any(fnmatchcase(resource, one) for one in ([given] if isinstance(given, str) else given))


def test_the_dashboard_only_reads_and_only_the_state() -> None:
    _, dashboard, _ = POLICIES
    assert actions(dashboard) == {"s3:ListBucket", "s3:GetObject"}
    assert actions(dashboard, "topics/*") == set()


def test_maintenance_writes_no_data() -> None:
    _, _, maintenance = POLICIES
    assert not actions(maintenance, "topics/*") & {"s3:PutObject", "s3:DeleteObject"}
    assert not actions(maintenance) & NEVER


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda text: text.split("=")[0])
def test_every_recipe_is_valid_where_it_says_it_goes(recipe: str, tmp_path: Path) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text(recipe, encoding="utf-8")
    given = read_properties(recipe, worker)
    if next(iter(given)).startswith("consumer.override."):
        found = validate({**BASE, "flush.size": "3", **given})
    else:
        found = validate({**BASE, "flush.size": "3"}, worker=read_worker(worker).texts)
        assert all(key.startswith("consumer.override.") for key in read_worker(worker).texts)
    assert (found.problems, found.warnings) == ((), ())
