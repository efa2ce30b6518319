"""Do files of a plan come back as they were put in, in order, cut where the log or the names say?"""

from __future__ import annotations

import json

import pytest

from kafka_s3.model.errors import LocalDiskError
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.readers import StoredObject
from kafka_s3.ops.restore.files import FileTable, StoredFile, in_kafka

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("clicks", 1)


def file(first: int, *, tp: TopicPartition = TP, directory: str = "d", records: int | None = 10) -> StoredFile:
    last = None if records is None else first + records - 1
    parts = {Role.VALUE: StoredObject(f"{directory}/{first}.json", 7, "json")}
    return StoredFile(tp, first, directory, parts, records, last, 1, 2)


def test_files_come_back_by_topic_partition_first_offset_and_directory() -> None:
    table, files = FileTable(), [file(20), file(0, directory="e"), file(0), file(5, tp=OTHER)]
    for one in files:
        table.add(one)
    assert table.topic_partitions() == [OTHER, TP]
    assert list(table.of(TP)) == [files[2], files[1], files[0]]
    assert list(table.of(OTHER)) == [files[3]]


def test_what_the_log_takes_back_is_not_there() -> None:
    table = FileTable()
    for first in (0, 10, 20):
        table.add(file(first))
    table.add(file(0, tp=OTHER))
    table.cut_at(TP, 13)
    assert [(one.first_offset, one.until) for one in table.of(TP)] == [(0, None), (10, 3)]
    table.cut_at(TP, 15)
    assert [one.until for one in table.of(TP)] == [None, 3]
    table.remove(TP, 0, last=9)
    assert [one.first_offset for one in table.of(TP)] == [10]
    table.cut_at(TP, 0)
    assert table.topic_partitions() == [OTHER]


def test_objects_of_one_name_are_one_file_and_those_that_overlap_end_where_the_next_of_their_directory_begins() -> None:
    table, key = FileTable(), StoredObject("d/0.keys.json", 3, "json")
    for one in (file(0, records=None), file(4, records=None, directory="e"), file(6, records=None)):
        table.add_object(one)
    table.add_object(StoredFile(TP, 0, "d", {Role.KEY: key}))
    table.cut_apart()
    found = list(table.of(TP))
    assert [(one.first_offset, one.until) for one in found] == [(0, 6), (4, None), (6, None)]
    assert found[0].parts == {**file(0).parts, Role.KEY: key}


def test_planned_files_are_read_by_number_and_by_first_offset_and_know_their_sums() -> None:
    table = FileTable()
    plan, other = table.plan(TP), table.plan(TP)
    files = [file(0), file(0, directory="e"), file(30)]
    for one in files:
        plan.append(one)
    other.append(file(0, records=None))
    assert (len(plan), plan[2], list(plan.since(1))) == (3, files[2], [(1, files[1]), (2, files[2])])
    assert list(plan.files_at(0)) == [(0, files[0]), (1, files[1])]
    assert (plan.records(), plan.size) == (30, 21)
    assert (other.records(), other.size) == (None, 7)


def test_a_full_disk_is_an_error_with_the_way_out(small_disk: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_s3.engine.log.spill.CACHE_KIB", 64)
    table = FileTable()

    def fill() -> None:
        for first in range(0, 100_000, 10):
            table.add(file(first))

    with pytest.raises(LocalDiskError, match=r"temporary file cannot grow.*TMPDIR"):
        fill()


def test_half_surrogates_and_deep_documents_become_messages() -> None:
    assert in_kafka("\ud800x", "") == b"?x"
    assert in_kafka(rb'"\ud800x"', "string") == b"?x"
    text = b'{"a":' * 300 + b"1" + b"}" * 300
    assert in_kafka(json.loads(text), "") == text
