"""Into which directory does a record go? The partitioners of SEMANTICS A4.2, vectorised over runs.

By Kafka partition, by time, by fields of the value (`name=value`), by the key or headers, by fields and time together, or as a plugin says.
Around these lie the schema's name and the one place of tombstones (A7); nothing lies outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.joda.buckets import BucketNames
from kafka_s3.connect.naming.keys import ObjectNames, refusal, refusals
from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import MISSING, Longs, Nulls
from kafka_s3.connect.schemas.arrow import python_values
from kafka_s3.connect.schemas.connect import DATE, TIME, TIMESTAMP, ConnectSchema, SchemaType
from kafka_s3.connect.schemas.json_form import encodable
from kafka_s3.model.dead_letters import SINK_TASK, Failure, Stage, rejection
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class Encoded:
    """`names[codes[i]]` is the encoded partition of record i; -1 where `failures` says why there is none. No name is there twice."""

    codes: npt.NDArray[np.int32]
    names: list[str]
    failures: list[Failure] = field(default_factory=list)


def distinct(encoded: Encoded) -> Encoded:
    """The same with each name once: different values may make one path (`x/b=y` and `z`, `x` and `y/b=z`), and that is one directory."""
    if len(set(encoded.names)) == len(encoded.names):
        return encoded
    codes_of = {name: code for code, name in enumerate(dict.fromkeys(encoded.names))}
    codes = np.array([*(codes_of[name] for name in encoded.names), -1], np.int32)  # code -1 is the last of them, -1
    return Encoded(codes[encoded.codes], list(codes_of), encoded.failures)


def encoded_each(run: Run, times: Longs, directory: Callable[[Any, int], str]) -> Encoded:
    """The encoded partitions of a run by a function of a record's value and time (epoch ms), called record by record.

    Where it raises ValueError, TypeError or LookupError, the record is a bad one, and the error's text says why.
    """
    codes = np.full(len(run), -1, np.int32)
    codes_of: dict[str, int] = {}
    failures: list[Failure] = []
    for row, (value, time) in enumerate(zip(run.values.objects(), times.tolist(), strict=True)):
        try:
            codes[row] = codes_of.setdefault(directory(value, time), len(codes_of))
        except (ValueError, TypeError, LookupError) as error:
            why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            failures.append(rejection(int(run.offsets[row]), f"The record has no directory: {why}"))
    return Encoded(codes, list(codes_of), failures)


class Partitioner(Protocol):
    """Gives each record its encoded partition."""

    @property
    def uses_time(self) -> bool:
        """Whether `encode` looks at the times, so that they have to be extracted."""
        ...

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The encoded partitions of a run; `times` are the extracted timestamps (zeros unless `uses_time`)."""
        ...


def may_hold(partitioner: Partitioner, encoded_partition: str, run: Run) -> bool:
    """Whether records of the run can belong into a directory, as far as the run's schema and kind say; most look at neither."""
    judge = getattr(partitioner, "may_hold", None)
    return judge is None or judge(encoded_partition, run)


@dataclass(frozen=True, slots=True)
class Registered:
    """A plugin's partitioner (`connect.config.plugins`) among ours."""

    own: Partitioner

    @property
    def uses_time(self) -> bool:
        return self.own.uses_time

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        return distinct(self.own.encode(topic_partition, run, times))


class DefaultPartitioner:
    """One directory per Kafka partition."""

    uses_time = False

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """`partition=<kafka partition>`."""
        return Encoded(np.zeros(len(run), np.int32), [f"partition={topic_partition.partition}"])


class TimePartitioner:
    """One directory per time bucket, named by a Joda pattern."""

    uses_time = True

    def __init__(self, buckets: BucketNames) -> None:
        self._buckets = buckets

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The bucket's start, formatted."""
        codes, names = self._buckets.encode(times)
        return Encoded(codes, names)


PLAIN_TYPES = frozenset({pa.string(), pa.int64(), pa.int32(), pa.bool_(), pa.null()})
DATES = frozenset({DATE, TIME, TIMESTAMP})
INTEGERS = frozenset({SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64})


SCHEMA_NAME: Final = "schema_name"


class Schemaless(StrEnum):
    """What a field partitioner does with schemaless values: refuse them as the original does, or look the field up in the map."""

    REFUSE = "refuse"
    LOOK_UP = "look up"


class DirectoryForm(StrEnum):
    """How a value becomes a directory."""

    NAMED = "name=value"
    BARE = "value"


