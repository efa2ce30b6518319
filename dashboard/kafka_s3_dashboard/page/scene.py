"""What does a page draw from? One consistent look at the sink: its snapshot cut to what was chosen, the clock, the settings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeVar

import pandas as pd

from kafka_s3.connect.config.classes import PARTITIONERS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import validate
from kafka_s3.engine.control.status import SinkHealth, health
from kafka_s3.engine.control.stored_settings import StoredConfig
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.partitioning import directory, uses_time
from kafka_s3_dashboard.figures.charts import Axis
from kafka_s3_dashboard.figures.data import (
    MINUTE_MS,
    Window,
    narrowed,
    selected,
    throughput,
    totals,
    totals_of_topics,
    wall,
    within,
)
from kafka_s3_dashboard.figures.partitions import Slots, no_slot, slot_of, slots_by
from kafka_s3_dashboard.page import resources
from kafka_s3_dashboard.page.controls import Chosen
from kafka_s3_dashboard.reading.bucket import OpenBucket
from kafka_s3_dashboard.reading.delta import TableLog, folders
from kafka_s3_dashboard.reading.frames import KINDS, Frames
from kafka_s3_dashboard.reading.history import FRESH_MS, Snapshot
from kafka_s3_dashboard.reading.reader import SILENT_S
from kafka_s3_dashboard.reading.tables import DELTA, TableStatus
from kafka_s3_dashboard.reading.watch import FRESH_MS as SIGHT_FRESH_MS
from kafka_s3_dashboard.reading.watch import Sight

T = TypeVar("T")
WAITED_MS: Final = 1_000
"""What may pass between a look that was new and the page that is drawn from it."""


@dataclass(frozen=True)
class Scene:
    """A moment of the dashboard."""

    variables: resources.Variables
    bucket: OpenBucket
    chosen: Chosen
    sight: Sight
    snapshot: Snapshot
    now_ms: int

    @property
    def looked_ms(self) -> int:
        """When the bucket said what the page shows: the older one of the two looks that it is drawn from."""
        looks = [one for one in (self.snapshot.looked_ms, self.sight.looked_ms) if one]
        return min(looks) if self.snapshot.known is not None else 0

    @property
    def is_new(self) -> bool:
        """Whether both looks were had, and were new when the page was drawn."""
        new = (
            self.snapshot.looked_ms >= self.now_ms - FRESH_MS - WAITED_MS
            and self.sight.looked_ms >= self.now_ms - SIGHT_FRESH_MS - WAITED_MS
        )
        return self.snapshot.known is not None and bool(self.sight.sinks) and new

    @property
    def zone(self) -> str:
        """The zone of all times that are shown."""
        return self.chosen.zone

    @property
    def paths(self) -> StatePaths:
        return StatePaths(self.bucket.folder.prefix, self.chosen.sink)

    @cached_property
    def wanted(self) -> Window:
        """What of the log was chosen."""
        return self.chosen.window(self.now_ms)

    @cached_property
    def entries(self) -> pd.DataFrame:
        """The entries within the window, of whatever topics."""
        return within(self.snapshot.frames.entries, self.wanted)

    @cached_property
    def counts(self) -> pd.DataFrame:
        """The counts of dead letters and skipped records within the window."""
        return within(self.snapshot.frames.counts, self.wanted)

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """The gaps within the window."""
        return within(self.snapshot.frames.gaps, self.wanted)

    @cached_property
    def rewrites(self) -> pd.DataFrame:
        """The compactions and erasures within the window."""
        return within(self.snapshot.frames.rewrites, self.wanted)

    @cached_property
    def swaps(self) -> pd.DataFrame:
        """The objects in whose place others are since some time within the window."""
        return within(self.snapshot.frames.swaps, self.wanted)

    def files(self, *columns: str) -> pd.DataFrame:
        """These columns of the files within the window, and KINDS."""
        return within(self.snapshot.frames.files, self.wanted, *columns, *KINDS)

    @cached_property
    def totals(self) -> dict[str, int]:
        """What the window holds in all, see `data.totals`."""
        if not self.wanted.topics:
            return totals(self.entries)
        return totals_of_topics(self.throughput, self.counts)

    @cached_property
    def throughput(self) -> pd.DataFrame:
        """What was written of the chosen topics over time, see `data.throughput`."""
        return self.kept_by_topic("throughput", lambda frames: throughput(frames.files, self.window))

    @cached_property
    def window(self) -> Window:
        """The window from the first entry in it to now."""
        return narrowed(self.snapshot.frames, self.wanted, self.now_ms // MINUTE_MS * MINUTE_MS)

    @cached_property
    def at_work(self) -> Window:
        """The window from the first entry in it to the last one: what a pace is worked out on."""
        return narrowed(self.snapshot.frames, self.wanted, 0)

    @cached_property
    def axis(self) -> Axis:
        """The time of the charts: that of the window, in whole bars."""
        step = self.window.step_ms
        ends = pd.Series([self.window.since_ms // step * step, -(-self.window.until_ms // step) * step])
        start, end = wall(ends, self.zone)
        return Axis(step, start, end)

    @cached_property
    def health(self) -> SinkHealth | None:
        """The state of the sink."""
        return health(self.snapshot.known) if self.snapshot.known else None

    @cached_property
    def settings(self) -> Settings | None:
        """The settings of the sink: those that the dashboard was started with, the ones last in effect, or the stored ones.

        References stay unresolved, secrets masked.
        """
        if self.bucket.settings is not None and self.chosen.sink == self.bucket.sink:
            return self.bucket.settings
        stored, notes = self.snapshot.stored, self.snapshot.notes
        if notes and not isinstance(notes, str) and (found := _usable(notes[-1].set, {})) is not None:
            return found
        return _usable(stored.config, stored.worker) if isinstance(stored, StoredConfig) else None

    @cached_property
    def slots(self) -> Slots:
        """The times that the sink's directories stand for: those of a partitioner by time, and none of any other."""
        if self.settings is None or self.settings.text("partitioner.class") not in PARTITIONERS.values():
            return slot_of  # what nobody says, the names have to tell
        if not uses_time(self.settings):
            return no_slot
        return slots_by(directory(self.settings)[1].replace("{d}", "/"))

    def kept(self, name: str, make: Callable[[], T], *about: Hashable) -> T:
        """A result that is worked out once for this state of the log, this window, and what else it is about."""
        return self._kept(self.wanted, make, name, *about)

    def kept_for_all(self, name: str, make: Callable[[Frames], T], *about: Hashable) -> T:
        """As `kept`, but of all topics, whichever are chosen: a result that can be cut to them makes choosing others quick."""
        every = replace(self.wanted, topics=())
        return self._kept(every, lambda: make(selected(self.snapshot.frames, every)), name, *about)

    def kept_for_log(self, name: str, make: Callable[[], T], *about: Hashable) -> T:
        """As `kept`, but of the whole log, whatever time is chosen."""
        return resources.kept(self.variables, self.chosen.sink).of(self.snapshot.frames, (name, *about), make=make)

    def _kept(self, window: Window, make: Callable[[], T], *about: Hashable) -> T:
        kept = resources.kept(self.variables, self.chosen.sink)
        return kept.of(self.snapshot.frames, (window, self.window.step_ms, *about), make=make)

    def kept_by_topic(self, name: str, make: Callable[[Frames], pd.DataFrame]) -> pd.DataFrame:
        """A frame whose rows are about one `topic` each, kept for all topics and cut to the chosen ones."""
        made = self.kept_for_all(name, make)
        chosen = self.wanted.topics
        return made[made["topic"].isin(chosen).to_numpy()].reset_index(drop=True) if chosen else made

    def wants(self, topic: str) -> bool:
        """Whether the topic was chosen, or none was."""
        return not self.wanted.topics or topic in self.wanted.topics

    @cached_property
    def table_folders(self) -> dict[str, str]:
        """The folder of each chosen topic's Parquet objects."""
        every = self.kept_for_log("folders", lambda: folders(self.snapshot.frames.files))
        return {topic: one for topic, one in every.items() if self.wants(topic)}

    @cached_property
    def tables(self) -> dict[str, TableLog]:
        """Each topic's Delta table, as far as it is known; topics without one are left out."""
        folders = self.table_folders
        found = resources.table_logs(self.variables, self.chosen.sink).of(folders.values())
        return {topic: log for topic, log in zip(folders, found, strict=True) if log.last}

    @property
    def table_statuses(self) -> list[TableStatus]:
        """How far each chosen topic's tables have come: what is noted beside the log, else what a Delta table says itself."""
        found = []
        for topic in self.table_folders:
            log = self.tables.get(topic)
            left_out = tuple(key for one in log.versions for key in one.left_out) if log else ()
            noted = {name: one for name, one in self.snapshot.tables.items() if not isinstance(one, str)}
            for name, one in noted.items():
                own = left_out if name == DELTA else ()
                found.append(TableStatus(topic, name, one.position_of(topic), one.held.get(topic), own))
            if log is not None and DELTA not in noted:
                found.append(TableStatus(topic, DELTA, log.position, left_out=left_out))
        return found


def _usable(config: Mapping[str, str], worker: Mapping[str, str]) -> Settings | None:
    found = validate(dict(config), worker=worker)
    return None if found.problems else found.settings


def scene(variables: resources.Variables, chosen: Chosen) -> Scene:
    """How things are now; waits for a look that is not old at most a second, and not at all for a bucket that is silent."""
    bucket, history, watch = (
        resources.bucket(variables),
        resources.history(variables, chosen.sink),
        resources.watch(variables),
    )
    silent = bucket.reader.waiting_s > SILENT_S
    snapshot = history.ask(0) if silent else history.ask_fresh(1.0)
    sight = watch.ask(0) if silent else watch.ask_fresh(0.5)
    return Scene(variables, bucket, chosen, sight, snapshot, now_ms())
