"""A format of the user's own, found by its entry point, writes the objects of the real sink."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_s3.connect.config.validate import validate
from kafka_s3.objects.format import Format
from kafka_s3.objects.text import TextStream
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.entry_points import install
from tests.support.memory_world import BASE, ORDERS, START_MS, World

MODULE = """
from kafka_s3.objects.format import Format
from kafka_s3.objects.text import TextStream

class Shouting(TextStream):
    def append(self, values):
        self.write("".join(text.upper() + "!" for text in values.objects()).encode())

def shouting(settings):
    return Format("shouting", ".shout", lambda schema: Shouting(None), lambda run: run.values)
"""
OWN = {
    "format.class": "shouting",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "flush.size": "2",
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "shouting = shouting_format:shouting"
    install(tmp_path, monkeypatch, module="shouting_format", source=MODULE, group="kafka_s3.formats", entry=entry)


@pytest.mark.usefixtures("installed")
def test_a_registered_format_is_named_in_format_class() -> None:
    world = World(OWN)
    for offset, text in enumerate((b"one", b"two", b"three")):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, text))
    world.start().poll_and_commit()
    data = {key: content for key, content in world.store.objects.items() if key.startswith("topics/")}
    assert data == {"topics/orders/partition=0/orders+0+0000000000.shout": b"ONE!TWO!"}


def test_what_a_format_of_the_last_version_said_still_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"kafka_s3\.Keeping"):
        form = Format("old", ".old", lambda _: TextStream(None), lambda run: run.values, copies=True)
    assert (form.name, form.in_bulk) == ("old", 0)
    with pytest.warns(DeprecationWarning, match=r"Format\.in_bulk"):
        assert Format("old", ".old", lambda _: TextStream(None), lambda run: run.values, lines=4).in_bulk == 4


def test_an_unknown_format_is_refused_with_the_known_names() -> None:
    (problem,) = validate({**BASE, **OWN}).problems
    assert problem.key == "format.class"
    assert "AvroFormat" in problem.remedy
