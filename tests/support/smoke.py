"""Does each extra of the wheel work in an environment that holds nothing else?

    python -m tests.support.smoke WHEEL [EXTRA...]      # as `make release` does; all extras by default
    python -m tests.support.smoke --matrix WHEEL [PYTHON...]    # as `make matrix` does: each Python with each Spark

For each extra an empty environment gets the wheel with it, by pip from the index, and runs a short script in an empty folder.
The wheel of kafka-s3-testing lies beside WHEEL.
`""` is the wheel alone, and `demo` the extras with which the README starts. The matrix runs the demo, the tests of `examples/`, and
`stream_smoke`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

EXAMPLE: Final = "$VIRTUAL_ENV/share/kafka-s3/examples"
SMOKES: Final = {
    "": f"""
        kafka-s3 --version
        kafka-s3 validate {EXAMPLE}/s3-sink.json
        names=$(kafka-s3 --help | sed -n '/^Commands/,$ s/^  \\([a-z][a-z-]*\\) .*/\\1/p')
        for command in $names; do kafka-s3 $command --help >/dev/null; done
        ! kafka-s3 run {EXAMPLE}/s3-sink.json 2>error.txt
        grep -q 'pip install' error.txt
        python -c '
import kafka_s3
for name in {{*kafka_s3.__all__}} - {{"read_committed", "KafkaS3"}}: getattr(kafka_s3, name)'
    """,
    "spark": """
        python -m kafka_s3.run.spark.class_archive
        python -c '
from kafka_s3 import KafkaS3, read_committed
from kafka_s3.run.spark.session import local_session
spark = local_session(name="smoke", cores="1")
assert spark.range(3).count() == 3
spark.stop()'
    """,
    "delta": f"""
        kafka-s3 validate {EXAMPLE}/orders-table.json --set kafka.bootstrap.servers=localhost:9092
        python -c 'import kafka_s3.followers.delta.table'
    """,
    "iceberg": f"""
        kafka-s3 validate {EXAMPLE}/orders-table.json --set kafka.bootstrap.servers=localhost:9092 --set delta.enable=false \\
          --set iceberg.enable=true --set iceberg.catalog.type=sql --set iceberg.catalog.uri=sqlite:///catalog.db \\
          --set iceberg.table.name=lake.orders
        python -c '
import kafka_s3.followers.iceberg.maintain, kafka_s3.followers.iceberg.table
from pyiceberg.catalog import load_catalog
load_catalog("iceberg", type="sql", uri="sqlite:///catalog.db").create_namespace("lake")'
    """,
    "databricks": """
        python -c '
from kafka_s3.connect.config.references import *
from databricks.sdk import WorkspaceClient'
    """,
    "dashboard": """
        export AWS_ENDPOINT_URL_S3=http://127.0.0.1:9
        kafka-s3 dashboard --bucket lake --port 8951 >dashboard.log 2>&1 &
        server=$!
        page="import urllib.request; urllib.request.urlopen('http://127.0.0.1:8951/')"
        for try in $(seq 60); do python -c "$page" 2>/dev/null && break; sleep 1; done
        python -c "$page" || { cat dashboard.log; exit 1; }
        kill $server
    """,
    "metrics": """
        python -c '
from kafka_s3.run.metrics.exporters import serve_prometheus
with serve_prometheus(lambda: [], 0): pass'
    """,
    "otlp": """
        python -c '
from kafka_s3.run.metrics.exporters import send_otlp
with send_otlp(lambda: []): pass'
    """,
    "msk": """
        python -c 'import kafka_s3.kafka.iam, aws_msk_iam_sasl_signer'
    """,
    "protobuf": """
        python -c 'import kafka_s3.connect.schemas.protobuf, grpc_tools.protoc'
    """,
    "local": """
        python -c '
from kafka_s3.run.java.java import find_java
from kafka_s3_testing.services.s3 import EmbeddedS3
print(find_java())
with EmbeddedS3() as server: print(server.endpoint_url)'
    """,
    "testing": """
        cp $VIRTUAL_ENV/share/kafka-s3/examples/orders.json .
        cat >test_sink.py <<'END'
