"""`kafka-s3 new`: how does somebody get a first configuration? By a few questions, answered by flags or in turn; with `--managed` by those
of the managed connector's form. What a default finds, such as AWS credentials, is not asked for.

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

from kafka_s3.cli.arguments import Overrides, composed, usage_error
from kafka_s3.connect.config.catalog import SECRET
from kafka_s3.connect.config.classes import CONFLUENT_CONVERTERS, MANAGED_CLOUD, SELF_MANAGED, STORAGES
from kafka_s3.connect.config.option import InvalidValue, KnownClass, Option, Type, masked, parse
from kafka_s3.connect.config.options.table import CLOUD, EXACT
from kafka_s3.connect.config.read import pairs
from kafka_s3.connect.config.references import has_reference
from kafka_s3.connect.config.validate import validate
from kafka_s3.model.errors import ConfigError, Problem

WITH_SCHEMA: Final = ("AVRO", "JSON_SR", "PROTOBUF")
CONVERTER, FORMAT, ENVELOPES = "value.converter", "format.class", "value.converter.schemas.enable"
MEANINGS: Final = {
    "false": "each message is plain JSON. With true each would have to be an envelope of schema and payload.",
    "true": 'each message is an envelope {"schema": ..., "payload": ...}; plain JSON is a bad record. With false it is plain JSON.',
}
"""What the JSON converter takes a message for, by `value.converter.schemas.enable`, whose default is that of Connect: true."""
REGISTRY: Final = "value.converter.schema.registry.url"
Answers = dict[str, str]


def _always(answers: Mapping[str, str]) -> bool:
    return True


def _reads_schemas(answers: Mapping[str, str]) -> bool:
    return answers.get("input.data.format", "") in WITH_SCHEMA


def _is_gzip(answers: Mapping[str, str]) -> bool:
    return answers.get("compression.codec", "").endswith("gzip")


def _is(answers: Mapping[str, str], key: str, *names: str) -> bool:
    """Whether a class is one of ours, by whatever name it was given."""
    try:
        return EXACT[key].valid.accept(answers.get(key, "")) in names
    except InvalidValue:
        return False


def _reads_json(answers: Mapping[str, str]) -> bool:
    return _is(answers, CONVERTER, "json")


def _asks_a_registry(answers: Mapping[str, str]) -> bool:
    return _is(answers, CONVERTER, *CONFLUENT_CONVERTERS)


def _infers_columns(answers: Mapping[str, str]) -> bool:
    plain = _reads_json(answers) and answers.get(ENVELOPES, "false") == "false"
    return plain and _is(answers, FORMAT, "parquet")


@dataclass(frozen=True, slots=True)
class Question:
    """A key that is asked for, whether it must be answered, when it is of use, and what is written where nothing is answered."""

    key: str
    needed: bool = False
    when: Callable[[Mapping[str, str]], bool] = _always
    suggested: str = ""

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return "--" + self.key.replace(".", "-")


def _row(key: str, *, managed: bool = False) -> Option:
    """The row of a key: the managed connector's own, where it has one and is meant."""
    return (CLOUD.get(key) if managed else None) or EXACT.get(key) or CLOUD[key]


