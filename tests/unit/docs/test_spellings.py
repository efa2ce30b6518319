"""Does the managed cloud spelling differ from the original where the pages say so, and only there?"""

from __future__ import annotations

import re

import pytest

from kafka_s3.connect.config.dialects.managed_cloud import REPLACED
from kafka_s3.connect.config.options.connector import SHORT_ZONES
from kafka_s3.connect.config.validate import validate
from kafka_s3_testing.records import Record
from kafka_s3_testing.sink_run import RunSink
from tests.support.memory_world import BASE
from tests.support.repository import ROOT

REFERENCE = (ROOT / "docs/configuration-spellings.md").read_text(encoding="utf-8")
ABOUT = REFERENCE.partition("## Managed cloud spelling\n")[2].partition("\n| Key")[0]
DIFFERENCES = (ROOT / "docs/differences.md").read_text(encoding="utf-8")
CLOUD = {
    "name": "orders", "connector.class": "S3_SINK", "kafka.api.key": "key", "kafka.api.secret": "secret", "topics": "orders",
    "aws.access.key.id": "x", "aws.secret.access.key": "x", "s3.bucket.name": "bucket", "tasks.max": "1", "input.data.format": "JSON",
    "output.data.format": "JSON", "time.interval": "HOURLY", "kafka.bootstrap.servers": "broker:9092",
}  # fmt: skip


def keys_at_fault(config: dict[str, str]) -> list[str]:
    return [problem.key for problem in validate(config).problems]


def test_the_page_names_each_key_of_the_other_tables_that_is_refused() -> None:
    named = dict(re.findall(r"`([\w.]+)` \(here `([\w.]+)`\)", ABOUT))
    assert named == REPLACED
    assert all(keys_at_fault({**CLOUD, key: "x"}) == [key] for key in named)


def test_the_defaults_are_those_of_the_page() -> None:
    settings = validate(CLOUD).usable()
    assert re.findall(r"`(timezone|locale)` is `(\w+)`", ABOUT) == [("timezone", "UTC"), ("locale", "en")]
    assert (settings.text("timezone"), settings.text("locale")) == ("UTC", "en")
    assert "`partition.duration.ms` cannot be set: it is the length of `time.interval`, an hour or a day" in ABOUT
    for interval, length in (("HOURLY", 3_600_000), ("DAILY", 86_400_000)):
        found = validate({**CLOUD, "time.interval": interval}).usable()
        assert found.number("partition.duration.ms") == length
    assert validate({**BASE, "flush.size": "1"}).usable().text("timezone") == ""


def test_pst_is_the_zone_it_means_or_refused() -> None:
    assert dict(re.findall(r"`([A-Z]+)` \((\w+/\w+)\)", ABOUT)) == SHORT_ZONES
    checked = validate({**CLOUD, "timezone": "PST"})
    assert checked.usable().text("timezone") == "America/Los_Angeles"
    assert [one.key for one in checked.warnings] == ["timezone"]
    (problem,) = validate({**BASE, "flush.size": "1", "timezone": "PST"}).problems
    assert (problem.key, "America/Los_Angeles" in problem.remedy) == ("timezone", True)


def test_a_codec_is_optional_and_must_be_of_the_output() -> None:
    assert validate(CLOUD).usable().text("s3.compression.type") == "none"
    assert validate({**CLOUD, "compression.codec": "JSON - gzip"}).usable().text("s3.compression.type") == "gzip"
    assert keys_at_fault({**CLOUD, "compression.codec": "AVRO - snappy"}) == ["compression.codec"]


@pytest.mark.parametrize("given", ["JSON", "STRING"])
def test_output_as_bytes_takes_input_as_bytes(given: str) -> None:
    assert keys_at_fault({**CLOUD, "input.data.format": given, "output.data.format": "BYTES"}) == ["output.data.format"]
    assert keys_at_fault({**CLOUD, "input.data.format": "BYTES", "output.data.format": "BYTES"}) == []
    stored = {"store.kafka.keys": "true", "output.keys.format": "BYTES", "input.key.format": given}
    (problem,) = validate({**CLOUD, **stored}).problems
    assert (problem.key, "input.key.format=BYTES" in problem.remedy) == ("output.keys.format", True)


def test_keys_that_are_stored_as_bytes_are_the_bytes_of_the_record(run_sink: RunSink) -> None:
    stored = {"store.kafka.keys": "true", "output.keys.format": "BYTES"}
    made = run_sink(
        {**CLOUD, **stored}, {"orders": [Record(b'{"n": 1}', key=b"k\xff1"), Record(b'{"n": 2}', key=b"k2")]}
    )
    assert made.dead_letters == ()
    (keys,) = (content for name, content in made.bucket.items() if ".keys." in name)
    assert keys == b"k\xff1\nk2\n"


def test_a_padding_of_no_digit_is_refused_in_either_spelling() -> None:
    width = {"filename.offset.zero.pad.width": "0"}
    assert keys_at_fault({**CLOUD, **width}) == list(width)
    assert keys_at_fault({**BASE, "flush.size": "1", **width}) == list(width)


def test_schemaless_json_as_parquet_is_refused_before_anything_runs() -> None:
    about = DIFFERENCES.partition("### Schemaless JSON as Parquet\n")[2].partition("\n###")[0]
    assert "both are refusals" in about
    parquet = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat"}
    for strict in ("false", "true"):
        given = {**BASE, **parquet, "flush.size": "1", "compatibility.strict": strict}
        assert keys_at_fault(given) == ["value.converter.schemas.enable"]


def test_the_page_of_differences_leads_to_the_pages_that_have_others() -> None:
    table = DIFFERENCES.partition("## Where other pages tell more\n")[2]
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", table, re.MULTILINE)[1:]
    assert len(rows) > 20
    assert all("](" in page for _, page in rows)
    assert {
        "dataframes",
        "delta",
        "migrate",
        "open-files",
        "own-formats",
        "own-partitioners",
        "own-transforms",
        "partitioners",
        "registries",
        "restore",
        "rewrites",
        "state",
        "tables",
    } <= {page for _, cell in rows for page in re.findall(r"\]\(([\w-]+)\.md", cell)}
