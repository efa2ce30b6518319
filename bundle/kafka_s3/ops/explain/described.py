"""What is there to say of an object that the log counts? Its rule, its directory, and whether the bucket has it as it was written."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.files import DataFile
from kafka_s3.ops.explain.answer import Described
from kafka_s3.ops.explain.rules import why_closed, why_here
from kafka_s3.store.store import ObjectStore, etag_of


def described(files: Iterable[DataFile], settings: Settings, store: ObjectStore) -> dict[str, Described]:
    """Each object by its key; one HEAD request for each. Raises StorageError."""
    return {
        file.key: Described(file, why_closed(file, settings), why_here(file, settings), in_bucket(file, store))
        for file in files
    }


def in_bucket(file: DataFile, store: ObjectStore) -> str:
    """How the bucket has an object. Raises StorageError."""
    info = store.head(file.key)
    if info is None:
        pending = store.upload_exists(file.upload.key, file.upload.id)
        return (
            "not visible yet: the sink completes it when it starts" if pending else "missing: kafka-s3 verify says more"
        )
    if info.size != file.bytes:
        return f"overwritten: it has {info.size} bytes, the log counts {file.bytes}; kafka-s3 verify says more"
    return "as written" if info.etag == etag_of(file.upload.parts) else "of the size that was written"
