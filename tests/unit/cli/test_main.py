"""The command line imports what a command needs when it is called, and says of each command what its function says."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from kafka_s3.cli.main import COMMANDS, Command, app
from kafka_s3.run.java.cache import LocalServiceError


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_is_there_and_its_help_is_its_own(command: Command) -> None:
    found = command.load()
    own = found.info.help if isinstance(found, typer.Typer) else found.__doc__
    assert command.help == own


def test_the_help_names_every_command_and_a_wrong_name_is_corrected() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f" {command.name} " in shown for command in COMMANDS)
    wrong = CliRunner().invoke(app, ["valdate"])
    assert wrong.exit_code == 2
    assert "Did you mean 'validate'?" in wrong.output


def test_a_command_of_a_command_is_reached() -> None:
    shown = CliRunner().invoke(app, ["dead-letters", "resolve", "--help"])
    assert shown.exit_code == 0
    assert "--reason" in shown.stdout


def test_demo_without_its_distribution_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_s3.cli.main.ENTRY_POINTS", "kafka_s3.no_such_group")
    (demo,) = (command for command in COMMANDS if command.name == "demo")
    with pytest.raises(LocalServiceError, match=r"pip install 'kafka-s3\[spark,local,delta\]'"):
        demo.load()
