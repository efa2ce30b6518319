"""Is a configuration usable? Every problem at once, before anything is read from Kafka or S3."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kafka_s3.connect.config.classes import CONVERTER_SETTINGS
from kafka_s3.connect.config.config_file import ConfigFile, empty
from kafka_s3.connect.config.derived import with_derived
from kafka_s3.connect.config.dialects.cloud_keys import translations
from kafka_s3.connect.config.dialects.others import another_products
from kafka_s3.connect.config.dialects.spelled import SpelledConfig
from kafka_s3.connect.config.dialects.spelling import self_managed
from kafka_s3.connect.config.option import Option, OptionStatus, default_of, parse, unsupported
from kafka_s3.connect.config.options.forms import check_filled_in, check_rendered
from kafka_s3.connect.config.options.table import OPTIONS, option_of, presentable, similar_key
from kafka_s3.connect.config.plugins import own_options
from kafka_s3.connect.config.read import read_form
from kafka_s3.connect.config.references import SecretSource, has_reference, malformed, resolve_texts
from kafka_s3.connect.config.rules import addresses as rules_addresses
from kafka_s3.connect.config.rules import clients as rules_clients
from kafka_s3.connect.config.rules import columns as rules_columns
from kafka_s3.connect.config.rules import delivery as rules_delivery
from kafka_s3.connect.config.rules import delta as rules_delta
from kafka_s3.connect.config.rules import followers as rules_followers
from kafka_s3.connect.config.rules import forms as rules_forms
from kafka_s3.connect.config.rules import keys as rules_keys
from kafka_s3.connect.config.rules import names as rules_names
from kafka_s3.connect.config.rules import objects as rules_objects
from kafka_s3.connect.config.rules import partitioners as rules_partitioners
from kafka_s3.connect.config.rules import records as rules_records
from kafka_s3.connect.config.rules import timestamps as rules_timestamps
from kafka_s3.connect.config.rules import transforms as rules_transforms
from kafka_s3.connect.config.rules.plugins import refused_by_plugins
from kafka_s3.connect.config.rules.rule import Rule, problem
from kafka_s3.connect.config.settings import Settings, defaults
from kafka_s3.connect.config.valid_values import InvalidValue, Value, did_you_mean
from kafka_s3.connect.config.worker import is_setting, read_worker, remedy_for, under
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.text import MASK

PROBLEMS: Final = (
    *rules_delivery.PROBLEMS,
    *rules_objects.PROBLEMS,
    *rules_names.PROBLEMS,
    *rules_partitioners.PROBLEMS,
    *rules_timestamps.PROBLEMS,
    *rules_records.PROBLEMS,
    *rules_clients.PROBLEMS,
    *rules_keys.PROBLEMS,
    *rules_forms.PROBLEMS,
    *rules_delta.PROBLEMS,
    *rules_followers.PROBLEMS,
    *rules_transforms.PROBLEMS,
    *rules_addresses.PROBLEMS,
)
WARNINGS: Final = (
    *rules_delivery.WARNINGS,
    *rules_objects.WARNINGS,
    *rules_partitioners.WARNINGS,
    *rules_timestamps.WARNINGS,
    *rules_columns.WARNINGS,
    *rules_records.WARNINGS,
    *rules_clients.WARNINGS,
    *rules_keys.WARNINGS,
    *rules_forms.WARNINGS,
    *rules_transforms.WARNINGS,
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


@dataclass(slots=True)
class _Values:
    """What the keys say one by one."""

    settled: dict[str, Value] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    unknown: list[Problem] = field(default_factory=list)


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
    settings = Settings(
        values={**defaults(), **{key: default_of(option) for key, option in own.items()}, **values.settled},
        given_keys=frozenset(texts),
        pending=frozenset(values.pending),
        concealed=_with_their_translations(concealed or frozenset()),
        source=dict(raw),
        worker=dict(worker),
    )
    unsettled = frozenset({*values.pending, *values.failed})
    settings, derivation = with_derived(settings, unsettled)
    problems = (*values.problems, *derivation.problems, *_broken(PROBLEMS, settings, unsettled))
    if not problems and not settings.pending:
        problems = tuple(refused_by_plugins(settings))
    unknown = (*_unknown_of_worker(worker), *values.unknown, *_unknown_of_converters(settings))
    warnings = (*translation.warnings, *unknown, *values.warnings, *derivation.warnings)
    finish = _Finish(translation, {**worker, **raw}, settings.concealed)
    warned = finish.all((*warnings, *_broken(WARNINGS, settings, unsettled)))
    return CheckedConfig(settings, finish.all(problems), warned, finish.all(unknown))


def _with_their_translations(concealed: frozenset[str]) -> frozenset[str]:
    return concealed.union(*map(translations, concealed))


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
            _take(key, text, values, own)
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


def _take(key: str, text: str, values: _Values, own: Mapping[str, Option]) -> None:
    option = own.get(key) or option_of(key)
    if option is None:
        near = did_you_mean(key, own) or similar_key(key)
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
        near = similar_key(key) if option.family else ""
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
