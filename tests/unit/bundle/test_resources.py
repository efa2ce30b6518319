"""Is the bundle right? Every file, reference and field of it, for each target, without a workspace and without the vendor's command."""

from __future__ import annotations

import copy
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafka_s3 import __version__
from kafka_s3.connect.config.read import read_config, read_properties
from kafka_s3.connect.config.validate import validate
from kafka_s3.ops.jobs import configurations
from tests.support.bundle.files import VARIABLES, Bundle, Unresolved, load_bundle, project, read_yaml
from tests.support.bundle.rules import findings, lost_in_round_trip
from tests.support.repository import ROOT

TARGETS = ("dev", "prod")


@pytest.fixture(params=TARGETS)
def bundle(request: pytest.FixtureRequest) -> Bundle:
    return load_bundle(request.param, variables=VARIABLES)


def test_every_rule_holds_for_every_target(bundle: Bundle) -> None:
    assert findings(bundle) == []


def test_there_is_all_that_a_deployment_needs(bundle: Bundle) -> None:
    kinds = {kind: set(found) for kind, found in bundle.content["resources"].items()}
    assert kinds == {
        "jobs": {"maintenance", "orders", "shipments", "states", "watch"}, "apps": {"dashboard"},
        "schemas": {"kafka_s3"}, "volumes": {"files"},
        "secret_scopes": {"secrets", "dashboard_secrets"},
    }  # fmt: skip
    assert {target for target in read_yaml(ROOT / "databricks.yml")["targets"]} == set(TARGETS)


def test_every_variable_is_described_and_used() -> None:
    declared = read_yaml(ROOT / "databricks.yml")["variables"]
    texts = [path.read_text() for path in [ROOT / "databricks.yml", *(ROOT / "resources").rglob("*.yml")]]
    used = {name for text in texts for name in re.findall(r"\$\{var\.(\w+)\}", text)}
    assert used == set(declared)
    assert all(variable["description"].endswith(".") for variable in declared.values())


def test_what_has_no_default_must_be_given() -> None:
    with pytest.raises(Unresolved, match="bucket"):
        load_bundle("dev")


def test_developers_do_not_get_in_each_others_way(bundle: Bundle) -> None:
    names = [scope["name"] for scope in bundle.resources("secret_scopes").values()]
    app = bundle.resources("apps")["dashboard"]["name"]
    parameters = bundle.resources("jobs")["orders"]["tasks"][0]["spark_python_task"]["parameters"]
    places = [
        line for text in parameters for line in text.splitlines() if line.startswith(("topics.dir", "state.prefix"))
    ]
    if bundle.target == "dev":
        assert names == ["kafka-s3-dev-jane_doe-dashboard", "kafka-s3-dev-jane_doe"]
        assert places == ["topics.dir=dev/jane_doe/topics", "state.prefix=dev/jane_doe/_kafka_s3"]
        assert app == "kafka-s3-jane-doe"
    else:
        assert names == ["kafka-s3-prod-dashboard", "kafka-s3-prod"]
        assert places == ["topics.dir=topics", "state.prefix=_kafka_s3"]
        assert app == "kafka-s3-prod"


def test_production_runs_as_the_service_principal_from_its_own_folder() -> None:
    bundle = load_bundle("prod", variables=VARIABLES)
    principal = VARIABLES["service_principal"]
    assert bundle.content["workspace"]["root_path"] == f"/Workspace/Users/{principal}/.bundle/kafka-s3/prod"
    assert {job["run_as"]["service_principal_name"] for job in bundle.resources("jobs").values()} == {principal}
    parameters = bundle.resources("jobs")["orders"]["tasks"][0]["spark_python_task"]["parameters"]
    assert parameters[0] == f"/Workspace/Users/{principal}/.bundle/kafka-s3/prod/files/resources/sinks/orders.json"


def test_every_configuration_has_one_job_of_its_name_and_is_valid_with_its_parameters(bundle: Bundle) -> None:
    files = {path.stem: path for path in configurations(ROOT / "resources" / "sinks")}
    sinks = {key: job for key, job in bundle.resources("jobs").items() if job["tags"].get("sink")}
    assert files.keys() == sinks.keys()
    for key, job in sinks.items():
        parameters = job["tasks"][0]["spark_python_task"]["parameters"]
        assert Path(parameters[0]).name == files[key].name
        (over,) = [text.removeprefix("--settings=") for text in parameters if text.startswith("--settings=")]
        checked = validate({**read_config(files[key]).texts, **read_properties(over, Path("--settings"))})
        assert checked.problems == ()
        assert checked.warnings == ()
        assert checked.settings.name == key


