"""`kafka-s3 position show|set|seek-to-time`, `kafka-s3 migrate`: where does a sink go on, and how is it moved?

`migrate` takes a bucket over from a Connect sink, behind the last record that it wrote; it writes nothing without `--apply`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from kafka_s3.cli.arguments import (
    DryRun,
    Force,
    Only,
    Output,
    OutputFormat,
    Yes,
    check_topic,
    composed,
    sink_settings,
    usage_error,
)
from kafka_s3.cli.display import console, new_table, show_json, show_line, show_table, styled
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.open_files.states import OpenFileStates
from kafka_s3.followers.group_offsets import GroupOffsets
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import ConfigError, Problem, SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.migration import (
    Takeover,
    TakeoverDecision,
    TakeoverVerdict,
    apply,
    check_decided,
    check_stopped,
    survey,
    takeover,
    topics_to_take_over,
)
from kafka_s3.ops.positions import (
    Move,
    PartitionOffsets,
    check_idle,
    epoch_ms,
    moves_to,
    offset_named,
    offsets_at_time,
    read_positions,
    write_positions,
)
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import brokers_of, configured_topics, group_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.s3 import S3Store

MINUTE_MS: Final = 60_000
position = typer.Typer(help="Show the positions of a sink, or change them.", no_args_is_help=True, add_completion=False)
Recent = Annotated[int, typer.Option("--recent", min=0, help="Minutes for which a commit counts as lately.")]
COLOURS: Final = {
    TakeoverVerdict.UNDECIDED: "red",
    TakeoverVerdict.LOST: "red",
    TakeoverVerdict.OBJECTS_END_BEFORE: "yellow",
}


@position.command()
@composed(settings=sink_settings)
def show(settings: Settings, output: Output = OutputFormat.TABLE) -> None:
    """Show frontier, Kafka's offsets, lag and mirrored group offset of every topic-partition."""
    brokers, log = opened(settings)
    held = OpenFileStates(log.store, log.paths).first_unread(log.load())
    rows = read_positions(
        log.state, brokers, topics=configured_topics(settings, brokers), group=group_of(settings), held=held
    )
    if output is OutputFormat.JSON:
        show_json(positions_document(settings.name, log, rows.values()))
        return
    out = console()
    show_line(out, log_text(settings.name, log))
    show_table(out, positions_table(rows.values(), group=group_of(settings)))


@position.command(name="set")
@composed(settings=sink_settings)
def set_(
    settings: Settings,
    topic: Annotated[str | None, typer.Argument(help="The topic.")] = None,
    partition: Annotated[int | None, typer.Argument(min=0, help="The partition.")] = None,
    offset: Annotated[str | None, typer.Argument(help="The next offset to write, earliest or latest.")] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="earliest|latest|OFFSET", help="Move all partitions (of --topic) there."),
    ] = None,
    topics: Only = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    recent: Recent = 10,
) -> None:
    """Continue the sink at another offset, by an entry of its commit log."""
    if (to is None) == (offset is None) or (topics if to is None else topic):
        raise usage_error(
            "position set", None, "takes TOPIC PARTITION OFFSET, or --to (with --topic, if you like).", "See --help."
        )
    brokers, log = opened(settings)
    known = read_positions(log.load(), brokers, topics=configured_topics(settings, brokers))
    if topic is not None and partition is not None and offset is not None:
        wanted = {TopicPartition(topic, partition): offset}
    else:
        wanted = {row.topic_partition: to or "" for row in chosen(known.values(), topics)}
    positions = {
        tp: offset_named(text, known.get(tp) or PartitionOffsets(tp, None, None, None, None))
        for tp, text in wanted.items()
    }
    ask = None if yes else "Move the sink?"
    _move(settings, log, brokers, positions=positions, ask=ask, dry_run=dry_run, within=None if force else recent)


