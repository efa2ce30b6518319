"""The Block-GZIP spelling."""

from __future__ import annotations

import pytest

from kafka_s3.connect.config.dialects.spelling import SHARED, SUCCESSORS, block_gzip_translation
from kafka_s3.connect.config.option import Option, OptionStatus, default_of, parse
from kafka_s3.connect.config.options.spellings import BLOCK_GZIP_OURS, BLOCK_GZIP_ROWS
from kafka_s3.connect.config.options.table import OPTIONS

ORIGINAL = {
    "name": "s3-sink",
    "connector.class": "com.deviantart.kafka_connect_s3.S3SinkConnector",
    "tasks.max": "1",
    "topics": "system-test",
    "s3.bucket": "connect-system-test",
    "s3.prefix": "systest",
    "local.buffer.dir": "buffer",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
SUCCESSOR = {
    **{key: text for key, text in ORIGINAL.items() if key != "value.converter"},
    "connector.class": "com.spredfast.kafka.connect.s3.sink.S3SinkConnector",
}
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def with_keys(texts: dict[str, str], **given: str | None) -> dict[str, str]:
    merged = {**texts, **{key.replace("__", "."): text for key, text in given.items()}}
    return {key: text for key, text in merged.items() if text is not None}


def test_the_originals_example_becomes_our_keys() -> None:
    found = block_gzip_translation(with_keys(ORIGINAL, compressed_block_size="100", offset__flush__interval__ms="5000"))
    assert found.problems == ()
    assert found.texts == {
        "name": "s3-sink",
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "tasks.max": "1",
        "topics": "system-test",
        "s3.bucket.name": "connect-system-test",
        "s3.path.style.access.enabled": "false",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "block_gzip",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.flush.interval.ms": "5000",
        "block.gzip.dialect": "original",
        "block.gzip.zone": "local",
        "block.gzip.prefix": "systest",
        "block.gzip.block.size": "100",
    }


def test_the_successors_keys_become_ours() -> None:
    found = block_gzip_translation(
        with_keys(
            SUCCESSOR,
            format="com.spredfast.kafka.connect.s3.TrailingDelimiterFormat",
            format__value__delimiter="\r\n",
            format__value__encoding="UTF-16BE",
            format__key__delimiter="\t",
            format__key__encoding="UTF-16BE",
            layout="grouped_by_topic",
            compressed_file_size="1000000",
            flush__interval__ms="60000",
            flush__grace__period__ms="1000",
            s3__endpoint="http://minio:9000",
            s3__path_style="true",
            s3__region="eu-west-1",
        )
    )
    assert found.problems == ()
    texts = {key: text for key, text in found.texts.items() if key not in SUCCESSOR}
    assert texts == {
        "s3.bucket.name": "connect-system-test",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "block_gzip",
        "value.converter": BYTES,
        "store.url": "http://minio:9000",
        "s3.path.style.access.enabled": "true",
        "s3.region": "eu-west-1",
        "flush.bytes": "1000000",
        "block.gzip.dialect": "successor",
        "block.gzip.zone": "UTC",
        "block.gzip.prefix": "systest",
        "block.gzip.format": "com.spredfast.kafka.connect.s3.TrailingDelimiterFormat",
        "block.gzip.value.delimiter": "\r\n",
        "block.gzip.value.encoding": "UTF-16BE",
        "block.gzip.key.delimiter": "\t",
        "block.gzip.key.encoding": "UTF-16BE",
        "block.gzip.layout": "by_topic",
        "block.gzip.file.interval.ms": "60000",
        "block.gzip.file.grace.ms": "1000",
    }


def test_already_bytes_are_connects_own_bytes_converter() -> None:
    already = "com.spredfast.kafka.connect.s3.AlreadyBytesConverter"
    texts = block_gzip_translation(with_keys(SUCCESSOR, key__converter=already, value__converter=already)).texts
    assert (texts["key.converter"], texts["value.converter"]) == (BYTES, BYTES)
    assert "key.converter" not in block_gzip_translation(SUCCESSOR).texts


def test_the_original_takes_no_notice_of_the_successors_keys() -> None:
    found = block_gzip_translation(with_keys(ORIGINAL, format="binary", flush__interval__ms="nonsense"))
    assert found.problems == ()
    assert (found.texts["format"], found.texts["flush.interval.ms"]) == ("binary", "nonsense")  # warned of as unknown
    assert "block.gzip.format" not in found.texts


REFUSED: list[tuple[dict[str, str | None], list[str]]] = [
    ({"s3__bucket": None, "local__buffer__dir": None}, ["s3.bucket", "local.buffer.dir"]),
    ({"s3__bucket": " "}, ["s3.bucket"]),
    ({"connector__class": None}, ["connector.class"]),
    ({"connector__class": "S3SinkConnector"}, ["connector.class"]),
    ({"connector__class": "com.spredfast.kafka.connect.s3.source.S3SourceConnector"}, ["connector.class"]),
    ({"compressed_block_size": "0", "s3__path_style": "yes"}, ["s3.path_style", "compressed_block_size"]),
    ({"format": "com.example.Mine"}, ["format"]),
    ({"format": "binary", "format__value__delimiter": ","}, ["format.value.delimiter"]),
    ({"format": "binary", "format__key__encoding": "UTF-8"}, ["format.key.encoding"]),
    ({"format__include__keys": "true"}, ["format.include.keys"]),
    ({"format__key__encoding": "UTF-8"}, ["format.key.encoding"]),
    ({"format__value__encoding": "UTF-7.5"}, ["format.value.encoding"]),
    ({"format__value__encoding": "base64"}, ["format.value.encoding"]),
    ({"layout": "by_hand"}, ["layout"]),
    ({"compressed_file_size": "-2", "flush__interval__ms": "soon"}, ["compressed_file_size", "flush.interval.ms"]),
    ({"s3__bucket__name": "x", "format__class": "y"}, ["s3.bucket.name", "format.class"]),
]


@pytest.mark.parametrize(("given", "keys"), REFUSED, ids=lambda part: ",".join(part) if isinstance(part, dict) else "")
def test_every_problem_names_the_users_key(given: dict[str, str | None], keys: list[str]) -> None:
    found = block_gzip_translation(with_keys(SUCCESSOR, **given))
    assert [problem.key for problem in found.problems] == keys
    assert all(problem.rule.endswith(".") for problem in found.problems)


def test_keys_at_fault_are_left_out_and_named_as_failed() -> None:
    found = block_gzip_translation(with_keys(SUCCESSOR, compressed_block_size="none", s3__bucket=None))
    assert found.failed == {"block.gzip.block.size", "s3.bucket.name"}
    assert not found.failed & found.texts.keys()


def test_our_keys_can_be_shown_by_the_users_names() -> None:
    assert block_gzip_translation(SUCCESSOR).spelled["block.gzip.block.size"] == "compressed_block_size"
    assert block_gzip_translation(ORIGINAL).spelled["s3.bucket.name"] == "s3.bucket"


def test_references_are_judged_once_they_are_resolved() -> None:
    given = with_keys(
        SUCCESSOR, format="${env:FORMAT}", compressed_block_size="${env:SIZE}", format__include__keys="true"
    )
    found = block_gzip_translation(given)
    assert found.problems == ()
    assert found.texts["block.gzip.block.size"] == "${env:SIZE}"


@pytest.mark.parametrize("option", [*BLOCK_GZIP_ROWS, *BLOCK_GZIP_OURS], ids=lambda option: option.key)
def test_every_row_has_a_doc_text_and_a_default_of_its_own_kind(option: Option) -> None:
    assert option.doc.endswith(".")
    assert option.note or option.status is OptionStatus.ACTED_ON
    if option.default is not None:
        assert parse(option, option.default) == default_of(option)


def test_what_keys_become_is_in_the_tables() -> None:
    known = {row.key for row in (*OPTIONS, *BLOCK_GZIP_OURS)}
    spelled = {row.key for row in BLOCK_GZIP_ROWS}
    for theirs, ours in {**SHARED, **SUCCESSORS}.items():
        assert theirs in spelled
        assert ours in known
