"""How do several commands take the same arguments? A parameter of the command is made by a callable, whose own parameters are typed.

    @composed(settings=settings_of, chosen=selection)
    def show(settings: Settings, chosen: Selection, output: Output = OutputFormat.TABLE) -> None:

takes on the command line whatever `settings_of` and `selection` take, in their places, and `--output`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

T = TypeVar("T")


def composed(**makers: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A command, or a maker, some of whose parameters are made, under their names, of other parameters."""
    parts = {name: signature(make, eval_str=True).parameters for name, make in makers.items()}

    def of(command: Callable[..., T]) -> Callable[..., T]:
        own = signature(command, eval_str=True).parameters
        taken = [part for name in own for part in (parts[name].values() if name in parts else [own[name]])]

        @wraps(command)
        def run(**given: Any) -> T:
            made = {name: make(**{part: given.pop(part) for part in parts[name]}) for name, make in makers.items()}
            return command(**given, **made)

        del run.__wrapped__  # typer is to see what is taken here
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in taken}
        run.__signature__ = Signature(  # type: ignore[attr-defined]
            [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in taken]
        )
        return run

    return of
