"""Where do objects go? The few verbs of an object store that the product uses, over S3, in memory, and failing on demand."""

from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectInfo, ObjectStore, etag_of

__all__ = ["MemoryStore", "ObjectInfo", "ObjectStore", "etag_of"]
