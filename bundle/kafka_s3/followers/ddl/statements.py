"""Write the statements that make a topic's table known to an engine, for the command line and for the dashboard.

Athena and AWS Glue take Hive's form (a SerDe, partition keys, properties for projection), Trino its SQL. An Iceberg table is known by its
catalog (`ddl.iceberg`). Spark and DuckDB find columns and directories by themselves (docs/query-engines.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from kafka_s3.engine.task.table_guard.columns import DeltaType
from kafka_s3.followers.ddl import iceberg
from kafka_s3.followers.ddl.table import DATE, ExternalTable, by_time

Quote = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """How an engine writes types and names: forms whose `{}` take the types of the members, `member` name and type of a struct's."""

    names: Mapping[str, str]
    quote: Quote
    struct: str
    member: str
    array: str
    map: str
    quote_member: Quote

    def type_of(self, type_: DeltaType) -> str:
        """The type in the dialect's words; what has the same name everywhere (decimals) stays."""
        if isinstance(type_, str):
            return self.names.get(type_, type_)
        if type_["type"] == "struct":
            members = [
                self.member.format(self.quote_member(one["name"]), self.type_of(one["type"])) for one in type_["fields"]
            ]
            return self.struct.format(", ".join(members) if " " in self.member else ",".join(members))
        if type_["type"] == "array":
            return self.array.format(self.type_of(type_["elementType"]))
        return self.map.format(self.type_of(type_["keyType"]), self.type_of(type_["valueType"]))


def backquoted(name: str) -> str:
    """A name of Hive and Spark."""
    return "`" + name.replace("`", "``") + "`"


def double_quoted(name: str) -> str:
    """A name of standard SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string of SQL."""
    return "'" + value.replace("'", "''") + "'"


