"""Which numbers does a running sink give, and how do they come about? One table for Prometheus, OTLP and the reference page; an observer
of the loop that counts, and passes everything on; and the memory.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Final

from kafka_s3.engine.control.heartbeat import Heartbeat, Phase
from kafka_s3.model.dead_letters import Stage
from kafka_s3.model.files import Reason, Role, counted
from kafka_s3.model.protocols import RewriteSummary, RoundSummary, StateProgress, TopicBacklog
from kafka_s3.model.timing import Durations, Requests, took


class Kind(StrEnum):
    """What may be done with a number: counters only grow, gauges are as they are, histograms count durations."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Instrument:
    """A number of a name by the conventions of Prometheus, and the names of its labels."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ("sink",)

    @property
    def unit(self) -> str:
        """The unit as OpenTelemetry writes it, blank for counts."""
        stem = self.name.removesuffix("_total")
        return next((unit for ending, unit in (("_seconds", "s"), ("_bytes", "By")) if stem.endswith(ending)), "")


@dataclass(frozen=True, slots=True)
class Sample:
    """An instrument's value under the values of its labels, which are in the order of their names."""

    instrument: Instrument
    labels: tuple[str, ...]
    value: float | Durations


Samples = Callable[[], Iterable[Sample]]
"""Everything as it is now; called at each look, by several threads."""

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_TOPIC: Final = ("sink", "topic")

RECORDS: Final = Instrument("kafka_s3_records_total", _COUNTER, "Records committed, by what became of them: `result` is written, "
                            "dead_letter or skipped. Each counts once, however often it was read.", (*_TOPIC, "result"))  # fmt: skip
RECORDS_READ: Final = Instrument(
    "kafka_s3_records_read_total", _COUNTER, "Records read from Kafka; what is read again counts again."
)
FETCHED: Final = Instrument("kafka_s3_fetched_bytes_total", _COUNTER, "Bytes that tasks fetched from Kafka, compressed as they are "
                            "there. With `client.rack` by the task's zone and the broker's: where these differ, they crossed zones.",
                            ("sink", "zone", "broker_zone"))  # fmt: skip
FILES: Final = Instrument("kafka_s3_files_total", _COUNTER, "Files committed, by the rotation rule that closed them.",
                          (*_TOPIC, "reason"))  # fmt: skip
BYTES: Final = Instrument("kafka_s3_file_bytes_total", _COUNTER, "Bytes of the files committed.", _TOPIC)
MALFORMED: Final = Instrument("kafka_s3_malformed_texts_total", _COUNTER, "Values, keys and header values (`part`) that were not UTF-8: "
                              "U+FFFD is stored in the place of their bytes, as in the original. What is read again counts again.",
                              (*_TOPIC, "part"))  # fmt: skip
DEAD_LETTERS: Final = Instrument("kafka_s3_dead_letters_total", _COUNTER, "Dead letters committed, by the stage at which their records "
                                 "failed.", (*_TOPIC, "stage"))  # fmt: skip
LAG_RECORDS: Final = Instrument(
    "kafka_s3_lag_records",
    _GAUGE,
    "Records between the frontier, before which all is committed, and Kafka's heads.",
    _TOPIC,
)
LAG_SECONDS: Final = Instrument("kafka_s3_lag_seconds", _GAUGE, "How long this run has known of the oldest record that no task has read; "
                                "0 where there is none.", _TOPIC)  # fmt: skip
OPEN_AGE: Final = Instrument("kafka_s3_oldest_open_record_seconds", _GAUGE, "How long the oldest record in open files has been seen in one "
                             "by this run; 0 where there is none.", _TOPIC)  # fmt: skip
DELAY: Final = Instrument("kafka_s3_delay_seconds", _GAUGE, "From a record's own time to its commit, in the last commit with records: half "
                          "of them took no longer (`quantile` 0.5), 95 % no longer (0.95).", ("sink", "quantile"))  # fmt: skip
UNREAD: Final = Instrument("kafka_s3_unread_records", _GAUGE, "Records that no task has read yet, up to Kafka's heads at the last poll.",
                           _TOPIC)  # fmt: skip
CATCH_UP: Final = Instrument("kafka_s3_catch_up_seconds", _GAUGE, "Until a sink that is behind has read all that is in Kafka, at its pace; "
                             "0 where it is not behind, infinite where more arrives than it reads.")  # fmt: skip
CATCH_UP_RATE: Final = Instrument("kafka_s3_catch_up_records_per_second", _GAUGE, "Records that a sink behind reads, and that arrive, "
                                  "in a second (`kind` is read or arriving); 0 where it is not behind.", ("sink", "kind"))  # fmt: skip
