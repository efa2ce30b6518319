"""Where do `${...}` references in values point, and what do they stand for? Resolved when a run starts, never shown.

* `${env:NAME}`: an environment variable.
* `${file:/path:key}`: a key of a properties file; `${file:/path}`: a whole file without surrounding blanks.
* `${secrets:scope/key}` or `${secret:scope/key}`: the variable `KAFKA_S3_SECRET_<SCOPE>_<KEY>`, else the file `<scope>/<key>` below
  the directory in `KAFKA_S3_SECRETS_DIR`, else whatever sources the caller adds, else the secret scope of the Databricks workspace.

A configuration that is stored in a bucket is written by whoever may write there, not by this machine's operator. Of its references only
secrets of the workspace are looked up, and what `KAFKA_S3_STORED_REFERENCES` names: `env:ORDERS_*,file:/etc/kafka-s3/*,secrets:kafka/*`.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_s3.connect.config.read import read_properties, read_text
from kafka_s3.model.errors import ConfigError, Problem, SinkError

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient


SIGNS: Final = ("DATABRICKS_RUNTIME_VERSION", "DATABRICKS_HOST")
"""Variables of which one is set where a workspace can be asked."""
SecretSource = Callable[[str, str], str | None]
"""Gives the secret of a scope and a key, None where it has none."""
PROVIDERS: Final = ("env", "file", "secrets", "secret")
DIRECTORY: Final = "KAFKA_S3_SECRETS_DIR"
STORED: Final = "KAFKA_S3_STORED_REFERENCES"
"""The variable that says which references of a stored configuration this machine looks up: patterns with `*`, behind a comma each."""
PLACES: Final = frozenset({
    "kafka.bootstrap.servers", "bootstrap.servers", "topics", "topics.regex", "name", "s3.bucket.name", "s3.bucket", "s3.region",
    "topics.dir", "state.prefix",
})  # fmt: skip
"""Keys that say where something is, and hold no secret: what they take from the environment is shown."""
NEEDED: Final = "needs the package databricks-sdk: pip install 'kafka-s3[databricks]'."
_REFERENCE = re.compile(r"\$\{([A-Za-z][A-Za-z0-9_-]*):([^}]*)\}")


def has_reference(text: str) -> bool:
    """Whether a value holds a reference."""
    return _REFERENCE.search(text) is not None


def malformed(key: str, text: str) -> Iterator[Problem]:
    """References of a value that can be seen to be wrong without resolving them."""
    for provider, target in _REFERENCE.findall(text):
        reference = f"${{{provider}:{target}}}"
        if provider not in PROVIDERS:
            known = "${env:NAME}, ${file:/path:key} and ${secrets:scope/key}"
            yield Problem(key, reference, f"refers to the unknown provider {provider}.", f"Known are {known}.")
        elif provider.startswith("secret") and not all(target.partition("/")[::2]):
            yield Problem(key, reference, "must name a scope and a key.", "Write ${secrets:scope/key}.")
        elif not target:
            yield Problem(key, reference, "refers to nothing.", "Name what is meant after the colon.")


def refused_of_stored(texts: Mapping[str, str], *, environment: Mapping[str, str] = os.environ) -> Iterator[Problem]:
    """The references of a stored configuration that this machine's operator has not allowed."""
    allowed = [part.strip() for part in environment.get(STORED, "").split(",") if part.strip()]
    for key, text in texts.items():
        for provider, target in _REFERENCE.findall(text):
            kind = "secrets" if provider == "secret" else provider
            meant = f"{kind}:{_path(target) if kind == 'file' else target.removeprefix(':')}"
            if any(fnmatchcase(meant, pattern) for pattern in allowed):
                continue
            if kind != "secrets" or _of_this_machine(target, environment):
                rule = f"comes from the bucket, and this machine does not look up what {STORED} does not name."
                remedy = f"If it is meant, let the operator set {STORED}={meant}, or give the value with --set {key}=..., or name a file."
                yield Problem(key, f"${{{provider}:{target}}}", rule, remedy)


def _path(target: str) -> str:
    """A file's name without detours, so that no pattern is passed by `..`."""
    name, colon, key = target.partition(":")
    return f"{os.path.realpath(name)}{colon}{key}"


def _of_this_machine(target: str, environment: Mapping[str, str]) -> bool:
    """Whether a secret lies in the environment or the directory of this machine, and not in the workspace."""
    scope, _, key = target.partition("/")
    return any(
        source(scope, key) is not None for source in (environment_source(environment), directory_source(environment))
    )


