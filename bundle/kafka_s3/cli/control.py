"""`kafka-s3 create|pause|resume|flush|delete`: named sinks, controlled through their state in the bucket.

No command speaks to a sink's process. Each writes the control object, which the running sink reads between rounds and answers in its
heartbeat; so commands work from any machine that may read and write the sink's state. A command waits for that answer.
"""

from __future__ import annotations

import getpass
import socket
import time
import uuid
from collections.abc import Callable
from typing import Annotated, Final

import typer

from kafka_s3.cli.arguments import (
    ConfigPath,
    Overrides,
    Target,
    Timeout,
    WorkerPath,
    Yes,
    composed,
    folder_options,
    named_target,
    target_of,
    usage_error,
)
from kafka_s3.cli.display import console, show_line
from kafka_s3.cli.position import confirm
from kafka_s3.connect.config.read import pairs
from kafka_s3.connect.config.validate import load, resolved
from kafka_s3.engine.control.commands import CommandRequest, Control, ask_flush, ask_pause, ask_resume, read_control
from kafka_s3.engine.control.heartbeat import Heartbeat, Phase
from kafka_s3.engine.control.status import Lag, SinkSnapshot, is_known, sink_id
from kafka_s3.engine.control.stored_settings import replace_config, store_config
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.states import OpenFileStates
from kafka_s3.model.errors import SinkError
from kafka_s3.model.timing import age, now_ms
from kafka_s3.ops.positions import written_ago
from kafka_s3.run.wiring.bucket import folder_of, store_options, stored_config
from kafka_s3.store.store import ObjectStore

LOOK_S: Final = 0.25
SHOW_S: Final = 5.0
QUIET_MS: Final = 600_000


def create(
    config: ConfigPath,
    worker: WorkerPath = None,
    overrides: Overrides = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a stored configuration.")] = False,
) -> None:
    """Store a checked configuration in its bucket, beside the sink's log. Secrets must be references; nothing is started."""
    settings = load(config, worker_path=worker, overrides=pairs(overrides))
    stored = stored_config(settings, now_ms=now_ms())
    target = Target(folder_of(resolved(settings)), settings.name)
    if replace:
        replace_config(target.store, target.paths, stored)
    elif not store_config(target.store, target.paths, stored):
        rule = f"has a stored configuration already, in {target.folder}{settings.name}/."
        raise usage_error("name", settings.name, rule, "Use --replace, or another name.")
    key = target.paths.config()
    say(
        f"Sink {settings.name} ({sink_id(target.folder.bucket, settings.name)}): stored as s3://{target.folder.bucket}/{key}"
    )
    say(
        f"Start it with: kafka-s3 run {settings.name} {folder_options(target.folder, store_options(resolved(settings)))}"
    )


@composed(target=target_of)
def pause(target: Target, timeout: Timeout = 60) -> None:
    """Pause a sink after its current commit, until `resume`. A restart does not end the pause."""
    _set(target, ask_pause, timeout, phase=Phase.PAUSED)


@composed(target=target_of)
def resume(target: Target, timeout: Timeout = 60) -> None:
    """Resume a paused sink from its position."""
    check_not_overtaken(target)
    _set(target, ask_resume, timeout, phase=Phase.RUNNING)
    check_not_overtaken(target)


@composed(target=target_of)
def flush(target: Target, timeout: Timeout = 300) -> None:
    """Close the open files of a running sink now, so that everything in Kafka is in objects."""
    running = target.heartbeat()
    if running is None or not running.alive(now_ms()):
        raise NotAnswered(
            f"No sink {target.name} is running, so there is nothing to flush. `kafka-s3 run CONFIG --available-now --flush` writes what is "
            "still open."
        )
    control = read_control(target.store, target.paths) or Control()
    if control.paused or running.phase is Phase.PAUSED:
        raise NotAnswered(
            f"Sink {target.name} is paused and writes nothing. Resume it first: kafka-s3 resume {target.given}"
        )
    asked = _asked()
    ask_flush(target.store, target.paths, asked)
    say(f"Sink {target.name} was asked to flush; waiting for {process_of(running)}")
    beat = wait_for_answer(
        target, timeout, answered=lambda beat: beat.flushed == asked.id, replaced=lambda now: now.flush != asked.id
    )
    if beat.open_problems:
        raise NotAnswered(
            f"Sink {target.name} has flushed what it can read, which is not all: {'; '.join(beat.open_problems)}. Every other record "
            "in Kafka is in an object, a dead letter or skipped."
        )
    say(f"Sink {target.name} has flushed: every record that was in Kafka is in an object, a dead letter or skipped.")