PHASE: Final = Instrument("kafka_s3_phase", _GAUGE, "1 for what the sink does (starting, running, paused, stopped, failed), else 0.",
                          ("sink", "phase"))  # fmt: skip
PROBLEMS: Final = Instrument("kafka_s3_problems", _GAUGE, "What is the matter now: things that fail and are tried again, topics that are "
                             "missing, topic-partitions that no broker answers for, tables that do not follow.")  # fmt: skip
WARNINGS: Final = Instrument(
    "kafka_s3_warnings_total", _COUNTER, "Failures that the sink tried again, or went on without."
)
LAST_ROUND: Final = Instrument(
    "kafka_s3_last_round_timestamp_seconds", _GAUGE, "When the last round was committed, as Unix time."
)
ROUND: Final = Instrument("kafka_s3_round_phase_seconds", _HISTOGRAM, "Durations of the phases of rounds: read (Spark's tasks), commit "
                          "(the entry of the log), publish (objects appear), follow (checkpoint and followers).",
                          ("sink", "phase"))  # fmt: skip
REQUESTS: Final = Instrument("kafka_s3_request_seconds", _HISTOGRAM, "Durations of requests to the bucket, of driver and tasks, by S3's "
                             "operation; the count is the number of requests.", ("sink", "operation"))  # fmt: skip
FAILED: Final = Instrument("kafka_s3_request_failures_total", _COUNTER, "Requests to the bucket that were refused, throttled or not "
                           "answered.", ("sink", "operation"))  # fmt: skip
RETRIES: Final = Instrument(
    "kafka_s3_request_retries_total", _COUNTER, "Requests to the bucket that were sent again after a failure."
)
STATES: Final = Instrument(
    "kafka_s3_open_states_total", _COUNTER, "State objects that keep open files between two tasks, written."
)
STATE_BYTES: Final = Instrument("kafka_s3_open_state_bytes_total", _COUNTER, "Bytes of these state objects.")
REWRITTEN: Final = Instrument("kafka_s3_rewritten_objects_total", _COUNTER, "Objects of compactions and erasures (`reason`): `result` is "
                              "replaced or made in their place. They are no files of `kafka_s3_files_total`, and hold no other records.",
                              ("sink", "reason", "result"))  # fmt: skip
DELETED: Final = Instrument("kafka_s3_originals_deleted_total", _COUNTER, "Replaced objects that were deleted when their grace was over. "
                            "The others replaced are still in the bucket.")  # fmt: skip
STATE_ENTRY: Final = Instrument("kafka_s3_state_complete_through_entry", _GAUGE, "The entry of the log through which the topic's state "
                                "table is complete. This and the next four are of tables that the sink itself keeps.", _TOPIC)  # fmt: skip
STATE_KEYS: Final = Instrument("kafka_s3_state_keys", _GAUGE, "Rows of the state table after its last merge.", _TOPIC)
STATE_PACE: Final = Instrument("kafka_s3_state_changes_per_minute", _GAUGE, "Keys that changed, a minute between the last two merges of "
                               "the state table; 0 after a rebuild.", _TOPIC)  # fmt: skip
STATE_MERGED: Final = Instrument(
    "kafka_s3_state_last_merge_timestamp_seconds", _GAUGE, "When the state table was last merged, as Unix time.", _TOPIC
)
STATE_WAITING: Final = Instrument("kafka_s3_state_waiting_seconds", _GAUGE, "How long this run has known of an entry that the state table "
                                  "lacks; 0 where there is none.", _TOPIC)  # fmt: skip
MEMORY: Final = Instrument("kafka_s3_memory_bytes", _GAUGE, "Resident memory on the driver's machine: of the driver itself, of Java, of "
                           "the Python processes of tasks. What forked processes share counts in each.", ("process",))  # fmt: skip

INSTRUMENTS: Final = (
    RECORDS, RECORDS_READ, FETCHED, FILES, BYTES, MALFORMED, DEAD_LETTERS, LAG_RECORDS, LAG_SECONDS, OPEN_AGE, DELAY, UNREAD,
    CATCH_UP, CATCH_UP_RATE, PHASE, PROBLEMS, WARNINGS, LAST_ROUND,
    ROUND, REQUESTS, FAILED, RETRIES, STATES, STATE_BYTES, REWRITTEN, DELETED,
    STATE_ENTRY, STATE_KEYS, STATE_PACE, STATE_MERGED, STATE_WAITING, MEMORY,
)  # fmt: skip


