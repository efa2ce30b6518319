"""Which combinations of keys cannot make objects? Partitioner, time, format, schema, and templates that give two files one name.

Directories that have the name of a column are found here as well: a query engine sees both as columns, and ignores case.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final
from zoneinfo import available_timezones

from kafka_s3.connect.config.classes import (
    BLOCK_GZIP_FORMAT,
    CONFLUENT_CONVERTERS,
    FIELD_PARTITIONERS,
    FIELDLESS,
    PATTERN_PARTITIONERS,
)
from kafka_s3.connect.config.options.connector import SHORT_ZONES
from kafka_s3.connect.config.rules import Rule, beyond_the_original, is_time_partitioner, problem, rotates_by_time
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import routes
from kafka_s3.connect.naming.keys import (
    CONNECT_DIRECTORY,
    TOPIC,
    TemplateNames,
    connect_template,
    directory_fault,
    name_fault,
    part_refusal,
    refusal,
)
from kafka_s3.model.errors import Problem
from kafka_s3.model.offsets import TopicPartition

_LEVEL: Final = re.compile(r"'?([A-Za-z_]\w*)'?=")
_STANDARD: Final = {
    "daily": ("year", "month", "day"),
    "hourly": ("year", "month", "day", "hour"),
    "default": ("partition",),
}
_WHOLE_KEY: Final = ("key",)
_FORMATS_WITHOUT_COLUMNS: Final = frozenset({"bytearray", BLOCK_GZIP_FORMAT})
_RENAME: Final = "Choose directories of another name, or rename the field by a transform."
_KEYS: Final = {
    "time": "path.format", "field_and_time": "path.format", "field": "partition.field.name", "header": "partition.header.name",
    "key": "partition.key.field",
}  # fmt: skip


def directory_names(settings: Settings) -> tuple[str, ...]:
    """The names of the partitioner's directories `name=value`; none of an own partitioner."""
    match settings.text("partitioner.class"):
        case "header":
            return settings.names("partition.header.name")
        case "key":
            return settings.names("partition.key.field") or _WHOLE_KEY
        case name if name in FIELD_PARTITIONERS | PATTERN_PARTITIONERS:
            return (*_of_fields(settings), *(_of_pattern(settings) if name in PATTERN_PARTITIONERS else ()))
        case name:
            return _STANDARD.get(name, ())


def _of_fields(settings: Settings) -> tuple[str, ...]:
    """The directories that have the names of columns on purpose, and the same values."""
    name = settings.text("partitioner.class")
    named = name == "field" or (name == "field_and_time" and settings.flag("partition.field.format.path"))
    return settings.names("partition.field.name") if named else ()


def _of_pattern(settings: Settings) -> list[str]:
    return _LEVEL.findall(settings.text("path.format").replace("'", ""))


def _directories_have_names_of_their_own(settings: Settings) -> Iterator[Problem]:
    counts = Counter(name.lower() for name in directory_names(settings))
    for name, count in counts.items():
        if count > 1:
            rule = f"names {count} levels of directories {name}= (case does not count), which a query engine takes for one column."
            key = _KEYS.get(settings.text("partitioner.class"), "partitioner.class")
            yield problem(key, rule, "Give each level a name of its own.")


def compared_with_registry(settings: Settings) -> bool:
    """Whether a registry knows fields that the directories could hide: of topics that are named, as they come, in a format with columns."""
    return (
        settings.text("value.converter") in CONFLUENT_CONVERTERS
        and settings.text("format.class") not in _FORMATS_WITHOUT_COLUMNS
        and not settings.names("transforms")
        and bool(settings.names("topics"))
        and bool(_hiding(settings))
    )


def hidden_fields(settings: Settings, topic: str, fields: Iterable[str]) -> list[Problem]:
    """The fields of a topic's values that a directory has the name of."""
    return [Problem("topics", topic, rule, _RENAME) for rule in _hidden(settings, fields)]


def _hiding(settings: Settings) -> dict[str, str]:
    """The directories that could hide a column, by their names in lower case."""
    on_purpose = _of_fields(settings)
    return {name.lower(): name for name in directory_names(settings) if name not in on_purpose}


def _hidden(settings: Settings, columns: Iterable[str]) -> Iterator[str]:
    """The rule that each column breaks that a directory has the name of."""
    names = _hiding(settings)
    for column in columns:
        if column.lower() in names:
            folder = f"{names[column.lower()]}="
            yield f"has the field {column}, and objects lie in directories {folder}: a query engine shows one of the two."