def test_every_job_that_reads_configurations_has_the_library_of_delta_tables(bundle: Bundle) -> None:
    """`delta.enable` may be set in any of them; without the library its sink does not start."""
    (library,) = [text for text in project()["optional-dependencies"]["delta"] if text.startswith("deltalake")]
    for key, job in bundle.resources("jobs").items():
        serverless = [text for one in job.get("environments", []) for text in one["spec"]["dependencies"]]
        libraries = [
            one["pypi"]["package"] for task in job["tasks"] for one in task.get("libraries", []) if "pypi" in one
        ]
        assert library in serverless + libraries, key


def test_a_configuration_and_a_job_file_are_all_that_a_further_sink_takes(tmp_path: Path) -> None:
    for name in ("databricks.yml", "resources"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    sinks = tmp_path / "resources" / "sinks"
    for suffix in ("job.yml", "json"):
        text = (sinks / f"orders.{suffix}").read_text()
        (sinks / f"payments.{suffix}").write_text(text.replace("orders", "payments"))
    bundle = load_bundle("prod", variables=VARIABLES, root=tmp_path)
    assert bundle.resources("jobs")["payments"]["tasks"][0]["spark_python_task"]["parameters"][0].endswith(
        "/payments.json"
    )
    assert lost_in_round_trip("jobs", bundle.resources("jobs")["payments"]) == []


def _changed(bundle: Bundle, path: str, value: Any) -> Bundle:
    content = copy.deepcopy(dict(bundle.content))
    *parents, last = path.split("/")
    at: Any = content
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
    at[int(last) if isinstance(at, list) else last] = value
    return Bundle(bundle.target, bundle.mode, content, bundle.origins)


ORDERS, SHIPMENTS, WATCH = (f"resources/jobs/{name}" for name in ("orders", "shipments", "watch"))
TASK = "tasks/0"


@pytest.mark.parametrize(
    ("path", "value", "reported"),
    [
        (f"{ORDERS}/max_concurent_runs", 1, "max_concurent_runs is unknown"),
        (f"{ORDERS}/continuous/task_retry_mode", "ALWAYS", "task_retry_mode"),
        (f"{ORDERS}/{TASK}/spark_python_task/parameter", ["x"], "parameter is unknown"),
        (f"{ORDERS}/job_clusters/0/new_cluster/data_security_mode", "DEDICATED", "data_security_mode"),
        (f"{SHIPMENTS}/health/rules/0/metric", "RUN_DURATION", "metric"),
        (f"{ORDERS}/schedule", {"quartz_cron_expression": "0 0 0 * * ?", "timezone_id": "UTC"}, "triggers"),
        (f"{ORDERS}/continuous/pause_status", "UNPAUSED", "UNPAUSED"),
        (f"{ORDERS}/max_concurrent_runs", 4, "four drivers"),
        (f"{ORDERS}/{TASK}/job_cluster_key", "other", "no job cluster other"),
        (f"{ORDERS}/{TASK}/spark_python_task/python_file", "../jobs/run_sink.py", "no file ../jobs/run_sink.py"),
        (f"{ORDERS}/{TASK}/spark_python_task/parameters", ["orders.json", "--set=a=1", "--set=b=2"], "one variable"),
        (f"{WATCH}/{TASK}/python_wheel_task/entry_point", "kafka_s3", "no entry point kafka_s3"),
        (f"{ORDERS}/{TASK}/libraries", [{"whl": "../dist/*.whl"}], "not in dist"),
        (f"{ORDERS}/{TASK}/libraries", [{"maven": {"coordinates": "a:b:1"}}], "no jar is needed"),
        (f"{ORDERS}/job_clusters/0/new_cluster/spark_version", "16.4.x-scala2.13", "older than 17.3"),
        (f"{ORDERS}/job_clusters/0/new_cluster/spark_env_vars", {"KAFKA_PASSWORD": "hunter2"}, "holds a secret"),
        (f"{SHIPMENTS}/{TASK}/environment_key", "other", "no environment other"),
        (f"{SHIPMENTS}/{TASK}/libraries", [{"whl": "../../dist/*.whl"}], "dependency of its environment"),
        ("resources/apps/dashboard/name", "Kafka_S3", "is not a name for an app"),
        ("resources/apps/dashboard/source_code_path", "../board", "no folder"),
        ("resources/apps/dashboard/config/env/5/value_from", "keys", "no resource keys"),
        ("resources/apps/dashboard/config/env/4", {"name": "A", "valueFrom": "access-key-id"}, "needs value or value_from"),
        ("resources/apps/dashboard/permissions/0/level", "CAN_VIEW", "CAN_VIEW is none of"),
        ("resources/apps/dashboard/resources/0/secret/permission", "CAN_READ", "permission"),
        ("resources/apps/dashboard/resources/0/secret/scope", "kafka-s3-prod", "reads everything in the scope"),
        ("resources/schemas/kafka_s3/grants/0/privileges", ["USAGES"], "is no grant"),
        ("resources/volumes/files/volume_type", "INTERNAL", "volume_type"),
        ("resources/volumes/files/schema_name", "elsewhere", "is not of this bundle"),
        ("resources/secret_scopes/secrets/name", "kafka-s3", "two targets would share it"),
        ("resources/pipelines", {"orders": {}}, "of no known kind"),
        ("workspace/host", "https://example.org", "would win over DATABRICKS_HOST"),
    ],
)  # fmt: skip
def test_a_mistake_is_found(path: str, value: Any, reported: str) -> None:
    found = findings(_changed(load_bundle("prod", variables=VARIABLES), path, value))
    assert len(found) >= 1
    assert any(reported in finding for finding in found), found


@pytest.mark.parametrize(
    ("path", "value", "reported"),
    [
        ("run_as", {"user_name": "jane"}, "refused beside an app"),
        ("workspace", {}, "needs workspace.root_path"),
        (f"{ORDERS}/run_as", {"user_name": "jane"}, "does not run as a service principal"),
        (f"{ORDERS}/email_notifications", {}, "tells nobody"),
        ("permissions", [], "nobody may manage"),
        ("permissions", [{"level": "CAN_VIEW", "group_name": "analysts"}], "opens the secret scopes"),
        (f"{ORDERS}/permissions", [{"level": "CAN_VIEW", "group_name": "admins"}], "as the top does"),
    ],
)
def test_a_mistake_in_production_is_found(path: str, value: Any, reported: str) -> None:
    found = findings(_changed(load_bundle("prod", variables=VARIABLES), path, value))
    assert any(reported in finding for finding in found), found


def test_a_mistake_in_development_is_found() -> None:
    bundle = load_bundle("dev", variables=VARIABLES)
    assert "may not unpause" in findings(_changed(bundle, "presets/trigger_pause_status", "UNPAUSED"))[0]
    assert "would not be installed again" in findings(_changed(bundle, "presets/artifacts_dynamic_version", False))[0]


@pytest.mark.parametrize(
    "text", ["${var.buckets}", "${resources.jobs.payments.id}", "${workspace.user}", "${bundle.mode}"]
)
def test_a_reference_that_points_nowhere_is_found(text: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "resources", tmp_path / "resources")
    (tmp_path / "databricks.yml").write_text((ROOT / "databricks.yml").read_text())
    job = tmp_path / "resources" / "sinks" / "orders.job.yml"
    job.write_text(job.read_text().replace("${var.sink_settings}", text))
    with pytest.raises(Unresolved, match=re.escape(text)):
        load_bundle("dev", variables=VARIABLES, root=tmp_path)


def test_the_dashboard_installs_the_wheel_of_this_version() -> None:
    wheel = f"./wheels/kafka_s3-{__version__}-py3-none-any.whl"
    assert wheel in (ROOT / "dashboard" / "requirements.txt").read_text().splitlines()


def test_both_ways_of_starting_the_dashboard_agree() -> None:
    alone = read_yaml(ROOT / "dashboard" / "app.yaml")
    deployed = load_bundle("prod", variables=VARIABLES).resources("apps")["dashboard"]["config"]
    assert alone["command"] == deployed["command"]
    both = {entry["name"]: entry.get("value", entry.get("value_from")) for entry in deployed["env"]}
    assert {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in alone["env"]}.items() <= both.items()


def test_every_page_of_jobs_is_deployed(bundle: Bundle) -> None:
    tasks = [task for job in bundle.resources("jobs").values() for task in job["tasks"]]
    scripts = [task["spark_python_task"] for task in tasks if "spark_python_task" in task]
    deployed = {Path(script["python_file"]).name for script in scripts}
    assert deployed == {path.name for path in (ROOT / "jobs").glob("*.py")}
