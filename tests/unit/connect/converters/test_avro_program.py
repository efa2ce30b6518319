"""The program of a schema has the steps that the interpreter's docstring shows, and those of unions of several types."""

from __future__ import annotations

from typing import Any

from kafka_s3.connect.converters import avro_loops as loops
from kafka_s3.connect.converters.avro import Program, Step
from kafka_s3.connect.converters.avro_loops import ARRAY, BRANCH, ITEM, LONG, NONE, RECORD, STRING, UNION
from kafka_s3.connect.schemas.avro_schemas import connect_schema_of_avro
from kafka_s3.connect.schemas.avro_types import AvroOptions, read_types


def program(*fields: tuple[str, Any], names: frozenset[str] | None = None) -> Program:
    avro = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    schema = connect_schema_of_avro(avro, options=AvroOptions())
    assert schema is not None
    return Program(read_types(avro), schema, names)


def cells(line: str) -> list[str]:
    """A line of the docstring's table, whose columns are four to eight wide."""
    widths, found = (6, 8, 6, 8, 7, 6, 2), []
    for width in widths:
        cell, line = line[:width].strip(), line[width:]
        found.append(cell)
    return found


def test_the_steps_are_those_of_the_interpreters_docstring() -> None:
    assert loops.__doc__ is not None
    shown = [cells(line) for line in loops.__doc__.splitlines() if line[:2] in ("0 ", "1 ", "2 ", "3 ")][:4]
    kinds = {LONG: "LONG", ARRAY: "ARRAY", STRING: "STRING", ITEM: "ITEM"}
    made = program(("n", "long"), ("t", {"type": "array", "items": ["null", "string"]}))
    steps = [(at, kinds[s.kind], s.null, s.column, s.level, s.jump, s.of) for at, s in enumerate(made.steps)]

    assert [["" if cell == NONE else str(cell) for cell in row] for row in steps] == shown
    assert made.levels == [0, 0, 1]


def test_the_types_of_a_union_stand_each_behind_a_branch() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "s", "type": "string"}]}
    steps = program(("u", ["long", "null", inner])).steps

    assert steps == [
        Step(UNION, branches=3, null=1, size=0, column=0, level=0, jump=6, of=NONE),
        Step(BRANCH, branches=0, null=NONE, size=0, column=NONE, level=0, jump=3, of=0),
        Step(LONG, branches=0, null=NONE, size=0, column=1, level=0, jump=3, of=NONE),
        Step(BRANCH, branches=0, null=NONE, size=2, column=NONE, level=0, jump=6, of=0),
        Step(RECORD, branches=0, null=NONE, size=0, column=2, level=0, jump=6, of=NONE),
        Step(STRING, branches=0, null=NONE, size=0, column=3, level=0, jump=6, of=NONE),
    ]


def test_what_nobody_wants_is_walked_but_has_no_columns() -> None:
    made = program(("a", {"type": "array", "items": "long"}), ("b", "long"), names=frozenset({"b"}))

    assert [step.column for step in made.steps] == [NONE, NONE, NONE, 0]
    assert (made.levels, made.wanted, len(made.children)) == ([0], [True, False], 1)
