"""Do log, objects and Kafka say the same? The comparisons; pure, nothing is asked here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafka_s3.engine.log.fold import Segment
from kafka_s3.model.files import DataFile, Role
from kafka_s3.ops.verify.claims import REPORT_IT
from kafka_s3.ops.verify.digests import Digest
from kafka_s3.ops.verify.expected import Row
from kafka_s3.ops.verify.findings import Finding, FindingKind
from kafka_s3.ops.verify.form import Letter, ObjectCount
from kafka_s3.store.store import ObjectInfo, etag_of

AGAIN = "Restore it from a bucket version, or write its offsets again with a new sink name while Kafka has them."
SHOWN = 5


@dataclass(frozen=True, slots=True)
class SegmentRecords:
    """Kafka's records in a segment. `whole` is False where Kafka may have removed some: compaction, retention, truncation."""

    rows: Sequence[Row]
    whole: bool


def check_info(
    file: DataFile, info: ObjectInfo | None, *, pending: bool = False, opaque: bool = False
) -> list[Finding]:
    """Whether a claimed object is there as it was uploaded. `pending`: its upload can still be completed; `opaque`: ETags tell nothing."""
    if info is None:
        offsets = f"offsets {file.first_offset} to {file.last_offset} of {file.topic_partition}"
        way = "Its upload is still pending: start the sink, which completes it." if pending else AGAIN
        return [
            Finding(
                FindingKind.MISSING_OBJECT,
                file.key,
                f"The log claims it for {offsets}, but it is not in the bucket. {way}",
            )
        ]
    if info.size != file.bytes:
        return [
            Finding(
                FindingKind.WRONG_SIZE,
                file.key,
                f"It has {info.size} bytes, the log claims {file.bytes}: it was overwritten. {AGAIN}",
            )
        ]
    expected = expected_etag(file)
    if expected is None or opaque or info.etag == expected:
        return []
    what = f"Its ETag is {info.etag}, its uploaded parts make {expected}"
    text = f"{what}: it was overwritten, copied or made again. Compare it with a bucket version."
    return [Finding(FindingKind.WRONG_ETAG, file.key, text)]


def check_reading(file: DataFile, reading: ObjectCount) -> list[Finding]:
    """Whether an object holds as many records as claimed."""
    count = reading.count
    if count is None or count == file.records or (reading.at_least and count > file.records):
        return []
    return [
        Finding(FindingKind.WRONG_COUNT, file.key, f"It holds {count} records, the log claims {file.records}. {AGAIN}")
    ]


def check_letters(file: DataFile, letters: Sequence[Letter]) -> Iterator[Finding]:
    """Whether a dead letter file holds the letters that are claimed, each once."""
    if len(letters) != file.records:
        yield Finding(
            FindingKind.WRONG_COUNT,
            file.key,
            f"It holds {len(letters)} dead letters, the log claims {file.records}. {AGAIN}",
        )
    strangers = [letter for letter in letters if (letter.topic, letter.partition) != file.topic_partition]
    outside = [letter for letter in letters if not file.first_offset <= letter.offset <= file.last_offset]
    if strangers or outside:
        what = f"{len(strangers)} of another topic-partition, {len(outside)} outside offsets {file.first_offset} to {file.last_offset}"
        yield Finding(
            FindingKind.WRONG_CONTENT, file.key, f"Some of its dead letters are not those claimed: {what}. {AGAIN}"
        )
    twice = [offset for offset, count in Counter(letter.offset for letter in letters).items() if count > 1]
    if twice:
        yield Finding(FindingKind.TWICE, file.key, f"It holds offsets {_some(twice)} more than once. {REPORT_IT}")


def check_room(segment: Segment, dead: int) -> list[Finding]:
    """Whether the claims fit the offsets, where Kafka cannot be asked."""
    room, claimed = segment.until - segment.start, segment.written + segment.skipped + dead
    if claimed <= room or not segment.sure:
        return []
    return [Finding(FindingKind.TWICE, str(segment), f"{claimed} records are claimed for {room} offsets. {REPORT_IT}")]


