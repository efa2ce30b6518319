"""How does a process hold librdkafka's consumer? One for each configuration, kept between rounds, with a queue for each topic-partition.

librdkafka would put all topic-partitions into one queue. Here each has its own, so that the records of one can be read to their end while
those of the next are on their way, and none has to be kept aside.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError

from kafka_s3.connect.config.librdkafka import RACK
from kafka_s3.kafka.clients import CHECK, TRANSIENT, unanswered
from kafka_s3.kafka.iam import IamLogin
from kafka_s3.kafka.reader import library
from kafka_s3.kafka.reader.messages import BROKERS, check_library, note_fetch
from kafka_s3.model.errors import SourceError
from kafka_s3.model.offsets import TopicPartition

PRINCIPAL = b"kafka-s3"
"""For librdkafka's own book-keeping: the broker takes the caller's name from the signature."""


def token_callback(login: IamLogin) -> Any:
    """What librdkafka calls for a token; whoever hands it over keeps it. Raises SourceError where no token can be signed now."""
    login.token()

    def wanted(client: int, _config: bytes, _unused: int) -> None:
        try:
            token = login.token()
        except SourceError as error:
            library.set_token_failure(client, str(error).encode())
            return
        text = ctypes.create_string_buffer(library.TEXT_BYTES)
        signed = token.text.reveal().encode()
        if library.set_token(client, signed, token.ends_ms, PRINCIPAL, None, 0, text, library.TEXT_BYTES):
            library.set_token_failure(client, text.value)

    return library.TOKEN_WANTED(wanted)


KEPT: Final = 8
"""Configurations whose consumers a process keeps: of a sink four, for a first look, for one topic-partition at a time, a few and many."""
LOOK_UP_S: Final = 2.0
ID_HOLDS_S: Final = 0.1
"""To delete, create and fill a topic, and for librdkafka to find it, takes longer. An answer has all of a topic's partitions in it."""
LATEST: Final = -1
ALL_DOWN: Final = KafkaError._ALL_BROKERS_DOWN
"""Follows the reason of each, which says more."""
INTERCEPTOR: Final = b"kafka-s3"
"""The name of an interceptor, for librdkafka's own messages."""
SECRET_WORDS: Final = ("password", "secret", "key")


