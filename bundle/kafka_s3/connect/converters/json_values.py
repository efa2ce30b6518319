"""How are JSON values decoded? Without a schema, under one that the user gives, or in an envelope that holds it.

- `JsonValues`: text passes through, checked; the fields that are wanted become columns. A compiled loop checks a whole batch
  (`json_loops`); Python's parser decides over the few documents that it does not let pass (`parse_documents`).
- `JsonTables`: all fields are needed. `pyarrow.json` parses a whole batch; where that fails, the batch is halved until the offending
  records are alone in small pieces, which are parsed one by one.
- `JsonColumns`: a schema that the user gives (`value.schema`), straight into Arrow columns; our extension. A record that does not fit
  (a wrong type, a required field that is missing) is a failure of that record. Fields that the schema does not name are left out.
- `JsonEnvelope`: `schemas.enable=true`, one by one, for each record carries its own schema.

What the original's parser takes, we take: trailing text after the document is ignored, the last of two members of one name wins, `null`
and empty bytes are null values (SEMANTICS A7, A9.2).
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kafka_s3.connect.converters.converter import DecodedEach, KafkaBatch, decode_each, without_tombstones
from kafka_s3.connect.records.joining import joined
from kafka_s3.connect.records.runs import Decoded, Run
from kafka_s3.connect.records.values import JsonText, Longs, Objects, StructColumns, Values
from kafka_s3.connect.schemas.arrow import arrow_table, arrow_type, infer_table, plain_strings
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError, SchemaType, read_schema
from kafka_s3.connect.schemas.expansion import Allowance, width
from kafka_s3.connect.schemas.json_form import dumps, from_json
from kafka_s3.model.dead_letters import DATA_EXCEPTION, Failure, Stage

DEEP = 200
DEPTH_STEPS = np.zeros(256, np.int8)
DEPTH_STEPS[[ord("{"), ord("[")]], DEPTH_STEPS[[ord("}"), ord("]")]] = 1, -1
DEEPEST = 300
"""Levels of nesting that all readers of our objects take: Python's parser stops at some 900, what calls itself for each level earlier."""
STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
MOST_DIGITS = 4300
SPACE = " \t\r\n"
STRING_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*+")|[ \t\r\n]+')
JAVA_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True, slots=True)
class ParsedDocuments:
    """`values` and `texts` (on one line each) of the documents at the positions `rows`, ascending; offsets of nulls; what is not JSON."""

    rows: Longs
    values: list[Any]
    texts: pa.Array
    failures: list[Failure]
    nulls: list[int]


def parse_documents(batch: KafkaBatch, rows: Longs | None = None, *, for_columns: bool = False) -> ParsedDocuments:
    """The records at these positions, or all, one by one; `for_columns` fails what Arrow cannot hold."""

    def document(raw: bytes) -> tuple[tuple[Any, bytes] | None, int]:
        value, text = parse_document(raw)
        if for_columns:
            check_for_columns(value, text)
        return None if value is None else (value, text), 0

    parsed = batch if rows is None else batch.take(rows)
    found = decode_each(parsed.values, document)
    values, texts = [value for value, _ in found.items], [text for _, text in found.items]
    return ParsedDocuments(
        found.rows if rows is None else rows[found.rows],
        values,
        pa.array(texts, batch.values.type),
        json_failures(parsed, found),
        parsed.offsets[found.nulls].tolist(),
    )


def parse_document(raw: bytes) -> tuple[Any, bytes]:
    """The first JSON document in the bytes and its text on one line; None for empty bytes. Raises ValueError with the place.

    A document that is nested too deeply for its readers is refused, too.
    """
    text = raw.decode("utf-8-sig").strip(SPACE)
    if not text:
        return None, b""
    value, end = DECODER.raw_decode(text)
    if text[end - 1] not in '}]"' and text[end : end + 1].strip(SPACE):
        raise ValueError(f"{text[end]!r} after the document, at char {end}")
    document = text[:end]
    if "\n" in document or "\r" in document:
        document = STRING_OR_SPACE.sub(lambda found: found[1] or "", document)
    content = document.encode()
    if _is_deeper(content, DEEPEST):
        raise ValueError(f"nested more than {DEEPEST} levels deep")
    return value, content