def _columns_are_no_directories(settings: Settings) -> Iterator[Problem]:
    """Of the columns that the configuration names; `validate` and `doctor` ask the registry for its own, `ddl` looks into objects."""
    for rule in _hidden(settings, _columns(settings)):
        yield problem("value.schema", rule, _RENAME)


def _columns(settings: Settings) -> list[str]:
    try:
        fields = json.loads(settings.text("value.schema") or "{}").get("fields", [])
        return [str(one["field"]) for one in fields]
    except (ValueError, TypeError, KeyError, AttributeError):  # the rule for value.schema says so
        return []


_PARTITIONS: Final = (
    "partitioner.class", "path.format", "partition.field.name", "partition.field.format.path", "partition.header.name",
    "partition.key.field",
)  # fmt: skip


COMPATIBILITIES: Final = ("NONE", "BACKWARD", "FORWARD", "FULL")
_LITERAL = re.compile(r"'[^']*'")
_TEXT_LETTERS = re.compile(r"MMM|E|a|G|z")


def _zone_is_known(settings: Settings) -> Iterator[Problem]:
    from kafka_s3.connect.joda.zones import zone

    given = settings.text("timezone")
    if not given:
        return
    try:
        zone(given)
    except ValueError:
        yield problem("timezone", "is not a known zone id.", _zone_hint(given))


def _zone_hint(given: str) -> str:
    near = difflib.get_close_matches(given, available_timezones(), n=1, cutoff=0.7)
    meant = SHORT_ZONES.get(given.upper()) or next(iter(near), None)
    return (
        f"Did you mean {meant}?" if meant else "Use a long id such as Europe/Paris, UTC, or an offset such as +05:30."
    )


def _time_needs_zone_and_locale(settings: Settings) -> Iterator[Problem]:
    if is_time_partitioner(settings):
        for key, example in (("timezone", "UTC"), ("locale", "en")):
            if not settings.text(key):
                yield problem(key, "must not be blank for a time partitioner.", f"Set it, for example to {example}.")


def _schedule_needs_zone(settings: Settings) -> Iterator[Problem]:
    if (
        settings.number("rotate.schedule.interval.ms") > 0
        and not settings.text("timezone")
        and not is_time_partitioner(settings)
    ):
        yield problem("timezone", "must be set with rotate.schedule.interval.ms.", "Set it, for example to UTC.")


def _path_is_a_pattern(settings: Settings) -> Iterator[Problem]:
    from kafka_s3.connect.joda.pattern import check_pattern

    if settings.text("partitioner.class") not in PATTERN_PARTITIONERS:
        return
    pattern, example = settings.text("path.format"), "For example: 'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH."
    if not pattern or pattern == settings.text("directory.delim"):
        yield problem("path.format", "must not be blank for TimeBasedPartitioner.", example)
        return
    fault = check_pattern(pattern)
    if fault:
        yield problem(
            "path.format", f"is not a Joda-Time pattern: {fault.rstrip('.')}.", f"Put plain text in quotes. {example}"
        )


def _duration_is_positive(settings: Settings) -> Iterator[Problem]:
    by_pattern = settings.text("partitioner.class") in PATTERN_PARTITIONERS
    if by_pattern and settings.number("partition.duration.ms") <= 0:
        yield problem("partition.duration.ms", "must be positive for TimeBasedPartitioner.", "3600000 is an hour.")


def _fields_are_named(settings: Settings) -> Iterator[Problem]:
    names = settings.names("partition.field.name")
    if any(not part.strip() for name in names for part in name.split(".")):
        yield problem(
            "partition.field.name",
            "holds a blank name or a blank part between dots.",
            "Write a,b.c without stray separators.",
        )
    elif not names and settings.text("partitioner.class") in FIELD_PARTITIONERS:
        yield problem(
            "partition.field.name", "must be set for FieldPartitioner.", "Name the fields, separated by commas."
        )


def _timestamp_field_is_named(settings: Settings) -> Iterator[Problem]:
    field = settings.text("timestamp.field")
    if settings.text("timestamp.extractor") == "RecordField" and not all(part.strip() for part in field.split(".")):
        yield problem(
            "timestamp.field", "must name a field, without blank parts between dots.", "For example: created_at."
        )


CODECS: Final = {"avro": ("Avro", "avro.codec"), "parquet": ("Parquet", "parquet.codec")}


