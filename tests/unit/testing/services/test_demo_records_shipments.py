"""The Avro records of the demo, read with fastavro."""

from __future__ import annotations

import io
from collections import Counter

import fastavro
import pytest

from kafka_s3_testing.services.demo_records import (
    CARRIERS,
    DAY_START,
    END,
    SHIPMENTS_TOPIC,
    VERSIONS,
    DemoRecord,
    shipment_records,
)

COUNT = 6_000
IDS = (11, 12)
SCHEMAS = dict(zip(IDS, map(dict, VERSIONS), strict=True))


@pytest.fixture(scope="module")
def records() -> list[DemoRecord]:
    return list(shipment_records(IDS, COUNT))


def schema_id(record: DemoRecord) -> int:
    return int.from_bytes(record.message.value[1:5], "big")


def read(record: DemoRecord) -> dict[str, object]:
    rest = io.BytesIO(record.message.value[5:])
    value = fastavro.schemaless_reader(rest, SCHEMAS[schema_id(record)], None)
    assert rest.read() == b""
    return dict(value)


def test_the_same_seed_gives_the_same_records() -> None:
    once, again, other = (list(shipment_records(IDS, 300, seed=seed)) for seed in (7, 7, 8))
    assert once == again
    assert once != other


def test_one_topic_of_three_partitions_shares_the_records(records: list[DemoRecord]) -> None:
    assert Counter((r.topic, r.partition) for r in records) == {(SHIPMENTS_TOPIC, p): COUNT // 3 for p in range(3)}


def test_values_are_avro_with_the_time_of_the_day_they_belong_to(records: list[DemoRecord]) -> None:
    values = [(record, read(record)) for record in records if not record.malformed]
    for record, value in values:
        assert record.message.value[0] == 0
        assert value["shipment_id"] == record.message.key.decode()
        assert value["shipped_at"].timestamp() * 1000 == record.message.timestamp  # type: ignore[attr-defined]
    assert {value["carrier"] for _, value in values} == set(CARRIERS)
    times = [record.message.timestamp for record in records]
    assert times == sorted(times)
    assert times[0] >= DAY_START.timestamp() * 1000
    assert times[-1] < END.timestamp() * 1000


def test_the_second_version_of_the_schema_takes_over_in_the_middle_and_for_a_while_both_are_written(
    records: list[DemoRecord],
) -> None:
    versions = [schema_id(record) for record in records if not record.malformed]
    tenth = COUNT // 10
    assert set(versions[: 4 * tenth]) == {IDS[0]}
    assert set(versions[-4 * tenth :]) == {IDS[1]}
    middle = Counter(versions[int(4.6 * tenth) : int(5.4 * tenth)])
    assert min(middle[number] for number in IDS) > 0.3 * middle.total()


def test_broken_records_are_few_and_none_of_them_is_a_shipment(records: list[DemoRecord]) -> None:
    broken = [record for record in records if record.malformed]
    assert len(broken) == 3
    for record in broken:
        with pytest.raises((KeyError, EOFError, IndexError, ValueError)):
            read(record)


def test_even_a_short_run_has_broken_records_and_none_if_none_are_wanted() -> None:
    assert sum(r.malformed for r in shipment_records(IDS, 50)) == 3
    assert sum(r.malformed for r in shipment_records(IDS, 50, malformed=0)) == 0
    assert list(shipment_records(IDS, 0)) == []
