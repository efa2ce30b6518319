"""What does a commit entry say? The log's record of what happened, and its JSON form (`formats`)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from kafka_s3.engine.log.formats import (
    PLAIN_FORMAT,
    REWRITE_FORMAT,
    SLICES_FORMAT,
    WAITING_FORMAT,
    check_format,
    format_members,
)
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import DataFile, DeadLetterCount, Reason, Role, Slice, Totals, Upload
from kafka_s3.model.offsets import Gap, LogEnd, OffsetSet, TopicPartition

LAST_OFFSET: Final = 2**63 - 1


class EntryKind(StrEnum):
    """What an entry records: data written, a driver taking over, a position set by hand, dead letters settled by hand, or objects that take
    the place of others.
    """

    DATA = "data"
    EPOCH = "epoch"
    POSITION = "position"
    REPLAY = "replay"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class Progress:
    """The position of a topic-partition after an entry.

    `frontier` is the next offset to write; `written` one past the last record in an object (None: none yet), which is what the original
    would commit to its group; `recorded` the dead letters at or after the frontier. `leader_epoch` is one that the log had when it reached
    to all of this or beyond (None: not known): another one shows that it was cut since and has grown again.
    """

    frontier: int
    written: int | None = None
    recorded: OffsetSet = field(default_factory=OffsetSet)
    leader_epoch: int | None = None

    @property
    def to_read(self) -> OffsetSet:
        """The offsets that are read from here on: all from the frontier on but the recorded ones."""
        ranges, start = [], self.frontier
        for first, last in self.recorded.since(start).ranges:
            if first > start:
                ranges.append((start, first - 1))
            start = last + 1
        return OffsetSet((*ranges, (start, LAST_OFFSET)))

    def within(self, end: LogEnd | None) -> Progress:
        """The same with the leader epoch of a log, with none where that is not known to reach to all of this."""
        reached = end is not None and max(self.frontier, self.recorded.until) <= end.offset
        return dataclasses.replace(self, leader_epoch=end.epoch if end is not None and reached else None)


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A file of an earlier entry, with that entry's version, whose upload could not be completed yet."""

    version: int
    file: DataFile


@dataclass(frozen=True, slots=True)
class Swap:
    """Objects of a topic-partition, `keys` in the order of their records, in whose place is one other, `by`; blank: nothing is left.

    `records` and `bytes` are the originals'; `digest` is that of the records of `by`, whatever their order, blank where there are none.
    `dropped` are the rows of the originals, from 0, that `by` does not hold, or holds without any content (dead letters).

    Where the originals have several topic-partitions, `partitions` says which ones each of them has, and `topic_partition` is the first.
    """

    topic_partition: TopicPartition
    keys: tuple[str, ...]
    by: str
    records: int
    digest: str = ""
    dropped: OffsetSet = field(default_factory=OffsetSet)
    bytes: int = 0
    partitions: tuple[tuple[int, ...], ...] = ()

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        """Those whose records the originals hold."""
        numbers = {one for some in self.partitions for one in some} or {self.topic_partition.partition}
        return tuple(TopicPartition(self.topic_partition.topic, number) for number in sorted(numbers))

    def keys_of(self, topic_partitions: Set[TopicPartition]) -> tuple[str, ...]:
        """The keys of the originals that hold records of some of these."""
        if not self.partitions:
            return self.keys if self.topic_partition in topic_partitions else ()
        topic, pairs = self.topic_partition.topic, zip(self.keys, self.partitions, strict=True)
        return tuple(key for key, some in pairs if any(TopicPartition(topic, n) in topic_partitions for n in some))


