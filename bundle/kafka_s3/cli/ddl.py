"""`kafka-s3 ddl CONFIG|NAME --engine ENGINE`: how does a query engine get to know the sink's topics?

The statements go to standard output, ready to be run; what a table does not show is said in comments in front of it.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from kafka_s3.cli.arguments import Output, OutputFormat
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import sink_settings
from kafka_s3.connect.config.settings import Settings
from kafka_s3.followers.ddl.statements import QueryEngine, script, statements
from kafka_s3.followers.ddl.table import ExternalTable


@composed(settings=sink_settings)
def ddl(
    settings: Settings,
    engine: Annotated[QueryEngine, typer.Option("--engine", help="For which engine.")],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic; may be given more than once.")
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Print how a query engine gets to know a sink's topics: tables with the columns that the objects have."""
    from kafka_s3.run.wiring.followers import tables_of_sink
    from kafka_s3.store.options import store_options
    from kafka_s3.store.s3 import S3Store

    tables = list(tables_of_sink(settings, S3Store(store_options(settings)), topic or ()))
    if output is OutputFormat.JSON:
        typer.echo(json.dumps({"tables": [document(engine, table) for table in tables]}, indent=2))
        return
    typer.echo("\n".join(script(engine, table) for table in tables), nl=False)


def document(engine: QueryEngine, table: ExternalTable) -> dict[str, Any]:
    """A table for programs: Glue's table input is `statements`' only one, as text."""
    return {
        "topic": table.topic,
        "name": table.name,
        "engine": engine.value,
        "statements": statements(engine, table),
        "notes": list(table.notes),
    }
