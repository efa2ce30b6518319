"""What does a month in a bucket cost? Prices as a provider asks them; the defaults are those of S3 Standard in us-east-1."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """What a provider asks, in one currency: per 1,000 writing requests, per 1,000 reading ones, per GiB and month."""

    per_thousand_writes: float = 0.005
    per_thousand_reads: float = 0.0004
    per_gib_month: float = 0.023
