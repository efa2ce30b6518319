"""How is a sink put together? From settings and the seams: brokers, source, store, clock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.remade import Remade, Remake
from kafka_s3.engine.loop.beside import Background, at_once
from kafka_s3.engine.loop.followers import Followers
from kafka_s3.engine.loop.open_states import OpenStates
from kafka_s3.engine.loop.planner import Behaviour
from kafka_s3.engine.loop.sink import Sink, no_slots
from kafka_s3.engine.loop.topics import Resume
from kafka_s3.engine.open_files.states import OpenFileStates
from kafka_s3.followers.dead_letter_source import Guard, remake_from_letters, unguarded
from kafka_s3.model.files import DataFile
from kafka_s3.model.protocols import Brokers, Observer, Source
from kafka_s3.model.timing import Backoff
from kafka_s3.objects.block_gzip_form import position_in_bucket
from kafka_s3.run.wiring.followers import Surroundings, compactor_of, followed_by_tables, followers_of, group_offsets
from kafka_s3.run.wiring.pipeline import (
    block_names,
    fingerprint,
    make_pipeline,
    object_names,
    readiness,
    resumes_at_pointer,
    state_paths,
)
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from kafka_s3.followers.state import StateTables
    from kafka_s3.run.wiring.delta import Spark
    from kafka_s3.run.wiring.table_guard import OpenTables


def build_sink(
    settings: Settings,
    brokers: Brokers,
    *,
    source: Source,
    store: ObjectStore,
    clock_ms: Callable[[], int],
    observer: Observer | None = None,
    spark: Spark | None = None,
    states: StateTables | None = None,
    background: Background = at_once,
    slots: Callable[[], int] = no_slots,
) -> Sink:
    """A sink, ready to be opened. `settings` are resolved; `spark` is what gives its Delta tables names, or writes them;
    `states` is what keeps its state tables.

    `background` reads beside the loop what fails, and a backlog, in as many tasks as there are `slots`.
    """
    observer = observer or Observer()
    tables = _tables(settings, store, observer)

    def look() -> None:
        sink.rewrites.look()

    around = Surroundings(
        brokers, store, clock_ms, observer.follower_warned, spark, tables, states, look, observer.states_kept
    )
    sink = Sink(
        behaviour(settings),
        brokers=brokers,
        source=guard_of(settings, store, tables=tables)(source, store),
        store=store,
        log=CommitLog(store, state_paths(settings), clock_ms=clock_ms),
        clock_ms=clock_ms,
        followers=Followers(
            followers_of(settings, around), observer, group_offsets(settings, brokers, observer.follower_warned)
        ),
        observer=observer,
        resume=_resume(settings, store),
        remakes={EntryKind.REPLAY: replays_again(settings, store), EntryKind.REWRITE: merges_again(settings, store)},
        open_states=_open_states(settings, store, observer),
        data_keys=object_names(settings),
        background=background,
        slots=slots,
        followed=followed_by_tables(settings, store),
    )
    return sink


def behaviour(settings: Settings) -> Behaviour:
    """What the loop needs of the settings."""
    record_time = settings.text("timestamp.extractor") == "Record"
    return Behaviour(
        sink=settings.name,
        topics=settings.names("topics"),
        topics_regex=settings.optional_text("topics.regex") or None,
        readiness=readiness(settings),
        tasks_max=settings.number("tasks.max"),
        reset=settings.optional_text("consumer.override.auto.offset.reset") or "earliest",
        lost=settings.text("behavior.on.lost.offsets"),
        refresh_ms=settings.number("topics.refresh.interval.ms"),
        record_timestamps=record_time,
        retry_timeout_ms=settings.number("errors.retry.timeout"),
        dead_letter_ratio=float(settings.text("errors.deadletter.max.ratio")),
        max_files=settings.number("commit.max.files"),
        stop_scope=settings.text("errors.stop.scope"),
        rewrite_grace_ms=settings.number("rewrite.grace.ms"),
        backoff=Backoff(*pauses(settings)),
    )


def pauses(settings: Settings) -> tuple[int, int]:
    """First and longest pause (ms) after something did not answer; both the same under strict, where it does not grow (SEMANTICS A9.2)."""
    first, longest = settings.number("retry.backoff.ms"), settings.number("errors.retry.delay.max.ms")
    if settings.strict or longest <= 0:
        return first, first
    return min(first, longest), longest


def _open_states(settings: Settings, store: ObjectStore, observer: Observer) -> OpenStates | None:
    """What keeps open files between two tasks, None where the open tail is read again."""
    if not settings.flag("tail.state.enable"):
        return None
    return OpenStates(OpenFileStates(store, state_paths(settings)), fingerprint(settings), observer)


def _tables(settings: Settings, store: ObjectStore, observer: Observer) -> OpenTables | None:
    """The sink's tables, for its guard and its followers together, so that each is read once; None where it has none."""
    if not has_tables(settings):
        return None
    from kafka_s3.run.wiring.table_guard import open_tables  # loads delta-rs or pyiceberg

    return open_tables(settings, store, observer.follower_warned)


def has_tables(settings: Settings) -> bool:
    """Whether the sink keeps tables of some format."""
    return settings.flag("delta.enable") or settings.flag("iceberg.enable")


def _resume(settings: Settings, store: ObjectStore) -> Resume | None:
    """The original Block-GZIP sink goes on where its bucket says, whatever Kafka's group says (SEMANTICS B5)."""
    if not resumes_at_pointer(settings):
        return None
    return partial(position_in_bucket, store, block_names(settings))


def guard_of(settings: Settings, bucket: ObjectStore, *, tables: OpenTables | None = None) -> Guard:
    """The watch of the sink's tables, where it keeps any; `tables` that are open already are used."""

    def guard(source: Source, store: ObjectStore) -> Source:
        from kafka_s3.run.wiring.table_guard import guarded  # loads delta-rs or pyiceberg

        return guarded(settings, source, store, bucket=bucket, tables=tables)

    return guard if has_tables(settings) else unguarded


def merges_again(settings: Settings, store: ObjectStore) -> Remake:
    """Makes objects of an entry of kind rewrite again, for whoever finds their uploads gone."""
    return lambda entry, gone: compactor_of(settings, store).remake(entry, gone)


def replays_again(settings: Settings, store: ObjectStore) -> Remake:
    """Makes files of an entry of kind replay again, for a sink that finds their uploads gone."""
    paths = state_paths(settings)

    def remake(entry: CommitEntry, gone: list[DataFile]) -> Remade:
        made = remake_from_letters(
            entry, gone, pipeline=make_pipeline(settings), store=store, paths=paths, guard=guard_of(settings, store)
        )
        return Remade(made)

    return remake
