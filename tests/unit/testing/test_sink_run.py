from __future__ import annotations

import json

import pytest

from kafka_s3.engine.log.entry import EntryKind
from kafka_s3.model.errors import ConfigError, RecordError
from kafka_s3_testing.records import Record
from kafka_s3_testing.sink_run import RunSink
from tests.support.memory_world import BASE

FORMAT = "io.confluent.connect.s3.format."


def value(number: int, **more: object) -> bytes:
    return json.dumps({"n": number, **more}).encode()


def test_a_configuration_and_records_give_objects_rows_and_entries(run_sink: RunSink) -> None:
    made = run_sink({**BASE, "flush.size": "2"}, {"orders": [value(0), value(1, a="x"), value(2)]})
    assert list(made.objects) == [
        "topics/orders/partition=0/orders+0+0000000000.json",
        "topics/orders/partition=0/orders+0+0000000002.json",
    ]
    assert made.objects["topics/orders/partition=0/orders+0+0000000002.json"] == b'{"n": 2}\n'
    assert made.table("orders").to_pylist() == [{"n": 0, "a": None}, {"n": 1, "a": "x"}, {"n": 2, "a": None}]
    assert made.entries[0].kind is EntryKind.EPOCH
    assert sum(entry.totals.written for entry in made.entries) == 3
    assert made.bucket == made.objects
    assert made.dead_letters == ()


def test_records_say_their_partition_key_headers_and_time(run_sink: RunSink) -> None:
    config = {
        **BASE,
        "topics": "orders,payments",
        "flush.size": "10",
        "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
        "path.format": "'h'=HH", "partition.duration.ms": "3600000", "locale": "en", "timezone": "UTC",
        "timestamp.extractor": "Record", "store.kafka.keys": "true", "keys.format.class": f"{FORMAT}json.JsonFormat",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    }  # fmt: skip
    record = Record(value(7), key=b"k", timestamp_ms=7_200_000, partition=3)
    made = run_sink(config, {"orders": [record], "payments": []})
    assert list(made.objects) == ["topics/orders/h=02/orders+3+0000000000.json"]
    assert set(made.bucket) - set(made.objects) == {"topics/orders/h=02/orders+3+0000000000.keys.json"}
    assert made.table("payments").num_rows == 0


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("parquet.ParquetFormat", [{"n": 1}, {"n": 2}]),
        ("avro.AvroFormat", [{"n": 1}, {"n": 2}]),
        ("json.JsonFormat", [{"n": 1}, {"n": 2}]),
    ],
)
def test_every_format_with_columns_is_a_table(run_sink: RunSink, name: str, rows: list[dict[str, int]]) -> None:
    schema = {"type": "struct", "fields": [{"field": "n", "type": "int32"}]}
    config = {**BASE, "format.class": FORMAT + name, "value.converter.schemas.enable": "true", "flush.size": "1"}
    values = [json.dumps({"schema": schema, "payload": row}).encode() for row in rows]
    assert run_sink(config, {"orders": values}).table().to_pylist() == rows


def test_an_object_of_bytes_is_a_row_and_a_json_value_that_is_no_object_is_one_too(run_sink: RunSink) -> None:
    as_bytes = {
        **BASE, "format.class": f"{FORMAT}bytearray.ByteArrayFormat", "flush.size": "2",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter", "s3.compression.type": "gzip",
    }  # fmt: skip
    del as_bytes["value.converter.schemas.enable"]
    assert run_sink(as_bytes, {"orders": [b"a", b"b"]}).table().to_pylist() == [{"value": b"a\nb\n"}]
    assert run_sink({**BASE, "flush.size": "2"}, {"orders": [b"1", b"2"]}).table().to_pylist() == [
        {"value": 1},
        {"value": 2},
    ]


