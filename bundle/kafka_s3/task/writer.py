"""Which records go into which file of a topic-partition, and when do its files close? The state machine of SEMANTICS A3.2 and A3.3.

The writer sees runs of decoded, stamped and partitioned records in offset order, delivery by delivery. All open files of the
topic-partition close together; a closed file is an uncompleted upload plus a row of facts for the commit log.
By example: docs/worked-examples.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from kafka_s3.formats.format import SidecarObject
from kafka_s3.model.files import DataFile, Reason, Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.records.runs import Run
from kafka_s3.records.values import Longs
from kafka_s3.schemas.compatibility import SchemaDecision
from kafka_s3.schemas.connect import ConnectSchema
from kafka_s3.task.interleaved import Interleaved, joined
from kafka_s3.task.open_files import OpenFile, Output, open_file
from kafka_s3.task.rotation import (
    ELSEWHERE,
    NOTHING_WRITTEN,
    Close,
    Pending,
    RotationPoint,
    RotationRules,
    first_row,
    next_rotation_point,
)
from kafka_s3.task.schema_changes import Unifying, kept, projected
from kafka_s3.task.uploads import upload_whole


@dataclass(slots=True)
class TopicPartitionWriter:
    """The open files of one topic-partition and what has been closed.

    `frontier` is one past the last record in a closed file; records after it are pending and will be read again. `rejected` are the offsets
    of records that do not go with the open files, and why; nothing of them is counted. `columns` are the different ones of closed files.
    """

    topic_partition: TopicPartition
    rules: RotationRules
    output: Output
    frontier: int
    next_rotation_ms: int | None
    records: int = 0
    base_ms: int | None = None
    closed: list[DataFile] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    _open: dict[str, OpenFile] = field(default_factory=dict)
    _directory: str = ""
    _offset: int = -1

    def begin_delivery(self, now_ms: int) -> None:
        """An expired schedule moves on before the first record, so that a quiet night is no reason to flush (SEMANTICS A3.4)."""
        if self.records == 0 and self._expired(now_ms):
            self.next_rotation_ms = self.rules.next_rotation(now_ms)
        elif self._expired(now_ms):
            self._rotate_by_clock(now_ms)

    def end_delivery(self, now_ms: int) -> None:
        """The idle commit: the schedule is looked at once more when the delivery is done."""
        if self.records and self._expired(now_ms):
            self._rotate_by_clock(now_ms)

    def write(self, part: Interleaved) -> None:
        """Writes records of one delivery, closing files wherever a rule says so."""
        row = 0
        while row < len(part):
            stop = self._stop(part, row)
            fitted, bad = self._fitted(part, row, stop.row)
            if bad:
                self.rejected += [(int(part.offsets[at]), text) for at, text in bad]
                part = part.without([at for at, _ in bad])
                continue
            if stop.row > row and not self._append(fitted):
                self.close(Reason.SCHEMA)
                continue
            if stop.row > row:
                self._note(part, row, stop.row)
            row = stop.row
            if stop.reason is Reason.FLUSH_BYTES and self.encoded_bytes() < self.rules.flush_bytes:
                continue
            if stop.reason is not None:
                self.close(stop.reason)

    def close(self, reason: Reason) -> None:
        """Closes every open file, in first-seen order."""
        files = [(file, target) for file in self._open.values() for target in file.objects.values()]
        for _, target in files:
            target.finish()
        with ThreadPoolExecutor(max_workers=max(min(self.output.threads, len(files)), 1)) as pool:
            uploads = list(pool.map(lambda pair: pair[1].upload.finish(), files))
        for (file, target), upload in zip(files, uploads, strict=True):
            closed = file.data_file(self.topic_partition, target, upload, reason=reason)
            self.closed.append(closed)
            self.columns |= dict.fromkeys(filter(None, [target.columns()]))
            for extra in target.sidecar_objects(file.first_offset):
                sent = self._sent(extra)
                self.closed.append(
                    replace(
                        closed, key=extra.key, role=extra.role, format=str(extra.role), upload=sent, bytes=sent.size
                    )
                )
        if files:
            self.frontier = self._offset + 1
        self._open.clear()
        self.records, self.base_ms = 0, None

    def _sent(self, extra: SidecarObject) -> Upload:
        out = self.output
        return upload_whole(out.store, extra.key, extra.content, part_size=out.part_size, folder=out.folder)

    def abort(self) -> None:
        """Drops what is open and the uploads of what was closed: none of it will be committed."""
        self.discard_open()
        for closed in self.closed:
            self.output.store.abort_upload(closed.upload.key, closed.upload.id)

    def discard_open(self) -> None:
        """Drops the open tail, which is read again next time."""
        for file in self._open.values():
            for target in file.objects.values():
                target.upload.abort()

    def encoded_bytes(self) -> int:
        """Encoded size of the open files, in bytes."""
        return sum(target.encoder.size() for file in self._open.values() for target in file.objects.values())

    @property
    def open_files(self) -> int:
        """How many files are open."""
        return len(self._open)

    def _expired(self, now_ms: int) -> bool:
        return self.next_rotation_ms is not None and now_ms >= self.next_rotation_ms

    def _rotate_by_clock(self, now_ms: int) -> None:
        self.next_rotation_ms = self.rules.next_rotation(now_ms)
        self.close(self.rules.schedule_reason)

    def _stop(self, part: Interleaved, row: int) -> RotationPoint:
        if self.base_ms is None and part.times is not None:
            self.base_ms = int(part.times[row])
        code = part.names.index(self._directory) if self._directory in part.names else ELSEWHERE
        if self.rules.tombstones is not None and self.rules.tombstones in (self._directory, *part.names):
            code = int(part.codes[row])
        pending = Pending(self.records, self.base_ms, code if self.records else NOTHING_WRITTEN)
        stop = next_rotation_point(self.rules, pending, start=row, times=part.times, codes=part.codes)
        for other in (self._schema_stop(part, row, stop.row), self._cap_stop(part, row, stop.row)):
            if other is not None and other.row < stop.row:
                stop = other
        return stop

    def _schema_stop(self, part: Interleaved, row: int, end: int) -> RotationPoint | None:
        """The first record whose directory has an open file of a schema that it cannot join (SEMANTICS A6).

        Where several schemas come to a directory, what becomes of the later ones is known only once the first one has its file: there
        is a stop without a reason.
        """
        if len(part.runs) == 1:
            open_codes = (code for code, name in enumerate(part.names) if name in self._open)
            conflicts = [code for code in open_codes if self._rolls(part.names[code], part.runs[0])]
            if not conflicts:
                return None
            found = first_row(lambda a, b: np.isin(part.codes[a:b], conflicts), start=row, end=end)
            return RotationPoint(found, Reason.SCHEMA, Close.BEFORE) if found < end else None
        stops = [self._interleaved_point(part, name, places) for name, places in _groups(part, row, end)]
        return min((stop for stop in stops if stop is not None), key=lambda stop: stop.row, default=None)

    def _interleaved_point(self, part: Interleaved, name: str, places: Longs) -> RotationPoint | None:
        """The first of these records of a directory that has to wait until the ones before it are written, or its file is closed."""
        owners = part.owners[places]
        file = self._open.get(name)
        here = np.unique(owners).tolist()
        rolling = [owner for owner in here if file is not None and self._rolls(name, part.runs[owner])]
        waiting = [owner for owner in here if file is None or _widens(file, part.runs[owner])]
        first = int(owners[0])
        waits = owners != first if first in waiting else np.isin(owners, waiting)
        rolls = np.isin(owners, rolling)
        at = np.flatnonzero(waits | rolls)
        if not len(at):
            return None
        place = int(places[at[0]])
        return (
            RotationPoint(place, Reason.SCHEMA, Close.BEFORE)
            if rolls[at[0]]
            else RotationPoint(place, None, Close.BEFORE)
        )

    def _rolls(self, name: str, run: Run) -> bool:
        return self._decision(self._open[name], run) is SchemaDecision.ROLL

    def _decision(self, file: OpenFile, run: Run) -> SchemaDecision:
        """What to do with records of a run in an open file of their directory. Keys of another schema close it, too."""
        for role, sidecar in run.sidecars.items():
            if role in file.objects and file.objects[role].schema != sidecar.schema:
                return SchemaDecision.ROLL
        values = file.values
        if values is None or run.tombstones:
            return SchemaDecision.WRITE if (values is None) == run.tombstones else SchemaDecision.ROLL
        return self.output.schemas.decision(run.schema, values.schema, values.encoder)

    def _cap_stop(self, part: Interleaved, row: int, end: int) -> RotationPoint | None:
        """The first record that needs one more open file than `partitioner.max.open.files`."""
        if self.rules.max_open_files <= 0:
            return None
        seen = set(self._open)
        for at in range(row, end):
            name = part.names[part.codes[at]]
            if name not in seen and len(seen) >= self.rules.max_open_files:
                return RotationPoint(at, Reason.MAX_OPEN_FILES, Close.BEFORE)
            seen.add(name)
        return None

    def _fitted(self, part: Interleaved, start: int, stop: int) -> tuple[list[tuple[str, Run]], list[tuple[int, str]]]:
        """Records `[start, stop)` by directory, projected where the open file has another schema; and those that cannot be."""
        fitted: list[tuple[str, Run]] = []
        bad: list[tuple[int, str]] = []
        for name, places in _groups(part, start, stop):
            file, runs = self._open.get(name), part.by_run(places)
            values = file.values if file is not None else None
            unifies = values is not None and isinstance(values.encoder, Unifying) and len(runs) > 1
            parts: list[tuple[Run, Longs]] = []
            for run, own in runs:
                decision = self._decision(file, run) if file is not None else SchemaDecision.WRITE
                if decision is SchemaDecision.REJECT:
                    bad += [(place, self.output.schemas.refusal) for place in own.tolist()]
                elif values is not None and (decision is SchemaDecision.PROJECT or unifies):
                    fit, unfit = _projected(run, values.schema)
                    bad += [(int(own[row]), text) for row, text in unfit]
                    parts.append((fit, np.delete(own, [row for row, _ in unfit])))
                else:
                    parts.append((run, own))
            fitted += [(name, run) for run in joined(parts)]
        return fitted, sorted(bad)

    def _append(self, fitted: list[tuple[str, Run]]) -> bool:
        """Writes runs to their directories; False, with nothing written, where a file with an inferred schema cannot take one."""
        for name, run in fitted:
            target = self._open[name].values if name in self._open else None
            fits = getattr(target.encoder, "fits", None) if target is not None else None
            if fits is not None and not fits(run.values):
                return False
        for name, run in fitted:
            if name not in self._open:
                self._open[name] = open_file(self.output, self.topic_partition, name, run=run)
            self._open[name].append(run)
        return True

    def _note(self, part: Interleaved, start: int, stop: int) -> None:
        """Counts rows `[start, stop)`, now written, and remembers where the last one went."""
        self.records += stop - start
        self._directory = part.names[part.codes[stop - 1]]
        self._offset = int(part.offsets[stop - 1])
        self._release_memory()

    def _release_memory(self) -> None:
        """Keeps the task within its budget: the files that hold most are encoded and spilled first, down to half the budget."""
        if len(self._open) == 1:
            return
        held = {name: file.memory() for name, file in self._open.items()}
        total = sum(held.values())
        if total <= self.output.memory:
            return
        for name in sorted(held, key=lambda name: -held[name]):
            self._open[name].release()
            total -= held[name]
            if total <= self.output.memory // 2:
                return


def _projected(run: Run, schema: ConnectSchema | None) -> tuple[Run, list[tuple[int, str]]]:
    """The run in a file's schema, and its rows that cannot be projected."""
    if run.schema is None or schema is None or run.schema is schema:
        return run, []
    values, bad = projected(run.values, run.schema, schema)
    run = run.take(kept(len(run), bad)) if bad else run
    return replace(run, values=values, schema=schema), bad


def _widens(file: OpenFile, run: Run) -> bool:
    """Whether a file whose schema is not settled yet gets a wider one by a run."""
    encoder = file.values.encoder if file.values is not None else None
    return isinstance(encoder, Unifying) and encoder.widens(run.schema)


def _groups(part: Interleaved, start: int, stop: int) -> Iterator[tuple[str, Longs]]:
    """The places `[start, stop)` by directory, in first-seen order."""
    if start == stop:
        return
    some = part.codes[start:stop]
    if (some == some[0]).all():
        yield part.names[some[0]], np.arange(start, stop)
        return
    order = np.argsort(some, kind="stable")
    cuts = np.flatnonzero(np.diff(some[order])) + 1
    for places in sorted(np.split(order, cuts), key=lambda places: int(places[0])):
        yield part.names[some[places[0]]], places + start