def _gzip_is_for_text(settings: Settings) -> Iterator[Problem]:
    form = settings.text("format.class")
    if settings.text("s3.compression.type") == "gzip" and form in CODECS:
        name, codec = CODECS[form]
        yield problem(
            "s3.compression.type",
            f"gzip does not go with {name} objects.",
            f"Use none, and {codec} for their own compression.",
        )
        yield problem("format.class", "does not go with s3.compression.type=gzip.", f"Use none, and {codec}.")


def _parquet_needs_a_schema(settings: Settings) -> Iterator[Problem]:
    if settings.text("format.class") != "parquet":
        return
    converter = settings.text("value.converter")
    if converter in FIELDLESS:
        yield problem(
            "value.converter",
            "gives values without fields, which Parquet cannot hold.",
            "Use the JSON converter, or JsonFormat.",
        )
    elif converter == "json" and not settings.flag("value.converter.schemas.enable") and not _schema_options(settings):
        remedy = "Use schemas.enable=true with envelopes" + (
            "." if settings.strict else ", or set value.schema or value.schema.inference=true."
        )
        yield problem(
            "value.converter.schemas.enable", "false gives values without a schema, which Parquet needs.", remedy
        )


def _schema_options(settings: Settings) -> list[str]:
    given = {
        "value.schema": bool(settings.text("value.schema")),
        "value.schema.inference": settings.flag("value.schema.inference"),
    }
    return [key for key, is_set in given.items() if is_set]


def _strict_has_no_schema_options(settings: Settings) -> Iterator[Problem]:
    for key in _schema_options(settings) if settings.strict else ():
        yield beyond_the_original(key)


def _value_schema_is_a_struct(settings: Settings) -> Iterator[Problem]:
    from kafka_s3.connect.schemas.connect import SchemaError, SchemaType, read_schema

    text = settings.text("value.schema")
    if not text:
        return
    example = 'For example: {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}.'
    try:
        schema = read_schema(json.loads(text))
    except json.JSONDecodeError as error:
        yield problem("value.schema", f"is not JSON: {error.msg} at column {error.colno}.", example)
    except SchemaError as error:
        yield problem("value.schema", f"is not a Connect schema: {error}", example)
    else:
        if schema.kind is not SchemaType.STRUCT:
            yield problem("value.schema", f"must be a struct, not {schema.kind}.", example)


def _compatibility_is_known(settings: Settings, *, strict: bool) -> Iterator[Problem]:
    """A problem; with strict compatibility only a warning."""
    given = settings.text("schema.compatibility")
    if settings.strict is strict and given not in COMPATIBILITIES:
        acts = "is unknown and acts as NONE, as in the original."
        rule = acts if strict else f"must be one of: {', '.join(COMPATIBILITIES)}."
        near = difflib.get_close_matches(given.upper(), COMPATIBILITIES, n=1)
        yield problem("schema.compatibility", rule, f"Did you mean {near[0]}?" if near else "")


def _interval_without_time(settings: Settings) -> Iterator[Problem]:
    if settings.number("rotate.interval.ms") > 0 and not rotates_by_time(settings):
        yield problem(
            "rotate.interval.ms",
            "is ignored, because the partitioner does not use time.",
            "rotate.schedule.interval.ms works here; under partitioners by field, header or key timestamp.extractor makes it act.",
        )


def _locale_with_region(settings: Settings) -> Iterator[Problem]:
    letters = _LITERAL.sub("", settings.text("path.format"))
    if re.search("[-_]", settings.text("locale")) and is_time_partitioner(settings) and _TEXT_LETTERS.search(letters):
        language = re.split("[-_]", settings.text("locale"))[0]
        yield problem("locale", "acts as an unknown language, as in the original: names of months come out short and plain.",
                      f"Write {language} for names in that language.")  # fmt: skip


def _schema_options_without_effect(settings: Settings) -> Iterator[Problem]:
    given = _schema_options(settings)
    useful = (
        settings.text("format.class") == "parquet"
        and settings.text("value.converter") == "json"
        and not settings.flag("value.converter.schemas.enable")
    )
    for key in given if not useful else ():
        yield problem(
            key, "has no effect: it is for Parquet from the JSON converter with schemas.enable=false.", "Leave it out."
        )
    if useful and len(given) == 2:
        yield problem("value.schema.inference", "has no effect beside value.schema.", "Leave one of the two out.")


