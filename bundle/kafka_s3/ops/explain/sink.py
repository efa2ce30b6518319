"""How is a key or an offset of the sink of these settings explained? The composition."""

from __future__ import annotations

import re
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.clock import now_ms
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.explain.answer import Answer
from kafka_s3.ops.explain.key import bare_key, key_answer
from kafka_s3.ops.explain.offset import OffsetInquiry
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.run.wiring.pipeline import make_pipeline, object_names, state_paths
from kafka_s3.store.store import ObjectStore

RECORD: Final = re.compile(r"([\w.-]{1,249}):(\d{1,9}):(\d{1,19})", re.ASCII)
"""`topic:partition:offset`, with the characters that Kafka takes in topics."""


def explain(settings: Settings, about: str, *, store: ObjectStore, kafka: KafkaRecords | None) -> Answer:
    """What is known of a key, or of `topic:partition:offset`. Raises ConfigError, StorageError, CommitError, SourceError, RegistryError."""
    paths, record = state_paths(settings), RECORD.fullmatch(about)
    if record is None:
        key, layout = bare_key(about, settings.text("s3.bucket.name")), object_names(settings)
        return key_answer(key, settings=settings, store=store, paths=paths, layout=layout)
    inquiry = OffsetInquiry(settings, store, paths, lambda: make_pipeline(settings), now_ms(), kafka)
    return inquiry.answer(TopicPartition(record[1], int(record[2])), int(record[3]))