def table() -> Iterator[str]:
    """The lines of the table in docs/metrics.md: `python -m kafka_s3.run.metrics.sink_metrics` prints it."""
    yield "| metric | kind | labels | |"
    yield "|---|---|---|---|"
    for one in INSTRUMENTS:
        yield f"| `{one.name}` | {one.kind} | {', '.join(one.labels)} | {one.help} |"


PROC: Final = Path("/proc")


def memory_samples() -> Iterator[Sample]:
    """Resident bytes of the driver, of Java, and of the tasks' Python, as far as they are processes of this machine below this one."""
    sums: dict[str, int] = {}
    for pid, name in _family(os.getpid()).items():
        kind = "driver" if pid == os.getpid() else "java" if name == "java" else "tasks"
        sums[kind] = sums.get(kind, 0) + _resident(pid)
    return (Sample(MEMORY, (kind,), size) for kind, size in sums.items())


def _family(root: int) -> dict[int, str]:
    """A process and all below it, with their names."""
    parents, names = dict[int, int](), dict[int, str]()
    for folder in PROC.glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        parents[int(folder.name)], names[int(folder.name)] = int(rest.split()[1]), name.partition("(")[2]
    return {pid: names[pid] for pid in parents if root in _line(pid, parents)}


def _line(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """A process and those above it."""
    while pid in parents:
        yield pid
        pid = parents[pid]


def _resident(pid: int) -> int:
    try:
        pages = int((PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


Labels = tuple[str, ...]
WRITTEN, DEAD, SKIPPED = RESULTS = ("written", "dead_letter", "skipped")


class SinkMetrics:
    """The numbers of one sink. Thread-safe: the loop counts, and exporters read."""

    def __init__(self, sink: str, *, clock_ms: Callable[[], int]) -> None:
        self._sink, self._clock_ms = sink, clock_ms
        self._lock = Lock()
        self._counts: dict[tuple[Instrument, Labels], float] = {}
        self._durations: dict[tuple[Instrument, Labels], Durations] = {}
        self._waiting: Mapping[str, TopicBacklog] = {}
        self._states: Mapping[str, StateProgress] = {}
        self._requests: Callable[[], Requests] = Requests
        self._heartbeat: Callable[[], Heartbeat | None] = lambda: None
        for one in (RECORDS_READ, WARNINGS, RETRIES, STATES, STATE_BYTES, DELETED):
            self._counts[one, (sink,)] = 0  # there from the start, so that the first growth is seen
        for reason in (Reason.COMPACTION, Reason.ERASURE):
            self._count_rewrite(RewriteSummary(0, reason))

    def attach(self, heartbeat: Callable[[], Heartbeat], requests: Callable[[], Requests]) -> None:
        """Where to look for what no event brings: the heartbeat, and the requests that the driver has sent since the last look."""
        self._heartbeat, self._requests = heartbeat, requests

    def samples(self) -> Iterator[Sample]:
        """Everything as it is now."""
        with self._lock:
            self._count_requests(self._requests())
            counts, durations, waiting, states = (
                dict(self._counts),
                dict(self._durations),
                self._waiting,
                self._states,
            )
        yield from (Sample(instrument, labels, value) for (instrument, labels), value in counts.items())
        yield from (Sample(instrument, labels, value) for (instrument, labels), value in durations.items())
        yield from self._waiting_samples(waiting)
        yield from self._state_samples(states)
        heartbeat = self._heartbeat()
        if heartbeat is not None:
            yield from self._heartbeat_samples(heartbeat)

    # ------------------------------------------------------------ events of the loop

    def polled(self, backlog: Callable[[], Mapping[str, TopicBacklog]]) -> None:
        now = backlog()
        with self._lock:
            for topic in now.keys() - self._waiting.keys():
                self._begin(topic)
            self._waiting = now

    def round_done(self, done: RoundSummary) -> None:
        with self._lock:
            self._count_round(done)
            self._count_requests(done.requests)

    def rewritten(self, done: RewriteSummary) -> None:
        with self._lock:
            self._count_rewrite(done)

    def states_kept(self, topics: Mapping[str, StateProgress]) -> None:
        with self._lock:
            self._states = topics

    def warned(self, text: str) -> None:
        with self._lock:
            self._add(WARNINGS, 1)

    follower_warned = warned

    # ------------------------------------------------------------ counting, under the lock

    def _begin(self, topic: str) -> None:
        """Counters begin at 0, for Prometheus does not see how a number grew that it had not seen before."""
        for result in RESULTS:
            self._add(RECORDS, 0, topic, result)
        for stage in Stage:
            self._add(DEAD_LETTERS, 0, topic, str(stage))
        for part in (Role.VALUE, Role.KEY, Role.HEADER):
            self._add(MALFORMED, 0, topic, str(part))

    def _count_round(self, done: RoundSummary) -> None:
        self._add(RECORDS_READ, done.read)
        for one in done.fetched:
            self._add(FETCHED, one.bytes, one.zone, one.broker_zone)
        for (topic, part), count in done.malformed.items():
            self._add(MALFORMED, count, topic, str(part))
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

    def _count_rewrite(self, done: RewriteSummary) -> None:
        self._add(DELETED, done.deleted)
        if done.reason:
            self._add(REWRITTEN, done.replaced, done.reason, "replaced")
            self._add(REWRITTEN, done.made, done.reason, "made")

    def _count_requests(self, requests: Requests) -> None:
        for operation, durations in requests.durations.items():
            self._observe(REQUESTS, durations, operation)
            self._add(FAILED, requests.failed.get(operation, 0), operation)
        self._add(RETRIES, requests.again)

    def _add(self, instrument: Instrument, amount: float, *labels: str) -> None:
        series = instrument, (self._sink, *labels)
        self._counts[series] = self._counts.get(series, 0) + amount

    def _observe(self, instrument: Instrument, durations: Durations, *labels: str) -> None:
        series = instrument, (self._sink, *labels)
        self._durations[series] = self._durations.get(series, Durations()).plus(durations)

    # ------------------------------------------------------------ what is as it is now

    def _waiting_samples(self, waiting: Mapping[str, TopicBacklog]) -> Iterator[Sample]:
        now = self._clock_ms()
        for topic, one in waiting.items():
            labels = self._sink, topic
            yield Sample(LAG_RECORDS, labels, one.records)
            yield Sample(UNREAD, labels, one.unread)
            yield Sample(LAG_SECONDS, labels, _seconds_since(one.unread_since_ms, now))
            yield Sample(OPEN_AGE, labels, _seconds_since(one.open_since_ms, now))

    def _state_samples(self, states: Mapping[str, StateProgress]) -> Iterator[Sample]:
        now = self._clock_ms()
        for topic, one in states.items():
            labels = self._sink, topic
            yield Sample(STATE_ENTRY, labels, one.position)
            yield Sample(STATE_KEYS, labels, one.keys or 0)
            yield Sample(STATE_PACE, labels, one.changes_a_minute or 0)
            yield Sample(STATE_MERGED, labels, one.merged_ms / 1000)
            yield Sample(STATE_WAITING, labels, _seconds_since(one.waiting_since_ms, now))

    def _heartbeat_samples(self, heartbeat: Heartbeat) -> Iterator[Sample]:
        for phase in Phase:
            yield Sample(PHASE, (self._sink, str(phase)), int(heartbeat.phase is phase))
        yield Sample(
            PROBLEMS, (self._sink,), int(heartbeat.troubled) + len(heartbeat.open_problems) + len(heartbeat.behind)
        )
        yield from self._catch_up_samples(heartbeat)
        if heartbeat.last_round_ms is not None:
            yield Sample(LAST_ROUND, (self._sink,), heartbeat.last_round_ms / 1000)
        if heartbeat.delay is not None:
            yield Sample(DELAY, (self._sink, "0.5"), heartbeat.delay.median_ms / 1000)
            yield Sample(DELAY, (self._sink, "0.95"), heartbeat.delay.slow_ms / 1000)

    def _catch_up_samples(self, heartbeat: Heartbeat) -> Iterator[Sample]:
        found = heartbeat.catch_up
        if found is None:
            yield Sample(CATCH_UP, (self._sink,), 0)
            yield from (Sample(CATCH_UP_RATE, (self._sink, kind), 0) for kind in ("read", "arriving"))
            return
        if found.until_ms is not None:
            yield Sample(CATCH_UP, (self._sink,), max(found.until_ms - self._clock_ms(), 0) / 1000)
        elif found.measured:
            yield Sample(CATCH_UP, (self._sink,), math.inf)
        for kind, rate in (("read", found.read_per_s), ("arriving", found.arriving_per_s)):
            if rate is not None:
                yield Sample(CATCH_UP_RATE, (self._sink, kind), rate)


def _seconds_since(then_ms: int | None, now_ms: int) -> float:
    return 0.0 if then_ms is None else max(now_ms - then_ms, 0) / 1000


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in table()))