class Consumer:
    """A consumer of librdkafka with its threads and connections. Not thread-safe; of no use after a fork, nor once it has `failed`."""

    def __init__(self, settings: Mapping[str, str], login: IamLogin | None = None) -> None:
        """Connects to nothing yet. Raises SourceError where librdkafka does not take the settings, or no token can be signed."""
        self.servers = settings["bootstrap.servers"]
        tokens = token_callback(login) if login else None
        self.rack = settings.get(RACK, "")
        self._fetched = np.zeros(1 + 2 * BROKERS, np.int64)
        self._taken: dict[int, int] = {}
        self._racks: dict[int, str] = {}
        self.handle: int | None = _new(settings, tokens, _noting(self._fetched))
        _used[self.handle] = (tokens, self._fetched)
        library.poll_set_consumer(self.handle)
        self._own_queue = library.queue_get_consumer(self.handle)
        self._complaint = ""
        self._open: list[Queue] = []
        self._topics: set[str] = set()
        self._ids: dict[str, tuple[float, str]] = {}
        self.failed = False

    @contextmanager
    def queues(self, starts: Mapping[TopicPartition, int]) -> Iterator[dict[TopicPartition, Queue]]:
        """Fetches these topic-partitions from these offsets on, each into its queue, until the block ends. Raises SourceError.

        It does so once at a time: what an earlier block still has open is closed.
        """
        self._end()
        self._look_up(starts)
        self._open = [Queue(self, tp) for tp in starts]
        mine = {queue.topic_partition: queue for queue in self._open}
        try:
            with _partition_list(starts) as partitions:
                _checked(library.incremental_assign(self.handle, partitions), "begin to read")
            yield mine
        finally:
            for queue in mine.values():
                queue.close()

    def _look_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Has librdkafka ask for the leaders of new topics at once; by itself it does so once a second. Failures show when it reads."""
        new = {tp.topic: tp for tp in partitions if tp.topic not in self._topics}
        if not new:
            return
        with _partition_list(dict.fromkeys(new.values(), LATEST)) as wanted:
            if not library.offsets_for_times(self.handle, wanted, int(LOOK_UP_S * 1000)):
                self._topics |= set(new)

    def bounds(self, tp: TopicPartition, *, timeout_s: float) -> tuple[int, int]:
        """The topic-partition's first offset and the one after its last, by its leader. Raises KafkaUnavailable and SourceError."""
        low, high = ctypes.c_int64(), ctypes.c_int64()
        code = library.query_watermark_offsets(
            self.handle, tp.topic.encode(), tp.partition, ctypes.byref(low), ctypes.byref(high), int(timeout_s * 1000)
        )  # fmt: skip
        if code:
            text = f"Kafka at {self.servers} did not give the offsets of {tp}: {_meaning(code)}."
            if code in TRANSIENT:
                raise unanswered(f"{text} {self.last_complaint()}".rstrip())
            raise SourceError(f"{text} {CHECK}")
        return low.value, high.value

    def topic_ids(self, names: Sequence[str], *, timeout_s: float) -> dict[str, str]:
        """The ids of these topics, of those that exist, as they are or were `ID_HOLDS_S` ago. Raises KafkaUnavailable and SourceError."""
        now = time.monotonic()
        recent = {
            name: self._ids[name][1] for name in names if name in self._ids and now - self._ids[name][0] < ID_HOLDS_S
        }
        older = [name for name in names if name not in recent]
        found = self._described(older, timeout_s) if older else {}
        self._ids |= {name: (now, topic_id) for name, topic_id in found.items()}
        return recent | found

    def _described(self, names: Sequence[str], timeout_s: float) -> dict[str, str]:
        queue = library.queue_new(self.handle)
        topics = library.topics_of_names((ctypes.c_char_p * len(names))(*(name.encode() for name in names)), len(names))
        try:
            library.describe_topics(self.handle, topics, None, queue)
            event = library.queue_poll(queue, int(timeout_s * 1000))
            try:
                return self._ids_in(event, names)
            finally:
                library.event_destroy(event)
        finally:
            library.topics_destroy(topics)
            library.queue_destroy(queue)

    def _ids_in(self, event: int | None, names: Sequence[str]) -> dict[str, str]:
        code = library.event_error(event) if event else KafkaError._TIMED_OUT
        count, found = ctypes.c_size_t(), dict[str, str]()
        described = (
            library.described_topics(library.event_described_topics(event), ctypes.byref(count)) if not code else []
        )
        for topic in described[: count.value]:
            error = library.description_error(topic)
            one = library.error_code(error) if error else 0
            if one == 0:
                found[library.description_name(topic).decode()] = library.id_text(
                    library.description_id(topic)
                ).decode()
            elif one != KafkaError.UNKNOWN_TOPIC_OR_PART and len(names) == 1:
                code = one  # of several, one is no matter of the others: its own reading says what is wrong
        if code:
            text = f"Kafka at {self.servers} did not describe {', '.join(names)}: {_meaning(code)}."
            raise (
                unanswered(f"{text} {self.last_complaint()}".rstrip())
                if code in TRANSIENT
                else SourceError(f"{text} {CHECK}")
            )
        return found

    def last_complaint(self) -> str:
        """The last thing that librdkafka complained of, as a sentence: a broker that cannot be reached, a login that was refused."""
        while event := library.queue_poll(self._own_queue, 0):
            code = library.event_error(event)
            if library.event_type(event) == library.EVENT_ERROR and not (self._complaint and code == ALL_DOWN):
                reason = (library.event_error_string(event) or b"").decode(errors="replace")
                self._complaint = f"librdkafka says: {reason} ({_name(code)})."
            library.event_destroy(event)
        return self._complaint

    @property
    def last_fetched(self) -> int:
        """The bytes of the last answer to a fetch, as they came."""
        return int(self._fetched[0])

    def take_fetched(self) -> dict[str, int]:
        """The bytes fetched since the last call, by the racks of the brokers that sent them; blank where they have none, or where this
        consumer has none, and so nobody asks.
        """
        pairs = self._fetched[1:].reshape(-1, 2)
        now = {broker - 1: total for broker, total in pairs[: np.count_nonzero(pairs[:, 0])].tolist()}
        if self.rack and not now.keys() <= self._racks.keys():
            self._racks = dict.fromkeys(now, "") | self._described_racks()
        found = dict[str, int]()
        for broker, total in now.items():
            rack, more = self._racks.get(broker, ""), total - self._taken.get(broker, 0)
            found[rack] = found.get(rack, 0) + more
        self._taken = now
        return {rack: more for rack, more in found.items() if more}

    def _described_racks(self) -> dict[int, str]:
        """By broker its rack; nothing where the brokers do not answer now."""
        queue = library.queue_new(self.handle)
        library.describe_cluster(self.handle, None, queue)
        event = library.queue_poll(queue, int(LOOK_UP_S * 1000))
        try:
            if not event or library.event_error(event):
                return {}
            count = ctypes.c_size_t()
            nodes = library.cluster_nodes(library.event_described_cluster(event), ctypes.byref(count))
            return {library.node_id(one): (library.node_rack(one) or b"").decode() for one in nodes[: count.value]}
        finally:
            if event:
                library.event_destroy(event)
            library.queue_destroy(queue)

    def forget_complaint(self) -> None:
        """What librdkafka complained of is over: something came."""
        self.last_complaint()
        self._complaint = ""

    def _end(self) -> None:
        for queue in self._open:
            queue.close()
        self._open = []

    def close(self) -> None:
        if self.handle:
            self._end()
            library.queue_destroy(self._own_queue)
            library.destroy_flags(self.handle, library.NO_CONSUMER_CLOSE)
            del _used[self.handle]
            self.handle = None


