"""Which functions do the tasks of a job call? The commands of `kafka-s3`, in a form that every scheduler takes.

Arguments are those of the command. Done is a plain return, because some platforms take any `SystemExit`, also that of 0, for a failure;
anything else leaves with the command's exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafka_s3.cli.main import main

CONFIGURATIONS: Final = frozenset({".json", ".properties"})


def run_sink() -> None:
    """`kafka-s3 run` with the arguments of the process."""
    _leave(_code("run", sys.argv[1:]))


def sweep_sinks() -> None:
    """`kafka-s3 sweep` for one configuration, or for each in a folder."""
    _for_each("sweep", sys.argv[1:])


def verify_sinks() -> None:
    """`kafka-s3 verify` for one configuration, or for each in a folder."""
    _for_each("verify", sys.argv[1:])


def check_sinks() -> None:
    """`kafka-s3 check` for one configuration, or for each in a folder: fails where a sink is not well."""
    _for_each("check", sys.argv[1:])


def maintain_tables() -> None:
    """`kafka-s3 delta maintain` for one configuration, or for each in a folder; those without tables have nothing to do."""
    _for_each("delta maintain", sys.argv[1:])


def configurations(place: Path) -> list[Path]:
    """The configurations in a folder, by name; of anything else the path itself, for the command to judge."""
    if not place.is_dir():
        return [place]
    return sorted(path for path in place.iterdir() if path.suffix in CONFIGURATIONS)


def _for_each(command: str, arguments: Sequence[str]) -> None:
    """All of them are worked on, whatever happens to one; the highest exit code counts."""
    if not arguments:
        _leave(_code(command, arguments))
        return
    found = configurations(Path(arguments[0]))
    if not found:
        print(f"{arguments[0]} holds no configuration (.json, .properties): name another folder.", file=sys.stderr)
        _leave(2)
    codes = []
    for path in found:
        print(f"{command} {path.name}", flush=True)
        codes.append(_code(command, [str(path), *arguments[1:]]))
    _leave(max(codes))


def _code(command: str, arguments: Sequence[str]) -> int:
    before = sys.argv
    sys.argv = ["kafka-s3", *command.split(), *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = before
    return 0


def _leave(code: int) -> None:
    if code:
        sys.exit(code)
