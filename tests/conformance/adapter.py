"""Drives the product's real loop (planner, worker, commit) over conformance cases, through three seams: source, clock, object store."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.connect.joda.buckets import BucketNames
from kafka_s3.connect.joda.instants import parse_timestamp
from kafka_s3.connect.joda.pattern import Pattern
from kafka_s3.connect.joda.zones import zone
from kafka_s3.connect.registry.options import subject
from kafka_s3.connect.registry.wire_format import MessageIndexes, framed, payloads
from kafka_s3.connect.schemas.compatibility import Compatibility, SchemaDecision, schema_decision
from kafka_s3.connect.schemas.connect import read_schema
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.engine.task.rotation import next_rotation
from kafka_s3.model.errors import ConfigError, SinkError, StorageError, StorageUnavailable
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip_form import position_in_bucket
from kafka_s3.run.wiring.conversion import transform_chain
from kafka_s3.run.wiring.pipeline import block_names, make_pipeline
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import Fault, FaultyStore
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from tests.conformance import vectors

START_MS = 1705312800000
OURS = {"compatibility.strict": "true", "kafka.bootstrap.servers": "memory:9092"}
STATE_EVERY_RECORD = bool(os.environ.get("CONFORMANCE_STATE_EVERY_RECORD"))
"""Open files are kept after each record, and the next one goes on with them."""
WITHOUT_STATE = bool(os.environ.get("CONFORMANCE_WITHOUT_STATE"))
"""Open files are never kept."""


class World:
    """A bucket, a cluster, a clock, and one sink between them."""

    def __init__(self, case: dict[str, Any], records: list[dict[str, Any]]) -> None:
        self.case = case
        self.now = START_MS
        self.store = MemoryStore(lambda: self.now)
        self.settings = settings_of(case["config"])
        self.kafka = MemoryKafka(lambda: self.pipeline, self.store)
        self.waiting = list(records)
        self.completions = 0
        self.fault: tuple[int, str] | None = None
        for topic, partition in case.get("assignment") or []:
            self.kafka.create(TopicPartition(topic, partition), start=first_offset(records, topic, partition))
        for record in records:
            place = (record["topic"], record["partition"])
            self.kafka.create(TopicPartition(*place), start=first_offset(records, *place))
        self.sink = self.start()

    def start(self) -> Sink:
        self.pipeline = make_pipeline(self.settings)
        store = FaultyStore(self.store, [Fault("complete_upload", self.strike, nth=None)])
        sink = build_sink(self.settings, self.kafka, source=self.kafka, store=store, clock_ms=lambda: self.now)
        if STATE_EVERY_RECORD:
            sink.behaviour = replace(sink.behaviour, readiness=replace(sink.behaviour.readiness, task_records=1))
            sink.topics.behaviour = sink.behaviour
        sink.open()
        return sink

    def strike(self, key: str) -> None:
        if key.startswith("_kafka_s3/") or self.fault is None:
            return
        self.completions += 1
        number, kind = self.fault
        if self.completions == number:
            self.fault = None
            raise StorageUnavailable("injected") if kind == "retriable" else StorageError("injected")

    def step(self, step: dict[str, Any]) -> None:
        self.now = step.get("clock", self.now) + step.get("advance_ms", 0)
        if "fault" in step:
            self.fault, self.completions = (step["fault"]["in_commits"], step["fault"]["kind"]), 0
        if "restart" in step:
            self.settings = settings_of({**self.case["config"], **step.get("config", {})})
            self.sink = self.start()
        if "flush" in step:
            while not self.sink.try_drain(close=Reason.OFFSET_FLUSH):
                self.now += self.settings.number("retry.backoff.ms")
        if "put" in step:
            count = len(self.waiting) if step["put"] == "all" else step["put"]
            for record in self.waiting[:count]:
                self.kafka.add(TopicPartition(record["topic"], record["partition"]), encode(self.case, record))
            del self.waiting[:count]
            while not self.sink.poll_and_commit():
                self.now += self.settings.number("retry.backoff.ms")


def worked_off(case: dict[str, Any]) -> tuple[World | None, dict[str, bytes], dict[str, Any] | None]:
    """The case's world after its steps (None where the configuration is refused), the objects that were there before, and its failure."""
    from cases import initial_bytes, records  # the judge's own module, on its path

    world = None
    initial = {item["key"]: initial_bytes(item) for item in case.get("initial_objects") or []}
    try:
        world = World(case, records(case))
        for key, data in initial.items():
            world.store.put(key, data)
        for step in case.get("steps") or [{"put": "all"}]:
            world.step(step)
    except ConfigError as error:
        return (
            world,
            initial,
            {"kind": "config_error", "message": str(error), "configs": [p.key for p in error.problems]},
        )
    except SinkError as error:
        return world, initial, {"kind": "task_failure", "message": str(error), "configs": []}
    return world, initial, None


def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """See the conformance suite's README."""
    world, initial, failure = worked_off(case)
    if world is None:
        return {
            "objects": initial,
            "hidden_prefixes": ["_kafka_s3/"],
            "committed": {},
            "dlq": [],
            "tags": {},
            "failure": failure,
        }
    resume: dict[str, Any] = {}
    if "dialect" in case:
        names = block_names(world.settings)
        found = [position_in_bucket(world.store, names, tp) for tp in world.kafka.records]
        resume = {"resume_offset": next((offset for offset in found if offset is not None), 0)}
    committed = world.kafka.groups.get(f"connect-{world.settings.name}", {})
    return {
        "objects": dict(world.store.objects),
        "hidden_prefixes": ["_kafka_s3/"],
        "committed": {f"{tp.topic}:{tp.partition}": committed.get(tp) for tp in world.kafka.records},
        "dlq": [letter(message) for message in world.kafka.produced.get(dead_letter_topic(world.settings), [])],
        "tags": dict(world.store.tags),
        "failure": failure,
        **resume,
    }


