"""What if the store fails just here? A store that fails on demand: before an effect, after it (a lost answer), or for a whole process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from kafka_s3.model.errors import StorageUnavailable
from kafka_s3.model.files import Upload
from kafka_s3.store.store import ObjectStore

T = TypeVar("T")


class Verb(StrEnum):
    """The verbs of `store.ObjectStore`."""

    PUT = "put"
    PUT_NEW = "put_new"
    GET = "get"
    GET_RANGE = "get_range"
    HEAD = "head"
    LIST = "list"
    PENDING = "pending"
    DELETE = "delete"
    CREATE_UPLOAD = "create_upload"
    UPLOAD_PART = "upload_part"
    COMPLETE_UPLOAD = "complete_upload"
    UPLOAD_EXISTS = "upload_exists"
    ABORT_UPLOAD = "abort_upload"
    TAG = "tag"


class Moment(StrEnum):
    """When a fault strikes: before the effect (nothing happened), or after it (it happened, the answer is lost)."""

    BEFORE = "before"
    AFTER = "after"


def any_key(key: str) -> bool:
    """Matches every key."""
    return True


@dataclass(frozen=True, slots=True)
class Fault:
    """Runs `strike` at the calls of `verb` whose key (or prefix) `matches`: at the `nth` of those, from 1, or at each (None).

    `strike` is given the key; it raises, or ends the process, or changes the world behind the caller's back and returns.
    """

    verb: str
    strike: Callable[[str], None]
    moment: Moment = Moment.BEFORE
    nth: int | None = 1
    matches: Callable[[str], bool] = any_key

    def __post_init__(self) -> None:
        Verb(self.verb)  # a misspelt verb would silently never fail; this names the value


def raising(error: Exception) -> Callable[[str], None]:
    """A strike that raises this error."""

    def strike(key: str) -> None:
        raise error

    return strike


def failure(
    verb: str, nth: int | None = 1, *, matches: Callable[[str], bool] = any_key, error: Exception | None = None
) -> Fault:
    """The request fails and has no effect; with StorageUnavailable unless another error is given."""
    strike = raising(error or StorageUnavailable(f"{verb}: set to fail."))
    return Fault(verb, strike, Moment.BEFORE, nth, matches)


def lost_answer(verb: str, nth: int | None = 1, *, matches: Callable[[str], bool] = any_key) -> Fault:
    """The request takes effect, and its answer is lost: StorageUnavailable."""
    return Fault(verb, raising(StorageUnavailable(f"{verb}: set to lose the answer.")), Moment.AFTER, nth, matches)


def _verb(verb: Verb, method: str = "") -> Callable[..., Any]:
    """The other store's method, called by the verb's name unless another is given, where faults of the verb strike."""

    def call(self: FaultyStore, key: str | Upload, *more: Any, **named: Any) -> Any:
        shown = key.key if isinstance(key, Upload) else key
        return self._run(verb, shown, effect=lambda: getattr(self._inner, method or verb.value)(key, *more, **named))

    return call


class FaultyStore:
    """Another store with a plan of faults. Thread-safe.

    A fault strikes at the call, not while a listing is iterated. `calls` lists every (verb, key) asked for, in order.
    """

    def __init__(self, inner: ObjectStore, plan: Sequence[Fault] = ()) -> None:
        self._inner = inner
        self._plan = tuple(plan)
        self._seen = [0] * len(self._plan)
        self._lock = threading.Lock()
        self.calls: list[tuple[str, str]] = []

    put = _verb(Verb.PUT)
    put_new = _verb(Verb.PUT_NEW)
    get = _verb(Verb.GET)
    get_range = _verb(Verb.GET_RANGE)
    head = _verb(Verb.HEAD)
    list = _verb(Verb.LIST)
    names = _verb(Verb.LIST, "names")
    pending = _verb(Verb.PENDING)
    delete = _verb(Verb.DELETE)
    create_upload = _verb(Verb.CREATE_UPLOAD)
    upload_part = _verb(Verb.UPLOAD_PART)
    complete_upload = _verb(Verb.COMPLETE_UPLOAD)
    upload_exists = _verb(Verb.UPLOAD_EXISTS)
    abort_upload = _verb(Verb.ABORT_UPLOAD)
    tag = _verb(Verb.TAG)

    def _run(self, verb: Verb, key: str, *, effect: Callable[[], T]) -> T:
        due = self._due(verb, key)
        self._strike(due, key, moment=Moment.BEFORE)
        answer = effect()
        self._strike(due, key, moment=Moment.AFTER)
        return answer

    def _due(self, verb: Verb, key: str) -> tuple[Fault, ...]:
        with self._lock:
            self.calls.append((verb.value, key))
            due = []
            for index, fault in enumerate(self._plan):
                if fault.verb == verb and fault.matches(key):
                    self._seen[index] += 1
                    if fault.nth in (None, self._seen[index]):
                        due.append(fault)
            return tuple(due)

    @staticmethod
    def _strike(due: Sequence[Fault], key: str, *, moment: Moment) -> None:
        for fault in due:
            if fault.moment is moment:
                fault.strike(key)
