"""What a writer of several topics leaves when it fails midway: nothing."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kafka_s3.model.errors import StorageUnavailable
from kafka_s3.model.files import Reason
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import FaultyStore, Verb, failure
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, settings_of

BY_FIELD = {
    "transforms": "t", "transforms.t.type": "io.confluent.connect.transforms.ExtractTopic$Value", "transforms.t.field": "to",
}  # fmt: skip


def test_where_the_files_of_one_topic_cannot_be_closed_those_of_the_others_leave_no_uploads() -> None:
    topics = ["A", "B", "C"] * 2
    batch = pa.record_batch(
        {
            "offset": pa.array(range(6), pa.int64()),
            "timestamp": pa.array([START_MS] * 6, pa.int64()),
            "value": pa.array([json.dumps({"to": topic}).encode() for topic in topics], pa.binary()),
            "key": pa.nulls(6, pa.binary()),
            "headers": pa.nulls(6),
        }
    )
    pipeline = make_pipeline(settings_of({**TOLERANT, **BY_FIELD, "flush.size": "1000"}))
    wanted = Assignment(ORDERS, 0, 6, (Delivery(START_MS, 6),), close=Reason.FLUSH_NOW)
    for nth in (1, 2, 3):
        inner = MemoryStore()
        store = FaultyStore(inner, [failure(Verb.UPLOAD_PART, nth)])
        with pytest.raises(StorageUnavailable):
            pipeline.process(wanted, iter([batch]), store)
        assert inner.uploads == {}
        assert [verb for verb, _ in store.calls].count(Verb.CREATE_UPLOAD) == nth
