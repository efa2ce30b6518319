"""Do the contracts of imports hold, and catch what breaks them? Forbidden imports are planted in a copy of the tree, one by one."""

from __future__ import annotations

import pytest

from tests.support.contracts import Tree, breaches, read_tree

LAZY = "\n\ndef _planted():\n    {}\n"
TYPES = "\n\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {}\n"
PLAIN = "\n{}\n"
PLANTED = [
    ("bundle/kafka_s3/store/s3.py", "from kafka_s3.engine.loop.sink import Sink", PLAIN, "engine.loop is not below"),
    ("bundle/kafka_s3/store/s3.py", "from kafka_s3.engine.loop import sink", LAZY, "engine.loop is not below"),
    ("bundle/kafka_s3/engine/control/heartbeat.py", "from kafka_s3.engine.loop.runner import waiting", PLAIN, "engine.loop is not below"),
    ("bundle/kafka_s3/engine/control/heartbeat.py", "import kafka_s3.engine.loop.runner as runner", LAZY, "engine.loop is not below"),
    ("bundle/kafka_s3/engine/control/status.py", "from ..loop.runner import waiting", PLAIN, "engine.loop is not below"),
    ("bundle/kafka_s3/connect/config/settings.py", "from kafka_s3.run.wiring.sink import build_sink", TYPES, "run.wiring is not below"),
    ("bundle/kafka_s3/connect/config/settings.py", "from kafka_s3.connect.config.validate import validate", LAZY, "a circle of imports"),
    ("bundle/kafka_s3/run/spark/failures.py", "from kafka_s3.run.spark.launch import NO_DELTA", LAZY, "a circle of imports"),
    ("bundle/kafka_s3/engine/task/worker.py", 'import importlib; importlib.import_module("kafka_s3.run.spark.task")', LAZY, "is not below"),
    ("bundle/kafka_s3/engine/loop/sink.py", "from kafka_s3.connect.config.settings import Settings", TYPES, "only kafka_s3.cli, "),
    ("bundle/kafka_s3/followers/glue.py", "from kafka_s3.connect.config.settings import Settings", LAZY, "only kafka_s3.cli, "),
    ("bundle/kafka_s3/model/files.py", "import pyarrow as pa", PLAIN, "only kafka_s3_dashboard.reading, kafka_s3.engine.log.history"),
    ("bundle/kafka_s3/engine/log/entry.py", "from pyarrow import compute", LAZY, "only kafka_s3_dashboard.reading, "),
    ("bundle/kafka_s3/ops/sweep.py", "import boto3", PLAIN, "only kafka_s3.store.credentials may"),
    ("bundle/kafka_s3_testing/services/demo_records.py", "from botocore.session import Session", PLAIN, "kafka_s3.followers may"),
    ("bundle/kafka_s3/store/s3.py", "from botocore.config import Config", PLAIN, "only kafka_s3.store.credentials may"),
    ("bundle/kafka_s3/engine/loop/topics.py", "from confluent_kafka.admin import AdminClient", LAZY, "only kafka_s3.kafka, "),
    ("bundle/kafka_s3/run/wiring/delta.py", "from pyspark.sql import SparkSession", TYPES, "only kafka_s3.run.spark, "),
    ("bundle/kafka_s3/run/wiring/delta.py", "from deltalake import DeltaTable", PLAIN, "only kafka_s3.followers.delta may"),
    ("bundle/kafka_s3/kafka/brokers.py", "import numba", PLAIN, "numba"),
    ("bundle/kafka_s3/ops/doctor/findings.py", "from rich.table import Table", PLAIN, "only kafka_s3.cli, "),
    ("bundle/kafka_s3/cli/status.py", "import streamlit as st", PLAIN, "only app, kafka_s3_dashboard.page, "),
    ("dashboard/kafka_s3_dashboard/figures/text.py", "import streamlit as st", LAZY, "only app, kafka_s3_dashboard.page, "),
    ("bundle/kafka_s3/run/wiring/sink.py", "from tests.support.surroundings import Surroundings", LAZY, "tests is no dependency"),
    ("bundle/kafka_s3/connect/records/values.py", "import pandas", PLAIN, "only kafka_s3_dashboard may"),
    ("bundle/kafka_s3/run/java/jars.py", "import jsonschema", PLAIN, "only kafka_s3.connect.converters may"),
    ("bundle/kafka_s3/handling/__init__.py", "import json", PLAIN, "kafka_s3.handling: has no line"),
    ("bundle/kafka_s3/clock.py", "import time", PLAIN, "kafka_s3.clock: has no line"),
    ("bundle/kafka_s3/__init__.py", "from kafka_s3.model.files import Reason", PLAIN, "model is not below kafka_s3"),
    ("dashboard/kafka_s3_dashboard/reading/bucket.py", "from kafka_s3.cli.arguments import Where", PLAIN, "cli is not below"),
    ("dashboard/app.py", "from kafka_s3.run.spark.session import spark_session", LAZY, "only kafka_s3.cli, kafka_s3.spark, "),
    ("dashboard/kafka_s3_dashboard/reading/watch.py", "from kafka_s3_dashboard.views import overview", LAZY,
     "views is not below kafka_s3_dashboard.reading"),
    ("dashboard/kafka_s3_dashboard/figures/text.py", "from kafka_s3_dashboard.page.scene import scene", PLAIN,
     "page is not below kafka_s3_dashboard.figures"),
    ("dashboard/kafka_s3_dashboard/page/parts.py", "import boto3", LAZY, "only kafka_s3.store.credentials may"),
    ("jobs/keep_states.py", "from kafka_s3.run.spark.session import spark_session", PLAIN, "only kafka_s3.cli, kafka_s3.spark, "),
    ("jobs/run_sink.py", "from pyspark.sql import SparkSession", LAZY, "only kafka_s3.run.spark, "),
    ("jobs/keep_states.py", "from jobs.run_sink import main", PLAIN, "jobs.run_sink is not below jobs.keep_states"),
    ("bundle/kafka_s3/cli/run.py", "from jobs.run_sink import main", LAZY, "jobs.run_sink is not below kafka_s3.cli"),
]  # fmt: skip


@pytest.fixture(scope="module")
def tree() -> Tree:
    return read_tree()


@pytest.mark.parametrize(
    ("file", "statement", "form", "reported"), PLANTED, ids=[f"{one[0]}: {one[1]}" for one in PLANTED]
)
def test_a_forbidden_import_is_caught(tree: Tree, file: str, statement: str, form: str, reported: str) -> None:
    found = breaches({**tree, file: tree.get(file, "") + form.format(statement)})
    assert any(reported in breach for breach in found), found


def test_every_contract_is_kept(tree: Tree) -> None:
    assert breaches(tree) == []
