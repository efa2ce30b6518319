"""How does an engine get to know a topic's table? The one place that knows the engines: for the command line and for the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from kafka_s3.followers.ddl import hive, sql
from kafka_s3.followers.ddl.table import ExternalTable


class QueryEngine(StrEnum):
    """The engines that are known."""

    ATHENA = "athena"
    GLUE = "glue"
    SPARK = "spark"
    TRINO = "trino"
    DUCKDB = "duckdb"


_STATEMENTS: Final[Mapping[QueryEngine, Callable[[ExternalTable], list[str]]]] = {
    QueryEngine.ATHENA: hive.athena,
    QueryEngine.SPARK: sql.spark,
    QueryEngine.TRINO: sql.trino,
    QueryEngine.DUCKDB: sql.duckdb,
}


def statements(engine: QueryEngine, table: ExternalTable) -> list[str]:
    """What is to be run, in order, without semicolons; Glue's is one JSON document."""
    return [hive.glue(table)] if engine is QueryEngine.GLUE else _STATEMENTS[engine](table)


def script(engine: QueryEngine, table: ExternalTable) -> str:
    """The statements as text, with the table's notes as comments in front of them; Glue's JSON has none."""
    if engine is QueryEngine.GLUE:
        return hive.glue(table) + "\n"
    notes = [f"-- {note}\n" for note in table.notes]
    return "".join([*notes, *(f"{statement};\n" for statement in statements(engine, table))])
