"""What does a sink's whole log say, at any moment, without waiting? A thread reads it bit by bit, newest first; pages take what is there.

1. The state of the sink (`snapshot_of`: newest checkpoint, the entries behind it, heartbeat) and its newest entries come first.
2. Then the older ones: closed stretches as tables, what is in none entry by entry; until everything is there, or MOST_FILES files.
3. Later looks, only while somebody watches, read the entries that are new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_s3.engine.control.damage import held_by, held_text
from kafka_s3.engine.control.status import SinkSnapshot, snapshot_of
from kafka_s3.engine.control.stored_settings import NotedSettings, StoredConfig, read_notes, read_stored_config
from kafka_s3.engine.log.entry import read_entry
from kafka_s3.engine.log.history import Tables, known_stretches, tables_or_none
from kafka_s3.engine.log.reading import Stretch
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers.state import StateNote, state_notes
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.store.store import ObjectStore
from kafka_s3_dashboard.reading.background import PAGES_FIRST, Background
from kafka_s3_dashboard.reading.frames import (
    Frames,
    LogPart,
    Reach,
    cut,
    frames_of,
    joined,
    neighbours,
    part_of_rows,
    part_of_tables,
    reach,
)
from kafka_s3_dashboard.reading.reader import THREADS, Damage, ReadAhead, entries_of, versions_listed
from kafka_s3_dashboard.reading.tables import Noted, read_noted

AHEAD: Final = 4
"""Stretches that are fetched before they are asked for."""


class Stretches:
    """The stretches of one log. What is of no use is left out as it is met."""

    def __init__(self, store: ObjectStore, paths: StatePaths, pool: ThreadPoolExecutor) -> None:
        self._store, self._paths, self._pool = store, paths, pool
        self._coming: dict[int, Future[Tables | None]] = {}
        self._known: dict[int, Stretch] | None = None

    def end_below(self, version: int) -> int:
        """Behind the last version below this one that is in a stretch, 0 where none is. Raises StorageError."""
        return max((one.last + 1 for one in self._stretches().values() if one.last < version), default=0)

    def holding(self, version: int) -> Stretch | None:
        """The stretch with this version, None where none has it. Raises StorageError."""
        return next((one for one in self._stretches().values() if one.first <= version <= one.last), None)

    def take(self, stretch: Stretch) -> LogPart | None:
        """A stretch; None, with a line why, where it has to be read entry by entry. Raises StorageError."""
        before = [one for one in self._stretches().values() if one.last <= stretch.last]
        for one in before[-AHEAD:]:
            if one.last not in self._coming:
                self._coming[one.last] = self._pool.submit(tables_or_none, self._store, self._paths, one)
        tables = self._coming.pop(stretch.last).result()
        if tables is None:
            del self._stretches()[stretch.last]
            return None
        return part_of_tables(tables, first=stretch.first, last=stretch.last)

    def _stretches(self) -> dict[int, Stretch]:
        """By their last version, in order."""
        if self._known is None:
            self._known = {one.last: one for one in known_stretches(self._store, self._paths).stretches}
        return self._known


RECENT: Final = 100
STEP: Final = 500
MOST_FILES: Final = 1_000_000
"""Files that are held, with half a KiB each; of a longer log it is the newest ones."""
LOOK_EVERY_S: Final = 2.0
FRESH_MS: Final = 3_000
"""Whoever opens a page sees a look that is no older, if the bucket answers."""
SHOW_EVERY_S: Final = 1.0
SHARE: Final = 25
"""What has been read is put together again no more often than so many times as long as that takes."""
TRIED_AGAIN: Final = 20
"""Damaged entries are looked at again, as long as they are few: somebody may have restored them."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at a moment. `read` of `total` entries are in the frames; `trouble` is why the last look failed, if it did.

    `bounded`: entries older than these are not read, for there are too many. `stored` is the configuration beside the log, None where there
    is none, `notes` the settings in effect since when, oldest first; a text says why they cannot be read. `tables` is how far the tables
    over the objects have come.
    """

    number: int = 0
    known: SinkSnapshot | None = None
    frames: Frames = field(default_factory=lambda: frames_of(()))
    read: int = 0
    total: int = 0
    bounded: bool = False
    damage: tuple[Damage, ...] = ()
    reached: Reach = field(default_factory=dict)
    trouble: str = ""
    looked_ms: int = 0
    stored: StoredConfig | str | None = None
    notes: tuple[NotedSettings, ...] | str = ()
    tables: Noted = field(default_factory=dict)
    states: Mapping[str, StateNote | str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every entry was read, or found damaged."""
        return self.read + len(self.damage) >= self.total


