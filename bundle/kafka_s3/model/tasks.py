"""What is a task asked to do, and what does it report? The assignment of the driver, and the report or failure it gets back; no data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.errors import SinkError
from kafka_s3.model.files import DataFile, Reason, Role
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.timing import Requests


@dataclass(frozen=True, slots=True)
class Delivery:
    """All offsets below `until` had arrived at `now_ms`: one poll, in Connect's words."""

    now_ms: int
    until: int


@dataclass(frozen=True, slots=True)
class OpenState:
    """Where a task left the open files of its topic-partition for the next one: an object of that key and size in bytes.

    It was written for the driver of an `epoch`, above a `frontier`, and holds all records before `examined`, the first offset not read yet.
    """

    key: str
    bytes: int
    epoch: int
    frontier: int
    examined: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a task shall read: offsets `[start, until)` and the deliveries in which they arrived.

    `next_rotation_ms` is the schedule's mark at `start`; `recorded` are offsets at or after `start` that are dead letters already;
    `close` closes what is open at the end, for that reason. With `only` the task makes that one file again: no rule closes anything, and
    records of other directories are left out; `data_key` is then the key of the values beside which it lies. `table` are the columns of the
    topic's Delta table, in the form of its log; None: there is none yet, or none is kept. After about `max_files` closed files (None: no
    limit) the task stops, and its report says how far it came. With `state` it goes on with the files that another one left open, and
    reads from there. `keep` is the epoch of a driver that wants what is left open to be kept; None: not. What is read `apart`
    shares its task with no other assignment: the last try failed in a way that took the whole task along. `erased` offsets are read, and
    left out. After `within_s` seconds (None: no limit) the task stops as it does when its time is nearly over. The driver does not begin
    what was planned for another `incarnation` of the offsets.
    """

    topic_partition: TopicPartition
    start: int
    until: int
    deliveries: tuple[Delivery, ...]
    next_rotation_ms: int | None = None
    recorded: OffsetSet = field(default_factory=OffsetSet)
    close: Reason | None = None
    only: DataFile | None = None
    data_key: str | None = None
    table: str | None = None
    max_files: int | None = None
    state: OpenState | None = None
    keep: int | None = None
    apart: bool = False
    erased: OffsetSet = field(default_factory=OffsetSet)
    within_s: float | None = None
    incarnation: int = field(default=-1, compare=False)

    @property
    def first_unread(self) -> int:
        """Where reading begins: at the first offset that no task has read whose open files are kept."""
        return self.start if self.state is None else self.state.examined


@dataclass(frozen=True, slots=True)
class Tail:
    """What was pending at the end of a task: how many records, encoded bytes, base timestamp (epoch ms) and open directories."""

    records: int = 0
    bytes: int = 0
    base_ms: int | None = None
    open_files: int = 0


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bytes that came from Kafka as they are in the log: to a task in `zone` from brokers in `broker_zone`, blank where that is unknown."""

    zone: str
    broker_zone: str
    bytes: int


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a task did; all the driver gets to see. `rows` counts the records between the old and the new frontier as read from Kafka.

    `dead` are the offsets of new dead letters, `failure` says at which record the sink has to stop and why: the report is about what lies
    before it. `needs` are the settings under which the bad records of its batch would not stop it, `remedy` how to go on without this
    one, `failed_at` its stage and offset; `letter` is that record, where it is reported first.
    `columns` are the different columns of the files, where tables are kept.
    `excess` says that the task stopped because its dead letters are too many; `commonest` is their commonest reason, with an example.
    `postponed` says that the task had no time for the assignment: nothing was done. `read_bytes` is the size of the records read, `state`
    where the open files are kept. `dropped` says why the state of the assignment could not be used: then nothing was done, and the tail
    has to be read from the frontier. `damaged` is the first offset at which Kafka holds something else than records, `damage` says what:
    nothing was done then, either. `requests` went to the bucket from
    a task's process since its last report, and `fetched` came from Kafka. `malformed` counts texts that lost bytes that are not UTF-8.
    """

    topic_partition: TopicPartition
    start: int
    until: int
    frontier: int
    rows: int = 0
    read: int = 0
    files: tuple[DataFile, ...] = ()
    dead: OffsetSet = field(default_factory=OffsetSet)
    stages: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    next_rotation_ms: int | None = None
    tail: Tail = field(default_factory=Tail)
    failure: str | None = None
    needs: tuple[str, ...] = ()
    remedy: str = ""
    failed_at: tuple[str, int] | None = None
    letter: DeadLetter | None = None
    columns: tuple[str, ...] = ()
    excess: str | None = None
    commonest: str = ""
    read_bytes: int = 0
    state: OpenState | None = None
    dropped: str = ""
    damaged: int | None = None
    damage: str = ""
    postponed: bool = False
    requests: Requests = field(default_factory=Requests)
    fetched: tuple[Fetched, ...] = ()
    malformed: Mapping[Role, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """An assignment that ended without a report: nothing of it counts, and why. What it uploaded may still be there."""

    topic_partition: TopicPartition
    error: SinkError


TaskOutcome: TypeAlias = TaskReport | TaskFailure
"""How an assignment ended."""


def reports_of(outcomes: Iterable[TaskOutcome]) -> list[TaskReport]:
    """The reports. Raises the error of the first assignment that failed."""
    reports: list[TaskReport] = []
    for outcome in outcomes:
        if isinstance(outcome, TaskFailure):
            raise outcome.error
        reports.append(outcome)
    return reports


def postponed_report(wanted: Assignment) -> TaskReport:
    """The report of an assignment for which its task had no time left: nothing was done, and it is due again at once."""
    return replace(_untouched_report(wanted), until=wanted.first_unread, postponed=True)


def damage_report(wanted: Assignment, offset: int, damage: str) -> TaskReport:
    """The report of a task that met something in Kafka that is not a record: nothing was done."""
    return replace(_untouched_report(wanted), damaged=offset, damage=damage)


def _untouched_report(wanted: Assignment) -> TaskReport:
    tp, start = wanted.topic_partition, wanted.start
    return TaskReport(tp, start, start, start, next_rotation_ms=wanted.next_rotation_ms, state=wanted.state)
