"""What `kafka-s3 run A B` refuses before it begins anything."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3.model.errors import ConfigError
from tests.support.memory_world import BASE


def refused(folder: Path, *configs: dict[str, str]) -> str:
    """Why a run of these configurations is refused."""
    paths = [folder / f"{number}.json" for number in range(len(configs))]
    for path, config in zip(paths, configs, strict=True):
        path.write_text(json.dumps({**BASE, "flush.size": "3", **config}), encoding="utf-8")
    error = CliRunner().invoke(app, ["run", *map(str, paths)]).exception
    assert isinstance(error, ConfigError)
    return str(error)


def test_what_is_wrong_with_each_of_several_configurations_is_reported_at_once(tmp_path: Path) -> None:
    text = refused(tmp_path, {"flush.size": "many"}, {"name": "other"}, {"name": "third", "poll.interval.ms": "1"})
    assert f"{tmp_path / '0.json'}: flush.size ('many')" in text
    assert f"{tmp_path / '2.json'}: poll.interval.ms ('1')" in text
    assert "1.json" not in text


def test_two_configurations_of_one_sink_are_refused(tmp_path: Path) -> None:
    assert "name ('orders'): is that of two configurations" in refused(tmp_path, {}, {"topics": "others"})


@pytest.mark.parametrize(
    ("key", "value", "module", "package", "extra"),
    [
        ("metrics.prometheus.port", "9404", "prometheus_client", "prometheus-client", "metrics"),
        (
            "metrics.otlp.enable",
            "true",
            "opentelemetry.exporter.otlp.proto.http",
            "opentelemetry-exporter-otlp-proto-http",
            "otlp",
        ),
    ],
)
def test_metrics_without_their_package_name_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str, module: str, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    text = refused(tmp_path, {key: value})
    assert f"{key} ('{value}'): needs the package {package}. pip install 'kafka-s3[{extra}]'" in text