def check_for_columns(value: Any, text: bytes) -> None:
    """Raises ValueError where Arrow cannot hold the value: half a surrogate pair, or nesting beyond all reason."""
    if b"\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    if _is_deeper(text, DEEP - 1):
        raise ValueError(f"nested more than {DEEP - 1} levels deep")


def _is_deeper(text: bytes, levels: int) -> bool:
    opened = text.count(b"{") + text.count(b"[")
    return opened > levels and depth(text) > levels and depth(STRING.sub(b"", text)) > levels


def json_failures(batch: KafkaBatch, found: DecodedEach) -> list[Failure]:
    """The failures of values that are not JSON."""
    message = "Converting byte[] to Kafka Connect data failed due to serialization error: "
    return [
        Failure(int(batch.offsets[row]), Stage.VALUE_CONVERTER, JAVA_CONVERTER, DATA_EXCEPTION, message + reason)
        for row, reason in found.failures
    ]


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON value")


def _whole(digits: str) -> int:
    """Whole numbers have a limit, as in the original's parser: beyond it reading them takes time that grows with the square."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a whole number of {len(digits)} digits, of which {MOST_DIGITS} are read at most")
    return int(digits)


DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=_whole)


def depth(text: bytes) -> int:
    """How deeply brackets are nested; those inside strings count, too."""
    steps = DEPTH_STEPS[np.frombuffer(text, np.uint8)]
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))


if TYPE_CHECKING:
    from kafka_s3.connect.converters.json_loops import Members

ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)

MOST_CHARACTERS: Final = 16 << 20
"""Texts of schemas that are kept; where each record brings another one, all are forgotten now and then."""


class JsonEnvelope:
    """The JSON converter with `schemas.enable=true`."""

    def __init__(self) -> None:
        self._schemas: dict[str, ConnectSchema] = {}
        self._characters = 0

    def decode(self, batch: KafkaBatch) -> Decoded:
        """Runs of records of one schema; a null schema gives schemaless values, a null payload a null value."""
        batch, nulls = without_tombstones(batch)
        found = decode_each(batch.values, self._value)
        nulls = sorted(nulls + batch.offsets[found.nulls].tolist())
        return Decoded(_envelope_runs(batch, found), json_failures(batch, found), nulls)

    def _kept(self, text: str, schema: ConnectSchema) -> ConnectSchema:
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            self._schemas, self._characters = {}, len(text)
        self._schemas[text] = schema
        return schema

    def _value(self, raw: bytes) -> tuple[tuple[Any, ConnectSchema | None] | None, int]:
        envelope, _ = parse_document(raw)
        if envelope is None:
            return None, 0
        if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
            raise SchemaError(ENVELOPE)
        payload, schema, allowance = envelope["payload"], None, Allowance(len(raw))
        if envelope["schema"] is not None:
            text = json.dumps(envelope["schema"], sort_keys=True)
            schema = self._schemas.get(text) or self._kept(text, read_schema(envelope["schema"]))
            if payload is not None or not schema.optional or schema.default is not None:
                payload = from_json(payload, schema, allowance=allowance)
        return None if payload is None else (payload, schema), allowance.spent


def _envelope_runs(batch: KafkaBatch, found: DecodedEach) -> list[Run]:
    runs, start = [], 0
    for schema, group in groupby(found.items, key=itemgetter(1)):
        items = [item for item, _ in group]
        records = batch.take(found.rows[start : start + len(items)])
        if schema is None:
            texts = pa.array([dumps(item).encode() for item in items], pa.binary())
            runs.append(records.run(JsonText(texts, None), None))
        else:
            runs.append(records.run(Objects(items), schema))
        start += len(items)
    return runs


ONE_BY_ONE = 64
NEWLINE, RETURN = b"\n\r"
TOP_LEVEL_NULL = re.compile(rb"\}[ \t]*null")
INFINITY = re.compile(rb"[:,\[][ \t]*-?Inf")
ENDLESS = re.compile(rb"[0-9]{%d}" % (MOST_DIGITS + 1))
GUESSES = (pa.int64(), pa.string(), pa.float64())
FRACTIONS = 2
Parse = Callable[[pa.Buffer], pa.Table]


class JsonValues:
    """The JSON converter with `schemas.enable=false`.

    `fields` are the paths that later steps look at (timestamp and partition fields); they are parsed on the way.
    """

    def __init__(self, fields: Iterable[tuple[str, ...]] = ()) -> None:
        self._fields = sorted({path for path in fields if path})
        self._names = [path[0] for path in self._fields if len(path) == 1]
        self._guesses = dict.fromkeys(self._fields, 0)

    def decode(self, batch: KafkaBatch) -> Decoded:
        """JSON text, checked; the wanted fields in columns where they have one type throughout the batch."""
        from kafka_s3.connect.converters.json_loops import Members  # here: the driver need not load and compile it

        batch, nulls = without_tombstones(batch)
        if not len(batch):
            return Decoded(nulls=nulls)
        found = Members(batch.values, self._names)
        if not found.refused:
            return Decoded([batch.run(JsonText(batch.values, self._table(batch.values, found)), None)], nulls=nulls)
        parsed = parse_documents(batch, np.flatnonzero(~found.passed))
        batch = _with_texts(batch, parsed, np.flatnonzero(found.passed))
        nulls = sorted(nulls + parsed.nulls)
        if not len(batch):
            return Decoded([], parsed.failures, nulls)
        again = Members(batch.values, self._names)
        table = None if again.refused else self._table(batch.values, again)
        return Decoded([batch.run(JsonText(batch.values, table), None)], parsed.failures, nulls)

    def _table(self, documents: pa.Array, found: Members) -> pa.Table | None:
        """The wanted fields of documents that have all passed; None where there are none, or where they are of several types."""
        if not self._fields:
            return None
        columns = [found.any_column(number) for number in range(len(self._names))]
        if len(columns) == len(self._fields) and all(column is not None for column in columns):
            return pa.Table.from_arrays(columns, self._names)
        with contextlib.suppress(pa.ArrowInvalid):
            return self._parse(pa.py_buffer(joined(documents, b"\n")))
        return None

    def _parse(self, text: pa.Buffer) -> pa.Table:
        guesses = dict(self._guesses)
        for _ in range(len(GUESSES) * len(guesses) + 1):
            try:
                table = _read(text, pa.schema(_wanted(guesses)), others="ignore")
            except pa.ArrowInvalid as error:
                wrong = _wrongly_guessed(guesses, self._guesses, str(error))
                if wrong is None:
                    raise
                guesses[wrong] += 1
            else:
                fractions = [path for path in guesses if guesses[path] % len(GUESSES) == FRACTIONS]
                whole = [path for path in fractions if _has_whole(table, path)]
                if whole:  # integers that keep their own type, or whole numbers beside fractions: then this fails
                    guesses |= dict.fromkeys(whole, 0)
                    table = _read(text, pa.schema(_wanted(guesses)), others="ignore")
                self._guesses = {path: guess % len(GUESSES) for path, guess in guesses.items()}
                return table
        raise pa.ArrowInvalid("the wanted fields have more than one type")


class JsonTables:
    """The JSON converter with `schemas.enable=false` where every field is needed, for Parquet with an inferred schema."""

    def __init__(self) -> None:
        self._known = pa.schema([])

    def decode(self, batch: KafkaBatch) -> Decoded:
        """JSON text and a table of all its fields; text that looks like a time stays text."""
        batch, nulls = without_tombstones(batch)
        decoded = _in_pieces(batch, self._whole, _inferred) if len(batch) else Decoded()
        return Decoded(decoded.runs, decoded.failures, sorted(nulls + decoded.nulls))

    def _whole(self, batch: KafkaBatch) -> Decoded | None:
        text = _lines(batch.values)
        if text is not None:
            with contextlib.suppress(pa.ArrowInvalid):
                table = self._parse(text)
                if table.num_rows == len(batch):
                    return Decoded([batch.run(JsonText(batch.values, table), None)])
        return None

    def _parse(self, text: pa.Buffer) -> pa.Table:
        try:
            table = _read(text, self._known, others="infer")
        except pa.ArrowInvalid:
            if not len(self._known):
                raise
            table = _read(text, pa.schema([]), others="infer")
        strings = plain_strings(table.schema)
        if (
            strings != table.schema
        ):  # Arrow's reader takes text like 2024-01-15 for a time: remember the field, read again
            self._known = strings
            table = _read(text, strings, others="infer")
        return table


def _with_texts(batch: KafkaBatch, parsed: ParsedDocuments, passed: Longs) -> KafkaBatch:
    """The records that passed and those that were parsed to be documents, in their order; the latter with the text that is written."""
    rows_of_texts = np.arange(len(batch))
    rows_of_texts[parsed.rows] = len(batch) + np.arange(len(parsed.rows))
    texts = pa.concat_arrays([batch.values, parsed.texts]).take(pa.array(rows_of_texts))
    return replace(batch, values=texts).take(np.union1d(passed, parsed.rows))


def read_known(values: pa.Array, schema: pa.Schema) -> pa.Table | None:
    """The fields of a schema of every document; None where a document is malformed or does not fit."""
    text = _lines(values)
    if text is None:
        return None
    try:
        table = _read(text, schema, others="ignore")
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == len(values) else None


Whole: TypeAlias = Callable[[KafkaBatch], Decoded | None]


def _in_pieces(batch: KafkaBatch, whole: Whole, one_by_one: Callable[[KafkaBatch], Decoded]) -> Decoded:
    """What `_by_halves` makes of a batch; pieces with equal columns, which a bad record cut apart, are one run again."""
    decoded = _by_halves(batch, whole, one_by_one)
    if len(decoded.runs) < 2:
        return decoded
    found = list[Run]()
    for columns, some in groupby(decoded.runs, key=lambda run: _table_of(run).schema):
        runs = list(some)
        # tables without columns lose their number of rows when joined
        found += [_rejoined(runs)] if len(columns) else runs
    return replace(decoded, runs=found)


def _rejoined(runs: list[Run]) -> Run:
    table = pa.concat_tables([_table_of(run) for run in runs]).combine_chunks()
    texts = [run.values.texts for run in runs if isinstance(run.values, JsonText)]
    values: Values = JsonText(pa.concat_arrays(texts), table) if texts else StructColumns(table)
    offsets, times = (
        np.concatenate(columns) for columns in zip(*((run.offsets, run.timestamps) for run in runs), strict=True)
    )
    return Run(offsets, times, values, runs[0].schema)


def _table_of(run: Run) -> pa.Table:
    assert isinstance(run.values, JsonText | StructColumns)
    return run.values.table


def _by_halves(batch: KafkaBatch, whole: Whole, one_by_one: Callable[[KafkaBatch], Decoded]) -> Decoded:
    """What `whole` makes of a batch; where it makes nothing of it, the batch is halved, until few records are parsed one by one."""
    decoded = whole(batch)
    if decoded is not None:
        return decoded
    if len(batch) <= ONE_BY_ONE:
        return one_by_one(batch)
    middle = len(batch) // 2
    halves = (batch.slice(0, middle), batch.slice(middle, len(batch)))
    one, other = (_by_halves(half, whole, one_by_one) for half in halves)
    return Decoded(one.runs + other.runs, one.failures + other.failures, one.nulls + other.nulls)


def _lines(values: pa.Array) -> pa.Buffer | None:
    """The documents joined by newlines; None where Arrow's parser must not see them (see `_unsafe`), or a line break is inside."""
    if not pc.all(pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}"))).as_py():
        return None  # a document without its end might be completed by the next one
    longest = pc.max(pc.binary_length(values)).as_py()
    if (longest >= DEEP and _deep(values)) or (longest > MOST_DIGITS and _has_endless_number(values)):
        return None
    text = pa.py_buffer(joined(values, b"\n"))
    codes = np.frombuffer(text, np.uint8)
    if np.count_nonzero(codes == NEWLINE) != len(values) or np.any(codes == RETURN) or _unsafe(codes):
        return None
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    return text


