"""How engines get to know a topic: the columns that its objects have, the directories that they lie in."""

from __future__ import annotations

import json

import pytest

from kafka_s3.connect.schemas.avro_schemas import connect_schema_of_avro
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.engine.task.table_guard.columns import TableColumns
from kafka_s3.followers.ddl.columns import table_of
from kafka_s3.followers.ddl.statements import QueryEngine, glue_table, projection, script, statements
from kafka_s3.followers.ddl.table import ExternalTable, NoTable, PartitionKey, partition_keys, table_name, topics_of
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.files import Role
from kafka_s3.objects.avro_container import avro_format
from kafka_s3.run.wiring.followers import tables_of_sink
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.filled import HOURLY
from tests.support.memory_world import ORDERS, START_MS, World

SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int64"},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
        {
            "field": "lines",
            "type": "array",
            "items": {"type": "struct", "fields": [{"field": "sku", "type": "string"}]},
        },
        {"field": "Hour", "type": "int32"},
    ],
}
VALUE = {"id": 1, "at": START_MS, "lines": [{"sku": "a"}], "Hour": 9}
FORMATS = "io.confluent.connect.s3.format."


def table(world: World) -> ExternalTable:
    (found,) = tables_of_sink(world.settings, world.store)
    return found


def written(*values: object, **config: str) -> World:
    world = World({**HOURLY, "topics": "orders", "flush.size": "2", **config})
    for offset, value in enumerate(values):
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, b"k", text))
    world.start().poll_and_commit()
    return world


def parquet(**config: str) -> World:
    return written(
        VALUE,
        VALUE,
        **{"format.class": FORMATS + "parquet.ParquetFormat", "value.schema": json.dumps(SCHEMA), **config},
    )


def envelopes(form: str, **config: str) -> World:
    value = {"schema": SCHEMA, "payload": VALUE}
    return written(value, value, **{"format.class": FORMATS + form, "value.converter.schemas.enable": "true", **config})


ATHENA = """\
-- Hour is a directory and a column of the records: the table has the directory's value, the other stays in the objects.
CREATE EXTERNAL TABLE `orders` (
  `id` bigint,
  `at` timestamp,
  `lines` array<struct<sku:string>>
)
PARTITIONED BY (`year` string, `month` string, `day` string, `hour` string)
ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'
STORED AS PARQUET
LOCATION 's3://bucket/topics/orders/';
MSCK REPAIR TABLE `orders`;
"""
PROJECTED = """\
TBLPROPERTIES (
  'projection.enabled' = 'true',
  'storage.location.template' = 's3://bucket/topics/orders/year=${year}/month=${month}/day=${day}/hour=${hour}',
  'projection.year.type' = 'integer',
  'projection.year.range' = '2024,2034',
  'projection.year.digits' = '4',
"""


def test_athena_gets_the_columns_of_the_footer_but_those_that_directories_hide() -> None:
    assert script(QueryEngine.ATHENA, table(parquet())) == ATHENA


def test_athena_works_hours_out_so_that_no_new_directory_has_to_be_added() -> None:
    text = script(QueryEngine.ATHENA, table(written({"n": 1}, {"n": 2})))
    assert PROJECTED in text
    assert "MSCK" not in text


def test_each_engine_has_its_own_words_for_the_same_columns() -> None:
    found = table(parquet())
    trino, sync = statements(QueryEngine.TRINO, found)
    assert '"at" timestamp(3),\n  "lines" array(row("sku" varchar)),\n  "year" varchar' in trino
    assert "partitioned_by = ARRAY['year', 'month', 'day', 'hour']" in trino
    assert sync == "CALL hive.system.sync_partition_metadata('default', 'orders', 'FULL')"
    document = json.loads(script(QueryEngine.GLUE, found))
    assert document == glue_table(found)
    assert [one["Name"] for one in document["StorageDescriptor"]["Columns"]] == ["id", "at", "lines"]
    assert [one["Name"] for one in document["PartitionKeys"]] == ["year", "month", "day", "hour"]


def test_avro_objects_give_their_columns_and_their_schema() -> None:
    found = table(envelopes("avro.AvroFormat"))
    assert list(found.columns.fields) == ["id", "at", "lines"]
    assert found.columns.type_of("at") == "timestamp"
    text = script(QueryEngine.ATHENA, found)
    assert "STORED AS AVRO" in text
    assert f"'avro.schema.literal' = '{found.avro_schema}'" in text
    assert json.loads(found.avro_schema)["type"] == "record"


def test_avro_objects_of_a_type_that_contains_itself_are_refused_by_its_name() -> None:
    world = envelopes("avro.AvroFormat")
    fields = [{"name": "next", "type": ["null", "Tree"]}]
    schema = connect_schema_of_avro({"type": "record", "name": "Tree", "fields": fields}, options=AvroOptions())
    file = avro_format("null", AvroOptions()).open(schema)
    (key,) = (key for key in world.store.objects if key.startswith("topics/"))
    world.store.put(key, bytes(file.take()))
    with pytest.raises(NoTable, match="no columns that a table could have: The type Tree contains itself"):
        table(world)


def test_json_objects_are_sampled_and_several_are_put_together() -> None:
    world = written({"n": 1}, {"n": 2, "where": {"city": "Rome"}}, {"n": 1.5}, {"late": True})
    found = table(world)
    assert {name: found.columns.type_of(name) for name in found.columns.fields} == {
        "n": "double",
        "late": "boolean",
        "where": {"type": "struct", "fields": [{"name": "city", "type": "string", "nullable": True, "metadata": {}}]},
    }
    gzipped = table(written({"n": 1}, {"n": 2}, **{"s3.compression.type": "gzip"}))
    assert gzipped.columns.type_of("n") == "long"


