"""Can a record, or a configuration, choose a key outside of the sink's prefix, in a Delta log, or in the state?"""

from __future__ import annotations

import json
import posixpath
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.config.validate import validate
from kafka_s3.connect.naming.keys import LONGEST_KEY, refusal, refusals
from kafka_s3.model.offsets import TopicPartition
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, STATE, TOLERANT
from tests.support.examples import examples
from tests.support.memory_world import BASE, ORDERS, START_MS, World

STAGE = "TASK_PUT"
PERCENT = {"partition.value.encoding": "percent"}
EVIL = [
    "..", "a/../../../other/x", "../../../_kafka_s3/orders/commits/00000000000000000000.json", "a/./b", "/../x",
    "a/_delta_log/00000000000000000000.json", "a\nb", "a\x00b", "a\x7fb", "a\u0085b", "a\u2028b", "x" * 1100,
]  # fmt: skip
HARMLESS = ["", "a", "a/b", "a b", "a=b", "50%", "..a", "a..", "...", "_delta_logs", "a//b", "é", "_kafka_s3"]


def run(config: dict[str, str], values: list[Any], *, tp: TopicPartition = ORDERS) -> World:
    """A sink that has worked off one record for each value of the field `d`; everything bad is a dead letter."""
    world = World({"flush.size": "1", **TOLERANT, **config}, topics=(tp,))
    for offset, value in enumerate(values):
        world.kafka.add(tp, MemoryRecord(offset, START_MS, None, json.dumps({"d": value, "n": offset}).encode()))
    world.start()
    assert world.sink.poll_and_commit()
    return world


def letters(world: World) -> list[tuple[int, str, str]]:
    """Offset, stage and reason of each dead letter."""
    import gzip

    found = []
    for key, data in world.store.objects.items():
        if "/dead-letters/" in key:
            found += [json.loads(line) for line in gzip.decompress(data).splitlines()]
    return sorted((letter["offset"], letter["stage"], letter["message"]) for letter in found)


def is_safe(key: str) -> bool:
    """As a file system would see it: below the topic's folder, and in no log."""
    seen = posixpath.normpath(key)
    return seen.startswith("topics/orders/") and "_delta_log" not in seen.split("/") and key.isprintable()


@given(st.lists(st.sampled_from([*EVIL, *HARMLESS, "_kafka_s3/x", "/_kafka_s3"]), max_size=6))
def test_many_keys_are_judged_as_each_of_them_is(keys: list[str]) -> None:
    alone = {place: refusal(key, state_prefix="_kafka_s3") for place, key in enumerate(keys)}
    assert refusals(keys, state_prefix="_kafka_s3") == {place: why for place, why in alone.items() if why}


def test_values_that_would_lead_a_key_astray_are_dead_letters_and_all_others_are_written() -> None:
    world = run(FIELD, [*EVIL, *HARMLESS])
    assert [(offset, stage) for offset, stage, _ in letters(world)] == [(n, STAGE) for n in range(len(EVIL)) if n != 0]
    # `..` alone is `d=..`, a folder like any other
    written = {n for numbers in world.numbers().values() for n in numbers}
    assert written == {0, *range(len(EVIL), len(EVIL) + len(HARMLESS))}
    assert [key for key in world.objects() if not is_safe(key)] == []
    assert world.frontier() == len(EVIL) + len(HARMLESS)


def test_the_reason_names_the_key_and_the_way_out() -> None:
    ((_, _, reason),) = letters(run(FIELD, ["a/../b\x1b[31m"]))
    assert "U+001B" in reason
    assert "\x1b" not in reason
    assert "partition.value.encoding=percent" in reason
    ((_, _, reason),) = letters(run(FIELD, ["a/../../b"]))
    assert "'topics/orders/d=a/../../b/orders+0+" in reason
    assert "the part '..'" in reason


def test_the_reason_shows_the_key_that_an_object_beginning_with_the_record_would_have() -> None:
    reasons = [reason for _, _, reason in letters(run(FIELD, ["good", "a\nbé", "a/../b"]))]
    assert r"'topics/orders/d=a\nbé/orders+0+0000000001.json' holds the control character U+000A" in reasons[0]
    assert "'topics/orders/d=a/../b/orders+0+0000000002.json' has the part '..'" in reasons[1]


