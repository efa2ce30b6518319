"""How do Athena and AWS Glue get to know a table? Hive's words: a SerDe, partition keys, and properties for projection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kafka_s3.followers.ddl.directories import DATE, by_time
from kafka_s3.followers.ddl.table import ExternalTable
from kafka_s3.followers.ddl.types import HIVE, text

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
