"""Does a record go on, with key and value, and to which topic?

The predicates `HasHeaderKey`, `RecordIsTombstone`, `TopicNameMatches`; the transforms `Filter`, `Drop`, `TombstoneHandler`; the routers
`RegexRouter`, `TimestampRouter`, `ExtractTopic`, `MessageTimestampRouter`.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.java.numbers import object_text
from kafka_s3.connect.java.regex import replace_first
from kafka_s3.connect.java.simple_dates import SimpleDates
from kafka_s3.connect.naming.state_terms import DELETED
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import NO_TIMESTAMP, Nulls
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import default_value
from kafka_s3.connect.transforms.record import (
    ILLEGAL,
    ConnectRecord,
    RecordPart,
    Refused,
    java_class,
    part_of,
    put_values,
    require_map,
    require_struct,
)  # fmt: skip
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """Whether a record has a header of that name."""

    name: str

    def test(self, record: ConnectRecord) -> bool:
        return any(one.key == self.name for one in record.headers)

    def rows(self, run: Run, topic_partition: TopicPartition) -> npt.NDArray[np.bool_]:
        if Role.HEADER not in run.sidecars:
            return np.zeros(len(run), bool)
        headers = run.sidecars[Role.HEADER].values.objects()
        return np.array([any(one["key"] == self.name for one in own or ()) for own in headers], bool)


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """Whether a record has no value."""

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None

    def rows(self, run: Run, topic_partition: TopicPartition) -> npt.NDArray[np.bool_]:
        """All records of a run, or none."""
        return np.full(len(run), run.tombstones)


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """Whether the pattern matches the whole topic."""

    pattern: re.Pattern[str]

    def test(self, record: ConnectRecord) -> bool:
        return self.pattern.fullmatch(record.topic) is not None

    def rows(self, run: Run, topic_partition: TopicPartition) -> npt.NDArray[np.bool_]:
        """All records of a run, or none."""
        return np.full(len(run), self.pattern.fullmatch(topic_partition.topic) is not None)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Filter:
    """Drops every record that it gets, which is why it has a predicate."""

    def apply(self, record: ConnectRecord) -> None:
        """Nothing."""

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        return run.slice(0, 0)


@dataclass(frozen=True, slots=True)
class Drop:
    """Makes a part null. `behavior` is what becomes of its schema: nullify, retain, validate or force_optional."""

    part: RecordPart
    behavior: str

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return self.part.put(record, None, self._schema(self.part.value_of(record)[1]))

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        found = part_of(run, self.part)
        try:
            schema = self._schema(None if found is None else found.schema)
        except Refused:
            return None
        return put_values(run, self.part, Nulls(len(run)), schema)

    def _schema(self, schema: ConnectSchema | None) -> ConnectSchema | None:
        if schema is None or self.behavior == "nullify":
            return None
        if self.behavior == "validate" and not schema.optional:
            raise Refused(f"The {self.part} cannot be dropped: its schema {schema.label()} is not optional.")
        return replace(schema, optional=True) if self.behavior == "force_optional" else schema


@dataclass(frozen=True, slots=True)
class TombstoneHandler:
    """What becomes of null values (`behavior`): ignore and warn drop the record, fail refuses it.

    With rewrite, which is ours, it gets the value that Debezium gives a deletion, so that it has a row and coordinates like any other; with
    a schema where the topic's values have schemas.
    """

    behavior: str
    has_schemas: bool = False

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is not None:
            return record
        coordinates = f"{record.topic}-{record.partition} offset {record.offset}"
        if self.behavior == "fail":
            raise Refused(f"A tombstone record was found at {coordinates}.")
        if self.behavior == "rewrite":
            return replace(record, value={DELETED: "true"}, value_schema=DELETION if self.has_schemas else None)
        if self.behavior == "warn":
            _log.warning("The tombstone record at %s is dropped.", coordinates)
        return None

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        """Runs with values pass."""
        return None if run.tombstones else run


DELETION: Final = ConnectSchema(
    SchemaType.STRUCT,
    name="kafka_s3.Deletion",
    fields=(Field(DELETED, ConnectSchema(SchemaType.STRING, optional=True)),),
)
BOUNDS: Final = "java.lang.IndexOutOfBoundsException"
TOPIC: Final = re.compile(r"\$\{topic\}")
TIMESTAMP: Final = re.compile(r"\$\{timestamp\}")
EXTRACTION: Final = "extracting the topic"
ROUTING: Final = "routing by a timestamp of the message"


@dataclass(frozen=True, slots=True)
class RegexRouter:
    """Replaces in topics that the whole pattern matches."""

    pattern: re.Pattern[str]
    replacement: str

    def target(self, topic: str) -> str:
        """The topic in place of one. Raises Refused."""
        if self.pattern.fullmatch(topic) is None:
            return topic
        found = self.pattern.search(topic)
        assert found is not None
        try:
            return replace_first(found, self.replacement)
        except IndexError as error:
            raise Refused(str(error), BOUNDS) from None
        except ValueError as error:
            raise Refused(str(error), ILLEGAL) from None

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return replace(record, topic=self.target(record.topic))

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        """All records of a run have one topic."""
        try:
            return replace(run, topic=self.target(topic_partition.topic))
        except Refused:
            return None


@dataclass(frozen=True, slots=True)
class TimestampRouter:
    """Puts topic and time of a record into `${topic}` and `${timestamp}` of a format."""

    format: str
    dates: SimpleDates

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with its topic. Refuses one without timestamp."""
        if record.timestamp is None:
            coordinates = f"{record.topic}-{record.partition} offset {record.offset}"
            raise Refused(f"Timestamp missing on record: {coordinates}")
        return replace(record, topic=formatted(self.format, record.topic, self.dates.format(record.timestamp)))

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        """A run whose records all go to one topic."""
        if not len(run) or (run.timestamps == NO_TIMESTAMP).any():
            return None
        first, last = (self.dates.format(int(at)) for at in (run.timestamps.min(), run.timestamps.max()))
        coarse = all(not count or text in "GyYMLwWDdFEuaHkKhmsS" for text, count in self.dates.tokens)
        if first != last or not coarse or not np.isin("y", [text for text, _ in self.dates.tokens]):
            return None
        whole = SimpleDates("yyyyDDDHHmmssSSS"[: self._depth()], now_ms=0)
        edges = {whole.format(int(at)) for at in (run.timestamps.min(), run.timestamps.max())}
        return replace(run, topic=formatted(self.format, topic_partition.topic, first)) if len(edges) == 1 else None

    def _depth(self) -> int:
        """How much of year, day, hour, minute, second and millisecond decides about the text."""
        finest = {"y": 4, **dict.fromkeys("HkKha", 9), "m": 11, "s": 13, "S": 16}
        return max(finest.get(text, 7) for text, count in self.dates.tokens if count)