DELTA = {
    QueryEngine.ATHENA: "CREATE EXTERNAL TABLE `orders`\nLOCATION 's3://bucket/topics/orders/'\nTBLPROPERTIES ('table_type' = 'DELTA');\n",
    QueryEngine.TRINO: "CALL delta.system.register_table(schema_name => 'default', table_name => 'orders', "
    "table_location => 's3://bucket/topics/orders');\n",
}


@pytest.mark.parametrize("engine", DELTA)
def test_a_delta_table_is_never_declared_as_plain_parquet(engine: QueryEngine) -> None:
    assert script(engine, delta_table()) == DELTA[engine]


def delta_table() -> ExternalTable:
    """What the bucket of a sink with a Delta table says, asked without its settings."""
    world = parquet()
    world.store.put("topics/orders/_delta_log/00000000000000000000.json", b"{}")
    return table_of(world.store, topics_of(world.entries())["orders"], bucket="bucket", delta=None)


def test_glue_gets_a_delta_table_with_its_directories_as_columns() -> None:
    document = glue_table(delta_table())
    assert document["Parameters"]["table_type"] == "DELTA"
    assert document["PartitionKeys"] == []
    assert [one["Name"] for one in document["StorageDescriptor"]["Columns"]][-1] == "hour"


def test_a_copy_that_spark_writes_is_recognised_by_its_name() -> None:
    delta = {"delta.enable": "true", "delta.writer": "spark", "delta.table.name": "main.raw.${topic}"}
    world = parquet()
    copied = World({**HOURLY, "topics": "orders", "format.class": FORMATS + "parquet.ParquetFormat",
                    "value.schema": json.dumps(SCHEMA), **delta})  # fmt: skip
    with pytest.raises(NoTable, match=r"main\.raw\.orders: query it by that name"):
        list(tables_of_sink(copied.settings, world.store))


def test_names_cannot_end_their_quotes() -> None:
    columns = TableColumns.of({'a"b`c': "long"})
    found = ExternalTable("a'; DROP", "s3://lake/it's/", "json", columns, (PartitionKey("k`e'y"),))
    text = script(QueryEngine.ATHENA, found)
    assert "LOCATION 's3://lake/it''s/'" in text
    assert "`k``e'y`" in text
    assert '`a"b``c` bigint' in text
    assert "`a___drop`" in text
    assert '"a""b`c" bigint' in script(QueryEngine.TRINO, found)
    assert "ARRAY['k`e''y']" in script(QueryEngine.TRINO, found)
    assert table_name("Orders.V-2") == "orders_v_2"


@pytest.mark.parametrize(
    ("encoded", "levels"),
    [
        (["year=2024/month=01", "year=2025/month=11"], {"year": "integer", "month": "integer"}),
        (["dt=2024-01-15/hr=09"], {"dt": "date", "hr": "integer"}),
        (["partition=0", "partition=1"], {}),
        (["year=null", "year=2024"], {}),
        (["2024/01"], {}),
        (["year=2024", "tombstone"], {}),
    ],
)
def test_only_times_are_worked_out(encoded: list[str], levels: dict[str, str]) -> None:
    keys = partition_keys(encoded, ())
    found = projection(ExternalTable("t", "s3://b/t/", "json", TableColumns(), keys))
    kinds = {key.split(".")[1]: value for key, value in found.items() if key.endswith(".type")}
    assert kinds == levels


def test_years_are_those_of_the_log_and_some_to_come_and_digits_are_as_wide_as_they_were() -> None:
    keys = partition_keys(["year=2024/month=9", "year=2025/month=11"], ())
    found = projection(ExternalTable("t", "s3://b/t/", "json", TableColumns(), keys))
    assert found["projection.year.range"] == "2024,2035"
    assert "projection.month.digits" not in found


def test_fields_that_are_directories_are_shown_once_and_found_by_a_second_statement() -> None:
    world = written({"n": 1, "carrier": "dhl"}, {"n": 2, "carrier": "dhl"}, **{
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner", "partition.field.name": "carrier",
        "rotate.schedule.interval.ms": "-1",
    })  # fmt: skip
    create, repair = statements(QueryEngine.ATHENA, table(world))
    assert create.count("`carrier`") == 1
    assert "PARTITIONED BY (`carrier` string)" in create
    assert repair == "MSCK REPAIR TABLE `orders`"


def test_sidecars_in_the_folders_of_values_are_reported() -> None:
    world = parquet(**{"store.kafka.keys": "true", "keys.format.class": FORMATS + "avro.AvroFormat"})
    (objects,) = topics_of(world.entries()).values()
    assert objects.sidecars == (Role.KEY,)
    assert "-- Objects with keys lie in the same folders, and are read as values." in script(
        QueryEngine.TRINO, table(world)
    )


def test_what_cannot_be_a_table_says_why() -> None:
    world = written(b"a", b"b", **{
        "format.class": FORMATS + "bytearray.ByteArrayFormat",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    })  # fmt: skip
    with pytest.raises(NoTable, match="format bytearray have no columns"):
        table(world)
    with pytest.raises(ConfigError, match="Topics with objects: orders"):
        list(tables_of_sink(world.settings, world.store, ["nothing"]))
    with pytest.raises(NoTable, match="has written no object yet"):
        list(tables_of_sink(world.settings, World(HOURLY).store))