class Queue:
    """What has arrived of one topic-partition and was not taken yet."""

    def __init__(self, consumer: Consumer, tp: TopicPartition) -> None:
        self.consumer = consumer
        self.topic_partition = tp
        self._queue: int | None = library.queue_get_partition(consumer.handle, tp.topic.encode(), tp.partition)
        library.queue_forward(self._queue, None)

    def __len__(self) -> int:
        """How many messages are there; errors and the end of the topic-partition count, too."""
        if not self._queue:
            raise ValueError(
                f"{self.topic_partition} is not fetched any more: take a range's batches before you ask for the next range."
            )
        return int(library.queue_length(self._queue))

    def take(self, addresses: int, most: int) -> int:
        """Puts messages into the array at `addresses`; they have to be destroyed. Returns how many, without waiting."""
        count = max(0, int(library.consume_batch_queue(self._queue, 0, addresses, most)))
        if count:
            self.consumer.forget_complaint()
        return count

    def close(self) -> None:
        """Fetches no more, and drops what was not taken. Does nothing the second time."""
        if not self._queue:
            return
        with _partition_list({self.topic_partition: 0}) as partitions:
            try:
                _checked(library.incremental_unassign(self.consumer.handle, partitions), "end reading")
            except SourceError:
                self.consumer.failed = True  # it is not fit for the next reading; this one has what it wanted
        library.queue_destroy(self._queue)
        self._queue = None


_kept: OrderedDict[tuple[tuple[tuple[str, str], ...], IamLogin | None], Consumer] = OrderedDict()
_owner: list[int] = []
_used: dict[int, tuple[Any, Any]] = {}
"""By handle, what librdkafka's threads call and write to as long as the handle is there, which may be longer than its `Consumer`."""


