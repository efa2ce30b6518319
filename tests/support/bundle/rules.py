"""Which rules must the bundle keep that neither YAML nor the SDK's classes know? Each gives its findings as texts.

The SDK's classes drop what the API does not know: a resource that does not come back as it went in holds a wrong field or value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.bundle.files import Bundle, project
from tests.support.repository import ROOT

Finding = str
OWN_KEYS = {
    "jobs": {"permissions", "lifecycle"},
    "apps": {"source_code_path", "config", "permissions", "lifecycle"},
    "schemas": {"grants", "lifecycle"},
    "volumes": {"grants", "lifecycle"},
    "secret_scopes": {"permissions", "lifecycle"},
}
"""Keys of the bundle's own, unknown to the API."""
LEVELS = {
    "jobs": {"CAN_VIEW", "CAN_MANAGE_RUN", "CAN_MANAGE", "IS_OWNER"},
    "apps": {"CAN_USE", "CAN_MANAGE"},
    "secret_scopes": {"READ", "WRITE", "MANAGE"},
}
PRINCIPALS = {"user_name", "group_name", "service_principal_name"}
TRIGGERS = ("continuous", "schedule", "trigger", "triggers")
APP_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")
ACTIONS = {"jobs": "job", "apps": "app", "schemas": "schema", "volumes": "volume", "secret_scopes": "secret_scope"}


@cache
def forms() -> Mapping[str, type[Any]]:
    """The API's class of each kind of resource that the bundle may hold."""
    from databricks.sdk.service import apps, catalog, jobs, workspace  # takes seconds

    return {
        "jobs": jobs.JobSettings,
        "apps": apps.App,
        "schemas": catalog.SchemaInfo,
        "volumes": catalog.VolumeInfo,
        "secret_scopes": workspace.SecretScope,
    }


@cache
def privileges() -> frozenset[str]:
    from databricks.sdk.service.catalog import Privilege

    return frozenset(privilege.value for privilege in Privilege)


def plain(value: Any) -> Any:
    """A resource as JSON would carry it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def lost_in_round_trip(kind: str, resource: Mapping[str, Any]) -> list[Finding]:
    """Where a resource differs after a trip through the API's class."""
    sent = {key: value for key, value in resource.items() if key not in OWN_KEYS[kind]}
    back = plain(forms()[kind].from_dict(sent).as_dict())
    return [*_differences(sent, back, ""), *_own_keys(kind, resource)]


def _differences(sent: Any, back: Any, at: str) -> Iterator[Finding]:
    if isinstance(sent, Mapping):
        for key, value in sent.items():
            if not isinstance(back, Mapping) or key not in back:
                if value not in ({}, []):  # the classes leave out what is empty
                    yield f"{at}.{key} is unknown, or its value {value!r} is"
            else:
                yield from _differences(value, back[key], f"{at}.{key}")
    elif isinstance(sent, list):
        if not isinstance(back, list) or len(back) != len(sent):
            yield f"{at} is not a list of that length"
            return
        for number, (one, other) in enumerate(zip(sent, back, strict=True)):
            yield from _differences(one, other, f"{at}[{number}]")
    elif sent != back or type(sent) is not type(back):
        yield f"{at} is {back!r} instead of {sent!r}"


def _own_keys(kind: str, resource: Mapping[str, Any]) -> Iterator[Finding]:
    for permission in resource.get("permissions", []):
        if permission.get("level") not in LEVELS[kind]:
            yield f"permissions: {permission.get('level')} is none of {sorted(LEVELS[kind])}"
        if len(PRINCIPALS & permission.keys()) != 1 or permission.keys() - PRINCIPALS - {"level"}:
            yield f"permissions: {permission} names not one user, group or service principal"
    for grant in resource.get("grants", []):
        unknown = set(grant.get("privileges", [])) - privileges()
        if unknown or grant.keys() != {"principal", "privileges"}:
            yield f"grants: {grant} is no grant"


def findings(bundle: Bundle) -> list[Finding]:
    """Everything that is wrong with the bundle for its target."""
    rules: tuple[Callable[[Bundle], Iterator[Finding]], ...] = (
        _shapes, _file_names, _jobs, _apps, _storage, _artifacts, _permissions, _development, _production, _no_host,
    )  # fmt: skip
    return [f"{bundle.target}: {finding}" for rule in rules for finding in rule(bundle)]


def _shapes(bundle: Bundle) -> Iterator[Finding]:
    for kind, resources in bundle.content["resources"].items():
        if kind not in forms():
            yield f"resources.{kind} is of no known kind"
            continue
        for key, resource in resources.items():
            yield from (f"{kind}.{key}: {finding}" for finding in lost_in_round_trip(kind, resource))


