"""Where does a Block-GZIP sink go on? Where the bucket says: behind the last block that the pointer leads to (SEMANTICS B5).

The original asks the bucket at every start. Here the commit log knows, once there is one; the pointer is asked when a topic-partition is
taken over, so that an existing bucket is continued without a gap and without an overlap.
"""

from __future__ import annotations

from kafka_s3.connect.naming.keys import BlockNames
from kafka_s3.model.errors import ObjectMissing
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip_form import IndexDamaged, parse_index, resume_offset
from kafka_s3.store.store import ObjectStore


def position_in_bucket(store: ObjectStore, names: BlockNames, topic_partition: TopicPartition) -> int | None:
    """The offset after the last record that the bucket holds by its pointer, None without a pointer.

    Raises IndexDamaged where the pointer names an object that is missing or damaged.
    """
    pointer = names.pointer_key(topic_partition)
    try:
        key = store.get(pointer).decode("utf-8", "replace").strip()
    except ObjectMissing:
        return None
    try:
        return resume_offset(parse_index(store.get(key), key))
    except ObjectMissing:
        raise IndexDamaged(
            f"The pointer {pointer} names {key!r}, which is missing. Restore the index, or correct or delete the pointer."
        ) from None