@dataclass(frozen=True, slots=True)
class Erasure:
    """What the log keeps of an erasure beside its offsets: when it was asked for, a salt, a hash of the salt and each subject, and how many
    records and dead letters of each topic-partition are gone. Never a key or a value.
    """

    asked_at: str
    salt: str
    subjects: tuple[str, ...]
    records: Mapping[TopicPartition, int] = field(default_factory=dict)
    letters: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """One entry of the log. `progress` holds the topic-partitions that this entry changes; the log's state is their sum.

    `waiting` are files of earlier entries that were not visible yet when this one was written, so that the last entry names all
    uploads that may still have to be completed.

    In every entry `totals.read = written + dead_letters + skipped`. An entry of kind replay reads nothing: `resolved` are the dead letters
    that it moves to its files or, with no files and a `reason`, to the skipped ones, so its counts of dead letters are negative.

    An entry of kind rewrite reads and writes no record, so that its totals are zero: its `files` take the place of others as `swaps` say,
    and `erased` are the offsets whose records are in no object any more, as far as they are known. `erasure` says why. `deleted` are
    earlier entries of that kind whose originals are gone.
    """

    version: int
    commit_id: str
    epoch: int
    sink: str
    kind: EntryKind
    committed_at: str
    cluster_id: str = ""
    progress: Mapping[TopicPartition, Progress] = field(default_factory=dict)
    files: tuple[DataFile, ...] = ()
    dead_letters: Mapping[TopicPartition, DeadLetterCount] = field(default_factory=dict)
    skipped: Mapping[TopicPartition, int] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    driver: str = ""
    resolved: Mapping[TopicPartition, OffsetSet] = field(default_factory=dict)
    reason: str = ""
    waiting: tuple[WaitingFile, ...] = ()
    swaps: tuple[Swap, ...] = ()
    erased: Mapping[TopicPartition, OffsetSet] = field(default_factory=dict)
    deleted: tuple[int, ...] = ()
    erasure: Erasure | None = None

    @property
    def form(self) -> int:
        """The oldest form that can say what the entry says."""
        if any(file.slices for file in self.uncompleted) or any(swap.partitions for swap in self.swaps):
            return SLICES_FORMAT
        if self.kind is EntryKind.REWRITE:
            return REWRITE_FORMAT
        return WAITING_FORMAT if self.waiting else PLAIN_FORMAT

    @property
    def uncompleted(self) -> tuple[DataFile, ...]:
        """All files whose uploads may still be pending while this entry is the last one."""
        return (*self.files, *(one.file for one in self.waiting))

    def with_waiting(self, version: int, files: Iterable[DataFile]) -> CommitEntry:
        """The entry with these in place of the waiting files of that version and the same keys."""
        by_key = {(version, file.key): file for file in files}
        waiting = (replace(one, file=by_key.get((one.version, one.file.key), one.file)) for one in self.waiting)
        return replace(self, waiting=tuple(waiting))

    def to_json(self) -> bytes:
        """The entry as stored."""
        plain = ("version", "commit_id", "epoch", "sink", "kind", "committed_at", "cluster_id")
        progress = self.progress.items()
        epochs = {tp: p.leader_epoch for tp, p in progress if p.leader_epoch is not None}
        document = {
            **format_members(self.form),
            **{name: getattr(self, name) for name in plain},
            "frontier": _by_topic({tp: p.frontier for tp, p in progress}),
            "written": _by_topic({tp: p.written for tp, p in progress if p.written is not None}),
            "recorded": _by_topic({tp: p.recorded.ranges for tp, p in progress if p.recorded.ranges}),
            "leader_epochs": _by_topic(epochs),
            "files": [file_document(file) for file in self.files],
            "dead_letters": {str(tp): dataclasses.asdict(count) for tp, count in self.dead_letters.items()},
            "skipped": {str(tp): count for tp, count in self.skipped.items()},
            "gaps": [
                {"topic": g.topic, "partition": g.partition, "from": g.first, "to": g.last, "cause": g.cause}
                for g in self.gaps
            ],
            "topic_ids": dict(self.topic_ids),
            "totals": dataclasses.asdict(self.totals),
            "driver": self.driver,
        }
        if self.kind is EntryKind.REPLAY:
            resolved = {tp: offsets.ranges for tp, offsets in self.resolved.items()}
            document |= {"resolved": _by_topic(resolved), "reason": self.reason}
        if self.kind is EntryKind.REWRITE:
            document |= {
                "swaps": [swap_document(swap) for swap in self.swaps],
                "erased": _by_topic({tp: offsets.ranges for tp, offsets in self.erased.items()}),
                "deleted": self.deleted,
                "reason": self.reason,
            }
            if self.erasure is not None:
                document["erasure"] = _erasure_document(self.erasure)
        if self.waiting:
            document["waiting"] = [{"version": one.version, **file_document(one.file)} for one in self.waiting]
        return json.dumps(document, separators=(",", ":")).encode()


