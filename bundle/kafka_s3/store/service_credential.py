"""How does a Unity Catalog service credential sign requests to S3? Through keys that the workspace hands out for an hour at a time.

Inside a task of Spark the platform has a provider of its own, because tasks have no identity with which to ask the workspace; everywhere
else (driver, dashboard, a laptop) the workspace is asked.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from botocore.credentials import DeferredRefreshableCredentials
from botocore.exceptions import CredentialRetrievalError

METHOD = "service-credential"


def service_credentials(name: str) -> Any:
    """Credentials for botocore that renew themselves. Asks nobody yet, but for the platform's provider in a task."""
    return _of_a_task(name) or DeferredRefreshableCredentials(lambda: _from_the_workspace(name), method=METHOD)


def _of_a_task(name: str) -> Any:
    """None where the platform has no such provider, or has it only in name."""
    try:
        from databricks.service_credentials import getServiceCredentialsProvider
    except ImportError:
        return None
    try:
        return getServiceCredentialsProvider(name).get_credentials()
    except Exception:
        return None  # it is for tasks only; the workspace's own answer says more than its error


def _from_the_workspace(name: str) -> dict[str, str]:
    try:
        from databricks.sdk import WorkspaceClient

        answer = WorkspaceClient().credentials.generate_temporary_service_credential(name)
    except Exception as error:  # of many kinds; its text may hold what was sent
        refused = f"the workspace gave no keys for the service credential {name} ({type(error).__name__})"
        reason = f"{refused}: check its name and the ACCESS right"
        raise CredentialRetrievalError(provider=METHOD, error_msg=reason) from None
    keys = answer.aws_temp_credentials
    if keys is None or not keys.access_key_id or not keys.secret_access_key or answer.expiration_time is None:
        reason = f"the service credential {name} holds no AWS role: make one for AWS"
        raise CredentialRetrievalError(provider=METHOD, error_msg=reason)
    return {
        "access_key": keys.access_key_id,
        "secret_key": keys.secret_access_key,
        "token": keys.session_token or "",
        "expiry_time": datetime.fromtimestamp(answer.expiration_time / 1000, UTC).isoformat(),
    }