HIVE: Final = SqlDialect(
    {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint", "timestamp_ntz": "timestamp"},
    backquoted, "struct<{}>", "{}:{}", "array<{}>", "map<{},{}>", str,
)  # fmt: skip
TRINO: Final = SqlDialect(
    {"long": "bigint", "integer": "integer", "short": "smallint", "byte": "tinyint", "float": "real", "string": "varchar",
     "binary": "varbinary", "timestamp": "timestamp(3)", "timestamp_ntz": "timestamp(3)"},
    double_quoted, "row({})", "{} {}", "array({})", "map({}, {})", double_quoted,
)  # fmt: skip

YEARS_AHEAD: Final = 10
_HIVE: Final = "org.apache.hadoop.hive"
SERDES: Final = {
    "parquet": f"{_HIVE}.ql.io.parquet.serde.ParquetHiveSerDe",
    "avro": f"{_HIVE}.serde2.avro.AvroSerDe",
    "json": "org.openx.data.jsonserde.JsonSerDe",
}
STORED_AS: Final = {"parquet": "PARQUET", "avro": "AVRO", "json": "TEXTFILE"}
_INPUT_OUTPUT: Final = {
    "parquet": (f"{_HIVE}.ql.io.parquet.MapredParquetInputFormat", f"{_HIVE}.ql.io.parquet.MapredParquetOutputFormat"),
    "avro": (f"{_HIVE}.ql.io.avro.AvroContainerInputFormat", f"{_HIVE}.ql.io.avro.AvroContainerOutputFormat"),
    "json": ("org.apache.hadoop.mapred.TextInputFormat", f"{_HIVE}.ql.io.HiveIgnoreKeyTextOutputFormat"),
}
_RANGES: Final = {"month": "1,12", "day": "1,31", "hour": "0,23", "minute": "0,59"}


def athena(table: ExternalTable) -> list[str]:
    """CREATE EXTERNAL TABLE: its directories are projected where they are times, else found by a second statement."""
    name = HIVE.quote(table.name)
    if table.delta:
        return [
            f"CREATE EXTERNAL TABLE {name}\nLOCATION {text(table.location)}\nTBLPROPERTIES ('table_type' = 'DELTA')"
        ]
    columns = ",\n".join(f"  {HIVE.quote(c)} {HIVE.type_of(one['type'])}" for c, one in table.columns.fields.items())
    keys = ", ".join(f"{HIVE.quote(key.name)} string" for key in table.keys)
    properties = ",\n".join(f"  {text(key)} = {text(value)}" for key, value in projection(table).items())
    serde = ",\n".join(f"  {text(key)} = {text(value)}" for key, value in _serde_parameters(table).items())
    lines = [
        f"CREATE EXTERNAL TABLE {name} (\n{columns}\n)",
        *([f"PARTITIONED BY ({keys})"] if keys else []),
        f"ROW FORMAT SERDE {text(SERDES[table.format])}",
        *([f"WITH SERDEPROPERTIES (\n{serde}\n)"] if serde else []),
        f"STORED AS {STORED_AS[table.format]}",
        f"LOCATION {text(table.location)}",
        *([f"TBLPROPERTIES (\n{properties}\n)"] if properties else []),
    ]
    return ["\n".join(lines), *([f"MSCK REPAIR TABLE {name}"] if keys and not properties else [])]


def glue_table(table: ExternalTable) -> dict[str, Any]:
    """The table input of Glue's CreateTable."""
    if table.delta:
        parameters = {"EXTERNAL": "TRUE", "classification": "delta", "table_type": "DELTA"}
        return _glue(table, {**parameters, "spark.sql.sources.provider": "delta"}, {"Location": table.folder_url})
    reads, writes = _INPUT_OUTPUT[table.format]
    storage = {
        "Location": table.location,
        "InputFormat": reads,
        "OutputFormat": writes,
        "SerdeInfo": {"SerializationLibrary": SERDES[table.format], "Parameters": _serde_parameters(table)},
    }
    return _glue(table, {"EXTERNAL": "TRUE", "classification": table.format, **projection(table)}, storage)


def glue(table: ExternalTable) -> str:
    """The same as the file for `aws glue create-table --table-input file://...`."""
    return json.dumps(glue_table(table), indent=2)


def projection(table: ExternalTable) -> dict[str, str]:
    """Properties by which Athena works directories of time out for itself; none for other directories."""
    if not by_time(table.keys):
        return {}
    template = "/".join(f"{key.name}=${{{key.name}}}" for key in table.keys)
    properties = {"projection.enabled": "true", "storage.location.template": f"{table.location}{template}"}
    for key in table.keys:
        mark = f"projection.{key.name.lower()}"
        if key.unit == DATE:
            properties |= {
                f"{mark}.type": "date", f"{mark}.format": "yyyy-MM-dd", f"{mark}.range": f"{key.first},NOW",
                f"{mark}.interval": "1", f"{mark}.interval.unit": "DAYS",
            }  # fmt: skip
            continue
        bounds = f"{int(key.first)},{int(key.last) + YEARS_AHEAD}" if key.unit == "year" else _RANGES[key.unit]
        properties |= {f"{mark}.type": "integer", f"{mark}.range": bounds}
        properties |= {f"{mark}.digits": str(key.digits)} if key.digits else {}
    return properties


def _glue(table: ExternalTable, parameters: Mapping[str, str], storage: Mapping[str, Any]) -> dict[str, Any]:
    columns = [{"Name": name, "Type": HIVE.type_of(one["type"])} for name, one in table.columns.fields.items()]
    keys = [{"Name": key.name, "Type": "string"} for key in table.keys]
    if table.delta:  # a Delta table's directories are columns like any other
        columns, keys = columns + keys, []
    return {
        "Name": table.name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": dict(parameters),
        "PartitionKeys": keys,
        "StorageDescriptor": {"Columns": columns, **storage},
    }


def _serde_parameters(table: ExternalTable) -> dict[str, str]:
    return {"avro.schema.literal": table.avro_schema} if table.avro_schema else {}


TRINO_FORMATS = {"parquet": "PARQUET", "avro": "AVRO", "json": "OPENX_JSON"}


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
    types = {name: TRINO.type_of(one["type"]) for name, one in table.columns.fields.items()}
    types |= dict.fromkeys((key.name for key in table.keys), "varchar")
    columns = ",\n".join(f"  {TRINO.quote(name)} {type_}" for name, type_ in types.items())
    made = f"CREATE TABLE hive.default.{TRINO.quote(table.name)} (\n{columns}\n)\nWITH (\n{joined}\n)"
    found = f"CALL hive.system.sync_partition_metadata('default', {text(table.name)}, 'FULL')"
    return [made, *([found] if by else [])]


class QueryEngine(StrEnum):
    """The engines that are known."""

    ATHENA = "athena"
    GLUE = "glue"
    TRINO = "trino"


def statements(engine: QueryEngine, table: ExternalTable) -> list[str]:
    """Return what is to be run, in order, without semicolons; Glue's is one JSON document."""
    of_catalog = _of_catalog(engine, table)
    if of_catalog is not None:
        return of_catalog
    match engine:
        case QueryEngine.ATHENA:
            return athena(table)
        case QueryEngine.TRINO:
            return trino(table)
        case QueryEngine.GLUE:
            return [glue(table)]


def notes(engine: QueryEngine, table: ExternalTable) -> list[str]:
    """What the reader has to know: what the table does not show, or where a catalog has it already."""
    if table.iceberg is None:
        return list(table.notes)
    if _of_catalog(engine, table) is not None:
        return [iceberg.note(table.iceberg, engine.value)]
    about = f"{engine.value} cannot ask a catalog of type {table.iceberg.kind}: this is a table over the same objects."
    return [about, *table.notes]


def _of_catalog(engine: QueryEngine, table: ExternalTable) -> list[str] | None:
    """The statements for an Iceberg table; None where there is none, or the engine cannot ask its catalog."""
    known = iceberg.STATEMENTS.get(engine.value)
    return known(table.iceberg) if known is not None and table.iceberg is not None and not table.delta else None


def script(engine: QueryEngine, table: ExternalTable) -> str:
    """The statements as text, with the table's notes as comments in front of them; Glue's JSON has none."""
    if engine is QueryEngine.GLUE:
        return glue(table) + "\n"
    about = [f"-- {note}\n" for note in notes(engine, table)]
    return "".join([*about, *(f"{statement};\n" for statement in statements(engine, table))])
