"""What does a page draw from? One consistent look at the sink: its snapshot cut to what was chosen, the clock, the settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

import resources
from charts import Axis
from controls import Chosen
from data import Window, narrowed, selected, wall
from frames import Frames
from history import Snapshot
from kafka_s3.config.settings import Settings
from kafka_s3.config.validate import validate
from kafka_s3.control import StoredConfig, read_stored_config
from kafka_s3.errors import ConfigError, SinkError
from kafka_s3.naming import StatePaths
from kafka_s3.sink_status import Verdict, verdict
from place import Opened
from watch import Sight


@dataclass(frozen=True)
class Scene:
    """A moment of the dashboard."""

    at: Opened
    chosen: Chosen
    sight: Sight
    snapshot: Snapshot
    now_ms: int

    @property
    def zone(self) -> str:
        """The zone of all times that are shown."""
        return self.chosen.zone

    @property
    def paths(self) -> StatePaths:
        """Where the sink's state lies."""
        return StatePaths(self.at.place.prefix, self.chosen.sink)

    @cached_property
    def wanted(self) -> Window:
        """What of the log was chosen."""
        return self.chosen.window(self.now_ms)

    @cached_property
    def frames(self) -> Frames:
        """The log within the window."""
        return selected(self.snapshot.frames, self.wanted)

    @cached_property
    def window(self) -> Window:
        """The window without the empty time at its ends."""
        return narrowed(self.snapshot.frames, self.wanted)

    @cached_property
    def axis(self) -> Axis:
        """The time of the charts: that of the window, in whole bars."""
        step = self.window.step_ms
        ends = pd.Series([self.window.since_ms // step * step, -(-self.window.until_ms // step) * step])
        start, end = wall(ends, self.zone)
        return Axis(step, start, end)

    @cached_property
    def verdict(self) -> Verdict | None:
        """The state of the sink."""
        return verdict(self.snapshot.known, self.now_ms) if self.snapshot.known else None

    @cached_property
    def stored(self) -> StoredConfig | str | None:
        """The configuration that lies beside the log, None where there is none; a text says why it cannot be read."""
        try:
            return read_stored_config(self.at.place.store, self.paths)
        except SinkError as error:
            return str(error)

    @cached_property
    def settings(self) -> Settings | None:
        """The settings of the sink: those that the dashboard was started with, or the stored ones; references stay unresolved."""
        if self.at.settings is not None and self.chosen.sink == self.at.sink:
            return self.at.settings
        if isinstance(self.stored, StoredConfig):
            try:
                return validate(dict(self.stored.config), worker=self.stored.worker).usable()
            except ConfigError:
                return None
        return None


def scene(variables: resources.Variables, chosen: Chosen) -> Scene:
    """How things are now; waits for the first words of a log at most a second."""
    history = resources.history(variables, chosen.sink)
    snapshot = history.first(1.0)
    return Scene(resources.place(variables), chosen, resources.watch(variables).ask(0.5), snapshot, resources.now_ms())
