"""What do brokers and workers cost that are killed at random moments, while open files are kept? Nothing: each record is written once.

Nightly: each scene takes half a minute of real Kafka, S3 and Spark.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from tests.services.faults.kafka_judge import Witness, assert_exactly_once
from tests.services.faults.test_kafka import IMPATIENT, producing, running
from tests.support.configurations import FIELD
from tests.support.kafka import Given, produce
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(400)]
KEPT = {"rotate.schedule.interval.ms": "2000", "flush.size": "1000000", "timezone": "UTC", "tail.read.records": "1"}
"""Files stay open for two seconds, over many polls."""
MANY = {
    "JSON": {},
    "Parquet": {
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "value.schema.inference": "true",
    },
}


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_is_killed_while_it_is_read_costs_no_record(
    seed: int, here: Surroundings, topic: Callable[..., str]
) -> None:
    draw, name = random.Random(seed), topic("killed", 2)
    config = here.config(name, **IMPATIENT, **KEPT)
    with running(here, config) as sink, producing(here.servers, name) as sent:
        eventually(lambda: len(here.bucket.data_keys()) >= 2)
        for _ in range(3):
            time.sleep(draw.uniform(0.1, 2))
            for broker in processes("java", "kafka.Kafka"):
                broker.send_signal(signal.SIGKILL)
            time.sleep(draw.uniform(0, 3))
            here.kafka.restart()
            before = len(here.bucket.data_keys())
            eventually(lambda: len(here.bucket.data_keys()) > before or not sink.alive, seconds=60)  # noqa: B023 - called at once
            assert sink.alive
    here.drain(config)
    witness = Witness(here.servers, name, 2).poll()
    found = assert_exactly_once(here.bucket, config["name"], witness)
    assert (len(witness.now), len(found.written), found.gaps) == (len(sent), len(sent), set())


@pytest.mark.parametrize("seed", range(3))
def test_workers_that_are_killed_while_open_files_are_kept_cost_no_record(
    seed: int, here: Surroundings, topic: Callable[..., str]
) -> None:
    draw, name, killed = random.Random(seed), topic("workers", 2), 0
    config = here.config(name, **KEPT)
    with running(here, config) as sink, producing(here.servers, name) as sent:
        eventually(lambda: len(here.bucket.data_keys()) >= 2)
        for _ in range(8):
            time.sleep(draw.uniform(0.1, 1.5))
            victims = workers()
            for victim in draw.sample(victims, min(len(victims), draw.randint(1, 2))):
                with suppress(psutil.NoSuchProcess):
                    victim.send_signal(signal.SIGKILL)
                    killed += 1
            assert sink.alive
        before = len(here.bucket.data_keys())
        eventually(lambda: len(here.bucket.data_keys()) > before + 2 or not sink.alive, seconds=60)
    assert killed >= 4
    here.drain(config)
    witness = Witness(here.servers, name, 2).poll()
    found = assert_exactly_once(here.bucket, config["name"], witness)
    assert (len(found.written), found.gaps) == (len(sent), set())
    assert [key for key in here.bucket.listing() if "/open/" in key] == []


@pytest.mark.parametrize("form", MANY)
def test_workers_that_are_killed_while_rows_of_a_thousand_directories_wait_cost_no_record(
    form: str, here: Surroundings, topic: Callable[..., str]
) -> None:
    draw, name, killed, records = random.Random(1), topic("many", 2), 0, 0
    config = here.config(name, **KEPT, **MANY[form], **FIELD, **{"writer.memory.bytes": str(8 << 20)})
    with running(here, config) as sink:
        for _ in range(8):
            values = [
                json.dumps({"d": str(n * 7919 % 1_000), "n": n, "rest": "x" * 800}).encode()
                for n in range(records, records + 8_000)
            ]
            produce(here.servers, name, [Given(value, partition=n % 2) for n, value in enumerate(values)])
            records += len(values)
            time.sleep(draw.uniform(0.1, 1.5))
            for victim in workers()[:1]:
                with suppress(psutil.NoSuchProcess):
                    victim.send_signal(signal.SIGKILL)
                    killed += 1
            assert sink.alive
        eventually(lambda: len(here.bucket.data_keys()) > 1_000 or not sink.alive, seconds=60)
    assert killed >= 3
    here.drain(config)
    assert sorted(row["n"] for rows in here.bucket.contents().values() for row in rows) == [*range(records)]
    assert [key for key in here.bucket.listing() if "/open/" in key] == []


def workers() -> list[psutil.Process]:
    """The Python workers that Spark's daemon has forked for tasks: their command is the daemon's."""
    daemons = processes("python", "run.spark.daemon")
    return [worker for worker in daemons if worker.ppid() in {daemon.pid for daemon in daemons}]


def processes(name: str, argument: str) -> list[psutil.Process]:
    """This test's descendants of a program with that argument."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if name in process.name() and argument in " ".join(process.cmdline()):
                found.append(process)
    return found
