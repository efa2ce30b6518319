"""What does the doctor find, and does it leave the bucket as it was?"""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from kafka_s3.cli.doctor import document, print_results
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.errors import KafkaUnavailable, SourceError, StorageError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.doctor.diagnosis import ClientFactories, diagnose, longest_wait_ms, retried_while_unavailable
from kafka_s3.ops.doctor.findings import CheckResult, CheckStatus, worst
from kafka_s3.store.faults import FaultyStore, Verb, failure
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import BucketAnswer, LifecycleRule
from tests.support.configurations import TIME
from tests.support.doctor import ROTATING, Cluster, Facts, bad, diagnosed, of
from tests.support.memory_world import BASE


def test_a_healthy_world_is_all_ok_and_the_bucket_is_left_as_it_was() -> None:
    store = MemoryStore()
    store.put("topics/orders/notes.txt", b"{}")
    findings = diagnosed(store=store)
    assert bad(findings) == {}
    assert worst(findings) is CheckStatus.OK
    assert {finding.area for finding in findings} == {"configuration", "kafka", "bucket", "rights", "first start"}
    assert list(store.objects) == ["topics/orders/notes.txt"]
    assert store.uploads == {}


def test_every_problem_of_a_configuration_is_a_finding_and_nothing_else_is_asked() -> None:
    findings = diagnosed({**ROTATING, "s3.part.size": "1", "flush.size": "many"}, cluster=Cluster(down=True))
    assert bad(findings) == {"s3.part.size": CheckStatus.FAILED, "flush.size": CheckStatus.FAILED}
    assert {finding.area for finding in findings} == {"configuration"}


def test_a_warning_of_the_configuration_does_not_end_the_check() -> None:
    findings = diagnosed({**ROTATING, "flsh.size": "3"})
    assert bad(findings) == {"flsh.size": CheckStatus.WARNING}
    assert of(findings, "brokers").status is CheckStatus.OK


def test_a_missing_reference_is_found_before_any_service_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_SECRET", raising=False)
    findings = diagnosed({**ROTATING, "aws.access.key.id": "A", "aws.secret.access.key": "${env:NO_SUCH_SECRET}"})
    assert bad(findings) == {"aws.secret.access.key": CheckStatus.FAILED}


# ---------------------------------------------------------------- Kafka


def test_kafka_out_of_reach_is_one_failure_and_the_bucket_is_still_looked_at() -> None:
    findings = diagnosed(cluster=Cluster(down=True))
    assert bad(findings) == {"brokers": CheckStatus.FAILED}
    assert [finding.tried for finding in findings if finding.area == "kafka"] == ["brokers"]
    assert of(findings, "GetObject").status is CheckStatus.OK


def test_a_missing_topic_is_a_failure_and_one_without_the_right_to_read_too() -> None:
    cluster = Cluster(rights={"orders": frozenset({"DESCRIBE"})})
    findings = diagnosed({**ROTATING, "topics": "orders,payments"}, cluster=cluster)
    assert bad(findings) == {"topic orders": CheckStatus.FAILED, "topic payments": CheckStatus.FAILED}
    assert "Grant READ on topic orders" in of(findings, "topic orders").remedy
    assert "does not exist" in of(findings, "topic payments").detail


def test_a_misspelt_topic_is_reported_with_the_names_that_are_like_it() -> None:
    findings = diagnosed({**ROTATING, "topics": "ordres"})
    assert "Names like it: orders." in of(findings, "topic ordres").detail


def test_topics_by_pattern_may_come_later() -> None:
    by_pattern = {**{k: v for k, v in ROTATING.items() if k != "topics"}, "topics.regex": "ord.*"}
    assert of(diagnosed(by_pattern), "topic orders").status is CheckStatus.OK
    assert bad(diagnosed(by_pattern, cluster=Cluster({}))) == {"topics": CheckStatus.WARNING}


