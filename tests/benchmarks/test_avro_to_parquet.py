"""What does a record cost, Kafka Avro to Parquet zstd, against plain Spark's `from_avro`; and on the sink's other paths? Ratios of one run.

KAFKA_S3_BENCH_RECORDS (4,000,000; slow paths a tenth) and KAFKA_S3_BENCH_ROUNDS (3) size it. Broker, registry and S3 are not counted; plain
Spark writes to local disk, which spares it S3. It runs as it comes, and with the sink's own settings of session, fetching and reader, too.
The first three runs of the compared sides warm their JVMs up and are not counted, nor is a small run just before each: Spark ends idle
Python workers after a minute, while the other sides take their turns. Nothing here asserts a time.

python -m tests.benchmarks.test_avro_to_parquet SIDE     (a side's process, see `sides`)
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.parquet as pq
import pytest

from kafka_s3.local.kafka import EmbeddedKafka
from kafka_s3.local.registry import EmbeddedRegistry
from kafka_s3.local.s3 import EmbeddedS3
from kafka_s3.schemas.registered import Language
from tests.benchmarks import sides
from tests.benchmarks.measuring import Cost, spread
from tests.benchmarks.orders_topic import Topic, _send, value
from tests.benchmarks.sides import Request, Side
from tests.benchmarks.support import (
    BUCKET,
    PARTITIONS,
    RECORDS,
    ROUNDS,
    fetched,
    new_topic,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

SLOW_SHARE = 10
MAIN = "Avro -> Parquet zstd"
WARM_UPS = 3
FEW = "few"
SINK = "sink"
PLAIN, TUNED, TUNED_V2 = "plain Spark from_avro", "the same, our session and fetch", "the same, V2 reader, too"
COMPARED = (PLAIN, TUNED, TUNED_V2)
CONFLUENT, CONNECT = "io.confluent.connect.", "org.apache.kafka.connect."
TYPES = {
    "id": "long", "customer": "string", "product": "string", "country": "string", "quantity": "int", "price": "double",
    "created_at": "string", "state": "string",
}  # fmt: skip
STATES = ("payment is open", "paid by card", "money refunded", "sent by post")
MAP = {"name": "labels", "type": {"type": "map", "values": "string"}}
ADDED = {"name": "channel", "type": ["null", "string"], "default": None}
PROTOBUF = 'syntax = "proto3"; package shop; message Order { ' + " ".join(
    f"{'int64' if kind == 'long' else 'int32' if kind == 'int' else kind} {name} = {number};"
    for number, (name, kind) in enumerate(TYPES.items(), 1)
) + " }"  # fmt: skip


def avro_schema(*more: dict[str, Any]) -> str:
    fields = [{"name": name, "type": kind} for name, kind in TYPES.items()]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": [*fields, *more]})


@dataclass(frozen=True, slots=True)
class Route:
    """What the sink is asked to do: which records, and its options."""

    topic: str
    format: str
    converter: str
    options: dict[str, str] = field(default_factory=dict)


AVRO_IN, AVRO_OUT, PARQUET = CONFLUENT + "avro.AvroConverter", "avro.AvroFormat", "parquet.ParquetFormat"
JSON_OUT, BYTES_OUT = "json.JsonFormat", "bytearray.ByteArrayFormat"
PATHS = {
    MAIN: Route("avro", PARQUET, AVRO_IN),
    "Avro -> Avro": Route("avro", AVRO_OUT, AVRO_IN),
    "JSON -> JSON": Route("json", JSON_OUT, CONNECT + "json.JsonConverter"),
    "bytes -> bytes": Route("json", BYTES_OUT, CONNECT + "converters.ByteArrayConverter"),
    "String -> JSON": Route("json", JSON_OUT, CONNECT + "storage.StringConverter"),
    "Avro with a map -> Parquet": Route("map", PARQUET, AVRO_IN),
    "two versions, BACKWARD -> Parquet": Route("versions", PARQUET, AVRO_IN, {"schema.compatibility": "BACKWARD"}),
    "Protobuf -> Parquet": Route("protobuf", PARQUET, CONFLUENT + "protobuf.ProtobufConverter"),
}


def order(number: int) -> dict[str, Any]:
    return {**json.loads(value(number)), "state": STATES[number % 4]}


def avro_body(number: int) -> bytes:
    row = order(number)
    return b"".join(ENCODE[kind](row[name]) for name, kind in TYPES.items())


def protobuf_body(number: int) -> bytes:
    row = order(number)
    return b"".join(_protobuf(at, kind, row[name]) for at, (name, kind) in enumerate(TYPES.items(), 1))


def _protobuf(number: int, kind: str, item: Any) -> bytes:
    if kind == "string":
        text = item.encode()
        return _varint(number << 3 | 2) + _varint(len(text)) + text
    return (
        _varint(number << 3 | 1) + struct.pack("<d", item) if kind == "double" else _varint(number << 3) + _varint(item)
    )


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _long(number: int) -> bytes:
    return _varint(number << 1)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _long(len(raw)) + raw


ENCODE: dict[str, Callable[[Any], bytes]] = {
    "long": _long, "int": _long, "string": _text, "double": lambda number: struct.pack("<d", number),
}  # fmt: skip


def labels(number: int) -> bytes:
    return _long(2) + _text("shelf") + _text(str(number % 40)) + _text("gift") + _text("no") + b"\0"


def channel(number: int) -> bytes:
    return b"\x02" + _text("web") if number % 3 else b"\0"


def produced(broker: EmbeddedKafka, registry: EmbeddedRegistry, names: set[str]) -> dict[str, Topic]:
    """The topics of these names in `PATHS`."""

    def prefix(subject: str, text: str, language: Language = Language.AVRO) -> bytes:
        return b"\0" + registry.register(f"{subject}-value", text, language).to_bytes(4, "big")

    plain, mapped = prefix("avro", avro_schema()), prefix("map", avro_schema(MAP))
    first, second = prefix("versions", avro_schema()), prefix("versions", avro_schema(ADDED))
    messages = prefix("protobuf", PROTOBUF, Language.PROTOBUF) + b"\0"

    def version(number: int) -> bytes:
        old = number // PARTITIONS % 2 == 0  # every other record of a partition
        return first + avro_body(number) if old else second + avro_body(number) + channel(number)

    makers: dict[str, tuple[int, Callable[[int], bytes]]] = {
        "avro": (RECORDS, lambda number: plain + avro_body(number)),
        FEW: (max(RECORDS // SLOW_SHARE, PARTITIONS), lambda number: plain + avro_body(number)),
        "json": (RECORDS, value),
        "map": (RECORDS // SLOW_SHARE, lambda number: mapped + avro_body(number) + labels(number)),
        "versions": (RECORDS // SLOW_SHARE, version),
        "protobuf": (RECORDS // SLOW_SHARE, lambda number: messages + protobuf_body(number)),
    }
    made = {}
    for name, (count, make) in makers.items():
        if name not in names:
            continue
        whole = range(count - count % PARTITIONS)
        new_topic(broker, name, PARTITIONS)
        made[name] = _send(broker.bootstrap_servers, name, ((make(number), number % PARTITIONS) for number in whole))
    return made


class AvroSide(Side):
    """A side of this module, in a process of its own."""

    module = "tests.benchmarks.test_avro_to_parquet"


def plain_spark(spark: SparkSession, request: Request, *, tuned: bool) -> None:
    """What one writes without us: the magic byte and the id cut off, one schema for all."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.avro.functions import from_avro

    records = sides.from_kafka(spark, request, tuned=tuned)
    rows = records.select(from_avro(F.expr("substring(value, 6)"), avro_schema()).alias("v"))
    rows.select("v.*").write.option("compression", "zstd").parquet(f"{request.place}/{request.name}")


