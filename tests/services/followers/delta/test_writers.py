"""Whoever writes the table just when the sink is about to: nothing is lost, nothing doubled, and their own work stays.

The other writer strikes after the sink has read the table's state and before its commit, which is then on an old version.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake

from kafka_s3.model.errors import Fenced
from kafka_s3_testing.faults import Fault
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.delta_world import TableWorld

Other = Callable[[TableWorld], object]


@pytest.fixture
def world(objects: EmbeddedS3, own_bucket: str) -> TableWorld:
    """A table with two files."""
    world = TableWorld(objects, own_bucket, **{"flush.size": "1"})
    world.add({"n": 0}, {"n": 1})
    world.run()
    return world


def compact(world: TableWorld) -> None:
    world.table().optimize.compact()


def append(world: TableWorld) -> None:
    rows = pa.table({"n": [100], "partition": ["9"]})
    write_deltalake(world.address(), rows, mode="append", storage_options=world.storage_options())


def add_column(world: TableWorld) -> None:
    world.table().alter.add_columns(list(Schema([Field("theirs", "string")]).fields))  # type: ignore[arg-type]


def delete_a_row(world: TableWorld) -> None:
    world.table().delete("n = 0")


def checkpoint(world: TableWorld) -> None:
    table = world.table()
    table.create_checkpoint()
    table.cleanup_metadata()


def between(world: TableWorld, other: Other) -> Fault:
    """Strikes when the sink looks at its own new object, which is after it has read the table."""
    return Fault("get_range", lambda _: other(world), matches=lambda key: key.endswith("2.snappy.parquet"))


@pytest.mark.parametrize(
    ("other", "more", "numbers"),
    [
        (compact, {}, [0, 1, 2, 3]),
        (compact, {"more": "x"}, [0, 1, 2, 3]),
        (append, {"more": "x"}, [0, 1, 2, 3, 100]),
        (add_column, {"more": "x"}, [0, 1, 2, 3]),
        (delete_a_row, {}, [1, 2, 3]),
        (checkpoint, {}, [0, 1, 2, 3]),
    ],
    ids=[
        "OPTIMIZE",
        "OPTIMIZE, new columns",
        "append, new columns",
        "ALTER TABLE, new columns",
        "DELETE",
        "checkpoint",
    ],
)
def test_another_writer_in_between(world: TableWorld, other: Other, more: dict[str, str], numbers: list[int]) -> None:
    world.add({"n": 2, **more}, {"n": 3, **more})
    world.run([between(world, other)])
    assert world.warnings.texts == []
    assert [row["n"] for row in world.rows()] == numbers
    world.run()
    assert [row["n"] for row in world.rows()] == numbers


def test_a_second_driver_in_between(world: TableWorld) -> None:
    world.add({"n": 2}, {"n": 3})

    def takeover(world: TableWorld) -> None:
        world.start()
        world.add({"n": 4})
        assert world.sink.poll_and_commit()

    with pytest.raises(Fenced):  # at the latest when it tells where the sink stands
        world.run([between(world, takeover)])
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4]


def test_a_sink_and_others_that_write_all_the_time(world: TableWorld) -> None:
    """One thread compacts, one appends; the sink brings new columns now and then."""
    done, appended = threading.Event(), list[int]()

    def compacting() -> None:
        while not done.wait(0.05):
            try_to(world.table().optimize.compact)

    def appending() -> None:
        while not done.wait(0.05):
            rows = pa.table({"n": [1000 + len(appended)], "partition": ["9"]})
            with_fewer_columns = partial(write_deltalake, mode="append", schema_mode="merge", storage_options=options)
            if try_to(partial(with_fewer_columns, world.address(), rows)):
                appended.append(1000 + len(appended))

    options = world.storage_options()
    threads = [threading.Thread(target=compacting), threading.Thread(target=appending)]
    for thread in threads:
        thread.start()
    n = 2
    while n < 9 or not (appended or n > 100):
        world.add({"n": n, **({f"c{n}": n} if n % 4 == 0 else {})})
        assert world.sink.poll_and_commit()
        n += 1
    done.set()
    for thread in threads:
        thread.join()
    world.now += 60_001
    world.start()
    assert appended
    assert [row["n"] for row in world.rows()] == [*range(n), *appended]
    assert DeltaTable(world.address(), storage_options=options).version() > n


def try_to(write: Callable[[], object]) -> bool:
    """Whether the write came through: a commit of others may be refused for one of the sink's, not the other way round."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        write()
    except (CommitFailedError, DeltaError):
        return False
    return True