@pytest.mark.parametrize(
    ("config", "wait_ms"),
    [
        ({"flush.size": "1"}, 0),
        ({"flush.size": "1", "rotate.interval.ms": "5000"}, 0),  # acts under a time partitioner only
        ({**TIME, "flush.size": "1", "rotate.interval.ms": "5000"}, 5000),
        ({"rotate.schedule.interval.ms": "60000", "timezone": "UTC", "flush.idle.ms": "70000"}, 70_000),
    ],
)
def test_the_longest_wait_is_that_of_the_rules_that_act(config: dict[str, str], wait_ms: int) -> None:
    assert longest_wait_ms(resolved(validate({**BASE, **config}).usable())) == wait_ms


@pytest.mark.parametrize(("retention_ms", "status"), [("7199999", "warning"), ("7200000", "ok"), ("-1", "ok")])
def test_retention_below_twice_the_longest_rotation_interval_is_a_warning(retention_ms: str, status: str) -> None:
    findings = diagnosed(cluster=Cluster({"orders": {"retention.ms": retention_ms}}))
    assert of(findings, "retention of orders").status == status


def test_a_tail_that_no_clock_closes_is_reported_with_the_key_that_closes_it() -> None:
    assert "flush.idle.ms" in of(diagnosed({**BASE, "flush.size": "100"}), "retention").remedy
    assert of(diagnosed(), "retention").remedy == ""


def test_settings_that_may_not_be_read_are_a_warning() -> None:
    findings = diagnosed(cluster=Cluster(settings_refused=True))
    assert bad(findings) == {"retention of orders": CheckStatus.WARNING}


def test_a_group_in_which_the_old_connector_still_runs_is_reported() -> None:
    findings = diagnosed(cluster=Cluster(members=["connector-consumer-orders-0 at /10.0.0.7"]))
    assert bad(findings) == {"group connect-orders": CheckStatus.WARNING}
    assert "connector-consumer-orders-0" in of(findings, "group").detail
    unmirrored = {**ROTATING, "consumer.group.mirror.enable": "false"}
    assert not [f for f in diagnosed(unmirrored) if f.tried.startswith("group")]


def test_a_group_that_may_not_be_committed_to_is_a_warning() -> None:
    cluster = Cluster(rights={"mine": frozenset({"DESCRIBE"})})
    findings = diagnosed({**ROTATING, "consumer.override.group.id": "mine"}, cluster=cluster)
    assert bad(findings) == {"group mine": CheckStatus.WARNING}


def test_a_topic_that_a_connector_has_written_is_a_failure_that_names_migrate() -> None:
    found = of(diagnosed(cluster=Cluster(committed={TopicPartition("orders", 1): 200})), "does not know")
    assert found.status is CheckStatus.FAILED
    assert "connect-orders has committed orders-1 at 200" in found.detail
    assert "kafka-s3 migrate CONFIG --apply" in found.remedy


def test_a_coordinator_that_is_still_loading_is_asked_again() -> None:
    waits: list[float] = []
    answers = iter([KafkaUnavailable("loading"), KafkaUnavailable("loading"), None])

    def request() -> str:
        error = next(answers)
        if error is not None:
            raise error
        return "members"

    assert retried_while_unavailable(request, sleep=waits.append) == "members"
    assert len(waits) == 2


DEAD = {**ROTATING, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}


def test_a_dead_letter_topic_that_is_missing_may_be_created_or_not() -> None:
    assert "may be created with 3 replicas" in of(diagnosed(DEAD), "dead letter topic").detail
    refused = diagnosed(DEAD, cluster=Cluster(creation=SourceError("only 1 broker(s) are registered")))
    assert bad(refused) == {"dead letter topic dead": CheckStatus.FAILED}
    assert "replication.factor" in of(refused, "dead letter topic").remedy


def test_a_compacted_dead_letter_topic_is_a_failure() -> None:
    topics = Cluster().topics | {"dead": {"cleanup.policy": "compact"}}
    assert bad(diagnosed(DEAD, cluster=Cluster(topics))) == {"dead letter topic dead": CheckStatus.FAILED}
    topics["dead"] = {"cleanup.policy": "delete"}
    assert bad(diagnosed(DEAD, cluster=Cluster(topics))) == {}
    unwritable = Cluster(topics, {"dead": frozenset({"READ"})})
    assert bad(diagnosed(DEAD, cluster=unwritable)) == {"dead letter topic dead": CheckStatus.FAILED}


