"""`kafka-s3 new`: how does somebody get a first configuration? The questions of the managed connector's form, answered by flags or in turn.

What a question says and takes is the option's row in the table; nothing is written that does not validate. Secrets are references.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kafka_s3.cli.arguments import Overrides
from kafka_s3.cli.composed import composed
from kafka_s3.config.classes import MANAGED_CLOUD
from kafka_s3.config.option import Option, Type, parse
from kafka_s3.config.options.table import CLOUD, EXACT
from kafka_s3.config.read import pairs
from kafka_s3.config.references import has_reference
from kafka_s3.config.valid_values import InvalidValue
from kafka_s3.config.validate import validate
from kafka_s3.model.errors import ConfigError, Problem

WITH_SCHEMA: Final = ("AVRO", "JSON_SR", "PROTOBUF")
REGISTRY: Final = "value.converter.schema.registry.url"
Answers = dict[str, str]


def _always(answers: Mapping[str, str]) -> bool:
    return True


def _reads_schemas(answers: Mapping[str, str]) -> bool:
    return answers.get("input.data.format", "") in WITH_SCHEMA


def _is_gzip(answers: Mapping[str, str]) -> bool:
    return answers.get("compression.codec", "").endswith("gzip")


@dataclass(frozen=True, slots=True)
class Question:
    """A key that is asked for, whether it must be answered, and when it is of use."""

    key: str
    needed: bool = False
    when: Callable[[Mapping[str, str]], bool] = _always

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return "--" + self.key.replace(".", "-")

    @property
    def option(self) -> Option:
        """The row of the table."""
        return CLOUD.get(self.key) or EXACT[self.key]


QUESTIONS: Final = (
    Question("topics", needed=True),
    Question("name", needed=True),
    Question("kafka.bootstrap.servers", needed=True),
    Question("input.data.format", needed=True),
    Question(REGISTRY, needed=True, when=_reads_schemas),
    Question("kafka.api.key", needed=True),
    Question("kafka.api.secret", needed=True),
    Question("aws.access.key.id", needed=True),
    Question("aws.secret.access.key", needed=True),
    Question("s3.bucket.name", needed=True),
    Question("s3.region"),
    Question("output.data.format", needed=True),
    Question("topics.dir"),
    Question("path.format"),
    Question("time.interval", needed=True),
    Question("rotate.schedule.interval.ms"),
    Question("rotate.interval.ms"),
    Question("flush.size"),
    Question("timestamp.field"),
    Question("timezone"),
    Question("locale"),
    Question("compression.codec"),
    Question("s3.compression.level", when=_is_gzip),
    Question("tasks.max", needed=True),
)
"""In the order of the form, with the brokers, the registry and the region, which the managed cloud knows by itself."""


def _given(**flags: str | None) -> Answers:
    """The answers that flags give, by key."""
    return {question.key: text for question in QUESTIONS if (text := flags[_name(question)]) is not None}


def _name(question: Question) -> str:
    return question.key.replace(".", "_")


_given.__signature__ = Signature([  # type: ignore[attr-defined]
    Parameter(
        _name(question), Parameter.KEYWORD_ONLY, default=None,
        annotation=Annotated[str | None, typer.Option(question.flag, help=question.option.doc)],
    )
    for question in QUESTIONS
])  # fmt: skip


@composed(answers=_given)
def new(
    answers: Answers,
    file: Annotated[Path | None, typer.Argument(help="The file to write; by default NAME.json.")] = None,
    overrides: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a checked configuration of the managed connector's kind: asks in a terminal what no flag answers."""
    answers |= pairs(overrides)
    for question in QUESTIONS:
        if question.key in answers or not question.when(answers):
            continue
        if sys.stdin.isatty():
            _ask(question, answers)
    config = {"name": answers.pop("name", ""), "connector.class": MANAGED_CLOUD, **answers}
    _refuse_what_is_wrong(config)
    target = file or Path(f"{config['name']}.json")
    if target.exists() and not force:
        raise ConfigError([Problem("FILE", str(target), "is there already.", "Name another file, or give --force.")])
    target.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    typer.echo(f"{target} is written and valid. Next: kafka-s3 doctor {target}")


def _ask(question: Question, answers: Answers) -> None:
    """Asks until the answer fits; a blank one leaves out what need not be answered."""
    option = question.option
    values = f" [{option.valid.text}]" if option.valid.text else ""
    default = f" ({option.default})" if option.default else ""
    while True:
        text = str(
            typer.prompt(f"{question.key}{values}{default}: {option.doc}\n ", default="", show_default=False)
        ).strip()
        if not text and not question.needed:
            return
        reason = _unfit(option, text)
        if reason is None:
            answers[question.key] = text
            return
        typer.echo(f"  {reason}")


def _unfit(option: Option, text: str) -> str | None:
    if not text:
        return f"{option.key} must be answered."
    if has_reference(text):
        return None
    if option.type is Type.PASSWORD:
        return _plain_secret(option).remedy
    try:
        parse(option, text)
    except InvalidValue as unfit:
        return f"{option.key} {unfit.rule} {unfit.remedy}".rstrip()
    return None


def _plain_secret(option: Option) -> Problem:
    remedy = (
        f"Give a reference, as {option.example}: it is resolved when the sink starts, and no file holds the secret."
    )
    return Problem(option.key, "****", "is a secret in clear.", remedy)


def _refuse_what_is_wrong(config: Mapping[str, str]) -> None:
    """Raises ConfigError with everything that is wrong; a missing answer names its flag."""
    problems: list[Any] = [
        _plain_secret(CLOUD[key])
        for key, text in config.items()
        if key in CLOUD and CLOUD[key].type is Type.PASSWORD and not has_reference(text)
    ]
    flags = {question.key: question.flag for question in QUESTIONS}
    for found in validate(config).problems:
        missing = found.value in (None, "") and found.key in flags
        remedy = (
            f"Give {flags[found.key]}, or answer in a terminal. {found.remedy}".rstrip() if missing else found.remedy
        )
        problems.append(Problem(found.key, found.value, found.rule, remedy))
    if problems:
        raise ConfigError(problems)
