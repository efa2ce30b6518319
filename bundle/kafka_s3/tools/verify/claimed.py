"""Which keys does a log claim, and does a listing show them as claimed? In 24 bytes a key, so that tens of millions fit.

A key is its 64-bit digest, salted anew in each run: that two keys of ten million share one happens once in 300,000 runs.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np

from kafka_s3.storage.store import ObjectInfo

NOT_LISTED: Final = -1


class ClaimedKeys:
    """The claims on keys. First `add` in the order of the log, then `close`, then all else."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(16)
        self._digests, self._versions = array("Q"), array("q")
        self._sorted = np.array([], np.uint64)
        self._sizes = np.array([], np.int64)
        self._etags = np.array([], np.uint64)
        self.repeated: dict[int, tuple[int, ...]] = {}

    def add(self, key: str, version: int) -> None:
        """Entry `version` claims the key."""
        self._digests.append(self.digest(key))
        self._versions.append(version)

    def close(self) -> None:
        """There are no more claims: finds the keys that are claimed more than once, `repeated` by digest with their entries in order."""
        found = np.array(self._digests, np.uint64)
        found.sort()
        twice = np.unique(found[1:][found[1:] == found[:-1]])
        if len(twice):
            digests, versions = np.frombuffer(self._digests, np.uint64), np.frombuffer(self._versions, np.int64)
            for row in np.flatnonzero(np.isin(digests, twice)).tolist():
                digest = int(digests[row])
                self.repeated[digest] = (*self.repeated.get(digest, ()), int(versions[row]))
            found = np.unique(found)
        self._sorted = found
        self._digests, self._versions = array("Q"), array("q")

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
            self._sizes = np.full(len(self._sorted), NOT_LISTED, np.int64)
            self._etags = np.zeros(len(self._sorted), np.uint64)
        digests = np.array([self.digest(info.key) for info in infos], np.uint64)
        rows = np.minimum(self._sorted.searchsorted(digests), len(self._sorted) - 1)
        claimed = self._sorted[rows] == digests
        self._sizes[rows[claimed]] = np.array([info.size for info in infos], np.int64)[claimed]
        self._etags[rows[claimed]] = np.array([self.digest(info.etag) for info in infos], np.uint64)[claimed]
        return [info for info, known in zip(infos, claimed.tolist(), strict=True) if not known]

    def shown(self, key: str, size: int, *, etag: str | None) -> bool:
        """Whether the listing shows the key with this size and, unless that is None, this ETag."""
        row = self._row(key)
        if row is None or not len(self._sizes) or self._sizes[row] != size:
            return False
        return etag is None or int(self._etags[row]) == self.digest(etag)

    def digest(self, text: str) -> int:
        """What stands for a text."""
        return int.from_bytes(
            blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=self._salt).digest(), "little"
        )

    def _row(self, key: str) -> int | None:
        digest = self.digest(key)
        row = int(self._sorted.searchsorted(np.uint64(digest)))
        return row if row < len(self._sorted) and int(self._sorted[row]) == digest else None