# ---------------------------------------------------------------- registry


# ---------------------------------------------------------------- bucket


def test_a_bucket_out_of_reach_is_not_asked_for_its_rights() -> None:
    facts = Facts(BucketAnswer("", None, StorageError("failed with NoSuchBucket (404). Create the bucket.")))
    findings = diagnosed(facts=facts)
    assert bad(findings) == {"s3://bucket": CheckStatus.FAILED}
    assert not [finding for finding in findings if finding.area == "rights"]


def test_another_region_is_a_warning_that_names_it() -> None:
    findings = diagnosed(facts=Facts(BucketAnswer("eu-central-1", 0)))
    assert bad(findings) == {"region of s3://bucket": CheckStatus.WARNING}
    assert "s3.region=eu-central-1" in of(findings, "region").remedy


@pytest.mark.parametrize(
    ("skew_ms", "status"),
    [(5_000, "ok"), (-5_001, "warning"), (900_000, "warning"), (900_001, "failed"), (-900_001, "failed")],
)
def test_a_clock_that_is_off_is_a_warning_and_a_failure_where_s3_refuses_it(skew_ms: int, status: str) -> None:
    assert of(diagnosed(facts=Facts(BucketAnswer("us-west-2", skew_ms))), "clock").status == status


def test_a_clock_that_keeps_the_bucket_from_answering_is_reported() -> None:
    facts = Facts(BucketAnswer("", 3_600_000, StorageError("HeadBucket failed with 403.")))
    assert len(bad(diagnosed(facts=facts))) == 2


@pytest.mark.parametrize(("days", "status"), [(1, "warning"), (2, "ok"), (7, "ok")])
def test_incomplete_uploads_that_are_aborted_within_a_day_are_a_warning(days: int, status: str) -> None:
    rules = (LifecycleRule("tidy", "", abort_days=days), LifecycleRule("other", "other/", abort_days=1))
    assert of(diagnosed(facts=Facts(rules=rules)), "incomplete uploads").status == status


def test_no_rule_for_incomplete_uploads_is_advice() -> None:
    found = of(diagnosed(), "incomplete uploads")
    assert found.status is CheckStatus.OK
    assert "kafka-s3 sweep" in found.remedy


@pytest.mark.parametrize(
    ("rule", "is_bad"),
    [
        (LifecycleRule("all", "", expires=True), True),
        (LifecycleRule("state", "_kafka_s3/", transitions=True), True),
        (LifecycleRule("below", "_kafka_s3/orders/commits/", expires=True), True),
        (LifecycleRule("data", "topics/", expires=True), False),
        (LifecycleRule("tagged", "", tagged=True, expires=True), False),
        (LifecycleRule("uploads", "", abort_days=7), False),
    ],
)
def test_rules_that_remove_or_move_the_commit_log_are_failures(rule: LifecycleRule, is_bad: bool) -> None:
    found = of(diagnosed(facts=Facts(rules=(rule,))), "lifecycle of _kafka_s3/orders/")
    assert (found.status is CheckStatus.FAILED) == is_bad


def test_rules_that_may_not_be_read_are_a_warning_that_names_the_right() -> None:
    findings = diagnosed(facts=Facts(rules_refused=StorageError("AccessDenied")))
    assert bad(findings) == {"lifecycle rules": CheckStatus.WARNING}
    assert "s3:GetLifecycleConfiguration" in of(findings, "lifecycle rules").remedy


# ---------------------------------------------------------------- rights


