from __future__ import annotations

import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kafka_s3.run.java.cache import LocalServiceError, cache_folder, new_folder
from kafka_s3.run.java.jars import (
    DELTA_BY_SPARK,
    TESTED_SPARK,
    delta_package,
    ivy_file,
    kafka_package,
    module_name,
    trust_store_options,
)
from tests.support.smoke import PYTHONS, SPARKS


def test_the_ivy_file_names_what_to_fetch_and_what_to_leave_out() -> None:
    tree = ET.fromstring(ivy_file(["g.h:a_2.13:1.0", "x:y:2"], ["slf4j-api", "lz4-java"]))
    assert [(d.get("org"), d.get("name"), d.get("rev")) for d in tree.iter("dependency")] == [
        ("g.h", "a_2.13", "1.0"),
        ("x", "y", "2"),
    ]
    assert [e.get("module") for e in tree.iter("exclude")] == ["lz4-java", "slf4j-api"]


@pytest.mark.parametrize(
    ("jar", "module"),
    [
        ("chill_2.13-0.10.0.jar", "chill_2.13"),
        ("guava-33.4.0-jre.jar", "guava"),
        ("netty-all-4.1.118.Final.jar", "netty-all"),
        ("hadoop-client-api-3.4.1.jar", "hadoop-client-api"),
        ("hive-shims-0.23-2.3.10.jar", "hive-shims"),
        ("connect-repl.jar", "connect-repl"),
    ],
)
def test_the_artifact_of_a_jar_is_its_name_without_the_version(jar: str, module: str) -> None:
    assert module_name(jar) == module


def test_the_connectors_are_those_of_the_installed_sparks_minor_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_s3.run.java.jars.version", lambda package: "4.0.9")
    assert kafka_package() == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
    assert delta_package() == "io.delta:delta-spark_2.13:4.0.1"
    monkeypatch.setattr("kafka_s3.run.java.jars.version", lambda package: "4.2.1")
    assert delta_package() == "io.delta:delta-spark_4.2_2.13:4.4.0"


@pytest.mark.parametrize("installed", ["4.1.0", "4.3.1", "3.5.6"])
def test_a_spark_that_is_not_tested_is_refused_with_those_that_are(
    installed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_s3.run.java.jars.version", lambda package: installed)
    with pytest.raises(
        LocalServiceError, match=rf"pyspark {installed} is installed.*tested is Spark 4\.0 and 4\.2: pip install"
    ):
        kafka_package()


def test_the_tested_sparks_are_those_that_the_extras_install() -> None:
    extras = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    bounds = {
        requirement.name: requirement.specifier
        for extra in ("spark", "delta")
        for requirement in map(Requirement, extras[extra])
    }
    minors = ("3.5", "4.0", "4.1", "4.2", "4.3", "5.0")
    assert [minor for minor in minors if f"{minor}.5" in bounds["pyspark"]] == list(TESTED_SPARK) == list(SPARKS)
    for coordinates in DELTA_BY_SPARK.values():
        assert coordinates.rpartition(":")[2] in bounds["delta-spark"]


def test_the_pythons_of_the_matrix_are_those_that_the_package_names() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [
        name.rpartition(" ")[2]
        for name in project["classifiers"]
        if name.startswith("Programming Language :: Python :: 3.")
    ]
    assert named == list(PYTHONS)


def test_a_folder_whose_filling_fails_never_appears(tmp_path: Path) -> None:
    def fill() -> None:
        with new_folder(tmp_path / "target") as folder:
            (folder / "half").write_text("x")
            raise ValueError("interrupted")

    with pytest.raises(ValueError, match="interrupted"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_the_second_to_fill_a_folder_keeps_the_first_ones(tmp_path: Path) -> None:
    with new_folder(tmp_path / "target") as late:
        (late / "who").write_text("late")
        with new_folder(tmp_path / "target") as early:
            (early / "who").write_text("early")
    assert (tmp_path / "target" / "who").read_text() == "early"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_java_trusts_what_python_trusts() -> None:
    first = trust_store_options()
    store = Path(first[0].partition("=")[2])
    assert store.is_relative_to(cache_folder())
    assert store.stat().st_size > 1000
    written = store.stat().st_mtime_ns
    assert trust_store_options() == first
    assert store.stat().st_mtime_ns == written
