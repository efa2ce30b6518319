"""What do the options of `kafka-s3 compact` make of a sink's keys, and what goes not together?"""

from __future__ import annotations

import pytest

from kafka_s3.cli.compact import takes_all_partitions
from kafka_s3.model.errors import ConfigError
from tests.support.configurations import TIME
from tests.support.memory_world import settings_of

SMALL = {"flush.size": "3"}
PARQUET = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema.inference": "true"}


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("option", [None, True, False])
def test_an_option_takes_the_place_of_the_key(key: bool, option: bool | None) -> None:
    settings = settings_of({**SMALL, **TIME, "compact.across.partitions": str(key).lower()})
    assert takes_all_partitions(settings, option, None) is (key if option is None else option)


@pytest.mark.parametrize(
    ("config", "option", "sort_by", "text"),
    [
        ({}, True, None, r"--across-partitions \('true'\): .*DefaultPartitioner gives each Kafka partition its own"),
        ({**TIME, **PARQUET, "compact.sort.by": "n"}, True, None, r"--across-partitions \('true'\): .*compact.sort.by mixes them"),
        ({**TIME, **PARQUET, "compact.across.partitions": "true"}, None, ["n"], r"--sort-by \('n'\): .*--no-across-partitions"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_option_value_and_way_out(
    config: dict[str, str], option: bool | None, sort_by: list[str] | None, text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        takes_all_partitions(settings_of({**SMALL, **config}), option, sort_by)