def _file_names(bundle: Bundle) -> Iterator[Finding]:
    for name, path in bundle.origins.items():
        kind, key = name.split(".")
        if path.name != f"{key}.{ACTIONS.get(kind, kind)}.yml":
            yield f"{name} stands in {path.name}"


def _jobs(bundle: Bundle) -> Iterator[Finding]:
    for key, job in bundle.resources("jobs").items():
        place = bundle.origins[f"jobs.{key}"].parent
        found = [trigger for trigger in TRIGGERS if trigger in job]
        if len(found) != 1:
            yield f"job {key} has the triggers {found}: it needs one"
        if job.get("max_concurrent_runs") != 1:
            yield f"job {key}: max_concurrent_runs must be 1, or dev starts four drivers of one sink"
        if any(job.get(trigger, {}).get("pause_status") == "UNPAUSED" for trigger in found):
            yield f"job {key}: an explicit UNPAUSED runs in dev, too"
        yield from (f"job {key}: {finding}" for task in job["tasks"] for finding in _task(job, task, place))
        if "continuous" in job and any("environment_key" in task or "max_retries" in task for task in job["tasks"]):
            yield f"job {key}: a continuous job needs job compute, and has no retries of its own"
        for environment in job.get("environments", []):
            if not {"environment_version", "base_environment"} & environment["spec"].keys():
                yield f"job {key}: the environment {environment['environment_key']} has no version"
            yield from _libraries(environment["spec"].get("dependencies", []), place, f"job {key}")
        for cluster in job.get("job_clusters", []):
            yield from (f"job {key}: {finding}" for finding in _cluster(cluster["new_cluster"]))


def _task(job: Mapping[str, Any], task: Mapping[str, Any], place: Path) -> Iterator[Finding]:
    key = task["task_key"]
    clusters = {cluster["job_cluster_key"] for cluster in job.get("job_clusters", [])}
    environments = {environment["environment_key"] for environment in job.get("environments", [])}
    if ("job_cluster_key" in task) == ("environment_key" in task):
        yield f"task {key} needs a job cluster or an environment"
    if task.get("job_cluster_key", next(iter(clusters), None)) not in clusters | {None}:
        yield f"task {key}: no job cluster {task['job_cluster_key']}"
    if task.get("environment_key", next(iter(environments), None)) not in environments | {None}:
        yield f"task {key}: no environment {task['environment_key']}"
    if "environment_key" in task and "libraries" in task:
        yield f"task {key}: serverless takes the wheel as a dependency of its environment"
    if any("maven" in library or "jar" in library for library in task.get("libraries", [])):
        yield f"task {key}: the runtime has the Kafka connector, no jar is needed"
    others = {other["task_key"] for other in job["tasks"]}
    if missing := {other["task_key"] for other in task.get("depends_on", [])} - others:
        yield f"task {key} depends on unknown {sorted(missing)}"
    yield from _libraries(
        [library["whl"] for library in task.get("libraries", []) if "whl" in library], place, f"task {key}"
    )
    if script := task.get("spark_python_task"):
        if (place / script["python_file"]).resolve().parent != ROOT / "jobs" or not (
            place / script["python_file"]
        ).is_file():
            yield f"task {key}: no file {script['python_file']} in jobs/ (paths are relative to the file)"
        if sum(parameter.startswith("--set") for parameter in script["parameters"]) != 1:
            yield f"task {key}: what all sinks share belongs into one variable, given as --settings"
    elif wheel := task.get("python_wheel_task"):
        if wheel["package_name"] != "kafka_s3" or wheel["entry_point"] not in project()["scripts"]:
            yield f"task {key}: {wheel['package_name']} has no entry point {wheel['entry_point']}"
        if sum(parameter.startswith("--set") for parameter in wheel["parameters"]) != 1:
            yield f"task {key}: what all sinks share belongs into one variable, given as --settings"
    else:
        yield f"task {key} does nothing"


def _libraries(paths: list[str], place: Path, what: str) -> Iterator[Finding]:
    for path in paths:
        if path.endswith(".whl") and (place / path).parent.resolve() != ROOT / "dist":
            yield f"{what}: {path} is not in dist/ (paths are relative to the file)"