def formatted(pattern: str, topic: str, timestamp: str) -> str:
    """A topic format with both put in, the topic first."""
    return TIMESTAMP.sub(lambda _: timestamp, TOPIC.sub(lambda _: topic, pattern))


@dataclass(frozen=True, slots=True)
class ExtractTopic:
    """Takes the topic from a part (the whole of it where `path` is empty), or, without a part, from the header `text`."""

    part: RecordPart | None
    path: tuple[str, ...]
    text: str
    skips: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with that topic; `skips` leaves the topic where there is none, otherwise it is refused."""
        found = self._from_header(record) if self.part is None else self._from_part(record, self.part)
        if found is None and self.skips:
            return record
        if found is None:
            what = self.text or f"whole {self.part}"
            raise Refused(
                f"{'Header' if self.part is None else 'Field'} {what} is missing or null: it should be the topic."
            )
        if not isinstance(found, str):
            raise Refused(
                f"{self.text or f'The whole {self.part}'} should be the topic, a string, found: {java_class(found)}"
            )
        return replace(record, topic=found)

    def _from_header(self, record: ConnectRecord) -> Any:
        return next((one.value for one in reversed(record.headers) if one.key == self.text), None)

    def _from_part(self, record: ConnectRecord, part: RecordPart) -> Any:
        value, schema = part.value_of(record)
        for name in self.path:
            if value is None:
                return None
            value, schema = _member(value, schema, name)
        return value


def _member(value: Any, schema: ConnectSchema | None, name: str) -> tuple[Any, ConnectSchema | None]:
    if schema is None:
        return require_map(value, EXTRACTION).get(name), None
    if schema.kind is SchemaType.MAP:
        return dict(value).get(name), schema.values
    field = schema.field(name) if schema.kind is SchemaType.STRUCT else None
    member = require_struct(value, schema, EXTRACTION).get(name)
    if field is None:
        return None, None
    return (default_value(field.schema) if member is None else member), field.schema


@dataclass(frozen=True, slots=True)
class MessageTimestampRouter:
    """As `TimestampRouter`, with a time of the message: the first of `names` that it has, a text that `reads` reads."""

    format: str
    names: tuple[str, ...]
    reads: SimpleDates
    writes: SimpleDates

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with its topic. Refuses values that are no maps, and those without such a time."""
        if record.value_schema is not None and record.value_schema.kind is not SchemaType.MAP:
            raise Refused(
                f"Only Map objects supported for [{ROUTING}], found: {java_class(record.value, record.value_schema)}"
            )
        value = require_map(record.value, ROUTING) if record.value_schema is None else dict(record.value or ())
        found = next((value[name] for name in self.names if value.get(name) is not None), None)
        if found is None:
            raise Refused(
                f"The message has none of the fields {', '.join(self.names)}, one of which should be its time."
            )
        text = found if isinstance(found, str) else object_text(found)
        try:
            at = self.reads.parse(text)
        except ValueError:
            raise Refused(
                f"Could not parse timestamp: value ({text}) does not match pattern ({self.reads.pattern})"
            ) from None
        return replace(record, topic=formatted(self.format, record.topic, self.writes.format(at)))
