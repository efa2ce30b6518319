"""What does `${secrets:scope/key}` stand for in a Databricks workspace? The secret of that scope, asked for with the job's own identity."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from databricks.sdk import WorkspaceClient

SIGNS: Final = ("DATABRICKS_RUNTIME_VERSION", "DATABRICKS_HOST")
"""Variables of which one is set where a workspace can be asked."""


def workspace_source(environment: Mapping[str, str]) -> Callable[[str, str], str | None]:
    """Secrets of the workspace; none outside of one. Raises what the workspace's client raises where it refuses."""

    @cache
    def client() -> WorkspaceClient:
        from databricks.sdk import WorkspaceClient

        return WorkspaceClient()

    def source(scope: str, key: str) -> str | None:
        if not any(environment.get(sign) for sign in SIGNS):
            return None
        from databricks.sdk.errors import NotFound

        try:
            value = client().secrets.get_secret(scope, key).value
        except NotFound:
            return None
        return base64.b64decode(value).decode() if value is not None else None

    return source
