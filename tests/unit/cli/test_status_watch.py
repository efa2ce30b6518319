"""Each change of a sink's state is reported once, and what could not be sent is sent again."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_s3.cli.status import NotReported, StateChange, Watcher
from kafka_s3.engine.control.status import SinkHealth, SinkState
from kafka_s3.model.errors import StorageUnavailable

WELL = SinkHealth(SinkState.RUNNING, "works.")
FAILED = SinkHealth(SinkState.FAILED, "RecordError: bad")


class Bucket:
    """What is seen, and what was sent."""

    def __init__(self) -> None:
        self.seen: Mapping[str, SinkHealth] | None = {"orders": WELL}
        self.reported: list[tuple[str, str | None, str]] = []
        self.failed: list[str] = []
        self.deaf = False
        self.watcher = Watcher(self.look, self.report, failed=self.failed.append)

    def look(self) -> Mapping[str, SinkHealth]:
        if self.seen is None:
            raise StorageUnavailable("GetObject timed out.")
        return self.seen

    def report(self, change: StateChange) -> None:
        if self.deaf:
            raise NotReported("The webhook answered 500.")
        self.reported.append((change.sink, change.before, change.health.state))

    def after(self, seen: Mapping[str, SinkHealth] | None) -> list[tuple[str, str | None, str]]:
        self.seen, self.reported = seen, []
        self.watcher.poll(0)
        return self.reported


def test_a_change_is_reported_once_and_so_is_the_recovery() -> None:
    bucket = Bucket()
    assert bucket.after({"orders": WELL}) == []
    assert bucket.after({"orders": FAILED}) == [("orders", "RUNNING", "FAILED")]
    assert bucket.after({"orders": FAILED, "new": WELL}) == []
    assert bucket.after({"orders": WELL}) == [("orders", "FAILED", "RUNNING")]
    assert bucket.after({}) == []


def test_at_the_first_look_those_that_are_not_well_are_reported() -> None:
    assert Bucket().after({"orders": FAILED, "payments": WELL}) == [("orders", None, "FAILED")]


def test_the_same_state_with_something_wrong_is_a_change() -> None:
    bucket = Bucket()
    bucket.after({"orders": WELL})
    assert bucket.after({"orders": SinkHealth(SinkState.RUNNING, "works.", ("topic a is not in Kafka",))})


def test_what_could_not_be_sent_is_sent_again() -> None:
    bucket = Bucket()
    bucket.after({"orders": WELL})
    bucket.deaf = True
    assert bucket.after({"orders": FAILED}) == []
    assert bucket.failed == ["The webhook answered 500."]
    bucket.deaf = False
    assert bucket.after({"orders": FAILED}) == [("orders", "RUNNING", "FAILED")]


def test_a_bucket_that_does_not_answer_is_reported_and_the_sinks_are_not_taken_for_changed() -> None:
    bucket = Bucket()
    bucket.after({"orders": FAILED})
    assert bucket.after(None) == [("", "RUNNING", "UNKNOWN")]
    assert bucket.after(None) == []
    assert bucket.after({"orders": FAILED}) == [("", "UNKNOWN", "RUNNING")]


def test_a_change_reads_as_a_sentence() -> None:
    assert StateChange("orders", None, FAILED, 0).document() == {
        "text": "Sink orders FAILED: RecordError: bad", "sink": "orders", "before": None, "status": "FAILED", "well": False,
        "reason": "RecordError: bad", "at": "1970-01-01T00:00:00Z",
    }  # fmt: skip