_SCHEMA = ("value.schema", "value.schema.inference")
_VALUES = ("format.class", "value.converter", "value.converter.schemas.enable")


NAME: Final = "object.name.template"
DIRECTORY: Final = "directory.template"
_EXAMPLES: Final = {NAME: "For example ${topic}-${partition}-${offset}.", DIRECTORY: "For example raw/${directory}."}


def _templates_are_sound(settings: Settings) -> Iterator[Problem]:
    for key, fault in ((NAME, name_fault), (DIRECTORY, directory_fault)):
        template = settings.text(key)
        reason = (fault(template) or _left(template)) if template else None
        if reason is not None:
            yield problem(key, reason, _EXAMPLES[key])


def _left(template: str) -> str | None:
    refused = part_refusal(template)
    return f"{refused}." if refused else None


def _topics_are_told_apart(settings: Settings) -> Iterator[Problem]:
    """Topics have the same partitions and offsets; so do two that a transform sends to one."""
    name, folder = settings.text(NAME), settings.text(DIRECTORY) or CONNECT_DIRECTORY
    if not name or TOPIC in name:
        return
    several = bool(settings.text("topics.regex")) or len(settings.names("topics")) > 1
    if routes(settings) or (several and TOPIC not in folder):
        yield problem(NAME, "lacks ${topic}: files of two topics could get one name.", _EXAMPLES[NAME])


def _files_are_found_again(settings: Settings) -> Iterator[Problem]:
    """A file that is made again is distinguished from those of other topics by its key, which a new time would change."""
    if "${time}" in settings.text(NAME) and routes(settings):
        yield problem(NAME, "has ${time}, which does not go with transforms that change topics.", "Leave it out.")


def _objects_stay_out_of_the_state(settings: Settings) -> Iterator[Problem]:
    folder = settings.text(DIRECTORY)
    if not folder or directory_fault(folder):
        return
    names = TemplateNames(settings.text("topics.dir"), folder, connect_template("+"), 1)
    key = names.key(TopicPartition("t", 0), "d", offset=0, extension="")
    reason = refusal(key, state_prefix=settings.text("state.prefix"))
    if reason is not None and part_refusal(folder) is None:
        yield problem(DIRECTORY, f"gives keys that are never written: {reason}", "Use another folder.")


def _delimiters_can_be_read(settings: Settings) -> Iterator[Problem]:
    """The default name is Connect's, with whatever `file.delim` is."""
    delimiter = settings.text("file.delim")
    if settings.text(DIRECTORY) and not settings.text(NAME) and name_fault(connect_template(delimiter)):
        rule = "does not go with directory.template: names could not be distinguished from folders, or partitions from offsets."
        yield problem("file.delim", rule, "Leave it out for +.")


def _not_with(settings: Settings) -> Iterator[Problem]:
    for key in (key for key in (NAME, DIRECTORY) if settings.text(key)):
        if settings.strict:
            yield beyond_the_original(key)
        for tables in (one for one in ("delta.enable", "iceberg.enable") if settings.flag(one)):
            yield problem(key, f"does not go with {tables}=true: tables lie in Connect's folders.", "Leave it out.")
        if settings.text("format.class") == BLOCK_GZIP_FORMAT:
            yield problem(key, "does not go with Block-GZIP, which has names of its own.", "Leave it out.")


_OWN_KEYS: Final = {
    "partition.header.name": "header",
    "partition.key.field": "key",
    "partition.field.format.path": "field_and_time",
}


def _headers_are_named(settings: Settings) -> Iterator[Problem]:
    names = settings.names("partition.header.name")
    if settings.text("partitioner.class") == "header" and not (names and all(names)):
        yield problem(
            "partition.header.name",
            "must be set, without blank names, for partitioner.class=header.",
            "For example: tenant,region.",
        )


def _key_fields_are_named(settings: Settings) -> Iterator[Problem]:
    if any(not part.strip() for name in settings.names("partition.key.field") for part in name.split(".")):
        yield problem(
            "partition.key.field", "holds a blank part between dots.", "Write a,b.c without stray separators."
        )


def _strict_has_the_originals(settings: Settings) -> Iterator[Problem]:
    if settings.strict and settings.text("partitioner.class") in ("header", "key"):
        yield beyond_the_original("partitioner.class")


def _of_another_partitioner(settings: Settings) -> Iterator[Problem]:
    for key, name in _OWN_KEYS.items():
        if settings.given(key) and settings.text("partitioner.class") != name:
            yield problem(key, f"has no effect: it is for partitioner.class={name}.", "Set that, or leave it out.")


