"""`kafka-s3 explain CONFIG|NAME KEY|topic:partition:offset`: where does an object come from, and what became of a record?

Exit codes: 0 explained, 1 no entry of the log knows it (or Kafka or the bucket cannot be asked), 2 the call is wrong.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kafka_s3.cli.arguments import Output, OutputFormat
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import sink_settings
from kafka_s3.cli.display import console, show_table, size_text, styled
from kafka_s3.connect.config.settings import Settings
from kafka_s3.ops.explain.answer import Account, Answer, Outcome

About = Annotated[
    str,
    typer.Argument(
        metavar="KEY|TOPIC:PARTITION:OFFSET", help="An object's key, with or without s3://BUCKET/; or a record."
    ),
]


@composed(settings=sink_settings)
def explain(
    settings: Settings,
    about: About,
    no_kafka: Annotated[bool, typer.Option("--no-kafka", help="Ask no broker: what log and bucket say alone.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say which entry, rule, schema and object a record or a key belongs to; also of dead letters, skips and gaps. Changes nothing."""
    from kafka_s3.kafka.reader.whole_records import WholeRecords
    from kafka_s3.ops.explain.inquiry import explain as explained
    from kafka_s3.run.wiring.clients import consumer_properties
    from kafka_s3.store.options import store_options
    from kafka_s3.store.s3 import S3Store

    servers = settings.text("kafka.bootstrap.servers")
    kafka = None if no_kafka else WholeRecords(servers, properties=consumer_properties(settings))
    answer = explained(settings, about, store=S3Store(store_options(settings)), kafka=kafka)
    if output is OutputFormat.JSON:
        typer.echo(json.dumps(answer.document(), indent=2))
    else:
        show(answer, console())
    if answer.outcome is Outcome.UNKNOWN:
        raise typer.Exit(1)


def show(answer: Answer, out: Console) -> None:
    """The answer for people: the sentence, then each entry's account with its objects."""
    out.print(styled((answer.about, "bold"), f": {answer.outcome}"), soft_wrap=True)
    out.print(styled(answer.text), soft_wrap=True)
    for note in answer.notes:
        out.print(styled(("note:", "dim"), f" {note}"), soft_wrap=True)
    for account in answer.accounts:
        _show_account(account, answer, out)


def _show_account(account: Account, answer: Answer, out: Console) -> None:
    void = "" if account.current else " (does not stand any more)"
    head = f"entry {account.entry} of {account.committed_at}{void}: {account.text}"
    for file in account.files:
        known = (answer.objects or {}).get(file.key)
        if known is None:
            continue
        table = Table(title=styled(head), title_justify="left", show_header=False)
        rows = {
            "object": file.key, "role": file.role.value,
            "offsets": f"{file.first_offset} to {file.last_offset}, {file.records:,} records", "size": size_text(file.bytes),
            "schema": file.schema or "none", "format": file.format, "closed by": known.rule, "directory": known.file.encoded_partition,
            "named by": known.directory, "in the bucket": known.bucket,
        }  # fmt: skip
        for name, text in rows.items():
            table.add_row(name, styled(text))
        show_table(out, table)
    if not account.files:
        out.print(styled(head), soft_wrap=True)
