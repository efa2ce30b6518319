"""delta-spark writes a table just when the sink is about to, and the other way round: nothing is lost, nothing doubled.

Spark commits in the folder of an S3 server, the sink through S3. Neither takes a version that the other has; but Spark looks first and
writes then, so that a race for the same moment would prove nothing. Here one stands still while the other commits.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_s3.model.errors import PreconditionFailed
from kafka_s3_testing.faults import Fault
from tests.services.run.spark.delta_spark_world import SparkWorld, numbered

INSERT = "INSERT INTO TABLE_ (n, partition) VALUES (100, '9')"


@pytest.mark.parametrize(
    ("statement", "more", "numbers"),
    [
        pytest.param("OPTIMIZE TABLE_", {}, [0, 1, 2, 3], marks=pytest.mark.nightly),
        (INSERT, {"more": "x"}, [0, 1, 2, 3, 100]),
    ],
    ids=["OPTIMIZE", "INSERT, new columns"],
)
def test_spark_writes_the_table_when_the_sink_is_about_to(
    named: SparkWorld, statement: str, more: dict[str, str], numbers: list[int]
) -> None:
    """Spark commits in the folder, the sink through S3, which refuses it the version that Spark has just taken."""
    named.configure(**{"flush.size": "1"})
    named.add(*numbered(0, 1))
    named.run()
    version = named.table().version()
    named.add({"n": 2, **more}, {"n": 3, **more})
    assert named.run(
        [Fault("get_range", lambda _: named.sql(statement), matches=lambda key: key.endswith("2.snappy.parquet"))]
    )
    assert named.warnings.texts == []
    assert named.actions(version + 1)[0]["commitInfo"]["operation"] in ("OPTIMIZE", "WRITE")
    with pytest.raises(PreconditionFailed):
        named.store.put_new(f"topics/orders/_delta_log/{version + 1:020d}.json", b"")
    assert [row["n"] for row in named.rows()] == named.numbers() == numbers


@pytest.mark.nightly
@pytest.mark.parametrize("statement", ["OPTIMIZE TABLE_", INSERT], ids=["OPTIMIZE", "INSERT"])
def test_the_sink_writes_the_table_when_spark_is_about_to(named: SparkWorld, statement: str) -> None:
    """Spark is stopped between reading the table and its commit; it finds the version taken, and takes the next."""
    named.configure(**{"flush.size": "1"})
    named.add(*numbered(0, 1))
    named.run()
    inserted, n = 0, 2
    for _ in range(5):  # Spark may be done before it is stopped
        before = named.table().version()
        named.add({"n": n})
        while_spark_writes(named, statement, named.sink.poll_and_commit)
        inserted, n = inserted + (statement == INSERT), n + 1
        if named.actions(before + 1)[0].keys() & {"add", "txn"} or "userMetadata" in str(named.actions(before + 1)):
            break
    else:
        pytest.fail("Spark was never stopped in time.")
    last = named.actions(before + 2)
    assert [one["commitInfo"]["readVersion"] for one in last if "commitInfo" in one] == [before]
    assert [row["n"] for row in named.rows()] == named.numbers() == [*range(n), *[100] * inserted]
    assert named.warnings.texts == []


def while_spark_writes(world: SparkWorld, statement: str, action: Callable[[], object]) -> None:
    """Runs the action while Spark stands still in the middle of a statement: a data file is there, its commit is not."""
    folder = world.s3.folder / world.bucket / "topics/orders"
    java = world.session._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    known, deadline = set(folder.rglob("part-*")), time.monotonic() + 60
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(world.sql, statement)
        while not set(folder.rglob("part-*")) - known and not done.done() and time.monotonic() < deadline:
            time.sleep(0.001)
        os.kill(java, signal.SIGSTOP)
        try:
            action()
        finally:
            os.kill(java, signal.SIGCONT)
        done.result()