def side_process(name: str) -> None:
    """Answers requests until the input ends."""
    from kafka_s3.local.jars import spark_jars

    jars = os.pathsep.join(str(jar) for jar in spark_jars(["org.apache.spark:spark-avro_2.13:4.0.0"]))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {jars} pyspark-shell"
    sides.SIDES |= {
        SINK: lambda spark, request: sides.sink(spark, request, {}),
        PLAIN: partial(plain_spark, tuned=False),
        TUNED: partial(plain_spark, tuned=True),
        TUNED_V2: sides.on_the_newer_path(partial(plain_spark, tuned=True)),
    }
    sides.main(name, bare=name == PLAIN)


def test_avro_to_parquet_against_plain_spark(broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path) -> None:
    """The sides in turns; each turn they read the same topic, the sink to S3, plain Spark to local disk."""
    costs: dict[str, list[Cost]] = {name: [] for name in (SINK, *COMPARED)}
    with ExitStack() as stack:
        registry = stack.enter_context(EmbeddedRegistry())
        topics = produced(broker, registry, {"avro", FEW})
        topic, few = topics["avro"], topics[FEW]
        logs = {name: tmp_path / f"side-{at}.log" for at, name in enumerate(costs)}
        started = {name: stack.enter_context(AvroSide(name, log)) for name, log in logs.items()}
        for turn in range(WARM_UPS + ROUNDS):
            for at, (name, side) in enumerate(started.items()):
                place = f"{objects.endpoint_url}/{BUCKET}" if name == SINK else str(tmp_path)
                for one, folder in ((few, f"few-{at}-{turn}"), (topic, f"run-{at}-{turn}")):
                    options = _options(PATHS[MAIN], one, registry)
                    cost = side.run(Request(one.name, folder, broker.bootstrap_servers, place, options)).cost
                written = (
                    fetched(objects, folder, tmp_path)
                    if name == SINK
                    else sorted((tmp_path / folder).glob("*.parquet"))
                )
                _found_again(topic, written)
                if turn >= WARM_UPS:
                    costs[name].append(cost)
    _print_heading(topic)
    rate = {name: _print_row(name if name != SINK else MAIN, topic, runs) for name, runs in costs.items()}
    for other in COMPARED:
        ratios = [ours / theirs for ours, theirs in zip(rate[SINK], rate[other], strict=True)]
        print(f"{MAIN} to {other}: {spread(ratios)}")


