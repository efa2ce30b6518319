"""What is a cluster on one machine? `spark-submit` with executors in processes of their own, as docs/deploy.md has its command line."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark

from tests.services.bundle.cloud import Cloud, connector

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.python.daemon.module": "kafka_s3.spark.daemon",
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}


@contextmanager
def submitted(cloud: Cloud, job: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The process of a submitted script on two executors of one core, and the file of its output. Nothing of it is left behind."""
    home = _home(cloud.folder / "spark")
    command = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,512]", "--jars", connector()]
    command += [part for key, value in SETTINGS.items() for part in ("--conf", f"{key}={value}")]
    environment = cloud.environment(SPARK_HOME=str(home))
    environment.pop("DATABRICKS_RUNTIME_VERSION")
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


def _home(folder: Path) -> Path:
    """What is installed, with a `work` of its own, where executors leave their files."""
    folder.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":
            (folder / part.name).symlink_to(part)
    return folder


def executor_at_work(driver: int, log: Path) -> tuple[psutil.Process, str]:
    """The JVM of the executor that has the latest task, by what the driver has logged, and that task's stage."""
    stage, number = re.findall(
        r"Starting task 0\.0 in stage (\S+) \(TID \d+\) \([^,]*,executor (\d+)", log.read_text()
    )[-1]
    family = {one: _words(one) for one in psutil.Process(driver).children(recursive=True)}
    process = next(
        one
        for one, words in family.items()
        if "--executor-id" in words and words[words.index("--executor-id") + 1] == number
    )
    return process, stage


def _words(process: psutil.Process) -> list[str]:
    """Its command line; of one that has just ended, none."""
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []
