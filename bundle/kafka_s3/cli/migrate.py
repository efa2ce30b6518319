"""`kafka-s3 migrate CONFIG|NAME`: take a bucket over from a Connect sink, behind the last record it wrote.

Nothing is written without `--apply`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from kafka_s3.cli.arguments import Output, OutputFormat
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import sink_settings
from kafka_s3.cli.display import console, show_table, styled
from kafka_s3.cli.position import MINUTE_MS, Recent, clients_of, log_of, mirror
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.migration.decision import TakeoverDecision, TakeoverVerdict
from kafka_s3.ops.migration.takeover import (
    Takeover,
    apply,
    check_decided,
    check_log_empty,
    check_stopped,
    survey,
    takeover,
)
from kafka_s3.ops.positions import check_idle, group_of

COLOURS: Final = {
    TakeoverVerdict.UNDECIDED: "red",
    TakeoverVerdict.LOST: "red",
    TakeoverVerdict.OBJECTS_END_BEFORE: "yellow",
}


@composed(settings=sink_settings)
def migrate(
    settings: Settings,
    group: Annotated[
        str | None, typer.Option("--group", help="The connector's consumer group. Default: connect-<name>.")
    ] = None,
    offsets: Annotated[
        list[str] | None,
        typer.Option("--offset", metavar="TOPIC-PARTITION=OFFSET", help="Decide by hand; may be given more than once."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Write the first position of the commit log, or only look.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also where the group has live members or a driver committed lately.")
    ] = False,
    recent: Recent = 10,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Compare the connector's group offsets with its objects and take over where it stopped."""
    by_hand = offsets_given(offsets or [])
    brokers, store = clients_of(settings)
    log = log_of(settings, store)
    check_log_empty(log)
    found = survey(settings, brokers, store=store, group=group or group_of(settings))
    plan, out = takeover(found, by_hand), console(stderr=output is OutputFormat.JSON)
    if output is OutputFormat.JSON:
        print(json.dumps(plan_document(plan), indent=2))
    else:
        show_plan(out, plan)
    check_decided(plan)
    if not force:
        check_stopped(found)
        check_idle(log, now_ms=now_ms(), within_ms=recent * MINUTE_MS)
    if not write:
        out.print("Nothing was written. Repeat with --apply to take over.", highlight=False)
        return
    entry = apply(plan, log, brokers)
    mirror(settings, log, brokers, out=out)
    told = f"Entry {entry.version} of the commit log has it" if entry else "The commit log has it already"
    out.print(f"{told}; start the sink with `kafka-s3 run`.", highlight=False)


def offsets_given(texts: Iterable[str]) -> dict[TopicPartition, int]:
    """`TOPIC-PARTITION=OFFSET` texts. Raises ConfigError with every wrong one."""
    found, wrong = {}, []
    for text in texts:
        parts = re.fullmatch(r"(.+)-(\d+)=(\d+)", text, re.ASCII)
        if parts is None:
            wrong.append(
                Problem("--offset", text, "is not of the form TOPIC-PARTITION=OFFSET.", "For example orders-0=42.")
            )
        else:
            found[TopicPartition(parts[1], int(parts[2]))] = int(parts[3])
    if wrong:
        raise ConfigError(wrong)
    return found


def show_plan(out: Console, plan: Takeover) -> None:
    """The table, and below it what to know about the whole."""
    found = plan.survey
    show_table(out, plan_table(plan))
    if found.evidence and not found.objects:
        _warn(
            out,
            "No objects of these topics were found. Are s3.bucket.name, topics.dir, the delimiters and the format the connector's?",
        )
    if found.elsewhere:
        _warn(out, f"{found.elsewhere} objects belong to partitions that Kafka does not have.")
    if found.members:
        _warn(
            out,
            f"The connector runs ({len(found.members)} members of {found.group}): what is shown here is out of date soon.",
        )


def plan_document(plan: Takeover) -> dict[str, Any]:
    """The plan for programs."""
    return {
        "group": plan.survey.group,
        "partitions": [
            {
                "topic": decision.evidence.topic_partition.topic,
                "partition": decision.evidence.topic_partition.partition,
                "committed": decision.evidence.committed,
                "objects": decision.evidence.total,
                "objects_end": decision.evidence.until,
                "kafka_from": decision.evidence.kafka_start,
                "head": decision.evidence.head,
                "found": decision.verdict.value,
                "go_on_at": decision.offset,
                "why": decision.why,
            }
            for decision in plan.decisions
        ],
    }


def plan_table(plan: Takeover) -> Table:
    """One row per topic-partition: what was found, where to go on, why."""
    found = plan.survey
    table = Table(title=f"Taking over from group {found.group}", title_justify="left", show_lines=True)
    table.add_column("topic-partition", overflow="fold")
    for name in (found.split.committed, "objects", "last starts", "records", "objects end", "Kafka from", "head"):
        table.add_column(name, justify="right")
    table.add_column("found")
    table.add_column("go on at", justify="right", style="bold")
    table.add_column("why", overflow="fold", min_width=30)
    for decision in plan.decisions:
        colour = COLOURS.get(decision.verdict, "green")
        *numbers, go_on = _cells(decision)
        name = str(decision.evidence.topic_partition)
        table.add_row(name, *numbers, styled((decision.verdict, colour)), go_on, decision.why)
    return table


def _cells(decision: TakeoverDecision) -> list[str]:
    evidence = decision.evidence
    last = evidence.objects[-1] if evidence.objects else None
    numbers = (
        evidence.committed, evidence.total, last.start if last else None, last.records if last else None, evidence.until,
        evidence.kafka_start, evidence.head, decision.offset,
    )  # fmt: skip
    return ["-" if number is None else str(number) for number in numbers]


def _warn(out: Console, text: str) -> None:
    out.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)