def check_count(segment: Segment, evidence: SegmentRecords, *, dead: int) -> list[Finding]:
    """Whether as many records are claimed as Kafka has; `dead` are the dead letters with offsets in the segment."""
    found, claimed = len(evidence.rows), segment.written + segment.skipped + dead
    parts = f"{segment.written} written, {dead} dead letters, {segment.skipped} skipped"
    if not segment.sure or found == claimed:
        return []
    if found > claimed:
        text = (
            f"Kafka has {found} records, the log accounts for {claimed} ({parts}): {found - claimed} are lost. {AGAIN}"
        )
        return [Finding(FindingKind.NOT_ACCOUNTED, str(segment), text)]
    if not evidence.whole:
        return []
    text = f"Kafka has {found} records, the log claims {claimed} ({parts}): {claimed - found} are counted twice. {REPORT_IT}"
    return [Finding(FindingKind.TWICE, str(segment), text)]


def check_content(
    segment: Segment, evidence: SegmentRecords, *, dead: frozenset[int], contents: Mapping[str, Counter[Digest]]
) -> Iterator[Finding]:
    """Whether the objects' values are those of Kafka's records, each once. `contents` are the digests of the objects that were read."""
    live = [row for row in evidence.rows if row.offset not in dead]
    places: dict[Digest, list[int]] = {}
    for row in live:
        for found in row.digests or ():
            places.setdefault(found, []).append(row.offset)
    unknown = [row.offset for row in live if row.digests is None]
    wrong = False
    for file in segment.data:
        if evidence.whole and file.key in contents:
            strange = _strange(file, contents[file.key], places) - (
                bisect_right(unknown, file.last_offset) - bisect_left(unknown, file.first_offset)
            )
            if strange > 0:
                wrong = True
                where = f"offsets {file.first_offset} to {file.last_offset}"
                text = f"{strange} of its {file.records} values are not those of Kafka's {where}, or too many. {AGAIN}"
                yield Finding(FindingKind.WRONG_CONTENT, file.key, text)
    if all(file.key in contents for file in segment.data if file.role is Role.VALUE):
        yield from _missing(segment, live, places, contents)
        if evidence.whole and not wrong:
            yield from _doubled(segment, places, len(unknown), contents)


def _strange(file: DataFile, content: Counter[Digest], places: Mapping[Digest, list[int]]) -> int:
    """Values of an object beyond those that Kafka has in the object's offsets."""
    strange = 0
    for found, count in content.items():
        offsets = places.get(found, ())
        strange += max(count - (bisect_right(offsets, file.last_offset) - bisect_left(offsets, file.first_offset)), 0)
    return strange


def _missing(
    segment: Segment, live: Sequence[Row], places: Mapping[Digest, list[int]], contents: Mapping[str, Counter[Digest]]
) -> Iterator[Finding]:
    """Kafka's values that are in no object, beyond the skips that are not null values."""
    total: Counter[Digest] = Counter()
    for file in segment.data:
        total.update(contents.get(file.key, ()))
    missing = sorted({offsets[-1 - n] for found, offsets in places.items() for n in range(len(offsets) - total[found])})
    without_value = segment.skipped + sum(file.records for file in segment.data if file.role is not Role.VALUE)
    spare = max(without_value - sum(row.null for row in live), 0)
    if len(missing) > spare and segment.sure:
        text = f"The values at offsets {_some(missing)} are in none of the segment's objects, dead letters or skips. {AGAIN}"
        yield Finding(FindingKind.NOT_ACCOUNTED, str(segment), text)


def _doubled(
    segment: Segment, places: Mapping[Digest, list[int]], unknown: int, contents: Mapping[str, Counter[Digest]]
) -> Iterator[Finding]:
    total: Counter[Digest] = Counter()
    for file in segment.data:
        total.update(contents.get(file.key, ()))
    doubled = {found: count - len(places.get(found, ())) for found, count in total.items()}
    surplus = sum(count for count in doubled.values() if count > 0)
    if surplus > unknown:
        offsets = sorted(places[found][0] for found, count in doubled.items() if count > 0 and found in places)
        text = f"{surplus} values are in the segment's objects more often than in Kafka (offsets {_some(offsets)}). {REPORT_IT}"
        yield Finding(FindingKind.TWICE, str(segment), text)


def expected_etag(file: DataFile) -> str | None:
    """The ETag that an object's uploaded parts make; None where the store issues ETags of its own."""
    try:
        return etag_of(file.upload.parts)
    except ValueError:
        return None


def _some(offsets: Sequence[int]) -> str:
    shown = ", ".join(map(str, offsets[:SHOWN]))
    return shown + (f" and {len(offsets) - SHOWN} more" if len(offsets) > SHOWN else "")
