"""Which zone does a machine say it is in, where no request is needed, and which of the brokers' racks is that?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kafka_s3.kafka import zone
from kafka_s3.kafka.zone import Zone, machine_zone, with_rack

OFF = {"AWS_EC2_METADATA_DISABLED": "true"}
LABELS = """app="sink"
topology.kubernetes.io/region="eu-central-1"
topology.kubernetes.io/zone="eu-central-1b"
"""


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels").write_text(LABELS)
    return tmp_path / "labels"


@pytest.mark.parametrize(("environment", "name"), [
    ({"KAFKA_S3_ZONE": " euc1-az2 "}, "euc1-az2"),
    ({"KAFKA_S3_ZONE": ""}, "eu-central-1b"),  # a label that the pod does not have
    ({}, "eu-central-1b"),
])  # fmt: skip
def test_the_variable_comes_before_the_label(environment: Mapping[str, str], name: str, labels: Path) -> None:
    found = machine_zone({**OFF, **environment}, pod_labels=labels)
    assert found is not None
    assert found.names == (name,)


def test_a_machine_that_nobody_knows_has_no_zone(tmp_path: Path) -> None:
    assert machine_zone(OFF, pod_labels=tmp_path / "labels") is None
    (tmp_path / "labels").write_text('app="sink"\n')
    assert machine_zone(OFF, pod_labels=tmp_path / "labels") is None


@pytest.mark.parametrize(("racks", "rack"), [
    (["euc1-az1", "euc1-az2"], "euc1-az2"),
    (["eu-central-1a", "eu-central-1b"], "eu-central-1b"),
    (["a", ""], "euc1-az2"),
    ([], "euc1-az2"),
])  # fmt: skip
def test_of_two_names_the_brokers_own_is_the_rack(racks: list[str], rack: str) -> None:
    assert Zone(("euc1-az2", "eu-central-1b"), "AWS").rack_among(racks) == rack


def test_a_machine_is_asked_for_its_zone_only_where_the_rack_is_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    zone.own_zone.cache_clear()
    monkeypatch.setenv("KAFKA_S3_ZONE", "b")
    assert with_rack("broker:9092", {"client.rack": "auto", "client.id": "me"}) == {
        "client.rack": "b",
        "client.id": "me",
    }
    zone.own_zone.cache_clear()
    for properties in ({}, {"client.rack": "a"}):
        assert with_rack("broker:9092", properties) == properties
    assert zone.own_zone.cache_info().misses == 0


def test_without_a_zone_no_rack_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    zone.own_zone.cache_clear()
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert with_rack("broker:9092", {"client.rack": "auto", "client.id": "me"}) == {"client.id": "me"}
    zone.own_zone.cache_clear()
