"""Do all commands take the same words for the same things?"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from rich.console import Console
from rich.table import Table
from typer.main import get_command
from typer.testing import CliRunner

from kafka_s3.cli.display import show_table
from kafka_s3.cli.main import COMMANDS, Command, app

FILES_ONLY = {"validate", "create"}
"""They are about a file: its faults, and storing it."""
ABOUT_CONFIGURATIONS = {"new", "catalog list", "catalog describe"}
"""They come before there is a sink."""
WITHOUT_A_SINK = {"demo", "list", "seek", "dashboard", "watch", *ABOUT_CONFIGURATIONS}
SAY_ONE_SENTENCE = {
    "run", "new",
    "demo", "create", "pause", "resume", "flush", "delete", "seek", "dashboard", "watch", "position set", "position seek-to-time",
    "dead-letters export", "dead-letters replay", "dead-letters resolve", "delta rebuild", "delta maintain",
    "iceberg rebuild", "iceberg maintain",
}  # fmt: skip
"""What they do takes a line or two; there is nothing to tabulate."""
PRINT_A_DOCUMENT = {"iam", "lifecycle"}
"""What AWS takes is JSON, for people too."""


def leaves() -> Iterator[tuple[str, Any]]:
    for command in COMMANDS:
        found = command.load()
        if isinstance(found, typer.Typer):
            group = get_command(found)
            assert isinstance(group, click.Group) or hasattr(group, "commands")
            yield from ((f"{command.name} {name}", one) for name, one in group.commands.items())
        else:
            single = typer.Typer(add_completion=False)
            single.command(name=command.name)(found)
            yield command.name, get_command(single)


LEAVES = dict(leaves())


def options_of(command: Any) -> set[str]:
    return {word for parameter in command.params for word in parameter.opts}


@pytest.mark.parametrize("name", LEAVES)
def test_a_sink_is_given_by_its_file_or_by_its_name_and_bucket(name: str) -> None:
    options = options_of(LEAVES[name])
    if name in FILES_ONLY | ABOUT_CONFIGURATIONS or name == "demo":
        assert "--bucket" not in options
    elif name in ("seek", "watch"):  # about a bucket, whoever wrote it
        assert {"--store-url", "--region"} <= options
    else:
        assert {"--bucket", "--store-url", "--region", "--state-prefix", "--worker", "--set"} <= options
    if name not in FILES_ONLY | WITHOUT_A_SINK:
        (argument, *_) = (one for one in LEAVES[name].params if one.param_type_name == "argument")
        assert (argument.metavar or "").removesuffix("...") in ("CONFIG|NAME", "CONFIG|NAME|FOLDER")


@pytest.mark.parametrize("name", LEAVES)
def test_what_is_shown_is_shown_as_json_too(name: str) -> None:
    options = options_of(LEAVES[name])
    assert ("--output" in options) is (name not in SAY_ONE_SENTENCE | PRINT_A_DOCUMENT)
    assert "--json" not in options


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_h_is_help(command: Command) -> None:
    done = CliRunner().invoke(app, [command.name, "-h"])
    assert (done.exit_code, "Usage" in done.stdout) == (0, True)


def test_a_command_of_a_group_has_h_too() -> None:
    done = CliRunner().invoke(app, ["dead-letters", "replay", "-h"])
    assert done.exit_code == 0
    assert "Stop the sink first" in " ".join(done.stdout.split())
    assert "--yes" in done.stdout


def printed(table: Table, width: int) -> str:
    out = io.StringIO()
    show_table(Console(file=out, width=width), table)
    return out.getvalue()


def test_a_table_that_is_too_wide_for_the_terminal_becomes_a_block_for_each_row() -> None:
    table = Table(title="Positions")
    for name in ("topic", "a long name of a column", "another one of them"):
        table.add_column(name)
    table.add_row("orders" * 4, "1,234", "")
    assert "│" in printed(table, 200)
    assert "│" in printed(table, 60)
    assert [line.rstrip() for line in printed(table, 40).splitlines()] == [
        "Positions",
        f"{'topic':<23}  {'orders' * 4}",
        "  a long name of a column  1,234",
        "  another one of them",
    ]


def test_words_give_way_at_their_blanks_before_one_is_broken() -> None:
    table = Table()
    for name in ("Name", "Lag", "Last commit"):
        table.add_column(name, overflow="fold")
    table.add_row("orders", "1,000 or more", "2026-11-22T12:35:58.729Z")
    narrow = printed(table, 46)
    assert "│ 2026-11-22T12:35:58.729Z │" in narrow
    assert "1,000 or more" not in narrow
    assert "│" not in printed(table, 40)


def test_validate_prints_json_and_makes_unknown_keys_errors_where_that_is_asked(tmp_path: Path) -> None:
    config = {
        "name": "s", "connector.class": "S3SinkConnector", "topics": "t", "s3.bucket.name": "bucket", "storage.class": "S3Storage",
        "format.class": "JsonFormat", "value.converter": "StringConverter", "flush.size": "1", "kafka.bootstrap.servers": "b:1",
        "fluhs.size": "2",
    }  # fmt: skip
    path = tmp_path / "s.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    done = CliRunner().invoke(app, ["validate", str(path), "--output", "json"])
    found = json.loads(done.stdout)
    assert (done.exit_code, found["valid"], found["problems"]) == (0, True, [])
    assert [(one["key"], one["remedy"]) for one in found["warnings"]] == [("fluhs.size", "Did you mean flush.size?")]
    done = CliRunner().invoke(app, ["validate", str(path), "--strict", "-o", "json"])
    found = json.loads(done.stdout)
    assert (done.exit_code, [one["key"] for one in found["problems"]], found["warnings"]) == (2, ["fluhs.size"], [])
    assert found["problems"][0]["rule"] == "is not a known key."


def test_the_catalog_is_json_for_programs() -> None:
    listed = json.loads(CliRunner().invoke(app, ["catalog", "list", "--output", "json"]).stdout)
    for one in listed:
        reported = json.loads(CliRunner().invoke(app, ["catalog", "describe", one["name"], "--output", "json"]).stdout)
        required = [key["key"] for key in reported["keys"] if key["required"]]
        assert required
        assert [key["key"] for key in reported["keys"]][: len(required)] == required
