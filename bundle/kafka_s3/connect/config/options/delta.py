"""Which keys make a Delta table of a topic's Parquet objects?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafka_s3.connect.config.option import Option, OptionGroup, Type
from kafka_s3.connect.config.valid_values import InvalidValue, OneOfAnyCase, Value
from kafka_s3.connect.naming.table_names import fault

MODES: Final = ("addNewColumns", "failOnNewColumns", "rescue", "none")
WRITERS: Final = ("delta-rs", "spark")
_GROUP: Final = OptionGroup.DELTA


@dataclass(frozen=True, slots=True)
class NameOfTables:
    """A pattern of table names, or nothing."""

    text: str = "catalog.schema.table, where ${topic} stands for the topic; blank: no name"

    def accept(self, value: Value) -> Value:
        """The pattern."""
        if value and (rule := fault(str(value))):
            raise InvalidValue(rule, "For example main.raw.${topic}.")
        return value


ROWS: Final = (
    Option("delta.enable", Type.BOOLEAN, "false", "Keep a Delta table beside each topic's Parquet objects, at `<topics.dir>/<topic>/`, "
           "over the same objects. May be switched on at any time: the table is then made from the whole commit log.", _GROUP),
    Option("delta.schema.evolution.mode", Type.STRING, "addNewColumns", "What happens when records have columns that the table does not "
           "have, or of wider types: the table gets them, the sink stops before the commit, they are kept as JSON in the column "
           "`_rescued_data`, or they stay in the objects alone.", _GROUP, valid=OneOfAnyCase(MODES)),
    Option("delta.table.name", Type.STRING, "", "The name under which each table is registered in the catalog of the Spark that runs the "
           "sink, once it is there. A name that is taken is left as it is. A sink of several topics needs `${topic}` in it.", _GROUP,
           valid=NameOfTables()),
    Option("delta.writer", Type.STRING, "delta-rs", "Who writes the tables. `delta-rs` adds the objects themselves to a table beside them. "
           "`spark` appends a copy of their records to the table `delta.table.name`, wherever it lies: for managed tables, and those with "
           "features that delta-rs does not write.", _GROUP, valid=OneOfAnyCase(WRITERS)),
    Option("delta.spark.bucket.url", Type.STRING, "", "Where Spark finds the bucket, for `delta.table.name` and `delta.writer=spark`. "
           "Blank: `s3://<bucket>`, as on Databricks; elsewhere `s3a://<bucket>`, with the library hadoop-aws.", _GROUP),
)  # fmt: skip
