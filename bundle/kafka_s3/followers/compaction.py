"""Which objects are better one, and how do they become it? Small files of a directory, and their sidecars with them.

A *file* is an object of values with its sidecars. Merged are files of one topic-partition and one directory that follow one another in
their offsets and have the same schema, until they reach the target size; where that is asked for, those of all topic-partitions of a topic,
one behind the other. Left alone is what is large enough, what has records between those of another, and what is sorted, or has several
topic-partitions, where that is not asked for. The objects are made here and their uploads not completed; a request (`engine.log.rewrites`)
asks the log's owner for the rest.

Before it is put, the records of each new object are proven to be those of its originals (`objects.merging`), and nothing else than the log
counts. Memory holds the originals of one object and the object.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from kafka_s3.connect.naming.keys import LONGEST_KEY, DataKeys, fits_in_name, rewritten_key
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Swap
from kafka_s3.engine.log.fold import LiveObject, group_by_file, live_objects
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.remade import Remade
from kafka_s3.engine.log.rewrites import ask_for_rewrite, rewrite_requests
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers.done_markers import OpenDirectory
from kafka_s3.model.errors import ObjectArchived, ObjectMissing, OffsetsLost, SinkError
from kafka_s3.model.files import DataFile, Reason, Role, Slice, Upload, join_slices, slices_of
from kafka_s3.model.offsets import OffsetSet
from kafka_s3.model.process import ThreadPool
from kafka_s3.objects.erasing import drop_rows, redacted_letters
from kafka_s3.objects.merging import (
    MERGED,
    KindsDiffer,
    MergeRefused,
    RowDigest,
    columns_to_sort,
    digest_rows,
    merge_objects,
)
from kafka_s3.store.store import ObjectStore, abort_uploads, begin_upload

COMPACTION: Final = "compaction"
LETTERS: Final = ".jsonl.gz"
ROLES: Final = (Role.VALUE, Role.KEY, Role.HEADER)
FETCHES: Final = 8
MOST_CUTS: Final = 16
"""So often a merge is cut where schemas change, before the rest of it is left as it is."""
MAX_MS: Final = 1 << 62
MOST_SWAPS: Final = 500
"""Objects that one entry puts in the place of others, about."""


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """What is compacted: files of these topics (empty: all) in directories that begin so, committed before `until_ms`, to objects of about
    `target_bytes`. With `keys` only files whose values are in these objects. `sort_by` are columns of Parquet by which rows are sorted.
    `across`: files of all topic-partitions of a topic may become one.
    """

    target_bytes: int
    until_ms: int
    topics: frozenset[str] = frozenset()
    directory: str = ""
    keys: Set[str] | None = None
    sort_by: tuple[str, ...] = ()
    across: bool = False

    def takes(self, one: LiveObject) -> bool:
        """Whether an object may be merged with others."""
        file = one.file
        return (
            one.is_whole
            and (not file.slices or self.across)
            and file.role in ROLES
            and file.format in MERGED
            and (not file.sorted_by or bool(self.sort_by))
            and (not self.topics or file.topic in self.topics)
            and file.encoded_partition.startswith(self.directory)
            and datetime.fromisoformat(one.committed_at).timestamp() * 1000 < self.until_ms
        )


@dataclass(frozen=True, slots=True)
class Merge:
    """Files that become one: the objects of each role, in the order of their offsets; as many of every role. `sort_by` are the columns by
    which the rows of the new object are sorted.
    """

    objects: Mapping[Role, tuple[DataFile, ...]]
    sort_by: tuple[str, ...] = ()

    @property
    def first(self) -> DataFile:
        """The first object of all."""
        return next(iter(self.objects.values()))[0]

    @property
    def files(self) -> int:
        """How many files become one."""
        return len(next(iter(self.objects.values())))

    @property
    def records(self) -> int:
        """How many records they hold."""
        return sum(file.records for file in next(iter(self.objects.values())))

    @property
    def bytes(self) -> int:
        """How large all their objects are."""
        return sum(file.bytes for files in self.objects.values() for file in files)

    def cut(self, at: int) -> list[Merge]:
        """Those before a file, and those from it on, where they are several."""
        parts = (
            {role: files[:at] for role, files in self.objects.items()},
            {role: files[at:] for role, files in self.objects.items()},
        )
        return [one for one in (Merge(part, self.sort_by) for part in parts) if one.files > 1]


_File = dict[Role, DataFile]
_Directory = tuple[str, int, str, str]
ALL: Final = -1
"""In place of the number of a Kafka partition."""


def plan_merges(live: Iterable[LiveObject], rules: CompactionRules) -> list[Merge]:
    """Which files become one. `live` are the objects of a log that count."""
    directories: dict[_Directory, list[_File]] = {}
    for parts in group_by_file(filter(rules.takes, live)):
        file = {role: one.file for role, one in parts.items()}
        first = next(iter(file.values()))
        partition = ALL if rules.across else first.partition
        directory = (first.topic, partition, first.key.rpartition("/")[0], first.encoded_partition)
        if rules.keys is None or (Role.VALUE in file and file[Role.VALUE].key in rules.keys):
            directories.setdefault(directory, []).append(file)
    merges = [merge for _, files in sorted(directories.items()) for merge in _merges(files, rules.target_bytes)]
    return [replace(one, sort_by=rules.sort_by) if _is_sortable(one) else one for one in merges]


def _is_sortable(merge: Merge) -> bool:
    """Rows of sidecars are in the order of their values."""
    return set(merge.objects) == {Role.VALUE} and merge.first.format == "parquet"


def _merges(files: Iterable[_File], target: int) -> Iterator[Merge]:
    held = _Held()
    for file in sorted(files, key=_first_place):
        if held.files and not held.takes(file, target):
            yield from held.merge()
            held = _Held()
        held.add(file)
    yield from held.merge()


def _first_place(file: _File) -> tuple[int, int]:
    first = next(iter(file.values()))
    return first.partition, first.first_offset


@dataclass(slots=True)
class _Held:
    """Files that become one, as they are found: their size, the last offset of each partition, and what a name has to say of each role."""

    files: list[_File] = field(default_factory=list)
    _size: int = 0
    _ends: dict[int, int] = field(default_factory=dict)
    _slices: dict[Role, tuple[Slice, ...]] = field(default_factory=dict)

    def takes(self, file: _File, target: int) -> bool:
        """Whether a file can be put behind them: its kind is theirs, its offsets follow theirs, and there is room, in the name, too."""
        follows = all(self._ends.get(one.partition, -1) < one.first_offset for one in _slices_of_all(file))
        alike = _kind(self.files[-1]) == _kind(file)
        return alike and follows and self._size + _size_of(file) <= target and self._can_be_named(file)

    def _can_be_named(self, file: _File) -> bool:
        both = ((first.key, self._with(file, role)) for role, first in self.files[0].items())
        return all(len(slices) == 1 or fits_in_name(key, slices) for key, slices in both)

    def _with(self, file: _File, role: Role) -> tuple[Slice, ...]:
        return join_slices([*self._slices.get(role, ()), *slices_of(file[role])])

    def add(self, file: _File) -> None:
        """Takes a file in."""
        self.files.append(file)
        self._size += _size_of(file)
        self._slices = {role: self._with(file, role) for role in file}
        for one in _slices_of_all(file):
            self._ends[one.partition] = max(one.last_offset, self._ends.get(one.partition, -1))

    def merge(self) -> Iterator[Merge]:
        """What becomes of them: nothing of a single one."""
        if len(self.files) > 1:
            yield Merge({role: tuple(file[role] for file in self.files) for role in ROLES if role in self.files[0]})


def _size_of(file: _File) -> int:
    return sum(one.bytes for one in file.values())


def _slices_of_all(file: _File) -> Iterator[Slice]:
    return (one for role in file.values() for one in slices_of(role))


def _kind(file: _File) -> list[tuple[Role, str, str]]:
    return sorted((role, one.format, one.schema) for role, one in file.items())


@dataclass(frozen=True, slots=True)
class Compactor:
    """Makes one object from several. `separator` is that of separated bytes, `part_size` in bytes, `width` that of offsets in keys."""

    store: ObjectStore
    keys: DataKeys
    separator: bytes
    part_size: int
    width: int

    def merged(self, merge: Merge, *, rewrite: str) -> tuple[list[DataFile], list[Swap]]:
        """The new objects, their uploads not completed, and what they take the place of. Raises MergeRefused, StorageError."""
        files, swaps = list[DataFile](), list[Swap]()
        try:
            for originals in merge.objects.values():
                content, digest, order = self.content_of(originals, merge.sort_by)
                about = self.named(_about(originals, content, order=order), rewrite)
                files.append(replace(about, upload=begin_upload(self.store, about.key)))
                files[-1] = self._sent(files[-1], content)
                keys = tuple(file.key for file in originals)
                size = sum(file.bytes for file in originals)
                swap = Swap(about.topic_partition, keys, about.key, about.records, str(digest), bytes=size)
                swaps.append(replace(swap, partitions=partitions_of(originals)))
        except BaseException:
            abort_uploads(self.store, files)
            raise
        return files, swaps

    def content_of(
        self, originals: Sequence[DataFile], sort_by: Sequence[str]
    ) -> tuple[bytes, RowDigest, tuple[str, ...]]:
        """The object that holds the records of these; their digest, which is proven to be its own; and the columns by which it is sorted.

        Raises MergeRefused, StorageError.
        """
        with ThreadPool(FETCHES) as pool:
            contents = list(pool.each(self.fetched, originals))
        form, before = originals[0].format, RowDigest()
        for file, content in zip(originals, contents, strict=True):
            digest = digest_rows(form, content, separator=self.separator)
            if digest.records != file.records:
                raise MergeRefused(f"{file.key} holds {digest.records} records, the log claims {file.records}.")
            before = before.plus(digest)
        order = columns_to_sort(contents[0], sort_by) if sort_by else ()
        if not order and any(file.sorted_by for file in originals):
            raise MergeRefused("Some of them are sorted, and none of the columns to sort by is theirs.")
        merged = merge_objects(form, contents, sorted_by=order)
        if digest_rows(form, merged, separator=self.separator) != before:
            raise MergeRefused(f"{originals[0].key} and those behind it do not hold the same records as one object.")
        return merged, before, order

    def remake(self, entry: CommitEntry, gone: list[DataFile]) -> Remade:
        """Objects of an entry whose uploads are gone, from their originals. Raises OffsetsLost, StorageError."""
        swaps, made = {swap.by: swap for swap in entry.swaps}, list[DataFile]()
        for file in gone:
            originals = [replace(file, key=key) for key in swaps[file.key].keys]
            try:
                with ThreadPool(FETCHES) as pool:
                    contents = list(pool.each(lambda one: self.store.get(one.key), originals))
                content = self._of_originals(file, contents, swaps[file.key].dropped)
                if self.digest_of(file, content) != swaps[file.key].digest:
                    raise MergeRefused("The originals hold other records than they did.")
            except (MergeRefused, ObjectMissing) as error:
                abort_uploads(self.store, made)
                raise OffsetsLost(
                    f"Commit entry {entry.version} counts {file.key}, whose upload is gone, and it cannot be made again from the objects "
                    f"that it takes the place of: {error} Restore these from bucket versions or a backup."
                ) from error
            again = replace(file, bytes=len(content), upload=begin_upload(self.store, file.key))
            made.append(self._sent(again, content))
        return Remade(made)

    def _of_originals(self, file: DataFile, contents: Sequence[bytes], dropped: OffsetSet) -> bytes:
        """What is in the place of originals, without the rows that are dropped. Raises MergeRefused."""
        if file.role is Role.DEAD_LETTER:
            return redacted_letters(contents[0], dropped)
        content = merge_objects(file.format, contents, sorted_by=file.sorted_by.split(",") if file.sorted_by else ())
        return drop_rows(file.format, content, dropped, separator=self.separator) if dropped.ranges else content

    def digest_of(self, file: DataFile, content: bytes) -> str:
        """The digest of an object's records, in the words of the log. Raises MergeRefused."""
        form = "json" if file.role is Role.DEAD_LETTER else file.format
        return str(digest_rows(form, content, separator=self.separator))

    def upload(self, file: DataFile, content: bytes) -> DataFile:
        """The file with its content uploaded, not completed. Raises StorageError, with nothing left behind."""
        begun = replace(file, upload=begin_upload(self.store, file.key))
        try:
            return self._sent(begun, content)
        except BaseException:
            abort_uploads(self.store, [begun])
            raise

    def named(self, made: DataFile, rewrite: str) -> DataFile:
        """What takes the place of objects, under a name of its own; until then it has that of the first. Raises MergeRefused."""
        key = self._key_of(made, rewrite)
        if len(key.encode("utf-8", "surrogatepass")) > LONGEST_KEY:
            raise MergeRefused(
                f"What takes its place would have a key of more than {LONGEST_KEY} bytes, which S3 does not take: {key}"
            )
        return replace(made, key=key, upload=Upload(key, "", (), made.bytes))

    def _key_of(self, made: DataFile, rewrite: str) -> str:
        first, last = made.key, made.last_offset
        if made.role is Role.DEAD_LETTER:
            return rewritten_key(first, LETTERS, last=last, width=10, rewrite=rewrite)
        named = self.keys.read(first, made.topic) or self.keys.read(first, self.keys.folder_topic(made) or "")
        if named is None:
            raise MergeRefused(f"{first} has no name that these settings give.")
        return rewritten_key(first, named.extension, last=last, width=self.width, rewrite=rewrite, slices=made.slices)

    def fetched(self, file: DataFile) -> bytes:
        """The content of an original. Raises MergeRefused where it is not as large as the log claims, StorageError."""
        content = self.store.get(file.key)
        if len(content) != file.bytes:
            raise MergeRefused(f"{file.key} has {len(content)} bytes, the log claims {file.bytes}.")
        return content

    def _sent(self, file: DataFile, content: bytes) -> DataFile:
        upload = file.upload
        pieces = [content[at : at + self.part_size] for at in range(0, len(content), self.part_size)]
        parts = [
            self.store.upload_part(file.key, upload.id, number, piece) for number, piece in enumerate(pieces, start=1)
        ]
        return replace(file, upload=replace(upload, parts=tuple(parts), size=len(content)))


