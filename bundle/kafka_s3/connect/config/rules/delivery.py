"""Which combinations of keys cannot be read from Kafka, or written to S3?"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from kafka_s3.connect.config.rules import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import Problem

CUSTOMER_KEY_BYTES: Final = 32
_ROLE = tuple(f"s3.credentials.provider.sts.role.{part}" for part in ("arn", "session.name", "external.id"))
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def _one_way_to_name_topics(settings: Settings) -> Iterator[Problem]:
    by_name, by_pattern = bool(settings.names("topics")), bool(settings.text("topics.regex"))
    if by_name and by_pattern:
        yield problem("topics.regex", "must not be set beside topics.", "Keep one of the two.")
    elif not by_name and not by_pattern:
        yield problem("topics", "is required, unless topics.regex is set.", "Name the topics, separated by commas.")


def _pattern_compiles(settings: Settings) -> Iterator[Problem]:
    try:
        re.compile(settings.text("topics.regex"))
    except re.error as error:
        yield problem(
            "topics.regex", f"is not a regular expression: {error.msg}.", "It must hold in Python as well as in Java."
        )


def _dead_letters_go_elsewhere(settings: Settings) -> Iterator[Problem]:
    topic, pattern = settings.text(_DEAD_LETTERS), settings.text("topics.regex")
    if not topic:
        return
    if topic in settings.names("topics"):
        yield problem(_DEAD_LETTERS, "must not be one of the connector's own topics.", "Name another topic.")
    elif pattern and _matches(pattern, topic):
        yield problem(
            _DEAD_LETTERS,
            "must not match topics.regex: the sink would read its own dead letters.",
            "Name another topic.",
        )


def _matches(pattern: str, topic: str) -> bool:
    try:
        return re.fullmatch(pattern, topic) is not None
    except (re.error, OverflowError):
        return False  # reported by the rule for the pattern


def _null_keys_are_stored(settings: Settings) -> Iterator[Problem]:
    if settings.text("behavior.on.null.values") == "write" and not settings.flag("store.kafka.keys"):
        rule = "write stores the keys of null values, which needs store.kafka.keys=true."
        yield problem("behavior.on.null.values", rule, "Use fail or ignore, or set store.kafka.keys=true.")
        yield problem("store.kafka.keys", "must be true with behavior.on.null.values=write.", "Set it to true.")


def _state_is_beside_the_data(settings: Settings) -> Iterator[Problem]:
    state, data = (settings.text(key).strip().strip("/") for key in ("state.prefix", "topics.dir"))
    if not state:
        yield problem("state.prefix", "must not be blank.", "Leave it out for _kafka_s3.")
    elif data and (data == state or data.startswith(f"{state}/")):
        yield problem("state.prefix", "must not be topics.dir nor a folder above it.", "Leave it out for _kafka_s3.")


def _acceleration_excludes_path_style(settings: Settings) -> Iterator[Problem]:
    if settings.flag("s3.wan.mode") and settings.flag("s3.path.style.access.enabled"):
        yield problem("s3.wan.mode", "does not go with path style access.", "Set s3.path.style.access.enabled=false.")
        yield problem("s3.path.style.access.enabled", "does not go with s3.wan.mode=true.", "Set it to false.")


def _role_is_complete(settings: Settings) -> Iterator[Problem]:
    if settings.text("s3.credentials.provider.class") == "assume_role":
        for key in _ROLE:
            secret = settings.secret(key) if key.endswith("external.id") else None
            if not (secret.reveal() if secret else "" if key.endswith("external.id") else settings.text(key)):
                yield problem(key, "is required by the provider that assumes a role.", "Set it.")


def _static_keys_are_complete(settings: Settings) -> Iterator[Problem]:
    secret = settings.secret("aws.secret.access.key")
    if settings.text("s3.credentials.provider.class") == "static" and not (
        settings.text("aws.access.key.id") and secret and secret.reveal()
    ):
        yield problem(
            "s3.credentials.provider.class", "needs aws.access.key.id and aws.secret.access.key.", "Set both."
        )


def _customer_key_fits(settings: Settings) -> Iterator[Problem]:
    key = settings.secret("s3.sse.customer.key")
    if key and key.reveal() and not is_customer_key(key.reveal()):
        yield problem(
            "s3.sse.customer.key", "must be the base64 form of 32 bytes.", "`openssl rand -base64 32` makes one."
        )


def is_customer_key(text: str) -> bool:
    """Whether a text is the base64 form of a key of that length."""
    try:
        return len(base64.b64decode(text.strip(), validate=True)) == CUSTOMER_KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _tags_are_pairs(settings: Settings) -> Iterator[Problem]:
    key = "s3.object.tagging.key.value.pairs"
    if not all(tag.partition(":")[0].strip() and ":" in tag for tag in settings.names(key)):
        yield problem(key, "must hold pairs of name and value.", "Write k:v,k:v.")


def _half_of_static_keys(settings: Settings) -> Iterator[Problem]:
    secret = settings.secret("aws.secret.access.key")
    has_id, has_secret = bool(settings.text("aws.access.key.id")), bool(secret and secret.reveal())
    if has_id != has_secret:
        alone, other = (
            ("aws.access.key.id", "aws.secret.access.key") if has_id else ("aws.secret.access.key", "aws.access.key.id")
        )
        yield problem(alone, f"is not used, because {other} is not set.", "Set both or neither.")


_STATIC = ("s3.credentials.provider.class", "aws.access.key.id", "aws.secret.access.key")

PROBLEMS: Final = (
    Rule(("topics", "topics.regex"), _one_way_to_name_topics),
    Rule(("topics.regex",), _pattern_compiles),
    Rule((_DEAD_LETTERS, "topics", "topics.regex"), _dead_letters_go_elsewhere),
    Rule(("behavior.on.null.values", "store.kafka.keys"), _null_keys_are_stored),
    Rule(("state.prefix", "topics.dir"), _state_is_beside_the_data),
    Rule(("s3.wan.mode", "s3.path.style.access.enabled"), _acceleration_excludes_path_style),
    Rule(("s3.credentials.provider.class", *_ROLE), _role_is_complete),
    Rule(_STATIC, _static_keys_are_complete),
    Rule(("s3.sse.customer.key",), _customer_key_fits),
    Rule(("s3.object.tagging.key.value.pairs",), _tags_are_pairs),
)
WARNINGS: Final = (Rule(_STATIC, _half_of_static_keys),)
