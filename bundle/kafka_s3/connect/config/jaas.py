"""What does a JAAS configuration say? One login module, Kafka's own or Amazon MSK's, with options that it knows; others are refused unread.

A login module is code that the client loads and runs with whatever options it is given: `JndiLoginModule` fetches objects from any
address, others read files. So the modules are four, the options of each are listed, and there is exactly one entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kafka_s3.connect.config.option import InvalidValue, Value, accepts
from kafka_s3.model.text import Secret

PACKAGE: Final = "org.apache.kafka.common.security."
IAM_PACKAGE: Final = "software.amazon.msk.auth.iam."
IAM_MECHANISM: Final = "AWS_MSK_IAM"


class Module(StrEnum):
    """The login modules that are allowed."""

    PLAIN = f"{PACKAGE}plain.PlainLoginModule"
    SCRAM = f"{PACKAGE}scram.ScramLoginModule"
    OAUTHBEARER = f"{PACKAGE}oauthbearer.OAuthBearerLoginModule"
    IAM = f"{IAM_PACKAGE}IAMLoginModule"


SHADE: Final = "kafkashaded."
IAM_SHADE: Final = "shadedmskiam."
SHADES: Final[Mapping[Module, str]] = {module: IAM_SHADE if module is Module.IAM else SHADE for module in Module}
"""What Databricks puts before the names of its own copies of these classes."""


MECHANISMS: Final[Mapping[str, Module]] = {
    "PLAIN": Module.PLAIN,
    "SCRAM-SHA-256": Module.SCRAM,
    "SCRAM-SHA-512": Module.SCRAM,
    "OAUTHBEARER": Module.OAUTHBEARER,
    IAM_MECHANISM: Module.IAM,
}
REQUIRED: Final = {
    Module.PLAIN: ("username", "password"),
    Module.SCRAM: ("username", "password"),
    Module.OAUTHBEARER: ("clientId", "clientSecret"),
    Module.IAM: (),
}
FURTHER: Final = {
    Module.OAUTHBEARER: ("scope",),
    Module.IAM: (
        "awsProfileName", "awsRoleArn", "awsRoleExternalId", "awsRoleSessionName", "awsStsRegion", "awsRoleAccessKeyId",
        "awsRoleSecretAccessKey", "awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs",
    ),
}  # fmt: skip
EXTENSION: Final = "extension_"
INSTEAD: Final = {
    "JndiLoginModule": "It fetches objects from any address it is given.",
    "LdapLoginModule": "It sends passwords to any server it is given.",
    "KeyStoreLoginModule": "For a client certificate set ssl.keystore.* (mTLS).",
    "Krb5LoginModule": "Kerberos is not supported: use SCRAM over SASL_SSL, or a client certificate (mTLS).",
}
"""Modules that people bring along, and what to know of them."""
_ENTRY: Final = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)"
    r"""(?P<options>(?:\s+[A-Za-z][\w.-]*\s*=\s*(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s;"']+))*)\s*;\s*""",
    re.DOTALL,
)
_OPTION: Final = re.compile(r"""([A-Za-z][\w.-]*)\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s;"']+)""", re.DOTALL)
_FIRST_WORD: Final = re.compile(r"\s*([\w.$]+)")
_KNOWN: Final = ", ".join(Module)
_EXAMPLE: Final = f'For example: {Module.PLAIN} required username="..." password="...";'


@dataclass(frozen=True, slots=True)
class Login:
    """A login module with its options, which show as `****`."""

    module: Module
    options: Mapping[str, Secret]

    def text(self, name: str) -> str:
        """An option's value, blank where it is not set."""
        return self.options[name].reveal() if name in self.options else ""

    def extensions(self) -> dict[str, str]:
        """The SASL extensions of OAUTHBEARER, as the logical cluster and identity pool of a managed cloud."""
        return {
            name.removeprefix(EXTENSION): value.reveal()
            for name, value in self.options.items()
            if name.startswith(EXTENSION)
        }


@accepts("one PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule or IAMLoginModule")
def login_text(value: Value) -> Value:
    """A JAAS configuration of one allowed login module."""
    read_login(value.reveal() if isinstance(value, Secret) else str(value))
    return value


def read_login(text: str) -> Login:
    """The login of a `sasl.jaas.config`. Raises InvalidValue, whose words repeat no value."""
    entry = _ENTRY.fullmatch(text)
    module = _module(entry["module"]) if entry else None
    if entry is None or module is None:
        raise InvalidValue(f"must be one entry of an allowed login module: {_KNOWN}.", _remedy(text))
    options = {name: Secret(_unquoted(value)) for name, value in _OPTION.findall(entry["options"])}
    _check_options(module, options)
    return Login(module, options)


def renamed(text: str, *, prefix: Callable[[Module], str]) -> str:
    """The configuration with its module's name behind the prefix that it has there: blank, or one of `SHADES`."""
    found = _FIRST_WORD.match(text)
    module = _module(found[1]) if found else None
    if found is None or module is None:
        return text
    return text[: found.start(1)] + prefix(module) + module + text[found.end(1) :]


def _module(name: str) -> Module | None:
    return next((module for module in Module if name in (module, SHADES[module] + module)), None)


def _check_options(module: Module, options: Mapping[str, Secret]) -> None:
    known = (*REQUIRED[module], *FURTHER.get(module, ()))
    extensible = module is Module.OAUTHBEARER
    unknown = [name for name in options if name not in known and not (extensible and name.startswith(EXTENSION))]
    names = ", ".join((*known, *([f"{EXTENSION}*"] if extensible else [])))
    simple = module.rpartition(".")[2]
    if unknown:
        # not named: where quotes are missing, what looks like a name is a piece of the password
        raise InvalidValue(f"has an option that {simple} must not have here.", f"Allowed are: {names}.")
    missing = [name for name in REQUIRED[module] if name not in options]
    if missing:
        raise InvalidValue(f"lacks {' and '.join(missing)}, which {simple} needs.", f"Its options are: {names}.")


def _remedy(text: str) -> str:
    first = _FIRST_WORD.match(text)
    simple = first[1].rpartition(".")[2] if first else ""
    return INSTEAD.get(simple) or f'Options are name="value", with a semicolon at the end. {_EXAMPLE}'


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text[:1] in ("'", '"') else text
