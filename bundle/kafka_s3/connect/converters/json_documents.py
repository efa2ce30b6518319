"""Which bytes are a JSON document? Python's parser judges the few that a faster one does not let pass, one by one.

What the original's parser takes, we take: trailing text after the document is ignored, empty bytes are a null value (SEMANTICS A7, A9.2).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_s3.connect.converters.converter import DecodedEach, KafkaBatch, decode_each
from kafka_s3.connect.records.values import Longs
from kafka_s3.model.dead_letters import DATA_EXCEPTION, Failure, Stage

DEEP = 200
DEPTH_STEPS = np.zeros(256, np.int8)
DEPTH_STEPS[[ord("{"), ord("[")]], DEPTH_STEPS[[ord("}"), ord("]")]] = 1, -1
MOST_DIGITS = 4300
SPACE = " \t\r\n"
STRING_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*+")|[ \t\r\n]+')
JAVA_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True, slots=True)
class Judged:
    """`values` and `texts` (on one line each) of the documents at the positions `rows`, ascending; offsets of nulls; what is no JSON."""

    rows: Longs
    values: list[Any]
    texts: pa.Array
    failures: list[Failure]
    nulls: list[int]


def judge(batch: KafkaBatch, rows: Longs | None = None, *, for_columns: bool = False) -> Judged:
    """The records at these positions, or all, one by one; `for_columns` fails what Arrow cannot hold."""

    def document(raw: bytes) -> tuple[tuple[Any, bytes] | None, int]:
        value, text = parse_document(raw)
        if for_columns:
            check_for_columns(value, text)
        return None if value is None else (value, text), 0

    judged = batch if rows is None else batch.take(rows)
    found = decode_each(judged.values, document)
    values, texts = [value for value, _ in found.items], [text for _, text in found.items]
    return Judged(
        found.rows if rows is None else rows[found.rows],
        values,
        pa.array(texts, batch.values.type),
        json_failures(judged, found),
        judged.offsets[found.nulls].tolist(),
    )


def parse_document(raw: bytes) -> tuple[Any, bytes]:
    """The first JSON document in the bytes and its text on one line; None for empty bytes. Raises ValueError with the place."""
    text = raw.decode("utf-8-sig").strip(SPACE)
    if not text:
        return None, b""
    value, end = DECODER.raw_decode(text)
    if text[end - 1] not in '}]"' and text[end : end + 1].strip(SPACE):
        raise ValueError(f"{text[end]!r} after the document, at char {end}")
    document = text[:end]
    if "\n" in document or "\r" in document:
        document = STRING_OR_SPACE.sub(lambda found: found[1] or "", document)
    return value, document.encode()


def check_for_columns(value: Any, text: bytes) -> None:
    """Raises ValueError where Arrow cannot hold the value: half a surrogate pair, or nesting beyond all reason."""
    if b"\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    if depth(text) >= DEEP:
        raise ValueError(f"nested more than {DEEP - 1} levels deep")


def json_failures(batch: KafkaBatch, found: DecodedEach) -> list[Failure]:
    """The failures of values that are no JSON."""
    message = "Converting byte[] to Kafka Connect data failed due to serialization error: "
    return [
        Failure(int(batch.offsets[row]), Stage.VALUE_CONVERTER, JAVA_CONVERTER, DATA_EXCEPTION, message + reason)
        for row, reason in found.failures
    ]


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


def _whole(digits: str) -> int:
    """Whole numbers have a limit, as in the original's parser: beyond it reading them takes time that grows with the square."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a whole number of {len(digits)} digits, of which {MOST_DIGITS} are read at most")
    return int(digits)


DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=_whole)


def depth(text: bytes) -> int:
    """How deeply brackets are nested; those inside strings count, too."""
    steps = DEPTH_STEPS[np.frombuffer(text, np.uint8)]
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))
