"""What is a type of Delta's log called elsewhere? One table a dialect; nested types are put together by the dialect's own rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kafka_s3.engine.task.table_guard.columns import DeltaType

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
SPARK: Final = SqlDialect(
    {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT", "boolean": "BOOLEAN", "float": "FLOAT",
     "double": "DOUBLE", "string": "STRING", "binary": "BINARY", "date": "DATE", "timestamp": "TIMESTAMP",
     "timestamp_ntz": "TIMESTAMP_NTZ"},
    backquoted, "STRUCT<{}>", "{}: {}", "ARRAY<{}>", "MAP<{}, {}>", backquoted,
)  # fmt: skip
TRINO: Final = SqlDialect(
    {"long": "bigint", "integer": "integer", "short": "smallint", "byte": "tinyint", "float": "real", "string": "varchar",
     "binary": "varbinary", "timestamp": "timestamp(3)", "timestamp_ntz": "timestamp(3)"},
    double_quoted, "row({})", "{} {}", "array({})", "map({}, {})", double_quoted,
)  # fmt: skip
DUCKDB: Final = SqlDialect(
    {"long": "BIGINT", "integer": "INTEGER", "short": "SMALLINT", "byte": "TINYINT", "boolean": "BOOLEAN", "float": "FLOAT",
     "double": "DOUBLE", "string": "VARCHAR", "binary": "BLOB", "date": "DATE", "timestamp": "TIMESTAMPTZ",
     "timestamp_ntz": "TIMESTAMP"},
    double_quoted, "STRUCT({})", "{} {}", "{}[]", "MAP({}, {})", double_quoted,
)  # fmt: skip
