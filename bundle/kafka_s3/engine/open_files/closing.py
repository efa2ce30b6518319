"""What becomes of files that close? Uncompleted uploads, and a row of facts for the commit log for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_s3.engine.open_files.lines import NO_SCHEMA
from kafka_s3.engine.open_files.open_files import OpenFile, OpenFiles, Output, open_file
from kafka_s3.engine.open_files.uploads import FileUpload, upload_whole
from kafka_s3.model.files import DataFile, Reason, Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import ThreadPool
from kafka_s3.objects.format import SidecarObject

SHARES: Final = 16
"""So many shares of the work each thread gets: uploads differ in size."""


@dataclass(slots=True)
class Closed:
    """Closed objects in the order in which they are completed, and the different columns of their tables."""

    files: list[DataFile] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)

    def add(self, other: Closed) -> None:
        """Takes over what closed later."""
        self.files += other.files
        self.columns |= other.columns


def closed(open_files: OpenFiles, topic_partition: TopicPartition, output: Output, *, reason: Reason) -> Closed:
    """Finishes every open object, the uploads side by side, and tells what there is to commit, in the order of first records."""
    found = Closed()
    with ThreadPool(output.threads) as pool:
        for files in _in_shares(open_files, topic_partition, output):
            objects = [(file, target) for file in files for target in file.objects.values()]
            for _, target in objects:
                target.finish()
            uploads = _finished([target.upload for _, target in objects], pool, output.threads)
            for (file, target), upload in zip(objects, uploads, strict=True):
                data = file.data_file(topic_partition, target, upload, reason=reason)
                found.columns |= dict.fromkeys(filter(None, [target.columns()]))
                beside = target.sidecar_objects(file.first_offset)
                found.files += [data, *(_beside(data, extra, output) for extra in beside)]
    found.files.sort(key=lambda file: file.first_offset)  # a file that was small at first is opened late
    open_files.small.drop()
    return found


def _in_shares(open_files: OpenFiles, topic_partition: TopicPartition, output: Output) -> Iterator[list[OpenFile]]:
    """All open files: first those that are there, then some of the small ones at a time, which become files only now."""
    yield [*open_files.files.values()]
    for share in open_files.small.shares():
        files = []
        for name, lines in share:
            file = open_file(output, topic_partition, name, first=lines.first_offset, schemas=NO_SCHEMA)
            file.append_lines(lines)
            files.append(file)
        yield files


def _finished(uploads: list[FileUpload], pool: ThreadPool, threads: int) -> list[Upload]:
    """Sends what is left of each; of thousands a thread gets several at a time, for to hand it one takes as long as to send it."""
    size = max(1, len(uploads) // (threads * SHARES))
    shares = [uploads[first : first + size] for first in range(0, len(uploads), size)]
    return [upload for share in pool.each(_finished_one_by_one, shares) for upload in share]


def _finished_one_by_one(uploads: Sequence[FileUpload]) -> list[Upload]:
    return [upload.finish() for upload in uploads]


def _beside(data: DataFile, extra: SidecarObject, output: Output) -> DataFile:
    """The facts of an object that goes with another one, once it is uploaded."""
    sent = upload_whole(output.store, extra.key, extra.content, part_size=output.part_size)
    return replace(data, key=extra.key, role=extra.role, format=str(extra.role), upload=sent, bytes=sent.size)
