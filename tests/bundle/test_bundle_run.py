"""Do the jobs of the bundle run? The tasks as they stand in the YAML, from the wheel, against a real Kafka and an S3 server.

The place of the workspace is taken by a server that speaks its REST interface, that of job compute by a local Spark, that of serverless
compute by a Spark Connect server in a process of its own.
"""

from __future__ import annotations

import io
import os
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_s3.embedded.jars import spark_kafka_jars
from kafka_s3.embedded.java import java_environment
from kafka_s3.embedded.kafka import EmbeddedKafka
from kafka_s3.embedded.process import ServerProcess, free_ports
from kafka_s3.embedded.registry import EmbeddedRegistry
from kafka_s3.embedded.s3 import ACCESS_KEY, SECRET_KEY, EmbeddedS3
from kafka_s3.embedded.shipments import CARRIERS, register_shipments, shipment_records
from tests.bundle.bundle_files import Workspace, load_bundle
from tests.bundle.fresh_environment import build_wheel, install
from tests.bundle.workspace_stand_in import WorkspaceStandIn
from tests.integration.support import ROOT, Bucket, Given, document, eventually, produce

WHEEL_TASK = Path(__file__).with_name("wheel_task.py")
SCOPE = "kafka-s3-dev-jane_doe"
TOPICS, STATE = "dev/jane_doe/topics/", "dev/jane_doe/_kafka_s3/"
SECRETS = {f"{SCOPE}/kafka-username": "sink", f"{SCOPE}/kafka-password": "s3cret-of-kafka"}
STARTED = dict[str, str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel."""
    return install(wheel, tmp_path_factory.mktemp("environment") / "venv")


@dataclass
class Cloud:
    """What a deployed job has around it."""

    kafka: EmbeddedKafka
    s3: EmbeddedS3
    registry: EmbeddedRegistry
    workspace: WorkspaceStandIn
    bucket: Bucket
    python: Path
    folder: Path

    def job(self, key: str) -> dict[str, Any]:
        """A job of the deployed bundle, with the addresses of this cloud."""
        variables = {
            "bucket": self.bucket.name,
            "kafka_bootstrap_servers": self.kafka.bootstrap_servers,
            "kafka_security_protocol": "PLAINTEXT",
            "schema_registry_url": self.registry.url,
            "instance_profile_arn": "arn:aws:iam::123456789012:instance-profile/kafka-s3",
        }
        bundle = load_bundle("dev", variables=variables, workspace=Workspace(file_path=str(ROOT)))
        found: dict[str, Any] = bundle.resources("jobs")[key]
        return found

    def environment(self, **more: str) -> STARTED:
        """The variables of a task: those of a runtime and of the workspace, and the address of the S3 server."""
        left_out = ("PYTHONPATH", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
        inherited = {name: value for name, value in os.environ.items() if name not in left_out}
        runtime = {"DATABRICKS_RUNTIME_VERSION": "17.3", "AWS_ENDPOINT_URL_S3": self.s3.endpoint_url}
        python = {
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        return {**inherited, **java_environment(), **runtime, **python, **self.workspace.environment, **more}

    def objects(self, topic: str) -> list[str]:
        """The objects of a topic."""
        return [key for key in self.bucket.data_keys() if key.startswith(f"{TOPICS}{topic}/")]

    def start(self, task: dict[str, Any], environment: STARTED) -> tuple[subprocess.Popen[bytes], Path]:
        """Starts a wheel task; its output goes to the file."""
        wheel = task["python_wheel_task"]
        log = self.folder / f"{task['task_key']}.log"
        command = [self.python, WHEEL_TASK, wheel["package_name"], wheel["entry_point"], *wheel["parameters"]]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=self.folder
            )
        return process, log

    def run(self, task: dict[str, Any], environment: STARTED) -> str:
        """Runs a wheel task to its end, which must be a good one; gives what it wrote."""
        process, log = self.start(task, environment)
        try:
            code = process.wait(150)
        finally:
            process.kill()
            process.wait()
        assert code == 0, log.read_text()
        return log.read_text()


@pytest.fixture
def cloud(kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, python: Path, tmp_path: Path) -> Iterator[Cloud]:
    """All of it, with a bucket of the test's own."""
    content = Bucket(s3.endpoint_url, bucket)
    keys = {"kafka-s3": (ACCESS_KEY, SECRET_KEY)}
    with WorkspaceStandIn(SECRETS, keys) as workspace, EmbeddedRegistry() as registry:
        yield Cloud(kafka, s3, registry, workspace, content, python, tmp_path)
    content.close()


def test_the_wheel_holds_the_package_its_entry_points_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        (entry_points,) = (content.read(name).decode() for name in names if name.endswith("/entry_points.txt"))
    top = {name.split("/")[0] for name in names}
    modules = {str(path.relative_to(ROOT / "bundle")) for path in (ROOT / "bundle" / "kafka_s3").rglob("*.py")}
    assert top == {"kafka_s3", f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"}
    assert modules | {"kafka_s3/py.typed"} == {name for name in names if name.startswith("kafka_s3/")}
    for name in (
        "kafka-s3",
        "kafka-s3-run-sink",
        "kafka-s3-sweep-sinks",
        "kafka-s3-verify-sinks",
        "kafka-s3-maintain-tables",
    ):
        assert f"{name} = kafka_s3.cli." in entry_points


def test_the_continuous_job_runs_from_the_wheel_until_it_is_cancelled(cloud: Cloud) -> None:
    """On Spark as job compute has it: a session is there, with the connector."""
    cloud.kafka.create_topic("orders", 2)
    produce(
        cloud.kafka.bootstrap_servers, "orders", [Given(document(id=number), number % 2) for number in range(20_000)]
    )
    (task,) = cloud.job("orders")["tasks"]
    quiet = "--conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false"
    options = f"--master local[2] {quiet} --jars {_connector()} pyspark-shell"
    process, log = cloud.start(task, cloud.environment(SESSION="1", PYSPARK_SUBMIT_ARGS=options))
    try:
        eventually(
            lambda: len(cloud.objects("orders")) == 2 or process.poll() is not None, seconds=240, what=log.read_text
        )
        process.terminate()
        assert process.wait(90) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "after the task: 3 rows" in log.read_text()  # the platform's session is left alone
    keys = cloud.objects("orders")
    assert sorted(row["id"] for key in keys for row in cloud.bucket.rows(key)) == list(range(20_000))
    assert all(key.startswith(f"{TOPICS}orders/year=2025/month=01/day=15/hour=10/orders+") for key in keys)
    assert any("/secrets/get" in path for path in cloud.workspace.requests)
    assert "s3cret-of-kafka" not in log.read_text()


def test_spark_submit_runs_the_sink_on_a_cluster(cloud: Cloud, topic: Callable[..., str]) -> None:
    """As docs/deploy.md has it for a cluster of one's own: two executors in processes of their own, which find the wheel installed."""
    import pyspark

    name, home = topic("orders", partitions=2), Path(pyspark.__file__).parent
    produce(cloud.kafka.bootstrap_servers, name, [Given(document(id=number), number % 2) for number in range(100)])
    places = {
        "topics": name,
        "s3.bucket.name": cloud.bucket.name,
        "kafka.bootstrap.servers": cloud.kafka.bootstrap_servers,
    }
    settings = {"spark.ui.enabled": "false", "spark.executor.memory": "512m"}
    command = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,512]", "--jars", _connector()]
    command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command += [
        str(ROOT / "jobs" / "run_sink.py"),
        str(ROOT / "resources" / "sinks" / "orders.json"),
        "--available-now",
        "--flush",
    ]
    command += [part for key, value in places.items() for part in ("--set", f"{key}={value}")]
    environment = cloud.environment(SPARK_HOME=str(home))
    environment.pop("DATABRICKS_RUNTIME_VERSION")
    ran = subprocess.run(command, env=environment, cwd=cloud.folder, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [row for key in cloud.bucket.data_keys() for row in cloud.bucket.rows(key)]
    assert sorted(row["id"] for row in rows) == list(range(100))


def _connector() -> str:
    return ",".join(map(str, spark_kafka_jars()))


@pytest.fixture
def connect_server(cloud: Cloud) -> Iterator[str]:
    """The address of a Spark Connect server; only its Python workers see the wheel, and they see no network address of S3."""
    import pyspark

    (port,) = free_ports(1)
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    command: list[str | Path] = [
        home / "bin" / "spark-submit",
        "--master",
        "local[2]",
        "--jars",
        ",".join(map(str, spark_kafka_jars())),
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
    records = [Given(one.value, one.partition, one.timestamp_ms, one.key) for one in shipments]
    produce(cloud.kafka.bootstrap_servers, "shipments", records)
    environment = cloud.environment(SESSION="1", SPARK_REMOTE=connect_server)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "JAVA_HOME", "PYSPARK_SUBMIT_ARGS"):
        environment.pop(name, None)
    (task,) = cloud.job("shipments")["tasks"]
    assert "after the task: 3 rows" in cloud.run(task, environment)
    keys = cloud.objects("shipments")
    tables = [pq.read_table(io.BytesIO(cloud.bucket.get(key))) for key in keys]
    broken = sum(one.malformed for one in shipments)
    assert broken > 0
    assert sum(map(len, tables)) == len(shipments) - broken
    assert {key.split("/")[4] for key in keys} == {f"carrier={carrier}" for carrier in CARRIERS}
    assert any("temporary-service-credentials" in path for path in cloud.workspace.requests)

    for name in ("SESSION", "SPARK_REMOTE"):
        environment.pop(name)
    sweep, verify, maintain = cloud.job("maintenance")["tasks"]
    assert "sweep shipments.json" in cloud.run(sweep, environment)
    told = cloud.run(verify, environment)
    assert "Nothing found: every record is accounted for exactly once." in told
    assert "shipments keeps no Delta tables" in cloud.run(maintain, environment)
    missing = keys[0]
    cloud.bucket.client.delete_object(Bucket=cloud.bucket.name, Key=missing)
    process, log = cloud.start(verify, environment)
    assert process.wait(120) == 70  # the task has left with an exit code
    assert missing in log.read_text()
