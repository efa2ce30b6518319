"""What does the demo say beside its progress? What was made, whether all is there, and commands to go on with."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from rich.console import Console

from kafka_s3.cli.display import bucket_tree, styled, totals_table, totals_verdict
from kafka_s3.cli.shipped import shipped
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.fold import LogState
from kafka_s3.ops.verify.findings import Report
from kafka_s3.run.wiring.pipeline import object_names, state_paths
from kafka_s3.store.store import ObjectStore

REGISTRY_KEY = "value.converter.schema.registry.url"


def tell_made(out: Console, settings: Settings, store: ObjectStore, state: LogState) -> None:
    """A sink's objects in its bucket, and the totals of its log."""
    folders = object_names(settings).prefixes(settings.names("topics"))
    found = (info for prefix in (*folders, state_paths(settings).root) for info in store.list(prefix))
    out.print(bucket_tree(settings.text("s3.bucket.name"), found))
    out.print(totals_table(state))
    out.print(styled("  ") + totals_verdict(state))


def tell_checked(out: Console, report: Report, *, malformed: int) -> None:
    """One line of the broken records, and the verdict of the audit."""
    letters = sum(tally.dead_letters for tally in report.tallies)
    out.print(f"  {malformed:,} records were broken on purpose: {letters:,} dead letters", highlight=False)
    out.print(f"  verify: {report.verdict()}", style="green" if report.clean else "red", highlight=False)


def tell_next(
    out: Console, sinks: Mapping[Path, Mapping[str, str]], environment: Mapping[str, str], *, stays: bool
) -> None:
    """Commands to go on with; those that need the services only while they stay."""

    def line(text: str) -> None:
        out.print(f"  {text}", highlight=False, soft_wrap=True)

    out.print("\n[bold]Next[/]")
    command = command_here()
    for path in map(shown, islice(sinks, 1)):
        worker = shown(shipped("examples/worker.properties"))
        line(f"{command} validate {path} --worker {worker}   # every problem of a configuration at once")
    if not stays:
        line(f"{command} demo --keep        # leave the services up, to try the other commands on them")
        line(f"{command} demo --dashboard   # the same, with the dashboard")
        return
    line("export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items()))
    for path, raw in zip(map(shown, sinks), sinks.values(), strict=True):
        places = {"kafka.bootstrap.servers": "$KAFKA", "store.url": "$S3"}
        places |= {REGISTRY_KEY: "$REGISTRY"} if REGISTRY_KEY in raw else {}
        words = " ".join(f"--set {key}={value}" for key, value in places.items())
        line(f"{command} run {path} --available-now {words}")
        line(f"{command} verify {path} {words}")
    out.print("Kafka, S3 and registry stay up until Ctrl-C.")


def command_here() -> str:
    """How this program is called in the user's shell: by its name where the PATH leads to it, else by its path."""
    own = Path(sys.executable).parent / "kafka-s3"
    found = shutil.which("kafka-s3")
    if found is not None and Path(found).resolve() == own.resolve():
        return "kafka-s3"
    return str(shown(own)) if own.is_file() else f"{shown(Path(sys.executable))} -m kafka_s3"


def shown(path: Path) -> Path:
    """The path as a user would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
