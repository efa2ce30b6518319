"""`kafka-s3 validate CONFIG`: is this configuration good? Every problem at once, before anything is read.

No broker and no bucket is asked. A schema registry is, for two seconds at most, where it alone knows fields that directories could hide.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from kafka_s3.cli.arguments import ConfigPath, Output, OutputFormat, Overrides, WorkerPath
from kafka_s3.cli.display import console, styled
from kafka_s3.connect.config.read import pairs
from kafka_s3.connect.config.rules.columns import compared_with_registry
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import CheckedConfig, check_file
from kafka_s3.model.errors import ConfigError, Problem

LIMIT_S: Final = 2.0
LATER: Final = "kafka-s3 doctor compares them where the sink will run; --offline leaves it out."


def validate_command(
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
    """Report everything that is wrong with a configuration: no broker and no bucket is asked, a schema registry for two seconds."""
    checked = check_file(config, worker_path=worker, overrides=pairs(overrides))
    if strict:
        rest = tuple(warning for warning in checked.warnings if warning not in checked.unknown)
        checked = replace(checked, problems=(*checked.problems, *checked.unknown), warnings=rest)
    hidden, unanswered = ((), "") if offline else _asked(checked)
    checked = replace(checked, warnings=(*checked.warnings, *hidden))
    if output is OutputFormat.JSON:
        print(json.dumps({**_document(checked, effective=effective), "not_checked": unanswered}, indent=2))
    else:
        _print(config, checked, effective=effective)
        if unanswered:
            console().print(styled(("not checked:", "yellow"), f" {unanswered}"), soft_wrap=True)
    if checked.problems:
        raise typer.Exit(2)


def _asked(checked: CheckedConfig) -> tuple[tuple[Problem, ...], str]:
    """The fields of registered schemas that directories hide, and why they could not be asked for; blank where that was not so."""
    if checked.problems or not _may_be_asked(checked.settings):
        return (), ""
    from kafka_s3.ops.registered_fields import compared  # here: most configurations need no registry's client

    found = compared(checked.settings, limit_s=LIMIT_S)
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
    _show(out, checked.problems, title=f"{config}: {len(checked.problems)} to correct", colour="red")
    _show(out, checked.warnings, title=f"{config}: {len(checked.warnings)} to look at", colour="yellow")
    if checked.problems:
        return
    if effective:
        for key, value in checked.settings.masked().items():
            out.print(f"{key} = {value}", markup=False, highlight=False, soft_wrap=True)
    out.print(styled((f"{config} is valid", "green"), f": sink {checked.settings.name}"))


def _show(out: Console, problems: Sequence[Problem], *, title: str, colour: str) -> None:
    """One block a problem; keys and values are never broken over lines, so that they can be searched for and copied."""
    if not problems:
        return
    out.print(styled((title, colour)), soft_wrap=True)
    for problem in problems:
        value = "not set" if problem.value is None else repr(problem.value)
        out.print(styled("  ", (problem.key, "bold"), f" ({value})"), soft_wrap=True)
        out.print(styled(f"      {problem.rule} {problem.remedy}"), soft_wrap=True)
