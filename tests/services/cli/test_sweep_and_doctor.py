"""Do `kafka-s3 sweep` and `kafka-s3 doctor` say the truth of a real broker, an S3 server over HTTP and a schema registry?"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from kafka_s3.cli.doctor import doctor
from kafka_s3.cli.sweep import sweep
from kafka_s3.engine.log.entry import EntryKind
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.files import DataFile, Reason, Upload
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.registry import EmbeddedRegistry
from tests.support.bucket import Bucket
from tests.support.configurations import BASE

if TYPE_CHECKING:
    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3

DAY_MS = 86_400_000
app = typer.Typer()
app.command(name="doctor")(doctor)
app.command(name="sweep")(sweep)


@dataclass
class Place:
    """A broker, a bucket of the test's own, and a folder for its configuration."""

    servers: str
    endpoint: str
    bucket: Bucket
    folder: Path

    def config(self, topics: str, **more: str) -> Path:
        """A configuration file."""
        path = self.folder / "sink.json"
        config = {
            **BASE, "name": "checked", "topics": topics, "flush.size": "100", "kafka.bootstrap.servers": self.servers,
            "s3.bucket.name": self.bucket.name, "store.url": self.endpoint, **more,
        }  # fmt: skip
        path.write_text(json.dumps(config))
        return path

    def lifecycle(self, *rules: dict[str, Any]) -> None:
        """Sets the bucket's lifecycle rules."""
        whole = [{"ID": f"rule-{n}", "Status": "Enabled", **rule} for n, rule in enumerate(rules)]
        self.bucket.client.put_bucket_lifecycle_configuration(
            Bucket=self.bucket.name, LifecycleConfiguration={"Rules": whole}
        )

    def begin(self, key: str) -> str:
        """Begins an upload, and leaves it."""
        return str(self.bucket.client.create_multipart_upload(Bucket=self.bucket.name, Key=key)["UploadId"])

    def pending(self) -> set[str]:
        """The ids of all uploads that are pending."""
        found = self.bucket.client.list_multipart_uploads(Bucket=self.bucket.name).get("Uploads", [])
        return {upload["UploadId"] for upload in found}


@pytest.fixture
def place(kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        content = Bucket(s3.endpoint_url, bucket)
        stack.callback(content.close)
        yield Place(kafka.bootstrap_servers, s3.endpoint_url, content, tmp_path)


def kafka_s3(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "300"})


def diagnosis(*words: str | Path, exit_code: int) -> dict[str, dict[str, str]]:
    done = kafka_s3("doctor", "--output", "json", *words)
    assert done.exit_code == exit_code, done.output
    return {finding["tried"]: finding for finding in json.loads(done.stdout)["findings"]}


def bad(findings: dict[str, dict[str, str]]) -> dict[str, str]:
    return {tried: finding["status"] for tried, finding in findings.items() if finding["status"] != "ok"}


def test_a_healthy_sink_is_all_ok_and_nothing_is_left_behind(place: Place, topic: Callable[..., str]) -> None:
    name = topic("healthy", partitions=3, config={"retention.ms": str(7 * DAY_MS)})
    place.lifecycle({"Filter": {"Prefix": ""}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}})
    with EmbeddedRegistry(basic_auth="user:s3cr3t") as registry:
        config = place.config(
            name,
            **{
                "value.converter": "io.confluent.connect.avro.AvroConverter",
                "value.converter.schema.registry.url": registry.url,
                "value.converter.basic.auth.credentials.source": "USER_INFO",
                "value.converter.basic.auth.user.info": "user:s3cr3t",
                "s3.object.tagging": "true",
                "s3.acl.canned": "bucket-owner-full-control",
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": f"dead-{uuid.uuid4()}",
                "errors.deadletterqueue.topic.replication.factor": "1",
            },
        )
        done = kafka_s3("doctor", config)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert [line for line in lines[:-1] if not line.startswith("ok ")] == []
    for words in (f"topic {name}: 3 partitions", "value.converter at", "conditional PutObject"):
        assert any(words in line for line in lines), done.stdout
    assert place.bucket.listing() == {}
    assert place.pending() == set()
    assert "s3cr3t" not in done.output


