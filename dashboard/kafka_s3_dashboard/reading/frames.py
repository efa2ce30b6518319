"""What does a commit log look like as tables? Entries become six Arrow tables, compact enough for half a million files.

`entries`, `files`, `counts` (dead letters by stage, skipped records), `gaps`, `rewrites` (objects in the place of others, as sums) and
`swaps` (each of those others). Times are epoch ms; where no record had one it is -1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, committed_ms, iso_ms, parse_name, read_entry
from kafka_s3.engine.log.formats import PLAIN_FORMAT, WAITING_FORMAT
from kafka_s3.engine.log.history import DEAD_LETTER_FILES, ENTRIES, FILES, Tables, entries_of
from kafka_s3.model.files import Reason, Role, counted
from kafka_s3_dashboard.reading.groups import Numbers, groups_by

T = TypeVar("T")
NO_TIME: Final = -1
SKIPPED: Final = "skipped"
KINDS: Final = ("role", "reason", "counted", "live")
"""The columns of files that say what a file counts as: in every number of files (`counted`), as long as none replaced it (`live`)."""
REWRITTEN: Final = (str(Reason.COMPACTION), str(Reason.ERASURE))
"""The reasons of objects that were made from others."""
NO_GAPS: Final = '"gaps":[]'
"""How an entry says that nothing was lost."""
_WORD: Final = pa.dictionary(pa.int32(), pa.string())
_ABOUT: Final = [("version", pa.int32()), ("committed_ms", pa.int64())]
_PLACE: Final = [("topic", _WORD), ("partition", pa.int32())]
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "entries": pa.schema([
        *_ABOUT, ("epoch", pa.int32()), ("kind", _WORD), ("driver", _WORD), ("read", pa.int64()), ("written", pa.int64()),
        ("dead_letters", pa.int64()), ("skipped", pa.int64()), ("files", pa.int32()), ("bytes", pa.int64()), ("note", pa.string()),
    ]),
    "files": pa.schema([
        *_ABOUT, *_PLACE, ("first_offset", pa.int64()), ("last_offset", pa.int64()), ("records", pa.int64()), ("bytes", pa.int64()),
        ("min_ms", pa.int64()), ("max_ms", pa.int64()), ("encoded", _WORD), ("schema", _WORD), ("format", _WORD), ("reason", _WORD),
        ("role", _WORD), ("counted", pa.bool_()), ("parts", pa.int32()), ("folder", _WORD), ("name", pa.string()),
    ]),
    "counts": pa.schema([*_ABOUT, *_PLACE, ("stage", _WORD), ("count", pa.int64())]),
    "gaps": pa.schema([*_ABOUT, *_PLACE, ("first", pa.int64()), ("last", pa.int64()), ("cause", _WORD)]),
    "rewrites": pa.schema([
        *_ABOUT, *_PLACE, ("reason", _WORD), ("before", pa.int64()), ("bytes_before", pa.int64()), ("after", pa.int64()),
        ("bytes_after", pa.int64()), ("erased", pa.int64()),
    ]),
    "swaps": pa.schema([*_ABOUT, *_PLACE, ("folder", _WORD), ("name", pa.string())]),
}  # fmt: skip


Reach = Mapping[tuple[str, int], tuple[int, int]]
"""Per topic and partition the latest time of a record in an object, and of a commit."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """The tables of the entries with versions `first` to `last`, both included."""

    first: int
    last: int
    tables: Mapping[str, pa.Table]

    def __len__(self) -> int:
        """How many entries."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Frames:
    """The tables as pandas frames in the order of the log; words are categories.

    Each of the `swaps` has the `role`, the `records` and the `bytes` of the object that was replaced; -1 where its entry is not read.
    """

    entries: pd.DataFrame
    files: pd.DataFrame
    counts: pd.DataFrame
    gaps: pd.DataFrame
    rewrites: pd.DataFrame
    swaps: pd.DataFrame


Rows = Mapping[str, list[tuple[Any, ...]]]
"""Rows of each table."""


