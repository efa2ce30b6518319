"""Where are a long log's segments while it is verified? In memory as long as they are few, else packed in a temporary file.

Segments are kept by topic-partition in the order of the log, and read in that order as often as it takes, a few thousand at a time.
"""

from __future__ import annotations

import marshal
import weakref
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from tempfile import TemporaryFile
from typing import IO, Any, Final

from kafka_s3.model.files import REASONS, ROLES, DataFile, Upload
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.ops.verify.segments import Segment

HELD: Final = 20_000
"""Files, or segments where they have none, that are in memory before they are packed: about 1 KiB each."""
_FILE: Final = attrgetter(
    "key", "topic", "partition", "first_offset", "last_offset", "records", "bytes", "min_timestamp", "max_timestamp",
    "encoded_partition", "schema", "format",
)  # fmt: skip
_MADE: Final[Callable[..., DataFile]] = DataFile
_UPLOAD: Final = attrgetter("key", "id", "parts", "size")


class SegmentSpool:
    """Segments by topic-partition. Temporary space is given back with the spool."""

    def __init__(self, held: int = HELD) -> None:
        self._most, self._held = held, 0
        self._recent: dict[TopicPartition, list[Segment]] = {}
        self._places: dict[TopicPartition, array[int]] = {}
        self._counts: dict[TopicPartition, int] = {}
        self._superseded: dict[TopicPartition, list[tuple[int, int, int, bool]]] = {}
        self._file: IO[bytes] | None = None

    def __iter__(self) -> Iterator[TopicPartition]:
        """The topic-partitions, in order."""
        return iter(sorted(self._counts))

    def know(self, topic_partition: TopicPartition) -> None:
        """The topic-partition is one of these, also without a segment."""
        self._counts.setdefault(topic_partition, 0)

    def add(self, segment: Segment) -> None:
        """Takes the next segment of a topic-partition in."""
        tp = segment.topic_partition
        self._counts[tp] = self._counts.get(tp, 0) + 1
        self._recent.setdefault(tp, []).append(segment)
        self._held += max(len(segment.files), 1)
        if self._held >= self._most:
            self._pack()

    def supersede(self, topic_partition: TopicPartition, since: int, *, by: int, read_again: bool) -> None:
        """The log goes back to offset `since` with entry `by`: segments so far that reach beyond it are superseded."""
        count = self._counts[topic_partition]
        self._superseded.setdefault(topic_partition, []).append((count, since, by, read_again))

    def of(self, topic_partition: TopicPartition) -> Iterator[Segment]:
        """The segments of a topic-partition in the order of the log."""
        resets = self._superseded.get(topic_partition, ())
        for number, segment in enumerate(self._all(topic_partition)):
            for count, since, _, read_again in resets:
                if number < count and segment.until > since:
                    again = read_again and (segment.read_again or not segment.superseded)
                    segment = replace(segment, superseded=True, read_again=again)
            yield segment

    def was_superseded(self, topic_partition: TopicPartition, number: int, until: int, *, by: int) -> bool:
        """Whether a topic-partition's segment of this number, up to offset `until`, was superseded when entry `by` was written."""
        resets = self._superseded.get(topic_partition, ())
        return any(number < count and until > since and version <= by for count, since, version, _ in resets)

    def _all(self, tp: TopicPartition) -> Iterator[Segment]:
        places = self._places.get(tp, array("q"))
        for number in range(0, len(places), 2):
            assert self._file is not None
            self._file.seek(places[number])
            packed: list[Any] = marshal.loads(zlib.decompress(self._file.read(places[number + 1])))
            yield from (_unpacked(tp, one) for one in packed)
        yield from self._recent.get(tp, ())

    def _pack(self) -> None:
        """Moves what is in memory to the end of the file."""
        if self._file is None:
            self._file = TemporaryFile(prefix="kafka-s3-verify-")  # noqa: SIM115 - it lives as long as the spool
            weakref.finalize(self, self._file.close)
        end = self._file.seek(0, 2)
        for tp, segments in self._recent.items():
            content = zlib.compress(marshal.dumps([_packed(segment) for segment in segments]), 1)
            self._file.write(content)
            self._places.setdefault(tp, array("q")).extend((end, len(content)))
            end += len(content)
        self._recent, self._held = {}, 0


def _packed(segment: Segment) -> tuple[Any, ...]:
    files = [(_FILE(file), file.reason.value, file.role.value, _UPLOAD(file.upload)) for file in segment.files]
    resolved = None if segment.resolved is None else segment.resolved.ranges
    return (
        segment.version, segment.committed_at, segment.start, segment.until, files, segment.dead_letters, segment.skipped,
        segment.sure, resolved,
    )  # fmt: skip


def _unpacked(tp: TopicPartition, packed: Sequence[Any]) -> Segment:
    version, committed_at, start, until, files, dead_letters, skipped, sure, resolved = packed
    return Segment(
        tp, version, committed_at, start, until,
        tuple(_MADE(*plain, REASONS[reason], Upload(*upload), ROLES[role]) for plain, reason, role, upload in files),
        dead_letters, skipped, sure, resolved=None if resolved is None else OffsetSet(resolved),
    )  # fmt: skip
