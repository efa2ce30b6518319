"""Whose connector is it, if it is another product's, and what has to be changed?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_s3.config.classes import SELF_MANAGED
from kafka_s3.model.errors import Problem

_CLASS: Final = f"connector.class={SELF_MANAGED}"
_LENSES = (
    "Lenses", f"Set {_CLASS}, and say with s3.bucket.name, topics.dir, partitioner.class, format.class and flush.size what "
    "connect.s3.kcql says now.")  # fmt: skip
_SOURCE = ("Confluent's S3 source", "It reads objects into Kafka, which this product does not do.")
OTHERS: Final[Mapping[str, tuple[str, str]]] = {
    "io.lenses.": _LENSES,
    "com.datamountaineer.": _LENSES,
    "io.aiven.": ("Aiven", f"Set {_CLASS}, s3.bucket.name for aws.s3.bucket.name, s3.region for aws.s3.region, topics.dir and "
                  "partitioner.class for file.name.template, format.class for format.output.type, and flush.size."),
    "org.apache.camel.": ("Camel", f"Set {_CLASS}, s3.bucket.name and s3.region for camel.kamelet.aws-s3-sink.bucketNameOrArn and "
                          "region, format.class and flush.size."),
    "com.redpanda.": ("Redpanda", f"Set {_CLASS}, s3.bucket.name for aws.s3.bucket.name, s3.region for aws.s3.region, format.class for "
                      "format.output.type, and flush.size."),
    "com.cloudera.": ("Cloudera", f"Set {_CLASS}, s3.bucket.name for aws.s3.bucket, store.url for aws.s3.service_endpoint, format.class "
                      "for output.writer, and flush.size."),
    "io.confluent.connect.s3.source.": _SOURCE,
    "S3_SOURCE": _SOURCE,
    "S3Source": _SOURCE,
    "io.confluent.connect.gcs.": ("Confluent's GCS", f"Set {_CLASS}, s3.* for gcs.*, and store.url=https://storage.googleapis.com."),
    "io.confluent.connect.azure.": ("Confluent's Azure", "It writes to Azure storage, which has no S3 interface."),
    "io.confluent.connect.hdfs": ("Confluent's HDFS", f"Set {_CLASS}, s3.bucket.name for hdfs.url, and format.class of the S3 sink."),
    "org.apache.iceberg.": ("Iceberg", "It writes Iceberg tables; this product writes objects, and Delta tables with delta.enable=true."),
    "io.tabular.": ("Iceberg", "It writes Iceberg tables; this product writes objects, and Delta tables with delta.enable=true."),
}  # fmt: skip
"""By how the class begins: whose connector it is, and what to change."""


def another_products(texts: Mapping[str, str]) -> Problem | None:
    """What to say of a configuration of another product: one thing, for its other keys are not ours to judge."""
    connector = texts.get("connector.class", "").strip()
    found = next((other for prefix, other in OTHERS.items() if connector.startswith(prefix)), None)
    if found is None:
        return None
    vendor, change = found
    return Problem("connector.class", None, f"is a connector of another product: {vendor}.", change)