@pytest.mark.parametrize(
    ("verb", "tried", "action"),
    [
        (Verb.PUT_NEW, "PutObject", "s3:PutObject"),
        (Verb.GET, "GetObject", "s3:GetObject"),
        (Verb.LIST, "ListBucket", "s3:ListBucket"),
        (Verb.CREATE_UPLOAD, "CreateMultipartUpload", "s3:PutObject"),
        (Verb.UPLOAD_PART, "UploadPart", "s3:PutObject"),
        (Verb.UPLOAD_EXISTS, "ListParts", "s3:ListMultipartUploadParts"),
        (Verb.COMPLETE_UPLOAD, "CompleteMultipartUpload", "s3:PutObject"),
        (Verb.ABORT_UPLOAD, "AbortMultipartUpload", "s3:AbortMultipartUpload"),
        (Verb.TAG, "PutObjectTagging", "s3:PutObjectTagging"),
    ],
)
def test_a_missing_right_is_a_failure_that_names_its_action(verb: Verb, tried: str, action: str) -> None:
    denied = failure(verb, nth=None, error=StorageError("AccessDenied (403)"))
    findings = diagnosed({**ROTATING, "s3.object.tagging": "true"}, store=FaultyStore(MemoryStore(), [denied]))
    (found,) = (finding for finding in findings if finding.tried == tried)
    assert found.status is CheckStatus.FAILED
    assert action in found.remedy
    assert worst(findings) is CheckStatus.FAILED


def test_the_right_to_list_uploads_is_one_of_its_own() -> None:
    refusing = FaultyStore(MemoryStore(), [failure(Verb.PENDING, error=StorageError("AccessDenied"))])
    findings = diagnosed(store=refusing)
    assert bad(findings) == {"ListMultipartUploads": CheckStatus.FAILED}
    assert "s3:ListBucketMultipartUploads" in of(findings, "ListMultipartUploads").remedy


def test_a_store_that_overwrites_in_spite_of_if_none_match_fails() -> None:
    class Careless(MemoryStore):
        put_new = MemoryStore.put

    findings = diagnosed(store=Careless())
    assert bad(findings) == {"conditional PutObject": CheckStatus.FAILED}
    assert "exactly-once is impossible" in of(findings, "conditional").remedy


def test_rights_below_the_data_are_tried_too_without_leaving_a_trace() -> None:
    bucket = MemoryStore()
    denied = failure(
        Verb.CREATE_UPLOAD, nth=None, matches=lambda key: key.startswith("topics/"), error=StorageError("AccessDenied")
    )
    findings = diagnosed(store=FaultyStore(bucket, [denied]))
    assert bad(findings) == {"an upload below topics/orders/": CheckStatus.FAILED}
    assert bucket.objects == {}


def test_the_acl_is_part_of_what_is_tried() -> None:
    findings = diagnosed({**ROTATING, "s3.acl.canned": "bucket-owner-full-control"})
    assert of(findings, "PutObject with ACL bucket-owner-full-control").status is CheckStatus.OK


def test_probes_that_cannot_be_deleted_are_a_warning_and_are_named() -> None:
    bucket = MemoryStore()
    denied = failure(Verb.DELETE, nth=None, error=StorageError("AccessDenied"))
    findings = diagnosed(store=FaultyStore(bucket, [denied]))
    (left,) = bucket.objects
    assert left.startswith("_kafka_s3/orders/doctor/")
    assert bad(findings) == {
        "DeleteObject (for this check only)": CheckStatus.WARNING,
        "DeleteObject below _kafka_s3/orders/open/": CheckStatus.WARNING,
    }
    assert left in of(findings, "DeleteObject (").detail


def test_what_could_not_be_put_is_not_left_behind() -> None:
    verbs = (Verb.PUT_NEW, Verb.CREATE_UPLOAD, Verb.DELETE)
    denied = [failure(verb, nth=None, error=StorageError("AccessDenied.")) for verb in verbs]
    findings = diagnosed(store=FaultyStore(MemoryStore(), denied))
    assert of(findings, "DeleteObject (").detail == "AccessDenied. Left behind: nothing."


