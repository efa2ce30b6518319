"""How does a day pass in seconds? The real loop over traffic of its own, by a clock that jumps from poll to poll."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kafka_s3.connect.config.option import Value
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.commands import LOOK_EVERY_MS
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.simulate.bucket import CountingStore
from kafka_s3.ops.simulate.forecast import DAY_MS, Forecast, forecast_of
from kafka_s3.ops.simulate.table_requests import table_requests
from kafka_s3.ops.simulate.traffic import Stream, Traffic
from kafka_s3.run.wiring.delta import written_by_spark
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink

MOST_RECORDS: Final = 3_000_000
SHORTEST_MS: Final = 600_000
MOST_POLLS: Final = 20_000
"""What one simulation does at most, unless its window is given: so many records, in no less than ten minutes, looked at so often."""
OURSELVES: Final[dict[str, Value]] = {
    "name": "simulated",
    "delta.enable": False,
    "glue.database.name": "",
    "notification.class": "",
}
"""What a simulated sink is set to, whatever the configuration says."""


@dataclass
class _Clock:
    """A time that the simulation moves, epoch ms."""

    now_ms: int

    def __call__(self) -> int:
        return self.now_ms


def window_of(streams: Mapping[TopicPartition, Stream]) -> int:
    """How long a time is simulated where nobody says it, ms: a day, or less where that would be too many records."""
    rate = sum(stream.per_second for stream in streams.values())
    return max(min(DAY_MS, int(MOST_RECORDS / rate * 1000)), SHORTEST_MS)


def simulate(
    settings: Settings,
    streams: Mapping[TopicPartition, Stream],
    *,
    begun_ms: int,
    window_ms: int,
    tell: Callable[[int, int], None] = lambda done, whole: None,
) -> Forecast:
    """The forecast of one window of traffic from `begun_ms` (epoch ms) on. Raises what the sink raises: RecordError, RegistryError.

    `tell` hears how many ms of the window are done. Nobody outside is told anything: Glue and notifications are left out. A Delta table is
    not kept; its requests are counted, but for one that Spark writes.
    """
    plain = replace(settings, values={**settings.values, **OURSELVES})
    store, clock = CountingStore(), _Clock(begun_ms)
    traffic = Traffic(streams, begun_ms, clock, make_pipeline(plain), store)
    sink = build_sink(plain, traffic, source=traffic, store=store, clock_ms=clock)
    sink.open()
    step = max(plain.number("poll.interval.ms"), -(-window_ms // MOST_POLLS))
    while clock.now_ms < begun_ms + window_ms:
        clock.now_ms = min(clock.now_ms + step, begun_ms + window_ms)
        sink.poll_and_commit()
        tell(clock.now_ms - begun_ms, window_ms)
    writes, reads = store.writes, store.reads
    log = CommitLog(store, state_paths(plain), clock_ms=clock)
    heartbeats, looks = window_ms // plain.number("heartbeat.interval.ms"), window_ms // LOOK_EVERY_MS
    if settings.flag("delta.enable") and not written_by_spark(settings):
        of_tables = table_requests(log.entries())
        writes, reads = writes + of_tables[0], reads + of_tables[1]
    return forecast_of(
        log.entries(),
        window_ms=window_ms,
        records=sum(stream.until(window_ms) for stream in streams.values()),
        writes=writes + heartbeats,
        reads=reads + looks,
    )
