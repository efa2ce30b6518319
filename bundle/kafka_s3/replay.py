"""How do dead letters become records after all? Through the current configuration's pipeline, and one entry of the commit log.

1. Open letters go through the pipeline in memory, per topic-partition in offset order, with every rotation rule off: one file per
   directory and schema. Nothing of it is in the bucket. This much is the rehearsal, all that `--dry-run` does.
2. The log is claimed, which fences a driver that is still at work.
3. The files are sent as uploads that are not completed, and one entry of kind replay commits them with the offsets that they resolve.
4. The uploads are completed. A crash before that is made good by the next claim, whoever makes it, as with any other entry.

A letter that fails again stays open. A file is named by its first offset, which no other file has: its record never was in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafka_s3.commit_entry import CommitEntry, Kind
from kafka_s3.commit_log import CommitLog, Rewrite
from kafka_s3.config.settings import Settings
from kafka_s3.dead_letter_files import (
    Filed,
    Ledger,
    LetterFile,
    Selection,
    State,
    committed_ms,
    counts_by_stage,
    letters,
    read_ledger,
)
from kafka_s3.dead_letters import DeadLetter
from kafka_s3.errors import CommitError, CommitUnknown, ConfigError, Problem, StorageUnavailable
from kafka_s3.model import DataFile, DeadLetterCount, Role, TopicPartition, Totals, Upload, counted
from kafka_s3.naming import StatePaths
from kafka_s3.offset_ranges import OffsetSet
from kafka_s3.pipeline import is_block_gzip, make_pipeline, state_paths
from kafka_s3.positions import BY_HAND
from kafka_s3.rehearsal import Guard, LetterSource, Rehearsal, lenient, open_letters, rehearse, unguarded
from kafka_s3.source import Source
from kafka_s3.storage.store import ObjectStore
from kafka_s3.tagging import Tagging
from kafka_s3.tasks import Assignment, Delivery
from kafka_s3.worker import Pipeline

if TYPE_CHECKING:
    from kafka_s3.delta.make import Tables


@dataclass(frozen=True, slots=True)
class Replay:
    """One sink's open dead letters, its log, and the pipeline of its configuration as it is now."""

    pipeline: Callable[[], Pipeline]
    store: ObjectStore
    log: CommitLog
    paths: StatePaths
    clock_ms: Callable[[], int]
    tagging: Tagging | None = None
    guard: Guard = unguarded

    def rehearse(self, selection: Selection, *, limit: int | None = None) -> Rehearsal:
        """Runs the selected open letters, lowest offsets first, through the pipeline; the bucket is only read."""
        ledger = read_ledger(self.store, self.paths)
        missing: list[LetterFile] = []
        chosen = open_letters(ledger, self.store, selection=selection, missing=missing.append)[:limit]
        return rehearse(
            chosen, self.pipeline(), version=ledger.version, missing=missing, now_ms=self.clock_ms(), guard=self.guard
        )

    def run(self, selection: Selection, *, limit: int | None = None) -> tuple[Rehearsal, CommitEntry | None]:
        """Replays the selected open letters: what came of them, and the entry, None where none succeeded (then nothing is written).

        Raises CommitError, StorageError, RegistryError; afterwards either the entry is in the log or nothing is changed but the epoch.
        """
        rehearsal = self.rehearse(selection, limit=limit)
        if not rehearsal.done and not rehearsal.missing:
            self._finish()
            return rehearsal, None
        self._claim()
        if self.log.state.version != rehearsal.version + 1 or rehearsal.missing:
            rehearsal = self.rehearse(selection, limit=limit)  # the claim has brought something to light
        if not rehearsal.done:
            return rehearsal, None
        return rehearsal, self._commit(rehearsal)

    def resolve(self, selection: Selection, *, reason: str, limit: int | None = None) -> CommitEntry | None:
        """Marks the open letters as resolved that are selected now, without writing them; None where there are none."""

        def chosen() -> list[DeadLetter]:
            ledger = read_ledger(self.store, self.paths)
            return open_letters(ledger, self.store, selection=selection, missing=lambda _: None)[:limit]

        asked = {(letter.topic_partition, letter.offset) for letter in chosen()}
        if not asked:
            return None
        self._claim()
        done = [letter for letter in chosen() if (letter.topic_partition, letter.offset) in asked]
        if not done:
            return None
        entry = self._entry(done, (), reason=reason)
        skipped = {tp: -count.count for tp, count in entry.dead_letters.items()}
        totals = replace(entry.totals, skipped=len(done))
        entry = replace(entry, skipped=skipped, totals=totals)
        self.log.append(entry)
        self.log.checkpoint()
        return entry

    # ------------------------------------------------------------ commit

    def _claim(self) -> None:
        cluster = self.log.load().cluster_id
        self.log.claim(cluster_id=cluster, rewrite=self._rewrite)

    def _commit(self, rehearsal: Rehearsal) -> CommitEntry:
        files = self._sent(rehearsal)
        entry = self._entry(rehearsal.done, files)
        try:
            self.log.append(entry)
        except CommitUnknown:
            raise  # the entry may be there, and needs its uploads
        except Exception:
            _abort(self.store, files)
            raise
        self._publish(entry)
        if self.tagging is not None:
            self.tagging.tag(entry.files, self.store)
        self.log.checkpoint()
        return entry

    def _publish(self, entry: CommitEntry) -> None:
        try:
            self.log.publish(entry, rewrite=self._rewrite)
        except StorageUnavailable as error:
            raise StorageUnavailable(
                f"Entry {entry.version} is committed, but not all of its objects are visible yet: {error} Repeat the command, or start the "
                "sink: either completes them."
            ) from error

    def _finish(self) -> None:
        """Completes what an earlier replay has committed, if it died before that and nothing came after it."""
        self.log.load()
        if self.log.last is not None and self.log.last.kind is Kind.REPLAY:
            self._publish(self.log.last)

    def _sent(self, rehearsal: Rehearsal) -> tuple[DataFile, ...]:
        """The files with their parts uploaded; nothing is left behind where that fails."""
        pending, sent = rehearsal.content.uploads, list[DataFile]()
        try:
            for file in rehearsal.files:
                parts = pending[file.upload.id].parts
                upload = Upload(file.key, self.store.create_upload(file.key), (), file.upload.size)
                sent.append(replace(file, upload=upload))
                tags = tuple(self.store.upload_part(file.key, upload.id, n, parts[n]) for n in sorted(parts))
                sent[-1] = replace(file, upload=replace(upload, parts=tags))
        except BaseException:
            _abort(self.store, sent)
            raise
        return tuple(sent)

    def _entry(self, done: Sequence[DeadLetter], files: tuple[DataFile, ...], *, reason: str = "") -> CommitEntry:
        """The entry, in which records move from dead letters to files; `read = written + dead_letters + skipped` holds with read 0."""
        values = counted(files)
        written = sum(file.records for file in values)
        resolved: dict[TopicPartition, list[int]] = {}
        for letter in done:
            resolved.setdefault(letter.topic_partition, []).append(letter.offset)
        stages = counts_by_stage(done)
        entry = self.log.new_entry(
            Kind.REPLAY,
            files=files,
            resolved={tp: OffsetSet.of(offsets) for tp, offsets in resolved.items()},
            dead_letters={
                tp: DeadLetterCount(-len(offsets), {stage: -count for stage, count in stages[tp].items()})
                for tp, offsets in resolved.items()
            },
            totals=Totals(0, written, -len(done), 0, len(values), sum(file.bytes for file in values)),
            reason=reason,
        )
        return replace(entry, driver=entry.driver + BY_HAND)

    def _rewrite(self, entry: CommitEntry, gone: list[DataFile]) -> list[DataFile]:
        if entry.kind is Kind.REPLAY:
            return rewrite_from_letters(
                entry, gone, pipeline=self.pipeline(), store=self.store, paths=self.paths, guard=self.guard
            )
        names = ", ".join(file.key for file in gone)
        raise CommitError(
            f"Commit entry {entry.version} counts files whose uploads are gone ({names}); they are made again from Kafka by a run. "
            "Start the sink once with `kafka-s3 run`, stop it, then repeat."
        )


