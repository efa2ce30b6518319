"""Does a cluster answer at all? Asked of a broker that was started a moment ago, and where a first request takes long."""

from __future__ import annotations

import json
import time
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafka_s3.kafka.clients import Clients, silent
from kafka_s3.model.errors import KafkaUnavailable

LOOK_S: Final = 0.2


def wait_until_ready(bootstrap_servers: str, timeout_s: float) -> None:
    """Returns once a broker answers; raises KafkaUnavailable after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0}, logger=silent())
    while True:
        try:
            if admin.list_topics(timeout=2).brokers:
                return
        except KafkaException:
            pass
        if time.monotonic() > deadline:
            raise KafkaUnavailable(f"No Kafka broker answered at {bootstrap_servers} within {timeout_s:.0f} s.")
        time.sleep(LOOK_S)


def is_heard_of(clients: Clients, *, within_s: float) -> bool:
    """Whether any broker sends a response within so many seconds, however long it takes for the next ones.

    Only librdkafka's statistics say so: no request is complete before a broker has answered several.
    """
    received = 0

    def count(statistics: str) -> None:
        nonlocal received
        received = sum(broker["rx"] for broker in json.loads(statistics)["brokers"].values())

    admin, deadline = clients.counting_admin(count), time.monotonic() + within_s
    asked = admin.describe_cluster(request_timeout=within_s)
    while not received and not asked.done() and time.monotonic() < deadline:
        admin.poll(LOOK_S)
    return bool(received) or (asked.done() and asked.exception() is None)
