"""Do the jobs and the app of the bundle run? As they stand in the YAML, from the wheel, against a real Kafka and an S3 server.

The place of the workspace is taken by a server that speaks its REST interface, that of job compute by a local Spark, that of serverless
compute by a Spark Connect server in a process of its own.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_s3_testing.services.demo_records import CARRIERS, register_shipments, shipment_records
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.process import ServerProcess, free_ports
from kafka_s3_testing.services.registry import EmbeddedRegistry
from kafka_s3_testing.services.s3 import ACCESS_KEY, SECRET_KEY, EmbeddedS3
from tests.services.bundle.app_platform import page_of, settled, started, uploaded
from tests.services.bundle.cloud import TOPICS, Cloud, connector
from tests.services.bundle.fresh_environment import add_wheel, build_wheel
from tests.services.bundle.spark_cluster import WORKERS, executor_at_work, submitted, tasks_by_executor
from tests.services.bundle.workspace_stand_in import WorkspaceStandIn
from tests.support.bucket import Bucket
from tests.support.bundle.files import VARIABLES, load_bundle, project
from tests.support.filled import copied, worked
from tests.support.kafka import Given, document, produce
from tests.support.repository import ROOT
from tests.support.waiting import eventually

SCOPE = "kafka-s3-dev-jane_doe"
SECRETS = {f"{SCOPE}/kafka-username": "sink", f"{SCOPE}/kafka-password": "s3cret-of-kafka"}


@pytest.fixture
def cloud(kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, python: Path, tmp_path: Path) -> Iterator[Cloud]:
    """All of it, with a bucket of the test's own."""
    content = Bucket(s3.endpoint_url, bucket)
    keys = {"kafka-s3": (ACCESS_KEY, SECRET_KEY)}
    with WorkspaceStandIn(SECRETS, keys) as workspace, EmbeddedRegistry() as registry:
        yield Cloud(kafka, s3, registry, workspace, content, python, tmp_path)
    content.close()