@pytest.mark.parametrize(("keeps", "expected"), [("true", CheckStatus.WARNING), ("false", None)])
def test_states_of_open_files_have_to_be_removed_where_they_are_kept(keeps: str, expected: CheckStatus | None) -> None:
    denied = failure(Verb.DELETE, nth=None, matches=lambda key: "/open/" in key, error=StorageError("AccessDenied"))
    findings = diagnosed({**ROTATING, "tail.state.enable": keeps}, store=FaultyStore(MemoryStore(), [denied]))
    assert bad(findings) == ({} if expected is None else {"DeleteObject below _kafka_s3/orders/open/": expected})


def test_probes_are_removed_even_where_the_check_is_broken_off() -> None:
    bucket = MemoryStore()
    kafka, facts = Cluster(), Facts()
    findings = diagnose(
        validate(ROTATING), ClientFactories(lambda s: kafka, lambda o: bucket, lambda o: facts, lambda s, p: None)
    )
    for finding in findings:
        if finding.tried == "UploadPart":
            break
    assert bucket.uploads
    findings.close()
    assert bucket.uploads == {}
    assert bucket.objects == {}


# ---------------------------------------------------------------- who reads


def test_the_reader_that_works_here_is_named_with_the_reason() -> None:
    assert "the tasks can read by themselves" in of(diagnosed(ROTATING), "reader").detail
    auto = of(diagnosed(ROTATING, reach="no route to the brokers."), "reader")
    assert (auto.status, "no route" in auto.detail) == (CheckStatus.OK, True)
    assert "Spark's own Kafka source reads" in auto.detail
    tasks = of(diagnosed({**ROTATING, "kafka.reader": "tasks"}, reach="no route."), "reader")
    assert (tasks.status, tasks.remedy) == (CheckStatus.FAILED, "Set kafka.reader=auto or spark, or mend it.")
    for key, value in (("kafka.reader", "spark"), ("tasks.run.on", "driver")):
        assert f"{key}={value}" in of(diagnosed({**ROTATING, key: value}, reach="never asked"), "reader").detail


def test_what_spark_wants_for_a_login_beyond_the_configuration_is_reported() -> None:
    client = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    }  # fmt: skip
    by_iam = {**ROTATING, **{f"consumer.override.{name}": text for name, text in client.items()}}
    reported = of(diagnosed(by_iam), "login of Spark's own source, AWS_MSK_IAM")
    assert (reported.status, "--packages" in reported.detail) == (CheckStatus.OK, True)
    assert not [one for one in diagnosed({**by_iam, "kafka.reader": "tasks"}) if one.tried.startswith("login")]


def test_clients_that_cannot_be_made_end_the_part_of_kafka_only() -> None:
    def refuse(settings: Settings) -> Cluster:
        raise SourceError("No token for Amazon MSK can be signed: no AWS credentials were found.")

    factories = ClientFactories(refuse, lambda _: MemoryStore(), lambda _: Facts(), lambda *_: None)
    findings = list(diagnose(validate(ROTATING), factories))
    assert bad(findings) == {"brokers": CheckStatus.FAILED}
    assert "rights" in {finding.area for finding in findings}
    down = diagnosed(cluster=Cluster(down=True))
    assert [finding.tried for finding in down if finding.area == "kafka"] == ["brokers"]


# ---------------------------------------------------------------- the report


def test_a_report_has_a_line_for_each_finding_and_the_totals() -> None:
    findings = diagnosed(cluster=Cluster({}))
    console = Console(width=300, file=io.StringIO())
    assert print_results(console, findings) == findings
    lines = console.file.getvalue().splitlines()
    assert len(lines) == len(findings) + 1
    assert lines[-1] == f"{len(findings) - 1} ok, 0 warning, 1 failed"
    assert any(line.startswith("failed  kafka: topic orders: does not exist") for line in lines)


def test_the_json_form_holds_the_worst_status_and_every_finding() -> None:
    findings = [
        CheckResult("kafka", "brokers", CheckStatus.OK),
        CheckResult("bucket", "clock", CheckStatus.WARNING, "6 s", "NTP"),
    ]
    reported = json.loads(document(findings))
    assert reported["status"] == "warning"
    assert reported["findings"][1] == {
        "area": "bucket", "tried": "clock", "status": "warning", "detail": "6 s", "remedy": "NTP",
    }  # fmt: skip
