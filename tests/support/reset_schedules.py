"""Run schedules in which offsets get other meanings, and judge them by a model that knows each record by a number of its own.

Logs are cut and grow again, topics are created again, positions are set back, records are erased, objects compacted, drivers die, uploads
are lost, and reads beside the loop come late. Each seed is one schedule for the real loop in memory. In the end every reader has to agree
with the model: each record that Kafka has now counts once, with its offset, unless it was erased, and no other record does.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_s3.engine.log.dead_letters import LetterSelection, LetterState, letters, read_ledger
from kafka_s3.engine.log.fold import UNPUBLISHED, live_objects
from kafka_s3.engine.log.history import read_history
from kafka_s3.engine.log.rewrites import ask_for_rewrite
from kafka_s3.engine.loop.beside import Outcomes
from kafka_s3.model.errors import LogDamaged, SinkError
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.erasure.forgetting import Forgetting, NotReady
from kafka_s3.ops.erasure.subjects import subjects_of
from kafka_s3.ops.positions import write_positions
from kafka_s3.ops.restore.files import logged_files
from kafka_s3.ops.restore.plan import reading_of
from kafka_s3.run.wiring.iceberg import catalog_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.run.wiring.state import state_merger
from kafka_s3.spark import KafkaS3, SinkLocation
from kafka_s3_testing.faults import Fault, FaultyStore, Moment, Verb, failure, raising
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import STATE as STATE_FOLDER
from tests.support.configurations import TOLERANT
from tests.support.deaths import Died
from tests.support.memory_world import START_MS, World
from tests.support.rewriting import ask_for_compaction
from tests.support.state_world import STATE, MemoryStates
from tests.support.verifying import MemoryCluster, audited

PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
GRACE_MS = 3_600_000
TASK_RECORDS = 6
CONFIG = {
    **TOLERANT,
    "tail.read.records": "1",
    "tail.check.interval.ms": "60000",
    "rewrite.grace.ms": str(GRACE_MS),
    "tasks.max": "4",
}
BY_FIELD = {
    "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
    "partition.field.name": "d",
}
ACROSS = {"compact.across.partitions": "true"}
TABLES = {
    **{key: text for key, text in STATE.items() if not key.startswith(("transforms", "state.delete"))},
    "iceberg.enable": "true",
    "iceberg.catalog.type": "sql",
}
KEYS = 4


@dataclass
class Later:
    """Reads beside the loop, which run when the schedule says so."""

    waiting: list[Callable[[], None]] = field(default_factory=list)

    def __call__(self, work: Callable[[], Outcomes]) -> Future[Outcomes]:
        future: Future[Outcomes] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except SinkError as error:
                future.set_exception(error)

        self.waiting.append(run)
        return future

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for work in waiting:
            work()


class Schedule:
    """What happens under one seed, and what must be true afterwards. With a `folder` there are an Iceberg table and a state."""

    def __init__(self, seed: int, folder: Path | None = None, **more: str) -> None:
        self.draw = Random(seed)
        self.tables = folder is not None
        self.fails = self.draw.random() < 0.25
        config = {
            **CONFIG,
            **(self.draw.choice([{}, BY_FIELD, BY_FIELD | ACROSS]) if folder is None else TABLES),
            "flush.size": self.draw.choice(["3", "8"]),
            "tail.state.enable": self.draw.choice(["true", "false"]),
            "behavior.on.lost.offsets": "fail" if self.fails else "gap",
        }
        if folder is not None:
            config |= {"iceberg.catalog.uri": f"sqlite:///{folder}/{seed}.db"}
        config |= more
        self.fails = config["behavior.on.lost.offsets"] == "fail"
        self.world = World(config, topics=PARTITIONS)
        self.later = Later()
        self.numbers = self.made = self.asked_times = 0
        self.offsets: dict[int, tuple[TopicPartition, int]] = {}
        self.keys: dict[int, str] = {}
        self.bad: set[int] = set()
        self.asked: dict[str, int] = {}
        self.snapshots: dict[int, Counter[int]] = {}
        self.states = MemoryStates(self.world.log)
        self.happened: list[str] = []
        self.start()

    def start(self, plan: tuple[Fault, ...] = ()) -> None:
        """The next driver takes over; what earlier ones read beside their loops is lost."""
        world, self.later = self.world, Later()
        store = FaultyStore(world.store, list(plan))
        world.kafka.store = store
        sink = build_sink(
            world.settings, world.kafka, source=world.kafka, store=store, clock_ms=lambda: world.now, background=self.later,
            slots=lambda: 2,
        )  # fmt: skip
        readiness = replace(sink.behaviour.readiness, task_records=TASK_RECORDS)
        sink.behaviour = sink.topics.behaviour = replace(sink.behaviour, readiness=readiness)
        world.sink = sink
        sink.open()

    def play(self, events: int = 0) -> None:
        often = (
            [self.records] * 6
            + [self.cycle] * 5
            + [self.cut] * 2
            + [self.compact, self.erase, self.erase, self.end_reads] * 2
        )
        rare = [self.flush, self.recreate, self.move, self.restart, self.die, self.throttle, self.pass_time, self.look]
        rare += [self.merge] * self.tables
        for _ in range(events or self.draw.randint(10, 35)):
            self.happen(self.draw.choice([*often, *rare]))
        self.end()
        self.judge()

    def happen(self, event: Callable[[], object]) -> None:
        """An event; a sink that stops is put right by its operator."""
        self.happened.append(event.__name__)
        with suppress(SinkError):
            event()
            if not self.world.sink.failures.stopped:
                return
        self.operate()

    # ------------------------------------------------------------ what happens

    def records(self, tp: TopicPartition | None = None) -> None:
        tp = tp or self.draw.choice(PARTITIONS)
        first = self.head(tp) + self.draw.choice([0, 0, 0, 1])
        for offset in range(first, first + self.draw.randint(1, 9)):
            self.record(tp, offset, bad=not self.tables and self.draw.random() < 0.15)

    def record(self, tp: TopicPartition, offset: int, *, bad: bool = False) -> int:
        self.numbers += 1
        number, key = self.numbers, f"k{tp.partition}{self.draw.randrange(KEYS)}"
        self.offsets[number], self.keys[number] = (tp, offset), key
        value = json.dumps({"n": number, "d": number % 2}).encode()
        if bad:
            self.bad.add(number)
            value = b"broken %d" % number
        self.world.kafka.add(tp, MemoryRecord(offset, START_MS, key.encode(), value))
        return number

    def head(self, tp: TopicPartition) -> int:
        return self.world.kafka.heads([tp])[tp]

    def cycle(self) -> None:
        self.notice()
        self.world.sink.poll_and_commit()

    def flush(self) -> None:
        self.notice()
        self.world.sink.poll()
        for _ in range(6):
            self.later.run()
            if self.world.sink.try_drain(close=Reason.FLUSH_NOW):
                return
            self.world.now += 1000
            self.world.sink.poll()

    def notice(self) -> None:
        self.asked_times += 1
        self.world.sink.rewrites.notice(str(self.asked_times))

    def end_reads(self) -> None:
        self.later.run()

    def cut(self) -> None:
        """A new leader lacks the end of a log, which mostly grows again at once."""
        tp = self.draw.choice(PARTITIONS)
        kept = [record.offset + 1 for record in self.world.kafka.records[tp]]
        if not kept:
            return
        self.world.kafka.cut(tp, at=self.draw.choice(kept[len(kept) // 3 :]))
        for _ in range(self.draw.choice([0, 1, 2])):
            self.records(tp)
        if self.fails:
            self.cycle()

    def add(self, tp: TopicPartition, count: int) -> None:
        for offset in range(self.head(tp), self.head(tp) + count):
            self.record(tp, offset)

    def recreate(self, count: int | None = None) -> None:
        if self.fails:
            return
        kafka, self.made = self.world.kafka, self.made + 1
        kafka.ids["orders"] = f"id-{self.made}"
        for tp in PARTITIONS:
            kafka.records[tp], kafka.begins[tp] = [], 0
            kafka.cuts.pop(tp, None)
        if count is not None:
            self.add(PARTITIONS[0], count)
            return
        for _ in range(self.draw.choice([0, 1, 2, 3])):
            self.records()

    def move(self) -> None:
        """An operator sets a position back, with the sink stopped."""
        frontier = self.world.log().load().frontier
        tp = self.draw.choice(PARTITIONS)
        most = min(frontier.get(tp, 0), self.head(tp))
        with suppress(SinkError):
            write_positions(self.world.log(), self.world.kafka, {tp: self.draw.randint(0, most)})
        self.start()

    def operate(self) -> None:
        """Where logs were cut, the operator goes on where they are what they were; a run that failed is begun again."""
        log = self.world.log()
        state = log.load()
        if self.fails:
            ends = {tp: one for tp, one in self.world.kafka.ends(PARTITIONS).items() if tp in state.progress}
            cuts = self.world.kafka.cuts
            back = {tp: min([end.offset, *cuts.get(tp, ())]) for tp, end in ends.items()}
            back = {tp: at for tp, at in back.items() if at < state.frontier[tp]}
            if back:
                write_positions(log, self.world.kafka, back)
        self.start()

    def erase(self) -> None:
        """`kafka-s3 forget` beside the sink, of a record that Kafka has or had."""
        if not self.numbers:
            return
        number = self.draw.choice(sorted(self.there()) or [self.numbers])
        subjects = subjects_of(None, f"n = {number}", None)
        world = self.world
        work = Forgetting(
            world.settings, world.store, subjects, lambda: world.now, lambda text: None, MemoryCluster(world.kafka)
        )
        with suppress(NotReady):
            for request in work.requests(work.search()):
                self.asked[request.commit_id] = number
                ask_for_rewrite(world.store, work.log.paths, request)
        self.notice()

    def compact(self) -> None:
        ask_for_compaction(self.world, self.world.store, target=self.draw.choice([100, 1 << 20]))
        self.notice()

    def restart(self) -> None:
        for _ in range(self.draw.choice([0, 1, 2])):
            self.draw.choice([self.records, self.cut] if not self.fails else [self.records])()
        self.start()

    def die(self) -> None:
        """At a request, before or after it; uploads of the last entry may be gone until the next start, and the log another one."""
        verb, moment = self.draw.choice(list(Verb)), self.draw.choice(list(Moment))
        fault = Fault(verb, raising(Died()), moment, self.draw.randint(1, 6))  # type: ignore[arg-type]  # dies, does not fail
        with suppress(Died):
            self.start((fault,))
            self.records()
            self.cycle()
        if self.draw.random() < 0.5:
            self.lose_uploads()
        self.start()

    def throttle(self) -> None:
        """Files of a partition cannot be made visible for a while; meanwhile their uploads are ended, and the log may be another one."""
        part = f"+{self.draw.choice(PARTITIONS).partition}+"
        self.start((failure("complete_upload", None, matches=lambda key: part in key),))
        for _ in range(self.draw.choice([1, 2])):
            self.records()
            self.cycle()
        self.lose_uploads()
        for _ in range(self.draw.choice([0, 1, 2])):
            self.cycle()
        self.start()

    def lose_uploads(self) -> None:
        for upload_id, upload in list(self.world.store.uploads.items()):
            self.world.store.abort_upload(upload.key, upload_id)
        if not self.fails and self.draw.random() < 0.5:
            self.draw.choice([self.recreate, self.cut])()

    def pass_time(self) -> None:
        self.world.now += self.draw.choice([1_000, 61_000, 2 * GRACE_MS])

    def look(self) -> None:
        """Somebody reads all there is, and wants to read the same later on."""
        self.flush()
        log = self.world.log()
        log.load()
        if self.numbers and not log.waiting:
            rows = self.read()
            self.snapshots[log.state.version] = Counter(rows.column("n").to_pylist())

    def merge(self) -> None:
        """The state of each key is brought up to date."""
        if not self.tables:
            return
        log = self.world.log()
        log.load()
        settings, world = self.world.settings, self.world
        state_merger(settings, world.store, self.states, clock_ms=lambda: world.now, warn=print).advance("orders", log)

    def end(self) -> None:
        """All is written; then the time of all originals is over. A last record lets tables follow what came before."""
        for last in (False, True):
            for tp in PARTITIONS if last else ():
                self.record(tp, self.head(tp))
            for _ in range(4):
                self.happen(self.flush)
        for _ in range(3):
            self.world.now += 2 * GRACE_MS
            self.happen(self.cycle)
        self.happen(self.merge)

    # ------------------------------------------------------------ what must be true

    @property
    def erased(self) -> set[int]:
        """The numbers of records that an entry says are erased."""
        ids = {entry.commit_id for entry in self.world.entries()}
        return {number for commit_id, number in self.asked.items() if commit_id in ids}

    def there(self) -> set[int]:
        """The numbers of the records that Kafka has now."""
        now = {(tp, record.offset) for tp in PARTITIONS for record in self.world.kafka.records[tp]}
        newest = {place: number for number, place in self.offsets.items()}
        return {number for place, number in newest.items() if place in now}

    def judge(self) -> None:
        there, erased = self.there(), self.erased
        wanted = Counter(there - erased - self.bad)
        for tp in PARTITIONS:
            assert self.world.frontier(tp) == self.head(tp), tp
        found = self.read()
        lost = self.lost() - set(found.column("n").to_pylist())
        wanted = Counter({number: count for number, count in wanted.items() if number not in lost})
        assert Counter(found.column("n").to_pylist()) == wanted, "read_committed"
        self.judge_offsets(found)
        assert Counter(self.restored()) == wanted, "restore"
        assert Counter(self.buried()) == Counter(there & self.bad - erased), "dead letters"
        assert self.findings() == [], "verify"
        self.judge_snapshots(erased)
        self.judge_originals()
        if self.tables:
            rows = catalog_of(self.world.settings, self.world.store).load_table("kafka.orders").scan().to_arrow()
            assert Counter(rows.column("n").to_pylist()) == wanted, "iceberg"
            newest = {self.keys[number]: number for _, number in sorted((self.offsets[n], n) for n in wanted)}
            assert {key: row["n"] for key, (_, row) in self.states.tables["main.orders"].rows.items()} == newest, (
                "state"
            )

    def read(self, **options: Any) -> pa.Table:
        """What `read_committed` gives, without the JVM."""
        paths, reading = state_paths(self.world.settings), reading_of(self.world.settings)

        class Source(KafkaS3):
            given = SinkLocation("bucket", self.world.store, paths, reading)

        source = Source({"topic": "orders", "withMetadata": "true", **options})
        columns = [("n", pa.int64()), ("_offset", pa.int64()), ("_partition", pa.int32())]
        schema = from_arrow_schema(pa.schema(columns))
        reader = source.reader(schema)
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        return pa.Table.from_batches(batches) if batches else pa.schema(columns).empty_table()

    def judge_offsets(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            if row["_offset"] is not None:
                assert self.offsets[row["n"]] == (TopicPartition("orders", row["_partition"]), row["_offset"]), row

    def restored(self) -> Iterator[int]:
        table, _ = logged_files(read_history(self.world.store, self.world.log().paths), lambda tp: True)
        reading = reading_of(self.world.settings)
        for tp in table.topic_partitions():
            for file in table.of(tp):
                for message in reading.messages(self.world.store, file):
                    yield json.loads(message.value or b"")["n"]

    def lost(self) -> set[int]:
        """The numbers of records whose uploads were lost when their log was cut: an entry says that they are."""
        gaps = [gap for entry in self.world.entries() for gap in entry.gaps if gap.cause == UNPUBLISHED]
        return {
            number
            for number, (tp, offset) in self.offsets.items()
            if any(gap.topic_partition == tp and gap.first <= offset <= gap.last for gap in gaps)
        }

    def findings(self) -> list[str]:
        """Return what `verify` finds; objects of earlier incarnations may be lost, as the operator allows."""
        live = {key for key, one in live_objects(self.world.entries()).items() if one.file.role is Role.VALUE}
        return [str(one) for one in audited(self.world).findings if "/" not in one.place or one.place in live]

    def buried(self) -> Iterator[int]:
        store, paths = self.world.store, self.world.log().paths
        for filed in letters(read_ledger(store, paths), store, selection=LetterSelection(), missing=lambda file: None):
            if filed.state is LetterState.ERASED:
                assert filed.letter.value is None
            if filed.state is LetterState.OPEN:
                yield int((filed.letter.value or b"").split()[1])

    def judge_snapshots(self, erased: set[int]) -> None:
        """What was read once is read again, but for what was erased since; or it is said why it cannot be."""
        for version, before in self.snapshots.items():
            try:
                rows = self.read(untilEntry=str(version))
            except LogDamaged:
                continue
            left = Counter({number: count for number, count in before.items() if number not in erased})
            again = Counter({n: c for n, c in Counter(rows.column("n").to_pylist()).items() if n not in erased})
            assert again == left, f"as of entry {version}"
            self.judge_offsets(rows)

    def judge_originals(self) -> None:
        """No original is left, but for those whose names later objects have got."""
        entries = self.world.entries()
        named: Mapping[str, int] = {file.key: entry.version for entry in entries for file in entry.files}
        gone = {key for entry in entries for swap in entry.swaps for key in swap.keys if named[key] < entry.version}
        assert self.world.log().load().replaced == {}
        left = {key for key in self.world.store.objects if not key.startswith(STATE_FOLDER)}
        assert not left & gone, "originals"
