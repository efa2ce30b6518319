"""Is every record in the bucket once when a worker or a driver dies with open files on their way from one task to the next?

The records are large enough for parts: some are sent, the rest is in the state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import cloudpickle

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.errors import EngineDied
from kafka_s3.model.files import Reason
from kafka_s3.run.spark.launch import sink_on_spark
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.faults import Fault, FaultyStore, Moment, Verb, raising
from tests.services.faults import dying_task
from tests.services.faults.dying_driver import DriverDied
from tests.services.faults.exactly_once import START_MS, assert_exactly_once, pending
from tests.support.configurations import STATE
from tests.support.kafka import Given, document, produce
from tests.support.observers import Told
from tests.support.surroundings import Surroundings

cloudpickle.register_pickle_by_value(dying_task)
FIRST, SECOND = 6000, 12_000


@dataclass
class Opened:
    """A sink with an open file of 6 MB: one part is sent, the rest is noted as kept. As much again waits in Kafka."""

    here: Surroundings
    topic: str
    config: dict[str, str]

    def produce(self, first: int, until: int) -> None:
        values = [document(n=n, text="x" * 1000) for n in range(first, until)]
        produce(self.here.servers, self.topic, [Given(value, 0, START_MS) for value in values])

    def states(self) -> list[str]:
        folder = f"{STATE}{self.config['name']}/open/"
        return [key for key in self.here.bucket.listing() if key.startswith(folder)]

    def parts(self) -> list[int]:
        """How many parts each pending upload has."""
        client, name = self.here.bucket.client, self.here.bucket.name
        return [
            len(client.list_parts(Bucket=name, Key=key, UploadId=upload_id).get("Parts", []))
            for key, upload_id in pending(self.here)
        ]

    def assert_goes_on(self, *, read: int) -> None:
        """The next driver takes over the open file, reads so many records, and everything is in its place once."""
        reported = Told()
        self.here.drain(self.config, observer=reported)
        assert not reported.texts
        assert reported.read == read
        self.assert_all_is_well()

    def assert_all_is_well(self) -> None:
        assert_exactly_once(self.here, self.topic)
        assert self.states() == []
        assert pending(self.here) == []


@pytest.fixture
def opened(here: Surroundings, topic: Callable[..., str]) -> Opened:
    name = topic("open")
    config = here.config(name, **{"flush.size": "1000000", "s3.part.size": "5242880", "kafka.reader": "tasks"})
    found = Opened(here, name, config)
    found.produce(0, FIRST)
    here.drain(config, close=None)
    assert (len(found.states()), found.parts()) == (1, [1])
    found.produce(FIRST, SECOND)
    return found


def test_a_worker_that_is_killed_between_its_state_and_its_report_changes_nothing(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as doomed:
        doomed.setattr(
            "kafka_s3.run.spark.source.ReadingTask",
            dying_task.dying_reading(dying_task.WORKER, tmp_path / "traces"),
        )
        sink = opened.here.sink(opened.config)
        sink.open()
        with pytest.raises(EngineDied, match="died at its work"):
            polled(sink)
    assert dying_task.struck(tmp_path / "traces")[0] == "worker"
    assert len(opened.states()) == 2, "its state was written"
    assert opened.parts() == [2], "its part was sent"
    opened.assert_goes_on(read=SECOND - FIRST)


DEATHS = {
    "before the state is noted": (Verb.PUT, Moment.BEFORE, "/open-files.json", SECOND - FIRST),
    "when the state is noted": (Verb.PUT, Moment.AFTER, "/open-files.json", 0),
    "before the overtaken one is removed": (Verb.DELETE, Moment.BEFORE, "/open/orders", 0),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_driver_that_dies_while_it_notes_open_files_loses_and_doubles_nothing(death: str, opened: Opened) -> None:
    verb, moment, key, read = DEATHS[death]
    key = key.replace("orders", opened.topic)
    settings = resolved(validate(opened.config).usable())
    store = S3Store(store_options(settings))
    fault = Fault(verb, raising(DriverDied()), moment, 1, lambda at: key in at)  # type: ignore[arg-type]  # dies, does not fail
    sink = sink_on_spark(settings, opened.here.spark, store=FaultyStore(store, [fault]))
    sink.open()
    with pytest.raises(DriverDied):
        polled(sink)
    store.close()
    assert len(opened.states()) == 2
    opened.assert_goes_on(read=read)


def polled(sink: Sink) -> None:
    sink.poll()
    sink.drain()


def test_parts_that_a_zombie_sends_into_the_upload_of_a_committed_file_do_not_become_visible(opened: Opened) -> None:
    ((key, upload_id),) = pending(opened.here)
    settings = resolved(validate(opened.config).usable())
    store = S3Store(store_options(settings))
    fault = Fault(Verb.COMPLETE_UPLOAD, raising(DriverDied()), Moment.BEFORE, 1)  # type: ignore[arg-type]
    sink = sink_on_spark(settings, opened.here.spark, store=FaultyStore(store, [fault]))
    sink.open()
    sink.poll()
    with pytest.raises(DriverDied):
        sink.drain(close=Reason.FLUSH_NOW)
    assert opened.here.bucket.data_keys() == []
    store.upload_part(key, upload_id, 1, b"x" * 5_242_880)
    store.close()

    opened.here.drain(opened.config)
    opened.assert_all_is_well()