def test_the_wheel_holds_package_command_and_dashboard_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
        (entry_points,) = (content.read(name).decode() for name in names if name.endswith("/entry_points.txt"))
    stem = wheel.name.removesuffix("-py3-none-any.whl")
    data = f"{stem}.data/data/share/kafka-s3/"
    shared = f"{data}dashboard/"
    modules = {str(path.relative_to(ROOT / "bundle")) for path in (ROOT / "bundle" / "kafka_s3").rglob("*.py")}
    board = {
        path.relative_to(ROOT / "dashboard")
        for path in (ROOT / "dashboard").rglob("*.py")
        if "wheels" not in path.parts
    }
    extras = {
        f"{shared}{name}"
        for name in (
            "icon.png",
            ".streamlit/config.toml",
            "kafka_s3_dashboard/views/fleet.css",
            "kafka_s3_dashboard/views/fleet.js",
        )
    }
    pages = {f"{shared}{path}" for path in board}
    examples = {
        f"{data}examples/{path.name}"
        for path in (ROOT / "examples").iterdir()
        if path.suffix in (".json", ".properties")
    }
    assert modules | {"kafka_s3/py.typed", "kafka_s3/__init__.pyi"} | pages | extras | examples == {
        name for name in names if ".dist-info/" not in name
    }
    assert not [name for name in names - {*modules} if "test" in name.lower()]
    for name in project()["scripts"]:
        assert f"{name} = kafka_s3.cli." in entry_points


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "passed"), [("orders", 3), ("orders_table", 2)])
def test_the_examples_of_users_tests_run_with_the_plugin_of_the_wheel(
    python: Path, tmp_path: Path, name: str, passed: int
) -> None:
    """In a folder of their own, as in a user's repository, where warnings are errors; the fixtures come by an entry point."""
    add_wheel(python, build_wheel(tmp_path / "wheels", "bundle"))
    for file in (f"{name.replace('_', '-')}.json", f"test_{name}.py"):
        shutil.copy(ROOT / "examples" / file, tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYSPARK_"))}
    command = [python, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=500)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{passed} passed" in ran.stdout


def test_the_app_starts_as_the_platform_starts_it_and_shows_the_sinks(cloud: Cloud, wheel: Path) -> None:
    made = worked(hours=2)
    copied(made.store, cloud.bucket.client, cloud.bucket.name)
    app = load_bundle("prod", variables={**VARIABLES, "bucket": cloud.bucket.name}).resources("apps")["dashboard"]
    variables = settled(app["config"]["env"], app["resources"]) | {"AWS_ENDPOINT_URL_S3": cloud.s3.endpoint_url}
    with started(
        uploaded(wheel, cloud.python, cloud.folder), app["config"]["command"], variables, cloud.folder
    ) as port:
        text = page_of(port)
    assert "Overview" in text
    assert f'"{made.settings.name}"' in text
    assert "orders" in text


@pytest.mark.nightly  # the serverless one runs from the wheel by day
def test_the_continuous_job_runs_from_the_wheel_until_it_is_cancelled(cloud: Cloud) -> None:
    """On Spark as job compute has it: a session is there, with the connector."""
    cloud.kafka.create_topic("orders", 2)
    produce(
        cloud.kafka.bootstrap_servers, "orders", [Given(document(id=number), number % 2) for number in range(20_000)]
    )
    (task,) = cloud.job("orders")["tasks"]
    quiet = "--conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false"
    options = f"--master local[2] {quiet} --jars {connector()} pyspark-shell"
    process, log = cloud.start(task, cloud.environment(SESSION="1", PYSPARK_SUBMIT_ARGS=options))
    try:
        eventually(lambda: len(cloud.objects("orders")) == 2 or process.poll() is not None, what=log.read_text)
        process.terminate()
        assert process.wait(240) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "after the task: 3 rows" in log.read_text()  # the platform's session is left alone
    assert "task value kafka_s3.orders.written = 20000" in log.read_text()
    keys = cloud.objects("orders")
    assert sorted(row["id"] for key in keys for row in cloud.bucket.rows(key)) == list(range(20_000))
    assert all(key.startswith(f"{TOPICS}orders/year=2025/month=01/day=15/hour=10/orders+") for key in keys)
    assert any("/secrets/get" in path for path in cloud.workspace.requests)
    assert "s3cret-of-kafka" not in log.read_text()
    verify = next(one for one in cloud.job("maintenance")["tasks"] if one["task_key"] == "verify")
    verify["python_wheel_task"]["parameters"][1] = task["spark_python_task"]["parameters"][0]  # this sink alone
    assert "are accounted for exactly once" in cloud.run(verify, cloud.environment())


@pytest.mark.nightly  # the faults of drivers kill a Python worker in every run
def test_spark_submit_on_a_cluster_writes_once_what_a_killed_executor_was_at(
    cloud: Cloud, topic: Callable[..., str]
) -> None:
    """As docs/deploy.md has it for a cluster of one's own: a master and three workers, whose executors find the wheel installed."""
    name = topic("orders", partitions=6)
    records = [Given(document(id=number), partition=number % 6) for number in range(12_000)]
    produce(cloud.kafka.bootstrap_servers, name, records)
    places = {
        "topics": name, "s3.bucket.name": cloud.bucket.name, "kafka.bootstrap.servers": cloud.kafka.bootstrap_servers, "flush.size": "200",
        "kafka.reader": "tasks", "tasks.max": "6",
    }  # fmt: skip
    job = [str(ROOT / part) for part in ("jobs/run_sink.py", "resources/sinks/orders.json")] + [
        "--available-now",
        "--flush",
    ]
    job += [part for key, value in places.items() for part in ("--set", f"{key}={value}")]
    with submitted(cloud, job) as (process, log):
        eventually(lambda: process.poll() is not None or _uploads(cloud.bucket) > 0, what=log.read_text)
        executor, number, stage = executor_at_work(log)
        executor.kill()
        assert process.wait(240) == 0, log.read_text()
    reported = log.read_text()
    assert f"Lost task {number}.0 in stage {stage}" in reported
    assert f"Starting task {number}.1 in stage {stage}" in reported
    assert len(tasks_by_executor(log)) >= WORKERS, "not every worker had a task"
    assert _uploads(cloud.bucket) > 0, "the executor was in the middle of nothing"  # kafka-s3 sweep ends what it left
    rows = [row for key in cloud.bucket.data_keys() for row in cloud.bucket.rows(key)]
    assert sorted(row["id"] for row in rows) == list(range(12_000))


def _uploads(bucket: Bucket) -> int:
    """Files that are being uploaded, or were by a process that is dead."""
    return len(bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", []))


@pytest.fixture
def connect_server(cloud: Cloud) -> Iterator[str]:
    """The address of a Spark Connect server; only its Python workers see the wheel, and they see no network address of S3."""
    import pyspark

    (port,) = free_ports(1)
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.progress.reportInterval": "100ms",
        "spark.ui.enabled": "false",
    }
    command: list[str | Path] = [
        home / "bin" / "spark-submit",
        "--master",
        "local[2]",
        "--jars",
        connector(),
    ]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = cloud.environment(SPARK_HOME=str(home))
    for name in (
        "DATABRICKS_HOST",
        "DATABRICKS_TOKEN",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    ):
        environment[name] = ""
    server = ServerProcess("Spark Connect", command, log=cloud.folder / "connect.log", environment=environment)
    try:
        server.wait_for_port(port, 90)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop()


def test_the_serverless_job_and_the_maintenance_run_through_spark_connect(cloud: Cloud, connect_server: str) -> None:
    """No JVM beside the driver, no keys but those of the service credential, and no network for Spark's tasks."""
    ids = register_shipments(cloud.registry)
    cloud.kafka.create_topic("shipments", 4)
    shipments = list(shipment_records(ids, 2_000))
    records = [Given(one.message.value, one.partition, one.message.timestamp, one.message.key) for one in shipments]
    produce(cloud.kafka.bootstrap_servers, "shipments", records)
    environment = cloud.environment(SESSION="1", SPARK_REMOTE=connect_server)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "JAVA_HOME", "PYSPARK_SUBMIT_ARGS"):
        environment.pop(name, None)
    (task,) = cloud.job("shipments")["tasks"]
    reported = cloud.run(task, environment)
    assert "after the task: 3 rows" in reported
    assert '"event": "reading", "records": 0, "of": 2000' in reported
    keys = cloud.objects("shipments")
    tables = [pq.read_table(io.BytesIO(cloud.bucket.get(key))) for key in keys]
    broken = sum(one.malformed for one in shipments)
    assert broken > 0
    assert sum(map(len, tables)) == len(shipments) - broken
    assert {key.split("/")[4] for key in keys} == {f"carrier={carrier}" for carrier in CARRIERS}
    assert any("temporary-service-credentials" in path for path in cloud.workspace.requests)

    for name in ("SESSION", "SPARK_REMOTE"):
        environment.pop(name)
    sweep, verify, maintain, copies, _ = cloud.job("maintenance")["tasks"]
    assert "--- shipments.json" in cloud.run(sweep, environment)
    process, log = cloud.start(verify, environment)
    assert process.wait(240) == 70, log.read_text()
    assert "the task has left with 2" in log.read_text()  # orders, the other sink of the folder, has never run
    assert "name ('orders'): has no commit log" in log.read_text()
    assert "2,000 offsets of 3 topic-partitions are accounted for exactly once." in log.read_text()
    assert "shipments keeps no Delta tables" in cloud.run(maintain, environment)
    assert "shipments: Spark writes no tables for this sink" in cloud.run(copies, environment)
    (check,) = cloud.job("watch")["tasks"]
    process, log = cloud.start(check, environment)
    assert process.wait(240) == 70, log.read_text()  # orders, the other sink of the folder, has never run
    assert "shipments STOPPED: ended cleanly" in log.read_text()
    assert "orders" in log.read_text().partition("has no state")[0].splitlines()[-1]
