"""Are the objects that the page on Block-GZIP shows those that the sink of its example makes?"""

from __future__ import annotations

import json
import re

import pytest

from kafka_s3.connect.config.dialects.spelling import IDLE
from kafka_s3.connect.config.options.table import BLOCK_GZIP_OPTIONS
from kafka_s3.connect.config.read import read_config
from kafka_s3.connect.config.validate import validate
from kafka_s3_testing.sink_run import RunSink
from tests.support.repository import ROOT

PAGE = (ROOT / "docs/block-gzip.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs/configuration-spellings.md").read_text(encoding="utf-8")
CONFIG = {**read_config(ROOT / "examples/block-gzip.properties").texts, "kafka.bootstrap.servers": "broker:9092"}
RECORDS = {"system-test": [f'{{"foo": "bar", "counter":{n}}}'.encode() for n in range(223)]}


def test_the_index_of_the_page_is_that_of_its_records(run_sink: RunSink) -> None:
    (shown,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (index,) = (content for key, content in run_sink(CONFIG, RECORDS).bucket.items() if key.endswith(".index.json"))
    assert json.loads(shown) == json.loads(index)


@pytest.mark.parametrize("key", IDLE)
def test_keys_that_have_no_effect_are_warned_of_and_change_nothing(key: str, run_sink: RunSink) -> None:
    """`s3.compression.type=none` would be what objects are least."""
    value = {"s3.compression.type": "none", "flush.size": "10", "s3.compression.level": "9"}.get(key, "snappy")
    given = {**CONFIG, key: value}
    checked = validate(given)
    assert checked.problems == ()
    assert [(one.key, one.rule) for one in checked.warnings] == [(key, "has no effect in the Block-GZIP spelling.")]
    assert run_sink(given, RECORDS).bucket == run_sink(CONFIG, RECORDS).bucket


def test_the_reference_has_each_key_of_the_spelling_and_names_those_without_effect() -> None:
    about = REFERENCE.partition("## Block-GZIP spelling\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)`", about, re.MULTILINE) == [option.key for option in BLOCK_GZIP_OPTIONS]
    assert all(f"`{key}`" in about.partition("with a warning: ")[2].partition("\n")[0] for key in IDLE)