def test_what_is_wrong_is_found_all_at_once(place: Place, topic: Callable[..., str], kafka: EmbeddedKafka) -> None:
    short = topic("short", config={"retention.ms": "3600000"})
    compacted = topic("compacted", config={"cleanup.policy": "compact"})
    place.lifecycle(
        {"Filter": {"Prefix": "_kafka_s3/"}, "Expiration": {"Days": 30}},
        {"Filter": {"Prefix": "topics/"}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
    )
    config = place.config(
        f"{short},missing",
        **{
            "flush.idle.ms": "3600000",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": compacted,
            "s3.region": "eu-west-1",
        },
    )
    findings = diagnosis(config, exit_code=1)
    assert bad(findings) == {
        "topic missing": "failed",
        f"retention of {short}": "warning",
        f"dead letter topic {compacted}": "failed",
        f"region of s3://{place.bucket.name}": "warning",
        "lifecycle of incomplete uploads": "warning",
        "lifecycle of _kafka_s3/checked/": "failed",
    }
    assert "s3.region=us-east-1" in findings[f"region of s3://{place.bucket.name}"]["remedy"]


def test_a_bucket_that_is_not_there_and_a_topic_that_cannot_be_made(place: Place, topic: Callable[..., str]) -> None:
    more = {
        "s3.bucket.name": "no-such-bucket",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"dead-{uuid.uuid4()}",
    }
    findings = diagnosis(place.config(topic("alone"), **more), exit_code=1)
    failed = bad(findings)
    assert failed.pop("s3://no-such-bucket") == "failed"
    assert list(failed.values()) == ["failed"]  # three replicas on one broker
    assert "NoSuchBucket" in findings["s3://no-such-bucket"]["detail"]
    assert "Create the bucket" in findings["s3://no-such-bucket"]["detail"]


def test_a_registry_that_is_away_is_a_failure(place: Place, topic: Callable[..., str]) -> None:
    more = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://127.0.0.1:9",
    }
    findings = diagnosis(place.config(topic("away"), **more), exit_code=1)
    assert bad(findings) == {"value.converter at http://127.0.0.1:9": "failed"}


def test_a_wrong_configuration_is_reported_and_no_service_asked(place: Place) -> None:
    findings = diagnosis(
        place.config("any", **{"flush.size": "many", "kafka.bootstrap.servers": "127.0.0.1:9"}), exit_code=1
    )
    assert bad(findings) == {"flush.size": "failed"}


def committed_upload(place: Place) -> str:
    """A log whose last entry waits for this upload."""
    store, paths = (
        S3Store(StoreOptions(place.bucket.name, "us-east-1", place.endpoint)),
        StatePaths("_kafka_s3", "checked"),
    )
    key = "topics/swept/partition=0/swept+0+0000000000.json"
    upload_id = store.create_upload(key)
    etag = store.upload_part(key, upload_id, 1, b"{}\n")
    log = CommitLog(store, paths, clock_ms=lambda: 0)
    log.claim(cluster_id="c", publish=lambda entry: ())
    upload = Upload(key, upload_id, (etag,), 3)
    file = DataFile(
        key, "swept", 0, 0, 0, 1, 3, None, None, "partition=0", "", "json", Reason.FLUSH_SIZE, upload
    )  # fmt: skip
    log.append(log.new_entry(EntryKind.DATA, files=(file,)))
    store.close()
    return upload_id


def test_a_sweep_aborts_what_is_abandoned_and_nothing_else(place: Place) -> None:
    waiting = committed_upload(place)
    others = {
        place.begin("topics/other/partition=0/other+0+0000000000.json"),
        place.begin("topics/swept/report.csv"),
        place.begin("_kafka_s3/another/dead-letters/x"),
    }
    abandoned = {
        place.begin("topics/swept/partition=0/swept+0+0000000009.json"),
        place.begin("_kafka_s3/checked/dead-letters/swept/swept+0+0000000009.jsonl.gz"),
    }
    config = place.config("swept", **{"kafka.bootstrap.servers": "127.0.0.1:9"})  # Kafka is not asked
    shown = kafka_s3("sweep", config, "--dry-run")
    assert shown.exit_code == 0, shown.output
    totals = "0 aborted, 2 would be aborted (--dry-run), 0 young and kept, 1 committed and kept"
    assert f"3 pending uploads of this sink: {totals}" in shown.stdout
    assert "topics/swept/partition=0/swept+0+0000000009.json" in shown.stdout
    assert place.pending() == {waiting} | others | abandoned

    done = kafka_s3("sweep", config, "--older-than", "30m")
    assert done.exit_code == 0, done.output
    assert "2 aborted, 0 young and kept, 1 committed and kept" in done.stdout
    assert place.pending() == {waiting} | others

    again = kafka_s3("sweep", config)
    assert "1 pending uploads of this sink: 0 aborted" in again.stdout


def test_a_sweep_of_a_bucket_that_is_not_there_is_one_clear_error(place: Place) -> None:
    done = kafka_s3("sweep", place.config("any", **{"s3.bucket.name": "no-such-bucket"}))
    assert "NoSuchBucket" in str(done.exception)
    assert "Create the bucket" in str(done.exception)
