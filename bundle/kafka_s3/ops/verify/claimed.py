"""Which keys does a log claim, and does a listing show them as claimed? In 16 bytes a key, so that tens of millions fit.

A key is its 64-bit digest, salted anew in each run: that two keys of ten million share one happens once in 300,000 runs. An ETag is 32
bits: one of four billion objects that were overwritten with as many bytes passes for the one that is claimed. So are sizes: an object of
4 GiB more or less would be told by its ETag alone.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np

from kafka_s3.store.store import ObjectInfo

NOT_LISTED: Final = 0
"""In place of an ETag."""
LOW: Final = 2**32 - 1
MOST: Final = 2**31 - 1
"""A log has no entry beyond it, but by the name of a stray object."""
PARTS: Final = 16
"""Keys are looked through for repeated ones a part at a time, so that little is copied."""


class ClaimedKeys:
    """The claims on keys. First `add` in the order of the log, then `close`, then all else."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(16)
        self._digests, self._versions = array("Q"), array("i")
        self._sorted = np.array([], np.uint64)
        self._sizes, self._etags = np.array([], np.uint32), np.array([], np.uint32)
        self.repeated: dict[int, tuple[int, ...]] = {}

    def add(self, key: str, version: int) -> None:
        """Entry `version` claims the key."""
        self._digests.append(self.digest(key))
        self._versions.append(min(version, MOST))

    def close(self) -> None:
        """There are no more claims: finds the keys that are claimed more than once, `repeated` by digest with their entries in order."""
        digests = np.frombuffer(self._digests, np.uint64)
        self.repeated = _repeated(digests, np.frombuffer(self._versions, np.int32))
        self._digests, self._versions = array("Q"), array("i")
        digests.sort()  # where they lie: a sorted copy would be as large again
        self._sorted = np.unique(digests) if self.repeated else digests

    def __contains__(self, key: str) -> bool:
        """Whether any entry claims the key."""
        return self._row(key) is not None

    def standing(self, key: str, version: int) -> bool:
        """Whether this entry's claim on the key is the last one."""
        return not self.repeated or self.repeated.get(self.digest(key), (version,))[-1] == version

    def listed(self, infos: Sequence[ObjectInfo]) -> list[ObjectInfo]:
        """Notes what a listing shows; gives the objects that no entry claims."""
        if not len(self._sorted):
            return list(infos)
        if not len(self._sizes):
            self._sizes = np.zeros(len(self._sorted), np.uint32)
            self._etags = np.full(len(self._sorted), NOT_LISTED, np.uint32)
        digests = np.array([self.digest(info.key) for info in infos], np.uint64)
        rows = np.minimum(self._sorted.searchsorted(digests), len(self._sorted) - 1)
        claimed = self._sorted[rows] == digests
        self._sizes[rows[claimed]] = np.array([info.size & LOW for info in infos], np.uint32)[claimed]
        self._etags[rows[claimed]] = np.array([self._short(info.etag) for info in infos], np.uint32)[claimed]
        return [info for info, known in zip(infos, claimed.tolist(), strict=True) if not known]

    def shown(self, key: str, size: int, *, etag: str | None) -> bool:
        """Whether the listing shows the key with this size and, unless that is None, this ETag."""
        row = self._row(key)
        if row is None or not len(self._etags) or self._etags[row] == NOT_LISTED or self._sizes[row] != size & LOW:
            return False
        return etag is None or int(self._etags[row]) == self._short(etag)

    def digest(self, text: str) -> int:
        """What stands for a text."""
        return int.from_bytes(
            blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=self._salt).digest(), "little"
        )

    def _short(self, etag: str) -> int:
        """What stands for an ETag; never NOT_LISTED."""
        return 1 + self.digest(etag) % LOW

    def _row(self, key: str) -> int | None:
        digest = self.digest(key)
        row = int(self._sorted.searchsorted(np.uint64(digest)))
        return row if row < len(self._sorted) and int(self._sorted[row]) == digest else None


def _repeated(digests: np.ndarray, versions: np.ndarray) -> dict[int, tuple[int, ...]]:
    """The digests that are there more than once, with their versions in order."""
    part_of = np.empty(len(digests), np.uint8)
    np.remainder(digests, np.uint64(PARTS), out=part_of, casting="unsafe")
    found: dict[int, tuple[int, ...]] = {}
    for part in range(PARTS):
        rows = np.flatnonzero(part_of == part)
        rows = rows[digests[rows].argsort(kind="stable")]
        some = digests[rows]
        same = some[1:] == some[:-1]
        twice = rows[np.append(same, False) | np.append(False, same)] if len(rows) else rows
        for digest, version in zip(digests[twice].tolist(), versions[twice].tolist(), strict=True):
            found[digest] = (*found.get(digest, ()), version)
    return found
