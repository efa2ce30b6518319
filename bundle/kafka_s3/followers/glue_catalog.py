"""Which tables does the AWS Glue Data Catalog know, and how is it told? A few requests, and what their failures mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from kafka_s3.model.errors import TableError, TableRefused, TableUnavailable
from kafka_s3.store.credentials import Credentials, aws_client

AT_ONCE: Final = 100
"""Partitions of one request, by Glue's own limit."""
BUSY: Final = frozenset({
    "InternalServiceException", "OperationTimeoutException", "ThrottlingException", "ConcurrentModificationException",
    "ResourceNotReadyException",
})  # fmt: skip
RIGHTS: Final = (
    "kafka-s3 iam prints the rights that are needed; the database has to be there (aws glue create-database)."
)
_INPUT: Final = (
    "Name",
    "Description",
    "Owner",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "TableType",
    "Parameters",
)
T = TypeVar("T")


class GlueCatalog:
    """One database of the catalog. Methods raise TableUnavailable where Glue does not answer, TableRefused where it says no."""

    def __init__(self, database: str, *, region: str, endpoint_url: str | None, credentials: Credentials) -> None:
        self._database = database
        self._client = aws_client("glue", region=region, endpoint_url=endpoint_url, credentials=credentials)

    def table(self, name: str) -> dict[str, Any] | None:
        """A table in the form of Glue's table input, None where there is none."""
        try:
            found = self._client.get_table(DatabaseName=self._database, Name=name)["Table"]
        except self._client.exceptions.EntityNotFoundException as error:
            if "atabase" in str(error):
                raise self._meaning(error, name) from error
            return None
        except (BotoCoreError, ClientError) as error:
            raise self._meaning(error, name) from error
        return {key: found[key] for key in _INPUT if key in found}

    def create(self, table: Mapping[str, Any]) -> None:
        """Makes a table."""
        self._asked(lambda: self._client.create_table(DatabaseName=self._database, TableInput=table), table["Name"])

    def update(self, table: Mapping[str, Any]) -> None:
        """Puts a table in the place of the one that has its name; partitions stay."""
        self._asked(lambda: self._client.update_table(DatabaseName=self._database, TableInput=table), table["Name"])

    def add_partitions(self, name: str, partitions: Sequence[Mapping[str, Any]]) -> None:
        """Adds partitions to a table; those that it has stay as they are."""
        for at in range(0, len(partitions), AT_ONCE):
            some = list(partitions[at : at + AT_ONCE])
            answer = self._asked(
                lambda some=some: self._client.batch_create_partition(  # type: ignore[misc]
                    DatabaseName=self._database, TableName=name, PartitionInputList=some
                ),
                name,
            )
            wrong = [
                one for one in answer.get("Errors", ()) if one["ErrorDetail"]["ErrorCode"] != "AlreadyExistsException"
            ]
            if wrong:
                reason = f"{wrong[0]['ErrorDetail']['ErrorCode']} for {'/'.join(wrong[0]['PartitionValues'])}"
                raise TableUnavailable(
                    f"AWS Glue did not take {len(wrong)} partitions of {self._database}.{name} ({reason})."
                )

    def _asked(self, request: Callable[[], T], name: str) -> T:
        try:
            return request()
        except (BotoCoreError, ClientError) as error:
            raise self._meaning(error, name) from error

    def _meaning(self, error: Exception, name: str) -> TableError:
        what = f"table {self._database}.{name}"
        if not isinstance(error, ClientError):
            return TableUnavailable(f"AWS Glue did not answer for {what} ({type(error).__name__}).")
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status >= 500 or status == 429 or code in BUSY:
            return TableUnavailable(f"AWS Glue failed for {what}, after all attempts ({code}).")
        return TableRefused(f"AWS Glue refused {what} ({code}). {RIGHTS}")
