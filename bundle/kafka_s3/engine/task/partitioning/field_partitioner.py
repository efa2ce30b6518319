"""Into which directory does a record go by values that it holds? `name=value`, as SEMANTICS A4.2 has it for fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import MISSING, Longs
from kafka_s3.connect.schemas.connect import DATE, TIME, TIMESTAMP, ConnectSchema, SchemaType
from kafka_s3.connect.schemas.json_form import encodable
from kafka_s3.engine.task.partitioning.partitioners import Encoded, distinct
from kafka_s3.model.dead_letters import SINK_TASK, Failure, Stage
from kafka_s3.model.offsets import TopicPartition

PLAIN_TYPES = frozenset({pa.string(), pa.int64(), pa.int32(), pa.bool_(), pa.null()})
DATES = frozenset({DATE, TIME, TIMESTAMP})
INTEGERS = frozenset({SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64})


class Schemaless(StrEnum):
    """What a field partitioner does with schemaless values: refuse them as the original does, or look the field up in the map."""

    REFUSE = "refuse"
    LOOK_UP = "look up"


class DirectoryForm(StrEnum):
    """How a value becomes a directory."""

    NAMED = "name=value"
    BARE = "value"


class ValueDirectories:
    """Makes the directories of values that have names: `name=value`, joined by a delimiter; a value alone where `directories` says so."""

    def __init__(self, names: Sequence[str], delimiter: str, encoding: str, directories: DirectoryForm) -> None:
        self._names = names
        self._delimiter = delimiter
        self._named = directories is DirectoryForm.NAMED
        self._quote = (lambda text: quote(text, safe="")) if encoding == "percent" else str

    def encoded(self, columns: Sequence[Sequence[Any]]) -> Encoded:
        """The directories of records given by the texts of each name, of which any may be a failure instead."""
        codes = np.empty(len(columns[0]), np.int32)
        known: dict[tuple[str, ...], int] = {}
        failures = []
        for row, texts in enumerate(zip(*columns, strict=True)):
            bad = next((text for text in texts if isinstance(text, Failure)), None)
            if bad is not None:
                codes[row] = -1
                failures.append(bad)
            else:
                codes[row] = known.setdefault(texts, len(known))
        folders = map(self._folders, self._names, zip(*known, strict=True))
        return distinct(Encoded(codes, self._joined(folders), failures))

    def of_codes(self, fields: list[tuple[Longs, list[str]]]) -> Encoded:
        """The directories of fields whose texts are numbered: the numbers of a record's texts make one number, as digits do."""
        joint = fields[0][0]
        for codes, texts in fields[1:]:
            joint = joint * len(texts) + codes
        encoded = pc.dictionary_encode(pa.array(joint))
        numbers, columns = encoded.dictionary.to_numpy(), []
        for name, (_, texts) in reversed([*zip(self._names, fields, strict=True)]):
            numbers, own = np.divmod(numbers, len(texts))
            folders = self._folders(name, texts)
            columns.append([folders[place] for place in own.tolist()])
        return distinct(Encoded(encoded.indices.to_numpy(), self._joined(reversed(columns))))

    def _folders(self, name: str, texts: Sequence[str]) -> Sequence[str]:
        return [f"{name}={text}" for text in texts] if self._named else texts

    def _joined(self, columns: Iterable[Sequence[str]]) -> list[str]:
        return [*map(self._delimiter.join, zip(*columns, strict=True))]

    def texts(self, values: Sequence[Any], name: str) -> list[str]:
        """The texts of values each of which has one."""
        if self._quote is str and all(type(value) is str for value in values) and "".join(values).isascii():
            return [*values]
        return [str(self.text(value, name)) for value in values]

    def text(self, value: Any, name: str) -> str | tuple[str]:
        """The text of a value, `null` for none; or, in a tuple, why it has none."""
        if value is None or value is MISSING:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str) and not value.isascii() and not encodable(value):
            return (f"Error encoding partition: field '{name}' holds half a surrogate pair, which no object name can.",)
        if isinstance(value, (str, int)):
            return self._quote(str(value))
        return (f"Error encoding partition: field '{name}' has the unsupported type {type(value).__name__}.",)


