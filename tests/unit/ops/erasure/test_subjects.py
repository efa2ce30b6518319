"""Whose records are meant: keys, fields and files of them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.model.errors import ConfigError
from kafka_s3.objects.erasing import parse_all_members
from kafka_s3.ops.erasure.subjects import Subject, Subjects, subjects_of


def by(where: str) -> Subjects:
    return subjects_of(None, where, None)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("customer.id = 42", {"customer": {"id": 42}}),
        ("customer.id=42", {"customer": {"id": "42"}}),
        ("customer.id = '42'", {"customer": {"id": 42.0}}),
        ("paid = true", {"paid": True}),
        ("price = 1.5", {"price": Decimal("1.50")}),
        ("lines.sku = a=b", {"lines": [{"sku": "x"}, {"sku": "a=b"}]}),
        ("tags = 'new'", {"tags": ["old", "new"]}),
        ("raw = x", {"raw": b"x"}),
        ("id = 42.0", {"id": 42}),
        ("id = 4.2e1", {"id": Decimal("42.00")}),
        ("id = 4.20", {"id": 4.2}),
        ("id = 12345678901234567890", parse_all_members('{"id":12345678901234567890e0}')),
        ("id = 0.1000000000000000000001", parse_all_members('{"id":0.1000000000000000000001}')),
        ("id = 1e999999999", parse_all_members('{"id":1e999999999}')),
        ("id = 42", parse_all_members('{"id":42,"id":7}')),
        ("id = 7", parse_all_members('{"id":42,"x":1,"id":7}')),
        ("of.id = 1", {"of": [("id", 1)]}),
    ],
)
def test_a_field_is_compared_by_its_text(where: str, value: object) -> None:
    assert by(where).has_value(value)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("customer.id = 42", {"customer": {"id": 421}}),
        ("customer.id = 42", {"customer": 42}),
        ("customer.id = 42", {"customer.id": 42}),
        ("customer = null", {"customer": None}),
        ("paid = True", {"paid": True}),
        ("customer.id = 42", [42]),
        ("customer.id = 42", "42"),
        ("id = 42.0", {"id": "42"}),
        ("id = 12345678901234567891", parse_all_members('{"id":12345678901234567890e0}')),
    ],
)
def test_what_only_looks_like_it_is_left(where: str, value: object) -> None:
    assert not by(where).has_value(value)


@pytest.mark.parametrize("key", ["k1", b"k1"])
def test_a_key_is_compared_as_text(key: object) -> None:
    found = subjects_of("k1", None, None)
    assert found.has_key(key)
    assert not found.has_key("k12")
    assert not found.has_value({"key": "k1"})


def test_a_key_that_is_a_document_is_compared_whatever_the_order_of_its_members() -> None:
    found = subjects_of('{"id": 1, "of": "x"}', None, None)
    assert found.has_key({"of": "x", "id": 1})
    assert found.has_key(b'{"of":"x","id":1}')
    assert not found.has_key({"id": 1})


def test_a_file_names_several_subjects_each_by_all_of_its_columns() -> None:
    found = subjects_of(None, None, "\ufeffcustomer.id,country\r\n1,CH\r\n2,DE\r\n\r\n")
    assert len(found.all) == 2
    assert found.has_value({"customer": {"id": 2}, "country": "DE"})
    assert not found.has_value({"customer": {"id": 2}, "country": "CH"})
    keys = subjects_of(None, None, 'key\n"a,b"\nc\nc\n')
    assert (len(keys.all), keys.has_key("a,b"), keys.has_key("c")) == (2, True, True)


def test_record_with_many_texts_is_compared_without_trying_their_combinations() -> None:
    found = subjects_of(None, None, "a,b,c\n" + "".join(f"{n},{n},{n}\n" for n in range(1000)))
    texts = [str(n) for n in range(5000)]
    assert found.has_value({"a": texts, "b": texts[500:], "c": texts[900:]})
    assert not found.has_value({"a": texts[:300], "b": texts[300:], "c": texts})
    assert not found.has_value({"a": texts[:300], "b": texts, "c": texts[300:]})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((None, None, None), "is needed, or --where, or --file"),
        (("k", "a = 1", None), "is needed, or --where, or --file"),
        ((None, "customer.id", None), "is not a field, an equals sign"),
        ((None, "= 1", None), "is not a field, an equals sign"),
        ((None, None, ""), "names its columns"),
        ((None, None, "key,id\n1,2\n"), "names its columns"),
        ((None, None, "id,country\n1\n"), "line 2"),
        ((None, None, 'id\n1\n""\n'), "line 3"),
    ],
)
def test_what_says_nothing_is_refused(given: tuple[str | None, ...], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        subjects_of(*given)


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_subjects_have_two_hashes_and_a_salt_makes_others(one: str, other: str) -> None:
    first, second = Subject(key=one), Subject(key=other)
    assert (first.hashed(b"a") == second.hashed(b"a")) == (one == other)
    assert first.hashed(b"a") != first.hashed(b"b")
    assert first.hashed(b"a") != Subject(fields=((("key",), one),)).hashed(b"a")
