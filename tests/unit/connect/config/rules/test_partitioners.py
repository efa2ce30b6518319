"""What the keys of the partitioners that the original does not have must hold."""

from __future__ import annotations

import pytest

from kafka_s3.connect.config.validate import validate
from tests.support.configurations import TIME
from tests.unit.connect.config.test_validate import MINIMAL

BOTH = {**TIME, "partitioner.class": "field_and_time", "partition.field.name": "d"}


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({"partitioner.class": "header"}, ["partition.header.name"]),
        ({"partitioner.class": "header", "partition.header.name": "a"}, []),
        ({"partitioner.class": "key"}, []),
        ({"partitioner.class": "key", "partition.key.field": "a..b"}, ["partition.key.field"]),
        ({"partitioner.class": "key", "compatibility.strict": "true"}, ["partitioner.class"]),
        ({**BOTH, "compatibility.strict": "true"}, []),
        ({**BOTH, "partition.field.name": "", "path.format": "qq", "partition.duration.ms": "0"}, [
            "path.format", "partition.duration.ms", "partition.field.name",
        ]),
        ({**BOTH, "timezone": "", "locale": ""}, ["timezone", "locale"]),
    ],
)  # fmt: skip
def test_problems(config: dict[str, str], keys: list[str]) -> None:
    assert [problem.key for problem in validate({**MINIMAL, **config}).problems] == keys


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({"partition.key.field": "a", "partition.field.format.path": "false"}, ["partition.key.field", "partition.field.format.path"]),
        ({**BOTH, "rotate.interval.ms": "1000"}, ["rotate.file.on.partition.change"]),
        ({**BOTH, "rotate.interval.ms": "1000", "rotate.file.on.partition.change": "false"}, []),
        ({"partitioner.class": "key", "rotate.interval.ms": "1000"}, ["rotate.interval.ms"]),
        ({"partitioner.class": "key", "rotate.interval.ms": "1000", "timestamp.extractor": "Record"}, []),
        ({"rotate.interval.ms": "1000", "timestamp.extractor": "Record"}, ["rotate.interval.ms"]),
    ],
)  # fmt: skip
def test_warnings(config: dict[str, str], keys: list[str]) -> None:
    assert [warning.key for warning in validate({**MINIMAL, **config}).warnings] == keys