@composed(target=named_target)
def delete(
    target: Target,
    with_log: Annotated[
        bool, typer.Option("--with-log", help="Also the commit log: the sink forgets what it wrote.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Remove a sink's stored configuration, control object and heartbeat; never its data, its log only with --with-log."""
    if not is_known(target.store, target.paths):
        say(f"Sink {target.name}: nothing of its state is in {target.folder}{target.name}/, so nothing was removed.")
        return
    running = target.heartbeat()
    if running is not None and running.alive(now_ms()):
        raise NotAnswered(
            f"Sink {target.name} is running ({process_of(running)}). Stop it first; after a crash it counts as running for three intervals."
        )
    keys = [target.paths.config(), target.paths.control(), target.paths.heartbeat()]
    if with_log:
        keys = [*_log_keys(target), *keys]
        say(
            f"The commit log of {target.name} says which records are in objects. Without it a sink of that name refuses to start while "
            "these are there (behavior.on.earlier.writer). Data and dead letter files stay."
        )
        confirm(None if yes else f"Delete {len(keys)} objects of {target.folder}{target.name}/?")
    removed = OpenFileStates(target.store, target.paths).remove_all() if with_log else 0
    for key in keys:
        removed += target.store.head(key) is not None
        target.store.delete(key)
    say(
        f"Sink {target.name}: {removed} objects of its state removed{', the log with them' if with_log else '; its log stays'}."
    )


def check_not_overtaken(target: Target) -> None:
    """Raises NotAnswered where the process that beats is not the one that may write: it ends as fenced when it goes on."""
    beat, log = target.heartbeat(), CommitLog(target.store, target.paths, clock_ms=now_ms)
    if beat is None or not beat.alive(now_ms()) or not 0 < beat.epoch < log.load().epoch:
        return
    raise NotAnswered(
        f"Sink {target.name}: {process_of(beat)}, has been overtaken, and ends as fenced when it goes on (its epoch is {beat.epoch}, the "
        f"log's {log.state.epoch}). Restart the sink: kafka-s3 run."
    )


def _log_keys(target: Target) -> list[str]:
    """The log's objects, checkpoints first and newest entries first: whatever is left of it at any moment is an earlier state of it."""
    log = CommitLog(target.store, target.paths, clock_ms=now_ms)
    log.load()
    ago = written_ago(log, now_ms=now_ms(), within_ms=QUIET_MS)
    if ago is not None:
        raise NotAnswered(
            f"Entry {log.state.version} of {target.name} was written {age(ago)} ago, and no heartbeat says that its driver has ended. Stop "
            f"it, and delete the log when it has been quiet for {age(QUIET_MS)}."
        )
    folders = ("checkpoints/", "commits/", "published/", "again/", "followers/", "settings/", "open-files.json")
    found = [[info.key for info in target.store.list(f"{target.paths.root}{folder}")] for folder in folders]
    return [key for keys in found for key in reversed(keys)]


# ------------------------------------------------------------ how


def _set(
    target: Target, ask: Callable[[ObjectStore, StatePaths, CommandRequest], Control], timeout: float, *, phase: Phase
) -> None:
    asked = _asked()
    is_paused = ask(target.store, target.paths, asked).paused
    word = "paused" if is_paused else "running"
    beat = target.heartbeat()
    if beat is None or not beat.alive(now_ms()):
        say(f"No sink {target.name} is running now. Once started, it will {'be paused' if is_paused else 'run'}.")
        return
    say(f"Sink {target.name} was asked to be {word}; waiting for {process_of(beat)}")
    wait_for_answer(
        target,
        timeout,
        answered=lambda beat: beat.request == asked.id and beat.phase is phase,
        replaced=lambda now: now.request != asked.id,
    )
    say(f"Sink {target.name} is {word}.")


def _asked() -> CommandRequest:
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user need not have a name
        user = "unknown"
    return CommandRequest(uuid.uuid4().hex, now_ms(), f"{user}@{socket.gethostname()}")


class NotAnswered(SinkError):
    """The sink did not answer, or is not there to answer."""


def wait_for_answer(
    target: Target, timeout: float, *, answered: Callable[[Heartbeat], bool], replaced: Callable[[Control], bool]
) -> Heartbeat:
    """The heartbeat that answers. Raises NotAnswered: too late, the process ended, or another command came in between."""
    began = shown = time.monotonic()
    while (beat := target.heartbeat()) is None or not answered(beat):
        now = time.monotonic()
        if beat is None or beat.ended:
            why = f": {beat.failure}" if beat is not None and beat.failure else "."
            raise NotAnswered(f"Sink {target.name} ended before it answered{why}")
        if replaced(read_control(target.store, target.paths) or Control()):
            text = f"Another command to {target.name} came in between and took this one's place. See `kafka-s3 status`."
            raise NotAnswered(text)
        if now - began >= timeout:
            raise NotAnswered(
                f"Sink {target.name} has not answered within {timeout:g} s (last heartbeat {_since(beat)}). The request remains: it is "
                "acted on after the commit that the sink is at. See `kafka-s3 status`."
            )
        if now - shown >= SHOW_S:
            shown = now
            say(f"  {now - began:.0f} s: still {beat.phase}, last heartbeat {_since(beat)}, lag {_lag(beat)}")
        time.sleep(LOOK_S)
    return beat


def process_of(beat: Heartbeat) -> str:
    """Which process a heartbeat is from, and how old it is."""
    return f"pid {beat.pid} on {beat.host}, heartbeat {_since(beat)}"


def say(text: str) -> None:
    """A line on standard output, never broken."""
    show_line(console(), text)


def _lag(beat: Heartbeat) -> Lag:
    return SinkSnapshot(beat.sink, heartbeat=beat, seen_ms=now_ms()).lag


def _since(beat: Heartbeat) -> str:
    return f"{age(now_ms() - beat.beat_ms)} ago"
