"""Where may somebody's records be that an erasure does not reach? Places with the commands that show or empty them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.timing import duration_text, iso_time
from kafka_s3.ops.erasure.forgetting import Searched
from kafka_s3.ops.policies import data_prefixes
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import state_paths

MOST: Final = 10
"""Commands for single objects; more are not printed."""


@dataclass(frozen=True, slots=True)
class Unreached:
    """A place, and what to do there."""

    text: str
    commands: tuple[str, ...] = ()


def unreached(
    settings: Settings,
    searched: Searched,
    *,
    topics: Sequence[str],
    now_ms: int,
    purged: bool = False,
    unflushed: Sequence[str] = (),
) -> list[Unreached]:
    """Return all such places of one sink.

    If `purged`, the history of its tables goes, too. `unflushed` are topic-partitions whose open files could not be written.
    """
    return [
        *_of_open_files(settings, searched, unflushed),
        *_of_bucket(settings, searched, now_ms),
        *([] if purged else _of_tables(settings)),
        *_of_state_tables(settings),
        *_of_search(settings, searched),
        *_of_kafka(settings, searched, topics),
        Unreached(
            "Copies that others made: tables, exports, caches of queries, topics that `restore` or `dead-letters export` filled, logs, "
            "backups."
        ),
    ]


def _of_open_files(settings: Settings, searched: Searched, unflushed: Sequence[str]) -> Iterator[Unreached]:
    name = shlex.quote(settings.name)
    if unflushed:
        yield Unreached(
            f"Records of {', '.join(unflushed)} that the sink holds in open files, or has not read: the topic-partition has stopped or has "
            "no leader. They are written when it goes on. See what stopped it, start the sink again, then repeat this command.",
            (f"kafka-s3 status {name}",),
        )
    if searched.orphans:
        yield Unreached(
            f"{searched.orphans:,} states of open files that no driver continues, or that were written during the search. They hold "
            "records, and never become objects. Once they are a day old they can be removed:",
            (f"kafka-s3 sweep {name}",),
        )


def _of_bucket(settings: Settings, searched: Searched, now_ms: int) -> Iterator[Unreached]:
    options, root = store_options(settings), state_paths(settings).root
    where = f"--bucket {shlex.quote(options.bucket)}"
    grace_ms = settings.number("rewrite.grace.ms")
    yield Unreached(
        f"The originals, until the sink deletes them: {duration_text(grace_ms)} after the entry (rewrite.grace.ms), not "
        f"before {iso_time(now_ms + grace_ms)}. Those of a compaction before, in the same way."
    )
    yield Unreached(
        "Versions of objects, in a bucket that keeps them: `Enabled` in the first answer means that a lifecycle rule for noncurrent "
        "versions has to remove them. Replicas in other buckets.",
        (
            f"aws s3api get-bucket-versioning {where}",
            f"aws s3api get-bucket-lifecycle-configuration {where}",
            f"aws s3api get-bucket-replication {where}",
            *(
                f"aws s3api list-object-versions {where} --prefix {shlex.quote(prefix)} --query 'Versions[?!IsLatest].[Key,VersionId]'"
                for prefix in (*data_prefixes(settings), f"{root}dead-letters/")
            ),
        ),
    )


def _of_tables(settings: Settings) -> Iterator[Unreached]:
    """What tables keep of objects that are in them no more: the smallest and the largest value of each column."""
    if settings.flag("delta.enable"):
        yield Unreached(
            "Delta's own logs: the smallest and the largest values of the columns of replaced files, until the table's retention "
            "(delta.logRetentionDuration, 30 days) is over. This command with --purge deletes them, and with them all earlier versions of "
            "the tables."
        )
    if settings.flag("iceberg.enable"):
        yield Unreached(
            "Metadata of Iceberg tables: the same bounds, as long as a snapshot names the replaced files (the newest 100). This command "
            "with --purge deletes all snapshots but those that a branch or a tag names."
        )


def _of_state_tables(settings: Settings) -> Iterator[Unreached]:
    """Copies of the newest value of every key, which Spark keeps."""
    if settings.flag("state.enable"):
        table = settings.text("state.table")
        old = "expire_snapshots" if settings.text("state.table.format") == "iceberg" else "VACUUM"
        yield Unreached(
            f"State tables, {table}: they hold copies. Their next merge makes their rows again from the objects that are left, or this "
            f"command now; then let Spark delete the files of earlier versions, of the tables __deleted, too, once they may go ({old}):",
            (f"kafka-s3 state rebuild {shlex.quote(settings.name)}",),
        )


def _of_search(settings: Settings, searched: Searched) -> Iterator[Unreached]:
    bucket, found = store_options(settings).bucket, searched.found
    if searched.lasting:
        yield Unreached(
            f"{len(searched.lasting):,} objects that count no more, since their offsets were read again; only listings find them.",
            tuple(f"aws s3 rm {shlex.quote(f's3://{bucket}/{key}')}" for key in searched.lasting[:MOST]),
        )
    if searched.named:
        yield Unreached(
            f"The names of {searched.named:,} directories, which hold a text of the subjects: they stay in the commit log, in names of "
            "versions and replicas, and in metadata of tables. Partition by another field, or hash it (a transform), to keep it out."
        )
    if found.problems:
        yield Unreached(f"{len(found.problems):,} files that could not be searched; they are named above.")
    if found.letters_opaque:
        yield Unreached(
            f"{found.letters_opaque:,} dead letters whose values are not JSON, so that they have no fields. Search them by --key, or "
            "look at them: kafka-s3 dead-letters list."
        )


def _of_kafka(settings: Settings, searched: Searched, topics: Sequence[str]) -> Iterator[Unreached]:
    server = shlex.quote(settings.text("kafka.bootstrap.servers"))
    queue = settings.optional_text("errors.deadletterqueue.topic.name")
    names = ", ".join([*topics, *([queue] if queue else [])])
    yield Unreached(
        f"Kafka: {names}. What it holds of these offsets the sink leaves out, should it read them again. Records that it "
        "has not read yet, and new ones, are written. A topic with cleanup.policy=compact forgets a key once a record without value "
        "follows it; others forget with their retention, or:",
        (f"kafka-delete-records --bootstrap-server {server} --offset-json-file offsets.json",),
    )
    for tp, records in sorted(searched.unsure.items()):
        yield Unreached(
            f"{records:,} records of {tp} leave their objects, but their offsets could not be found out: do not set its position back "
            "before them while Kafka has them, or repeat this command then."
        )
