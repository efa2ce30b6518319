"""Which version of a Delta table holds an entry's files? What the tables' own logs say of it, read back from their newest versions."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
import streamlit as st

from data import data_files
from kafka_s3.errors import StorageError
from kafka_s3.storage.store import ObjectStore

NEWEST: Final = 300
KEPT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Added:
    """A version of a table that holds the files of the entries `first` to `last`."""

    version: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class TableLog:
    """What was read of a table's log: versions that a sink added, newest last, and the columns of the newest schema that was met."""

    added: tuple[Added, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()


def of_sink(store: ObjectStore, sink: str, files: pd.DataFrame) -> dict[str, list[Added]]:
    """Per topic with a table the versions that hold entries; empty where there are no tables, or they cannot be read."""
    found = {topic: table(store, folder, sink) for topic, folder in folders(files).items()}
    return {topic: list(log.added) for topic, log in found.items() if log.added}


def folders(files: pd.DataFrame) -> dict[str, str]:
    """The folder of each topic's Parquet objects, `<topics.dir>/<topic>/`."""
    rows = data_files(files, "topic", "encoded", "folder", "format")
    newest = rows[(rows["format"] == "parquet").to_numpy()].drop_duplicates("topic", keep="last")
    made = {}
    for row in newest.itertuples():
        folder, encoded = str(row.folder), str(row.encoded).strip("/")
        made[str(row.topic)] = folder.removesuffix(f"{encoded}/")
    return made


@st.cache_resource(show_spinner=False, max_entries=256)
def _memory() -> dict[tuple[int, str, str], tuple[float, TableLog]]:
    return {}


def table(store: ObjectStore, folder: str, sink: str) -> TableLog:
    """What the log of one table says; asked again after KEPT_S seconds at the earliest."""
    memory, key = _memory(), (id(store), folder, sink)
    at, known = memory.get(key, (-KEPT_S, TableLog()))
    if time.monotonic() - at > KEPT_S:
        known = read_table(store, folder, sink)
        memory[key] = (time.monotonic(), known)
    return known


def read_table(store: ObjectStore, folder: str, sink: str) -> TableLog:
    """The newest versions of a table's log; nothing where there is none, or it may not be read."""
    try:
        infos = [info.key for info in store.list(f"{folder}_delta_log/") if info.key.endswith(".json")]
        keys = [key for key in infos if key.rpartition("/")[2].removesuffix(".json").isdigit()][-NEWEST:]
        with ThreadPoolExecutor(8) as pool:
            documents = list(zip(keys, pool.map(store.get, keys), strict=True))
    except StorageError:
        return TableLog()
    added: list[Added] = []
    columns: tuple[tuple[str, str], ...] = ()
    for key, content in documents:
        number = int(key.rpartition("/")[2].removesuffix(".json"))
        for action in _actions(content):
            added.extend(_added(action, sink, number))
            columns = _columns(action) or columns
    return TableLog(tuple(added), columns)


def _actions(content: bytes) -> list[dict[str, Any]]:
    try:
        found = [json.loads(line) for line in content.splitlines() if line.strip()]
    except ValueError:
        return []
    return [action for action in found if isinstance(action, dict)]


def _added(action: dict[str, Any], sink: str, number: int) -> list[Added]:
    """A commit of the sink says in its user metadata which entries it holds."""
    try:
        note = json.loads(action["commitInfo"]["userMetadata"])
        return [Added(number, *note["entries"])] if note["kafka-s3"] == sink else []
    except (KeyError, TypeError, ValueError):
        return []


def _columns(action: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    try:
        fields = json.loads(action["metaData"]["schemaString"])["fields"]
        return tuple((str(field["name"]), athena_type(field["type"])) for field in fields)
    except (KeyError, TypeError, ValueError):
        return ()


def athena_type(kind: Any) -> str:
    """The type of a Delta column in Athena's words."""
    if isinstance(kind, str):
        return {
            "long": "bigint",
            "integer": "int",
            "short": "smallint",
            "byte": "tinyint",
            "timestamp_ntz": "timestamp",
        }.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{athena_type(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{athena_type(kind['keyType'])},{athena_type(kind['valueType'])}>"
    return "struct<" + ",".join(f"{field['name']}:{athena_type(field['type'])}" for field in kind["fields"]) + ">"
