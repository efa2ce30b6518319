"""Each start notes the settings in effect, masked, where they are new; so the bucket alone says what changed, and since when."""

from __future__ import annotations

import json

import pytest

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.control.heartbeat import HeartbeatWriter
from kafka_s3.engine.control.stored_settings import SettingChange, changes, note_settings, read_notes
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import Totals
from kafka_s3.model.protocols import Start
from kafka_s3.run.wiring.pipeline import noted_settings
from kafka_s3.store.memory import MemoryStore
from tests.support.memory_world import BASE

PATHS = StatePaths("_kafka_s3", "orders")
SECRET = "hunter2-hunter2"


def note(store: MemoryStore, epoch: int, **config: str) -> None:
    settings = resolved(validate({**BASE, "flush.size": "3", **config}).usable())
    note_settings(store, PATHS, noted_settings(settings, epoch=epoch, at_ms=epoch * 1000))


def test_only_new_settings_are_noted_and_what_changed_is_reported_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTED_SECRET", SECRET)
    store = MemoryStore()
    note(store, 1)
    note(store, 2)
    note(store, 3, **{"flush.size": "5"})
    note(store, 9, **{"flush.size": "5", "aws.access.key.id": "AKIA", "aws.secret.access.key": "${env:NOTED_SECRET}"})
    notes = read_notes(store, PATHS)
    assert [one.epoch for one in notes] == [1, 3, 9]
    assert notes[-1].set["flush.size"] == "5"
    assert "poll.interval.ms" in notes[-1].settings
    assert "poll.interval.ms" not in notes[-1].set
    found = changes(notes)
    assert [(one.epoch, one.key) for one in found] == [
        (9, "aws.access.key.id"),
        (9, "aws.secret.access.key"),
        (3, "flush.size"),
    ]
    assert found[-1] == SettingChange(3, 3000, "flush.size", "3", "5")
    assert not any(SECRET.encode() in content for content in store.objects.values())


def test_a_note_that_is_damaged_is_named_and_does_not_keep_the_next_one_away() -> None:
    store = MemoryStore()
    store.put(PATHS.settings(1), b"{")
    with pytest.raises(LogDamaged, match="settings/00000000000000000001"):
        read_notes(store, PATHS)
    note(store, 2)
    assert json.loads(store.get(PATHS.settings(2)))["format"] == 1


def test_a_driver_notes_its_epoch_once_and_a_bucket_that_refuses_leaves_the_heartbeat_alone() -> None:
    store, reported = MemoryStore(), []

    def claimed(beat: object) -> None:
        reported.append(beat)
        raise RuntimeError("no")

    writer = HeartbeatWriter(store, PATHS, interval_ms=1000, clock_ms=lambda: 5, claimed=claimed)
    writer.beat()
    assert reported == []
    writer.started(Start("orders", epoch=4, version=7, totals=Totals(), partitions=1, backlog=0))
    writer.beat()
    writer.beat()
    assert len(reported) == 1
    assert store.head(PATHS.heartbeat()) is not None
