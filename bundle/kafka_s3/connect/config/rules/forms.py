"""Which names and addresses have a form that the original takes, and that leads nowhere?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kafka_s3.connect.config.options.forms import AWS_REGION, BUCKET, OLD_BUCKET
from kafka_s3.connect.config.rules.rule import Rule, is_time_partitioner, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import Problem

LANGUAGES: Final = {"english": "en", "german": "de", "french": "fr", "spanish": "es", "us": "en", "gb": "en"}
"""What is meant by names that are no language codes, as far as it can be told."""


def _region_is_one_of_aws(settings: Settings) -> Iterator[Problem]:
    given = settings.text("s3.region")
    if not settings.text("store.url") and not AWS_REGION.fullmatch(given):
        near = given.lower().replace("_", "-").replace(" ", "-")
        meant = f"Did you mean {near}? " if AWS_REGION.fullmatch(near) else ""
        rule = "is no region of AWS, which is asked because store.url is not set."
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
        rule = "is no language, as in the original: names of months and days come out short and plain."
        yield problem("locale", rule, meant)


PROBLEMS: Final = (Rule(("s3.region", "store.url"), _region_is_one_of_aws),)
WARNINGS: Final = (
    Rule(("s3.bucket.name",), _bucket_is_old),
    Rule(("store.url",), _address_has_a_scheme),
    Rule(("locale", "partitioner.class"), _language_is_known),
)
