"""What the keys that say how times are read must hold."""

from __future__ import annotations

import pytest

from kafka_s3.connect.config.validate import validate
from tests.support.configurations import TIME
from tests.unit.connect.config.test_validate import MINIMAL

FIELD = {**TIME, "timestamp.extractor": "RecordField"}
OURS = {
    "timestamp.field.unit": "s",
    "timestamp.field.format": "yyyy-MM-dd",
    "behavior.on.implausible.timestamps": "reject",
}


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        (OURS, []),
        ({"timestamp.field.format": "yyyy-qq", "timestamp.field.unit": "hours"}, ["timestamp.field.unit", "timestamp.field.format"]),
        ({**OURS, "compatibility.strict": "true"}, list(OURS)),
    ],
)  # fmt: skip
def test_all_that_is_wrong_is_reported_at_once(config: dict[str, str], keys: list[str]) -> None:
    assert [problem.key for problem in validate({**MINIMAL, **FIELD, **config}).problems] == keys


def test_a_form_for_fields_is_reported_to_have_no_effect_where_no_field_is_read() -> None:
    found = validate({**MINIMAL, **TIME, **OURS})
    assert [warning.key for warning in found.warnings] == ["timestamp.field.unit", "timestamp.field.format"]