def make_replay(
    settings: Settings, store: ObjectStore, *, clock_ms: Callable[[], int], tagging: Tagging | None = None
) -> Replay:
    """The replay of a sink of resolved settings. Raises ConfigError where its objects do not allow one, once the pipeline is needed."""
    paths = state_paths(settings)

    def pipeline() -> Pipeline:
        check_replayable(settings)
        return make_pipeline(settings)

    log = CommitLog(store, paths, clock_ms=clock_ms)
    return Replay(pipeline, store, log, paths, clock_ms, tagging, guard_of(settings, store))


def guard_of(settings: Settings, bucket: ObjectStore, *, tables: Tables | None = None) -> Guard:
    """The watch of the sink's Delta tables, where it keeps any; `tables` that are open already are used."""

    def guard(source: Source, store: ObjectStore) -> Source:
        from kafka_s3.delta.make import guarded  # loads delta-rs

        return guarded(settings, source, store, bucket=bucket, tables=tables)

    return guard if settings.flag("delta.enable") else unguarded


def check_replayable(settings: Settings) -> None:
    """Raises ConfigError for Block-GZIP, whose readers find a record by the names of files without gaps."""
    if is_block_gzip(settings):
        rule = (
            "is a format whose files must hold every offset from the first to the last; replayed dead letters do not."
        )
        way_out = "Use `dead-letters export` and `dead-letters resolve`."
        raise ConfigError([Problem("connector.class", settings.text("connector.class"), rule, way_out)])


