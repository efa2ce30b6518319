"""How does a client show Amazon MSK who it is? By tokens signed with AWS credentials (`AWS_MSK_IAM`), each good for fifteen minutes.

Java's client signs within its own SASL mechanism; librdkafka has none of that name, and sends the same signature as the token of
OAUTHBEARER, which MSK takes on the same port. The options of the login are those of Amazon's `IAMLoginModule`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_s3.connect.config.jaas import IAM_MECHANISM, Login, read_login
from kafka_s3.model.errors import SourceError
from kafka_s3.model.text import Secret
from kafka_s3.store.credentials import AssumedRole, Credentials, Provider, Signing, default_region

SESSION_NAME: Final = "aws-msk-iam-auth"
"""What Amazon's module calls the session of a role by default."""
NEEDED: Final = "AWS_MSK_IAM needs the package aws-msk-iam-sasl-signer-python: pip install 'kafka-s3[msk]'."
_REGION: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.")


@dataclass(frozen=True, slots=True)
class SignedToken:
    """A signed token, and when it ends (epoch ms)."""

    text: Secret
    ends_ms: int


@dataclass(frozen=True, slots=True)
class IamLogin:
    """Whose credentials sign the tokens, and for which region."""

    region: str
    credentials: Credentials

    def token(self) -> SignedToken:
        """A new token. Raises SourceError where there are no credentials, they are refused, or the signing package is missing."""
        try:
            from aws_msk_iam_sasl_signer.MSKAuthTokenProvider import generate_auth_token_from_credentials_provider
        except ImportError:
            raise SourceError(NEEDED) from None
        try:
            provider = Signing(self.credentials, region=self.region)
            if provider.load() is None:
                raise SourceError(_refused("no AWS credentials were found"))
            text, ends_ms = generate_auth_token_from_credentials_provider(self.region, provider)
        except SourceError:
            raise
        except Exception as error:  # botocore's, of many kinds; its text may hold what was sent
            code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
            reason = f"{type(error).__name__} {code}".strip()
            raise SourceError(_refused(f"the AWS credentials cannot be had ({reason})")) from None
        return SignedToken(Secret(text), ends_ms)

    def for_confluent(self, _: object = None) -> tuple[str, float]:
        """A new token as `oauth_cb` of confluent-kafka wants it: the text, and its end in seconds. Raises SourceError."""
        token = self.token()
        return token.text.reveal(), token.ends_ms / 1000


def iam_login(bootstrap_servers: str, java: Mapping[str, str]) -> IamLogin | None:
    """The IAM login of a client's Java properties, None where they log in otherwise. Raises SourceError where no region is known."""
    if java.get("sasl.mechanism") != IAM_MECHANISM:
        return None
    found = _REGION.search(bootstrap_servers)
    region = found[1] if found else default_region()
    if not region:
        raise SourceError(
            f"The AWS region of {bootstrap_servers} is not part of its name, and AWS_MSK_IAM signs for one: set AWS_REGION."
        )
    return IamLogin(region, _credentials(read_login(java["sasl.jaas.config"])))


def confluent_login(bootstrap_servers: str, java: Mapping[str, str]) -> dict[str, Any]:
    """What a client of confluent-kafka is given beside its properties. Raises SourceError where no token can be signed now.

    The client itself would only say that it waited in vain.
    """
    login = iam_login(bootstrap_servers, java)
    if login is None:
        return {}
    login.token()
    return {"oauth_cb": login.for_confluent}


def _credentials(login: Login) -> Credentials:
    """As Amazon's module: a profile, else a role, else AWS's default chain."""
    if login.text("awsProfileName"):
        return Credentials(Provider.PROFILE, profile=login.text("awsProfileName"))
    if not login.text("awsRoleArn"):
        return Credentials()
    key = login.text("awsRoleAccessKeyId")
    role = AssumedRole(
        login.text("awsRoleArn"),
        login.text("awsRoleSessionName") or SESSION_NAME,
        Secret(login.text("awsRoleExternalId")),
        login.text("awsStsRegion"),
    )
    return Credentials(Provider.ASSUME_ROLE, key, Secret(login.text("awsRoleSecretAccessKey")) if key else None, role)


def _refused(reason: str) -> str:
    return (
        f"No token for Amazon MSK can be signed: {reason}. Check the profile or role in sasl.jaas.config and the AWS "
        "credentials of this machine."
    )