class FieldPartitioner:
    """One directory per distinct values of some fields: `name=value` in configured order."""

    uses_time = False

    def __init__(
        self,
        names: Sequence[str],
        *,
        delimiter: str,
        schemaless: Schemaless,
        encoding: str,
        directories: DirectoryForm = DirectoryForm.NAMED,
    ) -> None:
        self._names = [(name, tuple(name.split("."))) for name in names]
        self._schemaless = schemaless
        self._values = ValueDirectories(names, delimiter, encoding, directories)

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The fields' values as text; null gives `null`. Values are not escaped unless `partition.value.encoding=percent`."""
        refused = self._refused(run)
        if refused:
            return Encoded(np.full(len(run), -1, np.int32), [], [unplaced(int(o), refused) for o in run.offsets])
        coded = [self._coded(run, name, path) for name, path in self._names]
        plain = [one for one in coded if one is not None]
        if len(plain) == len(coded):
            return self._values.of_codes(plain)
        return self._values.encoded([self._texts(run, name, path) for name, path in self._names])

    def _coded(self, run: Run, name: str, path: tuple[str, ...]) -> tuple[Longs, list[str]] | None:
        """A field's distinct texts, and each record's number among them; None where they have to be found record by record."""
        if run.schema is not None and _unusable(run.schema.at(path), name) is not None:
            return None
        column = run.values.column(path)
        if not isinstance(column, pa.Array) or column.type not in PLAIN_TYPES:
            return None
        encoded = pc.dictionary_encode(column)
        texts = self._values.texts(encoded.dictionary.to_pylist(), name)
        if column.null_count:
            texts.append("null")
        return pc.fill_null(encoded.indices, len(texts) - 1).to_numpy().astype(np.int64), texts

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Always: the directory does not depend on schema or kind."""
        return True

    def _refused(self, run: Run) -> str | None:
        if run.schema is None:
            return "Value is not Struct type." if self._schemaless is Schemaless.REFUSE else None
        return None if run.schema.kind is SchemaType.STRUCT else "Value is not Struct type."

    def _texts(self, run: Run, name: str, path: tuple[str, ...]) -> list[Any]:
        schema = run.schema.at(path) if run.schema is not None else None
        problem = _unusable(schema, name) if run.schema is not None else None
        if schema is None and problem is not None:
            return [problem(int(offset)) for offset in run.offsets]
        column = run.values.column(path)
        if problem is not None:  # null is looked at before the type, as in the original
            items = column.to_pylist() if isinstance(column, pa.Array) else column
            return ["null" if v is None else problem(int(o)) for v, o in zip(items, run.offsets, strict=True)]
        items = column.to_pylist() if isinstance(column, pa.Array) else column
        texts = [self._values.text(item, name) for item in items]
        return [t if isinstance(t, str) else unplaced(int(run.offsets[row]), t[0]) for row, t in enumerate(texts)]


def _unusable(schema: ConnectSchema | None, name: str) -> Any:
    if schema is None:
        return lambda offset: unplaced(offset, f"Field '{name}' is not present in the schema.", stops_original=True)
    if schema.name in DATES:
        return lambda offset: unplaced(
            offset, f"Field '{name}' is a {schema.label()}, which has no text form.", stops_original=True
        )
    if schema.kind not in INTEGERS | {SchemaType.STRING, SchemaType.BOOLEAN}:
        text = f"Error encoding partition: field '{name}' has the unsupported type {schema.kind}."
        return lambda offset: unplaced(offset, text)
    return None


def unplaced(offset: int, message: str, **more: bool) -> Failure:
    """The failure of a record that has no directory."""
    exception = "io.confluent.connect.storage.errors.PartitionException"
    return Failure(offset, Stage.TASK_PUT, SINK_TASK, exception, message, **more)
