"""Policies and lifecycle rules are those of one configuration: its topics, its state, what it switches on, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.errors import ConfigError
from kafka_s3.ops.doctor.diagnosis import check_rules
from kafka_s3.ops.doctor.findings import CheckStatus, worst
from kafka_s3.ops.policies import lifecycle_rules, rewriting_policy, sink_policy, transition_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.store import LifecycleRule
from tests.support.memory_world import BASE, settings_of

GUIDE = [transition_of("90:GLACIER"), transition_of("365:DEEP_ARCHIVE")]
PARQUET = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema.inference": "true"}


def statements(**config: str) -> dict[str, dict[str, Any]]:
    return {
        one["Sid"]: one
        for one in sink_policy(settings_of({"flush.size": "3", "tail.state.enable": "false", **config}))["Statement"]
    }


def test_a_sink_gets_its_own_folders_and_cannot_delete() -> None:
    found = statements(topics="orders,payments")
    assert found.keys() == {"List", "Uploads", "State", "Data"}
    assert found["State"]["Resource"] == ["arn:aws:s3:::bucket/_kafka_s3/orders/*"]
    assert found["Data"]["Resource"] == ["arn:aws:s3:::bucket/topics/orders/*", "arn:aws:s3:::bucket/topics/payments/*"]
    prefixes = found["List"]["Condition"]["StringLike"]["s3:prefix"]
    assert prefixes == ["_kafka_s3/orders/*", "topics/orders/*", "topics/payments/*"]
    assert not any("Delete" in action for one in found.values() for action in one["Action"])


def test_only_what_is_switched_on_is_granted() -> None:
    found = statements(**{
        "s3.object.tagging": "true", "s3.acl.canned": "bucket-owner-full-control", "tail.state.enable": "true",
        "s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": "1234-abcd", "s3.region": "cn-north-1",
    })  # fmt: skip
    assert {"s3:PutObjectTagging", "s3:PutObjectAcl"} <= set(found["Data"]["Action"])
    assert "s3:PutObjectTagging" not in found["State"]["Action"]
    assert found["OpenFiles"]["Action"] == ["s3:DeleteObject"]
    assert found["OpenFiles"]["Resource"] == ["arn:aws-cn:s3:::bucket/_kafka_s3/orders/open/*"]
    assert found["Key"]["Resource"] == ["arn:aws-cn:kms:cn-north-1:*:key/1234-abcd"]


def test_iceberg_tables_need_their_metadata_and_a_catalog_of_aws_its_tables() -> None:
    iceberg = {**PARQUET, "iceberg.enable": "true", "iceberg.table.name": "lake.${topic}"}
    found = statements(**iceberg, **{"iceberg.catalog.type": "glue"})
    assert found["IcebergMetadata"]["Resource"] == ["arn:aws:s3:::bucket/iceberg/*"]
    assert found["IcebergMetadata"]["Action"] == ["s3:PutObject", "s3:GetObject", "s3:DeleteObject"]
    assert found["IcebergCatalog"]["Resource"][1:] == [
        "arn:aws:glue:us-west-2:*:database/lake", "arn:aws:glue:us-west-2:*:table/lake/*",
    ]  # fmt: skip
    assert "s3:DeleteObject" not in found["Data"]["Action"]
    elsewhere = {
        "iceberg.catalog.type": "sql",
        "iceberg.catalog.uri": "sqlite:///c.db",
        "iceberg.catalog.warehouse": "s3://lake/wh/",
    }
    found = statements(**iceberg, **elsewhere)
    assert found["IcebergMetadata"]["Resource"] == ["arn:aws:s3:::lake/wh/*"]
    assert "IcebergCatalog" not in found


def test_topics_that_are_not_known_beforehand_need_the_folder_above() -> None:
    router = {
        "transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter", "transforms.r.regex": "(.*)",
        "transforms.r.replacement": "new-$1",
    }  # fmt: skip
    assert statements(**router)["Data"]["Resource"] == ["arn:aws:s3:::bucket/topics/*"]
    by_template = {"directory.template": "${topic}/${directory}", "directory.delim": "_"}
    assert statements(**router, **by_template)["Data"]["Resource"] == ["arn:aws:s3:::bucket/topics/*"]
    assert statements(**router, **{"directory.delim": "_"})["Data"]["Resource"] == ["arn:aws:s3:::bucket/topics_*"]


def test_the_rules_of_the_guide_archive_the_data_and_the_doctor_finds_nothing() -> None:
    settings = settings_of({"topics": "events,transactions", "flush.size": "3"})
    rules = lifecycle_rules(settings, GUIDE)["Rules"]
    moved = {rule["Filter"]["Prefix"]: rule["Transitions"] for rule in rules if "Transitions" in rule}
    guide = [{"Days": 90, "StorageClass": "GLACIER"}, {"Days": 365, "StorageClass": "DEEP_ARCHIVE"}]
    assert moved == {"topics/events/": guide, "topics/transactions/": guide}
    assert len({rule["ID"] for rule in rules}) == len(rules)

    class Facts:
        def lifecycle(self) -> tuple[LifecycleRule, ...]:
            return tuple(LifecycleRule(
                rule["ID"], rule["Filter"]["Prefix"], transitions="Transitions" in rule,
                abort_days=rule.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation"),
            ) for rule in rules)  # fmt: skip

        def versioning(self) -> str:
            return ""

    root = state_paths(settings).root
    found = list(check_rules(Facts(), state_root=root, prefixes=("topics/events/", root)))  # type: ignore[arg-type]
    assert worst(found) is CheckStatus.OK


@pytest.mark.parametrize(
    ("config", "reported"),
    [
        ({**PARQUET, "delta.enable": "true"}, "could not be read any more"),
        ({"topics.dir": " ", "topics.regex": "o.*"}, "would move the commit log"),
    ],
)
def test_what_would_break_the_sink_or_its_tables_is_refused(config: dict[str, str], reported: str) -> None:
    base = {key: value for key, value in BASE.items() if "topics.regex" not in config or key != "topics"}
    settings = resolved(validate({**base, "flush.size": "3", **config}).usable())
    with pytest.raises(ConfigError, match=reported):
        lifecycle_rules(settings, GUIDE)


@pytest.mark.parametrize("text", ["GLACIER", "0:GLACIER", "90:ICE", "ninety:GLACIER"])
def test_what_is_no_transition_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="Write DAYS:CLASS"):
        transition_of(text)


def test_glue_and_notifications_have_rights_of_their_own() -> None:
    topic = "arn:aws:sns:us-west-2:1:told"
    config = {
        "flush.size": "1",
        "glue.database.name": "lake",
        "notification.class": "sns",
        "notification.target": topic,
    }
    found = {one["Sid"]: one for one in sink_policy(settings_of(config))["Statement"]}
    assert found["Glue"]["Action"] == [
        "glue:GetTable",
        "glue:CreateTable",
        "glue:UpdateTable",
        "glue:BatchCreatePartition",
    ]
    assert found["Glue"]["Resource"][1:] == [
        f"arn:aws:glue:us-west-2:*:{part}" for part in ("database/lake", "table/lake/*")
    ]
    assert (found["Notify"]["Action"], found["Notify"]["Resource"]) == (["sns:Publish"], [topic])
    queue = {**config, "notification.class": "sqs", "notification.target": "https://sqs.us-west-2.amazonaws.com/1/told"}
    (notify,) = (one for one in sink_policy(settings_of(queue))["Statement"] if one["Sid"] == "Notify")
    assert notify["Resource"] == ["arn:aws:sqs:us-west-2:*:told"]


def test_only_a_sink_whose_objects_are_rewritten_deletes_objects_of_data() -> None:
    settings = settings_of({"flush.size": "1"})
    plain = sink_policy(settings)["Statement"]
    *same, rewrites = rewriting_policy(settings)["Statement"]
    assert same == plain
    assert rewrites["Action"] == ["s3:DeleteObject"]
    assert rewrites["Resource"] == [
        "arn:aws:s3:::bucket/topics/orders/*",
        "arn:aws:s3:::bucket/_kafka_s3/orders/rewrites/*",
        "arn:aws:s3:::bucket/_kafka_s3/orders/dead-letters/*",
    ]
