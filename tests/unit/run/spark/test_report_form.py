"""A task's report reads the same at the driver as it was made at the worker."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.engine.log.entry import CommitEntry, Progress, read_entry
from kafka_s3.model.files import DataFile, DeadLetterCount, Upload
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from kafka_s3.model.tasks import Fetched, Tail, TaskReport
from kafka_s3.run.spark.report_form import outcome_of, outcome_text
from tests.support.examples import examples
from tests.support.letters import LETTERS

NAMES = st.text(max_size=8)
OFFSETS = st.sets(st.integers(0, 2**62), max_size=5).map(OffsetSet.of)
PLACES = st.builds(TopicPartition, topic=NAMES, partition=st.integers(0, 99))
UPLOADS = st.builds(Upload, key=NAMES, id=NAMES, parts=st.lists(NAMES, max_size=3).map(tuple), size=st.integers(0))
FILES = st.lists(
    st.builds(DataFile, key=NAMES, topic=NAMES, schema=NAMES, format=NAMES, upload=UPLOADS), max_size=3
).map(tuple)
REPORTS = st.builds(
    TaskReport, topic_partition=PLACES, files=FILES, dead=OFFSETS, stages=st.dictionaries(NAMES, st.integers(0), max_size=2),
    tail=st.builds(Tail), failure=st.none() | NAMES, letter=st.none() | LETTERS, next_rotation_ms=st.none() | st.integers(0),
    rows=st.integers(0), read=st.integers(0), skipped=st.integers(0),
    fetched=st.lists(st.builds(Fetched, zone=NAMES, broker_zone=NAMES, bytes=st.integers(0)), max_size=2).map(tuple),
)  # fmt: skip
PROGRESS = st.builds(Progress, frontier=st.integers(0), written=st.none() | st.integers(0), recorded=OFFSETS)
ENTRIES = st.builds(
    CommitEntry, progress=st.dictionaries(PLACES, PROGRESS, max_size=3), files=FILES,
    dead_letters=st.dictionaries(PLACES, st.builds(DeadLetterCount, count=st.integers(0), stages=st.just({"TASK_PUT": 1})), max_size=2),
    skipped=st.dictionaries(PLACES, st.integers(0), max_size=2), gaps=st.lists(st.builds(Gap), max_size=2).map(tuple),
    topic_ids=st.dictionaries(NAMES, NAMES, max_size=2), driver=NAMES,
)  # fmt: skip


@settings(max_examples=examples(60))
@given(REPORTS)
def test_a_report_survives_its_journey_on_one_line(report: TaskReport) -> None:
    text = outcome_text(report)

    assert "\n" not in text
    assert outcome_of(text) == report


@settings(max_examples=examples(60))
@given(ENTRIES)
def test_a_commit_entry_reads_as_it_was_written(entry: CommitEntry) -> None:
    assert read_entry(entry.to_json(), key="key") == entry
