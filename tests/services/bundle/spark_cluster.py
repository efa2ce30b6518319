"""What is a cluster on one machine? Spark's own master and workers, each a process, and `spark-submit` as docs/deploy.md has it."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark

from kafka_s3_testing.services.process import HOST, ServerProcess, free_ports
from tests.services.bundle.cloud import Cloud, connector

WORKERS = 3
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.python.daemon.module": "kafka_s3.run.spark.daemon",
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # all executors have part in the first round
}
STARTED = re.compile(r"Starting task (\d+)\.0 in stage (\S+) \(TID \d+\) \([^,]*,executor (\d+)")


@contextmanager
def submitted(cloud: Cloud, job: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The process of a submitted script and the file of its output, on workers of one core each. Nothing of it is left behind."""
    home = _home(cloud.folder / "spark")
    environment = cloud.environment(SPARK_HOME=str(home), SPARK_LOCAL_IP=HOST)
    environment.pop("DATABRICKS_RUNTIME_VERSION")
    with _standalone(home, cloud.folder, environment) as master:
        command = [str(home / "bin" / "spark-submit"), "--master", master, "--jars", connector()]
        command += [part for key, value in SETTINGS.items() for part in ("--conf", f"{key}={value}")]
        log = cloud.folder / "submitted.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *job], stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=cloud.folder
            )
        try:
            yield process, log
        finally:
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            for one in [*family, process]:
                one.kill()
            process.wait(30)


@contextmanager
def _standalone(home: Path, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of a master that has all its workers."""
    (port,) = free_ports(1)
    start = [str(home / "bin" / "spark-class")]
    with ExitStack() as running:

        def server(name: str, *command: str) -> ServerProcess:
            made = ServerProcess(name, [*start, *command], log=folder / f"{name}.log", environment=environment)
            running.callback(made.stop)
            return made

        master = server(
            "master", "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0"
        )
        master.wait_for_port(port, 90)
        address = f"spark://{HOST}:{port}"
        for number in range(WORKERS):
            server(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", address, "--host", HOST, "--cores", "1",
                "--memory", "600m", "--webui-port", "0", "--work-dir", str(folder / f"work-{number}"),
            )  # fmt: skip
        yield address


def _home(folder: Path) -> Path:
    """What is installed, with a `work` of its own, where executors leave their files."""
    folder.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":
            (folder / part.name).symlink_to(part)
    return folder


def tasks_by_executor(log: Path) -> Counter[str]:
    """How many tasks each executor was given, by what the driver has logged."""
    return Counter(executor for _, _, executor in STARTED.findall(log.read_text()))


def executor_at_work(log: Path) -> tuple[psutil.Process, str, str]:
    """The JVM of the executor that has the latest task, by what the driver has logged; that task's number and stage."""
    text = log.read_text()
    number, stage, executor = STARTED.findall(text)[-1]
    (application,) = re.findall(r"Connected to Spark cluster with app ID (\S+)", text)
    words = {one: _words(one) for one in psutil.process_iter()}
    wanted = {"--executor-id": executor, "--app-id": application}
    found = next(
        one
        for one, reported in words.items()
        if all(name in reported and reported[reported.index(name) + 1] == value for name, value in wanted.items())
    )
    return found, number, stage


def _words(process: psutil.Process) -> list[str]:
    """Its command line; of one that has just ended, none."""
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []
