"""Do log, objects and Kafka say the same? The comparisons; pure, nothing is asked here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_s3.engine.log.fold import Segment
from kafka_s3.model.files import DataFile, Role
from kafka_s3.ops.verify.claims import REPORT_IT
from kafka_s3.ops.verify.digests import Digest
from kafka_s3.ops.verify.expected import Row
from kafka_s3.ops.verify.findings import Finding, FindingKind
from kafka_s3.ops.verify.form import Letter, ObjectCount
from kafka_s3.store.store import ObjectInfo, etag_of

RESTORE_IT: Final = (
    "Restore it from a bucket version, or write its offsets again with a new sink name while Kafka has them."
)
SHOWN: Final = 5
Contents = Mapping[str, Counter[Digest]]
"""The digests of the values of objects that were read well, by key."""


@dataclass(frozen=True, slots=True)
class SegmentRecords:
    """Kafka's records in a segment. `whole` is False where Kafka may have removed some: compaction, retention, truncation."""

    rows: Sequence[Row]
    whole: bool


def check_info(
    file: DataFile, info: ObjectInfo | None, *, pending: bool = False, opaque: bool = False
) -> Iterator[Finding]:
    """Whether a claimed object is there as it was uploaded. `pending`: its upload can still be completed; `opaque`: ETags say nothing."""
    if info is None:
        way = "Its upload is still pending: start the sink, which completes it." if pending else RESTORE_IT
        text = f"The log claims it for {_span(file)} of {file.topic_partition}, but it is not in the bucket. {way}"
        yield Finding(FindingKind.MISSING_OBJECT, file.key, text)
    elif info.size != file.bytes:
        text = f"It has {info.size} bytes, the log claims {file.bytes}: it was overwritten. {RESTORE_IT}"
        yield Finding(FindingKind.WRONG_SIZE, file.key, text)
    elif not opaque and (expected := expected_etag(file)) not in (None, info.etag):
        what = f"Its ETag is {info.etag}, its uploaded parts make {expected}"
        text = f"{what}: it was overwritten, copied or made again. Compare it with a bucket version."
        yield Finding(FindingKind.WRONG_ETAG, file.key, text)


def check_reading(file: DataFile, reading: ObjectCount) -> Iterator[Finding]:
    """Whether an object holds as many records as claimed."""
    count = reading.count
    if count is not None and count != file.records and not (reading.at_least and count > file.records):
        text = f"It holds {count} records, the log claims {file.records}. {RESTORE_IT}"
        yield Finding(FindingKind.WRONG_COUNT, file.key, text)


def check_letters(file: DataFile, letters: Sequence[Letter]) -> Iterator[Finding]:
    """Whether a dead letter file holds the letters that are claimed, each once."""
    if len(letters) != file.records:
        text = f"It holds {len(letters)} dead letters, the log claims {file.records}. {RESTORE_IT}"
        yield Finding(FindingKind.WRONG_COUNT, file.key, text)
    strangers = sum((letter.topic, letter.partition) != file.topic_partition for letter in letters)
    outside = sum(not file.first_offset <= letter.offset <= file.last_offset for letter in letters)
    if strangers or outside:
        what = f"{strangers} of another topic-partition, {outside} outside {_span(file)}"
        text = f"Some of its dead letters are not those claimed: {what}. {RESTORE_IT}"
        yield Finding(FindingKind.WRONG_CONTENT, file.key, text)
    twice = [offset for offset, count in Counter(letter.offset for letter in letters).items() if count > 1]
    if twice:
        yield Finding(FindingKind.TWICE, file.key, f"It holds offsets {_some(twice)} more than once. {REPORT_IT}")


def check_room(segment: Segment, dead: int) -> Iterator[Finding]:
    """Whether the claims fit the offsets, where Kafka cannot be asked."""
    room, claimed = segment.until - segment.start, segment.written + segment.skipped + dead
    if claimed > room and segment.sure:
        text = f"{claimed} records are claimed for {room} offsets. {REPORT_IT}"
        yield Finding(FindingKind.TWICE, str(segment), text)


