"""Dead letters of a real sink: looked at, exported, replayed with another configuration, resolved; the counts reconcile throughout."""

from __future__ import annotations

import base64
import csv
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from kafka_s3.cli.audit import verify
from kafka_s3.cli.dead_letters import dead_letters
from kafka_s3.model.errors import RecordError, SinkError
from tests.support.kafka import Given, document, produce
from tests.support.sink_process import SinkProcess
from tests.support.surroundings import Surroundings

COMMAND = ["-m", "kafka_s3", "dead-letters"]
TOLERANT = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "behavior.on.null.values": "ignore",
}
COUNTED = ("kafka", "written", "dead_letters", "skipped")
TEXT = "org.apache.kafka.connect.storage.StringConverter"


class Operator:
    """Someone at a terminal, with the sink's configuration in a file."""

    def __init__(self, config: dict[str, str], folder: Path) -> None:
        self.folder = folder
        self.config = folder / "sink.json"
        self.config.write_text(json.dumps(config))

    def runs(self, command: str, *words: str, code: int = 0) -> str:
        """What the command prints as a process, once it has ended as expected."""
        with SinkProcess([*COMMAND, command, str(self.config), *words], self.folder / f"{command}.log") as process:
            assert process.wait(240) == code, process.output()
        assert "Traceback" not in process.output()
        return process.output()

    def types(self, command: str, *words: str, code: int = 0) -> str:
        """What the command prints; quicker, inside this process."""
        result = CliRunner().invoke(dead_letters, [command, str(self.config), *words])
        if isinstance(result.exception, SinkError):
            return f"{result.output}{result.exception}"
        assert result.exit_code == code, result.output
        return result.output

    def verifies(self, *words: str) -> dict[str, int]:
        """The sums over all topic-partitions that `kafka-s3 verify` finds against Kafka and the bucket, without a finding."""
        app = typer.Typer()
        app.command()(verify)
        done = CliRunner().invoke(app, [str(self.config), "--output", "json", *words])
        report = json.loads(done.stdout)
        assert (done.exit_code, report["findings"], report["clean"]) == (0, [], True), report
        return {name: sum(row[name] for row in report["partitions"]) for name in COUNTED}


def totals(here: Surroundings, sink: str) -> dict[str, int]:
    """The sums over the whole log, as anyone can add them up."""
    names = ("read", "written", "dead_letters", "skipped")
    sums = {name: sum(entry["totals"][name] for entry in here.bucket.entries(sink)) for name in names}
    assert sums["read"] == sums["written"] + sums["dead_letters"] + sums["skipped"]
    return sums