@position.command(name="seek-to-time")
@composed(settings=sink_settings)
def seek_to_time(
    settings: Settings,
    moment: Annotated[
        str, typer.Argument(metavar="TIME", help="ISO 8601 (UTC without a zone), or epoch milliseconds.")
    ],
    topics: Only = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    recent: Recent = 10,
) -> None:
    """Continue the sink at the first record of a time, by the brokers' time index; at the head if all are older."""
    time_ms = epoch_ms(moment)
    brokers, log = opened(settings)
    known = read_positions(log.load(), brokers, topics=configured_topics(settings, brokers))
    positions = offsets_at_time(brokers, chosen(known.values(), topics), time_ms=time_ms)
    ask = None if yes else "Move the sink?"
    _move(settings, log, brokers, positions=positions, ask=ask, dry_run=dry_run, within=None if force else recent)


def opened(settings: Settings) -> tuple[KafkaBrokers, CommitLog]:
    """The cluster, and the sink's log, not loaded yet; Spark is not needed."""
    return brokers_of(settings), CommitLog(S3Store(store_options(settings)), state_paths(settings), clock_ms=now_ms)


def chosen(known: Iterable[PartitionOffsets], topics: Sequence[str] | None) -> list[PartitionOffsets]:
    """The positions of these topics that Kafka has, of all without any. Raises ConfigError for a topic without one."""
    alive = [row for row in known if row.head is not None]
    for topic in topics or ():
        check_topic(topic, (row.topic_partition.topic for row in alive))
    return [row for row in alive if not topics or row.topic_partition.topic in topics]


def log_text(sink: str, log: CommitLog) -> str:
    """Who wrote the log last, in a line."""
    last = log.last
    if last is None:
        return f"Sink {sink} has no commit log yet."
    state = log.state
    return f"Sink {sink}: entry {state.version}, epoch {state.epoch}, {last.kind} at {last.committed_at} by {last.driver or 'unknown'}"


def positions_document(sink: str, log: CommitLog, rows: Iterable[PartitionOffsets]) -> dict[str, Any]:
    """The positions for programs; None is what is not known."""
    return {
        "sink": sink,
        "entry": None if log.last is None else log.state.version,
        "partitions": [
            {
                "topic": row.topic_partition.topic,
                "partition": row.topic_partition.partition,
                **_numbers(row),
                "remark": row.remark,
            }
            for row in rows
        ],
    }


def _numbers(row: PartitionOffsets) -> dict[str, int | None]:
    known = row.progress
    return {
        "frontier": known.frontier if known else None, "written": known.written if known else None,
        "dead_letters_ahead": len(known.recorded) if known else None, "kafka_from": row.start, "head": row.head, "lag": row.lag,
        "group": row.group,
    }  # fmt: skip


def positions_table(rows: Iterable[PartitionOffsets], *, group: str) -> Table:
    """The positions as a table."""
    names = ("partition", "frontier", "written up to", "dead letters ahead", "Kafka from", "head", "lag", "group")
    table = new_table(f"Positions (group: {group})", left=["topic"], right=names)
    rows = [*rows]
    with_remarks = any(row.remark for row in rows)
    if with_remarks:
        table.add_column("", overflow="fold")
    for row in rows:
        numbers = ("-" if number is None else f"{number:,}" for number in _numbers(row).values())
        remark = (row.remark,) if with_remarks else ()
        table.add_row(row.topic_partition.topic, str(row.topic_partition.partition), *numbers, *remark)
    return table


def show_moves(out: Console, moves: Sequence[Move]) -> None:
    """What moving means, a line each."""
    for move in moves:
        before = "no position" if move.before is None else str(move.before.frontier)
        show_line(out, f"{move.topic_partition}: {before} -> {move.position}")
        if move.gap is not None:
            text = f"  offsets {move.gap.first} to {move.gap.last} are passed over; the log records them as a gap"
            show_line(out, text, style="yellow")
        if move.reread:
            text = (
                f"  {move.reread} offsets are read again. Their records are written a second time: over the objects of the same name, but "
                "files may be cut elsewhere, and then lie beside the old objects under other names. Delete those, or expect duplicates. "
                "Their dead letters are sent again."
            )
            show_line(out, text, style="yellow")


