"""Is every record in the bucket once, whatever happens to the driver, in every rotation mode?

Five real sinks, one per mode, are killed (SIGKILL) at phases of the commit protocol one after the other, with new records each time; a last
run flushes. Then bucket and Kafka are compared record by record, without a line of the product's code. Each mode dies at one of the four
phases, and each phase is met; the nightly run has every mode die at all four.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.bucket import Bucket
from tests.support.configurations import BASE, PARTITIONER, STATE
from tests.support.examples import NIGHTLY
from tests.support.kafka import Given, document, group_offsets, kafka_records, produce
from tests.support.sink_process import SinkProcess

if TYPE_CHECKING:
    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3

PHASES = ("uploaded", "committed", "publishing", "published")
DEATHS = 4 if os.environ.get(NIGHTLY) else 1
PARTITIONS = 2
BATCH = 600
FLUSH_SIZE, FLUSH_BYTES, INTERVAL_MS = 50, 1_500, 600_000
START_MS = 1_736_935_200_000  # 2025-01-15T10:00:00Z
TIME = {
    "partitioner.class": PARTITIONER + "TimeBasedPartitioner",
    "path.format": "'hour'=HH/'minute'=mm",
    "partition.duration.ms": str(INTERVAL_MS),
    "locale": "en",
    "timezone": "UTC",
}
MODES = {
    "flush-size": {"flush.size": str(FLUSH_SIZE)},
    "record-time": {
        **TIME, "timestamp.extractor": "RecordField", "timestamp.field": "created", "rotate.interval.ms": str(INTERVAL_MS),
        "flush.size": "100000",
    },
    "schedule": {
        "partitioner.class": PARTITIONER + "FieldPartitioner", "partition.field.name": "country",
        "rotate.schedule.interval.ms": "1500", "timezone": "UTC", "flush.size": "100000",
    },
    "wall-clock": {
        "partitioner.class": PARTITIONER + "HourlyPartitioner", "timestamp.extractor": "Wallclock", "locale": "en",
        "timezone": "UTC", "flush.size": "70",
    },
    "flush-bytes": {"flush.bytes": str(FLUSH_BYTES), "s3.compression.type": "gzip"},
}  # fmt: skip
COMMON = {"errors.tolerance": "all", "tasks.max": "2", "tail.check.interval.ms": "300", "poll.interval.ms": "200"}
BROKEN = (b'{"n":', b"\xff\xfe\x00", b"no json at all")


@dataclass
class Evidence:
    """What is left of one mode after all deaths: Kafka's records, the bucket's objects, the log, the dead letters."""

    sink: str
    topic: str
    began: datetime
    deaths: dict[str, tuple[str, int, int]]
    kafka: dict[tuple[int, int], bytes]
    objects: dict[str, list[dict[str, Any]]]
    entries: list[dict[str, Any]]
    dead: list[dict[str, Any]]
    state_keys: set[str]
    group: dict[int, int]
    place: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place = {json.loads(value)["n"]: where for where, value in self.kafka.items() if good(value)}

    def offsets(self, key: str) -> list[tuple[int, int]]:
        """Where the records of an object come from, in the object's order."""
        return [self.place[row["n"]] for row in self.objects[key]]

    def good_records(self, partition: int) -> list[tuple[int, dict[str, Any]]]:
        """Offset and value of the records that can be written."""
        return [(o, json.loads(v)) for (p, o), v in sorted(self.kafka.items()) if p == partition and good(v)]

    @property
    def files(self) -> list[dict[str, Any]]:
        """Every file that the log counts, in its order."""
        return [file for entry in self.entries for file in entry["files"]]


