"""What happens when Kafka no longer has what must be read next?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import OffsetsLost, TopicRecreated
from tests.support.kafka import Given, document, produce
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually

NOTHING_HELD = {"flush.size": "10", "tail.state.enable": "false"}


def numbered(numbers: Iterable[int]) -> list[Given]:
    return [Given(document(n=n)) for n in numbers]


@pytest.fixture
def shortened(here: Surroundings, topic: Callable[..., str]) -> str:
    """A topic of 40 records whose first 13 are gone, and a sink that has written 10 of them."""
    name = topic("shortened")
    produce(here.servers, name, numbered(range(15)))
    here.drain(here.config(name, **NOTHING_HELD), close=None)
    produce(here.servers, name, numbered(range(15, 40)))
    admin = AdminClient({"bootstrap.servers": here.servers})
    (future,) = admin.delete_records([TopicPartition(name, 0, 13)]).values()
    future.result()
    return name


def test_a_sink_whose_next_records_are_gone_stops_and_says_which(here: Surroundings, shortened: str) -> None:
    before = here.bucket.listing()
    with pytest.raises(OffsetsLost) as stopped:
        here.drain(here.config(shortened, **NOTHING_HELD))
    assert f"{shortened}-0: wanted 10, available from 13" in str(stopped.value)
    assert "behavior.on.lost.offsets=gap" in str(stopped.value)
    assert [key for key in here.bucket.listing() if key not in before and "/commits/" not in key] == []


def test_a_sink_that_may_leave_gaps_goes_on_and_records_the_gap(here: Surroundings, shortened: str) -> None:
    config = here.config(shortened, **NOTHING_HELD, **{"behavior.on.lost.offsets": "gap"})
    here.drain(config)
    gaps = [gap for entry in here.bucket.entries(config["name"]) for gap in entry["gaps"]]
    assert gaps == [{"topic": shortened, "partition": 0, "from": 10, "to": 12, "cause": "retention"}]
    names = [key.rsplit("+", 1)[1] for key in here.bucket.data_keys()]
    assert names == ["0000000000.json", "0000000013.json", "0000000023.json", "0000000033.json"]
    rows = sorted(row["n"] for content in here.bucket.contents().values() for row in content)
    assert rows == [*range(10), *range(13, 40)]


def test_a_topic_that_was_deleted_and_created_again_stops_the_sink(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic("recreated")
    config = here.config(name, **{"flush.size": "10"})
    produce(here.servers, name, numbered(range(5)))
    here.drain(config)
    before = here.bucket.data_keys()
    brokers = KafkaBrokers(here.servers)
    brokers.delete_topic(name)
    eventually(lambda: name not in brokers.topic_names())
    brokers.create_topic(name)
    produce(here.servers, name, numbered(range(100, 120)))
    with pytest.raises(TopicRecreated, match=f"topic {name} was deleted and created again"):
        here.drain(config)
    assert here.bucket.data_keys() == before
