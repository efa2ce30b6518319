"""Give the jobs of a scheduler their arguments, the way through the configurations of a folder, and the way to leave.

Done is a plain return, because some platforms take any `SystemExit`, also that of 0, for a failure. Anything else leaves with a code, those
of the command line (docs/operations.md, "Exit codes").
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kafka_s3.connect.config.read import pairs, read_properties
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import load, resolved
from kafka_s3.model.errors import ConfigError, Problem, SinkError
from kafka_s3.run.logs import logged_as_json

CONFIGURATIONS: Final = frozenset({".json", ".properties"})
OK, FAILED = 0, 1


def job_parser(description: str | None, *, config: str) -> ArgumentParser:
    """The arguments that every job takes; `config` says what the first one names."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("config", type=Path, metavar="CONFIG", help=config)
    parser.add_argument("--worker", type=Path, metavar="FILE", help="Connect's worker.properties.")
    parser.add_argument("--settings", default="", metavar="TEXT", help="Keys over the file, as a .properties text.")
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", help="A key over both; may be given repeatedly.")
    return parser


def job_settings(config: Path, given: Namespace) -> Settings:
    """The checked settings of a configuration with the job's own keys over it, references resolved. Raises ConfigError."""
    over = {**read_properties(given.settings, Path("--settings")), **pairs(given.set)}
    return resolved(load(config, worker_path=given.worker, overrides=over))


def configurations(path: Path) -> list[Path]:
    """The configurations in a folder, by name; of anything else the path itself. Raises ConfigError for a folder without any."""
    if not path.is_dir():
        return [path]
    found = sorted(path for path in path.iterdir() if path.suffix in CONFIGURATIONS)
    if not found:
        rule = "holds no configuration (.json, .properties)."
        raise ConfigError([Problem("CONFIG", str(path), rule, "Name another folder, or a file.")])
    return found


def each_sink(given: Namespace, work: Callable[[Settings], bool]) -> int:
    """Does the work for each configuration, whatever happens to one, and gives the highest exit code; False is a failure, too."""

    def one(path: Path) -> int:
        print(f"--- {path.name}", flush=True)
        return outcome(lambda: OK if work(job_settings(path, given)) else FAILED)

    return outcome(lambda: max([one(path) for path in configurations(given.config)]))


def outcome(work: Callable[[], int]) -> int:
    """The exit code of some work; errors of the product are printed as one message."""
    try:
        return work()
    except SinkError as error:
        if not logged_as_json(error):
            print(f"{type(error).__name__} {error}", file=sys.stderr, flush=True)
        return error.exit_code


def leave(code: int) -> None:
    """Ends the job: by returning where all is well."""
    if code != OK:
        sys.exit(code)
