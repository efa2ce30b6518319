"""Which keys say how times are read, and do they go together?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_s3.connect.config.rules.rule import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import Problem

_FORM: Final = ("timestamp.field.unit", "timestamp.field.format")
_OURS: Final = {
    "timestamp.field.unit": "ms",
    "timestamp.field.format": "",
    "behavior.on.implausible.timestamps": "warn",
}


def _format_is_a_pattern(settings: Settings) -> Iterator[Problem]:
    from kafka_s3.connect.java.simple_dates import SimpleDates

    try:
        SimpleDates(settings.text("timestamp.field.format"), now_ms=0)
    except ValueError as error:
        rule = f"is no pattern of Java's SimpleDateFormat: {str(error).rstrip('.')}."
        yield problem("timestamp.field.format", rule, "Put plain text in quotes, for example yyyy-MM-dd'T'HH:mm:ss.")


def _strict_reads_times_as_the_original(settings: Settings) -> Iterator[Problem]:
    for key, default in _OURS.items() if settings.strict else ():
        if settings.text(key) != default:
            rule = "goes beyond the original, which compatibility.strict=true excludes."
            yield problem(key, rule, "Leave one of the two out.")


def _only_fields_have_a_form(settings: Settings) -> Iterator[Problem]:
    for key in _FORM if settings.text("timestamp.extractor") != "RecordField" else ():
        if settings.text(key) != _OURS[key]:
            yield problem(
                key, "has no effect: it is for timestamp.extractor=RecordField.", "Set that, or leave it out."
            )


PROBLEMS: Final = (
    Rule(("timestamp.field.format",), _format_is_a_pattern),
    Rule((*_OURS, "compatibility.strict"), _strict_reads_times_as_the_original),
)
WARNINGS: Final = (Rule((*_FORM, "timestamp.extractor"), _only_fields_have_a_form),)
