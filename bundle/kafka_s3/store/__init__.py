"""Where do objects go? The few verbs of an object store that the product uses, over S3, in memory, and failing on demand.

`S3Store` and `store_options` are not imported here: they bring botocore with them, which decisions and their tests do without.
"""

from kafka_s3.store.etag import etag_of
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectInfo, ObjectStore

__all__ = ["MemoryStore", "ObjectInfo", "ObjectStore", "etag_of"]