def phase_of(place: int, run: int) -> str:
    """Where the sink of that place dies in that run."""
    return PHASES[(place + run * len(PHASES) // DEATHS) % len(PHASES)]


def good(value: bytes) -> bool:
    return value not in BROKEN


def batch(number: int) -> list[Given]:
    """Distinct records a few seconds of record time apart; every 37th is broken."""
    records = []
    for n in range(number * BATCH, (number + 1) * BATCH):
        created = START_MS + n * 4_000
        text = datetime.fromtimestamp(created / 1000, UTC).isoformat().replace("+00:00", "Z")
        value = document(n=n, created=text, country=("DE", "FR", "JP")[n % 3], note="é" * (n % 70))
        records.append(Given(BROKEN[n % 3] if n % 37 == 5 else value, n * 7 // 4 % PARTITIONS, created))
    return records


@pytest.fixture(scope="module")
def evidence(kafka: EmbeddedKafka, s3: EmbeddedS3, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    """The deaths and a clean run of all five sinks, then a look at everything."""
    folder, began = tmp_path_factory.mktemp("crashes"), datetime.now(UTC)
    configs = []
    deaths: dict[str, dict[str, tuple[str, int, int]]] = {mode: {} for mode in MODES}
    runs = [[phase_of(place, run) for place in range(len(MODES))] for run in range(DEATHS)] + [["none"] * len(MODES)]
    for mode, settings in MODES.items():
        kafka.create_topic(f"crash-{mode}", PARTITIONS)
        s3.create_bucket(f"crash-{mode}")
        own = {"name": mode, "topics": f"crash-{mode}", "s3.bucket.name": f"crash-{mode}", "store.url": s3.endpoint_url}
        path = folder / f"{mode}.json"
        path.write_text(
            json.dumps({**BASE, **COMMON, **own, **settings, "kafka.bootstrap.servers": kafka.bootstrap_servers})
        )
        configs.append(str(path))
    for number, phases in enumerate(runs):
        records, is_last = batch(number), number == DEATHS
        late = 0 if is_last else BATCH // 2
        send_all(kafka, records[: BATCH - late])
        with SinkProcess(
            ["-m", "tests.services.sink.crashing_sink", ",".join(phases), *configs], folder / f"{number}.log"
        ) as process:
            time.sleep(3)
            send_all(kafka, records[BATCH - late :])  # while it starts or runs
            assert process.wait() == (0 if is_last else -signal.SIGKILL), process.output()
            for mode, phase in zip(MODES, phases, strict=True):
                deaths[mode][phase] = published(s3, mode)
    return {mode: poll(kafka, s3, mode, began, deaths[mode]) for mode in MODES}


def send_all(kafka: EmbeddedKafka, records: list[Given]) -> None:
    for mode in MODES:
        produce(kafka.bootstrap_servers, f"crash-{mode}", records)


def published(s3: EmbeddedS3, mode: str) -> tuple[str, int, int]:
    """The log's last entry after a death: its kind, its files, and how many of them are visible."""
    bucket = Bucket(s3.endpoint_url, f"crash-{mode}")
    there, last = bucket.listing(), bucket.entries(mode)[-1]
    bucket.close()
    return last["kind"], len(last["files"]), sum(1 for file in last["files"] if file["key"] in there)


def poll(
    kafka: EmbeddedKafka, s3: EmbeddedS3, mode: str, began: datetime, deaths: dict[str, tuple[str, int, int]]
) -> Evidence:
    topic = f"crash-{mode}"
    bucket = Bucket(s3.endpoint_url, topic)
    raw = kafka_records(kafka.bootstrap_servers, topic, PARTITIONS)
    found = Evidence(
        sink=mode,
        topic=topic,
        began=began,
        deaths=deaths,
        kafka={where: value for where, value in raw.items() if value is not None},
        objects=bucket.contents(),
        entries=bucket.entries(mode),
        dead=bucket.dead_letters(mode),
        state_keys={key for key in bucket.listing() if key.startswith(STATE)},
        group=group_offsets(kafka.bootstrap_servers, f"connect-{mode}", topic, PARTITIONS),
    )
    bucket.close()
    return found


pytestmark = pytest.mark.timeout(600)
each_mode = pytest.mark.parametrize("mode", MODES)


@each_mode
def test_each_death_was_at_the_phase_that_it_is_named_after(mode: str, evidence: dict[str, Evidence]) -> None:
    deaths = evidence[mode].deaths
    assert len(deaths) == DEATHS + 1
    for phase in deaths.keys() - {"none"}:
        kind, files, visible = deaths[phase]
        if phase == "uploaded":
            assert kind in ("position", "epoch")
        else:
            assert kind == "data"
            assert files > 1
            assert visible == {"committed": 0, "publishing": 1, "published": files}[phase]


@each_mode
def test_every_good_record_is_in_one_object_and_every_broken_one_in_one_dead_letter(
    mode: str, evidence: dict[str, Evidence]
) -> None:
    found = evidence[mode]
    assert len(found.kafka) == BATCH * (DEATHS + 1)
    written = Counter(where for key in found.objects for where in found.offsets(key))
    dead = Counter((letter["partition"], letter["offset"]) for letter in found.dead)
    assert written == Counter(where for where, value in found.kafka.items() if good(value))
    assert dead == Counter(where for where, value in found.kafka.items() if not good(value))


@each_mode
def test_written_records_and_dead_letters_are_the_bytes_that_kafka_holds(
    mode: str, evidence: dict[str, Evidence]
) -> None:
    found = evidence[mode]
    for rows in found.objects.values():
        assert rows == [json.loads(found.kafka[found.place[row["n"]]]) for row in rows]
    for letter in found.dead:
        assert letter["topic"] == found.topic
        assert base64.b64decode(letter["value"]) == found.kafka[letter["partition"], letter["offset"]]
        assert letter["stage"] == "VALUE_CONVERTER"


@each_mode
def test_an_object_is_named_by_its_first_record_and_holds_one_partition_in_order(
    mode: str, evidence: dict[str, Evidence]
) -> None:
    found = evidence[mode]
    for key in found.objects:
        places = found.offsets(key)
        named = re.fullmatch(rf"topics/{found.topic}/.+/{found.topic}\+(\d+)\+(\d{{10}})\.json(\.gz)?", key)
        assert named, key
        assert (int(named[1]), int(named[2])) == places[0]
        assert places == sorted(set(places))
        assert {partition for partition, _ in places} == {int(named[1])}


@each_mode
def test_the_log_counts_exactly_the_objects_that_are_there(mode: str, evidence: dict[str, Evidence]) -> None:
    found = evidence[mode]
    values = [file for file in found.files if file["role"] == "value"]
    letters = [file for file in found.files if file["role"] == "dead_letter"]
    assert Counter(file["key"] for file in values) == Counter(found.objects.keys())
    assert {file["key"] for file in letters} == {key for key in found.state_keys if "/dead-letters/" in key}
    for file in values:
        places = found.offsets(file["key"])
        assert file["records"] == len(places)
        assert (file["partition"], file["first_offset"]) == places[0]
        assert (file["partition"], file["last_offset"]) == places[-1]


@each_mode
def test_the_entries_follow_each_other_and_their_totals_add_up(mode: str, evidence: dict[str, Evidence]) -> None:
    found = evidence[mode]
    assert [entry["version"] for entry in found.entries] == list(range(len(found.entries)))
    assert [e["epoch"] for e in found.entries if e["kind"] == "epoch"] == list(range(1, DEATHS + 2))
    sums = Counter[str]()
    for entry in found.entries:
        totals = entry["totals"]
        assert totals["read"] == totals["written"] + totals["dead_letters"] + totals["skipped"]
        assert totals["written"] == sum(file["records"] for file in entry["files"] if file["role"] == "value")
        assert totals["dead_letters"] == sum(count["count"] for count in entry["dead_letters"].values())
        sums.update(totals)
    assert sums["read"] == len(found.kafka)
    assert sums["dead_letters"] == len(found.dead)
    assert sums["files"] == len(found.objects)


@each_mode
def test_the_frontier_only_moves_forward_and_ends_at_the_head_as_does_the_consumer_group(
    mode: str, evidence: dict[str, Evidence]
) -> None:
    found = evidence[mode]
    heads = {p: 1 + max(offset for q, offset in found.kafka if p == q) for p in range(PARTITIONS)}
    for partition in range(PARTITIONS):
        frontiers = [entry["frontier"].get(found.topic, {}).get(str(partition)) for entry in found.entries]
        moved = [frontier for frontier in frontiers if frontier is not None]
        assert all(before <= after for before, after in pairwise(moved))
        assert moved[-1] == heads[partition]
    assert found.group == heads


def test_by_count_the_objects_are_those_of_a_run_without_deaths(evidence: dict[str, Evidence]) -> None:
    found = evidence["flush-size"]
    expected = {}
    for partition in range(PARTITIONS):
        records = found.good_records(partition)
        for first in range(0, len(records), FLUSH_SIZE):
            chunk = [value for _, value in records[first : first + FLUSH_SIZE]]
            name = f"{found.topic}+{partition}+{records[first][0]:010d}.json"
            expected[f"topics/{found.topic}/partition={partition}/{name}"] = chunk
    assert_same_but_for_flushes(found, expected)


def test_by_record_time_the_objects_are_those_of_a_run_without_deaths(evidence: dict[str, Evidence]) -> None:
    found = evidence["record-time"]
    expected = {}
    for partition in range(PARTITIONS):
        for path, members in groupby(found.good_records(partition), key=lambda record: bucket_of(record[1])):
            chunk = list(members)
            name = f"{found.topic}+{partition}+{chunk[0][0]:010d}.json"
            expected[f"topics/{found.topic}/{path}/{name}"] = [value for _, value in chunk]
    assert_same_but_for_flushes(found, expected)


def bucket_of(value: dict[str, Any]) -> str:
    at = datetime.fromisoformat(value["created"])
    return f"hour={at.hour:02d}/minute={at.minute // 10 * 10:02d}"


def assert_same_but_for_flushes(found: Evidence, expected: dict[str, list[dict[str, Any]]]) -> None:
    """Objects before the first `flush.now` of a partition are the expected ones."""
    flushed = {
        p: min(f["first_offset"] for f in found.files if f["partition"] == p and f["reason"] == "flush.now")
        for p in range(PARTITIONS)
    }
    compared = 0
    for key, rows in expected.items():
        partition, offset = key.rsplit(".", 1)[0].rsplit("+", 2)[1:]
        if int(offset) < flushed[int(partition)]:
            assert found.objects[key] == rows
            compared += 1
    assert compared > 10


def test_the_schedule_has_closed_files_of_several_directories_together(evidence: dict[str, Evidence]) -> None:
    found = evidence["schedule"]
    scheduled = [
        {f["encoded_partition"] for f in entry["files"] if f["reason"] == "rotate.schedule.interval.ms"}
        for entry in found.entries
    ]
    assert {"country=DE", "country=FR", "country=JP"} in scheduled
    for key, rows in found.objects.items():
        assert {f"country={row['country']}" for row in rows} == {key.split("/")[2]}


def test_by_wall_clock_a_record_is_in_the_hour_in_which_it_arrived(evidence: dict[str, Evidence]) -> None:
    found = evidence["wall-clock"]
    hours = {at.strftime("year=%Y/month=%m/day=%d/hour=%H") for at in (found.began, datetime.now(UTC))}
    assert {key.removeprefix(f"topics/{found.topic}/").rsplit("/", 1)[0] for key in found.objects} <= hours
    assert {f["records"] for f in found.files if f["reason"] == "flush.size"} == {70}


def test_by_bytes_a_file_closes_once_it_has_that_many(evidence: dict[str, Evidence]) -> None:
    found = evidence["flush-bytes"]
    closed = [f for f in found.files if f["reason"] == "flush.bytes"]
    assert closed
    for file in closed:
        assert sum(len(document(**row)) + 1 for row in found.objects[file["key"]]) >= FLUSH_BYTES
