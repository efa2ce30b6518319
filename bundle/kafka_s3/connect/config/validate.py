"""Is a configuration usable? Every problem at once, before anything is read from Kafka or S3.

The spelling first, then keys one by one, values that follow from others, and the rules across keys.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kafka_s3.connect.config.classes import BLOCK_GZIP_FORMAT, CONVERTER_SETTINGS, PATTERN_PARTITIONERS
from kafka_s3.connect.config.dialects import SpelledConfig
from kafka_s3.connect.config.dialects.managed_cloud import translations
from kafka_s3.connect.config.dialects.spelling import INSTEAD, another_products, self_managed
from kafka_s3.connect.config.option import (
    INT_MAX,
    InvalidValue,
    Option,
    OptionStatus,
    Value,
    check_filled_in,
    check_rendered,
    default_of,
    did_you_mean,
    parse,
    unsupported,
)
from kafka_s3.connect.config.options.table import OPTIONS, option_of, presentable, similar_key
from kafka_s3.connect.config.plugins import own_options
from kafka_s3.connect.config.read import ConfigFile, empty, is_setting, read_form, read_worker, remedy_for, under
from kafka_s3.connect.config.references import SecretSource, has_reference, malformed, resolve_texts
from kafka_s3.connect.config.rules import (
    Rule,
    clients,
    delivery,
    followers,
    is_time_partitioner,
    objects,
    packages,
    problem,
    records,
    rotates_by_time,
)
from kafka_s3.connect.config.rules.records import refused_by_plugins
from kafka_s3.connect.config.settings import Settings, defaults
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.text import MASK

PROBLEMS: Final = (
    *delivery.PROBLEMS,
    *objects.PROBLEMS,
    *records.PROBLEMS,
    *clients.PROBLEMS,
    *delivery.KEY_PROBLEMS,
    *followers.PROBLEMS,
    *packages.PROBLEMS,
    *records.TRANSFORM_PROBLEMS,
    *clients.ADDRESS_PROBLEMS,
)
"""In the order in which they are reported."""
WARNINGS: Final = (
    *delivery.WARNINGS,
    *objects.WARNINGS,
    *records.WARNINGS,
    *clients.WARNINGS,
    *delivery.KEY_WARNINGS,
    *records.TRANSFORM_WARNINGS,
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """A configuration with everything that is wrong or odd about it. `settings` are fit for use only where there are no problems.

    `unknown` are those of the warnings that are about keys nobody reads.
    """

    settings: Settings
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    unknown: tuple[Problem, ...] = ()

    def usable(self) -> Settings:
        """The settings. Raises ConfigError with every problem where there are some; warnings go to the log."""
        if self.problems:
            raise ConfigError(self.problems)
        for warning in self.warnings:
            _log.warning("%s", warning)
        return self.settings


def validate(raw: Mapping[str, str], *, worker: Mapping[str, str] | None = None) -> CheckedConfig:
    """Checks a connector's configuration in any spelling, with the settings of `read_worker` as defaults.

    Values that hold references are checked as far as they can be seen; `resolved` checks the rest.
    """
    return _checked(raw, worker or {}, concealed=None)


def check_file(
    path: Path | str, *, worker_path: Path | None = None, overrides: Mapping[str, str] | None = None
) -> CheckedConfig:
    """Reads and checks a file. `overrides` win over the file. Raises ConfigError where the file cannot be read as what it is."""
    given, worker = read_form(Path(path)), read_worker(worker_path) if worker_path else ConfigFile({})
    if not given.texts and not given.problems:
        raise empty(Path(path))
    over = overrides or {}
    checked = validate({**given.texts, **over}, worker=worker.texts)
    formless = {found.key: found for found in given.problems if found.key not in over}
    others = [found for found in checked.problems if found.key not in formless]
    warnings = (*given.warnings, *worker.warnings, *checked.warnings)
    return replace(checked, problems=(*formless.values(), *others), warnings=warnings)


def load(path: Path | str, *, worker_path: Path | None = None, overrides: Mapping[str, str] | None = None) -> Settings:
    """The settings of a file. `overrides` win over the file. Raises ConfigError with all problems at once."""
    return check_file(path, worker_path=worker_path, overrides=overrides).usable()


def resolved(settings: Settings, sources: Sequence[SecretSource] = ()) -> Settings:
    """The settings with references resolved, checked again. Raises ConfigError, whose problems name keys and references, never values."""
    raw, worker = resolve_texts(settings.source, sources), resolve_texts(settings.worker, sources)
    concealed = settings.concealed | raw.concealed | worker.concealed
    missing = {*raw.problems, *worker.problems}
    if missing:
        raise ConfigError([p for p in (*raw.problems, *worker.problems) if p in missing])
    checked = _checked(raw.texts, worker.texts, concealed=concealed)
    if checked.problems:
        raise ConfigError(checked.problems)
    return checked.settings


def _checked(raw: Mapping[str, str], worker: Mapping[str, str], *, concealed: frozenset[str] | None) -> CheckedConfig:
    """Everything in order: spelling, keys one by one, required keys, derived values, rules. `concealed` is None before resolution."""
    other = another_products(raw)
    if other is not None:
        nothing = Settings(dict(defaults()), frozenset(), frozenset(), frozenset(), dict(raw), dict(worker))
        return CheckedConfig(nothing, _Finish(SpelledConfig(raw), raw, frozenset()).all([other]), ())
    translation = self_managed(raw, worker)
    texts = under(translation.texts, worker)
    own, own_problems = own_options(texts)
    values = _one_by_one(texts, translation, own, is_resolved=concealed is not None)
    values.problems += own_problems
    hidden = concealed or frozenset()
    settings = Settings(
        values={**defaults(), **{key: default_of(option) for key, option in own.items()}, **values.settled},
        given_keys=frozenset(texts),
        pending=frozenset(values.pending),
        concealed=hidden.union(*map(translations, hidden)),
        source=dict(raw),
        worker=dict(worker),
    )
    unsettled = frozenset({*values.pending, *values.failed})
    settings, derivation = _with_derived(settings, unsettled)
    problems = (*values.problems, *derivation.problems, *_broken(PROBLEMS, settings, unsettled))
    if not problems and not settings.pending:
        problems = tuple(refused_by_plugins(settings))
    unknown = (*_unknown_of_worker(worker), *values.unknown, *_unknown_of_converters(settings))
    warnings = (*translation.warnings, *unknown, *values.warnings, *derivation.warnings)
    finish = _Finish(translation, {**worker, **raw}, settings.concealed)
    warned = finish.all((*warnings, *_broken(WARNINGS, settings, unsettled)))
    return CheckedConfig(settings, finish.all(problems), warned, finish.all(unknown))


@dataclass(slots=True)
class _Values:
    """What the keys say one by one."""

    settled: dict[str, Value] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    unknown: list[Problem] = field(default_factory=list)


def _one_by_one(
    texts: Mapping[str, str], translation: SpelledConfig, own: Mapping[str, Option], *, is_resolved: bool
) -> _Values:
    values = _Values(failed=set(translation.failed), problems=list(translation.problems))
    for key, text in texts.items():
        if not is_resolved and _waits_for_a_tool(key, text, values):
            continue
        if not is_resolved and has_reference(text):
            values.pending.add(key)
            values.problems += malformed(key, text)
        else:
            _take(key, text, values, own, renamed={} if translation.spelled else INSTEAD)
    values.problems += _missing(values, texts, own.values())
    return values


def _waits_for_a_tool(key: str, text: str, values: _Values) -> bool:
    try:
        check_rendered(key, text)
    except InvalidValue as unfit:
        values.failed.add(key)
        values.problems.append(problem(key, unfit.rule, unfit.remedy))
        return True
    return False


def _take(key: str, text: str, values: _Values, own: Mapping[str, Option], *, renamed: Mapping[str, str]) -> None:
    option = own.get(key) or option_of(key)
    if option is None:
        near = did_you_mean(key, own) or similar_key(key, renamed)
        values.unknown.append(problem(key, "is not a known key and is ignored.", near))
        return
    try:
        check_filled_in(option, text)
        value = parse(option, text)
    except InvalidValue as unfit:
        values.failed.add(key)
        values.problems.append(problem(key, unfit.rule, unfit.remedy or option.note))
        return
    values.settled[key] = value
    refusal = unsupported(option, value)
    if refusal:
        near = similar_key(key, renamed) if option.family else ""
        values.problems.append(problem(key, refusal.rule, f"{near} {refusal.remedy}".strip()))
    elif option.status is OptionStatus.INFORMATIONAL and not _is_quiet(option, value):
        values.warnings.append(problem(key, "has no effect.", option.note))


def _is_quiet(option: Option, value: Value) -> bool:
    # converters of keys and headers are in nearly every configuration; whoever sets a default asks for nothing
    return option.key.startswith(("key.converter", "header.converter", "value.converter.*")) or value == default_of(
        option
    )


def _missing(values: _Values, texts: Mapping[str, str], own: Iterable[Option]) -> Iterator[Problem]:
    for option in (*OPTIONS, *own):
        if option.required and option.key not in texts and option.key not in values.failed:
            yield problem(option.key, "is required.", option.doc)


_TIME_DEFAULTS: Final[Mapping[str, Value]] = {
    "partition.duration.ms": 3_600_000, "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "locale": "en", "timezone": "UTC",
}  # fmt: skip
"""Hourly directories in UTC: what a time partitioner gets outside of strict where its keys are not set."""
_NO_COUNT: Final = INT_MAX
"""The flush.size in effect where only other rules close files."""
_ROTATION_KEYS: Final = (
    "flush.size", "flush.bytes", "flush.idle.ms", "rotate.interval.ms", "rotate.schedule.interval.ms", "partitioner.class",
    "s3.part.size", "compatibility.strict", "format.class", "timestamp.extractor",
)  # fmt: skip
_BLOCK_GZIP_KEYS: Final = (
    "block.gzip.file.interval.ms",
    "block.gzip.file.grace.ms",
    "offset.flush.interval.ms",
    "flush.bytes",
    "timezone",
)


@dataclass(frozen=True, slots=True)
class _Derivation:
    """Values to put in place, and what the user should know or mend."""

    values: Mapping[str, Value] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def _with_derived(settings: Settings, unsettled: frozenset[str]) -> tuple[Settings, _Derivation]:
    """The settings with their derived values, as far as the keys they follow from are settled."""
    if settings.values.get("format.class") == BLOCK_GZIP_FORMAT and not unsettled.intersection(_BLOCK_GZIP_KEYS):
        settings = replace(settings, values={**settings.values, **_block_gzip(settings)})
    found = [] if {*_TIME_DEFAULTS, "partitioner.class", "compatibility.strict"} & unsettled else [_time(settings)]
    tail = "tail.check.interval.ms"
    if not {tail, "compatibility.strict"} & unsettled and settings.strict and not settings.given(tail):
        found.append(_Derivation({tail: 0}))
    if not unsettled.intersection(_ROTATION_KEYS):
        found.append(_rotation(settings))
    whole = _Derivation(
        {key: value for one in found for key, value in one.values.items()},
        tuple(p for one in found for p in one.problems),
        tuple(p for one in found for p in one.warnings),
    )
    return replace(settings, values={**settings.values, **whole.values}), whole


def _block_gzip(settings: Settings) -> dict[str, Value]:
    """Files are closed at the worker's flush; a fork also closes them by record time, and quiet ones by the clock (SEMANTICS B1, B4)."""
    interval, grace = settings.number("block.gzip.file.interval.ms"), settings.number("block.gzip.file.grace.ms")
    values: dict[str, Value] = {"timezone": settings.text("timezone") or "UTC"}
    if interval <= 0 and settings.number("flush.bytes") <= 0:  # the fork's rules take the flush's place
        values["rotate.schedule.interval.ms"] = settings.number("offset.flush.interval.ms")
    if interval > 0:
        values["flush.idle.ms"] = interval + (grace if grace >= 0 else interval // 2)
    return values


def _time(settings: Settings) -> _Derivation:
    """What a time partitioner needs and a guide's example leaves out; the original's tasks fail without it."""
    kind = settings.text("partitioner.class")
    wanted = (
        _TIME_DEFAULTS if kind in PATTERN_PARTITIONERS else {key: _TIME_DEFAULTS[key] for key in ("locale", "timezone")}
    )
    missing = {key: value for key, value in wanted.items() if not settings.given(key)}
    if settings.strict or not is_time_partitioner(settings) or not missing:
        return _Derivation()
    shown = ", ".join(f"{key}={value}" for key, value in missing.items())
    rule = f"is taken with {shown}, because nothing is set; tasks of the original fail there."
    return _Derivation(missing, warnings=(problem("partitioner.class", rule, "Set what you mean."),))


def _rotation(settings: Settings) -> _Derivation:
    if settings.given("flush.size"):
        if settings.number("flush.size") >= 1:
            return _Derivation()
        rule = "acts like 1: every record becomes an object of its own."
        return _Derivation({"flush.size": 1}, warnings=(problem("flush.size", rule, "Set the records per object."),))
    if settings.strict and settings.text("format.class") != BLOCK_GZIP_FORMAT:
        return _Derivation(
            problems=(problem("flush.size", "is required.", "Set the records per Kafka partition and commit."),)
        )
    if _closes_otherwise(settings):
        return _Derivation({"flush.size": _NO_COUNT})
    if settings.given("s3.part.size"):
        rule = "closes files here, because no rotation rule is set; in the original it never does."
        warning = problem("s3.part.size", rule, "Set flush.size or flush.bytes to say what is meant.")
        return _Derivation(
            {"flush.size": _NO_COUNT, "flush.bytes": settings.number("s3.part.size")}, warnings=(warning,)
        )
    others = "rotate.interval.ms with a time partitioner, rotate.schedule.interval.ms, flush.bytes or flush.idle.ms"
    return _Derivation(
        problems=(problem("flush.size", "is required, or nothing would ever close a file.", f"Set it, or {others}."),)
    )


def _closes_otherwise(settings: Settings) -> bool:
    by_time = settings.number("rotate.interval.ms") > 0 and rotates_by_time(settings)
    return by_time or any(
        settings.number(key) > 0 for key in ("rotate.schedule.interval.ms", "flush.bytes", "flush.idle.ms")
    )


def _broken(rules: Iterable[Rule], settings: Settings, unsettled: frozenset[str]) -> Iterator[Problem]:
    for rule in rules:
        if not unsettled.intersection(rule.reads):
            yield from rule.check(settings)


def _unknown_of_worker(worker: Mapping[str, str]) -> Iterator[Problem]:
    for key in worker:
        if not is_setting(key):
            yield problem(key, "of the worker file is not a known key and is ignored.", remedy_for(key))


def _unknown_of_converters(settings: Settings) -> Iterator[Problem]:
    for converter in ("key.converter", "value.converter"):
        name = settings.values.get(converter)
        known = [f"{converter}.{one}" for one in (*CONVERTER_SETTINGS.get(str(name), ()), "converter.type")]
        for key in sorted(settings.given_keys):
            if key.startswith(f"{converter}.") and key not in known:
                yield problem(key, "is not a setting of that converter and is ignored.", did_you_mean(key, known))


@dataclass(frozen=True, slots=True)
class _Finish:
    """Gives problems the key of the user's own spelling and the value as the user wrote it, masked where it must not show."""

    translation: SpelledConfig
    written: Mapping[str, str]
    concealed: frozenset[str]

    def all(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The problems, each once."""
        return tuple(dict.fromkeys(self._one(p) for p in problems))

    def _one(self, found: Problem) -> Problem:
        key = self.translation.spelled.get(found.key, found.key) if found.key not in self.written else found.key
        text = self.written.get(key)
        if found.value is not None or text is None:
            return replace(found, key=key)
        shown = MASK if key in self.concealed else presentable(key, text)
        hidden = replace(found, key=key, value=shown)
        return (
            replace(hidden, rule=_without(text, hidden.rule), remedy=_without(text, hidden.remedy))
            if shown == MASK
            else hidden
        )


def _without(text: str, words: str) -> str:
    return words.replace(text.strip(), MASK) if len(text.strip()) > 3 else words
