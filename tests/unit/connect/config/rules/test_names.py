"""Templates of names: what is refused, all in one report."""

from __future__ import annotations

import pytest

from kafka_s3.connect.config.validate import validate
from tests.unit.connect.config.test_validate import MINIMAL

NAME, FOLDER = "object.name.template", "directory.template"
PLAIN = "${partition}-${offset}"
REGEX = {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter", "transforms.r.regex": "(.*)",
         "transforms.r.replacement": "all"}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({NAME: PLAIN}, []),
        ({NAME: f"${{topic}}-{PLAIN}-${{time}}", FOLDER: "raw/${directory}", "topics": "a,b"}, []),
        ({FOLDER: "raw/${directory}", "topics": "a,b"}, []),
        ({NAME: PLAIN, FOLDER: "raw", "topics": "a,b"}, [NAME]),
        ({NAME: PLAIN, "topics": "a,b"}, []),
        ({NAME: PLAIN, **REGEX}, [NAME]),
        ({NAME: f"${{topic}}-{PLAIN}-${{time}}", **REGEX}, [NAME]),
        ({NAME: "${offset}", FOLDER: "/x"}, [NAME, FOLDER]),
        ({FOLDER: "a/../b"}, [FOLDER]),
        ({FOLDER: "_kafka_s3/x", "topics.dir": ""}, [FOLDER]),
        ({FOLDER: "raw/${directory}", "file.delim": "/"}, ["file.delim"]),
        ({NAME: PLAIN, FOLDER: "raw", "compatibility.strict": "true"}, [NAME, FOLDER]),
        ({NAME: PLAIN, "delta.enable": "true", "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
          "value.schema.inference": "true"}, [NAME]),
    ],
)  # fmt: skip
def test_problems(config: dict[str, str], keys: list[str]) -> None:
    assert [problem.key for problem in validate({**MINIMAL, **config}).problems] == keys