def read_entry(content: bytes, *, key: str) -> CommitEntry:
    """An entry from its stored form. Raises LogDamaged with the key where it cannot be read, or was written by a later version."""
    try:
        document = json.loads(content)
        check_format(document, f"Commit entry {key}")
        return _entry(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(
            f"Commit entry {key} is damaged ({type(error).__name__}: {error}). Restore the object from a bucket version or backup."
        ) from error


def _entry(document: dict[str, Any]) -> CommitEntry:
    written, recorded = _flat(document["written"]), _flat(document["recorded"])
    epochs = _flat(document.get("leader_epochs", {}))
    progress = {
        tp: Progress(frontier, written.get(tp), _offsets(recorded.get(tp, ())), epochs.get(tp))
        for tp, frontier in _flat(document["frontier"]).items()
    }
    return CommitEntry(
        version=document["version"],
        commit_id=document["commit_id"],
        epoch=document["epoch"],
        sink=document["sink"],
        kind=EntryKind(document["kind"]),
        committed_at=document["committed_at"],
        cluster_id=document["cluster_id"],
        progress=progress,
        files=tuple(file_of(file) for file in document["files"]),
        dead_letters={parse_name(name): DeadLetterCount(**count) for name, count in document["dead_letters"].items()},
        skipped={parse_name(name): count for name, count in document["skipped"].items()},
        gaps=tuple(Gap(g["topic"], g["partition"], g["from"], g["to"], g["cause"]) for g in document["gaps"]),
        topic_ids=document["topic_ids"],
        totals=Totals(**document["totals"]),
        driver=document.get("driver", ""),
        resolved={tp: _offsets(ranges) for tp, ranges in _flat(document.get("resolved", {})).items()},
        reason=document.get("reason", ""),
        waiting=tuple(WaitingFile(file.pop("version"), file_of(file)) for file in document.get("waiting", ())),
        swaps=tuple(_swap(swap) for swap in document.get("swaps", ())),
        erased={tp: _offsets(ranges) for tp, ranges in _flat(document.get("erased", {})).items()},
        deleted=tuple(document.get("deleted", ())),
        erasure=_erasure(document["erasure"]) if "erasure" in document else None,
    )


def committed_ms(entry: CommitEntry) -> int:
    """Return when an entry was committed, epoch ms."""
    return iso_ms(entry.committed_at)


def iso_ms(text: str) -> int:
    """Return a time of the log, ISO 8601, as epoch ms."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def swap_document(swap: Swap) -> dict[str, Any]:
    """A swap in its JSON form."""
    topic, partition = swap.topic_partition
    plain = {name: getattr(swap, name) for name in ("keys", "by", "records", "bytes", "digest")}
    dropped = {"dropped": swap.dropped.ranges} if swap.dropped.ranges else {}
    several = {"partitions": swap.partitions} if swap.partitions else {}
    return {"topic": topic, "partition": partition} | plain | dropped | several


def _swap(document: dict[str, Any]) -> Swap:
    plain = {name: document[name] for name in ("by", "records", "digest")}
    of, dropped = TopicPartition(document["topic"], document["partition"]), _offsets(document.get("dropped", ()))
    several = tuple(tuple(some) for some in document.get("partitions", ()))
    size = document.get("bytes", 0)
    return Swap(of, tuple(document["keys"]), **plain, dropped=dropped, bytes=size, partitions=several)


def _erasure_document(erasure: Erasure) -> dict[str, Any]:
    counts = {name: _by_topic(getattr(erasure, name)) for name in ("records", "letters")}
    return {"asked_at": erasure.asked_at, "salt": erasure.salt, "subjects": erasure.subjects} | counts


def _erasure(document: dict[str, Any]) -> Erasure:
    counts = {name: _flat(document[name]) for name in ("records", "letters")}
    return Erasure(document["asked_at"], document["salt"], tuple(document["subjects"]), **counts)


SORTED: Final = "sorted_by"
SLICES: Final = "slices"
FILE: Final = tuple(one.name for one in dataclasses.fields(DataFile) if one.name not in (SORTED, SLICES, "place"))
UPLOAD: Final = tuple(one.name for one in dataclasses.fields(Upload) if one.name not in ("inherited", "token"))


def file_document(file: DataFile) -> dict[str, Any]:
    """A file in its JSON form. Who began its upload is no matter of the log."""
    upload = {name: getattr(file.upload, name) for name in UPLOAD}
    if file.upload.token:
        upload["token"] = file.upload.token
    order = {SORTED: file.sorted_by} if file.sorted_by else {}
    slices = {SLICES: [dataclasses.astuple(one) for one in file.slices]} if file.slices else {}
    return {name: getattr(file, name) for name in FILE} | {"upload": upload} | order | slices


def file_of(document: dict[str, Any]) -> DataFile:
    """A file from its JSON form, or from that of a task's report."""
    upload = document["upload"]
    parts, begun = tuple(upload["parts"]), (upload.get("token", ""), upload.get("inherited", False))
    made = Upload(upload["key"], upload["id"], parts, upload["size"], *begun)
    enums = {"reason": Reason(document["reason"]), "role": Role(document["role"])}
    slices = {SLICES: tuple(Slice(*one) for one in document.get(SLICES, ()))}
    return DataFile(**{**document, **enums, **slices, "upload": made})


def parse_name(name: str) -> TopicPartition:
    """`topic-partition` back to its parts."""
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


def _offsets(ranges: Iterable[Iterable[int]]) -> OffsetSet:
    return OffsetSet(tuple((first, last) for first, last in ranges))


def _by_topic(values: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    grouped: dict[str, dict[str, Any]] = {}
    for (topic, partition), value in values.items():
        grouped.setdefault(topic, {})[str(partition)] = value
    return grouped


def _flat(grouped: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, Any]:
    return {TopicPartition(t, int(p)): value for t, partitions in grouped.items() for p, value in partitions.items()}
