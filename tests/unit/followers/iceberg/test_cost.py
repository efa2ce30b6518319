"""What does a commit of an Iceberg table cost? Its requests are those that `simulate` counts, and its metadata stay small for good."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kafka_s3.ops.forecast import MERGED_MANIFESTS, iceberg_requests
from kafka_s3.store.faults import FaultyStore
from tests.support.iceberg_world import IcebergWorld

READING, WRITING = {"get", "get_range", "head"}, {"put", "put_new", "list"}


def test_requests_of_a_table_are_those_that_its_bucket_sees(tmp_path: Path) -> None:
    world = IcebergWorld(tmp_path)
    sink, seen, commits = world.start(), Counter[str](), MERGED_MANIFESTS + 5
    for n in range(0, 2 * commits, 2):
        world.add({"n": n}, {"n": n + 1})
        assert sink.poll_and_commit()
    assert isinstance(sink.store, FaultyStore)
    for verb, key in sink.store.calls:
        if key.startswith("iceberg/") or "/followers/iceberg" in key or verb == "get_range":
            seen["reads" if verb in READING else "writes" if verb in WRITING else "free"] += 1
    writes, reads = iceberg_requests(world.log().entries())
    assert abs(seen["writes"] - writes) <= 2
    assert abs(seen["reads"] - reads) <= 3