def test_without_tolerance_such_a_record_stops_the_sink_before_anything_is_written() -> None:
    from kafka_s3.model.errors import SinkError

    world = World({"flush.size": "1", **FIELD})
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, b'{"d": "a/../../b"}'))
    world.start()
    with pytest.raises(SinkError, match=r"the part '\.\.'"):
        assert world.sink.poll_and_commit()
    assert world.objects() == {}


def test_percent_encoding_makes_every_value_one_folder() -> None:
    world = run({**FIELD, **PERCENT}, [*EVIL[:-1], *HARMLESS])
    assert letters(world) == []
    assert sorted(n for numbers in world.numbers().values() for n in numbers) == list(
        range(len(EVIL) - 1 + len(HARMLESS))
    )
    assert {key.count("/") for key in world.objects()} == {3}
    assert "topics/orders/d=a%2F..%2F..%2F..%2Fother%2Fx/orders+0+0000000001.json" in world.objects()
    assert "topics/orders/d=%C3%A9/" in " ".join(world.objects())


def test_the_older_name_of_percent_means_the_same() -> None:
    for text in ("percent", "url"):
        settings = validate({**BASE, "flush.size": "1", "partition.value.encoding": text}).usable()
        assert settings.text("partition.value.encoding") == "percent"
    (problem,) = validate({**BASE, "flush.size": "1", "partition.value.encoding": "percnt"}).problems
    assert problem.remedy == "Did you mean percent?"


@settings(max_examples=examples(25))
@given(
    st.lists(
        st.text(st.sampled_from("./a%_\n") | st.characters(exclude_categories=["Cs"]), max_size=12),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_a_value_holds_no_object_lies_outside(values: list[str]) -> None:
    world = run(FIELD, values)
    assert [key for key in world.objects() if not posixpath.normpath(key).startswith("topics/orders/d=")] == []
    dead = {offset for offset, _, _ in letters(world)}
    written = {n for numbers in world.numbers().values() for n in numbers}
    assert (dead | written, dead & written) == (set(range(len(values))), set())


def test_a_schemas_name_is_data_as_well() -> None:
    envelope = {
        "schema": {"type": "struct", "name": "x/../../../_kafka_s3", "fields": [{"field": "n", "type": "int32"}]},
        "payload": {"n": 1},
    }
    config = {"s3.schema.partition.affix.type": "PREFIX", "value.converter.schemas.enable": "true"}
    world = World({"flush.size": "1", **TOLERANT, **config})
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, json.dumps(envelope).encode()))
    world.start()
    assert world.sink.poll_and_commit()
    assert world.objects() == {}
    assert [(offset, stage) for offset, stage, _ in letters(world)] == [(0, STAGE)]


MODULE = """
import numpy as np
from kafka_s3.engine.task.partitioning.partitioners import Encoded

class Anywhere:
    uses_time = False

    def encode(self, topic_partition, run, times):
        names = ["good", "/etc", "../elsewhere", "_delta_log", ""]
        return Encoded((run.offsets % len(names)).astype(np.int32), names)

def make(settings):
    return Anywhere()
"""


