"""Is another librdkafka noticed before its messages are read in place, and is there a way out?"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import confluent_kafka
import pytest

from kafka_s3.kafka.reader import library, messages, reach
from kafka_s3.model.errors import SourceError


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    messages.why_unusable.cache_clear()
    yield
    messages.why_unusable.cache_clear()


def test_the_library_that_is_installed_can_be_read() -> None:
    assert messages.why_unusable() is None
    messages.check_library()
    with messages._purged_message() as message:
        assert messages._fields_read(message) == messages.EXPECTED


@pytest.mark.parametrize(("number", "name"), [(0x030000FF, "3.0"), (0x020B00FF, "2.11"), (0x010900FF, "1.9")])
def test_a_version_that_was_not_tried_leaves_the_reading_to_spark(
    number: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "version", lambda: number)
    reason = reach.why_not({})
    assert reason is not None
    assert reason.startswith(f"librdkafka {name} was not tried: 2.12 and later before 3.0 were.")
    assert reason.endswith("or set kafka.reader=spark.")
    with pytest.raises(SourceError, match="was not tried"):
        messages.check_library()


def test_another_library_than_confluent_kafka_s_own_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    other = library.version() ^ 0x100
    monkeypatch.setattr(library, "version", lambda: other)
    assert f"but confluent-kafka has {confluent_kafka.libversion()[0]}" in (reach.why_not({}) or "")


def test_a_message_of_another_form_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = dict(library.NativeMessage._fields_)
    names = [*fields]
    size, key = names.index("value_size"), names.index("key")
    names[size], names[key] = names[key], names[size]
    other = type("Other", (ctypes.Structure,), {"_fields_": [(name, fields[name]) for name in names]})
    monkeypatch.setattr(library, "NativeMessage", other)
    assert "has its messages in another form" in (reach.why_not({}) or "")


def test_what_is_missing_in_the_library_leaves_the_reading_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> None:
        return None

    monkeypatch.setattr(library, "queue_poll", silent)
    assert "could not be tried: a purged message was not reported." in (reach.why_not({}) or "")
