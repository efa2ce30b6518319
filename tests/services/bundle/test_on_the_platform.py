"""What does the product do differently in a workspace? Its secrets, keys for S3, place of work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.errors import ConfigError, StorageError
from kafka_s3.run.spark import source
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.services.bundle.workspace_stand_in import WorkspaceStandIn
from tests.support.configurations import BASE
from tests.support.kafka import Given, document, produce
from tests.support.surroundings import Surroundings

SINK = {
    **BASE,
    "name": "orders",
    "topics": "orders",
    "s3.bucket.name": "lake",
    "kafka.bootstrap.servers": "localhost:9092",
    "flush.size": "3",
}
WITH_CREDENTIAL = {
    **SINK, "s3.credentials.provider.class": "service_credential", "s3.credentials.provider.service.credential.name": "lake-writer",
}  # fmt: skip


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspaceStandIn]:
    """A workspace with one secret and one service credential; this process is logged in to it."""
    with WorkspaceStandIn({"lake/registry": "user:s3cret"}, {"lake-writer": ("AKIAX", "k3y")}) as stand_in:
        for name, value in stand_in.environment.items():
            monkeypatch.setenv(name, value)
        yield stand_in


def _with_reference(reference: str) -> dict[str, str]:
    return {**SINK, "aws.access.key.id": "AKIAX", "aws.secret.access.key": reference}


def test_a_secret_comes_from_the_workspaces_scope(workspace: WorkspaceStandIn) -> None:
    settings = resolved(validate(_with_reference("${secrets:lake/registry}")).usable())
    secret = settings.secret("aws.secret.access.key")
    assert secret is not None
    assert secret.reveal() == "user:s3cret"


def test_the_environment_comes_before_the_workspace(
    workspace: WorkspaceStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_S3_SECRET_LAKE_REGISTRY", "mine")
    secret = resolved(validate(_with_reference("${secrets:lake/registry}")).usable()).secret("aws.secret.access.key")
    assert secret is not None
    assert secret.reveal() == "mine"
    assert workspace.requests == []


def test_a_secret_that_the_workspace_does_not_have_is_named(workspace: WorkspaceStandIn) -> None:
    with pytest.raises(ConfigError, match="no secret other in scope lake was found"):
        resolved(validate(_with_reference("${secrets:lake/other}")).usable())


def test_a_workspace_that_refuses_is_reported_without_its_words(
    workspace: WorkspaceStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_TOKEN", "t0ken-of-another")
    with pytest.raises(ConfigError, match="failed with PermissionDenied") as raised:
        resolved(validate(_with_reference("${secrets:lake/registry}")).usable())
    assert "t0ken" not in str(raised.value)


def test_a_service_credential_needs_a_name() -> None:
    settings = validate({**SINK, "s3.credentials.provider.class": "service_credential"}).usable()
    with pytest.raises(ConfigError, match=r"s3\.credentials\.provider\.service\.credential\.name"):
        store_options(settings)


def test_a_service_credential_signs_with_the_workspaces_keys(
    workspace: WorkspaceStandIn, s3: EmbeddedS3, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    config = {**WITH_CREDENTIAL, "s3.bucket.name": bucket, "store.url": s3.endpoint_url}
    store = S3Store(store_options(validate(config).usable()))
    store.put("a", b"content")
    assert store.get("a") == b"content"
    store.close()
    assert workspace.requests == ["/api/2.1/unity-catalog/temporary-service-credentials"]


def test_the_dashboard_reads_a_bucket_by_a_service_credential(
    workspace: WorkspaceStandIn, s3: EmbeddedS3, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_s3_dashboard.reading.bucket import opened, surroundings

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    variables = {"BUCKET": bucket, "STORE_URL": s3.endpoint_url, "SERVICE_CREDENTIAL": "lake-writer"}
    for name, value in variables.items():
        monkeypatch.setenv(f"KAFKA_S3_{name}", value)
    folder = opened(dict(surroundings())).folder
    folder.store.put("a", b"content")
    assert folder.store.get("a") == b"content"
    assert workspace.requests == ["/api/2.1/unity-catalog/temporary-service-credentials"]


def test_a_service_credential_that_is_refused_says_what_to_check(
    workspace: WorkspaceStandIn, s3: EmbeddedS3, bucket: str
) -> None:
    config = {
        **WITH_CREDENTIAL, "s3.bucket.name": bucket, "store.url": s3.endpoint_url,
        "s3.credentials.provider.service.credential.name": "unknown", "s3.part.retries": "1",
    }  # fmt: skip
    store = S3Store(store_options(validate(config).usable()))
    with pytest.raises(StorageError, match=r"service credential unknown .*check its name and the ACCESS right"):
        store.put("a", b"content")
    store.close()


def test_a_task_of_spark_takes_the_platforms_own_provider(
    workspace: WorkspaceStandIn, s3: EmbeddedS3, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is the platform's and not to be had here: one with its interface stands in for it."""
    module = tmp_path / "service_credentials.py"
    module.write_text(
        "import botocore.session\n"
        "def getServiceCredentialsProvider(name):\n"
        "    session = botocore.session.Session()\n"
        "    session.set_credentials('AKIAT', name)\n"
        "    return session\n"
    )
    import databricks

    monkeypatch.setattr(databricks, "__path__", [*databricks.__path__, str(tmp_path)])
    config = {**WITH_CREDENTIAL, "s3.bucket.name": bucket, "store.url": s3.endpoint_url}
    store = S3Store(store_options(validate(config).usable()))
    store.put("a", b"content")
    store.close()
    sys.modules.pop("databricks.service_credentials")
    assert workspace.requests == []


@pytest.mark.nightly
def test_the_driver_makes_the_very_objects_that_tasks_make(here: Surroundings, topic: Callable[..., str]) -> None:
    name = topic("orders", partitions=2)
    produce(
        here.servers, name, [Given(document(id=number), number % 2) for number in range(9)] + [Given(b"{broken", 1)]
    )
    config = here.config(name, **{"flush.size": "2", "errors.tolerance": "all"})
    here.drain({**config, "topics.dir": "tasks", "name": f"{config['name']}-tasks"})
    here.drain({**config, "topics.dir": "driver", "name": f"{config['name']}-driver", "tasks.run.on": "driver"})
    found = here.bucket.contents()
    by_driver = {key.removeprefix("driver/"): rows for key, rows in found.items() if key.startswith("driver/")}
    assert len(by_driver) == 5
    assert by_driver == {key.removeprefix("tasks/"): rows for key, rows in found.items() if key.startswith("tasks/")}
    assert len(here.bucket.dead_letters(f"{config['name']}-driver")) == 1


def test_the_driver_reads_a_long_range_in_pieces(
    here: Surroundings, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "OFFSETS_PER_READ", 3)
    name = topic("orders")
    produce(here.servers, name, [Given(document(id=number)) for number in range(10)])
    here.drain(here.config(name, **{"flush.size": "4", "tasks.run.on": "driver"}))
    assert [[row["id"] for row in rows] for rows in here.bucket.contents().values()] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