def partitions_of(originals: Sequence[DataFile]) -> tuple[tuple[int, ...], ...]:
    """Which Kafka partitions each original has, as a swap says it; empty where all have the same one."""
    each = tuple(tuple(tp.partition for tp in file.topic_partitions) for file in originals)
    return each if len({one for some in each for one in some}) > 1 else ()


def _about(originals: Sequence[DataFile], content: bytes, *, order: Sequence[str]) -> DataFile:
    """What is known of the object that takes the place of these, but for its key; its upload is not begun."""
    times = [ms for file in originals for ms in (file.min_timestamp, file.max_timestamp) if ms is not None]
    made = replace(
        originals[0],
        bytes=len(content),
        min_timestamp=min(times, default=None),
        max_timestamp=max(times, default=None),
        reason=Reason.COMPACTION,
        sorted_by=",".join(order),
    )
    return made.holding([one for file in originals for one in slices_of(file)])


Skipped = Callable[[Merge, SinkError], None]
"""Learns which files stay as they are, and why."""


def ask_for_merges(
    compactor: Compactor, paths: StatePaths, merges: Iterable[Merge], *, version: int, by: str, skipped: Skipped
) -> Iterator[CommitEntry]:
    """Makes objects and asks the log's owner to put them in the place of others, some hundred with a request; gives each request.

    The merges were planned when the log's last version was `version`. Raises StorageError.
    """
    request = _new_request(paths, version, by)
    pending = deque((merge, 0) for merge in merges)
    while pending:
        merge, cuts = pending.popleft()
        try:
            files, swaps = compactor.merged(merge, rewrite=request.commit_id[:8])
        except KindsDiffer as error:
            if cuts == MOST_CUTS:  # kinds that take turns would be read again and again
                skipped(merge, error)
            else:
                pending.extendleft((part, cuts + 1) for part in reversed(merge.cut(error.at)))
            continue
        except (MergeRefused, ObjectMissing, ObjectArchived) as error:
            skipped(merge, error)
            continue
        except BaseException:
            abort_uploads(compactor.store, request.files)
            raise
        request = replace(request, files=(*request.files, *files), swaps=(*request.swaps, *swaps))
        if len(request.swaps) >= MOST_SWAPS:
            yield _asked(compactor.store, paths, request)
            request = _new_request(paths, version, by)
    if request.swaps:
        yield _asked(compactor.store, paths, request)