def test_an_own_partitioner_gets_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anywhere_partitioner.py").write_text(MODULE, encoding="utf-8")
    info = tmp_path / "anywhere-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: anywhere\nVersion: 1.0\n", encoding="utf-8")
    entry = "[kafka_s3.partitioners]\nanywhere = anywhere_partitioner:make\n"
    (info / "entry_points.txt").write_text(entry, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("anywhere_partitioner", None)
    world = run({"partitioner.class": "anywhere"}, [0] * 5)
    assert list(world.objects()) == [
        "topics/orders/good/orders+0+0000000000.json",
        "topics/orders//orders+0+0000000004.json",
    ]
    assert [offset for offset, _, _ in letters(world)] == [1, 2, 3]


@pytest.mark.parametrize("topic", ["_delta_log", "_kafka_s3"])
def test_a_topic_found_by_pattern_writes_into_no_log(topic: str) -> None:
    tp = TopicPartition(topic, 0)
    world = World({"flush.size": "1", **TOLERANT, "topics": "", "topics.regex": "_.*", "topics.dir": ""}, topics=(tp,))
    world.kafka.add(tp, MemoryRecord(0, START_MS, None, b'{"n": 1}'))
    world.start()
    assert world.sink.poll_and_commit()
    assert world.objects() == {}
    assert [offset for offset, _, _ in letters(world)] == [0]


@pytest.mark.parametrize(("changes", "keys"), [
    ({"topics.dir": "../other"}, ["topics.dir"]),
    ({"topics.dir": "a/./b"}, ["topics.dir"]),
    ({"topics.dir": "lake/_delta_log"}, ["topics.dir"]),
    ({"topics.dir": "a\tb"}, ["topics.dir"]),
    ({"topics.dir": "_kafka_s3/orders"}, ["state.prefix"]),
    ({"topics.dir": "", "topics": "_kafka_s3"}, ["topics.dir"]),
    ({"topics.dir": "", "topics": "_delta_log"}, ["topics.dir"]),
    ({"topics.dir": "lake", "state.prefix": "lake/orders"}, ["topics.dir"]),
    ({"topics.dir": "lake/", "state.prefix": "lake/orders"}, ["topics.dir"]),
    ({"directory.delim": "/../"}, ["directory.delim", "topics.dir"]),
    ({"file.delim": "/../x/"}, ["file.delim", "topics.dir"]),
    ({"format.bytearray.extension": "/../x"}, ["format.bytearray.extension"]),
    ({"tombstone.encoded.partition": "../x"}, ["tombstone.encoded.partition"]),
    ({"partition.field.name": "_delta_log/b"}, ["partition.field.name"]),
    ({"state.prefix": "a/../b"}, ["state.prefix"]),
    ({"state.prefix": "lake/_delta_log"}, ["state.prefix"]),
    ({"name": "orders/commits"}, ["name"]),
    ({"name": ".."}, ["name"]),
    ({"name": "or\x07ders"}, ["name"]),
    ({"partitioner.class": "time", "path.format": "'..'/YYYY", "partition.duration.ms": "1", "locale": "en", "timezone": "UTC"},
     ["path.format"]),
])  # fmt: skip
def test_a_configuration_that_would_write_there_is_refused_before_it_runs(
    changes: dict[str, str], keys: list[str]
) -> None:
    found = validate({**BASE, "flush.size": "1", **changes})
    assert sorted(p.key for p in found.problems) == sorted(keys)
    assert all(p.remedy for p in found.problems)


@pytest.mark.parametrize("prefix", ["../other", "_kafka_s3/x", "a/_delta_log"])
def test_a_block_gzip_prefix_is_held_to_the_same(prefix: str) -> None:
    config = {
        "name": "orders", "connector.class": "com.deviantart.kafka_connect_s3.S3SinkConnector", "topics": "orders",
        "s3.bucket": "bucket", "local.buffer.dir": "/tmp", "s3.prefix": prefix, "kafka.bootstrap.servers": "k:9092",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }  # fmt: skip
    assert [p.key for p in validate(config).problems] == ["s3.prefix"]
    assert validate({**config, "s3.prefix": "logs"}).problems == ()


@pytest.mark.parametrize("changes", [
    {"topics.dir": "a/b"}, {"topics.dir": "topics/"}, {"topics.dir": ""}, {"file.delim": "."}, {"directory.delim": "."},
    {"directory.delim": "_"}, {"format.bytearray.extension": ".bin"}, {"name": "orders.v1-a_b c"}, {"topics.dir": "..."},
])  # fmt: skip
def test_what_is_only_unusual_is_taken(changes: dict[str, str]) -> None:
    assert validate({**BASE, "flush.size": "1", **changes}).problems == ()


def test_keys_that_begin_with_a_slash_are_the_originals_and_warned_of() -> None:
    found = validate({**BASE, "flush.size": "1", "topics.dir": "/data"})
    assert (found.problems, [w.key for w in found.warnings]) == ((), ["topics.dir"])


def test_keys_are_judged_as_readers_see_them() -> None:
    assert refusal("topics//orders/x", state_prefix=STATE) is None
    assert "the folder of the commit log" in str(refusal("/_kafka_s3//orders/x", state_prefix="/_kafka_s3/"))
    assert refusal("topics/_kafka_s3/x", state_prefix=STATE) is None
    assert refusal("é" * (LONGEST_KEY // 2), state_prefix=STATE) is None
    assert refusal("é" * (LONGEST_KEY // 2) + "a", state_prefix=STATE) is not None
