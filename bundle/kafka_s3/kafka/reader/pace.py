"""How much may librdkafka fetch ahead? As much as fits into the reader's memory once it is unpacked, by what the topic's records were like.

librdkafka bounds what it keeps by the bytes of values and by the number of messages. Keys, headers and its own 350 bytes a message do
not count, and it unpacks a whole answer before it looks again. So a process learns of each topic, from one small fetch, what a record takes
and how many bytes come out of one byte of the log, and reads on with limits that follow from that. Where more waits than they allow, the
topic has changed, and is learnt anew. A batch is unpacked as a whole, whatever the limits are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

QUEUE_BYTES: Final = 48 << 20
"""As held, over all topic-partitions that are read together: so much waits, and so much does one more fetch bring."""
MOST_FETCHED: Final = 1 << 20
LEAST_FETCHED: Final = 4 << 10
FIRST_FETCHED: Final = 16 << 10
"""Of the log, by one fetch of a topic-partition."""
MOST_RECORDS: Final = 100_000
MOST_FETCHED_TOGETHER: Final = 128 << 10
STEP: Final = 2
"""A limit is the highest one, or that divided by a power of this: each pair of limits needs a consumer of its own."""
SLOWLY: Final = 8
"""By this part of the difference does what is known of records become less."""
TOO_MUCH: Final = 4
"""Where so many shares of `QUEUE_BYTES` wait, or might, the records are not what they were: two are the most that should."""


@dataclass(frozen=True)
class Pace:
    """The limits for one topic-partition: `fetch_bytes` of the log by one request, and no further one while `records` wait."""

    fetch_bytes: int
    records: int


LEARNING: Final = Pace(FIRST_FETCHED, 1)
"""One fetch, and nothing more until it was looked at."""


@dataclass(frozen=True)
class Weight:
    """What a topic's records take: bytes held for each, bytes held for each byte of the log, bytes held of one small fetch."""

    record: float
    log_byte: float
    fetch: float

    @classmethod
    def of_fetch(cls, held: int, records: int, fetched: int) -> Weight:
        """By a first fetch, which brought so many records, for which so many bytes are held, in an answer of so many bytes."""
        log_byte = max(held / max(fetched, 1), 1.0)
        return cls(held / records, log_byte, max(held, log_byte * FIRST_FETCHED))

    def with_later(self, held: int, records: int) -> Weight:
        """After later records for which so many bytes are held: at once where it is more, else bit by bit."""
        more = held / records - self.record
        return replace(self, record=self.record + (more if more > 0 else more / SLOWLY))

    def pace(self, together: int) -> Pace:
        """The limits where so many topic-partitions are read together."""
        share, most = QUEUE_BYTES // together, MOST_FETCHED if together == 1 else MOST_FETCHED_TOGETHER
        records = 1 if self.fetch > share else share / self.record
        return Pace(
            _step(most, share / self.log_byte, least=LEAST_FETCHED), _step(MOST_RECORDS // together, records, least=1)
        )

    @property
    def is_large(self) -> bool:
        """Whether the limits of a topic-partition that is read alone are below the highest."""
        return self.pace(1).fetch_bytes < MOST_FETCHED

    def allows(self, together: int) -> bool:
        """Whether so many topic-partitions may be read together: a fetch of each, or a batch that is larger, has to fit."""
        return self.fetch * together <= 2 * QUEUE_BYTES

    def exceeds(self, limits: Pace, waiting: int, together: int) -> bool:
        """Whether these limits allow far too much, or so many records wait. Of batches that alone are too large this says nothing."""
        share = QUEUE_BYTES // together
        return self.fetch <= share and max(waiting, limits.records) * self.record > TOO_MUCH * share


def _step(most: int, wanted: float, *, least: int) -> int:
    """The largest of `most`, `most / STEP` and so on that is not above `wanted`."""
    while most > wanted and most > least:
        most = max(most // STEP, least)
    return most


_known: Final[dict[tuple[str, str], Weight]] = {}
"""By brokers and topic: what this process learnt, and the one that it was forked from."""


def weight_of(servers: str, topic: str) -> Weight | None:
    """What a record of the topic takes; None: not known."""
    return _known.get((servers, topic))


def note(servers: str, topic: str, weight: Weight) -> None:
    """Remembers what a record of the topic takes."""
    _known[servers, topic] = weight


def forget(servers: str, topic: str) -> None:
    """The next reading of the topic begins with a small fetch."""
    _known.pop((servers, topic), None)
