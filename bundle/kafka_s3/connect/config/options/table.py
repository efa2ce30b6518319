"""Which keys are there? The one table that validation, the reference page and `describe` are made from."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from kafka_s3.connect.config.option import Option, Type, masked, nearest, sensitive
from kafka_s3.connect.config.options import client, connector, converters, ours, spellings, transforms
from kafka_s3.model.text import MASK

OPTIONS: Final[tuple[Option, ...]] = (
    *connector.FRAMEWORK,
    *transforms.LISTS,
    *client.ROWS,
    *converters.ROWS,
    *connector.OBJECTS,
    *ours.ROWS,
    *spellings.BLOCK_GZIP_OURS,
)
TRANSFORM_OPTIONS: Final[tuple[Option, ...]] = transforms.ROWS
CLOUD_OPTIONS: Final[tuple[Option, ...]] = spellings.CLOUD_ROWS
BLOCK_GZIP_OPTIONS: Final[tuple[Option, ...]] = spellings.BLOCK_GZIP_ROWS

EXACT: Final = {option.key: option for option in OPTIONS if not option.family}
_FAMILIES: Final = {option.key.removesuffix("*"): option for option in OPTIONS if option.family}
CLOUD: Final = {option.key: option for option in CLOUD_OPTIONS}
BLOCK_GZIP: Final = {option.key: option for option in BLOCK_GZIP_OPTIONS}


def option_of(key: str) -> Option | None:
    """The row of a key: its own, else that of the longest prefix above it."""
    if key in EXACT:
        return EXACT[key]
    prefixes = [prefix for prefix in _FAMILIES if key.startswith(prefix) and key != prefix]
    return _FAMILIES[max(prefixes, key=len)] if prefixes else None


def similar_key(key: str, renamed: Mapping[str, str]) -> str:
    """A sentence that says which spelling an unknown key is of, else names the known key nearest to it, or nothing.

    `renamed` gives keys of Block-GZIP their names in the configuration's own spelling, where that is another one.
    """
    if key in CLOUD:
        return "It is a key of the managed cloud spelling (connector.class=S3_SINK)."
    if key in BLOCK_GZIP:
        return "It is a key of the Block-GZIP spelling" + (f"; here it is {renamed[key]}." if key in renamed else ".")
    near = nearest(key, (*EXACT, *CLOUD, *BLOCK_GZIP))
    return f"Did you mean {renamed.get(near, near)}?" if near else ""


def presentable(key: str, text: str) -> str:
    """What may be shown of a key's value. A key without a row of its own may be a misspelt secret: then nothing."""
    option = EXACT.get(key) or CLOUD.get(key)
    if option is not None:
        return masked(key, text, option.type)
    near = difflib.get_close_matches(_bare(key), _SECRETS, n=1, cutoff=0.7)
    return MASK if near else masked(key, text)


def _bare(key: str) -> str:
    """The key without what all of its family begin with, which would make each look like the other."""
    return key.removeprefix(next((prefix for prefix in _FAMILIES if key.startswith(prefix)), ""))


_SECRETS: Final = tuple(
    _bare(row.key) for row in (*OPTIONS, *CLOUD_OPTIONS) if sensitive(row.key, row.type) or row.type is Type.PASSWORD
)
