"""How does somebody who does not own the log have objects take the place of others? By a request, which its owner turns into an entry.

Only the driver that owns the log writes entries, so that nothing else has to be proven of them. Whoever has made objects from others (a
`compact` in another process, say) leaves their uploads uncompleted, and puts a request beside the log: the entry as it shall be, with the
last version that its maker knew. The owner compares it with the entries since (`obstacle`) and either commits it or ends its uploads. A
request may be looked at by several drivers, one of them being replaced: an obstacle once found is one for all, and an entry with the
request's id says that it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import ObjectMissing, PreconditionFailed
from kafka_s3.model.files import DataFile
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.store.store import ObjectStore


class RequestState(StrEnum):
    """What is to become of a request."""

    OPEN = "open"
    DONE = "done"
    REFUSED = "refused"


def ask_for_rewrite(store: ObjectStore, paths: StatePaths, entry: CommitEntry) -> None:
    """Asks for an entry of kind rewrite, whose `version` is the last one that its maker knew. Raises StorageError."""
    with suppress(PreconditionFailed):  # nobody else has its id: the answer was lost
        store.put_new(paths.rewrite_request(entry.commit_id), entry.to_json())


def rewrite_requests(store: ObjectStore, paths: StatePaths) -> Iterator[tuple[str, CommitEntry]]:
    """The requests that are there, with their keys; their uploads are left alone by whoever cannot commit them.

    Raises LogDamaged, StorageError.
    """
    for info in store.list(paths.rewrite_requests()):
        try:
            entry = read_entry(store.get(info.key), key=info.key)
        except ObjectMissing:  # its owner was faster
            continue
        yield info.key, replace(entry, files=tuple(_inherited(file) for file in entry.files))


def _inherited(file: DataFile) -> DataFile:
    return replace(file, upload=replace(file.upload, inherited=True))


def judge_request(request: CommitEntry, since: Iterable[CommitEntry]) -> tuple[RequestState, str]:
    """What is to become of a request, and why it is refused; `since` are all entries behind the version that its maker knew."""
    entries = list(since)
    if any(entry.commit_id == request.commit_id for entry in entries):
        return RequestState.DONE, ""
    why = next(filter(None, (_obstacle(request, entry) for entry in entries)), "")
    return (RequestState.REFUSED, why) if why else (RequestState.OPEN, "")


def _obstacle(request: CommitEntry, entry: CommitEntry) -> str:
    """Why a request does not hold any more after an entry, blank where it does."""
    mine = {tp for swap in request.swaps for tp in swap.topic_partitions}
    if entry.kind is EntryKind.REWRITE:
        taken = {key for swap in entry.swaps for key in swap.keys}
        both = [key for swap in request.swaps for key in swap.keys if key in taken]
        return f"Entry {entry.version} has replaced {both[0]} already." if both else ""
    if entry.kind is EntryKind.REPLAY and entry.files:
        erased = [tp for tp, offsets in entry.resolved.items() if offsets.overlaps(request.erased.get(tp, OffsetSet()))]
        return (
            f"Entry {entry.version} has replayed dead letters of {erased[0]} that are to be erased." if erased else ""
        )
    moved = _moved(entry) & mine
    return f"Entry {entry.version} has set the position of {min(moved)}." if moved else ""


def _moved(entry: CommitEntry) -> set[TopicPartition]:
    """The topic-partitions whose earlier objects may count no more after an entry."""
    moved = {gap.topic_partition for gap in entry.gaps}
    if entry.kind is EntryKind.POSITION:
        moved |= set(entry.progress)
    topics = {topic for topic, topic_id in entry.topic_ids.items() if topic_id}
    return moved | {tp for tp in entry.progress if tp.topic in topics}


def originals(entry: CommitEntry, topic_partitions: Iterable[TopicPartition]) -> Sequence[str]:
    """The keys of the objects of these topic-partitions that an entry of kind rewrite has replaced."""
    wanted = set(topic_partitions)
    return list(dict.fromkeys(key for swap in entry.swaps for key in swap.keys_of(wanted)))
