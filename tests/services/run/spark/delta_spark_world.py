"""A sink in memory whose tables have names in Spark's catalog: an S3 server whose buckets are folders, which Spark reads as files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafka_s3.run.spark.launch import SparkCatalog
from tests.support.delta_world import TableWorld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.s3 import EmbeddedS3

ETAG: Final = "user.etag"


class SparkWorld(TableWorld):
    """Its tables are of the catalog's schema of that name."""

    def __init__(self, objects: EmbeddedS3, spark: SparkSession, schema: str, **config: str) -> None:
        objects.create_bucket(schema.replace("_", "-"))
        bucket = schema.replace("_", "-")
        catalog = SparkCatalog(spark, f"file://{objects.folder / bucket}")
        self.session, self.schema = spark, schema
        names = {"delta.table.name": f"{schema}.${{topic}}"}
        super().__init__(objects, bucket, spark=catalog, **names, **config)

    def read(self, topic: str = "orders", *, by: str = "n") -> list[dict[str, Any]]:
        rows = [row.asDict(recursive=True) for row in self.session.table(f"{self.schema}.`{topic}`").collect()]
        return sorted(rows, key=lambda row: row[by])

    def numbers(self, topic: str = "orders") -> list[int]:
        return [row["n"] for row in self.read(topic)]

    def sql(self, text: str) -> list[Any]:
        rows = self.session.sql(text.replace("TABLE_", f"{self.schema}.orders")).collect()
        as_objects(self.s3.folder / self.bucket)
        return rows

    def bytes(self) -> int:
        """The size of the table's files."""
        return int(self.sql("DESCRIBE DETAIL TABLE_")[0].sizeInBytes)

    def history(self) -> list[dict[str, Any]]:
        """What the sink wrote into the table's history, oldest first."""
        rows = self.sql("DESCRIBE HISTORY TABLE_")
        return [json.loads(row.userMetadata) for row in reversed(rows) if row.userMetadata]


def as_objects(folder: Path) -> None:
    """Gives files that Spark has put there an ETag. A file without one is none of S3's: a put with If-None-Match would go over it."""
    for path in folder.rglob("*"):
        if path.is_file() and ETAG not in os.listxattr(path):
            os.setxattr(path, ETAG, hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest().encode())


def numbered(*numbers: int) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]
