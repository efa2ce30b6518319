"""State tables of Iceberg's, by Spark's MERGE: copy on write, each entry once, columns by the mode."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_state_is_kept_in_icebergs_tables(s3: EmbeddedS3, bucket: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.services.state.on_iceberg", s3.endpoint_url, bucket, str(tmp_path)]
    done = subprocess.run([*command, *map(str, range(20))], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == [], "each table holds the newest value of every key and column"
    merges = found["merges"]
    assert merges["rows"] == {"a": 0, "b": 7, "d": 9}
    assert (merges["again"], merges["deletes"]) == (0, 0), "an entry counts once, and no reader has to know deletions"
    assert merges["entry"] == merges["version"]
    assert "the table holds what the log says" in merges["same"]
    assert 'key {"_key":"b"} differs' in merges["differs"]
    assert merges["rebuilt"] == merges["same"]
    modes = found["modes"]
    assert [(row["n"], row["in"], row["more"]) for row in modes["addNewColumns"]] == [
        (2, {"a": 2, "b": "y"}, "x"),
        (3, None, None),
    ]
    assert "cannot take new column" in modes["failOnNewColumns"]
    assert [row["_rescued_data"] for row in modes["rescue"]] == ['{"more":"x"}', None]
    assert [(row["n"], row["in"]) for row in modes["none"]] == [(2, {"a": 2}), (3, None)]
    assert "more" not in modes["none"][0]