@dataclass(frozen=True, slots=True)
class EntryRows:
    """What one entry adds to the tables."""

    version: int
    rows: Rows


def read_rows(content: bytes, *, key: str) -> EntryRows:
    """The rows of an entry from its stored form. Raises LogDamaged as `read_entry`.

    Of a plain entry they are taken from the document as it is, which costs a third of making an entry of it first.
    """
    rows: Rows = {name: [] for name in SCHEMAS}
    try:
        document = json.loads(content)
        if _is_plain(document):
            _add_plain(document, rows)
            return EntryRows(document["version"], rows)
    except (ValueError, KeyError, TypeError, AttributeError):
        rows = {name: [] for name in SCHEMAS}
    entry = read_entry(content, key=key)
    _add(entry, rows)
    return EntryRows(entry.version, rows)


def part_of(entries: Iterable[CommitEntry], *, first: int, last: int) -> LogPart:
    """The tables of some entries."""
    rows: Rows = {name: [] for name in SCHEMAS}
    for entry in entries:
        _add(entry, rows)
    return _part(rows, first, last)


def part_of_rows(entries: Sequence[EntryRows]) -> LogPart:
    """The tables of entries that follow one another."""
    rows = {name: [row for entry in entries for row in entry.rows[name]] for name in SCHEMAS}
    return _part(rows, entries[0].version, entries[-1].version)


def _part(rows: Rows, first: int, last: int) -> LogPart:
    return LogPart(first, last, {name: _table(SCHEMAS[name], found) for name, found in rows.items()})


def part_of_tables(tables: Tables, *, first: int, last: int) -> LogPart:
    """The same of a stretch that is there as tables: only entries that settle, skip or lose something are looked at one by one."""
    about = tables[ENTRIES]
    rows: Rows = {name: [] for name in SCHEMAS}
    quiet = pc.and_(pc.equal(about["dead_letters"], 0), pc.equal(about["skipped"], 0))
    quiet = pc.and_(quiet, pc.match_substring(about["document"], NO_GAPS))
    for document in about.filter(pc.invert(quiet))["document"].to_pylist():
        _add_counts(read_entry(document.encode(), key="of the tables"), rows)
    files = _file_rows(tables)
    rewritten = about.filter(pc.equal(about["kind"], str(EntryKind.REWRITE)))["version"].combine_chunks()
    if len(rewritten):
        counts = pc.and_(files["counted"], pc.invert(pc.is_in(files["version"], rewritten.cast(pa.int32()))))
        files = files.set_column(files.column_names.index("counted"), "counted", counts)
        for entry in entries_of(
            {name: one.filter(pc.is_in(one["version"], rewritten)) for name, one in tables.items()}
        ):
            _add_rewrites(entry, rows)
    made = {name: _table(SCHEMAS[name], rows[name]) for name in ("counts", "gaps", "rewrites", "swaps")}
    return LogPart(first, last, {"entries": _entry_rows(about), "files": files, **made})


def joined(parts: Sequence[LogPart]) -> list[LogPart]:
    """The parts in order, neighbours made one."""
    runs = neighbours(sorted(parts, key=lambda part: part.first), lambda part: (part.first, part.last))
    return [run[0] if len(run) == 1 else _one(run) for run in runs]


def neighbours(found: Iterable[T], span: Callable[[T], tuple[int, int]]) -> list[list[T]]:
    """What comes in order, in runs without a version missing; `span` tells the first and the last version of each."""
    runs: list[list[T]] = []
    for one in found:
        if runs and span(runs[-1][-1])[1] + 1 == span(one)[0]:
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def cut(part: LogPart, *, first: int, last: int) -> LogPart:
    """The part's entries from `first` to `last`, both included."""
    tables = {}
    for name, table in part.tables.items():
        begin, end = table.column("version").to_numpy().searchsorted([first, last + 1])
        tables[name] = table.slice(int(begin), int(end - begin))
    return LogPart(first, last, tables)


