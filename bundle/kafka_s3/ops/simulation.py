"""What would a configuration make of a day of traffic? The real loop over a virtual clock that jumps from poll to poll.

The bucket is a store in memory that counts requests, and forgets the content of objects that are complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka_s3.connect.config.option import Value
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.commands import LOOK_EVERY_MS
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.files import Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.forecast import DAY_MS, Forecast, forecast_of, table_requests
from kafka_s3.ops.traffic import Stream, Traffic
from kafka_s3.run.wiring.delta import written_by_spark
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore

READING: Final = frozenset({"get", "head"})
FREE: Final = frozenset({"delete", "abort"})
"""What S3 does not charge for; everything that is neither counts as writing, listings too."""
KINDS: Final = {
    "put": "put", "put_new": "put", "get": "get", "head": "head", "list": "list", "upload_exists": "list", "delete": "delete",
    "create_upload": "create upload", "upload_part": "upload part", "abort_upload": "abort", "tag": "tag",
}  # fmt: skip
"""What a verb of the store is as a request."""
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


def simulate(
    settings: Settings,
    streams: Mapping[TopicPartition, Stream],
    *,
    begun_ms: int,
    window_ms: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Forecast:
    """The forecast of one window of traffic from `begun_ms` (epoch ms) on. Raises what the sink raises: RecordError, RegistryError.

    `progress` is called with how many ms of the window are done. Nobody outside is notified: Glue and notifications are left out. A Delta
    table is not kept; its requests are counted, but for one that Spark writes.
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
        progress(clock.now_ms - begun_ms)
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


def window_of(streams: Mapping[TopicPartition, Stream]) -> int:
    """How long a time is simulated where nobody says it, ms: a day, or less where that would be too many records."""
    rate = sum(stream.per_second for stream in streams.values())
    return max(min(DAY_MS, int(MOST_RECORDS / rate * 1000)), SHORTEST_MS)


class CountingStore(MemoryStore):
    """The contract is `store.ObjectStore`'s, but for the content of completed uploads: it is gone. `requests` counts calls by kind."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: Counter[str] = Counter()

    @property
    def writes(self) -> int:
        """Requests at the price of writing."""
        return sum(count for kind, count in self.requests.items() if kind not in READING | FREE)

    @property
    def reads(self) -> int:
        """Requests at the price of reading."""
        return sum(self.requests[kind] for kind in READING)

    def complete_upload(self, upload: Upload) -> None:
        """As `store.ObjectStore`; then the content is forgotten."""
        self.requests["complete upload"] += 1
        super().complete_upload(upload)
        super().put(upload.key, b"")


def _counted(verb: str, kind: str) -> Callable[..., Any]:
    ask = getattr(MemoryStore, verb)

    def call(self: CountingStore, *given: Any, **named: Any) -> Any:
        self.requests[kind] += 1
        return ask(self, *given, **named)

    return call


for _verb, _kind in KINDS.items():
    setattr(CountingStore, _verb, _counted(_verb, _kind))


@dataclass
class _Clock:
    """A time that the simulation moves, epoch ms."""

    now_ms: int

    def __call__(self) -> int:
        return self.now_ms
