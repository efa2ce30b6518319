"""What does code find that runs as if modules were not installed?"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kafka_s3.run.spark.unneeded import without


def test_modules_are_neither_imported_nor_found_and_then_are_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_tests").mkdir()
    (tmp_path / "of_tests" / "inner.py").touch()
    (tmp_path / "loaded_before.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    loaded = importlib.import_module("loaded_before")
    with without("of_tests", "loaded_before"):
        assert find_spec("of_tests") is None  # how Spark 4.2 asks; 4.0 imports
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("of_tests.inner")
        assert importlib.import_module("loaded_before") is loaded
    assert find_spec("of_tests") is not None
    assert importlib.import_module("of_tests.inner").__name__ in sys.modules
    assert sys.modules["loaded_before"] is loaded
