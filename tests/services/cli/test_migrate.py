"""A bucket that a Connect sink left is taken over: what it wrote, however it died, ends up in the bucket exactly once.

The connector's part is played by a plain producer, boto3 and consumer group commits; the commands and the sink are the real ones.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import typer
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner, Result

from kafka_s3.cli.main import app as kafka_s3
from kafka_s3.cli.position import migrate, position
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY
from tests.support.configurations import PARTITIONER
from tests.support.kafka import Given, document, group_offsets, produce
from tests.support.observers import Warnings
from tests.support.repository import ROOT
from tests.support.sink_process import SinkProcess
from tests.support.surroundings import Surroundings

START_MS = 1_736_935_200_000  # 2025-01-15T10:00:00Z
app = typer.Typer()
app.command()(migrate)


class Left:
    """What the connector of a configuration left behind."""

    def __init__(self, here: Surroundings, topic: str, folder: Path, **more: str) -> None:
        self.here, self.topic = here, topic
        self.config = here.config(topic, **more)
        self.path = folder / "sink.json"
        self.path.write_text(json.dumps(self.config), encoding="utf-8")
        self.group = f"connect-{self.config['name']}"

    def produced(self, numbers: Iterable[int]) -> None:
        produce(
            self.here.servers, self.topic, [Given(document(n=n), timestamp_ms=START_MS + n * 1000) for n in numbers]
        )

    def wrote(self, directory: str, numbers: range) -> str:
        """One object, named and filled as the Connect sink does."""
        key = f"topics/{self.topic}/{directory}/{self.topic}+0+{numbers.start:010d}.json"
        body = b"".join(document(n=n) + b"\n" for n in numbers)
        self.here.bucket.client.put_object(Bucket=self.here.bucket.name, Key=key, Body=body)
        return key

    def committed(self, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self.here.servers, "group.id": self.group})
        consumer.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)
        consumer.close()

    def run(self, log: Path, *words: str) -> None:
        """Runs the sink as a process of its own, to the end of what is in Kafka."""
        command = ["-m", "kafka_s3", "run", str(self.path), "--available-now", "--flush", "--cores", "1", *words]
        with SinkProcess(command, log) as process:
            assert process.wait(240) == 0, process.output()

    def migrate(self, *words: str) -> Result:
        return CliRunner().invoke(app, [str(self.path), *words], catch_exceptions=True)

    def position(self, command: str, *words: str) -> Result:
        return CliRunner().invoke(position, [command, str(self.path), *words], catch_exceptions=True)

    def numbers(self) -> Counter[int]:
        """How often each record is in the bucket."""
        return Counter(row["n"] for rows in self.here.bucket.contents().values() for row in rows)


def exactly_once(numbers: Iterable[int]) -> Counter[int]:
    return Counter(dict.fromkeys(numbers, 1))


def test_after_a_clean_stop_the_sink_goes_on_at_the_group_offset(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    left = Left(here, topic("migrate"), tmp_path, **{"flush.size": "5"})
    left.produced(range(13))
    left.wrote("partition=0", range(5))
    left.wrote("partition=0", range(5, 10))
    left.committed(10)

    looked = left.migrate()
    assert looked.exit_code == 0, looked.output
    assert "equal" in looked.output
    assert "Nothing was written" in looked.output
    assert here.bucket.entries(left.config["name"]) == []
    nobody = left.migrate("--group", "connect-nobody")
    assert nobody.exit_code == 0, nobody.output
    assert "No group offset" in nobody.output

    done = left.migrate("--apply")
    assert done.exit_code == 0, done.output
    left.produced(range(13, 20))
    here.drain(left.config)
    assert left.numbers() == exactly_once(range(20))
    assert [entry["kind"] for entry in here.bucket.entries(left.config["name"])][:3] == ["epoch", "position", "epoch"]
    assert group_offsets(here.servers, left.group, left.topic, 1) == {0: 20}
    again = left.migrate("--apply")
    assert "this sink has taken over" in str(again.exception)


def test_after_a_crash_a_deterministic_split_writes_over_what_was_uploaded_too_early(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    by_minute = {
        "partitioner.class": f"{PARTITIONER}TimeBasedPartitioner", "path.format": "'minute'=mm", "locale": "en", "timezone": "UTC",
        "partition.duration.ms": "60000", "rotate.interval.ms": "60000", "timestamp.extractor": "Record",
    }  # fmt: skip
    left = Left(here, topic("migrate"), tmp_path, **{"flush.size": "5", **by_minute})
    left.produced(range(20))
    left.wrote("minute=00", range(5))
    ahead = [left.wrote("minute=00", range(5, 10)), left.wrote("minute=00", range(10, 15))]
    left.committed(5)

    done = left.migrate("--apply")
    assert done.exit_code == 0, done.output
    assert "overwritten" in done.output
    here.drain(left.config)
    assert left.numbers() == exactly_once(range(20))
    assert all("-" in here.bucket.listing()[key] for key in ahead)  # the ETag of a multipart upload: ours
    assert len(here.bucket.data_keys()) == 4


@pytest.mark.parametrize(
    "clock",
    [
        {"rotate.schedule.interval.ms": "3600000", "timezone": "UTC"},
        {
            "partitioner.class": f"{PARTITIONER}TimeBasedPartitioner", "path.format": "'day'=dd", "locale": "en", "timezone": "UTC",
            "partition.duration.ms": "86400000", "timestamp.extractor": "Wallclock",
        },
    ],
    ids=["schedule", "wall clock"],
)  # fmt: skip
def test_after_a_crash_a_split_by_the_clock_goes_on_behind_the_objects(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path, clock: dict[str, str]
) -> None:
    left = Left(here, topic("migrate"), tmp_path, **{"flush.size": "100", **clock})
    left.produced(range(20))
    directory = "day=01" if "path.format" in clock else "partition=0"
    left.wrote(directory, range(5))
    left.wrote(directory, range(5, 8))
    left.wrote(directory, range(8, 13))
    left.committed(5)

    done = left.migrate("--apply")
    assert done.exit_code == 0, done.output
    assert "objects ahead, kept" in done.output
    here.drain(left.config)
    assert left.numbers() == exactly_once(range(20))


def test_a_connector_that_still_runs_is_not_taken_over(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    left = Left(here, topic("migrate"), tmp_path, **{"flush.size": "5"})
    left.produced(range(5))
    left.wrote("partition=0", range(5))
    left.committed(5)
    consumer = Consumer(
        {"bootstrap.servers": here.servers, "group.id": left.group, "client.id": "connector-consumer-0"}
    )
    consumer.subscribe([left.topic])
    while not consumer.assignment():
        consumer.poll(0.1)

    refused = left.migrate("--apply")
    assert "connector-consumer-0 at" in str(refused.exception)
    consumer.close()
    assert left.migrate("--apply").exit_code == 0


def stopped_connector(here: Surroundings, topic: Callable[..., str], folder: Path) -> Left:
    """A connector that was stopped at offset 200 of 350, between two objects; Kafka has lost what is before 150."""
    left = Left(here, topic("migrate"), folder, **{"flush.size": "100"})
    left.produced(range(350))
    left.wrote("partition=0", range(100))
    left.wrote("partition=0", range(100, 200))
    left.committed(200)
    admin = AdminClient({"bootstrap.servers": here.servers})
    (removed,) = admin.delete_records([TopicPartition(left.topic, 0, 150)]).values()
    removed.result()
    return left


def test_a_run_in_place_of_a_connector_is_refused_until_migrate_has_taken_over(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    left = stopped_connector(here, topic, tmp_path)
    before = here.bucket.listing()
    for words in (["-m", "kafka_s3", "run"], ["jobs/run_sink.py"]):
        with SinkProcess([*words, str(left.path), "--available-now", "--flush"], tmp_path / "run.log") as process:
            assert process.wait(240) == 2, process.output()
            reported = process.output()
        for part in (
            f"{left.group} has committed {left.topic}-0 at 200",
            f"/topics/{left.topic}/partition=0/{left.topic}+0+0000000000.json is an object",
            "`kafka-s3 migrate CONFIG --apply`",
            "--set behavior.on.earlier.writer=ignore",
        ):
            assert part in reported
    assert [key for key in here.bucket.listing() if key not in before] == [
        f"_kafka_s3/{left.config['name']}/heartbeat.json"
    ]
    looked = CliRunner().invoke(kafka_s3, ["doctor", str(left.path)])
    assert (looked.exit_code, "kafka-s3 migrate CONFIG --apply" in looked.output) == (1, True)

    assert left.migrate("--apply").exit_code == 0
    looked = CliRunner().invoke(kafka_s3, ["doctor", str(left.path)])
    assert looked.exit_code == 0, looked.output
    left.run(tmp_path / "run.log")
    assert left.numbers() == exactly_once(range(350))
    verified = CliRunner().invoke(kafka_s3, ["verify", str(left.path)])
    assert verified.exit_code == 0
    assert "offsets 200 to 349 of 1 topic-partition are accounted for exactly once" in verified.output


WAYS_BACK = (ROOT / "docs" / "migrate.md").read_text(encoding="utf-8").partition("## A start that doubled records")[2]


@pytest.mark.parametrize("way", ["### Let the sink write its part again", "### Shorten the other writer's objects"])
def test_the_pages_ways_back_from_a_doubled_start_leave_each_record_once(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path, way: str
) -> None:
    """The commands of the page as they stand there, with this test's names."""
    left = stopped_connector(here, topic, tmp_path)
    left.run(tmp_path / "run.log", "--set", "behavior.on.earlier.writer=ignore")
    assert left.numbers() - exactly_once(range(350)) == exactly_once(range(150, 200))
    verified = CliRunner().invoke(kafka_s3, ["verify", str(left.path)])
    assert verified.exit_code == 1
    assert "offsets 150 to 199" in verified.output
    assert "A start that doubled records" in str(left.migrate("--apply").exception)

    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("python", ""), ("kafka-s3", "-m kafka_s3 ")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
        script.chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "bundle"),
        "AWS_ENDPOINT_URL_S3": here.s3.endpoint_url, "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }  # fmt: skip
    names = {
        "my-bucket": here.bucket.name, "orders-to-s3": left.config["name"], "s3-sink.json": left.path.name,
        "topics/orders/": f"topics/{left.topic}/", "/orders+": f"/{left.topic}+",
    }  # fmt: skip
    section = WAYS_BACK.partition(way)[2].partition("\n##")[0]
    commands = re.findall(r"^```bash\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert commands
    for command in commands:
        for theirs, ours in names.items():
            command = command.replace(theirs, ours)
        if command.startswith("kafka-s3 run "):
            here.drain(left.config)
            continue
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert left.numbers() == exactly_once(range(350))
    verified = CliRunner().invoke(kafka_s3, ["verify", str(left.path)])
    assert verified.exit_code == 0, verified.output
    assert group_offsets(here.servers, left.group, left.topic, 1) == {0: 350}


def test_a_topic_of_the_connector_that_is_added_later_is_taken_over_beside_those_at_work(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    left = Left(here, topic("migrate"), tmp_path, **{"flush.size": "5"})
    left.produced(range(7))
    here.drain(left.config)
    first, left.topic = left.topic, topic("later")
    left.path.write_text(json.dumps({**left.config, "topics": f"{first},{left.topic}"}))
    left.produced(range(7, 20))
    left.wrote("partition=0", range(5))
    left.committed(5)

    refused = left.migrate("--apply")
    assert "wrote entry" in str(refused.exception)  # its driver may be at work
    done = left.migrate("--apply", "--force")
    assert done.exit_code == 0, done.output
    assert f"{first}-0" not in done.output
    shown = left.position("show")
    rows = [line.split("│") for line in shown.output.splitlines() if line.startswith("│ ")]
    assert [(row[1].strip(), row[3].strip()) for row in rows] == [(left.topic, "5"), (first, "7")]
    assert "this sink has taken over" in str(left.migrate("--apply").exception)


def test_a_group_that_was_reset_by_hand_is_a_warning_of_the_next_start(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    left = Left(here, topic("migrate"), tmp_path, **{"flush.size": "5"})
    left.produced(range(10))
    here.drain(left.config)
    left.committed(3)
    seen = Warnings()
    here.drain(left.config, observer=seen)
    assert [f"{left.topic}-0 at 3, the sink at 10" in text for text in seen.texts] == [True]
    assert f"position set CONFIG {left.topic} 0 3" in seen.texts[0]
    assert group_offsets(here.servers, left.group, left.topic, 1) == {0: 10}
    here.drain(left.config, observer=seen)
    assert len(seen.texts) == 1


@pytest.mark.nightly
def test_the_sink_is_moved_by_hand_and_shown(here: Surroundings, topic: Callable[..., str], tmp_path: Path) -> None:
    left = Left(here, topic("position"), tmp_path, **{"flush.size": "5"})
    left.produced(range(20))
    here.drain(left.config)
    assert left.numbers() == exactly_once(range(20))

    refused = left.position("set", left.topic, "0", "10", "--yes")
    assert "--force" in str(refused.exception)
    assert "from 0 to 20" in str(left.position("set", left.topic, "0", "21", "--yes", "--force").exception)
    assert "--yes" in str(left.position("set", left.topic, "0", "10", "--force").exception)
    looked = left.position("set", left.topic, "0", "10", "--dry-run")
    assert "10 offsets are read again" in looked.output
    assert "--dry-run" in looked.output

    moved = left.position("set", left.topic, "0", "10", "--yes", "--force")
    assert moved.exit_code == 0, moved.output
    assert group_offsets(here.servers, left.group, left.topic, 1) == {0: 10}
    here.drain(left.config)
    assert left.numbers() == exactly_once(range(20))  # the same names again

    sought = left.position("seek-to-time", "2025-01-15T10:00:12Z", "--yes", "--force")
    assert f"{left.topic}-0: 20 -> 12" in sought.output, sought.output
    shown = left.position("show")
    assert shown.exit_code == 0, shown.output
    row = next(line for line in shown.output.splitlines() if line.startswith(f"│ {left.topic}"))
    assert [cell.strip() for cell in row.split("│")[1:10]] == [left.topic, "0", "12", "12", "0", "0", "20", "8", "12"]
    assert left.position("set", "--to", "latest", "--yes").exit_code == 0
    gap = here.bucket.entries(left.config["name"])[-1]["gaps"]
    assert gap == [{"topic": left.topic, "partition": 0, "from": 12, "to": 19, "cause": "position"}]
