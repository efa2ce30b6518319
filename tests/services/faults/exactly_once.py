"""Is every record of Kafka in one object, and what is left to sweep? The verdicts of the faults' tests over numbered JSON records."""

from __future__ import annotations

import json
import re
from collections import Counter

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.sweep import UploadState, sweeper_of
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store
from tests.support.kafka import Given, document, kafka_records
from tests.support.surroundings import Surroundings

START_MS = 1_736_935_210_000  # 2025-01-15T10:00:10Z


def assert_exactly_once(here: Surroundings, topic: str, *, partitions: int = 1) -> None:
    """Every record of Kafka is in one object; an object holds one partition in order, and is named by its first record."""
    there = kafka_records(here.servers, topic, partitions)
    assert there
    place = {json.loads(value)["n"]: where for where, value in there.items() if value is not None}
    written: Counter[tuple[int, int]] = Counter()
    keys = [key for key in here.bucket.data_keys() if key.startswith(f"topics/{topic}/")]
    for key in keys:
        rows = here.bucket.rows(key)
        places = [place[row["n"]] for row in rows]
        assert [json.loads(there[where] or b"") for where in places] == rows
        named = re.fullmatch(rf"topics/{topic}/.+/{topic}\+(\d+)\+(\d{{10}})\.json", key)
        assert named, key
        assert (int(named[1]), int(named[2])) == places[0]
        assert places == sorted(places)
        assert len({partition for partition, _ in places}) == 1
        written.update(places)
    assert written == Counter(there.keys())


def pending(here: Surroundings) -> list[tuple[str, str]]:
    """Key and id of every upload that is neither completed nor aborted."""
    found = here.bucket.client.list_multipart_uploads(Bucket=here.bucket.name).get("Uploads", [])
    return [(upload["Key"], upload["UploadId"]) for upload in found]


def assert_swept(here: Surroundings, config: dict[str, str]) -> None:
    """The sweep aborts what dead tasks have left behind, and changes no object."""
    before = here.bucket.listing()
    settings = resolved(validate(config).usable())
    options = store_options(settings)
    store = S3Store(options)
    try:
        sweeper = sweeper_of(settings, store, clock_ms=now_ms)
        judged = sweeper.judged(older_than_ms=0)
        assert {one.verdict for one in judged} <= {UploadState.ABANDONED}
        assert {(one.upload.key, one.upload.id) for one in judged} == set(pending(here))
        sweeper.abort(judged)
    finally:
        store.close()
    assert pending(here) == []
    assert here.bucket.listing() == before


def numbered(first: int, until: int, *, partitions: int = 1, timestamp_ms: int = START_MS) -> list[Given]:
    """Distinct records, spread over the partitions."""
    return [Given(document(n=n), n % partitions, timestamp_ms) for n in range(first, until)]
