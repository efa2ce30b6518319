"""What does a deployed task have around it? Kafka, S3, a registry, a workspace, and the Python of an environment with the wheel."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_s3.run.java.jars import spark_kafka_jars
from kafka_s3.run.java.java import java_environment
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.registry import EmbeddedRegistry
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.services.bundle.workspace_stand_in import WorkspaceStandIn
from tests.support.bucket import Bucket
from tests.support.bundle.files import Workspace, load_bundle
from tests.support.repository import ROOT

PYTHON_TASK = Path(__file__).with_name("python_task.py")
TOPICS, STATE = "dev/jane_doe/topics/", "dev/jane_doe/_kafka_s3/"
STARTED = dict[str, str]


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
        """Starts a task; its output goes to the file."""
        log = self.folder / f"{task['task_key']}.log"
        if script := task.get("spark_python_task"):
            what = [ROOT / "jobs" / Path(script["python_file"]).name, *script["parameters"]]
        else:
            wheel = task["python_wheel_task"]
            what = [f"{wheel['package_name']}:{wheel['entry_point']}", *wheel["parameters"]]
        command = [self.python, PYTHON_TASK, *what]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=self.folder
            )
        return process, log

    def run(self, task: dict[str, Any], environment: STARTED) -> str:
        """Runs a task to its end, which must be a good one; gives what it wrote."""
        process, log = self.start(task, environment)
        try:
            code = process.wait(150)
        finally:
            process.kill()
            process.wait()
        assert code == 0, log.read_text()
        return log.read_text()


def connector() -> str:
    """The Kafka connector's jars, as --jars takes them."""
    return ",".join(map(str, spark_kafka_jars()))
