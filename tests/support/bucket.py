"""What is in the bucket? Read by a plain S3 client, without the product's code, so as to judge it."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import boto3
import pyarrow.parquet as pq

from tests.support.configurations import STATE


class Bucket:
    """A bucket, as any S3 client sees it."""

    def __init__(self, endpoint: str, name: str) -> None:
        self.name = name
        self.client = boto3.client("s3", endpoint_url=endpoint)

    def listing(self) -> dict[str, str]:
        """The ETag of every object."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", [])}

    def get(self, key: str) -> bytes:
        """An object's bytes."""
        with self.client.get_object(Bucket=self.name, Key=key)["Body"] as body:
            return bytes(body.read())

    def data_keys(self) -> list[str]:
        """The objects that are not state of a sink, in order."""
        return sorted(key for key in self.listing() if not key.startswith(STATE))

    def rows(self, key: str) -> list[dict[str, Any]]:
        """The records of an object."""
        content = self.get(key)
        if key.endswith(".parquet"):
            return list(pq.read_table(io.BytesIO(content)).to_pylist())
        text = gzip.decompress(content) if key.endswith(".gz") else content
        return [json.loads(line) for line in text.splitlines()]

    def contents(self) -> dict[str, list[dict[str, Any]]]:
        """The records of every data object."""
        return {key: self.rows(key) for key in self.data_keys()}

    def entries(self, sink: str) -> list[dict[str, Any]]:
        """A sink's commit log, in order."""
        folder = f"{STATE}{sink}/commits/"
        return [json.loads(self.get(key)) for key in sorted(self.listing()) if key.startswith(folder)]

    def dead_letters(self, sink: str) -> list[dict[str, Any]]:
        """The lines of a sink's dead letter files."""
        keys = sorted(key for key in self.listing() if key.startswith(f"{STATE}{sink}/dead-letters/"))
        return [json.loads(line) for key in keys for line in gzip.decompress(self.get(key)).splitlines()]

    def tags(self, key: str) -> dict[str, str]:
        """An object's tags."""
        found = self.client.get_object_tagging(Bucket=self.name, Key=key)["TagSet"]
        return {tag["Key"]: tag["Value"] for tag in found}

    def close(self) -> None:
        """Gives the connections back."""
        self.client.close()