def kept_consumer(settings: Mapping[str, str], login: IamLogin | None = None) -> Consumer:
    """The process's consumer of these settings and login; where there are too many, the one not asked for the longest is closed.

    One that has `failed` is replaced: what it knows of topics and leaders may be out of date.
    """
    if _owner != [os.getpid()]:
        _kept.clear()  # of the process that this one was forked from
        _owner[:] = [os.getpid()]
        check_library()
    key = (tuple(sorted(settings.items())), login)
    consumer = _kept.pop(key, None)
    if consumer is not None and consumer.failed:
        consumer.close()
        consumer = None
    _kept[key] = consumer = consumer or Consumer(settings, login)
    while len(_kept) > KEPT:
        _kept.popitem(last=False)[1].close()
    return consumer


def take_fetched() -> dict[tuple[str, str], int]:
    """What the process's consumers have fetched since the last call, in bytes, by their own rack and those of the brokers."""
    found = dict[tuple[str, str], int]()
    for consumer in _kept.values() if _owner == [os.getpid()] else ():
        for rack, fetched in consumer.take_fetched().items():
            found[consumer.rack, rack] = found.get((consumer.rack, rack), 0) + fetched
    return found


def abandon_consumers() -> None:
    """The process's consumers are whoever's that still reads with them; the next reader gets one of its own."""
    _kept.clear()


def _noting(fetched: npt.NDArray[np.int64]) -> Any:
    """What librdkafka calls with a new client: it has the size of each answer to a fetch noted there."""

    def created(client: int, *_: object) -> int:
        callback = note_fetch.address
        return int(library.add_on_response(client, INTERCEPTOR, callback, fetched.ctypes.data))

    return library.CREATED(created)


def _new(settings: Mapping[str, str], tokens: Any, created: Any) -> int:
    text = ctypes.create_string_buffer(library.TEXT_BYTES)
    configuration = library.conf_new()
    for name, value in settings.items():
        if library.conf_set(configuration, name.encode(), value.encode(), text, library.TEXT_BYTES):
            library.conf_destroy(configuration)
            shown = "***" if any(word in name for word in SECRET_WORDS) else value
            raise SourceError(f"librdkafka does not take {name}={shown}. Correct it, or set kafka.reader=spark.")
    library.conf_add_on_new(configuration, INTERCEPTOR, created, None)
    library.conf_set_events(configuration, library.EVENT_ERROR)
    if tokens:
        library.conf_set_token_callback(configuration, tokens)
        library.conf_enable_sasl_queue(configuration, 1)
    handle = library.new(library.CONSUMER, configuration, text, library.TEXT_BYTES)
    if not handle:
        library.conf_destroy(configuration)
        raise SourceError(
            f"The settings of Kafka's clients cannot be used: {text.value.decode(errors='replace')}. {CHECK}"
        )
    if tokens:
        _checked(library.sasl_in_background(handle), "log in with signed tokens")
    return int(handle)


@contextmanager
def _partition_list(starts: Mapping[TopicPartition, int]) -> Iterator[int]:
    partitions = library.list_new(len(starts))
    try:
        for tp, offset in starts.items():
            library.list_add(partitions, tp.topic.encode(), tp.partition)
            library.list_set_offset(partitions, tp.topic.encode(), tp.partition, offset)
        yield partitions
    finally:
        library.list_destroy(partitions)


def _checked(error: int | None, doing: str) -> None:
    if error:
        text = library.error_string(error).decode(errors="replace")
        library.error_destroy(error)
        raise SourceError(f"librdkafka could not {doing}: {text}.")


def _meaning(code: int) -> str:
    return f"{library.err2str(code).decode(errors='replace')} ({_name(code)})"


def _name(code: int) -> str:
    return str(library.err2name(code).decode())
