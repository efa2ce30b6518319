"""Do the JVMs of Spark and of the broker start from archives of their classes, and go on without where there is none?"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_s3.run.java.cache import cache_folder
from kafka_s3.run.java.java import JARS_FILE, ClassArchive, find_java
from kafka_s3.run.spark.class_archive import spark_classes
from kafka_s3_testing.services.kafka import kafka_classes


def test_a_local_session_has_the_archive(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    given = list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())
    assert set(spark_classes().options(find_java())) <= set(given)


def test_a_cache_that_cannot_be_written_to_means_no_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert spark_classes().options(find_java()) == []


@pytest.mark.nightly
@pytest.mark.parametrize("archive", [spark_classes, kafka_classes])
def test_the_first_start_on_a_machine_makes_the_archive(
    archive: Callable[[], ClassArchive], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")  # of all tests of this process: it names the archive that there is
    shutil.copytree(own / "jars", cache_folder() / "jars")
    gone = cache_folder() / "classes" / "0123456789ab"
    gone.mkdir(parents=True)
    (gone / JARS_FILE).write_text(f"{tmp_path / 'environment' / 'jars'} 1")
    reported: list[str] = []
    (option, silent) = archive().options(find_java(), reported.append)
    assert [f"{archive().name.lower()}.jsa" in option, len(reported), gone.exists()] == [True, 1, False]
    subprocess.run([find_java().executable, "-version", option, silent], check=True)
    assert archive().options(find_java(), reported.append) == [option, silent]
    assert len(reported) == 1
