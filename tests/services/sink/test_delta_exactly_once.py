"""Is every record in the Delta table once, whatever happens to the driver while the table follows, and whoever else writes it meanwhile?

Real sinks over one topic, with tables. All have a first version; then one process runs them, and each is killed (SIGKILL) at a phase of its
own; one table is then compacted by delta-spark; then all are worked off with new records, one of them by two drivers side by side. delta-rs
reads the tables, and the judge compares them with Kafka record by record.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.loop.runner import run_available_now, waiting
from kafka_s3.model.errors import Fenced
from kafka_s3.model.files import Reason
from kafka_s3.run.spark.launch import sink_on_spark
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.faults import Fault, FaultyStore
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY
from tests.support.bucket import Bucket
from tests.support.kafka import Given, document, kafka_records, produce
from tests.support.sink_process import SinkProcess
from tests.support.surroundings import Surroundings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3

PARTITIONS, BATCH, TOPIC, BUCKET = 2, 60, "delta-crash", "delta-crash"
PHASES = {"a": "committed", "b": "evolved", "c": "tabled"}
TABLES = {
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "value.schema.inference": "true",
    "flush.size": "20",
    "delta.enable": "true",
    "errors.tolerance": "all",
    "tail.check.interval.ms": "300",
    "poll.interval.ms": "200",
}
# Every run has the deaths of one table, in test_delta_tables.py.
pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]


def order(n: int) -> bytes:
    """Orders of later batches have one column more each; some are not JSON."""
    later = {f"later_{batch}": n for batch in range(1, n // BATCH + 1)}
    return b"{broken" if n % 29 == 11 else document(n=n, **later)


@dataclass
class Evidence:
    """What is left: Kafka's records, the rows and the log of each table, and what the judge saw on the way."""

    expected: list[dict[str, Any]]
    rows: dict[str, list[dict[str, Any]]]
    added: dict[str, Counter[str]]
    deaths: dict[str, tuple[int, bool]]
    fenced: bool


class Sinks:
    """The sinks, one topic, one bucket."""

    def __init__(self, here: Surroundings, folder: Path) -> None:
        self.here, self.folder = here, folder
        self.configs = {
            name: here.config(TOPIC, **TABLES) | {"name": name, "topics.dir": f"tables-{name}"} for name in PHASES
        }
        self.options = {
            "aws_endpoint_url": here.s3.endpoint_url, "aws_allow_http": "true", "aws_region": REGION,
            "aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY,
        }  # fmt: skip

    def send(self, batch: int) -> None:
        numbers = range(batch * BATCH, (batch + 1) * BATCH)
        produce(self.here.servers, TOPIC, [Given(order(n), n % PARTITIONS) for n in numbers])

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(f"s3://{BUCKET}/tables-{name}/{TOPIC}", storage_options=self.options)

    def rows(self, name: str) -> list[dict[str, Any]]:
        read = pa.table(self.table(name).scan()).to_pylist()
        return sorted(({k: v for k, v in row.items() if k != "partition"} for row in read), key=lambda row: row["n"])

    def added(self, name: str) -> Counter[str]:
        """How often each object of the sink was added to its table."""
        logs = [key for key in self.here.bucket.listing() if f"tables-{name}/{TOPIC}/_delta_log/" in key]
        lines = [
            json.loads(line) for key in logs if key.endswith(".json") for line in self.here.bucket.get(key).splitlines()
        ]
        return Counter(line["add"]["path"] for line in lines if "add" in line and f"/{TOPIC}+" in line["add"]["path"])

    def noted(self, name: str) -> int:
        """The entry up to which the follower has noted that it has come."""
        return int(json.loads(self.here.bucket.get(f"_kafka_s3/{name}/followers/delta.json"))["version"])

    def kill(self) -> None:
        paths = [self.folder / f"{name}.json" for name in self.configs]
        for path, config in zip(paths, self.configs.values(), strict=True):
            path.write_text(json.dumps(config))
        command = ["-m", "tests.services.sink.crashing_sink", ",".join(PHASES.values()), *map(str, paths)]
        with SinkProcess(command, self.folder / "killed.log") as process:
            assert process.wait() == -signal.SIGKILL, process.output()

    def compact_with_spark(self, name: str) -> None:
        """OPTIMIZE by delta-spark, on a local copy: its new objects go into the bucket, the log's last."""
        prefix = f"tables-{name}/{TOPIC}/"
        before = {key for key in self.here.bucket.listing() if key.startswith(prefix)}
        for key in before:
            path = self.folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.here.bucket.get(key))
        self.here.spark.sql(f"OPTIMIZE delta.`{self.folder / prefix}`").collect()
        made = {str(path.relative_to(self.folder)) for path in (self.folder / prefix).rglob("*.*")}
        fresh = sorted(key for key in made - before if key.endswith((".parquet", ".json")))
        for key in sorted(fresh, key=lambda key: "_delta_log" in key):
            self.here.bucket.client.put_object(
                Bucket=BUCKET, Key=key, Body=(self.folder / key).read_bytes(), IfNoneMatch="*"
            )

    def overtaken(self, name: str) -> bool:
        """Two drivers: the second takes over, and works everything off, after the first has read the table and before it commits."""
        settings = resolved(validate(self.configs[name]).usable())

        def takeover(_: str) -> None:
            self.here.drain(self.configs[name])

        plan = [Fault("get_range", takeover, matches=lambda key: key.endswith(".parquet"))]
        store = FaultyStore(S3Store(store_options(settings)), plan)
        sink = sink_on_spark(settings, self.here.spark, store=store)
        try:
            run_available_now(sink, backoff_ms=500, wait=waiting(Event()), close=Reason.FLUSH_NOW)
        except Fenced:
            return True
        return False


