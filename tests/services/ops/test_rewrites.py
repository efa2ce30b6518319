"""Small files become one, and somebody's records leave it, on a real broker and a real S3: by the commands that people type."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.followers.compaction import CompactionRules
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.compaction import Compaction
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import brokers_of
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import BASE, FIELD
from tests.support.direct_sink import OwnProcess, drain_directly
from tests.support.kafka import Given, committed_records, document, produce
from tests.support.waiting import eventually

RECORDS = 200


@contextmanager
def driver_at_work(settings: Settings) -> Iterator[None]:
    """One that looks for what is asked of it, in a thread."""
    ended = threading.Event()
    with closing(S3Store(store_options(settings))) as store, ThreadPoolExecutor(1) as pool:
        source, brokers = OwnProcess(settings, store), brokers_of(settings)
        sink = build_sink(settings, brokers, source=source, store=store, clock_ms=now_ms)
        sink.open()

        def work() -> None:
            while not ended.wait(0.1):
                sink.rewrites.notice(str(now_ms()))
                assert sink.poll_and_commit()

        running = pool.submit(work)
        try:
            yield
        finally:
            ended.set()
            running.result()


def compact(settings: Settings, rules: CompactionRules) -> list[CommitEntry]:
    with closing(S3Store(store_options(settings))) as store:
        return list(Compaction(settings, store, clock_ms=now_ms, warn=pytest.fail).run(rules))


def test_compacted_and_forgotten_on_real_services_nothing_of_somebody_is_left_and_verify_says_so(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    source = topic("people")
    config = {
        **BASE, "name": "people", "topics": source, "flush.size": "10", "s3.bucket.name": bucket, "store.url": s3.endpoint_url,
        "kafka.bootstrap.servers": kafka.bootstrap_servers, "rewrite.grace.ms": "0", "s3.compression.type": "gzip",
        "store.kafka.keys": "true", "keys.format.class": BASE["format.class"],
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    }  # fmt: skip
    given = [Given(document(n=n, who=f"person {n % 20}"), key=f"person {n % 20}".encode()) for n in range(RECORDS)]
    produce(kafka.bootstrap_servers, source, given)
    settings = drain_directly(config)
    path = tmp_path / "people.json"
    path.write_text(json.dumps(config))

    def run(*words: str) -> dict[str, object]:
        done = CliRunner().invoke(app, [*words, "--output", "json"])
        assert done.exit_code == 0, done.output
        found: dict[str, object] = json.loads(done.stdout)
        return found

    with driver_at_work(settings):
        rules = CompactionRules(25 << 20, now_ms() + 1)
        (compacted,) = compact(settings, rules)
        assert [len(swap.keys) for swap in compacted.swaps] == [RECORDS // 10] * 2  # values and keys
        looked = run("forget", str(path), "--key", "person 7", "--dry-run")
        assert (looked["records"], looked["entries"]) == (RECORDS // 20, [])
        forgotten = run("forget", str(path), "--key", "person 7", "--yes")
        assert (forgotten["records"], len(forgotten["entries"])) == (RECORDS // 20, 1)  # type: ignore[arg-type]
        assert run("forget", str(path), "--where", "who = 'person 7'", "--dry-run")["records"] == 0
        assert "person 7" not in json.dumps(forgotten)

    done = CliRunner().invoke(app, ["position", "set", str(path), source, "0", "0", "--yes", "--force"])
    assert done.exit_code == 0, done.output
    drain_directly(config)
    with closing(S3Store(store_options(settings))) as store:
        contents = [gzip.decompress(store.get(info.key)) for info in store.list(f"topics/{source}/")]
    assert b"person 8" in b"".join(contents)
    assert b'"person 7"' not in b"".join(contents)
    verified = CliRunner().invoke(app, ["verify", str(path)])
    assert verified.exit_code == 0, verified.output
    assert f"{RECORDS // 20} records and dead letters that it counts were erased" in verified.output


FORMAT = "io.confluent.connect.s3.format."
PARTITIONS = 4
SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": name, "type": "string" if name in ("who", "d") else "int64"} for name in ("n", "who", "d", "p")
    ],
}


@pytest.mark.parametrize("form", ["json.Json", "avro.Avro", "parquet.Parquet"])
def test_files_of_all_partitions_become_one_lose_somebody_and_are_restored_to_their_partitions(
    form: str, kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, back = topic("people", PARTITIONS), topic("back", PARTITIONS)
    config = {
        **BASE, **FIELD, "name": "people", "topics": source, "flush.size": "5", "s3.bucket.name": bucket, "rewrite.grace.ms": "0",
        "store.url": s3.endpoint_url, "kafka.bootstrap.servers": kafka.bootstrap_servers, "format.class": f"{FORMAT}{form}Format",
        "compact.across.partitions": "true", "value.converter.schemas.enable": "true",
    }  # fmt: skip
    values = [{"n": n, "who": f"person {n % 20}", "d": "x", "p": n // 20 % PARTITIONS} for n in range(RECORDS)]
    given = [
        Given(document(schema=SCHEMA, payload=one), partition=n // 20 % PARTITIONS) for n, one in enumerate(values)
    ]
    produce(kafka.bootstrap_servers, source, given)
    settings = drain_directly(config)
    path = tmp_path / "people.json"
    path.write_text(json.dumps(config))

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    rules = CompactionRules(25 << 20, now_ms() + 1, across=settings.flag("compact.across.partitions"))
    with driver_at_work(settings):
        (entry,) = compact(settings, rules)
        (file,) = entry.files
        assert [one.partition for one in file.slices] == list(range(PARTITIONS))
        with closing(S3Store(store_options(settings))) as store:
            eventually(lambda: [info.key for info in store.list(f"topics/{source}/")] == [file.key])
        run("verify", str(path))
        run("forget", str(path), "--where", "who = 'person 7'", "--yes")
    run("verify", str(path))
    run("restore", str(path), "--to-topic", back, "--yes")
    found = [
        (partition, json.loads(one.value or b""))
        for partition in range(PARTITIONS)
        for one in committed_records(kafka.bootstrap_servers, back, partition)
    ]
    left = [one for one in values if one["who"] != "person 7"]
    assert found == sorted(((one["p"], one) for one in left), key=lambda one: one[0])
    assert "0 to 39, 38 records" in run("explain", str(path), f"{source}:2:0")
