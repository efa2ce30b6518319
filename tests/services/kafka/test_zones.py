"""Does each task read from the replica in its zone, and is what crosses zones counted?

A real cluster of three racks with Kafka's rack-aware choice of replicas; AWS's instance metadata is played by a server that hands nothing
out without a token, as version 2 does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_s3.connect.config.settings import Settings
from kafka_s3.kafka import zone
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.reader import consumer
from kafka_s3.kafka.reader.reader import RangeReader
from kafka_s3.model.offsets import OffsetRange, TopicPartition
from kafka_s3.ops.doctor.diagnosis import check_kafka
from kafka_s3.run.wiring.clients import consumer_properties
from kafka_s3_testing.services.kafka import EmbeddedKafka
from tests.support.kafka import Given, document, produce
from tests.support.memory_world import settings_of
from tests.support.waiting import eventually

TOPIC = "orders"
RACKS = {1: "euc1-az1", 2: "euc1-az2", 3: "euc1-az3"}
NEAREST = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
LEADER, FOLLOWER = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
REPLICAS = [[2, 1, 3], [1, 2, 3]]
"""Of each topic-partition, the leader first: this machine is in the zone of broker 2."""
RECORDS = 3000
TOKEN = "a-token"


class Metadata(BaseHTTPRequestHandler):
    """AWS's instance metadata, version 2."""

    answers: ClassVar = {"availability-zone-id": RACKS[2], "availability-zone": "eu-central-1b"}

    def do_PUT(self) -> None:
        seconds = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self._answer(TOKEN if self.path == "/latest/api/token" and seconds else None)

    def do_GET(self) -> None:
        known = self.headers.get("X-aws-ec2-metadata-token") == TOKEN
        self._answer(self.answers.get(self.path.removeprefix("/latest/meta-data/placement/")) if known else None)

    def _answer(self, text: str | None) -> None:
        self.send_response(401 if text is None else 200)
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *_: object) -> None:
        """Writes nothing."""


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine is one of AWS, in the second zone."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
        zone.own_zone.cache_clear()
        yield
        zone.own_zone.cache_clear()
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Three brokers in as many racks, with a topic whose replicas have all of its records."""
    with ExitStack() as stack:
        brokers: list[EmbeddedKafka] = []
        for node, rack in RACKS.items():
            joins = brokers[0] if brokers else None
            settings = {"broker.rack": rack, **NEAREST}
            brokers.append(stack.enter_context(EmbeddedKafka(settings=settings, joins=joins, node=node)))
        found = ",".join(broker.bootstrap_servers for broker in brokers)
        admin = AdminClient({"bootstrap.servers": found})
        (made,) = admin.create_topics([NewTopic(TOPIC, len(REPLICAS), replica_assignment=REPLICAS)]).values()
        made.result(30)
        values = [document(n=number, text="x" * 200) for number in range(RECORDS)]
        for tp in (LEADER, FOLLOWER):
            produce(found, TOPIC, [Given(value, tp.partition) for value in values])
        yield found


def settings(servers: str, rack: str) -> Settings:
    return settings_of({"flush.size": "3", "kafka.bootstrap.servers": servers, "consumer.override.client.rack": rack})


def read(servers: str, rack: str, tp: TopicPartition) -> dict[tuple[str, str], int]:
    """Reads all of a topic-partition, and says which bytes came from where."""
    consumer.take_fetched()
    reader = RangeReader(servers, consumer_properties(settings(servers, rack)))
    tables = [pa.Table.from_batches(batches) for _, batches in reader.read_ranges([OffsetRange(tp, 0, RECORDS)])]
    assert pa.concat_tables(tables).column("offset").to_pylist() == list(range(RECORDS))
    return consumer.take_fetched()


def shares(fetched: dict[tuple[str, str], int], own: str) -> float:
    """Which share of the bytes came from brokers of the own zone."""
    assert {mine for mine, _ in fetched if mine} == {own}
    return sum(count for (mine, broker), count in fetched.items() if mine == broker) / sum(fetched.values())


@pytest.mark.usefixtures("metadata")
@pytest.mark.parametrize(
    "tp",
    [pytest.param(LEADER, marks=pytest.mark.nightly), FOLLOWER],
    ids=["the leader is near", "a follower is near"],
)
def test_the_replica_in_the_machines_zone_is_read(servers: str, tp: TopicPartition) -> None:
    eventually(lambda: shares(read(servers, "auto", tp), RACKS[2]) > 0.99, seconds=60)


@pytest.mark.parametrize("rack", ["euc1-az3", "elsewhere"])
def test_a_rack_that_is_given_is_that(servers: str, rack: str) -> None:
    def near() -> bool:
        fetched = read(servers, rack, FOLLOWER)
        assert sum(fetched.values()) > RECORDS * 200
        return max(fetched, key=lambda zones: fetched[zones]) == (rack, rack if rack in RACKS.values() else RACKS[1])

    eventually(near, seconds=60)


def test_without_a_rack_bytes_are_counted_and_zones_are_nobodys_matter(servers: str) -> None:
    def alone() -> bool:
        fetched = read(servers, "", FOLLOWER)
        assert fetched["", ""] > RECORDS * 200
        return len(fetched) == 1

    eventually(alone, seconds=60)  # a consumer of the tests before may count its last fetch after it was asked


@pytest.mark.usefixtures("metadata")
def test_the_zones_name_is_the_rack_where_brokers_have_names(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Metadata, "answers", {"availability-zone-id": "use1-az9", "availability-zone": RACKS[3]})
    monkeypatch.setattr(zone, "_chosen", {})
    assert zone.with_rack(servers, {"client.rack": "auto"}) == {"client.rack": RACKS[3]}


@pytest.mark.usefixtures("metadata")
def test_doctor_says_the_zone_and_whether_brokers_have_it(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def said() -> str:
        zone.own_zone.cache_clear()
        given = settings(servers, "auto")
        found = check_kafka(given, KafkaBrokers(servers, properties=consumer_properties(given)))
        return str(next(one for one in found if one.tried == "zone of this machine"))

    assert "euc1-az2, by AWS's instance metadata; brokers' racks: euc1-az1, euc1-az2, euc1-az3" in said()
    monkeypatch.setenv("KAFKA_S3_ZONE", "euc1-az7")
    assert "euc1-az7, by KAFKA_S3_ZONE, is the rack of no broker" in said()
    monkeypatch.delenv("KAFKA_S3_ZONE")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert "nothing says it" in said()
