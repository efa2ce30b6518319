"""Whether a sink is well, in one line and an exit code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_s3.cli.status import detail, detail_document
from kafka_s3.engine.control.heartbeat import Heartbeat, Phase
from kafka_s3.engine.control.status import GREW_OFTEN, SinkSnapshot, check_line, limits_with
from kafka_s3.engine.log.fold import LogState, Replaced
from kafka_s3.model.files import Totals
from kafka_s3.model.offsets import TopicPartition

NOW = 1_000_000
BEAT = Heartbeat(
    "orders", "run", "host", 7, "0.1.0", started_ms=0, interval_ms=10_000, phase=Phase.RUNNING, beat_ms=NOW, epoch=2,
    lag={TopicPartition("orders", 0): 70, TopicPartition("orders", 1): 30}, looked_ms=NOW,
)  # fmt: skip
KNOWN = SinkSnapshot("orders", LogState(5, 2, totals=Totals(10, 10, 0, 0, 1, 100)), heartbeat=BEAT, seen_ms=NOW)


@pytest.mark.parametrize(
    ("changes", "max_lag", "line", "well"),
    [
        ({}, None, "orders RUNNING: works. Lag: 100 records, 0 s ago.", True),
        ({}, 100, "orders RUNNING: works. Lag: 100 records, 0 s ago.", True),
        ({}, 99, "orders DEGRADED: Its lag is 100, more than 99. Lag: 100 records, 0 s ago.", False),
        ({"lag": {}, "looked_ms": None}, 10**9, "orders DEGRADED: Its lag is unknown. Lag: unknown.", False),
        (
            {"phase": Phase.STOPPED},
            None,
            "orders STOPPED: ended cleanly 0 s ago. Lag when it ended: 100 records.",
            True,
        ),
        (
            {"phase": Phase.STOPPED, "lag": {}},
            0,
            "orders STOPPED: ended cleanly 0 s ago. Lag when it ended: 0 records.",
            True,
        ),
        (
            {"phase": Phase.STOPPED, "lag": {}, "open_problems": ("topic a is not in Kafka",)},
            None,
            "orders DEGRADED: Topic a is not in Kafka. Ended cleanly 0 s ago. Lag: unknown.",
            False,
        ),
        ({"phase": Phase.PAUSED, "lag": {}}, 0, "orders PAUSED: paused. Its lag is unknown. Lag: unknown.", False),
        ({"phase": Phase.PAUSED}, None, "orders PAUSED: paused. Lag: 100 or more records, 0 s ago.", True),
        (
            {"phase": Phase.FAILED, "failure": "KafkaError: away"},
            None,
            "orders FAILED: KafkaError: away. Lag: 100 or more",
            False,
        ),
        ({"looked_ms": NOW - 29_000}, None, "orders RUNNING: works. Lag: 100 records, 29 s ago.", True),
        ({"lag_grew": GREW_OFTEN}, None, "orders DEGRADED: It falls behind", False),
        ({"beat_ms": 0}, None, "orders STALE: last heartbeat 16 min ago", False),
    ],
)
def test_a_sink_is_well_or_not(changes: dict[str, object], max_lag: int | None, line: str, well: bool) -> None:
    known = replace(KNOWN, heartbeat=replace(BEAT, **changes))
    found, judged = check_line(known, limits_with(known, lag=max_lag))
    assert found.startswith(line)
    assert judged is well


def test_what_is_not_known_is_not_well() -> None:
    assert check_line(SinkSnapshot("orders", damage="Entry 7 is damaged.")) == (
        "orders UNKNOWN: Entry 7 is damaged. Lag: unknown.",
        False,
    )


def test_status_says_which_rewrites_have_originals_in_the_bucket_still() -> None:
    partitions = frozenset({TopicPartition("orders", 0)})
    replaced = {4: Replaced("2024-01-15T10:00:00Z", partitions), 5: Replaced("2024-01-15T11:00:00Z", partitions)}
    known = replace(KNOWN, log=LogState(5, 2, totals=Totals(10, 10, 0, 0, 1, 100), replaced=replaced))
    assert detail_document(known, "bucket")["log"]["originals"] == [
        {"entry": 4, "since": "2024-01-15T10:00:00Z"},
        {"entry": 5, "since": "2024-01-15T11:00:00Z"},
    ]
    shown = "".join(str(line) for line in detail(known, "bucket"))
    assert "of 2 compactions or erasures are still in the bucket, the first since 2024-01-15T10:00:00Z" in shown
