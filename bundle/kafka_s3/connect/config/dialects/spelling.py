"""In which of the three spellings is a configuration, and what does it say in self-managed keys? Or is it another product's?"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from kafka_s3.connect.config.classes import BLOCK_GZIP_PACKAGES, MANAGED_CLOUD, SELF_MANAGED
from kafka_s3.connect.config.dialects import SpelledConfig
from kafka_s3.connect.config.dialects.block_gzip import block_gzip_translation
from kafka_s3.connect.config.dialects.managed_cloud import managed_cloud_translation
from kafka_s3.connect.config.references import has_reference
from kafka_s3.model.errors import Problem

_MISSPELT: Final = 0.9
"""Classes of one vendor are alike by their long package already: that much of the whole is less than a word."""
_PACKAGE: Final = SELF_MANAGED.rpartition(".")[0]
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
    if found is not None:
        vendor, change = found
        return Problem("connector.class", None, f"is a connector of another product: {vendor}.", change)
    if _may_be_ours(connector):
        return None
    change = f"Set {_CLASS}, and its keys in place of that connector's."
    return Problem("connector.class", None, "is a connector of another product.", change)


def _may_be_ours(connector: str) -> bool:
    """Whether it is one whose place this product takes, perhaps misspelt, or a name without a package."""
    if "." not in connector or has_reference(connector) or connector.startswith((_PACKAGE, *BLOCK_GZIP_PACKAGES)):
        return True
    return bool(difflib.get_close_matches(connector.lower(), [SELF_MANAGED.lower()], cutoff=_MISSPELT))


def self_managed(texts: Mapping[str, str], worker: Mapping[str, str]) -> SpelledConfig:
    """The configuration in self-managed keys, with what only its own spelling shows. `worker` are the settings of `read_worker`.

    The connector's class says the spelling, or keys that only Block-GZIP has.
    """
    connector = texts.get("connector.class", "").strip()
    if connector == MANAGED_CLOUD:
        return managed_cloud_translation(texts, worker)
    if connector.startswith(BLOCK_GZIP_PACKAGES) or {"s3.bucket", "local.buffer.dir"} <= texts.keys():
        return block_gzip_translation(texts)
    return SpelledConfig(texts)
