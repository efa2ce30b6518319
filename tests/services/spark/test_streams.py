"""The log as a stream of Spark: entries are its offsets, also behind a checkpoint and by Spark Connect."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_s3.spark import location_of, register
from tests.support.direct_sink import drain_directly
from tests.support.kafka import Given, document, produce
from tests.support.sink_process import SinkProcess

if TYPE_CHECKING:
    from tests.support.surroundings import Surroundings


class Stream:
    """A topic of a sink, and a stream of its records into a folder, with a checkpoint."""

    def __init__(self, here: Surroundings, topic: str, folder: Path) -> None:
        self.here, self.topic, self.folder = here, topic, folder
        self.config = here.config(topic, **{"flush.size": "2"})

    def commit(self, *numbers: int) -> int:
        produce(self.here.servers, self.topic, [Given(document(n=n)) for n in numbers])
        drain_directly(self.config)
        return location_of(self.config).log().state.version

    def start(self, *, all_and_end: bool = False, **options: Any) -> Any:
        spark = self.here.spark
        found = spark.readStream.format(register(spark, self.config)).options(topic=self.topic, **options)
        query = found.schema("n long, _entry long").load().writeStream.format("parquet")
        query = query.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = query.trigger(availableNow=True) if all_and_end else query
        return query.start(str(self.folder / "table"))

    def catch_up(self, **options: Any) -> list[int]:
        """Runs until all is there, and stops; gives what is in the table."""
        query = self.start(**options)
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return self.table()

    def table(self) -> list[int]:
        return sorted(row.n for row in self.here.spark.read.parquet(str(self.folder / "table")).collect())


@pytest.fixture
def stream(here: Surroundings, topic: Callable[..., str], tmp_path: Path) -> Stream:
    return Stream(here, topic("streamed"), tmp_path)


def test_a_stream_goes_on_behind_its_checkpoint_with_so_many_entries_at_a_time(stream: Stream) -> None:
    for n in range(2):
        stream.commit(n)
    query = stream.start(maxEntriesPerTrigger=1)
    query.processAllAvailable()
    batches = [one for one in query.recentProgress if one.numInputRows]
    query.stop()
    assert [one.numInputRows for one in batches] == [1, 1]
    stream.commit(2, 3)
    stream.commit(4)
    assert stream.catch_up(maxEntriesPerTrigger=1) == [0, 1, 2, 3, 4]


def test_a_stream_ends_with_what_is_there_where_it_is_asked_to(stream: Stream) -> None:
    stream.commit(0, 1)
    stream.start(all_and_end=True).awaitTermination()
    stream.commit(2)
    stream.start(all_and_end=True).awaitTermination()
    assert stream.table() == [0, 1, 2]


def test_a_stream_that_begins_now_has_what_comes_from_now_on(stream: Stream) -> None:
    stream.commit(0, 1)
    query = stream.start(startingEntry="now")
    query.processAllAvailable()
    stream.commit(2)
    query.processAllAvailable()
    query.stop()
    assert stream.table() == [2]


@pytest.mark.nightly
def test_a_checkpoint_of_a_log_that_was_replaced_stops_the_stream(stream: Stream) -> None:
    stream.commit(0)
    stream.catch_up()
    location = location_of(stream.config)
    for info in list(location.store.list(location.paths.root)):
        location.store.delete(info.key)
    for n in range(1, 4):
        stream.commit(n)
    with pytest.raises(Exception, match="the sink's log was deleted and started again"):
        stream.catch_up()


@pytest.mark.nightly
def test_spark_connect_reads_the_same_in_batch_and_as_a_stream(stream: Stream, tmp_path: Path) -> None:
    stream.commit(0, 1, 2)
    file = tmp_path / "sink.json"
    file.write_text(json.dumps(stream.config))
    script = str(Path(__file__).parent / "connect_job.py")
    with SinkProcess([script, str(file), stream.topic, str(tmp_path)], tmp_path / "connect.log") as job:
        code = job.wait()
    [line] = [one for one in job.output().splitlines() if one.startswith("RESULT ")] or [job.output()]
    assert (code, json.loads(line.removeprefix("RESULT "))) == (
        0, ["pyspark.sql.connect.session", [0, 1, 2], [0, 1, 2]],
    )  # fmt: skip