@pytest.fixture(scope="module")
def evidence(
    kafka: EmbeddedKafka, s3: EmbeddedS3, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Evidence:
    """The whole story, and a look at its end."""
    kafka.create_topic(TOPIC, PARTITIONS)
    s3.create_bucket(BUCKET)
    bucket = Bucket(s3.endpoint_url, BUCKET)
    sinks = Sinks(Surroundings(kafka, s3, bucket, spark), tmp_path_factory.mktemp("delta"))
    sinks.send(0)
    for config in sinks.configs.values():
        sinks.here.drain(config)
    first = {name: sinks.table(name).version() for name in PHASES}
    sinks.send(1)
    sinks.kill()
    deaths = {
        name: (sinks.table(name).version() - first[name], sinks.noted(name) == bucket.entries(name)[-1]["version"])
        for name in PHASES
    }
    sinks.compact_with_spark("c")
    sinks.send(2)
    fenced = sinks.overtaken("a")
    sinks.here.drain(sinks.configs["b"])
    sinks.here.drain(sinks.configs["c"])
    raw = [
        json.loads(value)
        for value in kafka_records(kafka.bootstrap_servers, TOPIC, PARTITIONS).values()
        if value != b"{broken"
    ]
    columns = ("n", "later_1", "later_2")
    found = Evidence(
        sorted(({name: one.get(name) for name in columns} for one in raw), key=lambda row: row["n"]),
        {name: sinks.rows(name) for name in PHASES},
        {name: sinks.added(name) for name in PHASES},
        deaths,
        fenced,
    )
    bucket.close()
    return found


def test_each_death_was_at_its_phase(evidence: Evidence) -> None:
    """What the table had more than before, and whether the follower had noted the last entry."""
    assert evidence.deaths == {"a": (0, False), "b": (1, False), "c": (2, False)}


@pytest.mark.parametrize("name", PHASES)
def test_the_table_is_what_kafka_holds(name: str, evidence: Evidence) -> None:
    assert len(evidence.expected) == 3 * BATCH - 6
    assert evidence.rows[name] == evidence.expected


@pytest.mark.parametrize("name", PHASES)
def test_no_object_was_added_twice(name: str, evidence: Evidence) -> None:
    assert len(evidence.added[name]) > 6
    assert set(evidence.added[name].values()) == {1}


def test_the_driver_that_was_overtaken_ended_as_fenced(evidence: Evidence) -> None:
    assert evidence.fenced
