"""`kafka-s3 watch --bucket BUCKET`: tell a webhook, or a command, whenever a sink's state changes."""

from __future__ import annotations

import json
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from threading import Event
from typing import Annotated, Final

import typer

from kafka_s3.cli.arguments import Where
from kafka_s3.cli.composed import composed
from kafka_s3.engine.control.status import SinkHealth, all_known, health
from kafka_s3.model.addresses import careful_opener
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.text import printable
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.watch import NotTold, StateChange, Watcher
from kafka_s3.run.wiring.running import stop_on_signals
from kafka_s3.run.wiring.sink_folder import SinkFolder

PATIENCE_S: Final = 30.0


@composed(where=Where)
def watch(
    where: Where,
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", envvar="KAFKA_S3_WEBHOOK", help="An address that takes each change as JSON by POST."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("--command", help="A command that is run for each change, with it as JSON on its input."),
    ] = None,
    every: Annotated[float, typer.Option("--every", min=1, metavar="SECONDS", help="Pause between two looks.")] = 30,
) -> None:
    """Look at all sinks of a bucket again and again, and tell a webhook or a command whenever the state of one changes."""
    if webhook is not None and not webhook.startswith(("https://", "http://")):
        raise ConfigError([Problem("--webhook", "****", "is no address.", "Write https://...")])
    words = shlex.split(command or "")
    place, stop = where.folder(), Event()

    def tell(change: StateChange) -> None:
        document = change.document()
        typer.echo(printable(f"{document['at']} {document['text']}"))
        if webhook:
            post(webhook, json.dumps(document).encode())
        if words:
            run(words, json.dumps(document).encode())

    stop_on_signals(stop)
    watcher = Watcher(
        lambda: healths(place), tell, failed=lambda why: typer.echo(printable(f"{why} Told again later."), err=True)
    )
    while not stop.is_set():
        watcher.turn(now_ms())
        stop.wait(every)


def healths(place: SinkFolder) -> Mapping[str, SinkHealth]:
    """The health of every sink of a place. Raises StorageError."""
    return {known.name: health(known) for known in all_known(place.store, place.prefix, seen_ms=now_ms())}


def post(url: str, document: bytes) -> None:
    """Sends a document. Raises NotTold without the address, which may be a secret."""
    request = urllib.request.Request(url, document, {"Content-Type": "application/json"}, method="POST")
    try:
        with careful_opener().open(request, timeout=PATIENCE_S):
            return
    except urllib.error.HTTPError as error:
        raise NotTold(f"The webhook answered {error.code}.") from None
    except (OSError, ValueError) as error:
        raise NotTold(f"The webhook did not answer ({type(error).__name__}).") from None


def run(words: list[str], document: bytes) -> None:
    """Runs a command. Raises NotTold where it cannot be run, fails, or takes longer than PATIENCE_S."""
    try:
        subprocess.run(words, input=document, check=True, timeout=PATIENCE_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotTold(f"The command {words[0]} failed: {error}.") from None
