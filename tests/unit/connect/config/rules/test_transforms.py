"""Transforms and predicates: everything that is wrong with them, in one report."""

from __future__ import annotations

import pytest

from kafka_s3.connect.config.validate import CheckedConfig, validate
from tests.unit.connect.config.test_validate import MINIMAL

KAFKA = "org.apache.kafka.connect.transforms."


def checked(config: dict[str, str]) -> CheckedConfig:
    return validate({**MINIMAL, **config})


def of(kind: str, **settings: str) -> dict[str, str]:
    """One transform `t` with settings, `_` for the dots of their keys."""
    texts = {f"transforms.t.{key.replace('_', '.')}": text for key, text in settings.items()}
    return {"transforms": "t", "transforms.t.type": KAFKA + kind, **texts}


def test_all_problems_of_all_steps_are_reported_at_once() -> None:
    found = checked({
        "transforms": "a,b,c,d",
        "transforms.a.type": f"{KAFKA}InsertField",
        "transforms.b.type": f"{KAFKA}Cast$Value", "transforms.b.spec": "x:int",
        "transforms.c.type": f"{KAFKA}RegexRouter", "transforms.c.regex": "(", "transforms.c.replacement": "",
        "transforms.d.type": f"{KAFKA}Filter", "transforms.d.predicate": "p",
    })  # fmt: skip
    assert [one.key for one in found.problems] == [
        "transforms.a.type", "transforms.b.spec", "transforms.c.regex", "transforms.d.predicate",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (of("Cast$Value", spec=""), "transforms.t.spec"),
        (of("Cast$Value", spec="int8,a:int8"), "transforms.t.spec"),
        (of("Cast$Value", spec="a:array"), "transforms.t.spec"),
        (of("ExtractField$Value"), "transforms.t.field"),
        (of("HeaderFrom$Value", fields="a,b", headers="h", operation="copy"), "transforms.t.fields"),
        (of("InsertField$Value"), "transforms.t.type"),
        (of("InsertField$Value", static_field="a"), "transforms.t.static.value"),
        (of("MaskField$Value", fields="a", replacement=""), "transforms.t.replacement"),
        (of("ReplaceField$Value", renames="a"), "transforms.t.renames"),
        (of("SetSchemaMetadata$Value"), "transforms.t.type"),
        (of("TimestampConverter$Value", target_type="string"), "transforms.t.format"),
        (of("TimestampRouter", timestamp_format="bogus"), "transforms.t.timestamp.format"),
        (of("Filter", negate="true"), "transforms.t.negate"),
        ({"transforms": "a,a"}, "transforms"),
        ({**of("RegexRouter", regex=".*", replacement="x"), "delta.enable": "true",
          "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat"}, "delta.enable"),
    ],
)  # fmt: skip
def test_a_problem_names_its_key(config: dict[str, str], key: str) -> None:
    assert key in [one.key for one in checked(config).problems]


def test_settings_that_a_class_does_not_have_are_a_warning() -> None:
    found = checked(of("HoistField$Value", field="in", colour="red"))
    assert not found.problems
    assert [one.key for one in found.warnings] == ["transforms.t.colour"]


def test_values_with_references_are_judged_once_they_are_resolved() -> None:
    assert not checked(of("InsertField$Value", static_field="a", static_value="${env:WHERE}")).problems
