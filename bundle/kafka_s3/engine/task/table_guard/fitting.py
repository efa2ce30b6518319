"""Do a file's columns fit those that the table has: which are new, which too wide, which of another kind?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_s3.engine.task.table_guard.columns import (
    BY_DIRECTORY,
    DECIMAL,
    FIXED,
    WHOLE,
    DeltaType,
    Mode,
    TableColumns,
    shown,
)


@dataclass(slots=True)
class Fit:
    """How a file's columns lie to a table's. `columns` hold both, the table's first.

    `new` are columns that the table lacks, `wider` those whose type in the table is too narrow, `conflicts` those that no type of Delta
    holds together; nested ones by their path. Each with a text that names column and types.
    """

    columns: TableColumns
    new: dict[str, str] = field(default_factory=dict)
    wider: dict[str, str] = field(default_factory=dict)
    conflicts: dict[str, str] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether the table holds the file as it is."""
        return not (self.new or self.wider or self.conflicts)

    def refusals(self, mode: Mode) -> list[str]:
        """What the table cannot take in a mode. New columns stay in the file alone where the mode neither adds nor refuses them."""
        refused = list(self.conflicts.values())
        if mode is not Mode.ADD:
            refused += self.wider.values()
        return [*refused, *self.new.values()] if mode is Mode.FAIL else refused


def fit(table: TableColumns, file: TableColumns) -> Fit:
    """Compares a file's columns with a table's."""
    found = Fit(table)
    fields = _merged(table.fields, file.fields, "", found)
    found.columns = TableColumns({one["name"]: one for one in fields})
    return found


def _merged(
    table: Mapping[str, Mapping[str, Any]], file: Mapping[str, Mapping[str, Any]], path: str, found: Fit
) -> list[Mapping[str, Any]]:
    merged = dict(table)
    spelt = {name.lower(): name for name in table}
    for name, one in file.items():
        where = f"{path}{name}"
        known = table.get(name)
        if known is not None and BY_DIRECTORY in known.get("metadata", {}):
            found.conflicts[where] = f"column {where} is given by the directories of the table"
        elif known is not None:
            merged[name] = {**known, "type": _held(known, one["type"], where, found)}
        elif name.lower() in spelt:
            found.conflicts[where] = f"column {where} differs from the table's {spelt[name.lower()]} by case only"
        else:
            merged[name] = one
            spelt[name.lower()] = name
            found.new[where] = f"new column {where} {shown(one['type'])}"
    return list(merged.values())


def _held(known: Mapping[str, Any], file: DeltaType, where: str, found: Fit) -> DeltaType:
    """The type that holds both; where the table's cannot be widened, a wider one is a conflict."""
    own = Fit(found.columns)
    merged = _wider(known["type"], file, where, own)
    if own.wider and FIXED in known.get("metadata", {}):
        own.conflicts |= own.wider
        own.wider, merged = {}, known["type"]
    found.new |= own.new
    found.wider |= own.wider
    found.conflicts |= own.conflicts
    return merged


def _wider(table: DeltaType, file: DeltaType, where: str, found: Fit) -> DeltaType:
    """The type that holds both; the table's own where there is none."""
    if table == file:
        return table
    if isinstance(table, str) and isinstance(file, str):
        wider = _wider_plain(table, file)
        if wider is None:
            found.conflicts[where] = _unlike(where, file, table)
        elif wider != table:
            found.wider[where] = _unlike(where, file, table)
        return wider or table
    if isinstance(table, Mapping) and isinstance(file, Mapping) and table["type"] == file["type"]:
        return _wider_nested(table, file, where, found)
    found.conflicts[where] = _unlike(where, file, table)
    return table


def _wider_nested(table: Mapping[str, Any], file: Mapping[str, Any], where: str, found: Fit) -> DeltaType:
    if table["type"] == "struct":
        mine, others = ({one["name"]: one for one in type_["fields"]} for type_ in (table, file))
        return {**table, "fields": _merged(mine, others, f"{where}.", found)}
    if table["type"] == "array":
        element = _wider(table["elementType"], file["elementType"], f"{where}.element", found)
        return {**table, "elementType": element}
    key = _wider(table["keyType"], file["keyType"], f"{where}.key", found)
    value = _wider(table["valueType"], file["valueType"], f"{where}.value", found)
    return {**table, "keyType": key, "valueType": value}


def _wider_plain(table: str, file: str) -> str | None:
    """The widenings of Delta's type widening that readers do on the fly: whole numbers, float, whole number to double, decimals."""
    if table in WHOLE and file in WHOLE:
        return max(table, file, key=WHOLE.index)
    pair = {table, file}
    if pair == {"float", "double"} or ("double" in pair and pair & {"byte", "short", "integer"}):
        return "double"
    mine, others = DECIMAL.fullmatch(table), DECIMAL.fullmatch(file)
    if mine is None or others is None:
        return None
    scale = max(int(mine[2]), int(others[2]))
    whole = max(int(mine[1]) - int(mine[2]), int(others[1]) - int(others[2]))
    return f"decimal({whole + scale},{scale})" if whole + scale <= 38 else None


def _unlike(where: str, file: DeltaType, table: DeltaType) -> str:
    return f"column {where} is {shown(file)}, in the table {shown(table)}"
