"""What is a file that comes back, and what do its rows mean in Kafka? Value, key, headers and time, as far as the objects kept them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from kafka_s3.connect.converters.whole_records import FIELD
from kafka_s3.connect.schemas.json_form import dumps
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Message
from kafka_s3.objects.block_gzip_form import Framing
from kafka_s3.objects.readers import ObjectUnreadable, StoredObject, rows_of
from kafka_s3.store.store import ObjectStore


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The records of one file: an object of values, and those of keys and headers beside it; without values they are tombstones.

    `records` None: nothing but the object itself knows. Rows `[skip, until)` are wanted (None: to the end). `timestamp` is that of all its
    records, epoch ms, None where they have different ones, or where it is not known.
    """

    topic_partition: TopicPartition
    first_offset: int
    folder: str
    parts: dict[Role, StoredObject] = field(default_factory=dict)
    records: int | None = None
    last_offset: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    skip: int = 0
    until: int | None = None

    @property
    def name(self) -> str:
        """The key by which it is called: that of its values, or of its keys."""
        return self.parts[Role.VALUE if Role.VALUE in self.parts else Role.KEY].key

    @property
    def timestamp(self) -> int | None:
        """The time of all its records."""
        return self.min_timestamp if self.min_timestamp == self.max_timestamp else None

    @property
    def dense(self) -> bool:
        """Whether its records fill its offsets, so that each row's offset is known."""
        return self.last_offset is not None and self.records == self.last_offset - self.first_offset + 1

    @property
    def wanted(self) -> int | None:
        """How many rows are wanted, None where that is not known before it is read."""
        end = self.records if self.until is None else self.until
        return None if end is None else max(end - self.skip, 0)

    def before(self, offset: int) -> StoredFile:
        """Without the rows that are surely at or behind an offset: the n-th is at the first offset and n, or later."""
        most = max(offset - self.first_offset, 0)
        if self.last_offset is not None and self.last_offset < offset:
            return self
        return replace(self, until=most if self.until is None else min(most, self.until))


Headers = tuple[tuple[str, bytes | None], ...]
_WRAPPER: Final = {Role.KEY: "key", Role.HEADER: "headers"}
_END: Final = object()


@dataclass(frozen=True, slots=True)
class RowReading:
    """How rows of a sink's objects are read back. Converters are named as in the configuration's checked settings.

    `metadata`: values carry the struct `_kafka` (record.metadata.enable), which says key, headers and time of each record.
    """

    separator: bytes
    framing: Framing
    value_converter: str
    key_converter: str
    metadata: bool

    def messages(self, store: ObjectStore, file: StoredFile) -> Iterator[Message]:
        """The wanted records of a file, in order. Raises ObjectUnreadable, also where sidecars or the log count others; StorageError."""
        columns = {
            role: rows_of(store, part, separator=self.separator, framing=self.framing)
            for role, part in file.parts.items()
        }
        row = 0
        while True:
            found = {role: next(rows, _END) for role, rows in columns.items()}
            ended = [role for role, one in found.items() if one is _END]
            if ended:
                if len(ended) < len(found) or file.records not in (None, row):
                    raise ObjectUnreadable(
                        f"{file.name} and what lies beside it hold {row} records, {file.records or 'its sidecars'} are counted. "
                        "kafka-s3 verify says what is wrong."
                    )
                return
            if file.skip <= row and (file.until is None or row < file.until):
                yield self._message(file, found, row)
            row += 1

    def _message(self, file: StoredFile, found: dict[Role, Any], row: int) -> Message:
        row_value, part = found.get(Role.VALUE), file.parts.get(Role.VALUE)
        key: bytes | None = None
        headers: Headers = ()
        time = file.timestamp
        if isinstance(row_value, tuple):  # Block-GZIP with keys
            key, row_value = row_value
        if self.metadata and part is not None:
            row_value, kept = _metadata(json.loads(row_value) if isinstance(row_value, bytes) else row_value)
            if kept is not None:
                key, headers, time = self._key(kept.get("key")), _headers(kept.get("headers")), kept.get("timestamp")
        as_json = part is not None and part.format == "json"
        value = in_kafka(row_value, self.value_converter if as_json else "")
        if Role.KEY in found:
            sidecar = file.parts[Role.KEY]
            key = in_kafka(
                _inner(found[Role.KEY], Role.KEY, sidecar.format),
                self.key_converter if sidecar.format == "json" else "",
            )
        if Role.HEADER in found:
            headers = _headers(_inner(found[Role.HEADER], Role.HEADER, file.parts[Role.HEADER].format))
        origin = (file.topic_partition.topic, file.topic_partition.partition, file.first_offset + row)
        return Message(key, value, headers, time, origin)

    def _key(self, kept: Any) -> bytes | None:
        if isinstance(kept, str) and self.key_converter != "string":
            return base64.b64decode(kept)
        return in_kafka(kept, "")


def in_kafka(row: Any, converter: str) -> bytes | None:
    """The bytes of a row: texts and bytes as they are, JSON lines as the converter had them, everything else as JSON."""
    if isinstance(row, bytes) and converter in ("string", "bytes"):  # a JSON string holds the text, or its base64 form
        text = json.loads(row)
        if isinstance(text, str):
            return text.encode() if converter == "string" else base64.b64decode(text)
    if row is None or isinstance(row, bytes):
        return row
    return row.encode() if isinstance(row, str) else dumps(plain(row)).encode()


def plain(value: Any) -> Any:
    """A value of Parquet in JSON's terms: bytes as base64, pairs of a map with texts for keys as an object."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):
            texts = all(isinstance(name, str) for name, _ in value)
            return {name: plain(one) for name, one in value} if texts else [[plain(a), plain(b)] for a, b in value]
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, int | float | str | Decimal) else str(value)


def _metadata(value: Any) -> tuple[Any, dict[str, Any] | None]:
    if not isinstance(value, dict) or FIELD not in value:
        return value, None
    return {name: one for name, one in value.items() if name != FIELD}, value[FIELD]


def _inner(row: Any, role: Role, form: str) -> Any:
    """The key or the headers in the record that some formats put around them."""
    if form == "json" and role is Role.HEADER:
        row = json.loads(row)
    return row[_WRAPPER[role]] if isinstance(row, dict) and set(row) == {_WRAPPER[role]} else row


def _headers(rows: Any) -> Headers:
    return tuple((one["key"], in_kafka(one["value"], "")) for one in rows or ())