def replays_again(settings: Settings, store: ObjectStore) -> Rewrite:
    """Makes files of an entry of kind replay again, for a sink that finds their uploads gone."""
    paths = state_paths(settings)

    def rewrite(entry: CommitEntry, gone: list[DataFile]) -> list[DataFile]:
        return rewrite_from_letters(
            entry, gone, pipeline=make_pipeline(settings), store=store, paths=paths, guard=guard_of(settings, store)
        )

    return rewrite


def rewrite_from_letters(
    entry: CommitEntry,
    gone: list[DataFile],
    *,
    pipeline: Pipeline,
    store: ObjectStore,
    paths: StatePaths,
    guard: Guard = unguarded,
) -> list[DataFile]:
    """New uploads of the files `gone` of an entry of kind replay, from the dead letters that it resolves."""
    ledger, made = read_ledger(store, paths), list[DataFile]()
    for file in gone:
        tp = file.topic_partition
        offsets = entry.resolved.get(tp, OffsetSet()).since(file.first_offset).before(file.last_offset + 1)
        wanted = Selection(topic=tp.topic, partition=tp.partition, states=frozenset({State.REPLAYED}))
        found = [filed for filed in _present(ledger, store, selection=wanted) if filed.settled == entry.version]
        inside = [filed.letter for filed in found if _covers(offsets, filed.letter.offset)]
        until = file.last_offset + 1
        only = Assignment(
            tp, file.first_offset, until, (Delivery(committed_ms(entry), until),),
            close=file.reason, only=file, data_key=_values_of(file, entry).key,
        )  # fmt: skip
        inside.sort(key=lambda letter: letter.offset)
        [report] = guard(LetterSource({tp: inside}, lenient(pipeline), store), store).read([only])
        if [again.records for again in report.files] != [file.records]:
            _abort(store, report.files)
            raise CommitError(
                f"{file.key} cannot be made again from its dead letters: offsets {file.first_offset} to {file.last_offset} give other "
                "records than the log counts. Was the configuration changed? Restore the one of the replay, restart, then change it."
            )
        made.append(replace(file, upload=report.files[0].upload, bytes=report.files[0].bytes))
    return made


def _present(ledger: Ledger, store: ObjectStore, *, selection: Selection) -> Iterator[Filed]:
    return letters(ledger, store, selection=selection, missing=lambda _: None)


def _covers(offsets: OffsetSet, offset: int) -> bool:
    return any(first <= offset <= last for first, last in offsets.ranges)


def _values_of(file: DataFile, entry: CommitEntry) -> DataFile:
    """The object of values that belongs to a file of the entry; the file itself where there is none."""
    place = (file.topic_partition, file.encoded_partition, file.first_offset)
    values = (other for other in entry.files if other.role is Role.VALUE)
    return next((v for v in values if (v.topic_partition, v.encoded_partition, v.first_offset) == place), file)


def _abort(store: ObjectStore, files: Iterable[DataFile]) -> None:
    for file in files:
        store.abort_upload(file.upload.key, file.upload.id)
