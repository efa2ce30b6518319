"""Text of others stays text in every command: no markup, no escape sequence, no line of its own, and no command ends for it."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

from kafka_s3.cli.display import ProgressObserver, progress_bar
from kafka_s3.cli.main import COMMANDS, app, main
from kafka_s3.engine.control.heartbeat import Heartbeat
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import SinkError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import BASE, FIELD, TOLERANT
from tests.support.direct_sink import drain_directly
from tests.support.kafka import Given, document, produce

TITLE, RED, CLEAR = "\x1b]0;owned\x07", "\x1b[31m", "\x1b[2J"
HOSTILE = f"[/x] [red]boom[/] {RED}{CLEAR}{TITLE}\r\nsink payments RUNNING \u202e\u2028 :smile:"
CLEAN = "[/x] [red]boom[/] :smile:"
"""What a key of an object may hold."""
FOLDER = "[red]boom[bold] :smile:"
"""What a folder of the state may be called."""
QUOTES = {
    "list", "status", "status of a name", "status of no sink", "check", "check of a name", "doctor of a name", "validate", "verify",
    "explain", "explain of nothing", "dead-letters show", "sweep",
}  # fmt: skip
"""Commands that show some of it, so that their test is one."""
NEVER = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if code != 0x0A} | {"\u202e", "\u2028"}
ELSEWHERE = {
    "run", "demo", "dashboard", "watch", "new", "seek", "catalog list", "catalog describe", "create", "pause", "resume", "flush",
    "delete", "compact", "delta rebuild", "delta maintain", "iceberg rebuild", "iceberg maintain",
    "state run", "state check", "state rebuild",
    "position set", "position seek-to-time", "dead-letters replay", "dead-letters resolve",
}  # fmt: skip
"""They change something, or show nothing that others wrote but by the same console."""


@dataclass(frozen=True)
class Sink:
    path: Path
    place: tuple[str, ...]
    topic: str


@pytest.fixture(scope="module")
def hostile(kafka: EmbeddedKafka, s3: EmbeddedS3, tmp_path_factory: pytest.TempPathFactory) -> Sink:
    """A real sink of hostile records, in a bucket where others have written what they like."""
    topic, bucket = "hostile", "hostile-text"
    s3.create_bucket(bucket)
    given = [
        Given(document(d=text), key=HOSTILE.encode(), headers=((HOSTILE, HOSTILE.encode()),))
        for text in (CLEAN, "plain", HOSTILE)
    ]
    given += [Given(f"{{{HOSTILE}".encode(), headers=((HOSTILE, b"x"),))]
    KafkaBrokers(kafka.bootstrap_servers).create_topic(topic, partitions=1, replication=1)
    produce(kafka.bootstrap_servers, topic, given)
    config = {
        **BASE, **FIELD, **TOLERANT, "name": "hostile", "topics": topic, "flush.size": "1", "s3.bucket.name": bucket,
        "store.url": s3.endpoint_url, "kafka.bootstrap.servers": kafka.bootstrap_servers,
    }  # fmt: skip
    settings = drain_directly(config)
    store, paths = S3Store(store_options(settings)), state_paths(settings)
    beat = Heartbeat(
        HOSTILE, HOSTILE, HOSTILE, 1, HOSTILE, 1, 1000, beat_ms=2, driver=HOSTILE, open_problems=(HOSTILE,), warning=HOSTILE, warned_ms=3,
        failure=HOSTILE, troubled=True, lag={TopicPartition(HOSTILE, 0): 5},
    )  # fmt: skip
    request = {"paused": True, "request": HOSTILE, "flush": HOSTILE, "requested_at": HOSTILE, "requested_by": HOSTILE}
    for folder in (paths.root, f"_kafka_s3/{FOLDER}/"):
        store.put(f"{folder}heartbeat.json", beat.to_json())
        store.put(f"{folder}control.json", json.dumps({"format": 1, **request}).encode())
    store.put(f"topics/{topic}/d={CLEAN}/{topic}+0+0000000099.json", b"{}\n")
    store.put(f"_kafka_s3/{FOLDER}/config.json", b'{"format": 1, "name": 7}')
    store.create_upload(f"topics/{topic}/d={CLEAN}/{topic}+0+0000000077.json")
    path = tmp_path_factory.mktemp("hostile") / "hostile.json"
    path.write_text(json.dumps(config))
    place = ("--bucket", bucket, "--store-url", s3.endpoint_url, "--region", "us-east-1")
    return Sink(path, place, topic)


def commands(sink: Sink) -> dict[str, list[str]]:
    """Each command that tells of what others wrote, for the sink and for the folder with a hostile name."""
    path, place = str(sink.path), list(sink.place)
    return {
        "list": ["list", *place],
        "status": ["status", path],
        "status of a name": ["status", FOLDER, *place],
        "status of no sink": ["status", HOSTILE, *place],
        "check": ["check", path],
        "check of a name": ["check", FOLDER, *place],
        "doctor": ["doctor", path],
        "doctor of a name": ["doctor", FOLDER, *place],
        "validate": ["validate", path, "--set", f"topics.dir={HOSTILE}", "--set", f"{HOSTILE}={HOSTILE}"],
        "verify": ["verify", path],
        "explain": ["explain", path, f"{sink.topic}:0:0"],
        "explain of a dead letter": ["explain", path, f"{sink.topic}:0:3"],
        "explain of nothing": ["explain", path, HOSTILE],
        "dead-letters list": ["dead-letters", "list", path],
        "dead-letters show": ["dead-letters", "show", path, sink.topic, "0", "3"],
        "dead-letters export": ["dead-letters", "export", path],
        "position show": ["position", "show", path],
        "sweep": ["sweep", path, "--dry-run", "--older-than", "1s"],
        "migrate": ["migrate", path],
        "restore": ["restore", path, "--to-topic", "hostile-back", "--dry-run"],
        "simulate": ["simulate", path],
        "delta check": ["delta", "check", path],
        "forget": ["forget", path, "--key", "nobody", "--dry-run"],
        "iceberg check": ["iceberg", "check", path],
        "ddl": ["ddl", path, "--engine", "athena"],
        "iam": ["iam", path],
        "lifecycle": ["lifecycle", path],
    }


def names() -> set[str]:
    found = set()
    for command in COMMANDS:
        loaded = command.load()
        group = get_command(loaded) if hasattr(loaded, "registered_commands") else None
        found |= {f"{command.name} {name}" for name in group.commands} if group is not None else {command.name}  # type: ignore[attr-defined]
    return found


def test_every_command_is_among_those_that_are_tried() -> None:
    tried = set(commands(Sink(Path("x"), (), "t")))
    assert names() <= tried | ELSEWHERE


@pytest.mark.parametrize("name", commands(Sink(Path("x"), (), "t")))
def test_nothing_that_others_wrote_reaches_the_terminal_but_as_text(
    hostile: Sink, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kafka-s3", *commands(hostile)[name]])
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    reported = "".join(capsys.readouterr())

    assert code in (0, 1, 2)
    assert not NEVER & set(reported), (name, sorted(NEVER & set(reported)), reported)
    assert not any(line.startswith("sink payments") for line in reported.splitlines()), reported
    assert "Traceback" not in reported
    assert name not in QUOTES or "boom" in reported, reported


def test_markup_in_names_and_reasons_is_shown_as_it_is(hostile: Sink) -> None:
    run = CliRunner()
    assert FOLDER in run.invoke(app, ["list", *hostile.place]).output
    assert "[/x] [red]boom[/] \\x1b[31m" in run.invoke(app, ["status", str(hostile.path)]).output
    assert f"d={CLEAN}" in run.invoke(app, ["explain", str(hostile.path), f"{hostile.topic}:0:0"]).output


@pytest.mark.parametrize("reported", [HOSTILE, CLEAN, "d=[/x]/orders+0+0000000000.json"])
def test_an_interactive_sink_goes_on_whatever_a_warning_quotes(reported: str) -> None:
    shown = io.StringIO()
    with ProgressObserver(progress_bar(Console(file=shown, force_terminal=True, width=400))) as observer:
        observer.warned(reported)
        observer.preparing(reported)
        observer.decided(reported, reported)
        observer.recovered(1000)
    assert "trying again:" in shown.getvalue()
    assert not (NEVER - {"\x1b", "\r"}) & set(shown.getvalue())
    assert not any(sequence in shown.getvalue() for sequence in (CLEAR, TITLE))


def test_an_error_is_reported_without_what_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise SinkError(HOSTILE)

    monkeypatch.setattr("kafka_s3.cli.main.app", fails)
    with pytest.raises(SystemExit):
        main()
    assert not NEVER & set(capsys.readouterr().err)