def test_the_sinks_other_paths(broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path) -> None:
    """Each once, after once to warm up: they are told, not compared."""
    others = {name: path for name, path in PATHS.items() if name != MAIN}
    with EmbeddedRegistry() as registry, AvroSide(SINK, tmp_path / "side.log") as side:
        topics = produced(broker, registry, {"avro", *(path.topic for path in others.values())})
        for at, (name, path) in enumerate(others.items()):
            topic = topics[path.topic]
            for turn in ("warm", "measured"):
                folder, place = f"{turn}-{at}", f"{objects.endpoint_url}/{BUCKET}"
                options = _options(path, topic, registry)
                cost = side.run(Request(topic.name, folder, broker.bootstrap_servers, place, options)).cost
                _found_again(topic, fetched(objects, folder, tmp_path))
            if at == 0:
                _print_heading(topic)
            _print_row(name, topic, [cost])


def _options(path: Route, topic: Topic, registry: EmbeddedRegistry) -> dict[str, str]:
    """A flush size that divides the partition, so that nobody has an open tail to read twice."""
    return {
        "format.class": f"io.confluent.connect.s3.format.{path.format}", "value.converter": path.converter,
        "value.converter.schema.registry.url": registry.url, "flush.size": str(min(500_000, topic.records // PARTITIONS)),
        **path.options,
    }  # fmt: skip


def _found_again(topic: Topic, files: list[Path]) -> None:
    """All records, once; where columns can be read, the very ones."""
    assert sum(_records(file) for file in files) == topic.records
    if files[0].suffix == ".parquet":
        tables = [pq.ParquetFile(file).read(["id", "quantity"]) for file in files]
        assert sum(table["id"].to_numpy().sum() for table in tables) == topic.id_sum
        assert sum(table["quantity"].to_numpy().sum() for table in tables) == topic.quantity_sum


def _records(file: Path) -> int:
    if file.suffix == ".parquet":
        return int(pq.ParquetFile(file).metadata.num_rows)
    with file.open("rb") as content:
        if file.suffix == ".avro":
            return sum(int(block.num_records) for block in fastavro.block_reader(content))
        return sum(chunk.count(b"\n") for chunk in iter(lambda: content.read(1 << 20), b""))


def _print_heading(topic: Topic) -> None:
    print(
        f"\n{topic.records:,} records of {topic.value_bytes / topic.records:.0f} bytes, {PARTITIONS} partitions, {ROUNDS} rounds in "
        f"turns after {WARM_UPS} to warm up\n"
    )
    print(
        f"{'':36}{'':>11}  {'M records per CPU-second':>27}  {'microseconds of CPU':>21}  {'wall (informational)':>22}"
    )
    print(f"{'':36}{'records':>11}  {'min / median / max':>27}  {'a record, median':>21}  {'median':>22}")


def _print_row(name: str, topic: Topic, runs: list[Cost]) -> list[float]:
    """Prints what the runs took; millions of records per CPU-second of each."""
    rate = [topic.records / cost.cpu_seconds / 1e6 for cost in runs]
    wall = median(cost.wall_seconds for cost in runs)
    print(f"{name:36}{topic.records:>11,}  {spread(rate):>27}  {1 / median(rate):>21.2f}  {wall:>20.1f} s")
    return rate


if __name__ == "__main__":
    side_process(sys.argv[1])
