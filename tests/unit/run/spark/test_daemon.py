"""Tests of the process from which Spark's Python workers are forked."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from kafka_s3.run.spark.daemon import leave_archives


def test_archives_of_spark_are_not_looked_into_before_every_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's worker drops import caches before a task; a finder of an archive reads its whole directory then."""
    archive = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("of_spark.py", "")
    monkeypatch.setattr(sys, "path", [str(archive), *sys.path])
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    importlib.invalidate_caches()
    assert importlib.util.find_spec("of_spark") is not None
    leave_archives()
    assert importlib.util.find_spec("of_spark") is None
    assert not any(isinstance(finder, zipimporter) for finder in sys.path_importer_cache.values())
