"""`kafka-s3 catalog list`, `catalog describe NAME`: which connectors are there, and what does each want to know?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from kafka_s3.cli.arguments import Output, OutputFormat
from kafka_s3.cli.display import console
from kafka_s3.connect.config.catalog import CatalogEntry, entry, example_of, plugins
from kafka_s3.connect.config.catalog import catalog as entries
from kafka_s3.connect.config.option import Option, OptionGroup, OptionStatus

catalog = typer.Typer(no_args_is_help=True, help="The connectors whose configurations are taken, and their keys.")


@catalog.command("list")
def list_(output: Output = OutputFormat.TABLE) -> None:
    """List the connectors, and the plugins that are installed."""
    found = (*entries(), *plugins())
    if output is OutputFormat.JSON:
        typer.echo(json.dumps([{"name": one.name, one.key: one.connector, "doc": one.doc} for one in found]))
        return
    out = console()
    for one in found:
        out.print(f"{one.name:<16} {one.doc}", markup=False, highlight=False, soft_wrap=True)


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
        typer.echo(json.dumps(document(found), indent=2))
        return
    out = console()
    for line in lines(found):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


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
