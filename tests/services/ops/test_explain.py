"""Does `kafka-s3 explain` say of a real sink's records what became of them?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from kafka_s3.cli.audit import explain
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import BASE, TOLERANT
from tests.support.direct_sink import drain_directly
from tests.support.kafka import Given, document, produce


def asked(path: Path, about: str, *words: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(explain)
    done = CliRunner().invoke(app, [str(path), about, *words])
    assert done.stdout, done.output
    return done.exit_code, done.stdout


def test_records_and_keys_of_a_real_sink(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("explained")
    config = {
        **BASE, **TOLERANT, "name": "explained", "topics": name, "flush.size": "2", "s3.bucket.name": bucket,
        "store.url": s3.endpoint_url, "kafka.bootstrap.servers": kafka.bootstrap_servers,
    }  # fmt: skip
    path = tmp_path / "explained.json"
    path.write_text(json.dumps(config))
    produce(
        kafka.bootstrap_servers, name, [Given(document(n=0)), Given(b"{"), Given(document(n=2)), Given(document(n=3))]
    )
    drain_directly(config, close=None)

    def outcome(offset: int) -> dict[str, Any]:
        code, text = asked(path, f"{name}:0:{offset}", "--output", "json")
        assert code == 0
        return dict(json.loads(text))

    assert [outcome(n)["outcome"] for n in (1, 3, 4)] == ["dead letter", "open", "not in Kafka yet"]
    (entry,) = outcome(0)["entries"]
    (found,) = entry["objects"]
    assert (found["first_offset"], found["last_offset"], found["bucket"]) == (0, 2, "as written")
    code, text = asked(path, f"s3://{bucket}/{found['key']}")
    assert (code, "flush.size=2" in text, "0 to 2, 2 records" in text) == (0, True, True)
    assert asked(path, "topics/nothing")[0] == 1
