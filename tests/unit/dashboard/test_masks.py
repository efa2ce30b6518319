"""What the operator masks is nowhere to be seen: not in values, keys, headers, messages, and no search finds it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3_dashboard.reading.letters import HIDDEN, mask_of

FIELDS = frozenset({"email", "Card"})


def letter(value: bytes | None, key: bytes | None = None) -> DeadLetter:
    headers = (("EMAIL", b"a@b.c"), ("trace", b"1"), ("card", None))
    return DeadLetter(
        "t", 0, 1, 0, key, value, headers, "VALUE_CONVERTER", "c", "X", "field 'a@b.c' at 4711 is \"bad\""
    )


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b'{"email":"a@b.c","n":1}', b'{"email":"****","n":1}'),
        (b'{"to":[{"Email":{"x":1},"card":7}]}', b'{"to":[{"Email":"****","card":"****"}]}'),
        ('[{"é": 1}]'.encode(), '[{"é":1}]'.encode()),
        (b"plain a@b.c", HIDDEN), (b'"a@b.c"', HIDDEN), (b"\x00\x00\x00\x00\x07avro", HIDDEN), (b"[" * 100_000, HIDDEN), (None, None),
    ],
    ids=range(8),
)  # fmt: skip
def test_named_fields_are_masked_at_any_depth_and_what_is_no_json_is_hidden(
    raw: bytes | None, shown: bytes | None
) -> None:
    masked = mask_of(FIELDS)(letter(raw, key=raw))
    assert (masked.value, masked.key) == (shown, shown)
    assert masked.headers == (("EMAIL", HIDDEN), ("trace", b"1"), ("card", None))
    assert masked.message == "field **** at **** is ****"


def test_without_fields_only_headers_whose_names_say_that_they_are_secret_are_masked() -> None:
    names = (
        "Authorization",
        "x-auth-token",
        "Set-Cookie",
        "api_key",
        "db.password",
        "author",
        "trace",
        "tokenless?",
        "by",
    )
    one = replace(letter(b"plain"), headers=tuple((name, name.encode()) for name in names))
    masked = mask_of(frozenset())(one)
    assert replace(masked, headers=one.headers) == one
    assert [name for name, value in masked.headers if value != HIDDEN] == ["author", "trace", "by"]
