"""How is a dead letter shown and exported? As text that no terminal obeys, as JSON lines, as CSV that no spreadsheet calculates."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from kafka_s3.engine.log.dead_letters import FiledLetter
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.text import printable

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
COLUMNS: Final = (
    "topic", "partition", "offset", "timestamp", "stage", "component", "exception", "message", "state", "entry", "dead_lettered_at",
    "settled_by_entry", "reason", "key", "value", "headers", "key_text", "value_text",
)  # fmt: skip


def readable(raw: bytes | None) -> str:
    r"""Bytes as UTF-8 text, what is none of it as `\x..`, free of control characters."""
    return "null" if raw is None else printable(raw.decode("utf-8", "backslashreplace"))


def time_text(ms: int) -> str:
    """Epoch ms to the second, in UTC; the number itself where it is beyond the calendar."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return str(ms)


def details(filed: FiledLetter) -> Iterator[tuple[str, str]]:
    """Everything of a letter, as names and printable texts."""
    letter = filed.letter
    end = "" if filed.settled is None else f" (entry {filed.settled}{f': {filed.reason}' if filed.reason else ''})"
    stamp = "none" if letter.timestamp is None else f"{letter.timestamp} ({time_text(letter.timestamp)} UTC)"
    yield "record", printable(f"{letter.topic_partition} offset {letter.offset}")
    yield "timestamp", stamp
    yield "state", printable(f"{filed.state}{end}")
    yield "dead letter since", f"{time_text(filed.committed_ms)} UTC (entry {filed.entry})"
    for name in ("stage", "component", "exception", "message"):
        yield name, printable(getattr(letter, name))
    yield from _content("key", letter.key)
    yield from _content("value", letter.value)
    for name, value in letter.headers:
        yield from _content(f"header {printable(name)}", value)


def json_lines(found: Iterable[FiledLetter]) -> Iterator[str]:
    """One JSON object a line, in ASCII; keys, values and header values are base64 or null."""
    for filed in found:
        yield json.dumps(_document(filed), ensure_ascii=True, separators=(",", ":")) + "\n"


def csv_rows(found: Iterable[FiledLetter]) -> Iterator[str]:
    """The header, then a row per letter. No cell is taken for a formula: such a one gets an apostrophe in front."""
    yield _row(COLUMNS)
    for filed in found:
        document: dict[str, Any] = _document(filed)
        document["headers"] = json.dumps(document["headers"])
        document["key_text"], document["value_text"] = readable(filed.letter.key), readable(filed.letter.value)
        yield _row([formula_safe(printable(_cell(document[name]))) for name in COLUMNS])


def formula_safe(cell: str) -> str:
    """The cell, with an apostrophe in front where a spreadsheet would calculate it."""
    return f"'{cell}" if cell.startswith(FORMULA) else cell


def _document(filed: FiledLetter) -> dict[str, object]:
    letter: DeadLetter = filed.letter
    return {
        "topic": letter.topic, "partition": letter.partition, "offset": letter.offset, "timestamp": letter.timestamp,
        "stage": letter.stage, "component": letter.component, "exception": letter.exception, "message": letter.message,
        "state": str(filed.state), "entry": filed.entry, "dead_lettered_at": time_text(filed.committed_ms).replace(" ", "T") + "Z",
        "settled_by_entry": filed.settled, "reason": filed.reason,
        "key": _base64(letter.key), "value": _base64(letter.value), "headers": [[name, _base64(raw)] for name, raw in letter.headers],
    }  # fmt: skip


def _content(name: str, raw: bytes | None) -> Iterator[tuple[str, str]]:
    yield name, readable(raw)
    if raw:
        yield f"{name}, hex", raw.hex()
        yield f"{name}, base64", base64.b64encode(raw).decode()


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _row(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _base64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()
