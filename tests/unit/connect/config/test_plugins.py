"""Parts of installed packages: their own keys are declared, validated and shown like ours, and what is wrong with them has a message."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_s3.connect.config.catalog import entry
from kafka_s3.connect.config.settings import masking
from kafka_s3.connect.config.validate import CheckedConfig, resolved, validate
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.text import Secret
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3_testing.services.memory import MemoryRecord
from kafka_s3_testing.sink_run import RunSink
from tests.support.configurations import TIME
from tests.support.entry_points import install
from tests.support.memory_world import BASE, ORDERS, START_MS, World

PARTITIONER = """
from kafka_s3.connect.config.option import Option, Type
from kafka_s3.connect.config.plugins import options
from kafka_s3.connect.config.option import Range
from kafka_s3.engine.task.partitioning.partitioners import encoded_each

@options(
    Option("acme.prefix", Type.STRING, "shard", "Text in front of the number."),
    Option("acme.shards", Type.INT, None, "Number of directories.", valid=Range(1, 100), required=True),
    Option("acme.signing.secret", Type.PASSWORD, None, "Not used."),
)
class ByHash:
    \"\"\"Spreads records over so many directories.\"\"\"
    uses_time = False

    def __init__(self, settings):
        self.prefix, self.shards = settings.text("acme.prefix"), settings.number("acme.shards")
        if self.prefix == "bad":
            raise ValueError("acme.prefix must not be bad")

    def encode(self, topic_partition, run, times):
        return encoded_each(run, times, lambda value, time: f"{self.prefix}={value['n'] % self.shards}")
"""
OWN = {"partitioner.class": "by_hash", "acme.shards": "2", "flush.size": "1"}
Installs = Callable[..., None]


@pytest.fixture
def installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installs:
    """Installs a package with one partitioner, `by_hash`, of the class or function that the source calls `ByHash`."""

    def made(source: str = PARTITIONER, group: str = "kafka_s3.partitioners", name: str = "by_hash") -> None:
        install(
            tmp_path, monkeypatch, module="acme_parts", source=source, group=group, entry=f"{name} = acme_parts:ByHash"
        )

    return made


def checked(**changes: str) -> CheckedConfig:
    return validate({**BASE, **OWN, **{key.replace("__", "."): text for key, text in changes.items()}})


def test_the_keys_of_a_plugin_are_typed_and_have_their_defaults(installs: Installs) -> None:
    installs()
    found = checked(acme__signing__secret="hunter2hunter2")
    assert (found.problems, found.warnings) == ((), ())
    assert (found.settings.number("acme.shards"), found.settings.text("acme.prefix")) == (2, "shard")
    assert found.settings.secret("acme.signing.secret") == Secret("hunter2hunter2")
    assert "hunter2" not in f"{found.settings}"
    assert masking(found.settings)("x hunter2hunter2") == "x ****"


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"acme__shards": "many"}, "acme.shards", "must be a whole number"),
        ({"acme__shards": "0"}, "acme.shards", "must be 1 to 100"),
        ({"acme__prefix": "bad"}, "partitioner.class", "acme.prefix must not be bad"),
    ],
)
def test_a_value_that_a_plugin_cannot_have_is_a_problem_of_the_configuration(
    installs: Installs, changes: dict[str, str], key: str, words: str
) -> None:
    installs()
    (problem,) = checked(**changes).problems
    assert problem.key == key
    assert words in problem.rule


def test_a_missing_and_a_misspelt_key_of_a_plugin_are_named(installs: Installs) -> None:
    installs()
    found = validate({**BASE, "flush.size": "1", "partitioner.class": "by_hash", "acme.shard": "2"})
    assert [(one.key, one.rule) for one in found.problems] == [("acme.shards", "is required.")]
    assert [(one.key, one.remedy) for one in found.unknown] == [("acme.shard", "Did you mean acme.shards?")]


def test_keys_of_a_plugin_that_is_not_chosen_are_unknown(installs: Installs) -> None:
    installs()
    found = checked(partitioner__class="DefaultPartitioner")
    assert [one.key for one in found.unknown] == ["acme.shards"]


def test_a_reference_in_a_plugins_key_is_resolved_and_then_checked(
    installs: Installs, monkeypatch: pytest.MonkeyPatch
) -> None:
    installs()
    monkeypatch.setenv("ACME_SHARDS", "7")
    assert resolved(checked(acme__shards="${env:ACME_SHARDS}").usable()).number("acme.shards") == 7


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import a_module_that_is_not_there", "acme_parts 1.0, which cannot be loaded.*ModuleNotFoundError"),
        ("class ByHash:\n    uses_time = False\n    def __init__(self, settings): pass\n", "of acme_parts 1.0 without encode"),
        ("def ByHash(settings):\n    return settings.text('acme.prefix')\n", "cannot be made by acme_parts 1.0: KeyError"),
        (PARTITIONER.replace('"acme.prefix", Type', '"flush.size", Type'), "hold flush.size, which is not a key of a package's own"),
        (PARTITIONER.replace('None, "Number', '"x", "Number'), "hold acme.shards, whose default 'x' must be a whole number"),
        (PARTITIONER.replace("acme.signing.secret", "acme.signing"), "hold the password acme.signing: its name must say so"),
        (PARTITIONER.replace("@options(", "@options(1, "), "are no tuple of kafka_s3.connect.config.option.Option"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_plugin_is_a_problem_of_the_key_that_names_it(
    installs: Installs, source: str, words: str
) -> None:
    installs(source)
    (problem,) = checked().problems
    assert problem.key == "partitioner.class"
    assert re.search(words, problem.rule), problem.rule


def test_a_machine_without_the_package_says_what_to_install(
    installs: Installs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an executor would that got the settings of a driver which has it."""
    installs()
    settings = checked().usable()
    monkeypatch.undo()
    with pytest.raises(
        ConfigError, match=r"partitioner\.class \('by_hash'\): is offered by no package.*driver and tasks"
    ) as refused:
        make_pipeline(settings)
    assert [problem.key for problem in refused.value.problems] == ["partitioner.class"]