def check_count(segment: Segment, evidence: SegmentRecords, *, dead: int) -> Iterator[Finding]:
    """Whether as many records are claimed as Kafka has; `dead` are the dead letters with offsets in the segment."""
    found, claimed = len(evidence.rows), segment.written + segment.skipped + dead
    parts = f"{segment.written} written, {dead} dead letters, {segment.skipped} skipped"
    if found > claimed and segment.sure:
        lost = f"{found - claimed} are lost. {RESTORE_IT}"
        text = f"Kafka has {found} records, the log accounts for {claimed} ({parts}): {lost}"
        yield Finding(FindingKind.NOT_ACCOUNTED, str(segment), text)
    elif found < claimed and segment.sure and evidence.whole:
        twice = f"{claimed - found} are counted twice. {REPORT_IT}"
        text = f"Kafka has {found} records, the log claims {claimed} ({parts}): {twice}"
        yield Finding(FindingKind.TWICE, str(segment), text)


def check_content(
    segment: Segment, evidence: SegmentRecords, *, dead: frozenset[int], contents: Contents
) -> Iterator[Finding]:
    """Whether the objects' values are those of Kafka's records, each once."""
    live = [row for row in evidence.rows if row.offset not in dead]
    offsets_of: dict[Digest, list[int]] = {}
    for row in live:
        for found in row.digests or ():
            offsets_of.setdefault(found, []).append(row.offset)
    unknown = [row.offset for row in live if row.digests is None]
    wrong = False
    for file in segment.data:
        if evidence.whole and file.key in contents:
            strange = _strange(file, contents[file.key], offsets_of) - _count_within(unknown, file)
            if strange > 0:
                wrong = True
                text = f"{strange} of its {file.records} values are not those of Kafka's {_span(file)}, or too many. {RESTORE_IT}"
                yield Finding(FindingKind.WRONG_CONTENT, file.key, text)
    if all(file.key in contents for file in segment.data if file.role is Role.VALUE):
        total: Counter[Digest] = Counter()
        for file in segment.data:
            total.update(contents.get(file.key, ()))
        yield from _missing(segment, live, offsets_of, total)
        if evidence.whole and not wrong:
            yield from _doubled(segment, len(unknown), offsets_of, total)


def _strange(file: DataFile, content: Counter[Digest], offsets_of: Mapping[Digest, list[int]]) -> int:
    """Values of an object beyond those that Kafka has in the object's offsets."""
    return sum(max(count - _count_within(offsets_of.get(found, ()), file), 0) for found, count in content.items())


def _missing(
    segment: Segment, live: Sequence[Row], offsets_of: Mapping[Digest, list[int]], total: Counter[Digest]
) -> Iterator[Finding]:
    """Kafka's values that are in no object, beyond the skips that are not null values."""
    left = {found: len(offsets) - total[found] for found, offsets in offsets_of.items()}
    missing = sorted({offsets_of[found][-1 - n] for found, count in left.items() for n in range(count)})
    without_value = segment.skipped + sum(file.records for file in segment.data if file.role is not Role.VALUE)
    spare = max(without_value - sum(row.null for row in live), 0)
    if len(missing) > spare and segment.sure:
        text = f"The values at offsets {_some(missing)} are in none of the segment's objects, dead letters or skips. {RESTORE_IT}"
        yield Finding(FindingKind.NOT_ACCOUNTED, str(segment), text)


def _doubled(
    segment: Segment, unknown: int, offsets_of: Mapping[Digest, list[int]], total: Counter[Digest]
) -> Iterator[Finding]:
    """Values that objects hold more often than Kafka."""
    doubled = {found: count - len(offsets_of.get(found, ())) for found, count in total.items()}
    surplus = sum(count for count in doubled.values() if count > 0)
    if surplus > unknown:
        offsets = sorted(offsets_of[found][0] for found, count in doubled.items() if count > 0 and found in offsets_of)
        text = f"{surplus} values are in the segment's objects more often than in Kafka (offsets {_some(offsets)}). {REPORT_IT}"
        yield Finding(FindingKind.TWICE, str(segment), text)


def _count_within(offsets: Sequence[int], file: DataFile) -> int:
    """How many of ascending offsets are among a file's."""
    return bisect_right(offsets, file.last_offset) - bisect_left(offsets, file.first_offset)


def _span(file: DataFile) -> str:
    return f"offsets {file.first_offset} to {file.last_offset}"


def expected_etag(file: DataFile) -> str | None:
    """The ETag that an object's uploaded parts make; None where the store issues ETags of its own."""
    try:
        return etag_of(file.upload.parts)
    except ValueError:
        return None


def _some(offsets: Sequence[int]) -> str:
    shown = ", ".join(map(str, offsets[:SHOWN]))
    return shown + (f" and {len(offsets) - SHOWN} more" if len(offsets) > SHOWN else "")