def _deep(values: pa.Array) -> bool:
    """Whether a document may be nested so deeply that Python's parser would refuse it: then that one decides, whatever the batch."""
    opened = pc.add(pc.count_substring(values, b"{"), pc.count_substring(values, b"["))
    suspects = values.filter(pc.greater_equal(opened, DEEP)).to_pylist()
    return any(depth(text) >= DEEP for text in suspects)


def _has_endless_number(values: pa.Array) -> bool:
    """Whether a document may hold a number that Python's parser refuses, and Arrow's does not: then that one decides."""
    suspects = values.filter(pc.greater(pc.binary_length(values), MOST_DIGITS)).to_pylist()
    return any(ENDLESS.search(text) is not None for text in suspects)


def _unsafe(codes: npt.NDArray[np.uint8]) -> bool:
    """Whether Arrow's reader would crash (a top-level null, seen with pyarrow 26) or take what is not JSON (NaN, Infinity).

    The searches in text take a quarter as long as the parser, so two bytes decide first whether there is anything to search for.
    """
    if _followed(codes, b"N", b"a") and b"NaN" in codes.tobytes():
        return True
    if _followed(codes, b"I", b"n") and INFINITY.search(codes.data) is not None:
        return True
    return _followed(codes, b"}", b"n \t") and TOP_LEVEL_NULL.search(codes.data) is not None


