"""`kafka-s3 doctor CONFIG|NAME`: would this sink run here? Tries all that it will need, and says what to do where it is missing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Final

import typer
from rich.console import Console

from kafka_s3.cli.arguments import Output, OutputFormat, Overrides, SinkName, Where, WorkerPath, composed, sink_config
from kafka_s3.cli.display import console, show_line
from kafka_s3.connect.config.settings import Settings
from kafka_s3.ops.doctor.diagnosis import ClientFactories, diagnose
from kafka_s3.ops.doctor.findings import CheckResult, CheckStatus, worst
from kafka_s3.run.wiring.clients import brokers_of, why_tasks_cannot_read
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import S3Store

COLOURS: Final = {CheckStatus.OK: "green", CheckStatus.WARNING: "yellow", CheckStatus.FAILED: "red"}


@composed(where=Where)
def doctor(
    sink: SinkName,
    where: Where,
    worker: WorkerPath = None,
    overrides: Overrides = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Test everything that a sink needs from Kafka, the registry and the bucket; exit code 1 if a test fails."""
    checked = sink_config(sink, where, worker, overrides)
    with ExitStack() as open_clients:
        findings = diagnose(checked, services(open_clients))
        shown = list(findings) if output is OutputFormat.JSON else print_results(console(), findings)
    if output is OutputFormat.JSON:
        print(document(shown))
    if worst(shown) is CheckStatus.FAILED:
        raise typer.Exit(1)


def services(open_clients: ExitStack) -> ClientFactories:
    """The real clients, which the stack closes."""

    def store(options: StoreOptions) -> S3Store:
        made = S3Store(options)
        open_clients.callback(made.close)
        return made

    return ClientFactories(brokers_of, store, store, why_tasks_cannot_read, _try_tables)


def _try_tables(settings: Settings) -> str:
    from kafka_s3.run.spark.launch import try_tables  # loads pyspark, which most sinks' reports do without

    return try_tables(settings)


def print_results(out: Console, findings: Iterable[CheckResult]) -> list[CheckResult]:
    """A line for each finding as it comes, then the totals; gives the findings."""
    shown = []
    for finding in findings:
        shown.append(finding)
        show_line(out, (f"{finding.status:<7}", COLOURS[finding.status]), f" {_one_line(finding)}")
    counts = Counter(finding.status for finding in shown)
    totals = ", ".join(f"{counts[status]} {status}" for status in CheckStatus)
    show_line(out, (totals, COLOURS[worst(shown)]))
    return shown


def document(findings: Sequence[CheckResult]) -> str:
    """The findings as JSON: `status` is the worst of them."""
    return json.dumps({"status": worst(findings), "findings": [asdict(finding) for finding in findings]}, indent=2)


def _one_line(finding: CheckResult) -> str:
    return " ".join(str(finding).split())
