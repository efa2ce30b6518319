"""Partitioners, times, templates and transforms of real configurations, on real Kafka, Spark and S3: where does each record end up?"""

from __future__ import annotations

from collections.abc import Callable

from kafka_s3.model.files import Reason
from tests.support.kafka import Given, document, produce
from tests.support.surroundings import Surroundings

TEN, ELEVEN = 1_736_935_200, 1_736_938_800  # 2025-01-15T10:00:00Z and an hour later, in seconds
FIELD_AND_TIME = {
    "partitioner.class": "com.canelmas.kafka.connect.FieldAndTimeBasedPartitioner", "partition.field.name": "country",
    "path.format": "'day'=dd/'hour'=HH", "partition.duration.ms": "3600000", "locale": "en", "timezone": "UTC",
    "timestamp.extractor": "RecordField", "timestamp.field": "at", "timestamp.field.unit": "s", "flush.size": "100",
    "rotate.file.on.partition.change": "false",
}  # fmt: skip


def test_fields_and_time_make_the_directories_and_templates_the_names(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic("orders")
    given = [("DE", TEN), ("FR", TEN + 60), ("DE", TEN + 120), ("DE", ELEVEN)]
    produce(here.servers, name, [Given(document(n=n, country=c, at=at)) for n, (c, at) in enumerate(given)])
    names = {
        "object.name.template": "${topic}.${partition}.${offset}",
        "directory.template": "raw/${directory}",
        "filename.offset.zero.pad.width": "4",
    }
    here.drain(here.config(name, **FIELD_AND_TIME, **names))

    assert {key: [row["n"] for row in rows] for key, rows in here.bucket.contents().items()} == {
        f"topics/raw/country=DE/day=15/hour=10/{name}.0.0000.json": [0, 2],
        f"topics/raw/country=DE/day=15/hour=11/{name}.0.0003.json": [3],
        f"topics/raw/country=FR/day=15/hour=10/{name}.0.0001.json": [1],
    }


def test_headers_make_the_directories_and_a_chain_of_transforms_is_applied_before(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic("tenants")
    records = [(b"1", b"a"), (b"2", b"b"), (b"x", b"a"), (b"4", None)]
    produce(
        here.servers,
        name,
        [
            Given(document(n=n.decode(), secret="s"), headers=(("tenant", tenant),) if tenant else ())
            for n, tenant in records
        ],
    )
    transforms = {
        "transforms": "whole,masked,tenant",
        "transforms.whole.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.whole.spec": "n:int32",
        "transforms.masked.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.masked.exclude": "secret",
        "transforms.tenant.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.tenant.topic.field": "source",
    }
    config = here.config(
        name, **transforms,
        **{"partitioner.class": "header", "partition.header.name": "tenant", "flush.size": "100", "errors.tolerance": "all",
           "header.converter": "org.apache.kafka.connect.storage.StringConverter"},
    )  # fmt: skip
    here.drain(config)

    assert here.bucket.contents() == {
        f"topics/{name}/tenant=a/{name}+0+0000000000.json": [{"n": 1, "source": name}],
        f"topics/{name}/tenant=b/{name}+0+0000000001.json": [{"n": 2, "source": name}],
        f"topics/{name}/tenant=null/{name}+0+0000000003.json": [{"n": 4, "source": name}],
    }
    (letter,) = here.bucket.dead_letters(config["name"])
    assert (letter["offset"], letter["stage"]) == (2, "TRANSFORMATION")


def test_hundreds_of_directories_go_on_from_one_task_to_the_next(here: Surroundings, topic: Callable[..., str]) -> None:
    name, directories, records = topic("shelves"), 150, 1_000
    by_shelf = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner", "partition.field.name": "shelf",
        "flush.size": "100000", "tail.read.records": "1",
    }  # fmt: skip
    config = here.config(name, **by_shelf)
    for first, last, close in ((0, 400, None), (400, records, Reason.FLUSH_NOW)):
        produce(here.servers, name, [Given(document(n=n, shelf=n * 7 % directories)) for n in range(first, last)])
        sink = here.drain(config, close=close)
        assert sink.log.state.totals.written == (records if close else 0)
        assert any("/open/" in key for key in here.bucket.listing()) == (close is None)

    assert {key: [row["n"] for row in rows] for key, rows in here.bucket.contents().items()} == {
        f"topics/{name}/shelf={shelf}/{name}+0+{own[0]:010d}.json": own
        for shelf in range(directories)
        for own in [[n for n in range(records) if n * 7 % directories == shelf]]
    }