def _followed(codes: npt.NDArray[np.uint8], first: bytes, others: bytes) -> bool:
    """Whether the byte `first` is anywhere followed by one of the others."""
    after = codes[1:][codes[:-1] == first[0]]
    return any(bool(np.any(after == other)) for other in others)


def _read(text: pa.Buffer, schema: pa.Schema, *, others: str) -> pa.Table:
    options = pj.ReadOptions(use_threads=False, block_size=max(text.size + 1, 2))
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)
    return pj.read_json(pa.BufferReader(text), read_options=options, parse_options=parsing)


def _inferred(batch: KafkaBatch) -> Decoded:
    parsed = parse_documents(batch, for_columns=True)
    if not len(parsed.rows):
        return Decoded([], parsed.failures, parsed.nulls)
    values = JsonText(parsed.texts, infer_table(parsed.values))
    return Decoded([batch.take(parsed.rows).run(values, None)], parsed.failures, parsed.nulls)


def _has_whole(table: pa.Table, path: tuple[str, ...]) -> bool:
    """Whether a column of fractions holds a number without one: its text may have been that of an integer."""
    column = table.column(path[0]).combine_chunks()
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return bool(pc.any(pc.equal(column, pc.floor(column))).as_py())


def _wanted(guesses: Mapping[tuple[str, ...], int]) -> list[pa.Field]:
    top: dict[str, pa.DataType] = {}
    for path, guess in guesses.items():
        kind = GUESSES[guess % len(GUESSES)]
        for name in reversed(path[1:]):
            kind = pa.struct([pa.field(name, kind)])
        top[path[0]] = _united(top.get(path[0]), kind)
    return [pa.field(name, kind) for name, kind in top.items()]


