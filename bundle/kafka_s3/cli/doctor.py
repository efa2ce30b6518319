"""`kafka-s3 doctor CONFIG`: would this sink run here? Tries all that it will need, and says what to do where it is missing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from kafka_s3.cli.arguments import ConfigPath, Overrides, WorkerPath, pairs
from kafka_s3.clients import brokers_of
from kafka_s3.config.read import read_config
from kafka_s3.config.validate import validate
from kafka_s3.config.worker import read_worker
from kafka_s3.doctor.diagnosis import Services, diagnose
from kafka_s3.doctor.finding import Finding, Status, worst
from kafka_s3.storage.bucket import S3Bucket
from kafka_s3.storage.options import StoreOptions
from kafka_s3.storage.s3 import S3Store

COLOURS: Final = {Status.OK: "green", Status.WARNING: "yellow", Status.FAILED: "red"}


def doctor(
    config: ConfigPath,
    worker: WorkerPath = None,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of lines.")] = False,
) -> None:
    """Try everything that a sink will need of Kafka, the registry and the bucket; exit code 1 if anything failed."""
    raw = {**read_config(config), **pairs(overrides)}
    checked = validate(raw, worker=read_worker(worker) if worker else {})
    with ExitStack() as open_clients:
        findings = diagnose(checked, services(open_clients))
        shown = list(findings) if as_json else show(Console(), findings)
    if as_json:
        print(document(shown))
    if worst(shown) is Status.FAILED:
        raise typer.Exit(1)


def services(open_clients: ExitStack) -> Services:
    """The real clients, which the stack closes."""

    def store(options: StoreOptions) -> S3Store:
        made = S3Store(options)
        open_clients.callback(made.close)
        return made

    def facts(options: StoreOptions) -> S3Bucket:
        made = S3Bucket(options)
        open_clients.callback(made.close)
        return made

    return Services(brokers_of, store, facts)


def show(out: Console, findings: Iterable[Finding]) -> list[Finding]:
    """A line for each finding as it comes, then the totals; gives the findings."""
    shown = []
    for finding in findings:
        shown.append(finding)
        mark = f"[{COLOURS[finding.status]}]{finding.status:<7}[/]"
        out.print(f"{mark} {escape(_one_line(finding))}", highlight=False, soft_wrap=True)
    counts = Counter(finding.status for finding in shown)
    totals = ", ".join(f"{counts[status]} {status}" for status in Status)
    out.print(f"[{COLOURS[worst(shown)]}]{totals}[/]", highlight=False)
    return shown


def document(findings: Sequence[Finding]) -> str:
    """The findings as JSON: `status` is the worst of them."""
    return json.dumps({"status": worst(findings), "findings": [asdict(finding) for finding in findings]}, indent=2)


def _one_line(finding: Finding) -> str:
    return " ".join(str(finding).split())