def resolve_texts(
    texts: Mapping[str, str], sources: Sequence[SecretSource], *, environment: Mapping[str, str] = os.environ
) -> Resolved:
    """Replaces every reference. What a reference gives is not looked at for further references."""
    lookups = (environment_source(environment), directory_source(environment), *sources, workspace_source(environment))
    done: dict[str, str] = {}
    problems: list[Problem] = []
    concealed = frozenset(key for key, text in texts.items() if _conceals(key, text))
    for key, text in texts.items():

        def replacement(match: re.Match[str], key: str = key) -> str:
            try:
                return _look_up(match[1], match[2], sources=lookups, environment=environment)
            except Unresolvable as error:
                problems.append(Problem(key, match[0], str(error), _remedy(match[1])))
                return ""

        done[key] = _REFERENCE.sub(replacement, text)
    return Resolved(done, concealed, tuple(problems))


def _conceals(key: str, text: str) -> bool:
    """Whether a value is never shown: it holds a reference, but for a place that an environment variable names."""
    return any(provider != "env" or key not in PLACES for provider, _ in _REFERENCE.findall(text))


def environment_source(environment: Mapping[str, str]) -> SecretSource:
    """Secrets in variables `KAFKA_S3_SECRET_<SCOPE>_<KEY>`, upper case, everything but letters and digits as `_`."""
    return lambda scope, key: environment.get(variable(scope, key))


def variable(scope: str, key: str) -> str:
    """The environment variable that holds a secret."""
    return "KAFKA_S3_SECRET_" + re.sub(r"[^A-Za-z0-9]", "_", f"{scope}_{key}").upper()


def directory_source(environment: Mapping[str, str]) -> SecretSource:
    """Secrets in files `<scope>/<key>` below the directory that `KAFKA_S3_SECRETS_DIR` names."""

    def source(scope: str, key: str) -> str | None:
        root = Path(environment[DIRECTORY]).resolve() if environment.get(DIRECTORY) else None
        path = Path(root, scope, key) if root else None
        if root is None or path is None or not path.resolve().is_relative_to(root):
            return None
        return path.read_text(encoding="utf-8").strip() if path.is_file() else None

    return source


def workspace_source(environment: Mapping[str, str]) -> SecretSource:
    """Look up secrets in the workspace; return None outside of one.

    The source raises Unresolvable when databricks-sdk is missing, and what the workspace's client raises when it refuses.
    """

    @cache
    def client() -> WorkspaceClient:
        from databricks.sdk import WorkspaceClient

        return WorkspaceClient()

    def source(scope: str, key: str) -> str | None:
        if not any(environment.get(sign) for sign in SIGNS):
            return None
        try:
            from databricks.sdk.errors import NotFound
        except ImportError:
            raise Unresolvable(f"looking up key {key} in scope {scope} {NEEDED}") from None

        try:
            value = client().secrets.get_secret(scope, key).value
        except NotFound:
            return None
        return base64.b64decode(value).decode() if value is not None else None

    return source


def _look_up(provider: str, target: str, *, sources: Sequence[SecretSource], environment: Mapping[str, str]) -> str:
    match provider:
        case "env":
            name = target.removeprefix(":")
            if name not in environment:
                raise Unresolvable(f"the environment variable {name} is not set.")
            return environment[name]
        case "file":
            return _from_file(target)
        case "secrets" | "secret":
            scope, _, key = target.partition("/")
            return _from_sources(scope, key, sources=sources)
        case _:
            raise Unresolvable(f"the provider {provider} is unknown.")


def _from_file(target: str) -> str:
    name, _, key = target.partition(":")
    path = Path(name)
    try:
        text = read_text(path)
        settings = read_properties(text, path) if key else {}
    except ConfigError as error:
        raise Unresolvable(f"the file {path} {error.problems[0].rule}") from None
    if key and key not in settings:
        raise Unresolvable(f"the file {path} has no key {key}.")
    return settings[key] if key else text.strip()


def _from_sources(scope: str, key: str, *, sources: Sequence[SecretSource]) -> str:
    for source in sources:
        try:
            found = source(scope, key)
        except Unresolvable:
            raise
        except Exception as error:
            # the error's own text may hold the secret or the request that asked for it
            raise Unresolvable(f"looking up key {key} in scope {scope} failed with {type(error).__name__}.") from None
        if found is not None:
            return found
    raise Unresolvable(f"no secret {key} in scope {scope} was found.")


def _remedy(provider: str) -> str:
    match provider:
        case "env":
            return "Set the variable for the process that runs the sink."
        case "secrets" | "secret":
            return f"Set KAFKA_S3_SECRET_<SCOPE>_<KEY>, put a file <scope>/<key> below ${DIRECTORY}, or the secret into the workspace."
        case _:
            return "Check the reference and the file's rights."


class Unresolvable(SinkError):
    """A reference points nowhere; the text says why, without any value."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings with their references replaced, which keys had some, and what could not be resolved."""

    texts: Mapping[str, str]
    concealed: frozenset[str]
    problems: tuple[Problem, ...]
