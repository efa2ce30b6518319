"""How engines get to know an Iceberg table: by its catalog where they can ask it, else as a table over the same objects."""

from __future__ import annotations

import pytest

from kafka_s3.engine.task.table_guard.columns import TableColumns
from kafka_s3.followers.ddl.iceberg import CatalogTable, jdbc_url
from kafka_s3.followers.ddl.statements import QueryEngine, script
from kafka_s3.followers.ddl.table import ExternalTable

SQL = "postgresql+psycopg2://user:secret@db:5432/lake"


def table(kind: str, uri: str = "", warehouse: str = "s3://bucket/iceberg") -> ExternalTable:
    known = CatalogTable(kind, uri, warehouse, ("kafka", "orders"), region="eu-central-1")
    columns = TableColumns.of({"id": "long"})
    return ExternalTable("orders", "s3://bucket/topics/orders/", "parquet", columns, iceberg=known)


def test_trino_gets_a_catalog_of_its_connector() -> None:
    assert script(QueryEngine.TRINO, table("sql", SQL)).splitlines()[1:] == [
        "CREATE CATALOG iceberg USING iceberg", "WITH (", "  \"iceberg.catalog.type\" = 'jdbc',", "  \"fs.native-s3.enabled\" = 'true',",
        "  \"iceberg.jdbc-catalog.catalog-name\" = 'iceberg',", "  \"iceberg.jdbc-catalog.driver-class\" = 'org.postgresql.Driver',",
        "  \"iceberg.jdbc-catalog.connection-url\" = 'jdbc:postgresql://db:5432/lake',",
        "  \"iceberg.jdbc-catalog.default-warehouse-dir\" = 's3://bucket/iceberg'", ");",
    ]  # fmt: skip


def test_athena_has_the_tables_of_glue_already() -> None:
    assert script(QueryEngine.ATHENA, table("glue")) == (
        '-- The sink keeps the Iceberg table "kafka"."orders" in AWS Glue: Athena has it already.\n'
    )


@pytest.mark.parametrize(
    ("engine", "kind", "uri"),
    [
        (QueryEngine.ATHENA, "rest", "https://catalog"),
        (QueryEngine.TRINO, "sql", "sqlite:////x.db"),
    ],
)
def test_an_engine_that_cannot_ask_the_catalog_sees_the_objects(engine: QueryEngine, kind: str, uri: str) -> None:
    text = script(engine, table(kind, uri))
    assert text.startswith(
        f"-- {engine.value} cannot ask a catalog of type {kind}: this is a table over the same objects.\n"
    )
    assert "s3://bucket/topics/orders/" in text


def test_no_password_of_a_database_is_shown() -> None:
    assert jdbc_url(SQL) == "jdbc:postgresql://db:5432/lake"
    for kind in ("sql", "rest", "hive"):
        shown = "".join(script(engine, table(kind, f"{SQL}?password=secret")) for engine in QueryEngine)
        assert "secret" not in shown
