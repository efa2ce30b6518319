"""`kafka-s3 seek s3://bucket/prefix TOPIC PARTITION OFFSET`: which record has this offset? Read from Block-GZIP files (SEMANTICS B6).

The records go to standard output, what was fetched for them to standard error.
"""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from functools import partial
from typing import Annotated, BinaryIO, Final

import typer
from rich.console import Console

from kafka_s3.cli.arguments import usage_error
from kafka_s3.cli.display import console, show_line
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip_form import Delimited, Framing, Prefixed
from kafka_s3.ops.seek import Located, records_from
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore

_ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\0": "\0", r"\\": "\\"}


class RecordFormat(StrEnum):
    """How the sink wrote the records."""

    TEXT = "text"
    BINARY = "binary"


def seek(
    located: Annotated[str, typer.Argument(metavar="s3://BUCKET/PREFIX", help="The sink's s3.bucket and s3.prefix.")],
    topic: Annotated[str, typer.Argument(help="The topic.")],
    partition: Annotated[int, typer.Argument(min=0, help="The partition.")],
    offset: Annotated[int, typer.Argument(min=0, help="The offset of the first record wanted.")],
    count: Annotated[int, typer.Option(min=1, help="How many records to read from there on.")] = 1,
    record_format: Annotated[
        RecordFormat, typer.Option("--format", help="How the sink wrote the records (its `format`).")
    ] = RecordFormat.TEXT,
    delimiter: Annotated[
        str | None, typer.Option(help=r"With text: what ends a record; \n, \t, \r and \0 are understood. Default: \n.")
    ] = None,
    include_keys: Annotated[
        bool, typer.Option("--include-keys", help="With binary: the sink wrote keys, too (format.include.keys).")
    ] = False,
    store_url: Annotated[
        str | None,
        typer.Option("--store-url", envvar="KAFKA_S3_STORE_URL", help="Address of an S3-compatible service."),
    ] = None,
    region: Annotated[
        str, typer.Option(envvar=["AWS_REGION", "AWS_DEFAULT_REGION"], help="The bucket's region.")
    ] = "us-west-2",
    path_style: Annotated[
        bool, typer.Option("--path-style", help="Name the bucket in the path instead of the host name.")
    ] = False,
) -> None:
    """Print the records of a Block-GZIP sink from an offset. Fetches only the blocks that hold them."""
    bucket, prefix = _split(located)
    framing = _framing(record_format, delimiter, keys=include_keys)
    options = StoreOptions(bucket, region, _address(store_url), path_style)
    store = S3Store(options)
    show(store, prefix, topic_partition=TopicPartition(topic, partition), offset=offset, count=count, framing=framing)


def show(
    store: ObjectStore,
    prefix: str,
    *,
    topic_partition: TopicPartition,
    offset: int,
    count: int,
    framing: Framing,
    out: BinaryIO | None = None,
) -> None:
    """Writes `count` records, one per line, to `out` (standard output). Raises SeekError where the first cannot be found."""
    target, notes = out or sys.stdout.buffer, console(stderr=True)
    notify = partial(_show_block, notes)
    found = records_from(
        store, prefix, topic_partition=topic_partition, offset=offset, framing=framing, count=count, notify=notify
    )
    written = 0
    for _, record in found:
        target.write(record + b"\n")
        written += 1
    target.flush()
    if written < count:
        show_line(notes, f"the files end after {written} of {count} records")


def _show_block(out: Console, located: Located) -> None:
    block = located.block
    offsets = f"offsets {block.first_record_offset} to {block.until - 1}"
    size = f"{block.byte_length} of {located.index.byte_length} bytes fetched"
    show_line(out, f"{located.data_key}: block {located.number + 1} of {len(located.index.blocks)}, {offsets}, {size}")


def _split(located: str) -> tuple[str, str]:
    found = re.fullmatch(r"s3a?://([^/]+)/?(.*)", located)
    if not found:
        raise usage_error("s3://BUCKET/PREFIX", located, "is not an S3 address.", "Write s3://bucket/prefix.")
    return found[1], found[2]


def _framing(record_format: RecordFormat, delimiter: str | None, *, keys: bool) -> Framing:
    if record_format is RecordFormat.BINARY:
        if delimiter is not None:
            raise usage_error("--delimiter", delimiter, "goes with --format text.", "Leave it out.")
        return Prefixed(keys)
    if keys:
        raise usage_error("--include-keys", None, "goes with --format binary.", "In text, keys are shown as written.")
    text = re.sub(r"\\[ntr0\\]", lambda match: _ESCAPES[match[0]], delimiter or r"\n")
    return Delimited(text.encode())


def _address(url: str | None) -> str | None:
    """The endpoint; without a scheme, https is meant, as with store.url."""
    return f"https://{url}" if url and "://" not in url else url