class Lookalikes(StrEnum):
    """Where texts go whose directory is also that of other values: `null`, and a text with `/name=` of a directory in it."""

    SHARED = "into the same directory, as in the original"
    APART = "into one of their own, percent-encoded"


NULL: Final = "null"
TEXT_NULL: Final = "%6Eull"
"""What the text `null` is written as, apart from null."""


class ValueDirectories:
    """Makes the directories of values that have names: `name=value`, joined by a delimiter; a value alone where `directories` says so."""

    def __init__(
        self,
        names: Sequence[str],
        delimiter: str,
        encoding: str,
        directories: DirectoryForm = DirectoryForm.NAMED,
        *,
        lookalikes: Lookalikes = Lookalikes.SHARED,
    ) -> None:
        self._names = names
        self._delimiter = delimiter
        self._named = directories is DirectoryForm.NAMED
        self._quote = (lambda text: quote(text, safe="")) if encoding == "percent" else str
        self._apart = self._named and lookalikes is Lookalikes.APART
        self._marks = [f"/{name}=" for name in (*names, SCHEMA_NAME)]

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
        joint, texts = fields[0]
        if len(fields) == 1:
            return distinct(Encoded(joint.astype(np.int32), [*self._folders(self._names[0], texts)]))
        for codes, texts in fields[1:]:
            joint = joint * len(texts) + codes
        encoded = pc.dictionary_encode(pa.array(joint))
        numbers, columns = encoded.dictionary.to_numpy(), []
        for name, (_, texts) in reversed([*zip(self._names, fields, strict=True)]):
            numbers, own = np.divmod(numbers, len(texts))
            folders = self._folders(name, texts)
            columns.append([folders[index] for index in own.tolist()])
        return distinct(Encoded(encoded.indices.to_numpy(), self._joined(reversed(columns))))

    def _folders(self, name: str, texts: Sequence[str]) -> Sequence[str]:
        return [f"{name}={text}" for text in texts] if self._named else texts

    def _joined(self, columns: Iterable[Sequence[str]]) -> list[str]:
        return [*map(self._delimiter.join, zip(*columns, strict=True))]

    def texts(self, values: Sequence[Any], name: str) -> list[str]:
        """The texts of values each of which has one."""
        kinds = {*map(type, values)}
        if kinds == {int}:
            return [*map(str, values)]
        if kinds == {str} and self._quote is str:
            together = "".join(values)
            if together.isascii() and not (self._apart and (NULL in values or self._has_mark(together))):
                return [*values]
        return [str(self.text(value, name)) for value in values]

    def text(self, value: Any, name: str) -> str | tuple[str]:
        """The text of a value, `null` for none; or, in a tuple, why it has none."""
        if value is None or value is MISSING:
            return NULL
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str) and not value.isascii() and not encodable(value):
            return (f"Error encoding partition: field '{name}' holds half a surrogate pair, which no object name can.",)
        if self._apart and isinstance(value, str) and (value == NULL or self._has_mark(value)):
            return TEXT_NULL if value == NULL else quote(value, safe="")
        if isinstance(value, (str, int)):
            return self._quote(str(value))
        return (f"Error encoding partition: field '{name}' has the unsupported type {type(value).__name__}.",)

    def _has_mark(self, text: str) -> bool:
        return any(mark in text for mark in self._marks)


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
        lookalikes: Lookalikes = Lookalikes.SHARED,
    ) -> None:
        self._names = [(name, tuple(name.split("."))) for name in names]
        self._schemaless = schemaless
        self._values = ValueDirectories(names, delimiter, encoding, directories, lookalikes=lookalikes)

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
        if run.schema is not None and _unusable(run.schema.at_path(path), name) is not None:
            return None
        column = run.values.column(path)
        if not isinstance(column, pa.Array) or column.type not in PLAIN_TYPES:
            return None
        encoded = pc.dictionary_encode(column)
        texts = self._values.texts(encoded.dictionary.to_pylist(), name)
        if column.null_count:
            texts.append(NULL)
        return pc.fill_null(encoded.indices, len(texts) - 1).to_numpy().astype(np.int64), texts

    def _refused(self, run: Run) -> str | None:
        if run.schema is None:
            return "Value is not Struct type." if self._schemaless is Schemaless.REFUSE else None
        return None if run.schema.kind is SchemaType.STRUCT else "Value is not Struct type."

    def _texts(self, run: Run, name: str, path: tuple[str, ...]) -> list[Any]:
        schema = run.schema.at_path(path) if run.schema is not None else None
        problem = _unusable(schema, name) if run.schema is not None else None
        if schema is None and problem is not None:
            return [problem(int(offset)) for offset in run.offsets]
        column = run.values.column(path)
        items = python_values(column) if isinstance(column, pa.Array) else column
        if problem is not None:  # null is looked at before the type, as in the original
            return [NULL if v is None else problem(int(o)) for v, o in zip(items, run.offsets, strict=True)]
        return _texts(self._values, run, items, name)