QUESTIONS: Final = (
    Question("topics", needed=True),
    Question("name", needed=True),
    Question("kafka.bootstrap.servers", needed=True),
    Question(CONVERTER, needed=True),
    Question(ENVELOPES, when=_reads_json, suggested="false"),
    Question(REGISTRY, needed=True, when=_asks_a_registry),
    Question("s3.bucket.name", needed=True),
    Question("s3.region"),
    Question(FORMAT, needed=True),
    Question("value.schema.inference", when=_infers_columns, suggested="true"),
    Question("partitioner.class"),
    Question("flush.size", suggested="10000"),
    Question("flush.idle.ms", suggested="60000"),
    Question("errors.tolerance"),
)
"""For the self-managed connector: a broker without login, and the AWS role of wherever the sink runs."""
MANAGED_QUESTIONS: Final = (
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
FLAGS: Final = tuple({question.key: question for question in (*QUESTIONS, *MANAGED_QUESTIONS)}.values())


def _given(**flags: str | None) -> Answers:
    """The answers that flags give, by key."""
    return {question.key: text for question in FLAGS if (text := flags[_name(question)]) is not None}


def _name(question: Question) -> str:
    return question.key.replace(".", "_")


_given.__signature__ = Signature([  # type: ignore[attr-defined]
    Parameter(
        _name(question), Parameter.KEYWORD_ONLY, default=None,
        annotation=Annotated[str | None, typer.Option(question.flag, help=_row(question.key).doc)],
    )
    for question in FLAGS
])  # fmt: skip


@composed(answers=_given)
def new(
    answers: Answers,
    file: Annotated[Path | None, typer.Argument(help="The file to write; by default NAME.json.")] = None,
    overrides: Overrides = None,
    managed: Annotated[
        bool, typer.Option("--managed", help="Ask the managed connector's questions (connector.class=S3_SINK).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a checked configuration for a self-managed connector. In a terminal it asks for what no flag gives."""
    answers |= pairs(overrides)
    _refuse_flags_of_the_other_form(answers, managed=managed)
    for question in MANAGED_QUESTIONS if managed else QUESTIONS:
        if question.key in answers or not question.when(answers):
            continue
        if sys.stdin.isatty():
            _ask(question, _row(question.key, managed=managed), answers)
        if question.suggested and question.key not in answers:
            answers[question.key] = question.suggested
    name = answers.pop("name", "")
    config = {"name": name, **({"connector.class": MANAGED_CLOUD, **answers} if managed else _self_managed(answers))}
    _refuse_what_is_wrong(config)
    target = file or Path(f"{config['name']}.json")
    if target.exists() and not force:
        raise usage_error("FILE", str(target), "is there already.", "Name another file, or give --force.")
    target.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if ENVELOPES in config:
        typer.echo(f"{ENVELOPES}={config[ENVELOPES]}: {MEANINGS.get(config[ENVELOPES], '')}".rstrip(": "))
    typer.echo(f"{target} is written and valid. Next: kafka-s3 doctor {target}")


def _refuse_flags_of_the_other_form(answers: Answers, *, managed: bool) -> None:
    """Raises ConfigError for keys that only the managed connector has, where it was not asked for."""
    wrong = [] if managed else [key for key in answers if key in CLOUD and key not in EXACT]
    if wrong:
        rule = "is a key of the managed connector."
        raise ConfigError(
            [Problem(key, masked(key, answers[key]), rule, "Add --managed, or leave it out.") for key in wrong]
        )


def _self_managed(answers: Answers) -> Answers:
    """With classes by the names that Connect takes, so that the file goes there as well."""
    classes = {key: _java(key, answers[key]) for key in (CONVERTER, FORMAT, "partitioner.class") if key in answers}
    return {"connector.class": SELF_MANAGED, "storage.class": next(iter(STORAGES)), **answers, **classes}


def _java(key: str, text: str) -> str:
    """The whole Java name of a class; what has none, or is unknown, stays as it is."""
    valid = EXACT[key].valid
    if not isinstance(valid, KnownClass):
        return text
    try:
        ours = valid.accept(text)
    except InvalidValue:
        return text
    return next((java for java, name in valid.names.items() if name == ours), text)


def _ask(question: Question, option: Option, answers: Answers) -> None:
    """Asks until the answer fits; a blank one leaves out what need not be answered."""
    values = f" [{_values(option)}]" if option.valid.text else ""
    default = f" ({question.suggested or option.default})" if question.suggested or option.default else ""
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


def _values(option: Option) -> str:
    if isinstance(option.valid, KnownClass):
        return ", ".join(dict.fromkeys(java.rpartition(".")[2] for java in option.valid.names))
    return option.valid.text


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
    remedy = f"Give a reference, as {option.example or SECRET}: it is resolved when the sink starts, and no file holds the secret."
    return Problem(option.key, "****", "is a secret in clear.", remedy)


def _refuse_what_is_wrong(config: Mapping[str, str]) -> None:
    """Raises ConfigError with everything that is wrong; a missing answer names its flag."""
    problems: list[Any] = [
        _plain_secret(_row(key))
        for key, text in config.items()
        if (key in CLOUD or key in EXACT) and _row(key).type is Type.PASSWORD and not has_reference(text)
    ]
    flags = {question.key: question.flag for question in FLAGS}
    for found in validate(config).problems:
        missing = found.value in (None, "") and found.key in flags
        remedy = (
            f"Give {flags[found.key]}, or answer in a terminal. {found.remedy}".rstrip() if missing else found.remedy
        )
        problems.append(Problem(found.key, found.value, found.rule, remedy))
    if problems:
        raise ConfigError(problems)
