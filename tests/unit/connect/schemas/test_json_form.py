"""Is what the JSON format writes the value that it was given, digits and texts alike?"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.json_form import dumps, to_json

NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=7)
VALUES = st.recursive(
    NUMBERS | st.text() | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def exact(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


@given(VALUES)
def test_decimals_keep_their_digits_and_texts_stay_texts(value: Any) -> None:
    assert exact(dumps(value)) == value


@pytest.mark.parametrize("text", ["\ue0001.50\ue000", '\ue0001\ue000","x":"\ue0002\ue000', "1.50", "\ue000", '"1.5"'])
def test_a_text_that_looks_like_a_marked_number_is_a_text(text: str) -> None:
    assert exact(dumps({"text": text, text: Decimal("1.50")})) == {"text": text, text: Decimal("1.50")}


def test_decimals_beside_half_a_surrogate_pair_are_numbers() -> None:
    assert dumps({"half": "\ud800", "d": Decimal("1.50")}) == '{"half":"\\ud800","d":1.50}'


@pytest.mark.parametrize(("value", "shown"), [(1e39, "Infinity"), (-1e300, "-Infinity"), (0.1, 0.1), (5e-324, 0.0)])
def test_a_number_beyond_a_float_is_infinite_as_in_java(value: float, shown: float | str) -> None:
    """Without quotes it would be no JSON."""
    assert to_json(value, ConnectSchema(SchemaType.FLOAT32)) == shown


def test_a_number_whose_schema_is_called_decimal_and_is_none_is_refused() -> None:
    """It ended the task: the name alone says nothing of the type."""
    schema = ConnectSchema(SchemaType.FLOAT64, name=DECIMAL, parameters=(("scale", "2"),))
    with pytest.raises(SchemaError, match=r"1\.5 is not a decimal.*type float"):
        to_json(1.5, schema)
