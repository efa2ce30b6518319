"""Replayed dead letters pass the gate of the Delta table, as any record: what the table holds goes in, what it cannot hold fails again."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_s3.engine.log.dead_letters import LetterSelection
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.model.errors import RecordError, UploadMissing
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.replay import DryRunResult, make_replay
from kafka_s3_testing.faults import FaultyStore, failure
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.delta_world import TableWorld

MODE = "delta.schema.evolution.mode"
ALL = LetterSelection()


ENVELOPE = {"value.converter.schemas.enable": "true", "value.schema.inference": "false"}
PLAIN = {"value.converter.schemas.enable": "false", "value.schema.inference": "true"}


@pytest.fixture
def world(objects: EmbeddedS3, own_bucket: str) -> TableWorld:
    """A sink whose converter wants an envelope; its first record, which makes the table, has one."""
    world = TableWorld(objects, own_bucket, **{"errors.tolerance": "all", "flush.size": "1"}, **ENVELOPE)
    fields = [{"field": "n", "type": "int64", "optional": True}, {"field": "name", "type": "string", "optional": True}]
    world.add({"schema": {"type": "struct", "name": "order", "fields": fields}, "payload": {"n": 0, "name": "a"}})
    return world


def refused(world: TableWorld, *values: dict[str, Any]) -> None:
    """Makes each value a dead letter, of a partition of its own: it has no envelope."""
    for partition, value in enumerate(values):
        world.add(value, tp=TopicPartition("orders", partition))
    world.run()


def replay(world: TableWorld, **config: str) -> tuple[DryRunResult, CommitEntry | None]:
    """The replay with the converter put right."""
    world.configure(**PLAIN, **config)
    return make_replay(world.settings, world.store, clock_ms=lambda: world.now).run(ALL)


def test_a_replayed_record_is_in_the_table_and_has_the_tables_types(world: TableWorld) -> None:
    refused(world, {"n": 7, "name": 8, "more": [1]})
    outcome, entry = replay(world)
    assert entry is not None
    assert outcome.failed == ()
    world.start()
    assert [(row["n"], row["name"], row["more"]) for row in world.rows()] == [(0, "a", None), (7, "8", [1])]


def test_a_replayed_record_that_conflicts_with_the_table_fails_again_with_the_reason(world: TableWorld) -> None:
    refused(world, {"n": "seven"})
    outcome, entry = replay(world)
    assert entry is None
    [letter] = outcome.failed
    assert letter.message == "The table cannot hold the value: column n is text, in the table long."
    assert [row["n"] for row in world.rows()] == [0]


def test_letters_of_two_partitions_that_conflict_with_each_other_do_not_both_go_in(world: TableWorld) -> None:
    refused(world, {"n": 7, "more": {"x": 1}}, {"n": 8, "more": True})
    outcome, _ = replay(world)
    assert [letter.partition for letter in outcome.failed] == [1]
    assert outcome.content.uploads.keys() >= {file.upload.id for file in outcome.files}
    world.start()
    assert [row["n"] for row in world.rows()] == [0, 7]


def test_under_rescue_what_has_no_column_is_kept_as_json(world: TableWorld) -> None:
    world.configure(**{MODE: "rescue"})
    refused(world, {"n": "seven", "more": 1})
    outcome, _ = replay(world)
    assert outcome.failed == ()
    world.start()
    assert [
        (row["n"], row["_rescued_data"]) for row in world.table().to_pyarrow_table().to_pylist() if row["n"] is None
    ] == [(None, '{"n":"seven","more":1}')]


def test_a_new_column_stops_the_replay_where_it_would_stop_the_sink_and_nothing_is_changed(world: TableWorld) -> None:
    refused(world, {"n": 7, "more": 1})
    before = world.log().load().version
    with pytest.raises(RecordError, match="new column more long"):
        replay(world, **{MODE: "failOnNewColumns"})
    assert world.log().load().version == before


def test_a_replayed_file_whose_upload_is_gone_is_made_again_with_the_tables_types(world: TableWorld) -> None:
    refused(world, {"n": 7, "name": 8})
    world.configure(**PLAIN)
    gone = failure("complete_upload", matches=lambda key: key.endswith("1.snappy.parquet"), error=UploadMissing("gone"))
    store = FaultyStore(world.store, [gone])
    make_replay(world.settings, store, clock_ms=lambda: world.now).run(ALL)
    assert [verb for verb, key in store.calls if key.endswith("1.snappy.parquet")].count("create_upload") == 2
    world.start()
    assert [(row["n"], row["name"]) for row in world.rows()] == [(0, "a"), (7, "8")]
