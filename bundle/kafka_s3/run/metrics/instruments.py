"""Which numbers does a running sink give? The one table that Prometheus, OTLP and the reference page are made from; and its memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from kafka_s3.model.timing import Durations


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
FILES: Final = Instrument("kafka_s3_files_total", _COUNTER, "Files committed, by the rotation rule that closed them.",
                          (*_TOPIC, "reason"))  # fmt: skip
BYTES: Final = Instrument("kafka_s3_file_bytes_total", _COUNTER, "Bytes of the files committed.", _TOPIC)
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
PHASE: Final = Instrument("kafka_s3_phase", _GAUGE, "1 for what the sink does (starting, running, paused, stopped, failed), else 0.",
                          ("sink", "phase"))  # fmt: skip
PROBLEMS: Final = Instrument("kafka_s3_problems", _GAUGE, "What is the matter now: things that fail and are tried again, topics that are "
                             "missing, topic-partitions that no broker answers for.")  # fmt: skip
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
MEMORY: Final = Instrument("kafka_s3_memory_bytes", _GAUGE, "Resident memory on the driver's machine: of the driver itself, of Java, of "
                           "the Python processes of tasks. What forked processes share counts in each.", ("process",))  # fmt: skip

INSTRUMENTS: Final = (
    RECORDS, RECORDS_READ, FILES, BYTES, DEAD_LETTERS, LAG_RECORDS, LAG_SECONDS, OPEN_AGE, DELAY, PHASE, PROBLEMS, WARNINGS, LAST_ROUND,
    ROUND, REQUESTS, FAILED, RETRIES, STATES, STATE_BYTES, MEMORY,
)  # fmt: skip


def table() -> Iterator[str]:
    """The lines of the table in docs/metrics.md: `python -m kafka_s3.run.metrics.instruments` prints it."""
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


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in table()))
