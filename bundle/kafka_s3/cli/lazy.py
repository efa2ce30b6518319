"""How does the command line stay quick? A command's module, with all that it needs, is imported when the command is called.

Help is plain text: Typer's panels load Rich's whole renderer of Markdown for it, which takes longer than all else.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, the place of its function (or of a Typer with several) as `module:attribute`, and its line of the help."""

    name: str
    place: str
    help: str

    def load(self) -> Any:
        """The function or the Typer."""
        module, _, attribute = self.place.partition(":")
        gc.disable()  # among what is being imported there is no garbage, and looking for it takes a quarter of the time
        try:
            return getattr(import_module(module), attribute)
        finally:
            gc.enable()


class FullHelp(TyperGroup):
    """Commands whose lines of the help are shown in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A line or more for each command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help or "") for name, command in self.commands.items()])


class LazyGroup(FullHelp):
    """Commands whose names and help are known beforehand; the one that is called is imported."""

    known: ClassVar[Mapping[str, Command]] = {}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The real command, where the name is that of a known one."""
        name, found, rest = super().resolve_command(ctx, args)
        known = self.known.get(name or "")
        return name, _real(known) if known else found, rest


def lazy_app(commands: Sequence[Command], **options: Any) -> typer.Typer:
    """An app of these commands; `options` are Typer's."""
    group = type("Commands", (LazyGroup,), {"known": {command.name: command for command in commands}})
    app = typer.Typer(cls=group, rich_markup_mode=None, pretty_exceptions_enable=False, **options)
    for command in commands:
        app.command(name=command.name, help=command.help)(_placeholder)
    return app


def _placeholder() -> None:
    """Has the place of a command in the help, and is never called."""


def _real(command: Command) -> Any:
    found = command.load()
    if isinstance(found, typer.Typer):
        found.info.cls, found.rich_markup_mode = FullHelp, None
        return get_command(found)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name=command.name)(found)
    return get_command(app)
