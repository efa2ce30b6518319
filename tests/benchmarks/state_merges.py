"""What does a merge into a state table cost, beside a `MERGE` written by hand and delta-rs' merge, on the same data?

python -m tests.benchmarks.state_merges FOLDER [spread|recent] [none|deletion-vectors|iceberg...]

Three Delta tables begin as copies of one of KAFKA_S3_BENCH_KEYS rows (10,000,000), ordered by their key in files of 320,000 rows, which the
folder keeps for the next run. A sink commits changes of one key in a hundred a round: nine updates, a new key now and then, deletions. Each
side then merges the same objects, in turns, and begins with the one that was second before; the first KAFKA_S3_BENCH_WARM_UPS rounds (8)
do not count. `spread`: any key; `recent`: those of the newest fiftieth. At the end all tables must hold the same rows. Nothing here asserts
a time.

What was written by hand is what the docs of Spark and Delta show: the newest record a key by a window, `MERGE`, no memory of deletions. It
reads the objects of the same S3 server by their names with Hadoop's S3A. delta-rs' side gets them by the sink's own client.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

import deltalake
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.engine.log.committed import committed_files
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.state import StateNote
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.timing import now_ms
from kafka_s3.run.java.jars import spark_jars, spark_kafka_and_delta_jars
from kafka_s3.run.java.java import java_environment
from kafka_s3.run.spark.session import DELTA
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.run.wiring.state import state_merger
from kafka_s3.state import states_on_spark
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.support import BUCKET, running_objects
from tests.support.memory_world import settings_of
from tests.support.state_world import STATE

KEYS: Final = int(os.environ.get("KAFKA_S3_BENCH_KEYS", "10000000"))
ROUNDS: Final = int(os.environ.get("KAFKA_S3_BENCH_ROUNDS", "5"))
WARM_UPS: Final = int(os.environ.get("KAFKA_S3_BENCH_WARM_UPS", "8"))
"""Until the JVM has compiled most of either side, as where a sink has run for a while: its compilers take half of all CPU before."""
A_FILE: Final = 320_000
PARTITIONS: Final = 2
STATUSES: Final = ("new", "paid", "packed", "sent", "back")
VALUES: Final = ("id", "status", "amount", "note", "at")
SIDES: Final = ("ours", "by hand", "delta-rs")
S3A: Final = "org.apache.hadoop:hadoop-aws:3.4.1"
VECTORS: Final = "deletion-vectors"


def key_of(number: int) -> str:
    """A key whose order as text is that of its number."""
    return f"order-{number:010d}"


def cpu_seconds() -> float:
    """What this process, Spark, its workers and the S3 server have used, user and system."""
    own = psutil.Process()
    return sum(sum(one.cpu_times()[:4]) for one in (own, *own.children(recursive=True)))


def session(folder: Path, objects: EmbeddedS3) -> SparkSession:
    """A local Spark with Delta and S3A, as its users run it: none of the settings that make tests quick."""
    os.environ.update({**java_environment(), "PYSPARK_PYTHON": sys.executable})
    more = {**DELTA, "spark.databricks.delta.snapshotPartitions": "2", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master("local[*]").appName("state merges").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "6g").config("spark.sql.shuffle.partitions", "8")
    builder = builder.config("spark.jars", ",".join(map(str, [*spark_kafka_and_delta_jars(), *spark_jars([S3A])])))
    builder = builder.config("spark.hadoop.fs.s3a.endpoint", objects.endpoint_url).config(
        "spark.hadoop.fs.s3a.path.style.access", "true"
    )
    builder = builder.config("spark.hadoop.fs.s3a.endpoint.region", "us-east-1")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).config("spark.log.level", "ERROR")
    return builder.config("spark.sql.session.timeZone", "UTC").config(map=more).getOrCreate()


def make_base(spark: SparkSession, folder: Path) -> Path:
    """The table as it is before, with the columns of a state table; its offsets are older than all that come."""
    base = folder / f"base-{KEYS}"
    if not (base / "done").exists():
        shutil.rmtree(base, ignore_errors=True)
        number = F.col("number")
        status = F.element_at(F.array(*map(F.lit, STATUSES)), (number % len(STATUSES) + 1).cast("int"))
        columns = {
            "_key": F.format_string("order-%010d", number), "id": number, "status": status, "amount": (number % 9973) / 4,
            "note": F.substring(F.sha2(number.cast("string"), 256), 1, 40), "at": F.lit(1_700_000_000_000) + number,
            "_offset": F.lit(-1).cast("long"), "_kafka_partition": F.lit(0),
        }  # fmt: skip
        rows = spark.range(0, KEYS, 1, max(1, KEYS // A_FILE)).withColumnRenamed("id", "number")
        rows.select(*(column.alias(name) for name, column in columns.items())).write.format("delta").save(str(base))
        (base / "done").touch()
    return base


@dataclass
class Traffic:
    """A sink over records in memory, which commits one round's changes as one file a partition."""

    spark: SparkSession
    objects: EmbeddedS3
    recent: bool
    random: Random = field(default_factory=lambda: Random(35))
    known: int = KEYS

    def __post_init__(self) -> None:
        """Opens the sink."""
        config = {
            **STATE, "flush.size": "100000000", "rotate.schedule.interval.ms": "1000", "timezone": "UTC", "name": "merges",
            "s3.bucket.name": BUCKET, "store.url": self.objects.endpoint_url, "s3.region": "us-east-1",
            "state.table": "default.ours_${topic}", "parquet.codec": "snappy",
        }  # fmt: skip
        self.now = now_ms()
        self.settings = settings_of(config)
        self.store = S3Store(store_options(self.settings))
        self.kafka = MemoryKafka(lambda: make_pipeline(self.settings), self.store)
        for partition in range(PARTITIONS):
            self.kafka.create(TopicPartition("orders", partition))
        self.sink = build_sink(
            self.settings, self.kafka, source=self.kafka, store=self.store, clock_ms=lambda: self.now
        )
        self.sink.open()
        self.merged = -1
        self.spark.conf.set("spark.sql.parquet.inferTimestampNTZ.enabled", "false")

    def log(self) -> CommitLog:
        log = CommitLog(self.store, state_paths(self.settings), clock_ms=now_ms)
        log.load()
        return log

    def commit(self) -> list[str]:
        """Produces and commits the changes of a round; gives the objects' keys."""
        before = self.log().state.version
        for _ in range(KEYS // 100):
            self._add()
        self.sink.poll_and_commit()
        self.now += 3_600_000
        self.sink.poll_and_commit()
        log = self.log()
        files = committed_files((one for one in log.entries() if one.version > before), "orders")
        assert sum(one.rows for one in files) == KEYS // 100, "all changes are committed"
        return [one.facts.key for one in files]

    def _add(self) -> None:
        kind = self.random.random()
        if kind < 0.05:
            number, self.known = self.known, self.known + 1
        else:
            number = self.random.randrange(self.known - KEYS // 50 if self.recent else 0, self.known)
        tp = TopicPartition("orders", number % PARTITIONS)
        value = {
            "id": number,
            "status": self.random.choice(STATUSES),
            "amount": number % 997 / 4,
            "note": f"{kind}",
            "at": self.now,
        }
        content = None if kind > 0.98 else json.dumps(value).encode()
        self.kafka.add(tp, MemoryRecord(len(self.kafka.records[tp]), self.now, key_of(number).encode(), content))


class Merges:
    """The sides: each merges the objects of a round into its own table."""

    def __init__(self, traffic: Traffic, folder: Path, base: Path, *, vectors: bool) -> None:
        self.traffic, self.spark = traffic, traffic.spark
        self.paths = {side: folder / "run" / side.replace(" ", "_") for side in SIDES}
        self.sides: dict[str, Callable[[list[str]], None]] = {
            "ours": self.ours, "by hand": self.by_hand, "delta-rs": self.by_delta_rs,
        }  # fmt: skip
        if vectors:
            del self.sides["delta-rs"]  # it does not write tables that have them
        for side in self.sides:
            shutil.copytree(base, self.paths[side])
            if side == "delta-rs":
                continue
            table = f"{side.replace(' ', '_')}_orders"
            self.spark.sql(f"CREATE TABLE {table} USING delta LOCATION '{self.paths[side]}'")
            if vectors:
                self.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        tables, settings = states_on_spark(traffic.settings, self.spark), traffic.settings
        self.merger = state_merger(settings, traffic.store, tables, clock_ms=now_ms, warn=print)
        log, name = traffic.log(), TableName(("default", "ours_orders"))
        rules, topic_id = self.merger.rules.text, log.state.topic_ids.get("orders", "")
        identity = tables.identity(name)
        assert identity is not None
        note = StateNote(identity, str(name), rules, "bench", log.state.version, topic_id, now_ms(), rows=KEYS)
        self.merger.notes.put("orders", note)

    def ours(self, keys: list[str]) -> None:
        """What a sink, a job or the command does."""
        self.merger.advance("orders", self.traffic.log())

    def by_hand(self, keys: list[str]) -> None:
        """What a user of Databricks writes."""
        self.spark.read.parquet(*(f"s3a://{BUCKET}/{key}" for key in keys)).createOrReplaceTempView("changes")
        wanted = ", ".join(VALUES)
        columns = ("_key", *VALUES, "_offset", "_kafka_partition")
        self.spark.sql(f"""
            MERGE INTO by_hand_orders t USING (
              SELECT * FROM (
                SELECT _kafka.key AS _key, {wanted}, _kafka.offset AS _offset, _kafka.partition AS _kafka_partition, __deleted,
                  row_number() OVER (PARTITION BY _kafka.key ORDER BY _kafka.offset DESC) AS newest
                FROM changes
              ) WHERE newest = 1
            ) s ON t._key = s._key
            WHEN MATCHED AND s.__deleted = 'true' THEN DELETE
            WHEN MATCHED THEN UPDATE SET {", ".join(f"{one} = s.{one}" for one in columns)}
            WHEN NOT MATCHED AND s.__deleted IS NULL THEN INSERT ({", ".join(columns)}) VALUES ({", ".join(f"s.{one}" for one in columns)})
        """)

    def by_delta_rs(self, keys: list[str]) -> None:
        """The same by delta-rs, of whose merge the source is a table of Arrow's."""
        read = [pq.read_table(io.BytesIO(self.traffic.store.get(key)), partitioning=None) for key in keys]
        rows = pa.concat_tables(read, promote_options="default")
        names = {"_key": "key", "_offset": "offset", "_kafka_partition": "partition"}
        kafka = {column: pc.struct_field(rows["_kafka"], name) for column, name in names.items()}
        table = pa.table({**kafka, **{name: rows[name] for name in (*VALUES, "__deleted")}})
        newest = table.group_by("_key").aggregate([("_offset", "max")]).rename_columns(["_key", "_offset"])
        newest = table.join(newest, ["_key", "_offset"], join_type="inner")
        values = {one: f"s.{one}" for one in ("_key", *VALUES, "_offset", "_kafka_partition")}
        merging = deltalake.DeltaTable(self.paths["delta-rs"]).merge(
            newest, predicate="t._key = s._key", source_alias="s", target_alias="t"
        )
        merging = merging.when_matched_delete("s.__deleted = 'true'").when_matched_update(values)
        merging.when_not_matched_insert(values, predicate="s.__deleted IS NULL").execute()

    def last(self, side: str) -> dict[str, Any]:
        """What the history says of a side's last merge: files rewritten and made, rows copied."""
        if side == "delta-rs":
            [found] = deltalake.DeltaTable(self.paths[side]).history(1)
            metrics = found["operationMetrics"]
            return {"removed": metrics["num_target_files_removed"], "added": metrics["num_target_files_added"]}
        rows = self.spark.sql(f"DESCRIBE HISTORY {side.replace(' ', '_')}_orders LIMIT 1").collect()
        metrics = rows[0]["operationMetrics"]
        counts = {"removed": "FilesRemoved", "added": "FilesAdded", "vectors": "DeletionVectorsAdded"}
        seconds = {
            "finding files": "scanTimeMs",
            "writing": "rewriteTimeMs",
            "keeping the source": "materializeSourceTimeMs",
        }
        return {name: int(metrics.get(f"numTarget{key}", 0)) for name, key in counts.items()} | {
            f"s {name}": int(metrics.get(key, 0)) / 1000 for name, key in seconds.items()
        }

    def content(self, side: str) -> tuple[int, int]:
        """How many rows a side's table has, and the sum of their hashes."""
        frame: DataFrame = self.spark.read.format("delta").load(str(self.paths[side]))
        columns = sorted(frame.columns)
        [row] = frame.select(F.xxhash64(*columns).alias("hash")).agg(F.count("*"), F.bit_xor("hash")).collect()
        return row[0], row[1]


def main(folder: Path, *, recent: bool, vectors: bool) -> None:
    """Prepares, measures, compares."""
    for name in ("run", "warehouse"):
        shutil.rmtree(folder / name, ignore_errors=True)
    with running_objects() as objects:  # before the JVM, whose workers get the credentials
        spark = session(folder, objects)
        base = make_base(spark, folder)
        traffic = Traffic(spark, objects, recent)
        merges = Merges(traffic, folder, base, vectors=vectors)
        seconds: dict[str, list[float]] = {side: [] for side in merges.sides}
        cpu: dict[str, list[float]] = {side: [] for side in merges.sides}
        order = list(merges.sides)
        for turn in range(-WARM_UPS, ROUNDS):
            keys = traffic.commit()
            for side in order:
                began, before = time.monotonic(), cpu_seconds()
                merges.sides[side](keys)
                took, used = time.monotonic() - began, cpu_seconds() - before
                name = "warm-up" if turn < 0 else f"round {turn + 1}"
                print(f"{name}: {side:9} {took:6.1f} s, {used:6.1f} s of CPU {merges.last(side)}", flush=True)
                if turn >= 0:
                    seconds[side].append(took)
                    cpu[side].append(used)
            order = [*order[1:], order[0]]
        for what, taken in (("s", seconds), ("s of CPU", cpu)):
            for side, some in taken.items():
                print(f"{side:9} min / median / max: {min(some):.1f} / {median(some):.1f} / {max(some):.1f} {what}")
        found = {side: merges.content(side) for side in merges.sides}
        print(found)
        assert len(set(found.values())) == 1, "all tables hold the same rows"
        traffic.store.close()
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), recent="recent" in sys.argv[2:], vectors=VECTORS in sys.argv[2:])
