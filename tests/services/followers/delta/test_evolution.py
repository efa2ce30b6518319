"""What becomes of records whose columns go beyond the table's, in each mode of `delta.schema.evolution.mode`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from deltalake import Field, Schema

from kafka_s3.model.dead_letters import DeadLetter, read_letters
from kafka_s3.model.errors import RecordError
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.delta_world import TableWorld

MODE = "delta.schema.evolution.mode"
OTHER = TopicPartition("orders", 1)
ENVELOPE = {"value.converter.schemas.enable": "true", "value.schema.inference": "false"}


@pytest.fixture
def world(objects: EmbeddedS3, own_bucket: str) -> TableWorld:
    return TableWorld(objects, own_bucket, **{"errors.tolerance": "all"})


def letters(world: TableWorld) -> list[DeadLetter]:
    files = [file for entry in world.log().entries() for file in entry.files if file.role is Role.DEAD_LETTER]
    return [letter for file in files for letter in read_letters(world.store.get(file.key))]


def enveloped(value: dict[str, Any], **types: str) -> dict[str, Any]:
    """A value with the schema of its producer."""
    fields = [{"field": name, "type": type_, "optional": True} for name, type_ in types.items()]
    return {"schema": {"type": "struct", "name": "order", "fields": fields}, "payload": value}


def pending_uploads(world: TableWorld) -> int:
    import boto3

    client = boto3.client("s3", endpoint_url=world.s3.endpoint_url)
    found = client.list_multipart_uploads(Bucket=world.bucket).get("Uploads", [])
    client.close()
    return len(found)


def test_a_wider_type_of_the_producer_widens_the_table(world: TableWorld) -> None:
    world.configure(**ENVELOPE)
    world.add(*(enveloped({"n": n, "f": 0.5}, n="int32", f="float") for n in range(2)))
    world.run()
    world.add(*(enveloped({"n": 2**40 + n, "f": 1e300}, n="int64", f="double") for n in range(2)))
    assert world.sink.poll_and_commit()
    assert [(row["n"], row["f"]) for row in world.rows()] == [(0, 0.5), (1, 0.5), (2**40, 1e300), (2**40 + 1, 1e300)]
    assert letters(world) == []


def test_a_type_that_the_table_cannot_hold_makes_dead_letters(world: TableWorld) -> None:
    world.configure(**ENVELOPE)
    world.add(*(enveloped({"n": n}, n="int32") for n in range(2)))
    world.run()
    world.add(
        *(enveloped({"n": "two"}, n="string") for _ in range(2)), *(enveloped({"n": n}, n="int32") for n in (4, 5))
    )
    assert world.sink.poll_and_commit()
    assert [row["n"] for row in world.rows()] == [0, 1, 4, 5]
    assert [(letter.offset, letter.message) for letter in letters(world)] == [
        (offset, "The table cannot hold the value: column n is string, in the table integer.") for offset in (2, 3)
    ]


def test_without_tolerance_such_a_type_stops_the_sink(world: TableWorld) -> None:
    world.configure(**ENVELOPE, **{"errors.tolerance": "none"})
    world.add(*(enveloped({"n": n}, n="int32") for n in range(2)))
    world.run()
    world.add(*(enveloped({"n": "two"}, n="string") for _ in range(2)))
    with pytest.raises(RecordError, match="column n is string, in the table integer"):
        world.sink.poll_and_commit()
    assert [row["n"] for row in world.rows()] == [0, 1]


def test_inferred_values_are_made_to_fit_and_only_those_that_cannot_become_dead_letters(world: TableWorld) -> None:
    world.add({"n": 0, "price": 0.5, "name": "a", "at": {"x": 1}}, {"n": 1, "price": 2, "name": "b", "at": None})
    world.run()
    world.add(
        {"n": 2, "price": 7, "name": 8, "at": {"x": 3}}, {"n": 3, "price": 8, "name": {"z": 1}, "at": {}},
        {"n": "four", "price": 1, "name": "", "at": None}, {"n": 5, "price": None, "at": 5}, {"n": 6.0, "at": {"x": 6}}, {"n": 7},
    )  # fmt: skip
    assert world.sink.poll_and_commit()
    found = [(row["n"], row["price"], row["name"], row["at"]) for row in world.rows()]
    assert found == [
        (0, 0.5, "a", {"x": 1}), (1, 2.0, "b", None), (2, 7.0, "8", {"x": 3}), (3, 8.0, '{"z":1}', {"x": None}),
        (6, None, None, {"x": 6}), (7, None, None, None),
    ]  # fmt: skip
    assert [(letter.offset, letter.message) for letter in letters(world)] == [
        (4, "The table cannot hold the value: column n is text, in the table long."),
        (5, "The table cannot hold the value: column at is a number, in the table struct<x long>."),
    ]


def test_a_field_that_is_null_at_first_gets_its_type_from_its_first_value(world: TableWorld) -> None:
    world.add({"n": 0, "late": None, "at": {"x": 1, "y": None}}, {"n": 1, "late": None, "at": {"x": 2, "y": None}})
    world.run()
    world.add({"n": 2, "late": 7, "at": {"x": 3, "y": 0.5}}, {"n": 3, "late": None, "at": None})
    world.add({"n": 4, "late": None, "at": None}, {"n": 5, "late": None, "at": None})
    assert world.sink.poll_and_commit()
    assert [(row["n"], row["late"], row["at"]) for row in world.rows()] == [
        (0, None, {"x": 1, "y": None}), (1, None, {"x": 2, "y": None}), (2, 7, {"x": 3, "y": 0.5}), (3, None, None),
        (4, None, None), (5, None, None),
    ]  # fmt: skip


def test_two_tasks_with_the_same_new_column_in_different_types_agree_before_the_commit(world: TableWorld) -> None:
    world.configure(**ENVELOPE)
    world.add(*(enveloped({"n": n, "x": n}, n="int32", x="int32") for n in range(2)))
    world.add(*(enveloped({"n": n, "x": "s"}, n="int32", x="string") for n in (2, 3)), tp=OTHER)
    world.run()
    assert [row["n"] for row in world.rows()] == [0, 1]
    assert [(letter.partition, letter.offset) for letter in letters(world)] == [(1, 0), (1, 1)]
    assert pending_uploads(world) == 0


def test_fail_on_new_columns_stops_before_the_commit_and_goes_on_once_the_table_has_them(world: TableWorld) -> None:
    world.configure(**{MODE: "failOnNewColumns"})
    world.add({"n": 0}, {"n": 1})
    world.run()
    entries = world.log().load().version
    world.add({"n": 2, "more": "a"}, {"n": 3, "more": "b"})
    with pytest.raises(RecordError) as told:
        world.sink.poll_and_commit()
    assert "new column more string" in str(told.value)
    assert "ALTER TABLE" in str(told.value)
    assert world.log().load().version == entries
    assert pending_uploads(world) == 0
    world.table().alter.add_columns(list(Schema([Field("more", "string")]).fields))  # type: ignore[arg-type]
    world.run()
    assert [(row["n"], row["more"]) for row in world.rows()] == [(0, None), (1, None), (2, "a"), (3, "b")]


def test_without_evolution_a_wider_type_is_refused(world: TableWorld) -> None:
    world.configure(**ENVELOPE, **{MODE: "none"})
    world.add(*(enveloped({"n": n}, n="int32") for n in range(2)))
    world.run()
    world.add(*(enveloped({"n": n, "more": n}, n="int64", more="int64") for n in (2, 3)))
    assert world.sink.poll_and_commit()
    assert [row["n"] for row in world.rows()] == [0, 1]
    assert len(letters(world)) == 2


def test_a_file_of_before_the_table_that_does_not_fit_stays_out_and_is_named(world: TableWorld) -> None:
    world.configure(**{"delta.enable": "false"})
    world.add({"n": 0}, {"n": 1})
    world.run()
    world.add({"n": "two"}, {"n": "three"})
    assert world.sink.poll_and_commit()
    world.configure(**{"delta.enable": "true"})
    world.start()
    assert [row["n"] for row in world.rows()] == [0, 1]
    [warning] = world.warnings.texts
    assert "orders+0+0000000002.snappy.parquet stays out of the table: column n is string, in the table long" in warning
    [info] = [one["commitInfo"] for one in world.actions(0) if "commitInfo" in one]
    assert json.loads(info["userMetadata"])["left_out"] == [
        "topics/orders/partition=0/orders+0+0000000002.snappy.parquet"
    ]


def test_without_tolerance_such_a_file_holds_its_table_up_but_not_the_sink(world: TableWorld) -> None:
    world.configure(**{"delta.enable": "false", "errors.tolerance": "none"})
    world.add({"n": 0}, {"n": 1})
    world.run()
    world.add({"n": "two"}, {"n": "three"})
    assert world.sink.poll_and_commit()
    world.configure(**{"delta.enable": "true"})
    world.start()
    [warning] = world.warnings.texts
    assert "With errors.tolerance=all such files stay out" in warning
    assert world.frontier() == 4


def test_rescue_keeps_what_has_no_column_as_json(world: TableWorld) -> None:
    world.configure(**ENVELOPE, **{MODE: "rescue"})
    nested = {"type": "struct", "field": "at", "optional": True, "fields": [{"field": "x", "type": "int32"}]}
    later = {**nested, "fields": [*nested["fields"], {"field": "y", "type": "string", "optional": True}]}  # type: ignore[misc]

    def order(n: int, at: dict[str, Any], kind: dict[str, Any], **more: Any) -> dict[str, Any]:
        value = enveloped({"n": n, "at": at, **{name: one for name, (_, one) in more.items()}}, n="int32")
        value["schema"]["fields"] += [kind, *({"field": name, "type": type_} for name, (type_, _) in more.items())]
        return value

    world.add(*(order(n, {"x": n}, nested) for n in range(2)))
    world.run()
    world.add(
        order(2, {"x": 2, "y": "z"}, later, new=("int64", 7)), order(3, {"x": 3, "y": None}, later, new=("int64", 8))
    )
    assert world.sink.poll_and_commit()
    world.add(*(enveloped({"n": "four"}, n="string") for _ in range(2)))
    assert world.sink.poll_and_commit()
    rows = world.table().to_pyarrow_table().to_pylist()
    found = sorted(((row["n"], row["at"], row["_rescued_data"]) for row in rows), key=str)
    assert found == [
        (0, {"x": 0}, None), (1, {"x": 1}, None), (2, {"x": 2}, '{"at":{"y":"z"},"new":7}'), (3, {"x": 3}, '{"new":8}'),
        (None, None, '{"n":"four"}'), (None, None, '{"n":"four"}'),
    ]  # fmt: skip
    assert letters(world) == []


def test_rescue_of_inferred_values(world: TableWorld) -> None:
    world.configure(**{MODE: "rescue"})
    world.add({"n": 0, "at": {"x": 1}}, {"n": 1, "at": {"x": 2}})
    world.run()
    world.add(
        {"n": "two", "at": {"x": 3, "y": [1]}, "partition": "east", "new": None}, {"n": 3, "at": 5, "_rescued_data": "mine"},
        {"n": 4, "new": {"a": 0.5}}, {"n": 5},
    )  # fmt: skip
    assert world.sink.poll_and_commit()
    rows = world.table().to_pyarrow_table().to_pylist()
    found = sorted(
        ((row["n"], row["at"], json.loads(row["_rescued_data"] or "0"), row["partition"]) for row in rows), key=str
    )
    assert found == [
        (0, {"x": 1}, 0, "0"), (1, {"x": 2}, 0, "0"), (3, None, {"at": 5, "_rescued_data": "mine"}, "0"),
        (4, None, {"new": {"a": 0.5}}, "0"), (5, None, 0, "0"),
        (None, {"x": 3}, {"n": "two", "at": {"y": [1]}, "partition": "east"}, "0"),
    ]  # fmt: skip


def test_a_table_without_the_column_gets_it_when_rescue_begins(world: TableWorld) -> None:
    world.add({"n": 0}, {"n": 1})
    world.run()
    world.configure(**{MODE: "rescue"})
    world.add({"n": 2, "new": "a"}, {"n": 3, "new": "b"})
    world.run()
    assert [row["_rescued_data"] for row in world.rows()] == [None, None, '{"new":"a"}', '{"new":"b"}']


def test_the_files_of_the_first_turn_agree_on_the_columns_of_the_table_under_rescue(world: TableWorld) -> None:
    world.configure(**ENVELOPE, **{MODE: "rescue"})
    world.add(*(enveloped({"n": n}, n="int32") for n in range(2)))
    world.add(*(enveloped({"n": n, "x": "s"}, n="int32", x="string") for n in (2, 3)), tp=OTHER)
    world.run()
    assert [(row["n"], row["_rescued_data"]) for row in world.rows()] == [
        (0, None), (1, None), (2, '{"x":"s"}'), (3, '{"x":"s"}'),
    ]  # fmt: skip


def test_a_field_of_the_name_of_a_directory_makes_dead_letters_once_the_table_has_that_column(
    world: TableWorld,
) -> None:
    world.add({"n": 0}, {"n": 1})
    world.run()
    world.add({"n": 2, "partition": "east"}, {"n": 3})
    assert world.sink.poll_and_commit()
    world.add({"n": 4})
    assert world.sink.poll_and_commit()
    assert [letter.offset for letter in letters(world)] == [2]
    assert [row["n"] for row in world.rows()] == [0, 1, 3, 4]