from kafka_s3 import read_config

def test_an_order_becomes_an_object(run_sink):
    made = run_sink(read_config("orders.json").texts, {"orders": [b'{"order_id": 1, "created_at": "2025-03-14T08:15:00.000Z"}']})
    assert len(made.objects) == 1
END
        pytest -q test_sink.py
    """,
    "demo": """
        kafka-s3 demo --records 3000
    """,
    "matrix": f"""
        kafka-s3 demo --records 3000
        cp -r {ROOT}/examples .
        cp {ROOT}/tests/support/stream_smoke.py test_stream.py
        pytest -q examples test_stream.py
    """,
}
EXTRAS: Final = {"demo": "spark,local,delta", "matrix": "spark,local,delta,testing"}
PYTHONS: Final = ("3.11", "3.12", "3.13")
"""The ones that pyproject.toml names, and the workflows install."""
SPARKS: Final = {
    "4.0": ("pyspark==4.0.*", "delta-spark==4.0.*"),
    "4.2": ("pyspark==4.2.*", "delta-spark==4.4.0"),
}


def main(words: Sequence[str]) -> int:
    """Runs the scripts; 1 where one fails."""
    if words[0] == "--matrix":
        return matrix(Path(words[1]).resolve(), words[2:] or PYTHONS)
    wheel, *chosen = words
    chosen = chosen or [name for name in SMOKES if name != "matrix"]
    failed = [extra for extra in chosen if not smoke(Path(wheel).resolve(), extra, EXTRAS.get(extra, extra))]
    if failed:
        print(f"failed: {', '.join(map(repr, failed))}", file=sys.stderr)
    return bool(failed)


def smoke(wheel: Path, name: str, extras: str, *, python: str = sys.executable, more: Sequence[str] = ()) -> bool:
    """Whether a script runs with the wheel, these extras and `more` in an empty environment; what it said is printed where it does not."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "environment"
        done = finished([python, "-m", "venv", environment])
        if not done.returncode:
            wanted = f"{wheel}[{extras}]" if extras else str(wheel)
            pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            testing = wheel.parent.glob("kafka_s3_testing-*.whl") if {"local", "testing"} & {*extras.split(",")} else ()
            done = finished([*pip, "--no-compile", wanted, *testing, *more])
        if not done.returncode:
            empty = Path(scratch) / "empty"
            empty.mkdir()
            done = finished(["bash", "-euc", SMOKES[name]], empty, terminal(environment))
    print(
        f"{name or 'the wheel alone'}: {'failed' if done.returncode else 'ok'}, {time.monotonic() - begun:.0f} s",
        flush=True,
    )
    if done.returncode:
        print(done.stdout, flush=True)
    return not done.returncode


def matrix(wheel: Path, pythons: Sequence[str]) -> int:
    """Runs each Python that this machine has with each Spark; 1 where one fails. A Python that is not here is named."""
    failed = False
    for version in pythons:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: not on this machine, not run", flush=True)
            continue
        for spark, pins in SPARKS.items():
            print(f"Python {version}, Spark {spark}: ", end="", flush=True)
            failed |= not smoke(wheel, "matrix", EXTRAS["matrix"], python=python, more=[*pins, "chispa"])
    return failed


def interpreter(version: str) -> str | None:
    """A Python of a version, where the machine has one that runs."""
    python = shutil.which(f"python{version}")
    works = python and not finished([python, "-c", "import venv, ensurepip"]).returncode
    return python if works else None


def terminal(environment: Path) -> dict[str, str]:
    """The variables of a terminal in which an environment is active."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK_"))}
    return own | {
        "PATH": f"{environment}/bin{os.pathsep}{own['PATH']}",
        "VIRTUAL_ENV": str(environment),
        "COLUMNS": "200",
    }


def finished(
    command: Sequence[str | Path], folder: Path | None = None, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A program that ran to its end, with all that it said."""
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=variables, timeout=1800
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
