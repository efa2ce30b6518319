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
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Self

import fastavro
import pyarrow.parquet as pq
import pytest

from kafka_s3.embedded.kafka import EmbeddedKafka
from kafka_s3.embedded.registry import EmbeddedRegistry
from kafka_s3.embedded.s3 import EmbeddedS3
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


def produced(broker: EmbeddedKafka, registry: EmbeddedRegistry) -> dict[str, Topic]:
    """All topics, by the names in `PATHS`."""

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
        whole = range(count - count % PARTITIONS)
        new_topic(broker, name, PARTITIONS)
        made[name] = _send(broker.bootstrap_servers, name, ((make(number), number % PARTITIONS) for number in whole))
    return made


class AvroSide(Side):
    """A side of this module, in a process of its own."""

    def __enter__(self) -> Self:
        self._output = self._log.open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.test_avro_to_parquet", self.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._output, text=True, cwd=sides.ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(sides.ROOT), str(sides.ROOT / "bundle")])},
        )  # fmt: skip
        return self


def plain_spark(spark: SparkSession, request: Request, *, tuned: bool) -> None:
    """What one writes without us: the magic byte and the id cut off, one schema for all."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.avro.functions import from_avro

    records = sides.from_kafka(spark, request, tuned=tuned)
    rows = records.select(from_avro(F.expr("substring(value, 6)"), avro_schema()).alias("v"))
    rows.select("v.*").write.option("compression", "zstd").parquet(f"{request.place}/{request.name}")


def side_process(name: str) -> None:
    """Answers requests until the input ends."""
    from kafka_s3.embedded.jars import spark_jars

    jars = os.pathsep.join(str(jar) for jar in spark_jars(["org.apache.spark:spark-avro_2.13:4.0.0"]))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {jars} pyspark-shell"
    sides.SIDES |= {
        SINK: lambda spark, request: sides.sink(spark, request, {}),
        PLAIN: partial(plain_spark, tuned=False),
        TUNED: partial(plain_spark, tuned=True),
        TUNED_V2: sides.on_the_newer_path(partial(plain_spark, tuned=True)),
    }
    sides.main(name, bare=name == PLAIN)


def test_avro_to_parquet_against_plain_spark_and_the_sinks_other_paths(
    broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path
) -> None:
    costs: dict[str, list[Cost]] = {name: [] for name in (MAIN, *COMPARED, *PATHS)}
    with ExitStack() as stack:
        registry = stack.enter_context(EmbeddedRegistry())
        topics = produced(broker, registry)
        logs = {name: tmp_path / f"side-{at}.log" for at, name in enumerate((SINK, *COMPARED))}
        started = {name: stack.enter_context(AvroSide(name, log)) for name, log in logs.items()}
        for turn in range(WARM_UPS + ROUNDS):
            for name in costs:
                if name not in (MAIN, *COMPARED) and turn not in (0, WARM_UPS):
                    continue  # the other paths are run once, after one to warm up: they are told, not compared
                path = PATHS.get(name, PATHS[MAIN])
                topic, folder = topics[path.topic], f"run-{list(costs).index(name)}-{turn}"
                place = f"{objects.endpoint_url}/{BUCKET}" if name in PATHS else str(tmp_path)
                request = Request(topic.name, folder, broker.bootstrap_servers, place, _options(path, topic, registry))
                side, few = started[SINK if name in PATHS else name], topics[FEW]
                side.run(
                    replace(
                        request, topic=few.name, name=f"warm-{folder}", options=_options(PATHS[MAIN], few, registry)
                    )
                )
                cost = side.run(request).cost
                files = (
                    fetched(objects, folder, tmp_path)
                    if name in PATHS
                    else sorted((tmp_path / folder).glob("*.parquet"))
                )
                _found_again(topic, files)
                if turn >= WARM_UPS:
                    costs[name].append(cost)
    _print_table(topics, costs)


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


def _print_table(topics: dict[str, Topic], costs: dict[str, list[Cost]]) -> None:
    main = topics[PATHS[MAIN].topic]
    print(
        f"\n{main.records:,} Avro records of {main.value_bytes / main.records:.0f} bytes, {PARTITIONS} partitions, {ROUNDS} rounds in "
        f"turns after {WARM_UPS} to warm up\n"
    )
    print(
        f"{'':36}{'':>11}  {'M records per CPU-second':>27}  {'microseconds of CPU':>21}  {'wall (informational)':>22}"
    )
    print(f"{'':36}{'records':>11}  {'min / median / max':>27}  {'a record, median':>21}  {'median':>22}")
    rate = {}
    for name, runs in costs.items():
        records = topics[PATHS.get(name, PATHS[MAIN]).topic].records
        rate[name] = [records / cost.cpu_seconds / 1e6 for cost in runs]
        wall = median(cost.wall_seconds for cost in runs)
        print(f"{name:36}{records:>11,}  {spread(rate[name]):>27}  {1 / median(rate[name]):>21.2f}  {wall:>20.1f} s")
    for other in COMPARED:
        ratios = [ours / theirs for ours, theirs in zip(rate[MAIN], rate[other], strict=True)]
        print(f"{MAIN} to {other}: {spread(ratios)}")


if __name__ == "__main__":
    side_process(sys.argv[1])
