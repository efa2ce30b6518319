"""Does a broker answer that was started a moment ago?"""

from __future__ import annotations

import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafka_s3.kafka.clients import silent
from kafka_s3.model.errors import KafkaUnavailable


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
        time.sleep(0.2)
