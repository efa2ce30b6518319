"""`kafka-s3 validate|catalog|iam|lifecycle`: what does a configuration say, and what follows from it? No broker and no bucket is asked.

`validate` reports every problem at once. It asks a schema registry, for two seconds at most, where it alone knows fields that directories
could hide. `catalog` has the connectors and their keys. `iam` and `lifecycle` print, as JSON, what has to be set in AWS for one sink.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from kafka_s3.cli.arguments import ConfigPath, Output, OutputFormat, Overrides, WorkerPath, composed, sink_settings
from kafka_s3.cli.display import console, show_json, show_line
from kafka_s3.connect.config.catalog import CatalogEntry, entry, example_of, plugins
from kafka_s3.connect.config.catalog import catalog as entries
from kafka_s3.connect.config.option import Option, OptionGroup, OptionStatus
from kafka_s3.connect.config.read import pairs
from kafka_s3.connect.config.rules.objects import compared_with_registry
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import CheckedConfig, check_file
from kafka_s3.model.errors import ConfigError, Problem

catalog = typer.Typer(no_args_is_help=True, help="List the supported connectors and their keys.", add_completion=False)
LIMIT_S: Final = 2.0
LATER: Final = "kafka-s3 doctor compares them where the sink will run; --offline leaves it out."


def validate(
    config: ConfigPath,
    worker: WorkerPath = None,
    overrides: Overrides = None,
    effective: Annotated[
        bool, typer.Option("--effective", help="Also show every setting in effect, secrets masked.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Unknown keys are errors, not warnings.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask the schema registry for fields that a directory would hide.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check a configuration, and report all problems at once. Contacts no broker and no bucket, a registry for two seconds."""
    checked = check_file(config, worker_path=worker, overrides=pairs(overrides))
    if strict:
        rest = tuple(warning for warning in checked.warnings if warning not in checked.unknown)
        unknown = (replace(key, rule=key.rule.replace(" and is ignored", "")) for key in checked.unknown)
        checked = replace(checked, problems=(*checked.problems, *unknown), warnings=rest)
    hidden, unanswered = ((), "") if offline else _asked(checked)
    checked = replace(checked, warnings=(*checked.warnings, *hidden))
    if output is OutputFormat.JSON:
        show_json({**_document(checked, effective=effective), "not_checked": unanswered})
    else:
        _print(config, checked, effective=effective)
        if unanswered:
            show_line(console(), ("not checked:", "yellow"), f" {unanswered}")
    if checked.problems:
        raise typer.Exit(2)


def _asked(checked: CheckedConfig) -> tuple[tuple[Problem, ...], str]:
    """The fields of registered schemas that directories hide, and why they could not be asked for; blank where that was not so."""
    if checked.problems or not _may_be_asked(checked.settings):
        return (), ""
    from kafka_s3.ops.doctor.registry import (
        compare_registered_fields,
    )  # here: most configurations need no registry's client

    found = compare_registered_fields(checked.settings, limit_s=LIMIT_S)
    why = f"Fields of the registered schemas against the names of directories. {found.unanswered} {LATER}"
    return found.hidden, why if found.unanswered else ""


def _may_be_asked(settings: Settings) -> bool:
    try:
        return compared_with_registry(settings)
    except ConfigError:  # a reference stands for one of the keys
        return True


def _document(checked: CheckedConfig, *, effective: bool) -> dict[str, Any]:
    shown = {"settings": checked.settings.masked()} if effective and not checked.problems else {}
    return {
        "valid": not checked.problems,
        "problems": [asdict(problem) for problem in checked.problems],
        "warnings": [asdict(warning) for warning in checked.warnings],
        **shown,
    }


def _print(config: Path, checked: CheckedConfig, *, effective: bool) -> None:
    out = console(stderr=bool(checked.problems))
    _show(out, checked.problems, title=f"{config}: {_number(checked.problems, 'error')}", colour="red")
    _show(out, checked.warnings, title=f"{config}: {_number(checked.warnings, 'warning')}", colour="yellow")
    if checked.problems:
        return
    if effective:
        for key, value in checked.settings.masked().items():
            show_line(out, f"{key} = {value}")
    show_line(out, (f"{config} is valid", "green"), f": sink {checked.settings.name}")


def _number(found: Sequence[Problem], noun: str) -> str:
    return f"{len(found)} {noun}{'' if len(found) == 1 else 's'}"


