"""What does the AWS Glue Schema Registry know of a schema version? Asked by boto3, once for each: versions never change."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

from kafka_s3.connect.registry.cache import AnswerCache
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema
from kafka_s3.model.errors import RegistryError, RegistryUnavailable, UnknownSchema
from kafka_s3.store.credentials import ATTEMPTS, Credentials, patient_config, session_of

BUSY: Final = frozenset(
    {"InternalServiceException", "OperationTimeoutException", "ThrottlingException", "ServiceUnavailable"}
)
RIGHTS: Final = "Check the AWS credentials of this machine and the right glue:GetSchemaVersion."


@dataclass(frozen=True, slots=True)
class GlueOptions:
    """How to reach AWS Glue. `endpoint` and `proxy` are URLs, None: AWS's own, the surroundings'. `cache_size` counts schema versions.

    What Glue does not know is asked again after `negative_ttl_s`.
    """

    region: str
    endpoint: str | None = None
    credentials: Credentials = field(default_factory=Credentials)
    proxy: str | None = None
    cache_size: int = 200
    timeout_s: float = 30.0
    attempts: int = ATTEMPTS
    negative_ttl_s: float = 30.0

    @property
    def shown_urls(self) -> str:
        """Where it is, for an error text."""
        return self.endpoint or f"AWS Glue in {self.region}"


class GlueRegistry:
    """A `SchemaRegistry` of AWS Glue: schemas by their version's id, which is a GUID. Safe for threads; nothing is written.

    Methods raise UnknownSchema, RegistryUnavailable after all attempts, or RegistryError where Glue refuses. The constructor sends nothing.
    """

    def __init__(self, options: GlueOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._client = _client(options)
        self._schemas = AnswerCache[RegisteredSchema](
            options.cache_size, negative_ttl_s=options.negative_ttl_s, clock=clock
        )

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """Glue has no numbers: never found."""
        raise UnknownSchema(f"There is no schema id {schema_id}: AWS Glue names schema versions by GUIDs.")

    def by_guid(self, guid: str) -> RegisteredSchema:
        """The schema of a version id."""
        return self._schemas.get(guid, lambda: self._fetch(guid))

    def version_of(self, subject: str, schema: RegisteredSchema) -> int | None:
        """None: Glue's converter gives schemas no version."""
        return None

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """Never found: records name their schema version."""
        raise UnknownSchema(f"The latest version of {subject} is not looked for in AWS Glue.")

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _fetch(self, guid: str) -> RegisteredSchema:
        try:
            answer = self._client.get_schema_version(SchemaVersionId=guid)
        except (BotoCoreError, ClientError) as error:
            raise _error(error, f"schema version {guid}", self.options) from None
        kind, text = answer.get("DataFormat"), answer.get("SchemaDefinition")
        if kind not in (*Language,) or not text:
            raise RegistryError(
                f"{self.options.shown_urls} gave schema version {guid} as {kind!r}: known are {', '.join(Language)}."
            )
        return RegisteredSchema(Language(kind), str(text))


def _client(options: GlueOptions) -> Any:
    config = patient_config(options.proxy, attempts=options.attempts, timeout_s=options.timeout_s)
    session = session_of(options.credentials, region=options.region)
    return session.client("glue", options.endpoint, options.proxy, config=config)


def _error(error: Exception, what: str, options: GlueOptions) -> RegistryError:
    """What a failed request means to whoever has to act on it; free of secrets."""
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code == "EntityNotFoundException":
            return UnknownSchema(f"{options.shown_urls} has no {what} ({code}).")
        if status >= 500 or status == 429 or code in BUSY:
            return RegistryUnavailable(
                f"{options.shown_urls} failed at the request for {what}, after all attempts ({code})."
            )
        return RegistryError(f"{options.shown_urls} refused {what} ({code}). {RIGHTS}")
    name = type(error).__name__
    if isinstance(error, ConnectionError | HTTPClientError):
        return RegistryUnavailable(f"{options.shown_urls} did not answer the request for {what} ({name}).")
    return RegistryError(f"{options.shown_urls} could not be asked for {what} ({name}). {RIGHTS}")