def _unusable(schema: ConnectSchema | None, name: str) -> Any:
    if schema is None:
        text, stops = f"Field '{name}' is not present in the schema.", True
    elif schema.name in DATES:
        text, stops = f"Field '{name}' is a {schema.label()}, which has no text form.", True
    elif schema.kind not in INTEGERS | {SchemaType.STRING, SchemaType.BOOLEAN}:
        text, stops = f"Error encoding partition: field '{name}' has the unsupported type {schema.kind}.", False
    else:
        return None
    return lambda offset: unplaced(offset, text, stops_original=stops)


def unplaced(offset: int, message: str, **more: bool) -> Failure:
    """The failure of a record that has no directory."""
    exception = "io.confluent.connect.storage.errors.PartitionException"
    return Failure(offset, Stage.TASK_PUT, SINK_TASK, exception, message, **more)


WHOLE_KEY = "key"


class HeaderPartitioner:
    """One directory per distinct texts of some headers: `name=text`, by the last header of each name; `null` where there is none."""

    uses_time = False

    def __init__(self, names: Sequence[str], *, delimiter: str, encoding: str) -> None:
        self._names = names
        self._values = ValueDirectories(names, delimiter, encoding)

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The directories of a run that comes with its headers."""
        rows = run.placed_by[Role.HEADER].values.objects() if Role.HEADER in run.placed_by else [None] * len(run)
        texts = [{header["key"]: header["value"] for header in row or ()} for row in rows]
        return self._values.encoded(
            [_texts(self._values, run, [row.get(name) for row in texts], name) for name in self._names]
        )


class KeyPartitioner:
    """One directory per distinct key, `key=<text>`, or per distinct values of some of its fields, `name=value`."""

    uses_time = False

    def __init__(self, names: Sequence[str], *, delimiter: str, encoding: str) -> None:
        self._fields = FieldPartitioner(names, delimiter=delimiter, schemaless=Schemaless.LOOK_UP, encoding=encoding)
        self._whole = None if names else ValueDirectories([WHOLE_KEY], delimiter, encoding)

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The directories of a run that comes with its keys; a key without a text form, like a struct or bytes, is a failure."""
        keys = run.placed_by.get(Role.KEY, Sidecar(Nulls(len(run)), None))
        if self._whole is None:
            return self._fields.encode(
                topic_partition, Run(run.offsets, run.timestamps, keys.values, keys.schema), times
            )
        return self._whole.encoded([_texts(self._whole, run, keys.values.objects(), WHOLE_KEY)])


def _texts(directories: ValueDirectories, run: Run, items: Sequence[Any], name: str) -> list[Any]:
    texts = [directories.text(item, name) for item in items]
    return [t if isinstance(t, str) else unplaced(int(run.offsets[row]), t[0]) for row, t in enumerate(texts)]


class FieldAndTimePartitioner:
    """The directories of some fields, and below each those of time buckets: what the widely used plugin of that name does."""

    uses_time = True

    def __init__(self, fields: FieldPartitioner, time: TimePartitioner, *, delimiter: str) -> None:
        self._fields = fields
        self._time = time
        self._delimiter = delimiter

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The fields' directory and the bucket's."""
        fields = self._fields.encode(topic_partition, run, times)
        buckets = self._time.encode(topic_partition, run, times)
        pairs = fields.codes.astype(np.int64) * len(buckets.names) + buckets.codes
        pairs[fields.codes < 0] = -1
        known, firsts, codes = np.unique(pairs, return_index=True, return_inverse=True)
        order = [index for index in np.argsort(firsts) if known[index] >= 0]
        ranks = np.full(len(known), -1, np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        found = (divmod(int(known[index]), len(buckets.names)) for index in order)
        names = [f"{fields.names[field]}{self._delimiter}{buckets.names[bucket]}" for field, bucket in found]
        return distinct(Encoded(ranks[codes], names, fields.failures))


LARGEST_OFFSET: Final = 2**63 - 1
"""Keys are judged at their longest."""


class Affix(StrEnum):
    """Where the schema's name goes (`s3.schema.partition.affix.type`)."""

    NONE = "NONE"
    PREFIX = "PREFIX"
    SUFFIX = "SUFFIX"


