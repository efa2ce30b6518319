"""How do Spark, Trino and DuckDB get to know a table? Each in its own SQL."""

from __future__ import annotations

from kafka_s3.followers.ddl.table import ExternalTable
from kafka_s3.followers.ddl.types import DUCKDB, SPARK, TRINO, SqlDialect, text

TRINO_FORMATS = {"parquet": "PARQUET", "avro": "AVRO", "json": "OPENX_JSON"}


def spark(table: ExternalTable) -> list[str]:
    """CREATE TABLE over a location of the s3a file system, and the statement that finds the directories."""
    name, location = SPARK.quote(table.name), text(table.folder_url.replace("s3://", "s3a://", 1))
    if table.delta:
        return [f"CREATE TABLE {name} USING DELTA LOCATION {location}"]
    by = ", ".join(SPARK.quote(key.name) for key in table.keys)
    lines = [
        f"CREATE TABLE {name} (\n{_columns(table, SPARK, 'STRING')}\n)",
        f"USING {table.format.upper()}",
        *([f"PARTITIONED BY ({by})"] if by else []),
        f"LOCATION {location}",
    ]
    return ["\n".join(lines), *([f"MSCK REPAIR TABLE {name}"] if by else [])]


def trino(table: ExternalTable) -> list[str]:
    """CREATE TABLE of the Hive connector, and the call that finds the directories; for a Delta table that of the Delta connector."""
    if table.delta:
        call = "CALL delta.system.register_table(schema_name => 'default', table_name => {}, table_location => {})"
        return [call.format(text(table.name), text(table.folder_url))]
    by = ", ".join(text(key.name) for key in table.keys)
    properties = [
        f"  external_location = {text(table.location)}",
        f"  format = {text(TRINO_FORMATS[table.format])}",
        *([f"  partitioned_by = ARRAY[{by}]"] if by else []),
    ]
    joined = ",\n".join(properties)
    made = f"CREATE TABLE hive.default.{TRINO.quote(table.name)} (\n{_columns(table, TRINO, 'varchar')}\n)\nWITH (\n{joined}\n)"
    found = f"CALL hive.system.sync_partition_metadata('default', {text(table.name)}, 'FULL')"
    return [made, *([found] if by else [])]


def duckdb(table: ExternalTable) -> list[str]:
    """A view over the objects themselves, the new ones included. Names that end with the offset leave keys and headers out."""
    name = DUCKDB.quote(table.name)
    if table.delta:
        return [
            "INSTALL delta",
            "LOAD delta",
            f"CREATE VIEW {name} AS SELECT * FROM delta_scan({text(table.folder_url)})",
        ]
    objects = text(f"{table.location}**/*[0-9]{table.extension}")
    parted = (
        ["hive_partitioning = true", "hive_types_autocast = false"] if table.keys else ["hive_partitioning = false"]
    )
    match table.format:
        case "json":
            fields = [
                f"{text(one)}: {text(DUCKDB.type_of(about['type']))}" for one, about in table.columns.fields.items()
            ]
            columns = f"columns = {{{', '.join(fields)}}}"
            options = ["format = 'newline_delimited'", columns, *parted]
            return [_view(name, f"read_json({objects}, {', '.join(options)})")]
        case "avro":
            return ["INSTALL avro", "LOAD avro", _view(name, f"read_avro({objects})")]
        case _:
            return [_view(name, f"read_parquet({objects}, union_by_name = true, {', '.join(parted)})")]


def _view(name: str, source: str) -> str:
    return f"CREATE VIEW {name} AS\nSELECT * FROM {source}"


def _columns(table: ExternalTable, dialect: SqlDialect, key_type: str) -> str:
    """The records' columns, then those of the directories."""
    own = [f"  {dialect.quote(name)} {dialect.type_of(one['type'])}" for name, one in table.columns.fields.items()]
    return ",\n".join([*own, *(f"  {dialect.quote(key.name)} {key_type}" for key in table.keys)])
