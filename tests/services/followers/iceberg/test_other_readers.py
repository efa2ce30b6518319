"""Do polars and DuckDB read what the sink wrote? In environments of their own, which pip fills: the product needs neither of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY
from tests.services.followers.iceberg.test_readers import filled, world_on

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
POLARS = ("polars==2.1.0", "pyiceberg==0.12.0")
DUCKDB = ("duckdb==1.4.4", *(f"duckdb-ext-{name}==1.4.4.20260205" for name in ("avro", "iceberg", "httpfs")))
"""The newest DuckDB whose extensions are packages."""

BY_POLARS = """
import json, sys, polars
location, endpoint, key, secret, region = sys.argv[1:]
options = {"s3.endpoint": endpoint, "s3.access-key-id": key, "s3.secret-access-key": secret, "s3.region": region}
found = polars.scan_iceberg(location, storage_options=options)
rows = found.sort("n").collect().to_dicts()
print(json.dumps([rows, found.filter(polars.col("partition") == "1").collect()["n"].to_list()]))
"""
BY_DUCKDB = """
import json, pathlib, sys, duckdb
location, endpoint, key, secret, region = sys.argv[1:]
base = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "httpfs", "iceberg"):
    (file,) = {one for folder in sys.path for one in pathlib.Path(folder).glob(f"duckdb_ext/**/{name}.duckdb_extension")}
    base.execute(f"LOAD '{file}'")
where = endpoint.partition("://")[2]
login = f"KEY_ID '{key}', SECRET '{secret}', REGION '{region}'"
base.execute(f"CREATE SECRET (TYPE s3, {login}, ENDPOINT '{where}', URL_STYLE path, USE_SSL false)")
read = base.execute(f"SELECT * FROM iceberg_scan('{location}') ORDER BY n")
rows = [dict(zip([one[0] for one in read.description], row)) for row in read.fetchall()]
pruned = base.execute(f"SELECT n FROM iceberg_scan('{location}') WHERE partition = '1' ORDER BY n").fetchall()
print(json.dumps([rows, [one for one, in pruned]]))
"""


@pytest.mark.parametrize(("packages", "script"), [(POLARS, BY_POLARS), (DUCKDB, BY_DUCKDB)], ids=["polars", "duckdb"])
def test_the_same_rows_are_read(
    packages: Sequence[str], script: str, objects: EmbeddedS3, own_bucket: str, tmp_path: Path
) -> None:
    world = filled(world_on(objects, own_bucket, tmp_path))
    found = run_in(tmp_path, packages, script, world.table().metadata_location, objects.endpoint_url)
    assert found == [world.rows(), [4, 5]]


def run_in(folder: Path, packages: Sequence[str], script: str, location: str, endpoint: str) -> Any:
    """What a script prints that sees these packages alone."""
    targets = []
    for number, package in enumerate(packages):  # each extension's package has files of the same folder
        targets.append(folder / f"packages-{number}")
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", targets[-1], package], check=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": os.pathsep.join(map(str, targets))}
    command = [sys.executable, "-c", script, location, endpoint, ACCESS_KEY, SECRET_KEY, REGION]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
