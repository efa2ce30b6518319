"""How many examples does a property test try? A sixth of what it names, others each time; all of them in the nightly run."""

import os

NIGHTLY = "KAFKA_S3_NIGHTLY"
"""Set it to anything for all examples."""
LEAST = 10


def examples(number: int) -> int:
    """How many of them to try in this run."""
    return number if os.environ.get(NIGHTLY) else max(number // 6, min(number, LEAST))
