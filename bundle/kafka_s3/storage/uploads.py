"""How do uploads end that are not going to be committed? They are aborted, several at a time."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kafka_s3.model.files import DataFile
from kafka_s3.storage.store import ObjectStore

THREADS: Final = 8


def abort_uploads(store: ObjectStore, files: Iterable[DataFile]) -> None:
    """Ends the uploads of files; those that are gone already are no error. Raises StorageError."""
    uploads = [file.upload for file in files]
    if uploads:
        with ThreadPoolExecutor(min(THREADS, len(uploads))) as pool:
            list(pool.map(lambda upload: store.abort_upload(upload.key, upload.id), uploads))