@dataclass(frozen=True, slots=True)
class SchemaDirectory:
    """Puts `schema_name=<name>` before or after another partitioner's directories; `null` where the schema has no name."""

    inner: Partitioner
    affix: Affix
    delimiter: str

    @property
    def uses_time(self) -> bool:
        return self.inner.uses_time

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The directories of a run, which has one schema."""
        own = self._schema_directory(run)
        found = self.inner.encode(topic_partition, run, times)
        return Encoded(found.codes, [self._around(directory, own) for directory in found.names], found.failures)

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Whether the directory is one of the run's schema."""
        own = self._schema_directory(run)
        if self.affix is Affix.PREFIX:
            return encoded_partition.startswith(own + self.delimiter)
        return encoded_partition.endswith(self.delimiter + own)

    def _schema_directory(self, run: Run) -> str:
        return f"{SCHEMA_NAME}={(run.schema.name if run.schema is not None else None) or NULL}"

    def _around(self, directory: str, own: str) -> str:
        names = [own, directory]
        return self.delimiter.join(names if self.affix is Affix.PREFIX else reversed(names))


@dataclass(frozen=True, slots=True)
class TombstoneDirectory:
    """Puts all null values into one directory, everything else where another partitioner says."""

    inner: Partitioner
    name: str

    @property
    def uses_time(self) -> bool:
        return self.inner.uses_time

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The directories of a run, which holds null values only or none."""
        if run.tombstones:
            return Encoded(np.zeros(len(run), np.int32), [self.name])
        return self.inner.encode(topic_partition, run, times)

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Whether null values meet their own directory, or others another one that may hold them."""
        if run.tombstones or encoded_partition == self.name:
            return run.tombstones and encoded_partition == self.name
        return may_hold(self.inner, encoded_partition, run)


@dataclass(frozen=True, slots=True)
class InsideOnly:
    """Another partitioner's directories, but for those whose objects would have keys that are never written (`object_keys`).

    Whatever a directory is made of, a field, a schema's name, an own partitioner's idea: its records are failures (stage TASK_PUT).
    """

    inner: Partitioner
    naming: ObjectNames
    extension: str
    state_prefix: str
    _found_good: dict[TopicPartition, frozenset[str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What the last batch had: with thousands of directories the next has most of them again."""

    @property
    def uses_time(self) -> bool:
        return self.inner.uses_time

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The directories of a run, code -1 and a failure for each record whose object may not be."""
        found = self.inner.encode(topic_partition, run, times)
        refused = self._refusals(topic_partition, found.names)
        if not refused:
            return found
        rows = np.flatnonzero(np.isin(found.codes, list(refused)))
        failures = [
            self._refused(topic_partition, found.names[code], offset=offset, reason=refused[code])
            for code, offset in zip(found.codes[rows].tolist(), run.offsets[rows].tolist(), strict=True)
        ]
        codes = found.codes.copy()
        codes[rows] = -1
        return Encoded(codes, found.names, sorted([*found.failures, *failures], key=lambda failure: failure.offset))

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        return may_hold(self.inner, encoded_partition, run)

    def _refusals(self, topic_partition: TopicPartition, names: list[str]) -> dict[int, str]:
        """Why nothing is written to some of these directories, by their codes."""
        good = self._found_good.get(topic_partition, frozenset())
        codes = [code for code, name in enumerate(names) if name not in good]
        key = partial(self.naming.key, topic_partition, offset=LARGEST_OFFSET, extension=self.extension)
        judged = refusals([key(names[code]) for code in codes], state_prefix=self.state_prefix)
        slashed = "The directory {!r} begins with a slash, and so would leave its folder for many readers."
        refused = {codes[number]: reason for number, reason in judged.items()}
        refused |= {code: slashed.format(names[code]) for code in codes if names[code].startswith("/")}
        self._found_good.clear()
        self._found_good[topic_partition] = frozenset(names).difference(names[code] for code in refused)
        return refused

    def _refused(self, topic_partition: TopicPartition, name: str, *, offset: int, reason: str) -> Failure:
        """Return the failure of a record. The reason names the key of an object that would begin with this record."""
        key = self.naming.key(topic_partition, name, offset=offset, extension=self.extension)
        reason = refusal(key, state_prefix=self.state_prefix) or reason
        exception = "io.confluent.connect.storage.errors.PartitionException"
        text = f"{reason} Mend what the directory is made of, or set partition.value.encoding=percent."
        return Failure(offset, Stage.TASK_PUT, SINK_TASK, exception, text)
