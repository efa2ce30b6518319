"""What if the store fails just here? A store that fails on demand: before an effect, after it (a lost answer), or for a whole process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from kafka_s3.model.errors import StorageUnavailable
from kafka_s3.model.files import Upload
from kafka_s3.store.store import Body, ListedUpload, ObjectInfo, ObjectStore

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
    """The request fails and has no effect; with StorageUnavailable unless told otherwise."""
    strike = raising(error or StorageUnavailable(f"{verb}: told to fail."))
    return Fault(verb, strike, Moment.BEFORE, nth, matches)


def lost_answer(verb: str, nth: int | None = 1, *, matches: Callable[[str], bool] = any_key) -> Fault:
    """The request takes effect, and its answer is lost: StorageUnavailable."""
    return Fault(verb, raising(StorageUnavailable(f"{verb}: told to lose the answer.")), Moment.AFTER, nth, matches)


class FaultyStore:
    """Another store with a plan of faults; `calls` lists every (verb, key) asked for, in order. Thread-safe."""

    def __init__(self, inner: ObjectStore, plan: Sequence[Fault] = ()) -> None:
        self._inner = inner
        self._plan = tuple(plan)
        self._seen = [0] * len(self._plan)
        self._lock = threading.Lock()
        self.calls: list[tuple[str, str]] = []

    def put(self, key: str, data: Body) -> str:
        """As `store.ObjectStore`."""
        return self._run(Verb.PUT, key, effect=lambda: self._inner.put(key, data))

    def put_new(self, key: str, data: bytes) -> str:
        """As `store.ObjectStore`."""
        return self._run(Verb.PUT_NEW, key, effect=lambda: self._inner.put_new(key, data))

    def get(self, key: str) -> bytes:
        """As `store.ObjectStore`."""
        return self._run(Verb.GET, key, effect=lambda: self._inner.get(key))

    def get_range(self, key: str, first: int, last: int) -> bytes:
        """As `store.ObjectStore`."""
        return self._run(Verb.GET_RANGE, key, effect=lambda: self._inner.get_range(key, first, last))

    def head(self, key: str) -> ObjectInfo | None:
        """As `store.ObjectStore`."""
        return self._run(Verb.HEAD, key, effect=lambda: self._inner.head(key))

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """As `store.ObjectStore`; a fault strikes at the call, not while iterating."""
        return self._run(Verb.LIST, prefix, effect=lambda: self._inner.list(prefix, start_after=start_after))

    def names(self, prefix: str) -> Iterator[str]:
        """As `store.ObjectStore`; a fault strikes at the call, not while iterating."""
        return self._run(Verb.LIST, prefix, effect=lambda: self._inner.names(prefix))

    def pending(self, prefix: str) -> Iterator[ListedUpload]:
        """As `store.ObjectStore`; a fault strikes at the call, not while iterating."""
        return self._run(Verb.PENDING, prefix, effect=lambda: self._inner.pending(prefix))

    def delete(self, key: str) -> None:
        """As `store.ObjectStore`."""
        self._run(Verb.DELETE, key, effect=lambda: self._inner.delete(key))

    def create_upload(self, key: str) -> str:
        """As `store.ObjectStore`."""
        return self._run(Verb.CREATE_UPLOAD, key, effect=lambda: self._inner.create_upload(key))

    def upload_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """As `store.ObjectStore`."""
        return self._run(Verb.UPLOAD_PART, key, effect=lambda: self._inner.upload_part(key, upload_id, number, data))

    def complete_upload(self, upload: Upload) -> None:
        """As `store.ObjectStore`."""
        self._run(Verb.COMPLETE_UPLOAD, upload.key, effect=lambda: self._inner.complete_upload(upload))

    def upload_exists(self, key: str, upload_id: str) -> bool:
        """As `store.ObjectStore`."""
        return self._run(Verb.UPLOAD_EXISTS, key, effect=lambda: self._inner.upload_exists(key, upload_id))

    def abort_upload(self, key: str, upload_id: str) -> None:
        """As `store.ObjectStore`."""
        self._run(Verb.ABORT_UPLOAD, key, effect=lambda: self._inner.abort_upload(key, upload_id))

    def tag(self, key: str, tags: Mapping[str, str]) -> None:
        """As `store.ObjectStore`."""
        self._run(Verb.TAG, key, effect=lambda: self._inner.tag(key, tags))

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
