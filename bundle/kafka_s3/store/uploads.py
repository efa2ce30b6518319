"""How do uploads end that are not going to be committed? By whoever began them, several at a time.

An upload that a task took over with the state of another is left: that state may still be gone on with, by this driver's next start or by
the driver that replaced it. Where nobody does, the sweep ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_s3.model.files import DataFile
from kafka_s3.model.process import ThreadPool
from kafka_s3.store.store import ObjectStore

THREADS: Final = 8


def abort_uploads(store: ObjectStore, files: Iterable[DataFile]) -> None:
    """Ends the uploads of files that were not inherited; those that are gone already are no error. Raises StorageError."""
    uploads = [file.upload for file in files if not file.upload.inherited]
    if uploads:
        with ThreadPool(min(THREADS, len(uploads))) as pool:
            list(pool.each(lambda upload: store.abort_upload(upload.key, upload.id), uploads))
