"""Which functions of librdkafka does the reader call? ctypes on the very library that confluent-kafka's module is linked with.

Asked of that module, the system's loader looks names up in what the module depends on, too: no search for the file, whatever the wheel
calls it. Names are librdkafka's without `rd_kafka_`; handles are addresses (`int`), and whoever gets one has to destroy it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import confluent_kafka.cimpl

_LIBRARY: Final = ctypes.CDLL(confluent_kafka.cimpl.__file__)
_Handle, _Text, _Int32, _Int64, _Size = (
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t,
)  # fmt: skip
_INT64_OUT: Final = ctypes.POINTER(ctypes.c_int64)

PRODUCER, CONSUMER = 0, 1
"""`RD_KAFKA_PRODUCER` and `RD_KAFKA_CONSUMER`"""
COPY, PURGE_ALL = 0x2, 0x3
"""Flags of `produce` (`RD_KAFKA_MSG_F_COPY`) and `purge`."""
EVENT_REPORT: Final = 0x1
EVENT_ERROR: Final = 0x8
NO_CONSUMER_CLOSE: Final = 0x8
"""Flag of `destroy_flags`: there is no group to leave."""
TEXT_BYTES: Final = 512
"""Room for an error's text."""


TOKEN_WANTED: Final = ctypes.CFUNCTYPE(None, _Handle, _Text, _Handle)
"""What librdkafka calls when it wants a token: the client, `sasl.oauthbearer.config`, an address that is not used here."""
CREATED: Final = ctypes.CFUNCTYPE(ctypes.c_int, _Handle, _Handle, _Handle, _Handle, _Size)
"""What librdkafka calls when it makes a client, before its threads begin: the client, and what is not used here."""


class NativeMessage(ctypes.Structure):
    """`rd_kafka_message_t`, for a look at a single one. With `error` 0 it is a record; else `offset` is where the error holds."""

    _fields_ = (
        ("error", ctypes.c_int), ("topic", _Handle), ("partition", _Int32), ("value", _Handle), ("value_size", _Size), ("key", _Handle),
        ("key_size", _Size), ("offset", _Int64), ("private", _Handle),
    )  # fmt: skip
    error: int
    topic: int
    partition: int
    value_size: int
    key_size: int
    offset: int
    private: int


def address(name: str) -> int:
    """Where a function of the library begins, for code that is compiled here."""
    return ctypes.cast(getattr(_LIBRARY, name), ctypes.c_void_p).value or 0


def _function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    found = getattr(_LIBRARY, f"rd_kafka_{name}")
    found.restype, found.argtypes = result, list(arguments)
    return found  # type: ignore[no-any-return]


conf_new = _function("conf_new", _Handle)
conf_set = _function("conf_set", ctypes.c_int, _Handle, _Text, _Text, _Text, _Size)
conf_set_events = _function("conf_set_events", None, _Handle, ctypes.c_int)
conf_get = _function("conf_get", ctypes.c_int, _Handle, _Text, _Text, ctypes.POINTER(_Size))
conf_set_token_callback = _function("conf_set_oauthbearer_token_refresh_cb", None, _Handle, TOKEN_WANTED)
conf_enable_sasl_queue = _function("conf_enable_sasl_queue", None, _Handle, ctypes.c_int)
conf_add_on_new = _function("conf_interceptor_add_on_new", ctypes.c_int, _Handle, _Text, CREATED, _Handle)
add_on_response = _function("interceptor_add_on_response_received", ctypes.c_int, _Handle, _Text, _Handle, _Handle)
conf_destroy = _function("conf_destroy", None, _Handle)
new = _function("new", _Handle, ctypes.c_int, _Handle, _Text, _Size)
destroy_flags = _function("destroy_flags", None, _Handle, ctypes.c_int)
poll_set_consumer = _function("poll_set_consumer", ctypes.c_int, _Handle)

sasl_in_background = _function("sasl_background_callbacks_enable", _Handle, _Handle)
set_token = _function(
    "oauthbearer_set_token", ctypes.c_int, _Handle, _Text, _Int64, _Text, _Handle, _Size, _Text, _Size
)
set_token_failure = _function("oauthbearer_set_token_failure", ctypes.c_int, _Handle, _Text)

