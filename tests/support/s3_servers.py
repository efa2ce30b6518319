"""Which S3 server do tests get? versitygw, the quicker one, where it is or can be built; moto on a machine without Go.

python -m tests.support.s3_servers     (`make test` builds versitygw by it, or tells that moto takes its place)
"""

from __future__ import annotations

from functools import cache

import pytest

from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3_testing.services.s3 import ServerProgram, versitygw


@cache
def why_no_versitygw() -> str:
    """Empty where there is one, if need be built now."""
    try:
        versitygw()
    except LocalServiceError as error:
        return str(error)
    return ""


def quick_engine() -> ServerProgram:
    """For tests that every S3 server will do for."""
    return ServerProgram.MOTO if why_no_versitygw() else ServerProgram.VERSITYGW


def strict_engine() -> ServerProgram:
    """For tests that need buckets that are folders, signatures that are checked, or an answer of S3 that moto does not give."""
    if reason := why_no_versitygw():
        pytest.skip(f"needs versitygw: {reason}")
    return ServerProgram.VERSITYGW


if __name__ == "__main__":
    if reason := why_no_versitygw():
        print(f"Tests run on moto alone, and those that need versitygw are skipped: {reason}")