def _fields_close_files(settings: Settings) -> Iterator[Problem]:
    """As with the plugin: its directories are a time partitioner's to the writer."""
    by_change = settings.number("rotate.interval.ms") > 0 and settings.flag("rotate.file.on.partition.change")
    if settings.text("partitioner.class") == "field_and_time" and by_change:
        rule = "closes all files at each record whose fields differ from those of the one before, as in the original."
        yield problem("rotate.file.on.partition.change", rule, "Set it to false, if fields alternate.")


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
        rule = f"is not a pattern of Java's SimpleDateFormat: {str(error).rstrip('.')}."
        yield problem("timestamp.field.format", rule, "Put plain text in quotes, for example yyyy-MM-dd'T'HH:mm:ss.")


def _strict_reads_times_as_the_original(settings: Settings) -> Iterator[Problem]:
    for key, default in _OURS.items() if settings.strict else ():
        if settings.text(key) != default:
            yield beyond_the_original(key)


def _only_fields_have_a_form(settings: Settings) -> Iterator[Problem]:
    for key in _FORM if settings.text("timestamp.extractor") != "RecordField" else ():
        if settings.text(key) != _OURS[key]:
            yield problem(
                key, "has no effect: it is for timestamp.extractor=RecordField.", "Set that, or leave it out."
            )


PROBLEMS: Final = (
    Rule(("timezone",), _zone_is_known),
    Rule(("partitioner.class", "timezone", "locale"), _time_needs_zone_and_locale),
    Rule(("rotate.schedule.interval.ms", "timezone", "partitioner.class"), _schedule_needs_zone),
    Rule(("partitioner.class", "path.format", "directory.delim"), _path_is_a_pattern),
    Rule(("partitioner.class", "partition.duration.ms"), _duration_is_positive),
    Rule(("partitioner.class", "partition.field.name"), _fields_are_named),
    Rule(("timestamp.extractor", "timestamp.field"), _timestamp_field_is_named),
    Rule(("s3.compression.type", "format.class"), _gzip_is_for_text),
    Rule((*_VALUES, *_SCHEMA, "compatibility.strict"), _parquet_needs_a_schema),
    Rule((*_SCHEMA, "compatibility.strict"), _strict_has_no_schema_options),
    Rule(("value.schema",), _value_schema_is_a_struct),
    Rule(("schema.compatibility", "compatibility.strict"), partial(_compatibility_is_known, strict=False)),
    Rule((NAME, DIRECTORY), _templates_are_sound),
    Rule((NAME, DIRECTORY, "topics", "topics.regex", "transforms", "predicates"), _topics_are_told_apart),
    Rule((NAME, "transforms", "predicates"), _files_are_found_again),
    Rule((DIRECTORY, "topics.dir", "state.prefix"), _objects_stay_out_of_the_state),
    Rule((NAME, DIRECTORY, "file.delim"), _delimiters_can_be_read),
    Rule((NAME, DIRECTORY, "compatibility.strict", "delta.enable", "iceberg.enable", "format.class"), _not_with),
    Rule(("partitioner.class", "partition.header.name"), _headers_are_named),
    Rule(("partition.key.field",), _key_fields_are_named),
    Rule(("partitioner.class", "compatibility.strict"), _strict_has_the_originals),
    Rule(("timestamp.field.format",), _format_is_a_pattern),
    Rule((*_OURS, "compatibility.strict"), _strict_reads_times_as_the_original),
)
WARNINGS: Final = (
    Rule(("schema.compatibility", "compatibility.strict"), partial(_compatibility_is_known, strict=True)),
    Rule(
        ("rotate.interval.ms", "partitioner.class", "timestamp.extractor", "compatibility.strict"),
        _interval_without_time,
    ),
    Rule(("partitioner.class", "path.format", "locale"), _locale_with_region),
    Rule((*_VALUES, *_SCHEMA), _schema_options_without_effect),
    Rule(("partitioner.class", *_OWN_KEYS), _of_another_partitioner),
    Rule(("partitioner.class", "rotate.interval.ms", "rotate.file.on.partition.change"), _fields_close_files),
    Rule((*_FORM, "timestamp.extractor"), _only_fields_have_a_form),
    Rule(_PARTITIONS, _directories_have_names_of_their_own),
    Rule((*_PARTITIONS, "value.schema"), _columns_are_no_directories),
)
