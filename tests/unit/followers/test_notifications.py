"""Is everybody notified of each commit's objects, though somebody did not answer?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_s3.followers.notifications import AT_ONCE
from kafka_s3.model.errors import ConfigError
from tests.support.entry_points import install
from tests.support.memory_world import World, settings_of

SOURCE = """
taken = []
fails = []

class Notifier:
    def send(self, message):
        if fails:
            raise fails.pop()
        taken.append(message)

def made(settings):
    return Notifier()
"""


def reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str = "2"
) -> tuple[World, list[Mapping[str, Any]], list[Exception]]:
    install(
        tmp_path,
        monkeypatch,
        module="our_notifier",
        source=SOURCE,
        group="kafka_s3.notifications",
        entry="ours = our_notifier:made",
    )
    import our_notifier  # type: ignore[import-not-found]

    world = World({"flush.size": size, "notification.class": "ours"})
    world.start()
    return world, our_notifier.taken, our_notifier.fails


def work(world: World) -> None:
    world.sink.poll()
    world.sink.drain()


def test_an_entry_point_gets_the_objects_of_each_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, taken, _ = reported(tmp_path, monkeypatch)
    world.add(range(4))
    work(world)
    (message,) = taken
    assert (message["sink"], message["bucket"], message["part"], message["parts"]) == ("orders", "bucket", 1, 1)
    assert [(one["first_offset"], one["records"]) for one in message["objects"]] == [(0, 2), (2, 2)]
    assert {one["key"] for one in message["objects"]} == world.objects().keys()


def test_what_was_not_taken_is_sent_again_also_by_the_next_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, taken, fails = reported(tmp_path, monkeypatch)
    fails += [ValueError("away"), ValueError("away")]
    world.add(range(2))
    work(world)
    assert taken == []
    fails.clear()
    world.start()
    assert [message["objects"][0]["first_offset"] for message in taken] == [0]


def test_very_many_objects_are_several_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, taken, _ = reported(tmp_path, monkeypatch, "1")
    world.add(range(AT_ONCE + 1))
    work(world)
    assert [(m["part"], m["parts"], len(m["objects"])) for m in taken] == [(1, 2, AT_ONCE), (2, 2, 1)]


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({"notification.class": "pigeon"}, "The known ones are webhook, sns, sqs"),
        ({"notification.class": "sns", "notification.target": "https://a"}, "is not a target of sns"),
        (
            {"notification.class": "webhook", "notification.target": "file:///etc/passwd"},
            "begins with http:// or https://",
        ),
    ],
)
def test_targets_are_checked(config: dict[str, str], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        settings_of({"flush.size": "1", **config})
