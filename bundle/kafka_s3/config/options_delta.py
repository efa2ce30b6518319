"""Which keys make a Delta table of a topic's Parquet objects?"""

from __future__ import annotations

from typing import Final

from kafka_s3.config.option import Group, OneOfAnyCase, Option, Type

MODES: Final = ("addNewColumns", "failOnNewColumns", "rescue", "none")
_GROUP: Final = Group.DELTA

ROWS: Final = (
    Option("delta.enable", Type.BOOLEAN, "false", "Keep a Delta table beside each topic's Parquet objects, at `<topics.dir>/<topic>/`, "
           "over the same objects. May be switched on at any time: the table is then made from the whole commit log.", _GROUP),
    Option("delta.schema.evolution.mode", Type.STRING, "addNewColumns", "What happens when records have columns that the table does not "
           "have, or of wider types: the table gets them, the sink stops before the commit, they are kept as JSON in the column "
           "`_rescued_data`, or they stay in the objects alone.", _GROUP, valid=OneOfAnyCase(MODES)),
)  # fmt: skip
