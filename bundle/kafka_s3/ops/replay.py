"""How do dead letters become records after all? Through the current configuration's pipeline, and one entry of the commit log.

1. Open letters go through the pipeline in memory, per topic-partition in offset order, with every rotation rule off: one file per
   encoded partition and schema. Nothing of it is in the bucket. This much is the dry run, all that `--dry-run` does. Where Delta tables
   are kept, letters pass the same gate as any other record: one that the table cannot hold fails again.
2. The log is claimed, which fences a driver that is still at work.
3. The files are sent as uploads that are not completed, and one entry of kind replay commits them with the offsets that they resolve.
4. The uploads are completed. A crash before that is made good by the next claim, whoever makes it, as with any other entry.

A letter that fails again stays open. A file is named by its first offset, which no other file has: its record never was in one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.dead_letters import (
    Ledger,
    LetterFile,
    LetterSelection,
    LetterState,
    counts_by_stage,
    letters,
    read_ledger,
)
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.log import CommitLog, is_published
from kafka_s3.engine.log.remade import Remade
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.loop.committer import Committer
from kafka_s3.engine.loop.followers import Followers
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.followers.dead_letter_source import Guard, ReplaySource, lenient, remake_from_letters, unguarded
from kafka_s3.followers.tagging import ObjectTags, Tagging
from kafka_s3.model.dead_letters import DeadLetter, read_letters
from kafka_s3.model.errors import CommitError, ConfigError, Problem, StorageUnavailable
from kafka_s3.model.files import DataFile, DeadLetterCount, Reason, Role, Totals, counted
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery, TaskReport, reports_of
from kafka_s3.ops.positions import BY_HAND
from kafka_s3.run.wiring.pipeline import is_block_gzip, make_pipeline, state_paths
from kafka_s3.run.wiring.sink import guard_of
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectStore, abort_uploads, begin_upload

NOT_OURS: Final = (Role.DEAD_LETTER, Role.POINTER)
_log = logging.getLogger(__name__)


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

    def dry_run(self, selection: LetterSelection, *, limit: int | None = None) -> DryRunResult:
        """Runs the selected open letters, lowest offsets first, through the pipeline; the bucket is only read."""
        ledger = read_ledger(self.store, self.paths)
        missing: list[LetterFile] = []
        chosen = open_letters(ledger, self.store, selection=selection, missing=missing.append)[:limit]
        return dry_run(
            chosen, self.pipeline(), version=ledger.version, missing=missing, now_ms=self.clock_ms(), guard=self.guard
        )

    def run(self, selection: LetterSelection, *, limit: int | None = None) -> tuple[DryRunResult, CommitEntry | None]:
        """Replays the selected open letters: what came of them, and the entry, None where none succeeded (then nothing is written).

        Raises CommitError, StorageError, RegistryError; afterwards either the entry is in the log or nothing is changed but the epoch.
        """
        outcome = self.dry_run(selection, limit=limit)
        if not outcome.done and not outcome.missing:
            self._finish()
            return outcome, None
        committer = self._claimed()
        if self.log.state.version != outcome.version + 1 or outcome.missing:
            outcome = self.dry_run(selection, limit=limit)  # the claim has brought something to light
        if not outcome.done:
            return outcome, None
        entry = self._entry(outcome.done, self._sent(outcome))
        self._commit(entry, committer)
        return outcome, entry

    def resolve(self, selection: LetterSelection, *, reason: str, limit: int | None = None) -> CommitEntry | None:
        """Marks the open letters as resolved that are selected now, without writing them; None where there are none."""

        def chosen() -> list[DeadLetter]:
            ledger = read_ledger(self.store, self.paths)
            return open_letters(ledger, self.store, selection=selection, missing=lambda _: None)[:limit]

        asked = {(letter.topic_partition, letter.offset) for letter in chosen()}
        if not asked:
            return None
        committer = self._claimed()
        done = [letter for letter in chosen() if (letter.topic_partition, letter.offset) in asked]
        if not done:
            return None
        entry = self._entry(done, (), reason=reason)
        skipped = {tp: -count.count for tp, count in entry.dead_letters.items()}
        totals = replace(entry.totals, skipped=len(done))
        entry = replace(entry, skipped=skipped, totals=totals)
        committer.commit(entry)
        return entry

    # ------------------------------------------------------------ commit

    def _claimed(self) -> Committer:
        tags = () if self.tagging is None else (ObjectTags(self.tagging, _log.warning),)
        committer = Committer(self.log, self._remake, Followers(tags))
        committer.claim(self.log.load().cluster_id)
        committer.followers.catch_up(self.log)
        return committer

    def _commit(self, entry: CommitEntry, committer: Committer) -> None:
        try:
            committer.commit(entry)
        except StorageUnavailable as error:
            if self.log.last is None or self.log.last.commit_id != entry.commit_id:
                raise
            raise _unfinished(entry, error) from error

    def _finish(self) -> None:
        """Completes what an earlier replay has committed, if it died before that and nothing came after it."""
        self.log.load()
        last = self.log.last
        if last is not None and last.kind is EntryKind.REPLAY and not is_published(self.store, self.paths, last):
            try:
                Committer(self.log, self._remake).publish(last)
            except StorageUnavailable as error:
                raise _unfinished(last, error) from error

    def _sent(self, outcome: DryRunResult) -> tuple[DataFile, ...]:
        """The files with their parts uploaded; nothing is left behind where that fails."""
        pending, sent = outcome.content.uploads, list[DataFile]()
        try:
            for file in outcome.files:
                parts = pending[file.upload.id].parts
                upload = replace(begin_upload(self.store, file.key), size=file.upload.size)
                sent.append(replace(file, upload=upload))
                tags = tuple(self.store.upload_part(file.key, upload.id, n, parts[n]) for n in sorted(parts))
                sent[-1] = replace(file, upload=replace(upload, parts=tags))
        except BaseException:
            abort_uploads(self.store, sent)
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
            EntryKind.REPLAY,
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

    def _remake(self, entry: CommitEntry, gone: list[DataFile]) -> Remade:
        if entry.kind is EntryKind.REPLAY:
            return Remade(
                remake_from_letters(
                    entry, gone, pipeline=self.pipeline(), store=self.store, paths=self.paths, guard=self.guard
                )
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


def check_replayable(settings: Settings) -> None:
    """Raises ConfigError for Block-GZIP, whose readers find a record by the names of files without gaps."""
    if is_block_gzip(settings):
        rule = (
            "is a format whose files must hold every offset from the first to the last; replayed dead letters do not."
        )
        remedy = "Use `dead-letters export` and `dead-letters resolve`."
        raise ConfigError([Problem("connector.class", settings.text("connector.class"), rule, remedy)])


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """What a replay would do: the files it would write, whose parts wait in `content`, and the letters that succeed or fail again."""

    version: int = -1
    files: tuple[DataFile, ...] = ()
    done: tuple[DeadLetter, ...] = ()
    failed: tuple[DeadLetter, ...] = ()
    missing: tuple[LetterFile, ...] = ()
    content: MemoryStore = field(default_factory=MemoryStore)


def dry_run(
    chosen: Sequence[DeadLetter],
    pipeline: Pipeline,
    *,
    version: int,
    missing: Sequence[LetterFile],
    now_ms: int,
    guard: Guard = unguarded,
) -> DryRunResult:
    """What would become of letters, in the order of topic-partition and offset. `version`, `missing`: what the log and bucket had of them.

    Raises RecordError where a table stops the sink at new columns.
    """
    by_partition = {tp: list(some) for tp, some in groupby(chosen, key=lambda letter: letter.topic_partition)}
    outcome = DryRunResult(version, missing=tuple(missing))
    source = guard(ReplaySource(by_partition, lenient(pipeline), outcome.content), outcome.content)
    reports = {
        report.topic_partition: report
        for report in reports_of(source.read([_whole(tp, some, now_ms=now_ms) for tp, some in by_partition.items()]))
    }
    for tp, some in by_partition.items():
        outcome = _with_report(outcome, some, reports[tp])
    return outcome


def open_letters(
    ledger: Ledger, store: ObjectStore, *, selection: LetterSelection, missing: Callable[[LetterFile], None]
) -> list[DeadLetter]:
    """The selected open letters in the order of topic-partition and offset, each coordinate once."""
    wanted = replace(selection, states=frozenset({LetterState.OPEN}))
    found = letters(ledger, store, selection=wanted, missing=missing)
    latest = {(filed.letter.topic_partition, filed.letter.offset): filed.letter for filed in found}
    return [latest[position] for position in sorted(latest)]


def _failed(report: TaskReport, content: MemoryStore) -> list[DeadLetter]:
    """The letters that failed again, with the reason of this time: from the dead letter file, which goes no further than memory."""
    found: list[DeadLetter] = []
    for file in report.files:
        if file.role is Role.DEAD_LETTER:
            content.complete_upload(file.upload)
            found += read_letters(content.get(file.key))
    return found


def _whole(tp: TopicPartition, chosen: Sequence[DeadLetter], *, now_ms: int) -> Assignment:
    first, last = chosen[0].offset, chosen[-1].offset
    return Assignment(tp, first, last + 1, (Delivery(now_ms, last + 1),), close=Reason.FLUSH_NOW)


def _with_report(before: DryRunResult, chosen: Sequence[DeadLetter], report: TaskReport) -> DryRunResult:
    """The outcome with the letters of one more topic-partition."""
    files = tuple(file for file in report.files if file.role not in NOT_OURS)
    failed = _failed(report, before.content)
    failed_offsets = {letter.offset for letter in failed}
    done = [letter for letter in chosen if letter.offset not in failed_offsets]
    if sum(file.records for file in counted(files)) != len(done):
        raise CommitError(
            f"{report.topic_partition}: {len(chosen)} dead letters, but the records written and failed are not as many. Nothing was "
            "committed. This is a defect of kafka-s3; please report it."
        )
    return replace(before, files=before.files + files, done=(*before.done, *done), failed=(*before.failed, *failed))


def _unfinished(entry: CommitEntry, error: StorageUnavailable) -> StorageUnavailable:
    return StorageUnavailable(
        f"Entry {entry.version} is committed, but not all of its objects are visible yet: {error} Repeat the command, or start the "
        "sink: either completes them."
    )