def mirror(settings: Settings, log: CommitLog, brokers: Brokers, *, out: Console) -> None:
    """Commits the positions to the consumer group, where that is asked for; a refusal is a warning."""
    if not settings.flag("consumer.group.mirror.enable"):
        return
    try:
        GroupOffsets(brokers, group_of(settings), settings.strict).catch_up(log)
    except SourceError as error:
        text = f"The position is set; the consumer group was not updated: {error} The next run of the sink does it."
        show_line(out, text, style="yellow")


def _move(
    settings: Settings,
    log: CommitLog,
    brokers: Brokers,
    *,
    positions: Mapping[TopicPartition, int],
    ask: str | None,
    dry_run: bool,
    within: int | None,
) -> None:
    """Shows, asks and moves. `ask` is None where nobody is asked, `within` (minutes) where a running driver does not matter."""
    out = console()
    moves = moves_to(log.state, positions)
    show_moves(out, moves)
    if not moves:
        show_line(out, "The sink is there already.")
        return
    if dry_run:
        show_line(out, "Nothing was changed (--dry-run).")
        return
    if within is not None:
        check_idle(log, now_ms=now_ms(), within_ms=within * MINUTE_MS)
    confirm(ask)
    entry = write_positions(log, brokers, positions)
    mirror(settings, log, brokers, out=out)
    result = f"Entry {entry.version} of the commit log has it." if entry else "The sink is there already."
    show_line(out, result)


def confirm(question: str | None) -> None:
    """Asks on a terminal; raises ConfigError where there is none, typer.Abort where the answer is no."""
    if question is None:
        return
    if not sys.stdin.isatty():
        raise usage_error("--yes", None, "is needed where nobody can be asked.", "See --help.")
    typer.confirm(question, abort=True)


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
    """Take over from a Connect sink where it stopped: compares its group offsets with its objects."""
    by_hand = offsets_given(offsets or [])
    brokers, log = opened(settings)
    topics = configured_topics(settings, brokers)
    topics = {name: topics[name] for name in topics_to_take_over(log.load(), topics)}
    found = survey(settings, brokers, store=log.store, group=group or group_of(settings), topics=topics)
    plan, out = takeover(found, by_hand), console(stderr=output is OutputFormat.JSON)
    if output is OutputFormat.JSON:
        show_json(plan_document(plan))
    else:
        show_plan(out, plan)
    check_decided(plan)
    if not force:
        check_stopped(found)
        check_idle(log, now_ms=now_ms(), within_ms=recent * MINUTE_MS)
    if not write:
        show_line(out, "Nothing was written. Repeat with --apply to take over.")
        return
    entry = apply(plan, log, brokers)
    mirror(settings, log, brokers, out=out)
    result = f"Entry {entry.version} of the commit log has it" if entry else "The commit log has it already"
    show_line(out, f"{result}; start the sink with `kafka-s3 run`.")


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
        show_line(
            out,
            "No objects of these topics were found. Are s3.bucket.name, topics.dir, the delimiters and the format the connector's?",
            style="yellow",
        )
    if found.elsewhere:
        show_line(out, f"{found.elsewhere} objects belong to partitions that Kafka does not have.", style="yellow")
    if found.members:
        show_line(
            out,
            f"The connector runs ({len(found.members)} members of {found.group}): what is shown here is out of date soon.",
            style="yellow",
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
    names = (found.split.committed, "objects", "last starts", "records", "objects end", "Kafka from", "head")
    title = f"Taking over from group {found.group}"
    table = new_table(title, left=["topic-partition"], right=names, show_lines=True)
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