version = _function("version", ctypes.c_int)
topic_new = _function("topic_new", _Handle, _Handle, _Text, _Handle)
topic_name = _function("topic_name", _Text, _Handle)
topic_destroy = _function("topic_destroy", None, _Handle)
produce = _function("produce", ctypes.c_int, _Handle, _Int32, ctypes.c_int, _Text, _Size, _Text, _Size, _Handle)
purge = _function("purge", ctypes.c_int, _Handle, ctypes.c_int)
queue_get_main = _function("queue_get_main", _Handle, _Handle)
event_message_next = _function("event_message_next", _Handle, _Handle)

queue_get_consumer = _function("queue_get_consumer", _Handle, _Handle)
queue_get_partition = _function("queue_get_partition", _Handle, _Handle, _Text, _Int32)
queue_forward = _function("queue_forward", None, _Handle, _Handle)
queue_length = _function("queue_length", _Size, _Handle)
queue_poll = _function("queue_poll", _Handle, _Handle, ctypes.c_int)
queue_destroy = _function("queue_destroy", None, _Handle)
consume_batch_queue = _function("consume_batch_queue", ctypes.c_ssize_t, _Handle, ctypes.c_int, _Handle, _Size)

event_type = _function("event_type", ctypes.c_int, _Handle)
event_error = _function("event_error", ctypes.c_int, _Handle)
event_error_string = _function("event_error_string", _Text, _Handle)
event_destroy = _function("event_destroy", None, _Handle)

list_new = _function("topic_partition_list_new", _Handle, ctypes.c_int)
list_add = _function("topic_partition_list_add", _Handle, _Handle, _Text, _Int32)
list_set_offset = _function("topic_partition_list_set_offset", ctypes.c_int, _Handle, _Text, _Int32, _Int64)
list_destroy = _function("topic_partition_list_destroy", None, _Handle)
incremental_assign = _function("incremental_assign", _Handle, _Handle, _Handle)
incremental_unassign = _function("incremental_unassign", _Handle, _Handle, _Handle)
offsets_for_times = _function("offsets_for_times", ctypes.c_int, _Handle, _Handle, ctypes.c_int)
query_watermark_offsets = _function(
    "query_watermark_offsets", ctypes.c_int, _Handle, _Text, _Int32, _INT64_OUT, _INT64_OUT, ctypes.c_int
)

queue_new = _function("queue_new", _Handle, _Handle)
topics_of_names = _function("TopicCollection_of_topic_names", _Handle, ctypes.POINTER(_Text), _Size)
topics_destroy = _function("TopicCollection_destroy", None, _Handle)
describe_topics = _function("DescribeTopics", None, _Handle, _Handle, _Handle, _Handle)
event_described_topics = _function("event_DescribeTopics_result", _Handle, _Handle)
described_topics = _function("DescribeTopics_result_topics", ctypes.POINTER(_Handle), _Handle, ctypes.POINTER(_Size))
describe_cluster = _function("DescribeCluster", None, _Handle, _Handle, _Handle)
event_described_cluster = _function("event_DescribeCluster_result", _Handle, _Handle)
cluster_nodes = _function("DescribeCluster_result_nodes", ctypes.POINTER(_Handle), _Handle, ctypes.POINTER(_Size))
node_id = _function("Node_id", ctypes.c_int, _Handle)
node_rack = _function("Node_rack", _Text, _Handle)
description_name = _function("TopicDescription_name", _Text, _Handle)
description_error = _function("TopicDescription_error", _Handle, _Handle)
description_id = _function("TopicDescription_topic_id", _Handle, _Handle)
id_text = _function("Uuid_base64str", _Text, _Handle)
error_code = _function("error_code", ctypes.c_int, _Handle)

error_string = _function("error_string", _Text, _Handle)
error_destroy = _function("error_destroy", None, _Handle)
err2name = _function("err2name", _Text, ctypes.c_int)
err2str = _function("err2str", _Text, ctypes.c_int)
message_errstr = _function("message_errstr", _Text, _Handle)
message_destroy = _function("message_destroy", None, _Handle)


def features() -> frozenset[str]:
    """What this build of the library can do, by its own names (`builtin.features`): `sasl_scram`, `ssl`, `zstd`, ..."""
    configuration, text, size = conf_new(), ctypes.create_string_buffer(TEXT_BYTES), _Size(TEXT_BYTES)
    try:
        conf_get(configuration, b"builtin.features", text, ctypes.byref(size))
    finally:
        conf_destroy(configuration)
    return frozenset(text.value.decode().split(","))
