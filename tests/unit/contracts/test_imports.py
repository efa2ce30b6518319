"""Do the contracts of imports hold, and catch what breaks them? Forbidden imports are planted in a copy of the tree, one by one."""

from __future__ import annotations

import pytest

from tests.support.contracts import Tree, breaches, read_tree

LAZY = "\n\ndef _planted():\n    {}\n"
TYPES = "\n\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {}\n"
PLAIN = "\n{}\n"
PLANTED = [
    ("bundle/kafka_s3/storage/s3.py", "from kafka_s3.driver.sink import Sink", PLAIN, "kafka_s3.driver does not stand below"),
    ("bundle/kafka_s3/storage/s3.py", "from kafka_s3.driver import sink", LAZY, "kafka_s3.driver does not stand below"),
    ("bundle/kafka_s3/control/heartbeat.py", "from kafka_s3.driver.runner import waiting", PLAIN, "kafka_s3.driver does not stand below"),
    ("bundle/kafka_s3/control/heartbeat.py", "import kafka_s3.driver.runner as runner", LAZY, "kafka_s3.driver does not stand below"),
    ("bundle/kafka_s3/control/status.py", "from ..driver.runner import waiting", PLAIN, "kafka_s3.driver does not stand below"),
    ("bundle/kafka_s3/config/settings.py", "from kafka_s3.wiring.sink import build_sink", TYPES, "kafka_s3.wiring does not stand below"),
    ("bundle/kafka_s3/config/settings.py", "from kafka_s3.config.validate import validate", LAZY, "a circle of imports"),
    ("bundle/kafka_s3/spark/failures.py", "from kafka_s3.spark.catalog import NO_DELTA", LAZY, "a circle of imports"),
    ("bundle/kafka_s3/task/worker.py", 'import importlib; importlib.import_module("kafka_s3.spark.rows")', LAZY, "does not stand below"),
    ("bundle/kafka_s3/model/files.py", "import pyarrow as pa", PLAIN, "only dashboard.reading, kafka_s3.commit.history"),
    ("bundle/kafka_s3/commit/entry.py", "from pyarrow import compute", LAZY, "only dashboard.reading, kafka_s3.commit.history"),
    ("bundle/kafka_s3/tools/sweep.py", "import boto3", PLAIN, "only kafka_s3.storage, kafka_s3.local.s3 may"),
    ("bundle/kafka_s3/local/orders.py", "from botocore.session import Session", PLAIN, "kafka_s3.registry.glue may"),
    ("bundle/kafka_s3/driver/topics.py", "from confluent_kafka.admin import AdminClient", LAZY, "only kafka_s3.kafka, "),
    ("bundle/kafka_s3/wiring/delta.py", "from pyspark.sql import SparkSession", TYPES, "only kafka_s3.spark, "),
    ("bundle/kafka_s3/wiring/delta.py", "from deltalake import DeltaTable", PLAIN, "only kafka_s3.delta may"),
    ("bundle/kafka_s3/kafka/brokers.py", "import numba", PLAIN, "numba"),
    ("bundle/kafka_s3/tools/doctor/finding.py", "from rich.table import Table", PLAIN, "only kafka_s3.cli may"),
    ("bundle/kafka_s3/cli/check.py", "import streamlit as st", PLAIN, "only dashboard.app, dashboard.page, "),
    ("dashboard/figures/text.py", "import streamlit as st", LAZY, "only dashboard.app, dashboard.page, "),
    ("bundle/kafka_s3/wiring/sink.py", "from tests.support.surroundings import Surroundings", LAZY, "tests is no dependency"),
    ("bundle/kafka_s3/records/values.py", "import pandas", PLAIN, "only dashboard may"),
    ("bundle/kafka_s3/local/certificates.py", "import jsonschema", PLAIN, "only kafka_s3.converters may"),
    ("bundle/kafka_s3/handling/__init__.py", "import json", PLAIN, "kafka_s3.handling: has no line"),
    ("bundle/kafka_s3/clock.py", "import time", PLAIN, "kafka_s3.clock: has no line"),
    ("bundle/kafka_s3/__init__.py", "from kafka_s3.model.files import Reason", PLAIN, "kafka_s3.model does not stand below kafka_s3"),
    ("dashboard/reading/place.py", "from kafka_s3.cli.arguments import Where", PLAIN, "kafka_s3.cli does not stand below"),
    ("dashboard/app.py", "from kafka_s3.spark.session import spark_session", LAZY, "only kafka_s3.cli, kafka_s3.testing, "),
    ("dashboard/reading/watch.py", "from views import overview", LAZY, "dashboard.views does not stand below dashboard.reading"),
    ("dashboard/figures/text.py", "from page.scene import scene", PLAIN, "dashboard.page does not stand below dashboard.figures"),
    ("dashboard/page/parts.py", "import boto3", LAZY, "only kafka_s3.storage, kafka_s3.local.s3 may"),
    ("jobs/sweep_sinks.py", "from kafka_s3.spark.session import spark_session", PLAIN, "only kafka_s3.cli, kafka_s3.testing, "),
    ("jobs/run_sink.py", "from pyspark.sql import SparkSession", LAZY, "only kafka_s3.spark, "),
    ("jobs/verify_sinks.py", "from jobs.sweep_sinks import main", PLAIN, "jobs.sweep_sinks does not stand below jobs.verify_sinks"),
    ("bundle/kafka_s3/cli/run.py", "from jobs.run_sink import main", LAZY, "jobs.run_sink does not stand below kafka_s3.cli"),
]  # fmt: skip


@pytest.fixture(scope="module")
def tree() -> Tree:
    return read_tree()


@pytest.mark.parametrize(("file", "statement", "form", "told"), PLANTED, ids=[f"{one[0]}: {one[1]}" for one in PLANTED])
def test_a_forbidden_import_is_caught(tree: Tree, file: str, statement: str, form: str, told: str) -> None:
    found = breaches({**tree, file: tree.get(file, "") + form.format(statement)})
    assert any(told in breach for breach in found), found


def test_every_contract_is_kept(tree: Tree) -> None:
    assert breaches(tree) == []
