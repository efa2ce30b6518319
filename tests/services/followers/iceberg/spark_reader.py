"""Reads an Iceberg table with Spark, in a process of its own: jars of Iceberg go in at its start alone. Prints what it found as JSON.

python -m tests.services.followers.iceberg.spark_reader S3_URL STATEMENT...: those of `catalog_statements`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from chispa import assert_df_equality
from pyspark.sql import SparkSession

from kafka_s3.followers.ddl.iceberg import CatalogTable
from kafka_s3.run.java.jars import spark_jars
from kafka_s3.run.java.java import find_java
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY

JARS = (
    "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1",
    "org.apache.iceberg:iceberg-aws-bundle:1.10.1",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)


def catalog_statements(table: CatalogTable) -> list[str]:
    """Settings that make a database's catalog known, as docs/query-engines.md has them, and a view of the table."""
    options = {
        "": "org.apache.iceberg.spark.SparkCatalog", ".type": "jdbc", ".jdbc.schema-version": "V1", ".warehouse": table.warehouse,
        ".uri": f"jdbc:sqlite:{table.uri.removeprefix('sqlite:///')}", ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }  # fmt: skip
    lines = [f"SET `spark.sql.catalog.iceberg{key}` = `{value}`" for key, value in options.items()]
    return [*lines, "CREATE OR REPLACE TEMPORARY VIEW orders AS SELECT * FROM iceberg.kafka.orders"]


def session(url: str, statements: Sequence[str]) -> SparkSession:
    """A session in which the statements have made the catalog known; the credentials of the bucket are set apart."""
    bucket = {
        ".s3.endpoint": url, ".s3.path-style-access": "true", ".s3.access-key-id": ACCESS_KEY, ".s3.secret-access-key": SECRET_KEY,
        ".client.region": REGION, ".cache-enabled": "false",
    }  # fmt: skip
    builder = SparkSession.builder.master("local[1]").appName("iceberg reader").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", ",".join(map(str, spark_jars(JARS)))).config("spark.log.level", "ERROR")
    builder = builder.config("spark.sql.shuffle.partitions", "1").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config(
        "spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    )
    for key, value in bucket.items():
        builder = builder.config(f"spark.sql.catalog.iceberg{key}", value)
    spark = builder.getOrCreate()
    for statement in statements:
        spark.sql(statement)
    return spark


def refused(spark: SparkSession, call: str) -> str:
    """What Spark says to a procedure that must not run; blank where it ran."""
    try:
        spark.sql(call).collect()
    except Exception as error:
        return str(error)
    return ""


def look(spark: SparkSession) -> dict[str, Any]:
    """Rows, pruned rows, older rows, and what the metadata tables say."""
    orders = spark.table("orders").orderBy("n")
    snapshots = spark.sql("SELECT * FROM iceberg.kafka.orders.snapshots ORDER BY committed_at").collect()
    first = spark.read.option("snapshot-id", snapshots[0]["snapshot_id"]).table("iceberg.kafka.orders").orderBy("n")
    assert_df_equality(first, orders.where("n < 4").select(first.columns), ignore_nullable=True)
    files = spark.sql(
        "SELECT file_path, partition.partition AS p, record_count FROM iceberg.kafka.orders.files"
    ).collect()
    found = {
        "rows": [row.asDict(recursive=True) for row in orders.collect()],
        "pruned": [row["n"] for row in orders.where("partition = '1'").collect()],
        "entries": [row["summary"]["kafka-s3.entry"] for row in snapshots],
        "files": sorted((row["file_path"], row["p"], row["record_count"]) for row in files),
    }
    table = "table => 'kafka.orders'"
    found["expire"] = refused(
        spark, f"CALL iceberg.system.expire_snapshots({table}, older_than => TIMESTAMP '2100-01-01 00:00:00')"
    )
    found["orphans"] = refused(spark, f"CALL iceberg.system.remove_orphan_files({table})")
    return found


if __name__ == "__main__":
    import os

    os.environ["JAVA_HOME"] = str(find_java().home)
    spark = session(sys.argv[1], sys.argv[2:])
    print(json.dumps(look(spark), default=str))
    spark.stop()
