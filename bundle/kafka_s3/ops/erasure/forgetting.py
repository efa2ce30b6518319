"""How are the records of some subjects erased from what a sink wrote? Found, rewritten without them, and said in the log.

1. Open files are ended first: of a sink at work by a flush. Where none is at work and some are kept, a run has to end them.
2. The log's objects are searched (`search`). That much is the dry run.
3. Each object with matches is made again without these rows, and the other rows are proven to be as they were. Dead letters keep their
   place and the class of their error, and lose their content.
4. A request (`engine.log.rewrites`) asks the log's owner to put them in the place of the originals, and to note the offsets: records that
   are read again at these are left out. The originals are deleted after `rewrite.grace.ms`.

The offset of a row is known where a file's records fill its offsets. Else Kafka is asked, as long as it has them; where it has not, nobody
can read them again.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.converters.whole_records import RecordDecoder
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText
from kafka_s3.connect.schemas.json_form import to_json
from kafka_s3.engine.control.commands import CommandRequest, ask_flush
from kafka_s3.engine.control.heartbeat import read_heartbeat
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Erasure, Swap
from kafka_s3.engine.log.fold import LogState, live_objects
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.rewrites import ask_for_rewrite
from kafka_s3.engine.open_files.states import HintedState, HintUnusable, OpenFileStates
from kafka_s3.engine.task.batches import converter_input
from kafka_s3.followers.compaction import MOST_SWAPS, Compactor, partitions_of
from kafka_s3.model.errors import CommitError, ConfigError, ObjectMissing, Problem
from kafka_s3.model.files import DataFile, Reason, Slice, slices_of
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.timing import iso_time
from kafka_s3.objects.erasing import check_rows, drop_rows, parse_all_members, read_rows, redacted_letters
from kafka_s3.objects.merging import MergeRefused
from kafka_s3.ops.erasure.search import NONE, Found, LiveFile, Match, Search, live_files
from kafka_s3.ops.erasure.subjects import Subjects
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.ops.rewrites import WAIT_S, RewriteRequests, Warn, check_topics, who
from kafka_s3.run.wiring.delta import written_by_spark
from kafka_s3.run.wiring.followers import compactor_of
from kafka_s3.run.wiring.pipeline import is_block_gzip, make_pipeline, state_paths
from kafka_s3.store.store import ObjectStore, abort_uploads

ERASURE: Final = "erasure"
LOOK_S: Final = 0.5
Converter = Callable[[TopicPartition], RecordDecoder]


class NotReady(CommitError):
    """Records of the sink are where they cannot be searched yet."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search has found up to entry `version`. `lasting`: keys of objects that count no more and are still there; `unsure`: matches
    of topic-partitions whose offsets could not be found out though Kafka still has some of them; `orphans`: how many states of open files
    no driver continues; `named`: how many directories are called by a subject.
    """

    version: int
    found: Found
    lasting: tuple[str, ...] = ()
    unsure: Mapping[TopicPartition, int] = field(default_factory=dict)
    orphans: int = 0
    named: int = 0


@dataclass
class Forgetting:
    """That of one sink. `kafka` None: no broker is asked. Raises ConfigError where its objects do not allow it."""

    settings: Settings
    store: ObjectStore
    subjects: Subjects
    clock_ms: Callable[[], int]
    warn: Warn
    kafka: KafkaRecords | None = None
    topics: frozenset[str] = frozenset()
    wait_s: float = WAIT_S
    log: CommitLog = field(init=False)

    def __post_init__(self) -> None:
        check_erasable(self.settings, self.subjects)
        self.log = CommitLog(self.store, state_paths(self.settings), clock_ms=self.clock_ms)

    def end_open_files(self) -> tuple[str, ...]:
        """Flush the sink at work; return the topic-partitions whose records it could not write.

        Raises NotReady if no sink is at work and open files are kept, or if the flush does not end in time.
        """
        beat = read_heartbeat(self.store, self.log.paths)
        if beat is None or not beat.alive(self.clock_ms()):
            self._check_nothing_kept()
            return ()
        asked = CommandRequest(uuid.uuid4().hex, self.clock_ms(), who())
        ask_flush(self.store, self.log.paths, asked)
        until = time.monotonic() + self.wait_s
        while beat is None or beat.flushed != asked.id:
            if time.monotonic() >= until:
                raise NotReady(
                    f"Sink {self.settings.name} has not written its open files within {self.wait_s:.0f} s; is it paused? Nothing was "
                    "changed; repeat the command once it works."
                )
            time.sleep(LOOK_S)
            beat = read_heartbeat(self.store, self.log.paths)
        return tuple(name for name in beat.unflushed if not self.topics or name.rpartition("-")[0] in self.topics)

    def _kept(self) -> list[HintedState]:
        try:
            return OpenFileStates(self.store, self.log.paths).read_hint()
        except HintUnusable as error:
            raise NotReady(str(error)) from error

    def _count_orphans(self) -> int:
        keys = OpenFileStates(self.store, self.log.paths).keys()  # listed first, as a driver may note one meanwhile
        return len(set(keys) - {one.state.key for one in self._kept()})

    def _check_nothing_kept(self) -> None:
        kept = self._kept()
        if kept:
            names = ", ".join(sorted({str(one.topic_partition) for one in kept})[:5])
            raise NotReady(
                f"Open files of {names} are kept, and cannot be searched. Write them first: kafka-s3 run CONFIG --available-now --flush. "
                "Then repeat the command."
            )

    def search(self) -> Searched:
        """Where the records are. Raises LogDamaged, StorageError, KafkaUnavailable, NotReady, ConfigError for an unknown topic."""
        entries, state = list(self.log.entries()), LogState()
        if entries and entries[-1].waiting:
            raise NotReady(
                "Some committed objects are not visible yet, and cannot be searched. Repeat the command later."
            )
        for entry in entries:
            state = state.after(entry)
        check_topics(self.topics, entries)
        live = live_objects(entries)
        files, letters = live_files(live.values(), state.erased, self.topics)
        most = self.settings.number("writer.memory.bytes") // 4
        found = Search(self.store, self._compactor(), self.subjects, most).run(files, letters)
        unsure = self._find_offsets(found)
        lasting, directories = (
            self._lasting(entries, live, state),
            {m.slice.facts.encoded_partition for m in found.matches},
        )
        named = sum(map(self.subjects.are_named_in, directories))
        return Searched(state.version, found, lasting, unsure, self._count_orphans(), named)

    def _compactor(self) -> Compactor:
        return compactor_of(self.settings, self.store)

    def _lasting(self, entries: Iterable[CommitEntry], live: Mapping[str, Any], state: LogState) -> tuple[str, ...]:
        """Objects that count no more, and that nobody is going to delete."""
        wanted = {f.key: f for e in entries for f in e.files if not self.topics or f.topic in self.topics}
        due = {
            key
            for entry in entries
            if entry.version in state.replaced
            for swap in entry.swaps
            for key in swap.keys_of(state.replaced[entry.version].topic_partitions)
        }
        left = sorted(wanted.keys() - live.keys() - due)
        return tuple(key for key in left if self.store.head(key) is not None)

    # ------------------------------------------------------------ offsets that objects do not say

    def _find_offsets(self, found: Found) -> dict[TopicPartition, int]:
        """Asks Kafka for offsets that files do not say; gives how many records of a topic-partition have none, though it has some."""
        unknown: dict[TopicPartition, list[int]] = {}
        for number, match in enumerate(found.matches):
            if match.offsets is None:
                unknown.setdefault(match.slice.topic_partition, []).append(number)
        unsure: dict[TopicPartition, int] = {}
        for tp, numbers in unknown.items():
            some = [found.matches[number] for number in numbers]
            offsets, whole = self._in_kafka(tp, some)
            for number, match in zip(numbers, some, strict=True):
                facts = match.slice.facts
                own = offsets.since(facts.first_offset).before(facts.last_offset + 1)
                found.matches[number] = replace(match, offsets=own)
            records = sum(len(match.rows) for match in some)
            if not whole and len(offsets) < records:
                unsure[tp] = records
        return unsure

    def _in_kafka(self, tp: TopicPartition, matches: Sequence[Match]) -> tuple[OffsetSet, bool]:
        """The offsets at which Kafka has records of the subjects, among those of some files; and whether it has none of the others."""
        first = min(match.slice.facts.first_offset for match in matches)
        until = max(match.slice.facts.last_offset for match in matches) + 1
        if self.kafka is None:
            return NONE, False
        start = self.kafka.starts([tp]).get(tp)
        if start is None or start >= until:
            return NONE, True
        decoder, found = make_pipeline(self.settings).converter(tp), list[int]()
        for batch in self.kafka.batches(tp, max(first, start), until=until):
            found += self._matching(decoder, batch)
        return OffsetSet.of(found), False

    def _matching(self, decoder: RecordDecoder, batch: Any) -> Iterator[int]:
        if self.subjects.by_key:
            keys = zip(batch.column("offset").to_pylist(), batch.column("key").to_pylist(), strict=True)
            yield from (offset for offset, key in keys if key is not None and self.subjects.has_key(key))
            return
        decoded = decoder.decode_records(*converter_input(batch, envelopes=decoder.needs_envelopes))
        for run in decoded.runs:
            for offset, value in zip(run.offsets.tolist(), _documents(run), strict=True):
                if self.subjects.has_value(value):
                    yield offset

    # ------------------------------------------------------------ erasing

    def run(self, searched: Searched) -> Iterator[CommitEntry]:
        """Erases what was found; gives each entry that says so. Raises NotTaken, CommitError, StorageError; what is in the log stays."""
        owner = RewriteRequests(self.settings, self.log, self.clock_ms, self.warn, self.wait_s)
        for request in self.requests(searched):
            ask_for_rewrite(self.store, self.log.paths, request)
            yield owner.taken(request)

    def check_replays(self, searched: Searched) -> None:
        """Raise NotReady if dead letters were replayed after the search: their objects were not searched."""
        for entry in self.log.entries(after=searched.version):
            if entry.kind is EntryKind.REPLAY and entry.files:
                raise NotReady(
                    f"Entry {entry.version} has replayed dead letters since the search, which ended at entry {searched.version}. "
                    "Repeat the command: it searches them, too."
                )

    def requests(self, searched: Searched) -> Iterator[CommitEntry]:
        """What is to be asked for, the objects uploaded and not completed. Raises StorageError."""
        salt = secrets.token_bytes(16)
        erasure = Erasure(
            iso_time(self.clock_ms()), salt.hex(), tuple(sorted(one.hashed(salt) for one in self.subjects.all))
        )
        for some in _portions(searched.found.matches):
            request = self._request(some, searched.version, erasure)
            if request is not None:
                yield request

    def _request(self, matches: Sequence[Match], version: int, erasure: Erasure) -> CommitEntry | None:
        name, compactor = str(uuid.uuid4()), self._compactor()
        files, swaps, done = list[DataFile](), list[Swap](), list[Match]()
        try:
            for of_file in _by_file(matches):
                try:
                    made = self._rewritten(compactor, of_file, name[:8])
                except (MergeRefused, ObjectMissing) as error:
                    count = sum(len(match.rows) for match in of_file)
                    self.warn(f"{of_file[0].file.facts.key} stays as it is, with {count} records to erase: {error}")
                    continue
                files += made[0]
                swaps += made[1]
                done += of_file
        except BaseException:
            abort_uploads(self.store, files)
            raise
        if not done:
            return None
        paths, offsets = self.log.paths, Found(matches=done).offsets()
        records = _counts(match for match in done if not match.is_letters)
        letters = _counts(match for match in done if match.is_letters)
        return CommitEntry(
            version, name, 0, paths.sink, EntryKind.REWRITE, "", driver=who(), reason=ERASURE,
            files=tuple(files), swaps=tuple(swaps), erased=offsets, erasure=replace(erasure, records=records, letters=letters),
        )  # fmt: skip

    def _rewritten(
        self, compactor: Compactor, matches: Sequence[Match], rewrite: str
    ) -> tuple[list[DataFile], list[Swap]]:
        """The objects of a file without the rows, their uploads not completed, and what they take the place of."""
        files, swaps = list[DataFile](), list[Swap]()
        try:
            for original in matches[0].file.objects.values():
                file, swap = self._object_of(compactor, matches, original, rewrite)
                swaps.append(swap)
                files += [file] if file is not None else []
        except BaseException:
            abort_uploads(self.store, files)
            raise
        return files, swaps

    def _object_of(
        self, compactor: Compactor, matches: Sequence[Match], original: DataFile, rewrite: str
    ) -> tuple[DataFile | None, Swap]:
        content, of = compactor.fetched(original), matches[0]
        if of.is_letters:
            made, dropped = redacted_letters(content, of.rows), of.rows
            about = replace(original, bytes=len(made), reason=Reason.DEAD_LETTER)
        else:
            made, dropped = _without(compactor, matches, original, content)
            about = replace(_with_rows(original, of.file, dropped), bytes=len(made), reason=Reason.ERASURE)
        swap = Swap(
            original.topic_partition, (original.key,), "", original.records, dropped=dropped, bytes=original.bytes,
            partitions=partitions_of([original]),
        )  # fmt: skip
        if not about.records:
            return None, swap
        about = compactor.named(about, rewrite)
        digest = compactor.digest_of(about, made)
        return compactor.upload(about, made), replace(swap, by=about.key, digest=digest)


def _with_rows(original: DataFile, file: LiveFile, dropped: OffsetSet) -> DataFile:
    """What is known of an object without some rows; what counts elsewhere is among these."""
    until = {(one.facts.partition, one.facts.first_offset): one.until for one in file.slices}
    left, row = list[Slice](), 0
    for one in slices_of(original):
        records = one.records - len(dropped.since(row).before(row + one.records))
        end = until.get((one.partition, one.first_offset))
        left.append(replace(one, records=records, last_offset=one.last_offset if end is None else end - 1))
        row += one.records
    return original.holding(left)


def _by_file(matches: Iterable[Match]) -> Iterator[list[Match]]:
    """Those of a file together, as they follow one another."""
    return (list(some) for _, some in groupby(matches, lambda match: match.file.facts.key))


def _without(
    compactor: Compactor, matches: Sequence[Match], original: DataFile, content: bytes
) -> tuple[bytes, OffsetSet]:
    """An object without the rows, and without those that count elsewhere; the others are proven to be as they were. Raises MergeRefused."""
    counted = matches[0].file.counted
    assert counted is not None
    dropped, row = NONE, 0
    for first, last in counted.ranges:
        dropped, row = dropped.plus(OffsetSet(((row, first - 1),) if first > row else ())), last + 1
    dropped = dropped.plus(OffsetSet(((row, original.records - 1),) if row < original.records else ()))
    for match in matches:
        dropped = dropped.plus(match.rows)
    hashes = [one for _, one in read_rows(original.format, content, separator=compactor.separator)]
    if len(hashes) != original.records:
        raise MergeRefused(f"{original.key} holds {len(hashes)} records, the log claims {original.records}.")
    stay = [one for row, one in enumerate(hashes) if row not in dropped]
    if not stay:
        return b"", dropped
    made = drop_rows(original.format, content, dropped, separator=compactor.separator)
    check_rows(original.format, made, wanted=stay, separator=compactor.separator)
    return made, dropped


def _counts(matches: Iterable[Match]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for match in matches:
        tp = match.slice.topic_partition
        found[tp] = found.get(tp, 0) + len(match.rows)
    return found


def _portions(matches: Sequence[Match]) -> Iterator[list[Match]]:
    """As many as one entry takes."""
    held, swaps = list[Match](), 0
    for some in _by_file(matches):
        own = len(some[0].file.objects)
        if held and swaps + own > MOST_SWAPS:
            yield held
            held, swaps = [], 0
        held += some
        swaps += own
    if held:
        yield held


def _documents(run: Run) -> Iterator[Any]:
    """The values of a run as JSON documents."""
    if run.tombstones:
        yield from [None] * len(run)
    elif isinstance(run.values, JsonText):
        yield from (parse_all_members(text) for text in run.values.texts.to_pylist())
    else:
        yield from (item if run.schema is None else to_json(item, run.schema) for item in run.values.objects())


def check_erasable(settings: Settings, subjects: Subjects) -> None:
    """Raises ConfigError where records cannot leave a sink's objects, or cannot be found by what is given."""
    if is_block_gzip(settings):
        rule = "writes Block-GZIP, whose readers find records by the names of files and their indexes."
        remedy = "Find the records' objects with kafka-s3 seek or explain, and delete them with their indexes."
        raise _refused("connector.class", settings.text("connector.class"), rule, remedy)
    if settings.flag("delta.enable") and written_by_spark(settings):
        rule = "keeps copies of the records, which no erasure of objects reaches."
        remedy = "Erase there first (DELETE FROM the table), then here with delta.enable=false."
        raise _refused("delta.writer", settings.text("delta.writer"), rule, remedy)
    if subjects.by_key and not settings.flag("store.kafka.keys"):
        rule = "is off, so that no object says the key of a record."
        raise _refused("store.kafka.keys", "false", rule, "Name a field of the value: --where 'customer.id = 42'.")


def _refused(key: str, value: str, rule: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(key, value, rule, remedy)])
