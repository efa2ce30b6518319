"""The tool that everybody has reads Block-GZIP objects."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kafka_s3.objects.block_gzip_form import Lines
from tests.support.block_gzip import texts, written


def test_the_gzip_tool_reads_the_whole_object(tmp_path: Path) -> None:
    content, _ = written(Lines(), texts(*(f"record {n:04d}" for n in range(50))), block_size=64)
    path = tmp_path / "data.gz"
    path.write_bytes(content)
    done = subprocess.run(["gzip", "-dc", str(path)], capture_output=True, check=True)
    assert done.stdout.decode() == "".join(f"record {n:04d}\n" for n in range(50))
