"""How would a query engine see a topic? Text for Athena and Glue, from the directories and formats that the log names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from figures.partitions import slot_of
from reading.frames import data_files

_NAME: Final = re.compile(r"[^a-z0-9_]")
_DIGITS: Final = {"year": 4, "month": 2, "day": 2, "hour": 2, "minute": 2}
_RANGES: Final = {"month": "1,12", "day": "1,31", "hour": "0,23", "minute": "0,59"}
_SERDES: Final = {
    "parquet": ("org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe", "PARQUET"),
    "avro": ("org.apache.hadoop.hive.serde2.avro.AvroSerDe", "AVRO"),
    "json": ("org.openx.data.jsonserde.JsonSerDe", "TEXTFILE"),
}
_INPUT: Final = {
    "PARQUET": ("org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
                "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"),
    "AVRO": ("org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat",
             "org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat"),
    "TEXTFILE": ("org.apache.hadoop.mapred.TextInputFormat", "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"),
}  # fmt: skip
PLACEHOLDER: Final = "your_column"


@dataclass(frozen=True, slots=True)
class TableForm:
    """Where a topic's objects lie: the folder above its directories, the directories' names (blank: not `k=v`), their unit of time."""

    topic: str
    location: str
    keys: tuple[str, ...]
    unit: str
    first_year: int
    last_year: int
    form: str


def table_form(files: pd.DataFrame, topic: str, *, bucket: str) -> TableForm | None:
    """The layout of a topic by its newest object; None where it has none."""
    rows = data_files(files, "topic", "encoded", "folder", "format")
    rows = rows[(rows["topic"] == topic).to_numpy()]
    if rows.empty:
        return None
    newest = rows.iloc[-1]
    encoded, folder = str(newest["encoded"]).strip("/"), str(newest["folder"])
    above = folder[: folder.rfind(encoded)] if encoded and encoded in folder else folder
    parts = encoded.split("/") if encoded else []
    keys = tuple(part.partition("=")[0] if "=" in part else "" for part in parts)
    slots = [
        slot for name in rows["encoded"].cat.remove_unused_categories().cat.categories if (slot := slot_of(str(name)))
    ]
    years = [slot.start.year for slot in slots]
    unit = slots[0].unit if slots and all(keys) else ""
    return TableForm(
        topic, f"s3://{bucket}/{above}", keys, unit, min(years, default=0), max(years, default=0), str(newest["format"])
    )


def table_name(topic: str) -> str:
    """A name that Athena takes without quotes."""
    return _NAME.sub("_", topic.lower()) or "topic"


def athena(layout: TableForm, columns: Sequence[tuple[str, str]]) -> str:
    """CREATE EXTERNAL TABLE; with partition projection where the directories are times, else with the statement that finds them."""
    named = [key for key in layout.keys if key]
    own = [(name, kind) for name, kind in columns if name not in named] or [(PLACEHOLDER, "string")]
    hint = "" if columns else "  -- The commit log does not hold columns: write those of your records here.\n"
    fields = ",\n".join(f"  {_quoted(name)} {kind}" for name, kind in own)
    serde, stored = _SERDES.get(layout.form, _SERDES["json"])
    by = ", ".join(f"{_quoted(key)} string" for key in named)
    properties = ",\n".join(f"  '{key}' = '{_text(value)}'" for key, value in projection(layout).items())
    lines = [
        f"CREATE EXTERNAL TABLE `{table_name(layout.topic)}` (\n{hint}{fields}\n)",
        *([f"PARTITIONED BY ({by})"] if by else []),
        f"ROW FORMAT SERDE '{serde}'\nSTORED AS {stored}",
        f"LOCATION '{_text(layout.location)}'",
        *([f"TBLPROPERTIES (\n{properties}\n)"] if properties else []),
    ]
    found = "\n".join(lines) + ";"
    return found + (
        f"\n\nMSCK REPAIR TABLE `{table_name(layout.topic)}`;  -- after each new directory"
        if by and not properties
        else ""
    )


def projection(layout: TableForm) -> dict[str, str]:
    """Properties by which Athena works the directories of time out for itself; none for other directories."""
    names = {"hr": "hour", "min": "minute", "mon": "month", "d": "day", "h": "hour", "m": "month", "y": "year"}
    units = [names.get(key.lower(), key.lower()) for key in layout.keys]
    if not layout.unit or not set(units) <= set(_DIGITS):
        return {}
    template = "/".join(f"{key}=${{{key}}}" for key in layout.keys)
    properties = {"projection.enabled": "true", "storage.location.template": f"{layout.location}{template}"}
    for key, unit in zip(layout.keys, units, strict=True):
        bounds = f"{layout.first_year},{layout.last_year + 5}" if unit == "year" else _RANGES[unit]
        properties |= {
            f"projection.{key}.type": "integer",
            f"projection.{key}.range": bounds,
            f"projection.{key}.digits": str(_DIGITS[unit]),
        }
    return properties


def glue(layout: TableForm, columns: Sequence[tuple[str, str]]) -> str:
    """The input of `aws glue create-table --table-input`."""
    named = [key for key in layout.keys if key]
    serde, stored = _SERDES.get(layout.form, _SERDES["json"])
    reads, writes = _INPUT[stored]
    own = [(name, kind) for name, kind in columns if name not in named] or [(PLACEHOLDER, "string")]
    document: Mapping[str, Any] = {
        "Name": table_name(layout.topic),
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {"EXTERNAL": "TRUE", "classification": layout.form, **projection(layout)},
        "PartitionKeys": [{"Name": key, "Type": "string"} for key in named],
        "StorageDescriptor": {
            "Columns": [{"Name": name, "Type": kind} for name, kind in own],
            "Location": layout.location,
            "InputFormat": reads,
            "OutputFormat": writes,
            "SerdeInfo": {"SerializationLibrary": serde},
        },
    }
    return json.dumps(document, indent=2)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return value.replace("'", "''")
