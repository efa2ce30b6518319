"""A process dies in the middle of what it does: where a store is called, and as nothing of ours can handle."""

from __future__ import annotations

from kafka_s3_testing.faults import Fault, Moment, raising


class Died(BaseException):
    """The process is gone: nothing of ours handles this, and the dead make no more requests."""


def strikes(verb: str, key: str, moment: Moment, nth: int = 1) -> Fault:
    """Death at a call of a verb with such a key, the first unless `nth` says another."""
    return Fault(verb, raising(Died()), moment, nth, lambda at: key in at)  # type: ignore[arg-type]  # dies, does not fail
