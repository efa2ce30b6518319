"""Which transforms and predicates do configurations name, and what are they called here? `<kind>.<part>`, or the kind alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from kafka_s3.connect.config.classes import offered

TRANSFORM_GROUP: Final = "kafka_s3.transforms"
_KAFKA: Final = "org.apache.kafka.connect.transforms."
_CONFLUENT: Final = "io.confluent.connect.transforms."
_OF_PARTS: Final = {
    "Cast": "cast", "ExtractField": "extract_field", "Flatten": "flatten", "HeaderFrom": "header_from", "HoistField": "hoist_field",
    "InsertField": "insert_field", "MaskField": "mask_field", "ReplaceField": "replace_field", "SetSchemaMetadata": "schema_metadata",
    "TimestampConverter": "timestamp_converter",
}  # fmt: skip

TRANSFORMS: Final[Mapping[str, str]] = {
    **{
        f"{_KAFKA}{java}${part.title()}": f"{kind}.{part}"
        for java, kind in _OF_PARTS.items()
        for part in ("key", "value")
    },
    _KAFKA + "DropHeaders": "drop_headers",
    _KAFKA + "Filter": "filter",
    _KAFKA + "InsertHeader": "insert_header",
    _KAFKA + "RegexRouter": "regex_router",
    _KAFKA + "TimestampRouter": "timestamp_router",
    _KAFKA + "ValueToKey": "value_to_key",
    _CONFLUENT + "Drop$Key": "drop.key",
    _CONFLUENT + "Drop$Value": "drop.value",
    _CONFLUENT + "ExtractTopic$Key": "extract_topic.key",
    _CONFLUENT + "ExtractTopic$Value": "extract_topic.value",
    _CONFLUENT + "ExtractTopic$Header": "extract_topic.header",
    _CONFLUENT + "MessageTimestampRouter": "message_timestamp_router",
    _CONFLUENT + "TombstoneHandler": "tombstone_handler",
    "io.debezium.transforms.ExtractNewRecordState": "new_record_state",
}
OTHER_TRANSFORMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (f"{_CONFLUENT}Filter$Key", f"{_CONFLUENT}Filter$Value"),
        f"It filters by JSONPath. Use {_KAFKA}Filter with a predicate, or a transform of your own.",
    ),
    "io.confluent.connect.cloud.transforms.TopicRegexRouter": f"Use {_KAFKA}RegexRouter with regex and replacement.",
    "io.debezium.transforms.ByLogicalTableRouter": f"Use {_KAFKA}RegexRouter with regex and replacement.",
    "io.debezium.transforms.outbox.EventRouter": f"Use {_KAFKA}ExtractField$Value and {_CONFLUENT}ExtractTopic$Value.",
}
"""Transforms of others that this sink does not have, and what to do instead."""
PREDICATES: Final[Mapping[str, str]] = {
    _KAFKA + "predicates.HasHeaderKey": "has_header_key",
    _KAFKA + "predicates.RecordIsTombstone": "record_is_tombstone",
    _KAFKA + "predicates.TopicNameMatches": "topic_name_matches",
}
JAVA_NAMES: Final = {name: java for java, name in TRANSFORMS.items()}
ROUTERS: Final = frozenset({"regex_router", "timestamp_router", "extract_topic", "message_timestamp_router"})
"""Kinds that always change the topic; Debezium's does with `route.by.field`, an own one may."""


def registered_transforms() -> tuple[str, ...]:
    """The transforms that installed packages offer."""
    return offered(TRANSFORM_GROUP, tuple(sys.path))
