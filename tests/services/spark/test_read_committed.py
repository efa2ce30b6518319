"""Committed records as a DataFrame: what the log names up to an entry, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.control.stored_settings import note_settings
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import noted_settings
from kafka_s3.spark import location_of, read_committed, register
from kafka_s3.store.s3 import S3Store
from tests.support.configurations import STATE, TIME
from tests.support.direct_sink import drain_directly
from tests.support.kafka import Given, document, produce
from tests.support.rewriting import ask_for_compaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.support.surroundings import Surroundings

TEN = 1_705_312_800_000  # 2024-01-15T10:00:00Z
HOUR = 3_600_000


@dataclass
class Asked:
    """Of which sink a compaction is asked for, and when."""

    now: int
    settings: Settings


class Sink:
    """A sink of one topic, run by hand: each run makes entries."""

    def __init__(self, here: Surroundings, topic: str, **more: str) -> None:
        self.here, self.topic, self.config = here, topic, here.config(topic, **{"flush.size": "2", **more})

    def take(self, *records: Given | Any) -> int:
        """Produces the records and works them off; gives the last entry."""
        given = [one if isinstance(one, Given) else Given(document(**one)) for one in records]
        produce(self.here.servers, self.topic, given)
        drain_directly(self.config)
        return location_of(self.config).log().state.version

    def read(self, **more: Any) -> DataFrame:
        return read_committed(self.here.spark, self.config, self.topic, **more)

    def expect(self, found: DataFrame, rows: list[tuple[Any, ...]], schema: str) -> None:
        expected = self.here.spark.createDataFrame(rows, schema)
        assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


@pytest.fixture
def sink(here: Surroundings, topic: Callable[..., str]) -> Sink:
    return Sink(here, topic("committed"))


def test_records_come_with_their_directories_and_their_place_in_kafka_and_in_the_log(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic("places", 2)
    sink = Sink(here, name, **{**TIME, "path.format": "'year'=YYYY/'hour'=HH", "s3.compression.type": "gzip"})
    sink.take(*(Given(document(n=n), n % 2, timestamp_ms=TEN + n * HOUR) for n in range(3)))
    found = sink.read(with_metadata=True).drop("_entry", "_object")
    sink.expect(
        found,
        [
            (0, "2024", "10", name, 0, 0, 0, 0, 0),
            (1, "2024", "11", name, 1, 0, 0, 0, 0),
            (2, "2024", "12", name, 0, 1, 1, 1, 0),
        ],
        "n long, year string, hour string, _topic string, _partition int, _offset long, _first_offset long, _last_offset long, _row long",
    )


def test_of_an_object_of_several_partitions_each_row_keeps_its_place_in_kafka(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic("together", 2)
    sink = Sink(here, name, **{**TIME, "compact.across.partitions": "true", "rewrite.grace.ms": "0"})
    sink.take(*(Given(document(n=n), n % 2, timestamp_ms=TEN) for n in range(8)))
    settings = resolved(validate(sink.config).usable())
    with closing(S3Store(store_options(settings))) as store:
        (request,) = ask_for_compaction(Asked(now_ms(), settings), store)
        sink.take()  # the next driver takes it, and deletes the originals
        assert [info.key for info in store.list(f"topics/{name}/")] == [request.files[0].key]
    found = sink.read(with_metadata=True).select("n", "_partition", "_offset", "_last_offset", "_row")
    sink.expect(
        found,
        [(n, n % 2, n // 2, 3, n % 2 * 4 + n // 2) for n in range(8)],
        "n long, _partition int, _offset long, _last_offset long, _row long",
    )


def test_what_is_meant_is_fixed_with_the_call(sink: Sink) -> None:
    sink.take({"n": 0})
    found = sink.read()
    sink.take({"n": 1})
    assert [row.n for row in found.collect()] == [0]


def test_dead_letters_are_a_dataframe_by_the_same_call(here: Surroundings, topic: Callable[..., str]) -> None:
    sink = Sink(here, topic("bad"), **{"errors.tolerance": "all"})
    sink.take({"n": 0}, Given(b"{broken", key=b"k", timestamp_ms=TEN), {"n": 2})
    letters = sink.read(with_dead_letters="only").select("partition", "offset", "key", "value", "stage", "state")
    sink.expect(
        letters,
        [(0, 1, bytearray(b"k"), bytearray(b"{broken"), "VALUE_CONVERTER", "open")],
        "partition int, offset long, key binary, value binary, stage string, state string",
    )
    beside = sink.read(with_dead_letters=True).selectExpr("n", "_dead_letter.offset as bad")
    sink.expect(beside, [(0, None), (None, 1), (2, None)], "n long, bad long")


def test_keys_come_beside_the_values_and_tombstones_are_rows(here: Surroundings, topic: Callable[..., str]) -> None:
    keys = {"store.kafka.keys": "true", "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat"}
    more = {"key.converter": "org.apache.kafka.connect.storage.StringConverter", "behavior.on.null.values": "write"}
    sink = Sink(here, topic("keyed"), **keys, **more)
    sink.take(Given(document(n=0), key=b"a"), Given(document(n=1), key=b"b"), Given(None, key=b"a"))
    found = sink.read(with_keys=True).selectExpr("cast(_key as string) as k", "n")
    sink.expect(found, [("a", 0), ("b", 1), ("a", None)], "k string, n long")
    assert sink.read().count() == 2


def test_a_field_that_the_first_lines_did_not_show_stops_the_read_and_a_schema_takes_it(sink: Sink) -> None:
    from kafka_s3.objects.batches import SAMPLED_ROWS

    config = {**sink.config, "flush.size": "1000000"}
    sink.config = config
    sink.take(*({"n": n} for n in range(SAMPLED_ROWS)), {"n": SAMPLED_ROWS, "late": 1})
    with pytest.raises(Exception, match=r"field late is not among those.*Give the columns that are wanted"):
        sink.read().collect()
    found = sink.read(schema="n long, late int, partition string")
    assert found.where("late = 1").select("n", "partition").collect() == [(SAMPLED_ROWS, "0")]


def test_a_number_that_a_column_cannot_hold_names_object_column_and_value(sink: Sink) -> None:
    sink.take({"n": 2**40})
    with pytest.raises(Exception, match=rf"{sink.topic}\+0\+0000000000.json: column n holds what int32 does not"):
        sink.read(schema="n int").collect()


def test_an_error_is_one_of_the_product_where_the_call_is_made_and_spark_has_its_text_elsewhere(sink: Sink) -> None:
    sink.take({"n": 0})
    with pytest.raises(ConfigError, match=rf"topic .'others'.: is not a topic of this sink's log. It has {sink.topic}"):
        read_committed(sink.here.spark, sink.config, "others")
    with pytest.raises(ConfigError, match=r"sink .'another'.: has no commit log"):
        read_committed(sink.here.spark, {**sink.config, "name": "another"}, sink.topic)
    [file] = [row._object for row in sink.read(with_metadata=True).select("_object").collect()]
    location_of(sink.config).store.delete(file)
    with pytest.raises(Exception, match=rf"ObjectMissing.*{file}".replace("+", r"\+")):
        sink.read(schema="n int").collect()


def test_a_place_in_a_bucket_takes_the_place_of_a_configuration(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    sink.take({"n": 0})
    monkeypatch.setenv("KAFKA_S3_STORE_URL", sink.here.s3.endpoint_url)
    monkeypatch.setenv("KAFKA_S3_REGION", "us-east-1")
    location = f"s3://{sink.config['s3.bucket.name']}/{STATE}{sink.config['name']}"
    assert [row.n for row in read_committed(sink.here.spark, location, sink.topic).collect()] == [0]
    register(sink.here.spark)
    options = {"topic": sink.topic, "storeUrl": sink.here.s3.endpoint_url, "region": "us-east-1"}
    assert [row.n for row in sink.here.spark.read.format("kafka_s3").options(**options).load(location).collect()] == [0]


def test_objects_of_the_block_gzip_spelling_are_read_by_their_configuration_and_by_their_place(
    here: Surroundings, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, bucket = topic("blocks"), here.bucket.name
    converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    config = {
        "connector.class": "com.spredfast.kafka.connect.s3.sink.S3SinkConnector", "name": f"blocks-{name}", "topics": name,
        "s3.bucket": bucket, "s3.prefix": "systest", "s3.endpoint": here.s3.endpoint_url, "s3.path_style": "true", "s3.region": "us-east-1",
        "local.buffer.dir": "buffer", "format": "binary", "format.include.keys": "true", "key.converter": converter,
        "value.converter": converter, "kafka.bootstrap.servers": here.servers,
    }  # fmt: skip
    produce(here.servers, name, [Given(b"\0%d" % n, key=b"k%d" % n) for n in range(3)])
    location = location_of(config)
    note_settings(location.store, location.paths, noted_settings(drain_directly(config), epoch=1, at_ms=0))
    monkeypatch.setenv("KAFKA_S3_STORE_URL", here.s3.endpoint_url)
    monkeypatch.setenv("KAFKA_S3_REGION", "us-east-1")
    rows = [(bytearray(b"\0%d" % n), bytearray(b"k%d" % n)) for n in range(3)]
    expected = here.spark.createDataFrame(rows, "value binary, _key binary")
    for given in (config, f"s3://{bucket}/{STATE}{config['name']}"):
        found = read_committed(here.spark, given, name, with_keys=True)
        assert_df_equality(found, expected, ignore_nullable=True)


def test_no_secret_of_the_configuration_is_in_a_plan(sink: Sink) -> None:
    sink.take({"n": 0})
    config = {**sink.config, "aws.access.key.id": "someone", "aws.secret.access.key": "never-to-be-shown"}
    found = read_committed(sink.here.spark, config, sink.topic)
    plan = found._jdf.queryExecution()  # type: ignore[operator]
    assert "never-to-be-shown" not in plan.toString() + plan.stringWithStats() + str(
        found._jdf.logicalPlan().treeString()
    )
    assert found.count() == 1


def test_the_source_is_known_by_its_name(sink: Sink, tmp_path: Any) -> None:
    sink.take({"n": 0})
    file = tmp_path / "sink.json"
    file.write_text(json.dumps(sink.config))
    assert register(sink.here.spark) == "kafka_s3"
    reader = sink.here.spark.read.format("kafka_s3").option("config", str(file))
    assert [row.n for row in reader.option("topic", sink.topic).load().collect()] == [0]
    with pytest.raises(Exception, match=r"topics .'x'.: is not an option of this source. Known: config"):
        reader.option("topics", "x").load()