def _show(out: Console, problems: Sequence[Problem], *, title: str, colour: str) -> None:
    """One block a problem; keys and values are never broken over lines, so that they can be searched for and copied."""
    if not problems:
        return
    show_line(out, (title, colour))
    for problem in problems:
        value = "not set" if problem.value is None else repr(problem.value)
        show_line(out, "  ", (problem.key, "bold"), f" ({value})")
        show_line(out, f"      {problem.rule} {problem.remedy}".rstrip())


@catalog.command("list")
def list_(output: Output = OutputFormat.TABLE) -> None:
    """List the connectors, and the plugins that are installed."""
    found = (*entries(), *plugins())
    if output is OutputFormat.JSON:
        typer.echo(json.dumps([{"name": one.name, one.key: one.connector, "doc": one.doc} for one in found]))
        return
    out = console()
    for one in found:
        show_line(out, f"{one.name:<16} {one.doc}")


@catalog.command("describe")
def describe(
    name: Annotated[
        str, typer.Argument(help="S3SinkConnector, S3_SINK or Block-GZIP, a connector.class, or a plugin.")
    ],
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show every key of a connector, required ones first: type, default, values, meaning, version, example."""
    found = entry(name)
    if output is OutputFormat.JSON:
        show_json(document(found))
        return
    out = console()
    for line in lines(found):
        show_line(out, line)


def document(found: CatalogEntry) -> dict[str, Any]:
    """The description for programs."""
    keys = [
        {
            "key": option.key, "required": required, "type": str(option.type), "default": _default(option), "values": option.valid.text,
            "since": option.since, "doc": option.doc, "status": str(option.status), "note": option.note, "example": example_of(option),
        }
        for option, required in found.rows()
    ]  # fmt: skip
    return {"name": found.name, found.key: found.connector, "doc": found.doc, "keys": keys}


def lines(found: CatalogEntry) -> Iterator[str]:
    """The description, one text a line."""
    rows = found.rows()
    yield f"{found.name}: {found.doc}"
    yield f"{found.key}={found.connector}"
    yield ""
    yield f"Required: {', '.join(option.key for option, required in rows if required) or 'none'}"
    for option, required in rows:
        yield ""
        yield from _row(option, required=required)


def _row(option: Option, *, required: bool) -> Iterator[str]:
    yield option.key + (" (required)" if required else "")
    facts = [f"type {option.type}", f"default {_default(option)}"]
    if option.valid.text:
        facts.append(f"values {option.valid.text}")
    if option.group is not OptionGroup.PLUGIN:  # whose versions are its own
        facts.append(f"since {option.since}")
    yield f"    {'; '.join(facts)}"
    yield f"    {option.doc}"
    if option.status is not OptionStatus.ACTED_ON:
        yield f"    {option.status.capitalize()}: {option.note}".rstrip()
    if option.not_yet:
        yield f"    Not yet: {', '.join(option.not_yet)}. {option.note}".rstrip()
    example = example_of(option)
    if example and not option.family:
        yield f"    example {option.key}={example}"


def _default(option: Option) -> str:
    if option.default is None:
        return "none"
    return {"": "blank", "\n": "line feed"}.get(option.default, option.default)


@composed(settings=sink_settings)
def iam(
    settings: Settings,
    rewrites: Annotated[
        bool, typer.Option("--rewrites", help="Also what compact and forget need: originals are deleted.")
    ] = False,
) -> None:
    """Print the smallest AWS policy with which this sink runs. Changes nothing, and does not contact AWS."""
    from kafka_s3.ops.policies import (
        rewriting_policy,  # loads converters and the store, which other commands here do without
        sink_policy,
    )

    show_json(rewriting_policy(settings) if rewrites or settings.flag("compact.enable") else sink_policy(settings))


@composed(settings=sink_settings)
def lifecycle(
    settings: Settings,
    transition: Annotated[
        list[str] | None,
        typer.Option(metavar="DAYS:CLASS", help="Move data objects, as 90:GLACIER; may be given more than once."),
    ] = None,
) -> None:
    """Print lifecycle rules for this sink's objects that leave its commit log alone. Changes nothing."""
    from kafka_s3.ops.policies import lifecycle_rules, transition_of

    transitions = [transition_of(text) for text in transition or ()]
    show_json(lifecycle_rules(settings, transitions))
