"""What tests of Delta tables share: an S3 server that costs little. delta-rs needs one; moto takes more time than all else."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.numbers import numbers
from tests.support.s3_servers import quick_engine

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3


@pytest.fixture(scope="session")
def objects() -> Iterator[EmbeddedS3]:
    """An S3 server, started by the first test that asks: use the bucket of `own_bucket`."""
    from botocore.loaders import JSONFileLoader

    from kafka_s3_testing.services.s3 import EmbeddedS3

    read = functools.cache(
        JSONFileLoader().load_file
    )  # each client reads the whole description of S3 anew, a quarter of a second
    with pytest.MonkeyPatch.context() as patch, EmbeddedS3(engine=quick_engine()) as server:
        patch.setattr(JSONFileLoader, "load_file", lambda _, path: read(path))
        yield server


@pytest.fixture
def own_bucket(objects: EmbeddedS3) -> str:
    """The name of a new, empty bucket."""
    name = f"tables-{next(numbers)}"
    objects.create_bucket(name)
    return name
