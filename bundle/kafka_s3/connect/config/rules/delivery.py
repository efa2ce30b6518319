"""Which combinations of keys cannot be read from Kafka, or written to S3, or would write where no object may be?

Or name a bucket, region or address that leads nowhere. Of an object's key only the parts that are fixed are judged here; those from data
are judged per record.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from kafka_s3.connect.config.classes import BLOCK_GZIP_FORMAT
from kafka_s3.connect.config.option import AWS_REGION, BUCKET, OLD_BUCKET
from kafka_s3.connect.config.rules import Rule, is_time_partitioner, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.java.regex import compile_pattern
from kafka_s3.connect.naming.keys import ConnectNames, part_refusal, refusal
from kafka_s3.model.errors import Problem
from kafka_s3.model.offsets import TopicPartition

FOLDERS: Final = ("topics.dir", "tombstone.encoded.partition", "block.gzip.prefix", "state.prefix")
PIECES: Final = ("directory.delim", "file.delim", "format.bytearray.extension")
_NAMING: Final = ("topics.dir", "directory.delim", "file.delim", "filename.offset.zero.pad.width")
_LITERAL: Final = re.compile(r"'([^']*)'")


def _fixed_parts_stay_inside(settings: Settings) -> Iterator[Problem]:
    texts = {key: settings.text(key) for key in FOLDERS}
    texts |= {key: f"a{settings.text(key)}a" for key in PIECES}  # they are between other parts
    texts["path.format"] = _LITERAL.sub(r"\1", settings.text("path.format"))
    texts["partition.field.name"] = "/".join(f"{name}=" for name in settings.names("partition.field.name"))
    for key, text in texts.items():
        reason = part_refusal(text)
        if reason is not None:
            folder = "Write plain names with / between them, for example topics/raw."
            yield problem(key, f"{reason}.", folder if key in FOLDERS else "Write it without that.")


def _name_is_one_folder(settings: Settings) -> Iterator[Problem]:
    """The commit log lies in the folder of the sink's name: another sink's must not lie inside."""
    reason = part_refusal(settings.name)
    if reason is None and "/" in settings.name:
        reason = "has a slash, but names one folder below state.prefix"
    if reason is not None:
        yield problem("name", f"{reason}.", "Use letters, digits, -, _ and dots.")


def _topics_stay_out_of_the_state(settings: Settings) -> Iterator[Problem]:
    """Topics that are named: their keys as a whole, which delimiters may bring about, too."""
    if (
        settings.text("format.class") == BLOCK_GZIP_FORMAT
        or part_refusal(settings.text("topics.dir"))
        or _state_is_above(settings)
    ):
        return
    names = ConnectNames(settings.text("topics.dir"), settings.text("directory.delim"), settings.text("file.delim"),
                         settings.number("filename.offset.zero.pad.width"))  # fmt: skip
    for topic in settings.names("topics"):
        key = names.key(TopicPartition(topic, 0), "partition=0", offset=0, extension="")
        reason = refusal(key, state_prefix=settings.text("state.prefix"))
        if reason is not None:
            yield problem(
                "topics.dir",
                f"gives keys that are never written: {reason}",
                "Use another topics.dir, or another state.prefix.",
            )


def _state_is_above(settings: Settings) -> bool:
    """A rule of its own says so."""
    state, data = (settings.text(key).strip().strip("/") for key in ("state.prefix", "topics.dir"))
    return not state or data == state or data.startswith(f"{state}/")


def _block_gzip_stays_out_of_the_state(settings: Settings) -> Iterator[Problem]:
    if settings.text("format.class") != BLOCK_GZIP_FORMAT:
        return
    reason = refusal(f"{settings.text('block.gzip.prefix')}/day", state_prefix=settings.text("state.prefix"))
    if reason is not None and part_refusal(settings.text("block.gzip.prefix")) is None:
        yield problem("block.gzip.prefix", f"gives keys that are never written: {reason}", "Use another prefix.")


def _begins_with_a_slash(settings: Settings) -> Iterator[Problem]:
    for key in ("topics.dir", "block.gzip.prefix"):
        if settings.text(key).startswith("/"):
            rule = "gives keys that begin with a slash, as in the original: many readers do not find them."
            yield problem(key, rule, "Leave the first slash out, unless objects are there already.")


_TEXTS: Final = (*FOLDERS, *PIECES, "path.format", "partition.field.name")


LANGUAGES: Final = {"english": "en", "german": "de", "french": "fr", "spanish": "es", "us": "en", "gb": "en"}
"""What is meant by names that are not language codes, as far as it is known."""


def _region_is_one_of_aws(settings: Settings) -> Iterator[Problem]:
    given = settings.text("s3.region")
    if not settings.text("store.url") and not AWS_REGION.fullmatch(given):
        near = given.lower().replace("_", "-").replace(" ", "-")
        meant = f"Did you mean {near}? " if AWS_REGION.fullmatch(near) else ""
        rule = "is not a region of AWS, which is asked because store.url is not set."
        yield problem("s3.region", rule, f"{meant}Write a code such as eu-west-1, or set store.url.")


def _bucket_is_old(settings: Settings) -> Iterator[Problem]:
    given = settings.text("s3.bucket.name")
    if OLD_BUCKET.fullmatch(given) and not BUCKET.fullmatch(given):
        rule = (
            "is a name as S3 gave out before 2018 only: newer ones have 3 to 63 lower-case letters, digits, hyphens and single "
            "dots, and are no IP address."
        )
        yield problem("s3.bucket.name", rule, "Check it, unless the bucket is that old.")


def _address_has_a_scheme(settings: Settings) -> Iterator[Problem]:
    given = settings.text("store.url").strip()
    if given and "://" not in given:
        yield problem("store.url", "has no scheme: https:// is meant, as in the original.", f"Write https://{given}.")


def _language_is_known(settings: Settings) -> Iterator[Problem]:
    from kafka_s3.connect.joda.pattern import LANGUAGES as CODES
    from kafka_s3.connect.joda.pattern import RENAMED

    given = re.split("[-_]", settings.text("locale").lower())[0]
    if given and is_time_partitioner(settings) and given not in CODES and given not in RENAMED:
        meant = f"Write {LANGUAGES[given]}." if given in LANGUAGES else "Write a language's code, for example en."
        rule = "is not a language, as in the original: names of months and days come out short and plain."
        yield problem("locale", rule, meant)


KEY_PROBLEMS: Final = (
    Rule(_TEXTS, _fixed_parts_stay_inside),
    Rule(("name",), _name_is_one_folder),
    Rule(("topics", "state.prefix", "format.class", *_NAMING), _topics_stay_out_of_the_state),
    Rule(("format.class", "block.gzip.prefix", "state.prefix"), _block_gzip_stays_out_of_the_state),
    Rule(("s3.region", "store.url"), _region_is_one_of_aws),
)
KEY_WARNINGS: Final = (
    Rule(("topics.dir", "block.gzip.prefix"), _begins_with_a_slash),
    Rule(("s3.bucket.name",), _bucket_is_old),
    Rule(("store.url",), _address_has_a_scheme),
    Rule(("locale", "partitioner.class"), _language_is_known),
)


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
        compile_pattern(settings.text("topics.regex"))
    except ValueError as error:
        yield problem("topics.regex", f"Invalid regex: {error}.", "Write the pattern without it, or list the topics.")


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
        return compile_pattern(pattern).fullmatch(topic) is not None
    except ValueError:
        return False  # reported by the rule for the pattern


def _null_keys_are_stored(settings: Settings) -> Iterator[Problem]:
    if settings.text("behavior.on.null.values") == "write" and not settings.flag("store.kafka.keys"):
        rule = "write stores the keys of null values, which needs store.kafka.keys=true."
        yield problem("behavior.on.null.values", rule, "Use fail or ignore, or set store.kafka.keys=true.")
        yield problem("store.kafka.keys", "must be true with behavior.on.null.values=write.", "Set it to true.")


def _state_is_beside_the_data(settings: Settings) -> Iterator[Problem]:
    if not settings.text("state.prefix").strip().strip("/"):
        yield problem("state.prefix", "must not be blank.", "Leave it out for _kafka_s3.")
    elif _state_is_above(settings):
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