def test_values_of_mixed_types_are_refused_with_topic_column_and_way_out(run_sink: RunSink) -> None:
    config = {**BASE, "topics": "orders,payments", "flush.size": "1"}
    made = run_sink(config, {"orders": [value(0, a=1), value(1, a="x")], "payments": [b'{"n": "text"}']})
    with pytest.raises(ValueError, match=r"^Column 'a' of orders has values .*'x' with type str.* Read made.objects"):
        made.table("orders")
    with pytest.raises(
        ValueError, match=r"^Column 'n' of orders, payments .* Take one topic at a time: made.table\('orders'\)"
    ):
        made.table()
    large = run_sink({**BASE, "flush.size": "1"}, {"orders": [value(2**70)]})
    with pytest.raises(ValueError, match=r"^Column 'n' of orders"):
        large.table("orders")

    parquet = {**config, "format.class": f"{FORMAT}parquet.ParquetFormat", "value.schema.inference": "true"}
    made = run_sink(parquet, {"orders": [value(0)], "payments": [b'{"n": "text"}']})
    with pytest.raises(ValueError, match=r"^A column of orders, payments .*Field n has incompatible types"):
        made.table()


def test_bad_records_are_dead_letters_or_stop_the_sink_as_configured(run_sink: RunSink) -> None:
    config = {**BASE, "flush.size": "10"}
    made = run_sink({**config, "errors.tolerance": "all"}, {"orders": [b"{broken", value(1)]})
    assert [(letter.offset, letter.value) for letter in made.dead_letters] == [(0, b"{broken")]
    with pytest.raises(RecordError, match="orders-0 offset 0"):
        run_sink(config, {"orders": [b"{broken"]})


def test_a_topic_partition_that_stops_is_an_error_though_others_go_on(run_sink: RunSink) -> None:
    records = {"orders": [value(1), Record(b"{broken", partition=1)]}
    with pytest.raises(RecordError, match="orders-1 offset 0"):
        run_sink({**BASE, "flush.size": "10"}, records)


def test_logins_of_production_are_left_out_and_mistakes_are_not(run_sink: RunSink) -> None:
    logins = {
        "consumer.override.security.protocol": "SASL_SSL",
        "consumer.override.sasl.mechanism": "PLAIN",
        "consumer.override.sasl.jaas.config": "${secrets:kafka/jaas}",
        "aws.access.key.id": "${secrets:aws/id}",
        "aws.secret.access.key": "${secrets:aws/key}",
    }
    assert len(run_sink({**BASE, **logins, "flush.size": "1"}, {"orders": [value(1)]}).objects) == 1
    with pytest.raises(ConfigError, match=r"flush\.size"):
        run_sink({**BASE, "flush.size": "none"}, {"orders": []})


def test_an_object_store_is_asked_for_only_where_a_table_is_wanted() -> None:
    from kafka_s3_testing.sink_run import run_in_memory

    def started() -> None:
        raise LookupError("an S3 server")

    assert run_in_memory({**BASE, "flush.size": "1"}, {"orders": [value(1)]}, server=started).objects
    parquet = {"format.class": f"{FORMAT}parquet.ParquetFormat", "delta.enable": "true", "flush.size": "1"}
    with pytest.raises(LookupError):
        run_in_memory({**BASE, **parquet, "value.converter.schemas.enable": "true"}, {"orders": []}, server=started)


def test_what_was_made_can_be_saved_as_files(run_sink: RunSink, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("bucket")
    made = run_sink({**BASE, "flush.size": "1"}, {"orders": [value(1)]}).save(folder)
    assert (made / "topics/orders/partition=0/orders+0+0000000000.json").read_bytes() == b'{"n": 1}\n'


def test_a_test_needs_no_variable_that_names_what_the_test_replaces(run_sink: RunSink) -> None:
    places = ("kafka.bootstrap.servers", "s3.bucket.name", "s3.region", "store.url", "aws.access.key.id", "aws.secret.access.key",
              "consumer.override.sasl.jaas.config", "s3.proxy.url", "s3.credentials.provider.sts.role.arn")  # fmt: skip
    config = {**BASE, "flush.size": "1", **{key: "${env:KAFKA_S3_NOT_SET_IN_ANY_TEST}" for key in places}}
    assert len(run_sink(config, {"orders": [value(0)]}).objects) == 1