def run_vector(kind: str, vector: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """See the conformance suite's README."""
    try:
        return schema_decisions(vector, context) if kind == "schema_decisions" else VECTORS[kind](vector)
    except (ValueError, SinkError) as error:
        return {"error": str(error)}


def partition_path(vector: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    where = zone(vector["timezone"])
    pattern = Pattern(vector["path.format"], locale=vector["locale"], zone=where)
    buckets = BucketNames(pattern, duration_ms=vector["partition.duration.ms"], zone=where)
    codes, names = buckets.encode(np.array([vector["timestamp_ms"]]))
    return {"encoded_partition": names[codes[0]]}


def schedule_next_rotation(vector: dict[str, Any]) -> dict[str, Any]:
    interval, where = vector["rotate.schedule.interval.ms"], zone(vector["timezone"])
    return {"next_rotation_ms": next_rotation(vector["now_ms"], interval_ms=interval, zone=where)}


def timestamp_strings(vector: dict[str, Any]) -> dict[str, Any]:
    return {"epoch_ms": parse_timestamp(vector["input"], default_zone=zone("UTC"))}


def schema_decisions(vector: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    record, file = (
        None if vector[name] is None else read_schema(context["schemas"][vector[name]]["connect"])
        for name in ("record_schema", "open_file_schema")
    )
    decision = schema_decision(record, file, compatibility=Compatibility.named(vector["mode"]))
    return {"decision": DECISIONS[decision]}


def subject_names(vector: dict[str, Any]) -> dict[str, Any]:
    role = Role.KEY if vector["is_key"] else Role.VALUE
    return {"subject": subject(vector["strategy"], vector["topic"], vector["record"], role=role)}


def wire_format(vector: dict[str, Any]) -> dict[str, Any]:
    raw = vector.get("hex")
    values = pa.array([None if raw is None else bytes.fromhex(raw)], pa.binary())
    follow = MessageIndexes.FOLLOW if vector["kind"] == "protobuf" else MessageIndexes.ABSENT
    found = framed(values, headers=None, indexes=follow)
    if found.failures:
        return {"error": found.failures[0][1]}
    answers = {}
    for name, rows, starts in found.by_schema:
        answers = {"schema_id": name.id, "payload_hex": payloads(values, rows, starts)[0].as_py().hex()}
        if name.indexes is not None:
            answers["message_indexes"] = list(name.indexes)
    return answers


def transforms(vector: dict[str, Any]) -> dict[str, Any]:
    base = {
        "name": "s", "connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "t", "s3.bucket.name": "bucket",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage", "flush.size": "1",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }  # fmt: skip
    chain = transform_chain(settings_of({**base, **vector["config"]}), now_ms=START_MS, tables=False)
    assert chain is not None
    found = chain.apply(vectors.record(vector["record"]))
    return {"result": None if found is None else vectors.document(found)}


DECISIONS = {
    SchemaDecision.WRITE: "write_as_is", SchemaDecision.PROJECT: "project", SchemaDecision.ROLL: "rotate", SchemaDecision.REJECT: "error",
}  # fmt: skip
VECTORS: dict[str, Callable[..., dict[str, Any]]] = {
    "subject_names": subject_names,
    "wire_format": wire_format,
    "partition_path": partition_path,
    "schedule_next_rotation": schedule_next_rotation,
    "timestamp_strings": timestamp_strings,
    "transforms": transforms,
}


def settings_of(config: dict[str, str]) -> Settings:
    without = {"tail.state.enable": "false"} if WITHOUT_STATE else {}
    return resolved(validate({**OURS, **without, **config}).usable())


def dead_letter_topic(settings: Settings) -> str:
    return settings.text("errors.deadletterqueue.topic.name")


def letter(message: Any) -> dict[str, Any]:
    topic, partition, offset = message.origin
    headers = {name: (value or b"").decode() for name, value in message.headers}
    return {
        "topic": topic, "partition": partition, "offset": offset, "headers": headers or None, "key": message.key, "value": message.value,
    }  # fmt: skip


def first_offset(records: list[dict[str, Any]], topic: str, partition: int) -> int:
    return next((r["offset"] for r in records if (r["topic"], r["partition"]) == (topic, partition)), 0)


def encode(case: dict[str, Any], record: dict[str, Any]) -> MemoryRecord:
    """The record as its producer would have put it on the topic."""
    headers = tuple((h["key"], str(h["value"]).encode()) for h in record.get("headers") or ())
    key = record["key"].encode() if record.get("key") is not None else None
    return MemoryRecord(record["offset"], record["timestamp"], key, value_bytes(case, record), headers)


def value_bytes(case: dict[str, Any], record: dict[str, Any]) -> bytes | None:
    for name in ("raw_value_base64", "value_base64"):
        if name in record:
            return base64.b64decode(record[name])
    value = record["value"]
    converter = case["config"].get("value.converter", "").rsplit(".", 1)[-1]
    if converter == "StringConverter":
        return None if value is None else str(value).encode()
    if converter == "JsonConverter" and case["config"].get("value.converter.schemas.enable", "true") == "true":
        if value is None:
            return None
        schema = case["schemas"][record["schema"]]["connect"] if "schema" in record else None
        return json.dumps({"schema": schema, "payload": value}).encode()
    return None if value is None else json.dumps(value).encode()
