"""A Delta table holds exactly the files of the commit log, whenever the sink dies and whoever else writes the table."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kafka_s3.model.errors import TableUnavailable
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.delta import tables_of
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import Fault, Moment
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import FIELD
from tests.support.deaths import Died, strikes
from tests.support.delta_world import PARQUET, TableWorld
from tests.support.memory_world import ORDERS, settings_of


@pytest.fixture
def world(objects: EmbeddedS3, own_bucket: str) -> TableWorld:
    return TableWorld(objects, own_bucket)


def numbered(*numbers: int) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]


def test_a_topic_is_a_table_over_the_objects_that_are_there(world: TableWorld) -> None:
    world.add(*numbered(0, 1, 2, 3))
    world.run()
    assert world.rows() == [{"n": n, "partition": "0"} for n in range(4)]
    table = world.table()
    assert table.metadata().partition_columns == ["partition"]
    assert sorted(table.file_uris()) == [
        f"{world.address()}/partition=0/orders+0+{offset:010d}.snappy.parquet" for offset in (0, 2)
    ]


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
def test_the_address_of_the_bucket_may_come_from_the_environment(
    objects: EmbeddedS3, own_bucket: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, objects.endpoint_url)
    world = TableWorld(objects, own_bucket, **{"store.url": ""})
    world.add(*numbered(0, 1))
    world.run()
    assert world.warnings.texts == []
    assert [row["n"] for row in world.rows()] == [0, 1]


def test_the_address_of_the_configuration_counts_more_than_that_of_the_environment(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    world.add(*numbered(0, 1))
    world.run()
    assert world.warnings.texts == []
    monkeypatch.undo()
    assert [row["n"] for row in world.rows()] == [0, 1]


def test_one_version_of_the_table_says_which_entry_and_offsets_it_is(world: TableWorld) -> None:
    world.add(*numbered(0, 1, 2, 3))
    sink = world.run()
    actions = world.actions(0)
    [txn] = [one["txn"] for one in actions if "txn" in one]
    assert (txn["appId"], txn["version"]) == ("kafka-s3-orders", sink.log.state.version)
    [info] = [one["commitInfo"] for one in actions if "commitInfo" in one]
    version = sink.log.state.version
    assert json.loads(info["userMetadata"]) == {
        "kafka-s3": "orders", "entries": [version, version], "offsets": {"orders-0": [[0, 3]]},
    }  # fmt: skip
    stats = [json.loads(one["add"]["stats"]) for one in actions if "add" in one]
    assert stats == [
        {"numRecords": 2, "minValues": {"n": low}, "maxValues": {"n": low + 1}, "nullCount": {"n": 0}} for low in (0, 2)
    ]


def test_each_entry_is_one_version_and_a_restart_adds_none(world: TableWorld) -> None:
    world.add(*numbered(0, 1))
    world.run()
    world.add(*numbered(2, 3))
    assert world.sink.poll_and_commit()
    assert world.table().version() == 1
    world.run()
    assert world.table().version() == 1
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]


def test_a_table_that_is_switched_on_later_is_made_from_the_whole_log(world: TableWorld) -> None:
    world.configure(**{"delta.enable": "false"})
    world.add(*numbered(0, 1, 2, 3))
    world.run()
    world.add(*numbered(4, 5))
    assert world.sink.poll_and_commit()
    world.configure(**{"delta.enable": "true"})
    world.start()
    assert [row["n"] for row in world.rows()] == list(range(6))
    assert world.table().version() == 0


def test_a_table_whose_log_was_deleted_is_made_again_from_the_whole_log(world: TableWorld) -> None:
    world.add(*numbered(0, 1))
    world.run()
    for info in list(world.store.list("topics/orders/_delta_log/")):
        world.store.delete(info.key)
    world.add(*numbered(2, 3))
    assert world.sink.poll_and_commit()
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "death",
    [
        strikes("get_range", ".parquet", Moment.BEFORE),  # after publication, before the Delta commit
        strikes("put_new", "_delta_log/", Moment.BEFORE),  # before the columns change
        strikes("put_new", "_delta_log/", Moment.AFTER),  # between the columns and the files
        strikes("put", "followers/delta", Moment.BEFORE),  # after the Delta commit, before the note
        strikes("put", "followers/delta", Moment.AFTER),
    ],
    ids=["before the footers", "before the columns", "before the files", "before the note", "after the note"],
)
def test_a_sink_that_dies_while_it_follows_catches_up_without_a_file_twice(world: TableWorld, death: Fault) -> None:
    world.add(*numbered(0, 1))
    world.run()
    world.add({"n": 2, "more": "a"}, {"n": 3, "more": "b"})
    with pytest.raises(Died):
        world.run([death])
    world.add({"n": 4, "more": "c"}, {"n": 5, "more": "d"})
    world.run()
    rows = world.rows()
    assert [(row["n"], row["more"]) for row in rows] == [(0, None), (1, None), (2, "a"), (3, "b"), (4, "c"), (5, "d")]
    added = [one["add"]["path"] for n in range(world.table().version() + 1) for one in world.actions(n) if "add" in one]
    assert len(added) == len(set(added)) == 3


def test_tables_of_several_topics_are_independent(world: TableWorld) -> None:
    other = TopicPartition("refunds", 0)
    world.configure(topics="orders,refunds")
    world.add(*numbered(0, 1))
    world.add({"n": 7, "why": "late"}, {"n": 8, "why": "lost"}, tp=other)
    world.run()
    assert [row["n"] for row in world.rows()] == [0, 1]
    assert [row["why"] for row in world.rows("refunds")] == ["late", "lost"]


def test_new_columns_and_wider_types_go_into_the_table(world: TableWorld) -> None:
    world.add({"n": 0, "at": {"x": 1}}, {"n": 1, "at": {"x": 2}})
    world.run()
    world.add({"n": 2, "at": {"x": 3, "y": "z"}, "new": [True]}, {"n": 3, "at": None, "new": []})
    assert world.sink.poll_and_commit()
    assert world.rows() == [
        {"n": 0, "at": {"x": 1, "y": None}, "partition": "0", "new": None},
        {"n": 1, "at": {"x": 2, "y": None}, "partition": "0", "new": None},
        {"n": 2, "at": {"x": 3, "y": "z"}, "partition": "0", "new": [True]},
        {"n": 3, "at": None, "partition": "0", "new": []},
    ]


def test_without_evolution_new_columns_stay_in_the_files(world: TableWorld) -> None:
    world.configure(**{"delta.schema.evolution.mode": "none"})
    world.add(*numbered(0, 1))
    world.run()
    world.add({"n": 2, "more": "a"}, {"n": 3, "more": "b"})
    assert world.sink.poll_and_commit()
    assert world.rows() == [{"n": n, "partition": "0"} for n in range(4)]
    assert world.warnings.texts == []


def test_dead_letters_companions_and_state_stay_out_of_the_table(world: TableWorld) -> None:
    world.configure(
        **{
            "errors.tolerance": "all", "store.kafka.headers": "true",
            "headers.format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        }
    )  # fmt: skip
    world.add(*numbered(0, 1, 2))
    records = world.kafka.records[ORDERS]
    records[:] = [replace(record, headers=(("trace", b"7"),)) for record in records]
    records[1] = replace(records[1], value=b"{no json")
    world.run()
    keys = [info.key for info in world.store.list("topics/orders/partition")]
    assert len([key for key in keys if ".headers." in key]) == 1
    assert [entry.totals.dead_letters for entry in world.log().entries()][-1] == 1
    assert [row["n"] for row in world.rows()] == [0, 2]
    [path] = world.table().file_uris()
    assert ".headers." not in path


def test_a_field_partitioner_gives_columns_of_the_fields_type_with_null_where_the_field_is(world: TableWorld) -> None:
    world.configure(**FIELD, **{"flush.size": "1"})
    world.add({"n": 0, "d": 5}, {"n": 1, "d": None}, {"n": 2}, {"n": 3, "d": -6})
    world.run()
    assert [(row["n"], row["d"]) for row in world.rows()] == [(0, 5), (1, None), (2, None), (3, -6)]
    assert world.table().metadata().partition_columns == ["d"]


def test_values_that_are_no_plain_directories_are_what_the_records_hold(world: TableWorld) -> None:
    world.configure(**FIELD, **{"flush.size": "1"})
    values = ["a b/c=d", "null", None, "50%+", "é ü"]
    world.add(*({"n": n, "d": value} for n, value in enumerate(values)))
    world.run()
    assert [row["d"] for row in world.rows()] == values
    assert world.table().metadata().partition_columns == ["d"]


def test_a_directory_that_is_no_pair_gives_no_column(world: TableWorld) -> None:
    world.configure(
        **{
            "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
            "path.format": "YYYY/'day'=dd", "partition.duration.ms": "3600000", "locale": "en", "timezone": "UTC",
            "timestamp.extractor": "Record",
        }
    )  # fmt: skip
    world.add(*numbered(0, 1))
    world.run()
    assert world.rows() == [{"n": 0, "day": "15"}, {"n": 1, "day": "15"}]


def test_a_column_of_the_records_is_not_hidden_by_a_directory_of_its_name(world: TableWorld) -> None:
    world.add({"n": 0, "partition": "east"}, {"n": 1, "partition": "west"})
    world.run()
    assert world.rows() == [{"n": 0, "partition": "east"}, {"n": 1, "partition": "west"}]
    assert world.table().metadata().partition_columns == []


def test_another_writers_optimize_in_between_is_no_obstacle(world: TableWorld) -> None:
    world.configure(**{"flush.size": "1"})
    world.add(*numbered(0, 1, 2))
    world.run()
    world.table().optimize.compact()
    world.add(*numbered(3))
    assert world.sink.poll_and_commit()
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]
    assert len(world.table().file_uris()) == 2


def test_a_table_with_rules_that_nobody_would_check_is_refused_and_the_sink_goes_on(world: TableWorld) -> None:
    world.add(*numbered(0, 1))
    world.run()
    world.table().alter.add_constraint({"small": "n < 100"})
    world.add(*numbered(2, 3))
    assert world.sink.poll_and_commit()
    assert len(world.warnings.texts) == 1
    assert "constraint delta.constraints.small" in world.warnings.texts[0]
    world.table().alter.drop_constraint("small")
    world.now += 60_001
    assert world.sink.poll_and_commit()  # nothing is committed, and the table follows
    assert [row["n"] for row in world.rows()] == list(range(4))


def test_a_table_that_others_made_is_taken_over_with_its_rows(world: TableWorld) -> None:
    rows = pa.table({"n": [100], "partition": ["9"]})
    write_deltalake(world.address(), rows, partition_by=["partition"], storage_options=world.storage_options())
    world.add(*numbered(0, 1))
    world.run()
    assert [row["n"] for row in world.rows()] == [0, 1, 100]


def test_columns_without_a_form_in_delta_stay_in_the_files_and_are_named_once(world: TableWorld) -> None:
    world.add({"n": 0, "two words": 1}, {"n": 1, "two words": 2})
    world.run()
    world.add({"n": 2, "two words": 1}, {"n": 3, "two words": 2})
    assert world.sink.poll_and_commit()
    assert world.rows() == [{"n": n, "partition": "0"} for n in range(4)]
    [warning] = world.warnings.texts
    assert "'two words': Delta allows no such name" in warning


def test_no_secret_shows_when_the_table_cannot_be_reached() -> None:
    keys = {"aws.access.key.id": "kafka-s3-local", "aws.secret.access.key": "kafka-s3-local-secret"}
    settings = settings_of({**PARQUET, **keys, "store.url": "http://127.0.0.1:1"})
    table = tables_of(settings, MemoryStore())("orders")
    with pytest.raises(TableUnavailable) as told:
        table.state()
    assert "local-secret" not in str(told.value)
    assert "local-secret" not in repr(table)
