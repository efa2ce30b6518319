"""Two versions on one log: the version before, this one, and back again, each going on where the other ended.

The version before is a commit of this repository, run from its own files in this environment. docs/upgrade.md says what follows for users.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.kafka import Given, document, produce
from tests.support.repository import ROOT
from tests.support.sink_process import SinkProcess
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually

BEFORE = "b730695f"
"""What became 0.1.0."""
PARTITIONS, RECORDS = 2, 250


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the version before."""
    folder = tmp_path_factory.mktemp("before")
    archive = subprocess.run(["git", "archive", BEFORE, "bundle"], cwd=ROOT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"this clone has no commit {BEFORE}: git fetch --unshallow")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder / "bundle"


def running(package: Path, command: str, config: Path, *words: str) -> SinkProcess:
    """A command of the package in a folder, on a sink."""
    log = config.with_name(f"{len(list(config.parent.glob('*.log')))}.log")
    environment = {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}"}
    return SinkProcess(["-m", "kafka_s3", command, str(config), *words], log, environment)


def drained(package: Path, config: Path, *words: str) -> None:
    """Works off what is in Kafka, and ends well."""
    with running(package, "run", config, "--available-now", *words) as sink:
        assert sink.wait() == 0, sink.output()


@pytest.mark.nightly
def test_an_upgrade_and_a_rollback_lose_and_double_nothing(
    before: Path, here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Files stay open between the runs: each version goes on with those of the other."""
    name, this = topic("upgraded", PARTITIONS), ROOT / "bundle"
    config = here.config(name, **{"flush.size": "60"})
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    turns: list[tuple[Path, tuple[str, ...]]] = [(before, ()), (this, ()), (before, ()), (this, ("--flush",))]
    for turn, (package, words) in enumerate(turns):
        made = range(turn * RECORDS, (turn + 1) * RECORDS)
        produce(here.servers, name, [Given(document(n=n), n % PARTITIONS) for n in made])
        drained(package, path, *words)
        (beat,) = [json.loads(here.bucket.get(key)) for key in here.bucket.listing() if key.endswith("/heartbeat.json")]
        assert beat["product"] == ("0.1.0" if package == before else version_of(this))
    rows = [row["n"] for content in here.bucket.contents().values() for row in content]
    assert sorted(rows) == list(range(4 * RECORDS))
    for package in (before, this):
        with running(package, "verify", path) as verify:
            assert verify.wait() == 0, verify.output()


@pytest.mark.nightly
@pytest.mark.parametrize("upgrade", [True, False], ids=["the new one takes over", "the old one takes over"])
def test_the_driver_of_one_version_fences_that_of_the_other(
    upgrade: bool, before: Path, here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, this = topic(f"takeover-{upgrade}", PARTITIONS), ROOT / "bundle"
    first, second = (before, this) if upgrade else (this, before)
    config = here.config(name, **{"flush.size": "50"})
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    produce(here.servers, name, [Given(document(n=n), n % PARTITIONS) for n in range(RECORDS)])
    with running(first, "run", path) as old:
        eventually(lambda: len(here.bucket.data_keys()) >= 4, what=old.output)
        drained(second, path, "--flush")
        produce(here.servers, name, [Given(document(n=n), n % PARTITIONS) for n in range(RECORDS, 2 * RECORDS)])
        assert old.wait() == 1, old.output()
    assert "Fenced" in old.output()
    drained(second, path, "--flush")
    rows = [row["n"] for content in here.bucket.contents().values() for row in content]
    assert sorted(rows) == list(range(2 * RECORDS))


@pytest.mark.nightly
def test_the_version_before_refuses_a_log_with_rewrites_and_changes_nothing(
    before: Path, here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    """What docs/upgrade.md says of a rollback behind `kafka-s3 compact`; the new version goes on afterwards."""
    name, this = topic("rewritten", PARTITIONS), ROOT / "bundle"
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(here.config(name, **{"flush.size": "25"})))
    produce(here.servers, name, [Given(document(n=n), n % PARTITIONS) for n in range(RECORDS)])
    drained(this, path)
    with running(this, "compact", path, "--older-than", "1s") as compact:
        assert compact.wait() == 0, compact.output()
    produce(here.servers, name, [Given(document(n=n), n % PARTITIONS) for n in range(RECORDS, 2 * RECORDS)])
    here_before = here.bucket.contents()
    with running(before, "run", path, "--available-now") as refused:
        assert refused.wait() != 0, refused.output()
    assert "has format 3; this version reads up to 2. Upgrade kafka-s3 to go on." in " ".join(refused.output().split())
    assert here.bucket.contents() == here_before
    drained(this, path, "--flush")
    with running(this, "verify", path) as verify:
        assert verify.wait() == 0, verify.output()
    assert {row["n"] for content in here.bucket.contents().values() for row in content} == {*range(2 * RECORDS)}


def version_of(package: Path) -> str:
    """The version that a package names."""
    text = (package / "kafka_s3" / "__init__.py").read_text(encoding="utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]