class History:
    """One sink's log, read by a thread of its own; close it when done."""

    def __init__(
        self,
        store: ObjectStore,
        paths: StatePaths,
        *,
        clock_ms: Callable[[], int],
        most_files: int = MOST_FILES,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix=f"read {paths.sink}")
        self._ahead = ReadAhead(store, self._pool)
        self._store, self._paths, self._clock_ms, self._most_files = store, paths, clock_ms, most_files
        self._look_every_s = look_every_s
        self._stretches = Stretches(store, paths, self._pool)
        self._identity: str | None = None
        self._parts: list[LogPart] = []
        self._damage: dict[int, Damage] = {}
        self._held: dict[int, str] = {}
        self._top = -1
        self._looked = self._shown = self._took_s = 0.0
        self._noted: object = None
        self.snapshot = Snapshot()
        self._background = Background(
            f"history {paths.sink}",
            self._read,
            failed=lambda trouble: self._show(trouble=trouble),
            pause_s=self._pause_s,
        )

    def ask(self, seconds: float) -> Snapshot:
        """What is known as soon as anything is, at the latest after these seconds; a fresh look begins behind it."""
        self._background.ask()
        self._background.wait(seconds)
        return self.snapshot

    def ask_fresh(self, seconds: float) -> Snapshot:
        """A look that is no older than FRESH_MS, or what there is after these seconds: a bucket that does not answer holds up nobody."""
        since_ms, before = self._clock_ms() - FRESH_MS, self.snapshot

        def holds() -> bool:
            """A new look, or the next one failed."""
            now = self.snapshot
            return now.looked_ms >= since_ms or (now is not before and bool(now.trouble))

        self._background.wait_until(holds, seconds)
        return self.snapshot

    def close(self) -> None:
        self._background.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------ the thread

    def _read(self) -> None:
        self._poll()
        self._read_older()

    def _pause_s(self) -> float:
        return max(0.0, self._looked + self._look_every_s - time.monotonic())

    def _poll(self) -> None:
        self._looked = time.monotonic()
        self._recognise()
        if self._damage:
            self._ahead.forget()  # somebody may have restored an entry
        known = snapshot_of(self._ahead, self._paths, seen_ms=self._clock_ms())
        top = known.log.version if known.log is not None else self._listed_top()
        if top < self._top:
            self._forget()
        self._retry()
        self._take(range(max(self._top + 1, top - RECENT + 1), top + 1))
        self._top = top
        self.snapshot = replace(
            self.snapshot,
            stored=self._stored() if known.configured else None,
            notes=self._notes(known),
            tables=read_noted(self._store, self._paths),
            states=state_notes(self._store, self._paths),
        )
        self._show(known=known)

    def _stored(self) -> StoredConfig | str | None:
        try:
            return read_stored_config(self._ahead, self._paths)
        except LogDamaged as error:
            return str(error)

    def _notes(self, known: SinkSnapshot) -> tuple[NotedSettings, ...] | str:
        """What is noted of settings, read again when an epoch begins."""
        epochs = (known.log.epoch if known.log else 0, known.heartbeat.epoch if known.heartbeat else 0)
        if epochs == self._noted:
            return self.snapshot.notes
        try:
            found: tuple[NotedSettings, ...] | str = read_notes(self._store, self._paths)
        except LogDamaged as error:
            found = str(error)
        self._noted = epochs
        return found

    def _read_older(self) -> None:
        """What is missing below the newest entries; other looks come between the steps."""
        while (end := self._missing()) and not self._background.closed:
            self._take_below(end)
            if time.monotonic() - self._shown > max(SHOW_EVERY_S, SHARE * self._took_s):
                self._show()
            if self._background.asked and time.monotonic() - self._looked > self._look_every_s:
                self._poll()
        if self.snapshot.read < sum(map(len, self._parts)) or self._bounded != self.snapshot.bounded:
            self._show()

    @property
    def _bounded(self) -> bool:
        """Whether no more is read than what is there."""
        return sum(len(part.tables["files"]) for part in self._parts) >= self._most_files

    def _missing(self) -> int:
        """Behind the highest version that is to be read next; 0 where nothing is."""
        if self._bounded:
            return 0
        end = self._top + 1
        for part in sorted(self._parts, key=lambda part: -part.first):
            end = self._above_damage(end)
            if part.last + 1 < end:
                break
            end = part.first
        return self._above_damage(end)

    def _take_below(self, end: int) -> None:
        """Reads what comes before version `end`: of its stretch as far as it is not there, else a few entries."""
        stretch = self._stretches.holding(end - 1)
        known = max((part.last + 1 for part in self._parts if part.last < end), default=0)
        if stretch is None:
            below = max(known, end - STEP, self._stretches.end_below(end))
            self._take(range(below, end), store=self._store, first=PAGES_FIRST.wait)
            return
        PAGES_FIRST.wait()
        whole = self._stretches.take(stretch)
        if whole is not None:
            self._parts.append(cut(whole, first=max(known, stretch.first), last=end - 1))

    def _above_damage(self, end: int) -> int:
        while end - 1 in self._damage:
            end -= 1
        return end

    def _take(self, span: range, *, store: ObjectStore | None = None, first: Callable[[], None] = lambda: None) -> None:
        """Reads entries, after `first`; runs of them become parts. Only the newest are worth remembering: others have a `store`."""
        if not span:
            return
        entries, damage = entries_of(store or self._ahead, self._paths, span, pool=self._pool, first=first)
        self._damage.update((one.version, self._with_offsets(one)) for one in damage)
        for run in neighbours(entries, lambda entry: (entry.version, entry.version)):
            self._parts.append(part_of_rows(run))

    def _with_offsets(self, damage: Damage) -> Damage:
        """The damage with the offsets that the entry held; of the first ones only, for which its neighbours are read once."""
        version = damage.version
        if version not in self._held and len(self._held) < TRIED_AGAIN:
            self._held[version] = held_text(held_by(self._store, self._paths, version, version))
        return replace(damage, text=f"{damage.text} {self._held.get(version, '')}".strip())

    def _retry(self) -> None:
        if 0 < len(self._damage) <= TRIED_AGAIN:
            versions = sorted(self._damage)
            self._damage.clear()
            for version in versions:
                self._take(range(version, version + 1))

    def _recognise(self) -> None:
        """Whether this is still the same log: its first entry tells."""
        key = self._paths.commit(0)
        try:
            identity = read_entry(self._store.get(key), key=key).commit_id
        except (ObjectMissing, LogDamaged):
            identity = ""
        if identity != self._identity:
            if self._identity is not None:
                self._forget()
            self._identity = identity

    def _forget(self) -> None:
        self._ahead.forget()
        self._parts, self._damage, self._held, self._top, self._noted = [], {}, {}, -1, None
        self._stretches = Stretches(self._store, self._paths, self._pool)
        self.snapshot = Snapshot(number=self.snapshot.number)

    def _listed_top(self) -> int:
        """The newest entry that is there, where the log as a whole cannot be read."""
        start = self._paths.commit(self._top) if self._top >= 0 else ""
        return max(
            versions_listed(self._store.list(f"{self._paths.root}commits/", start_after=start)), default=self._top
        )

    def _show(self, *, known: SinkSnapshot | None = None, trouble: str = "") -> None:
        began = time.monotonic()
        self._parts = joined(self._parts)
        read = sum(map(len, self._parts))
        before = self.snapshot
        frames = before.frames if before.read == read and before.total == self._top + 1 else frames_of(self._parts)
        damage = tuple(self._damage[version] for version in sorted(self._damage))
        self.snapshot = replace(
            before,
            number=before.number + 1,
            known=_with_damage(known or before.known, damage),
            frames=frames,
            reached=before.reached if frames is before.frames else reach(frames.files),
            read=read,
            total=self._top + 1,
            bounded=self._bounded,
            damage=damage,
            trouble=trouble,
            looked_ms=before.looked_ms if known is None else known.seen_ms,
        )
        self._shown = time.monotonic()
        self._took_s = self._shown - began
        self._background.answered()


def _with_damage(known: SinkSnapshot | None, damage: Sequence[Damage]) -> SinkSnapshot | None:
    """The sink as the bucket says it, and what of its log cannot be read: no sink with a hole in its log is well."""
    if known is None or not damage or damage[0].text in known.damage:
        return known
    more = f" So are {len(damage) - 1:,} more entries." if len(damage) > 1 else ""
    before = "" if known.damage in damage[0].text else f"{known.damage} "
    return replace(known, damage=f"{before}{damage[0].text}{more}")
