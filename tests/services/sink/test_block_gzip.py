"""Does a Block-GZIP sink's own configuration run, and can one record be read from its bucket? The system test of the old sink."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

from kafka_s3.connect.config.read import read_config
from tests.support.configurations import STATE
from tests.support.kafka import Given, produce
from tests.support.repository import ROOT
from tests.support.sink_process import SinkProcess
from tests.support.surroundings import Surroundings

PAGE = (ROOT / "docs" / "block-gzip.md").read_text(encoding="utf-8")
LISTING = [line for line in PAGE.split("The bucket then holds:")[1].split("```")[1].splitlines() if line]
INDEX = json.loads(PAGE.split("```json")[1].split("```")[0])


def records(start: int, stop: int) -> list[Given]:
    return [Given(f'{{"foo": "bar", "counter":{n}}}'.encode()) for n in range(start, stop)]


def config_of(here: Surroundings, topic: str, **more: str) -> dict[str, str]:
    given = read_config(ROOT / "examples" / "block-gzip.properties").texts
    places = {
        "kafka.bootstrap.servers": here.servers,
        "s3.bucket": here.bucket.name,
        "s3.endpoint": here.s3.endpoint_url,
    }
    return {**given, **places, "topics": topic, **more}


def undated(key: str, topic: str) -> str:
    return re.sub(r"\d{4}-\d{2}-\d{2}", "2016-02-24", key).replace(topic, "system-test")


def block_sizes(data: bytes) -> list[int]:
    """The lengths of a file's gzip members, in bytes."""
    sizes = []
    while data:
        member = zlib.decompressobj(wbits=31)
        member.decompress(data)
        sizes.append(len(data) - len(member.unused_data))
        data = member.unused_data
    return sizes


def counts(chunk: dict[str, int]) -> tuple[int, ...]:
    return tuple(chunk[name] for name in ("byte_length_uncompressed", "num_records", "first_record_offset"))


def test_the_systems_test_of_the_old_sink_gives_the_objects_of_its_documentation(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("system-test")
    produce(here.servers, name, records(0, 223))
    here.drain(config_of(here, name))

    keys = here.bucket.data_keys()
    assert [undated(key, name) for key in keys] == LISTING
    data, index, pointer = keys
    chunks, sizes = json.loads(here.bucket.get(index))["chunks"], block_sizes(here.bucket.get(data))
    assert [chunk["byte_length"] for chunk in chunks] == sizes  # each deflate engine has its own
    assert [chunk["byte_offset"] for chunk in chunks] == [0, *accumulate(sizes)][:-1]
    assert [counts(chunk) for chunk in chunks] == [counts(chunk) for chunk in INDEX["chunks"]]
    assert here.bucket.get(pointer).decode() == index
    assert gzip.decompress(here.bucket.get(data)).splitlines() == [record.value for record in records(0, 223)]
    copy = tmp_path / "copy.gz"
    copy.write_bytes(here.bucket.get(data))
    tool = subprocess.run(["gzip", "-dc", str(copy)], capture_output=True, check=True)
    assert tool.stdout.count(b"\n") == 223

    words = ["-m", "kafka_s3", "seek", f"s3://{here.bucket.name}/systest", name, "0", "150"]
    words += ["--store-url", here.s3.endpoint_url, "--path-style", "--count", "60"]
    environment = {"PYTHONPATH": str(ROOT / "bundle"), **here.s3.environment, "PATH": "/usr/bin:/bin"}
    found = subprocess.run([sys.executable, *words], capture_output=True, check=True, env=environment, text=True)
    assert [json.loads(line)["counter"] for line in found.stdout.splitlines()] == list(range(150, 210))
    for size in sizes[1:]:
        assert f"{size} of {sum(sizes)} bytes fetched" in found.stderr


def test_a_bucket_of_the_old_sink_is_continued_behind_its_last_record(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic("taken-over")
    produce(here.servers, name, records(0, 100))
    here.drain(config_of(here, name))
    for key in here.bucket.listing():
        if key.startswith(STATE):  # what is left is what the old sink leaves
            here.bucket.client.delete_object(Bucket=here.bucket.name, Key=key)

    produce(here.servers, name, records(100, 130))
    here.drain(config_of(here, name))
    texts = [gzip.decompress(here.bucket.get(key)) for key in here.bucket.data_keys() if key.endswith(".gz")]
    assert b"".join(texts).splitlines() == [record.value for record in records(0, 130)]
    assert [undated(key, name) for key in here.bucket.data_keys() if key.endswith(".gz")] == [
        "systest/2016-02-24/system-test-00000-000000000000.gz",
        "systest/2016-02-24/system-test-00000-000000000100.gz",
    ]


def test_seeking_what_is_not_there_is_a_clear_answer(here: Surroundings, tmp_path: Path) -> None:
    words = ["-m", "kafka_s3", "seek", f"s3://{here.bucket.name}/none", "any", "0", "5"]
    words += ["--store-url", here.s3.endpoint_url, "--path-style"]
    with SinkProcess(words, tmp_path / "seek.log", here.s3.environment) as process:
        assert process.wait() == 1
    assert "There are no Block-GZIP files of topic any, partition 0" in process.output()
    assert "Traceback" not in process.output()