def frames_of(parts: Sequence[LogPart]) -> Frames:
    """The frames of parts that are in order."""
    whole = parts[0] if len(parts) == 1 else _one(parts) if parts else part_of((), first=0, last=-1)
    return Frames(**{name: _frame(table) for name, table in _with_live(whole.tables).items()})


def _with_live(tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    """The tables with what was replaced: files know whether they are `live`, swaps what the object was that is gone."""
    files, swaps = tables["files"], tables["swaps"]
    live = np.ones(len(files), bool)
    folders = pc.unique(swaps["folder"].cast(pa.string()))
    near = pc.is_in(files["folder"].cast(pa.string()), folders) if len(swaps) else pa.array([], pa.bool_())
    rows = pc.indices_nonzero(near)
    candidates = files.take(rows)
    keys, replaced = _keys(candidates), _keys(swaps)
    later = pc.greater(swaps["version"].take(pc.index_in(keys, replaced)), candidates["version"])
    live[np.asarray(rows)[np.asarray(pc.fill_null(later, fill_value=False))]] = False
    gone = candidates.select(["role", "records", "bytes"]).take(pc.index_in(replaced, keys))
    swaps = swaps.append_column("role", gone["role"].cast(pa.string()))
    for name in ("records", "bytes"):
        swaps = swaps.append_column(name, pc.fill_null(gone[name], -1))
    return {**tables, "files": files.append_column("live", pa.array(live)), "swaps": swaps}


def _keys(rows: pa.Table) -> pa.Array:
    found = pc.binary_join_element_wise(rows["folder"].cast(pa.string()), rows["name"], "")
    return pa.chunked_array([found]).combine_chunks() if isinstance(found, pa.Array) else found.combine_chunks()


def data_files(files: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The objects of records' values as they were written, not those that were made from others.

    Only these columns, if any are named: half a million files are copied column by column.
    """
    return taken(files, (files["role"] == Role.VALUE).to_numpy() & ~made_from_others(files), columns)


def live_files(files: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The files of records that no other has replaced, those that were made from others among them."""
    values = files["counted"].to_numpy() | (made_from_others(files) & (files["role"] == Role.VALUE).to_numpy())
    return taken(files, files["live"].to_numpy() & values, columns)


def made_from_others(files: pd.DataFrame) -> Numbers:
    """Which of the files a compaction or an erasure made."""
    made = files["reason"].cat.categories.isin(REWRITTEN)
    return made[files["reason"].cat.codes.to_numpy()] if made.any() else np.zeros(len(files), bool)


def counted_files(files: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The files that every number of files counts: those of values, and those of keys where all values are null (`model.files.counted`)."""
    return taken(files, files["counted"].to_numpy(), columns)


def taken(frame: pd.DataFrame, rows: Numbers, columns: Sequence[str] = ()) -> pd.DataFrame:
    """The rows of a mask, numbered again, with these columns, if any are named.

    Column by column, and only what is wanted: pandas copies all rows of the columns first, and takes then.
    """
    if rows.all():
        made = {name: frame[name].array for name in columns or frame}
    else:
        places = rows.nonzero()[0]
        made = {name: frame[name].array.take(places) for name in columns or frame}
    return pd.DataFrame(made, copy=False)


def reach(files: pd.DataFrame) -> Reach:
    """How far the objects of each topic-partition reach."""
    rows = counted_files(files, "topic", "partition", "max_ms", "committed_ms")
    groups = groups_by(rows["topic"], rows["partition"])
    places = rows.iloc[groups.first]
    ends = zip(groups.highest(rows["max_ms"]), groups.highest(rows["committed_ms"]), strict=True)
    return {
        (str(topic), int(partition)): (int(last), int(committed))
        for topic, partition, (last, committed) in zip(places["topic"], places["partition"], ends, strict=True)
    }


def _one(parts: Sequence[LogPart]) -> LogPart:
    tables = {
        name: pa.concat_tables([part.tables[name] for part in parts]).unify_dictionaries().combine_chunks()
        for name in SCHEMAS
    }
    return LogPart(parts[0].first, parts[-1].last, tables)


def _frame(table: pa.Table) -> pd.DataFrame:
    """Shares the memory of the numbers; texts stay in Arrow's form, a fifth of Python's."""
    texts = {pa.string(): pd.ArrowDtype(pa.string())}
    frame: pd.DataFrame = table.to_pandas(split_blocks=True, types_mapper=texts.get)
    return frame


def _table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(values, pa.string()).dictionary_encode() if field.type == _WORD else pa.array(values, field.type)
        for field, values in zip(schema, columns, strict=True)
    ]
    return pa.table(arrays, schema=schema)


PLAIN_FORMATS: Final = (PLAIN_FORMAT, WAITING_FORMAT)
PLAIN_KINDS: Final = frozenset({str(EntryKind.DATA), str(EntryKind.EPOCH)})
PLAIN_ROLES: Final = frozenset({str(Role.VALUE), str(Role.DEAD_LETTER)})
"""Where all files are of these, each one of values counts."""
_VALUE: Final = str(Role.VALUE)
_REASONS: Final = frozenset(map(str, Reason))
_FILE: Final = itemgetter(
    "topic", "partition", "first_offset", "last_offset", "records", "bytes", "min_timestamp", "max_timestamp", "encoded_partition",
    "schema", "format", "reason", "role", "key", "upload",
)  # fmt: skip


def _is_plain(document: dict[str, Any]) -> bool:
    """Whether an entry says no more than which files it has, what became a dead letter, what was skipped, and what is lost."""
    return (
        document["format"] in PLAIN_FORMATS
        and document["kind"] in PLAIN_KINDS
        and all(file["role"] in PLAIN_ROLES and file["reason"] in _REASONS for file in document["files"])
    )


def _add_plain(document: dict[str, Any], rows: Rows) -> None:
    """As `_add`."""
    about, totals = (document["version"], iso_ms(document["committed_at"])), document["totals"]
    rows["entries"].append((
        *about, document["epoch"], document["kind"], document.get("driver", ""), totals["read"], totals["written"],
        totals["dead_letters"], totals["skipped"], totals["files"], totals["bytes"], "",
    ))  # fmt: skip
    add = rows["files"].append
    for file in document["files"]:
        found = _FILE(file)
        least, most, *words, role, key, upload = found[6:]
        name_at = key.rfind("/") + 1
        add((
            *about, *found[:6], NO_TIME if least is None else least, NO_TIME if most is None else most, *words, role, role == _VALUE,
            len(upload["parts"]), key[:name_at], key[name_at:],
        ))  # fmt: skip
    counts, gaps = rows["counts"], rows["gaps"]
    for place, found in document["dead_letters"].items():
        counts.extend((*about, *parse_name(place), stage, count) for stage, count in found["stages"].items())
    counts.extend((*about, *parse_name(place), SKIPPED, count) for place, count in document["skipped"].items() if count)
    gaps.extend(
        (*about, gap["topic"], gap["partition"], gap["from"], gap["to"], gap["cause"]) for gap in document["gaps"]
    )


def _add(entry: CommitEntry, rows: Rows) -> None:
    about, totals = (entry.version, committed_ms(entry)), entry.totals
    rows["entries"].append((
        *about, entry.epoch, str(entry.kind), entry.driver, totals.read, totals.written, totals.dead_letters, totals.skipped,
        totals.files, totals.bytes, _note(entry),
    ))  # fmt: skip
    own = () if entry.kind is EntryKind.REWRITE else entry.files  # objects in the place of others hold no other records
    files_of_records = {file.key for file in counted(own)}
    for file in entry.files:
        folder, slash, name = file.key.rpartition("/")
        rows["files"].append((
            *about, file.topic, file.partition, file.first_offset, file.last_offset, file.records, file.bytes,
            _time(file.min_timestamp), _time(file.max_timestamp), file.encoded_partition, file.schema, file.format,
            str(file.reason), str(file.role), file.key in files_of_records, len(file.upload.parts), folder + slash, name,
        ))  # fmt: skip
    _add_counts(entry, rows)
    _add_rewrites(entry, rows)


def _add_rewrites(entry: CommitEntry, rows: Rows) -> None:
    """What an entry puts in the place of what, sidecars and dead letter files among it, and how many records are gone."""
    about, made = (entry.version, committed_ms(entry)), {file.key: file.bytes for file in entry.files}
    for swap in entry.swaps:
        size = made.get(swap.by, 0)
        rows["rewrites"].append(
            (*about, *swap.topic_partition, entry.reason, len(swap.keys), swap.bytes, int(bool(swap.by)), size, 0)
        )
        for folder, slash, name in (key.rpartition("/") for key in swap.keys):
            rows["swaps"].append((*about, *swap.topic_partition, folder + slash, name))
    for counts in (entry.erasure.records, entry.erasure.letters) if entry.erasure is not None else ():
        rows["rewrites"].extend((*about, *tp, entry.reason, 0, 0, 0, 0, count) for tp, count in counts.items())


def _add_counts(entry: CommitEntry, rows: Rows) -> None:
    """What an entry counts beside its files: dead letters by stage, skipped records, gaps."""
    about = (entry.version, committed_ms(entry))
    for tp, found in entry.dead_letters.items():
        rows["counts"].extend((*about, *tp, stage, count) for stage, count in found.stages.items())
    rows["counts"].extend((*about, *tp, SKIPPED, count) for tp, count in entry.skipped.items() if count)
    rows["gaps"].extend((*about, gap.topic, gap.partition, gap.first, gap.last, gap.cause) for gap in entry.gaps)


def _entry_rows(about: pa.Table) -> pa.Table:
    settling = pc.is_in(
        about["kind"], pa.array([str(EntryKind.POSITION), str(EntryKind.REPLAY), str(EntryKind.REWRITE)])
    )
    notes = [""] * len(about)
    for row in pc.indices_nonzero(settling).to_pylist():
        notes[row] = _note(read_entry(about["document"][row].as_py().encode(), key="of the tables"))
    columns = {name: about[name] for name in SCHEMAS["entries"].names if name in about.column_names}
    times = {"committed_ms": about["committed_at"].cast(pa.int64())}
    return _shaped({**columns, **times, "note": pa.array(notes, pa.string())}, "entries")


def _file_rows(tables: Tables) -> pa.Table:
    files, letters = tables[FILES], tables[DEAD_LETTER_FILES]
    if len(letters):
        letters = letters.append_column("counted", pa.repeat(False, len(letters)))
        files = pa.concat_tables([files, letters.select(files.column_names)]).sort_by(
            [("version", "ascending"), ("number", "ascending")]
        )
    times = {
        "committed_ms": files["committed_at"].cast(pa.int64()),
        "min_ms": pc.fill_null(files["min_timestamp"].cast(pa.int64()), NO_TIME),
        "max_ms": pc.fill_null(files["max_timestamp"].cast(pa.int64()), NO_TIME),
    }
    names = {
        "encoded": files["encoded_partition"],
        "parts": pc.list_value_length(files["parts"]),
        "folder": pc.replace_substring_regex(files["key"], "[^/]*$", ""),
        "name": pc.replace_substring_regex(files["key"], "(?s)^.*/", ""),
    }
    columns = {name: files[name] for name in SCHEMAS["files"].names if name in files.column_names}
    return _shaped({**columns, **times, **names}, "files")


def _shaped(columns: Mapping[str, Any], name: str) -> pa.Table:
    """The columns in the order and the types of a table."""
    schema = SCHEMAS[name]
    found = [
        columns[field.name].dictionary_encode() if field.type == _WORD else columns[field.name].cast(field.type)
        for field in schema
    ]
    return pa.table(found, schema=schema)


def _time(ms: int | None) -> int:
    return NO_TIME if ms is None else ms


def _note(entry: CommitEntry) -> str:
    """What settles or erases dead letters, as the log has it without its files; blank for the entries that do not."""
    if entry.kind not in (EntryKind.POSITION, EntryKind.REPLAY) and not entry.erased:
        return ""
    return replace(entry, files=(), swaps=()).to_json().decode()
