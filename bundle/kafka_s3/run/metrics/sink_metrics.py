"""How do a sink's numbers come about? An observer of the loop that counts, and passes everything on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import Lock

from kafka_s3.engine.control.heartbeat import Heartbeat, Phase
from kafka_s3.model.dead_letters import Stage
from kafka_s3.model.files import counted
from kafka_s3.model.protocols import Observer, RoundSummary, TopicBacklog
from kafka_s3.model.timing import Durations, Requests, took
from kafka_s3.run.metrics.instruments import (
    BYTES,
    DEAD_LETTERS,
    DELAY,
    FAILED,
    FILES,
    LAG_RECORDS,
    LAG_SECONDS,
    LAST_ROUND,
    OPEN_AGE,
    PHASE,
    PROBLEMS,
    RECORDS,
    RECORDS_READ,
    REQUESTS,
    RETRIES,
    ROUND,
    STATE_BYTES,
    STATES,
    WARNINGS,
    Instrument,
    Sample,
)

Labels = tuple[str, ...]
WRITTEN, DEAD, SKIPPED = RESULTS = ("written", "dead_letter", "skipped")


class SinkMetrics(Observer):
    """The numbers of one sink. Thread-safe: the loop counts, and exporters read."""

    def __init__(self, sink: str, *, inner: Observer, clock_ms: Callable[[], int]) -> None:
        self._sink, self.inner, self._clock_ms = sink, inner, clock_ms
        self._lock = Lock()
        self._counts: dict[tuple[Instrument, Labels], float] = {}
        self._durations: dict[tuple[Instrument, Labels], Durations] = {}
        self._waiting: Mapping[str, TopicBacklog] = {}
        self._requests: Callable[[], Requests] = Requests
        self._heartbeat: Callable[[], Heartbeat | None] = lambda: None
        for one in (RECORDS_READ, WARNINGS, RETRIES, STATES, STATE_BYTES):
            self._counts[one, (sink,)] = 0  # there from the start, so that the first growth is seen

    def attach(self, heartbeat: Callable[[], Heartbeat], requests: Callable[[], Requests]) -> None:
        """Where to look for what no event brings: the heartbeat, and the requests that the driver has sent since the last look."""
        self._heartbeat, self._requests = heartbeat, requests

    def samples(self) -> Iterator[Sample]:
        """Everything as it is now."""
        with self._lock:
            self._count_requests(self._requests())
            counts, durations, waiting = dict(self._counts), dict(self._durations), self._waiting
        yield from (Sample(instrument, labels, value) for (instrument, labels), value in counts.items())
        yield from (Sample(instrument, labels, value) for (instrument, labels), value in durations.items())
        yield from self._waiting_samples(waiting)
        heartbeat = self._heartbeat()
        if heartbeat is not None:
            yield from self._heartbeat_samples(heartbeat)

    # ------------------------------------------------------------ events of the loop

    def polled(self, backlog: Callable[[], Mapping[str, TopicBacklog]]) -> None:
        """What waits now."""
        now = backlog()
        with self._lock:
            for topic in now.keys() - self._waiting.keys():
                self._begin(topic)
            self._waiting = now
        super().polled(backlog)

    def round_done(self, done: RoundSummary) -> None:
        """Counts what was committed."""
        with self._lock:
            self._count_round(done)
            self._count_requests(done.requests)
        super().round_done(done)

    def warned(self, text: str) -> None:
        """Counted."""
        with self._lock:
            self._add(WARNINGS, 1)
        super().warned(text)

    # ------------------------------------------------------------ counting, under the lock

    def _begin(self, topic: str) -> None:
        """Counters begin at 0, for Prometheus does not see how a number grew that it had not seen before."""
        for result in RESULTS:
            self._add(RECORDS, 0, topic, result)
        for stage in Stage:
            self._add(DEAD_LETTERS, 0, topic, str(stage))

    def _count_round(self, done: RoundSummary) -> None:
        self._add(RECORDS_READ, done.read)
        for file in counted(done.files):
            self._add(FILES, 1, file.topic, str(file.reason))
            self._add(BYTES, file.bytes, file.topic)
            self._add(RECORDS, file.records, file.topic, WRITTEN)
        for tp, dead in done.dead_letters.items():
            self._add(RECORDS, dead.count, tp.topic, DEAD)
            for stage, count in dead.stages.items():
                self._add(DEAD_LETTERS, count, tp.topic, stage)
        for tp, count in done.skipped.items():
            self._add(RECORDS, count, tp.topic, SKIPPED)
        for phase, seconds in done.phases.items():
            self._observe(ROUND, took(seconds), str(phase))
        self._counts[STATES, (self._sink,)] = done.open_states
        self._counts[STATE_BYTES, (self._sink,)] = done.open_state_bytes

    def _count_requests(self, requests: Requests) -> None:
        for operation, durations in requests.durations.items():
            self._observe(REQUESTS, durations, operation)
            self._add(FAILED, requests.failed.get(operation, 0), operation)
        self._add(RETRIES, requests.again)

    def _add(self, instrument: Instrument, amount: float, *labels: str) -> None:
        place = instrument, (self._sink, *labels)
        self._counts[place] = self._counts.get(place, 0) + amount

    def _observe(self, instrument: Instrument, durations: Durations, *labels: str) -> None:
        place = instrument, (self._sink, *labels)
        self._durations[place] = self._durations.get(place, Durations()).plus(durations)

    # ------------------------------------------------------------ what is as it is now

    def _waiting_samples(self, waiting: Mapping[str, TopicBacklog]) -> Iterator[Sample]:
        now = self._clock_ms()
        for topic, one in waiting.items():
            labels = self._sink, topic
            yield Sample(LAG_RECORDS, labels, one.records)
            yield Sample(LAG_SECONDS, labels, _seconds_since(one.unread_since_ms, now))
            yield Sample(OPEN_AGE, labels, _seconds_since(one.open_since_ms, now))

    def _heartbeat_samples(self, heartbeat: Heartbeat) -> Iterator[Sample]:
        for phase in Phase:
            yield Sample(PHASE, (self._sink, str(phase)), int(heartbeat.phase is phase))
        yield Sample(PROBLEMS, (self._sink,), int(heartbeat.troubled) + len(heartbeat.standing))
        if heartbeat.last_round_ms is not None:
            yield Sample(LAST_ROUND, (self._sink,), heartbeat.last_round_ms / 1000)
        if heartbeat.delay is not None:
            yield Sample(DELAY, (self._sink, "0.5"), heartbeat.delay.median_ms / 1000)
            yield Sample(DELAY, (self._sink, "0.95"), heartbeat.delay.slow_ms / 1000)


def _seconds_since(then_ms: int | None, now_ms: int) -> float:
    return 0.0 if then_ms is None else max(now_ms - then_ms, 0) / 1000
