"""What tests of Iceberg tables on a server share: an S3 server whose addresses Java knows, too."""

from __future__ import annotations

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
    from kafka_s3_testing.services.s3 import EmbeddedS3

    with EmbeddedS3(engine=quick_engine()) as server:
        yield server


@pytest.fixture
def own_bucket(objects: EmbeddedS3) -> str:
    """The name of a new, empty bucket."""
    name = f"iceberg-{next(numbers)}"
    objects.create_bucket(name)
    return name