@pytest.mark.nightly
def test_letters_that_another_converter_can_read_are_replayed_into_the_bucket(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("letters", partitions=2)
    config = here.config(name, **TOLERANT, **{"errors.deadletterqueue.topic.name": f"dlq-{name}", "flush.size": "4"})
    bad = {2: b"\x1b[2Jplain text", 5: b"=1+1"}
    good = [Given(bad.get(n, document(n=n)), partition, key=b"k") for partition in range(2) for n in range(8)]
    produce(here.servers, name, [*good, Given(None, 1, key=b"tombstone")])
    here.drain(config)
    before = here.bucket.contents()
    sink = config["name"]
    assert totals(here, sink) == {"read": 17, "written": 12, "dead_letters": 5, "skipped": 0}

    operator = Operator(config, tmp_path)
    assert operator.verifies() == {"kafka": 17, "written": 12, "dead_letters": 5, "skipped": 0}
    listed = operator.runs("list")
    assert "5 dead letters: 5 open" in listed
    assert f"{name}-1" in listed
    for word in ("Converting", "serialization", "Skipping"):  # a message of each group
        assert word in listed
    assert "\x1b[2J" not in listed
    shown = operator.types("show", name, "0", "2")
    assert r"\x1b[2Jplain text" in shown
    assert "\x1b[2J" not in shown
    assert base64.b64encode(bad[2]).decode() in shown
    assert "There is no dead letter" in operator.types("show", name, "0", "3", code=1)

    operator.types("export", "--format", "csv", "--to", str(tmp_path / "letters.csv"), "--partition", "1")
    with (tmp_path / "letters.csv").open(newline="") as file:
        assert [row["value_text"] for row in csv.DictReader(file)] == [r"\x1b[2Jplain text", "'=1+1", "null"]
    assert "exists already" in operator.types("export", "--to", str(tmp_path / "letters.csv"), code=2)
    lines = operator.types("export").splitlines()
    assert {json.loads(line)["offset"] for line in lines if line.startswith("{")} == {2, 5, 8}

    fixed = ("--set", f"value.converter={TEXT}", "--stage", "VALUE_CONVERTER")
    assert "may be running" in operator.runs("replay", *fixed, code=1)
    rehearsed = operator.types("replay", *fixed, "--dry-run")
    assert "4 would succeed, 0 would fail again" in rehearsed
    again = operator.types("replay", "--force", "--yes", code=1)
    assert "0 replayed, 5 failed again and stay open: nothing was changed" in again
    assert here.bucket.contents() == before
    assert "4 replayed, 0 failed again" in operator.runs("replay", *fixed, "--force", "--yes")

    replayed = {f"topics/{name}/partition={p}/{name}+{p}+0000000002.json" for p in range(2)}
    assert set(here.bucket.data_keys()) == {*before, *replayed}
    assert all(key in rehearsed for key in replayed)
    for key in replayed:
        assert here.bucket.rows(key) == ["\x1b[2Jplain text", "=1+1"]
    assert {key: rows for key, rows in here.bucket.contents().items() if key not in replayed} == before
    assert totals(here, sink) == {"read": 17, "written": 16, "dead_letters": 1, "skipped": 0}
    assert operator.verifies() == {"kafka": 17, "written": 16, "dead_letters": 1, "skipped": 0}
    assert "0 replayed, 0 failed again" in operator.types("replay", *fixed)

    assert "1 dead letters resolved" in operator.types("resolve", "--reason", "a tombstone", "--yes", "--offset", "8")
    assert totals(here, sink) == {"read": 17, "written": 16, "dead_letters": 0, "skipped": 1}
    assert "5 dead letters: 0 open, 4 replayed, 1 resolved" in operator.types("list")

    produce(here.servers, name, [Given(document(n=9))])
    here.drain(config)  # the sink goes on from the log as it is now
    assert totals(here, sink) == {"read": 18, "written": 17, "dead_letters": 0, "skipped": 1}
    assert operator.verifies() == {"kafka": 18, "written": 17, "dead_letters": 0, "skipped": 1}
    assert here.bucket.client.list_multipart_uploads(Bucket=here.bucket.name).get("Uploads", []) == []


def test_a_flood_of_bad_records_stops_the_sink_before_anything_is_committed(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic("flood")
    config = here.config(name, **TOLERANT, **{"flush.size": "1000", "errors.deadletter.max.ratio": "0.2"})
    produce(here.servers, name, [Given(b"text" if n % 2 else document(n=n)) for n in range(200)])

    with pytest.raises(RecordError, match="100 of 200 records of this batch would become dead letters"):
        here.drain(config)

    assert here.bucket.data_keys() == []
    assert here.bucket.dead_letters(config["name"]) == []
    assert totals(here, config["name"])["read"] == 0


def test_a_null_value_that_is_reported_without_tolerance_keeps_its_key_and_headers(
    here: Surroundings, topic: Callable[..., str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("reported")
    log = {"errors.log.enable": "true", "errors.log.include.messages": "true"}
    config = here.config(name, **{"flush.size": "2", "behavior.on.null.values": "ignore"}, **log)
    null = Given(None, key=b"\x00k", headers=(("trace", b"\xff"),))
    produce(here.servers, name, [Given(document(n=0)), null, Given(document(n=2))])
    logger = logging.getLogger(
        "kafka_s3.followers.dead_letter_reporters"
    )  # the product's own set-up keeps its lines from pytest
    monkeypatch.setattr(logger, "handlers", [caplog.handler])
    monkeypatch.setattr(logger, "propagate", False)
    here.drain(config)

    (letter,) = here.bucket.dead_letters(config["name"])
    raw = [base64.b64encode(content).decode() for content in (b"\x00k", b"\xff")]
    assert (letter["offset"], letter["key"], letter["headers"]) == (1, raw[0], [["trace", raw[1]]])
    (line,) = [record.facts for record in caplog.records if record.msg == "record failed"]  # type: ignore[attr-defined]
    assert (line["topic"], line["partition"], line["offset"], line["stage"]) == (name, 0, 1, "TASK_PUT")