@dataclass(slots=True)
class DirectoryCompaction:
    """Asks for the compaction of directories that are complete, about `most_bytes` at a time; `look` is called when a request is there."""

    compactor: Callable[[], Compactor]
    target_bytes: int
    most_bytes: int
    warn: Callable[[str], None]
    sort_by: tuple[str, ...] = ()
    across: bool = False
    look: Callable[[], None] = lambda: None
    _refused: dict[str, set[str]] = field(default_factory=dict)

    def __call__(self, log: CommitLog, folder: str, found: OpenDirectory) -> bool:
        """Asks for a part of what is to be done in a directory; whether nothing is left. Raises StorageError."""
        refused = self._refused.setdefault(folder, set())
        merges = [one for one in self._merges(log, folder, found) if one.first.key not in refused]
        some = _up_to(merges, self.most_bytes)

        def skipped(merge: Merge, error: SinkError) -> None:
            refused.add(merge.first.key)
            self.warn(f"{merge.files} files from {merge.first.key} on stay as they are: {error}")

        version, by = log.state.version, log.last.driver if log.last is not None else ""
        if list(ask_for_merges(self.compactor(), log.paths, some, version=version, by=by, skipped=skipped)):
            self.look()
        if len(some) < len(merges):
            return False
        del self._refused[folder]
        return True

    def _merges(self, log: CommitLog, folder: str, found: OpenDirectory) -> list[Merge]:
        live = live_objects(log.entries(after=found.first - 1)).values()
        asked = {key for _, one in rewrite_requests(log.store, log.paths) for swap in one.swaps for key in swap.keys}
        own = (one for one in live if one.file.key.rpartition("/")[0] == folder and one.file.key not in asked)
        rules = CompactionRules(self.target_bytes, until_ms=MAX_MS, sort_by=self.sort_by, across=self.across)
        return plan_merges(own, rules)


def _up_to(merges: Sequence[Merge], most: int) -> list[Merge]:
    """The first of them that have so many bytes together, one at least."""
    found, size = list[Merge](), 0
    for merge in merges:
        if found and size + merge.bytes > most:
            break
        found.append(merge)
        size += merge.bytes
    return found


def _new_request(paths: StatePaths, version: int, by: str) -> CommitEntry:
    """Without any objects yet; its epoch and time are those of its owner, later."""
    return CommitEntry(version, str(uuid.uuid4()), 0, paths.sink, EntryKind.REWRITE, "", driver=by, reason=COMPACTION)


def _asked(store: ObjectStore, paths: StatePaths, request: CommitEntry) -> CommitEntry:
    ask_for_rewrite(store, paths, request)
    return request
