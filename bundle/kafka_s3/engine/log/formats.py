"""In which form is the log written, and which forms are read? The policy, and the refusal of what is newer.

Each object of a log has a number, `format`. Every form that was ever released is read for ever: `tests/unit/engine/log/first_release.zip`
is a log of the first one. An object is written in the oldest form that can say what it says, so that an older version goes on with a log
that holds nothing new. From form 3 on an object also names the version that wrote it (`product`): a version that does not know the form can
then say what to install.

=====  ==========================================================================
form   what it can say that the one before cannot
=====  ==========================================================================
1      the first release
2      files of earlier entries that wait to be completed (`waiting`)
3      objects that take the place of others (kind `rewrite`); checkpoints of such
4      objects with records of several topic-partitions (`slices`)
5      logs that were cut, where erased offsets depend on it (`cuts`)
=====  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka_s3 import __version__
from kafka_s3.model.errors import LogDamaged

PLAIN_FORMAT: Final = 1
WAITING_FORMAT: Final = 2
REWRITE_FORMAT: Final = 3
SLICES_FORMAT: Final = 4
CUTS_FORMAT: Final = 5
NEWEST_FORMAT: Final = 5


def format_members(number: int) -> dict[str, Any]:
    """What an object of this form says of its form."""
    return {"format": number} | ({"product": __version__} if number >= REWRITE_FORMAT else {})


def check_format(document: Mapping[str, Any], what: str, *, newest: int = NEWEST_FORMAT) -> None:
    """Raises LogDamaged where an object is of a form that this version does not know; the text says what to install."""
    number = document["format"]
    if number > newest:
        product = str(document.get("product", ""))
        by, wanted = (
            (f", written by kafka-s3 {product}", f"kafka-s3 {product} or later")
            if product
            else ("", "the newest kafka-s3")
        )
        raise LogDamaged(
            f"{what} has format {number}{by}; this version ({__version__}) reads up to {newest}. Upgrade kafka-s3: install {wanted}."
        )