def _cluster(cluster: Mapping[str, Any]) -> Iterator[Finding]:
    release = re.match(r"(\d+)\.(\d+)\.", str(cluster.get("spark_version")))
    if not release or (int(release[1]), int(release[2])) < (17, 3):
        yield f"runtime {cluster.get('spark_version')} is older than 17.3"
    if "autoscale" in cluster:
        yield "a continuous job runs on a fixed number of workers"
    for part in ("spark_conf", "spark_env_vars"):
        for name, value in cluster.get(part, {}).items():
            if re.search(r"secret|password|token", name, re.IGNORECASE) and not str(value).startswith("{{secrets/"):
                yield f"{part}.{name} holds a secret"


def _apps(bundle: Bundle) -> Iterator[Finding]:
    for key, app in bundle.resources("apps").items():
        folder = bundle.origins[f"apps.{key}"].parent / app["source_code_path"]
        if not APP_NAME.fullmatch(app["name"]):
            yield f"app {key}: {app['name']} is not a name for an app"
        if not folder.is_dir():
            yield f"app {key}: no folder {app['source_code_path']}"
        names = {resource["name"] for resource in app.get("resources", [])}
        scopes = {resource["secret"]["scope"] for resource in app.get("resources", []) if "secret" in resource}
        for scope in scopes & set(
            re.findall(r"\$\{secrets:([^/}]+)/", json.dumps(bundle.content["resources"]["jobs"]))
        ):
            yield f"app {key} reads everything in the scope {scope}, which holds passwords of jobs"
        for entry in app.get("config", {}).get("env", []):
            if len(entry.keys() & {"value", "value_from"}) != 1 or entry.keys() - {"name", "value", "value_from"}:
                yield f"app {key}: {entry} needs value or value_from"
            elif entry.get("value_from", next(iter(names), None)) not in names:
                yield f"app {key}: no resource {entry['value_from']}"


def _storage(bundle: Bundle) -> Iterator[Finding]:
    schemas = {schema["name"] for schema in bundle.resources("schemas").values()}
    for key, volume in bundle.resources("volumes").items():
        if volume["schema_name"] not in schemas:
            yield f"volume {key}: the schema {volume['schema_name']} is not of this bundle"
    for key, scope in bundle.resources("secret_scopes").items():
        if bundle.target not in scope["name"]:
            yield f"secret scope {key}: {scope['name']} does not name the target, so two targets would share it"


def _artifacts(bundle: Bundle) -> Iterator[Finding]:
    wheels = [artifact for artifact in bundle.content.get("artifacts", {}).values() if artifact.get("type") == "whl"]
    if len(wheels) != 1 or not wheels[0].get("build"):
        yield "there must be one wheel, with the command that builds it"


def _permissions(bundle: Bundle) -> Iterator[Finding]:
    """Those at the top are laid on every resource: CAN_VIEW becomes READ on a secret scope; whom both name draws a warning."""
    top = bundle.content.get("permissions", [])
    for permission in top:
        if permission["level"] != "CAN_MANAGE":
            yield f"permissions: {permission} at the top opens the secret scopes: say it in the jobs and apps"
    everywhere = {_principal(permission) for permission in top}
    for kind, resources in bundle.content["resources"].items():
        for key, resource in resources.items():
            for permission in resource.get("permissions", []):
                if _principal(permission) in everywhere:
                    yield f"{kind}.{key}: permissions name {_principal(permission)}, as the top does, which --strict refuses"


def _principal(permission: Mapping[str, Any]) -> str:
    return next((str(permission[name]) for name in PRINCIPALS if name in permission), "")


def _development(bundle: Bundle) -> Iterator[Finding]:
    if bundle.mode != "development":
        return
    presets = bundle.content.get("presets", {})
    if presets.get("trigger_pause_status") == "UNPAUSED":
        yield "a preset may not unpause triggers in development"
    if not presets.get("artifacts_dynamic_version"):
        yield "artifacts_dynamic_version is off: a rebuilt wheel of the same version would not be installed again"


def _production(bundle: Bundle) -> Iterator[Finding]:
    if bundle.mode != "production":
        return
    if not bundle.content.get("workspace", {}).get("root_path"):
        yield "production needs workspace.root_path"
    if "run_as" in bundle.content:
        yield "run_as at the top is refused beside an app: each job has its own"
    for key, job in bundle.resources("jobs").items():
        if "service_principal_name" not in job.get("run_as", {}):
            yield f"job {key} does not run as a service principal"
        if not job.get("email_notifications", {}).get("on_failure"):
            yield f"job {key} tells nobody of failures"
    if not bundle.content.get("permissions"):
        yield "permissions: nobody may manage what is deployed"


def _no_host(bundle: Bundle) -> Iterator[Finding]:
    if {"host", "profile"} & bundle.content.get("workspace", {}).keys():
        yield "workspace.host in the file would win over DATABRICKS_HOST"