def _wrongly_guessed(
    guesses: Mapping[tuple[str, ...], int], initial: Mapping[tuple[str, ...], int], error: str
) -> tuple[str, ...] | None:
    """The path whose guessed type the error is about, as far as the error names it; None once all types were tried."""
    named = [path for path in guesses if f"Column(/{'/'.join(path)})" in error]
    converted = [path for path in guesses if f"to {GUESSES[guesses[path] % len(GUESSES)]}, couldn't parse" in error]
    return next((path for path in named or converted if guesses[path] - initial[path] < len(GUESSES) - 1), None)


def _united(known: pa.DataType | None, new: pa.DataType) -> pa.DataType:
    if known is None or not (pa.types.is_struct(known) and pa.types.is_struct(new)):
        return new if known is None or pa.types.is_struct(new) else known
    fields = {field.name: field.type for field in known}
    for field in new:
        fields[field.name] = _united(fields.get(field.name), field.type)
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


AS_THEY_ARE = frozenset(
    {SchemaType.INT32, SchemaType.INT64, SchemaType.FLOAT32, SchemaType.FLOAT64, SchemaType.BOOLEAN, SchemaType.STRING}
)


class JsonColumns:
    """The JSON converter with `schemas.enable=false` and a schema of ours."""

    def __init__(self, schema: ConnectSchema) -> None:
        self._schema, self._width = schema, width(schema)
        plain = all(field.schema.kind in AS_THEY_ARE and field.schema.name is None for field in schema.fields)
        simple = plain and all(field.schema.default is None for field in schema.fields)
        self._arrow = pa.schema([(field.name, arrow_type(field.schema)) for field in schema.fields]) if simple else None
        self._required = [field.name for field in schema.fields if not field.schema.optional]
        self._empty = arrow_table([], schema).schema

    def decode(self, batch: KafkaBatch) -> Decoded:
        """Columns of the schema; flat schemas of plain types are read a whole batch at a time, others record by record."""
        batch, nulls = without_tombstones(batch)
        decoded = Decoded()
        if len(batch):
            decoded = (
                self._one_by_one(batch) if self._arrow is None else _in_pieces(batch, self._whole, self._one_by_one)
            )
        return Decoded(decoded.runs, decoded.failures, sorted(nulls + decoded.nulls))

    def _whole(self, batch: KafkaBatch) -> Decoded | None:
        table = self._read(batch.values, self._arrow)
        if table is None or any(table.column(name).null_count for name in self._required):
            return None
        return Decoded([batch.run(StructColumns(table.cast(self._empty)), self._schema)])

    def _read(self, values: pa.Array, schema: pa.Schema) -> pa.Table | None:
        """The columns of every document, None where one does not fit; Arrow's reader is asked where a text has escapes."""
        from kafka_s3.connect.converters.json_loops import Members  # here: the driver need not load and compile it

        found = Members(values, schema.names)
        columns = [] if found.refused else [found.column(number, field.type) for number, field in enumerate(schema)]
        if found.refused or any(column is None for column in columns):
            return read_known(values, schema)
        return pa.Table.from_arrays(columns, schema=schema)

    def _one_by_one(self, batch: KafkaBatch) -> Decoded:
        found = decode_each(batch.values, self._value)
        failures, nulls = json_failures(batch, found), batch.offsets[found.nulls].tolist()
        if not found.items:
            return Decoded([], failures, nulls)
        values = StructColumns(arrow_table(found.items, self._schema))
        return Decoded([batch.take(found.rows).run(values, self._schema)], failures, nulls)

    def _value(self, raw: bytes) -> tuple[Any, int]:
        document, text = parse_document(raw)
        check_for_columns(document, text)
        if document is None:
            return None, 0
        allowance = Allowance(len(raw))
        return from_json(document, self._schema, allowance=allowance), self._width + allowance.spent