def test_a_record_for_which_a_plugin_knows_no_directory_is_a_dead_letter(installs: Installs) -> None:
    installs()
    world = World({**OWN, "errors.tolerance": "all"})
    for offset, value in enumerate([{"n": 1}, {"m": 1}, {"n": 2}]):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, json.dumps(value).encode()))
    world.start().poll_and_commit()
    assert sorted(key.split("/")[2] for key in world.objects()) == ["shard=0", "shard=1"]
    assert world.log().load().totals.dead_letters == 1


TIMED = """
from datetime import UTC, datetime
from kafka_s3.engine.task.partitioning.partitioners import encoded_each

class ByHash:
    uses_time = True

    def __init__(self, settings):
        pass

    def encode(self, topic_partition, run, times):
        return encoded_each(run, times, lambda value, time: f"day={datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d}")
"""


def test_a_partitioner_of_times_gets_the_records_times_and_wants_some_that_can_be_had_again(installs: Installs) -> None:
    installs(TIMED)
    config = {"partitioner.class": "by_hash", "flush.size": "1"}
    (problem,) = validate({**BASE, **config}).problems
    assert problem.key == "timestamp.extractor"
    world = World({**config, "timestamp.extractor": "Record"})
    world.kafka.add(ORDERS, MemoryRecord(0, 86_400_000, None, b"{}"))
    world.start().poll_and_commit()
    assert list(world.objects()) == ["topics/orders/day=1970-01-02/orders+0+0000000000.json"]


@pytest.mark.parametrize("strict", ["false", "true"])
@pytest.mark.parametrize(
    ("extractor", "value", "day"),
    [
        ({"timestamp.extractor": "Record"}, b"{}", "1970-01-02"),
        ({"timestamp.extractor": "RecordField", "timestamp.field": "at"}, b'{"at": 259200000}', "1970-01-04"),
    ],
)
def test_a_partitioner_of_times_gets_times_whatever_rotates_files(
    installs: Installs, strict: str, extractor: dict[str, str], value: bytes, day: str
) -> None:
    installs(TIMED)
    config = {"partitioner.class": "by_hash", "flush.size": "1", "compatibility.strict": strict}
    world = World({**config, **extractor})
    world.kafka.add(ORDERS, MemoryRecord(0, 86_400_000, None, value))
    world.start().poll_and_commit()
    assert list(world.objects()) == [f"topics/orders/day={day}/orders+0+0000000000.json"]


TRANSFORM = """
from kafka_s3.connect.config.option import Option, Type
from kafka_s3.connect.config.plugins import options

@options(Option("times", Type.INT, "1", "How often."), Option("secret", Type.PASSWORD, None, "Not used."))
class ByHash:
    def __init__(self, settings):
        self.times = settings.number("times")
        secret = settings.secret("secret").reveal()
        if secret != "hunter2hunter2":
            raise ValueError(f"{secret} is no key")

    def apply(self, record):
        return record
"""


def test_a_transforms_own_settings_are_validated_too(installs: Installs) -> None:
    installs(TRANSFORM, "kafka_s3.transforms", "again")
    config = {
        **BASE,
        "flush.size": "1",
        "transforms": "t",
        "transforms.t.type": "again",
        "transforms.t.secret": "hunter2hunter2",
    }
    assert validate({**config, "transforms.t.times": "2"}).problems == ()
    (problem,) = validate({**config, "transforms.t.times": "x"}).problems
    assert (problem.key, problem.rule) == ("transforms.t.times", "must be a whole number.")
    assert [one.key for one in validate({**config, "transforms.t.time": "2"}).warnings] == ["transforms.t.time"]
    (problem,) = validate({**config, "transforms.t.secret": "other-hunter2"}).problems
    assert problem.key == "transforms.t.type"
    assert "hunter2" not in str(problem)


def test_the_catalog_describes_a_plugin_by_its_name(installs: Installs) -> None:
    installs()
    found = entry("by_hash")
    assert (found.key, found.doc) == ("partitioner.class", "Spreads records over so many directories. (acme_parts 1.0)")
    assert [(option.key, required) for option, required in found.rows()] == [
        ("acme.shards", True),
        ("acme.prefix", False),
        ("acme.signing.secret", False),
    ]


DECODER = """
from dataclasses import replace
from kafka_s3 import options

@options()
class ByHash:
    def __init__(self, settings):
        pass

    def apply(self, record):
        number, at = record.value.decode().split(" ", 1)
        value = {"n": int(number), "at": at}
        return replace(record, value=value, value_schema=None) if value["n"] else None
"""


def test_what_a_java_class_of_ones_own_did_for_converters_times_and_predicates_a_transform_does(
    installs: Installs, run_sink: RunSink
) -> None:
    """As the refusals of such classes say."""
    installs(DECODER, "kafka_s3.transforms", "decode")
    config = {
        **BASE, **TIME, "path.format": "'year'=YYYY", "timestamp.extractor": "RecordField", "timestamp.field": "at", "flush.size": "9",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter", "transforms": "t", "transforms.t.type": "decode",
    }  # fmt: skip
    made = run_sink(config, {"orders": [b"0 never", b"1 2025-01-01T00:00:00Z"]})
    assert made.objects == {
        "topics/orders/year=2025/orders+0+0000000001.json": b'{"n":1,"at":"2025-01-01T00:00:00Z"}\n'
    }
    assert made.dead_letters == ()
