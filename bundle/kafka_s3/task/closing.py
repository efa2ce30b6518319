"""What becomes of files that close? Uncompleted uploads, and a row of facts for the commit log for each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from kafka_s3.formats.format import SidecarObject
from kafka_s3.model.files import DataFile, Reason, Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.task.open_files import OpenFiles, Output
from kafka_s3.task.uploads import FileUpload, upload_whole


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
    """Finishes every open object, the uploads side by side, and tells what there is to commit."""
    found, objects = Closed(), open_files.objects()
    for _, target in objects:
        target.finish()
    uploads = _finished([target.upload for _, target in objects], output.threads)
    for (file, target), upload in zip(objects, uploads, strict=True):
        data = file.data_file(topic_partition, target, upload, reason=reason)
        found.columns |= dict.fromkeys(filter(None, [target.columns()]))
        found.files += [data, *(_beside(data, extra, output) for extra in target.sidecar_objects(file.first_offset))]
    return found


def _finished(uploads: list[FileUpload], threads: int) -> list[Upload]:
    """Sends what is left of each. One alone needs no other thread, which costs as much as its request."""
    if len(uploads) <= 1:
        return [upload.finish() for upload in uploads]
    with ThreadPoolExecutor(max_workers=min(threads, len(uploads))) as pool:
        return list(pool.map(FileUpload.finish, uploads))


def _beside(data: DataFile, extra: SidecarObject, output: Output) -> DataFile:
    """The facts of an object that goes with another one, once it is uploaded."""
    sent = upload_whole(output.store, extra.key, extra.content, part_size=output.part_size)
    return replace(data, key=extra.key, role=extra.role, format=str(extra.role), upload=sent, bytes=sent.size)
