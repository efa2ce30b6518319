"""Which ETag will a multipart object have, given the ETags of its parts? The way a lost completion is told from a failed one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def etag_of(parts: Sequence[str]) -> str:
    """The ETag of the object that completing an upload of these part ETags makes: md5 over the parts' binary md5s, `-`, their count.

    Raises ValueError for part ETags that are no hexadecimal digests, as some S3-compatible servers issue them.
    """
    digests = b"".join(bytes.fromhex(part) for part in parts)
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"


def etag_of_bytes(data: bytes) -> str:
    """The ETag of a plain object, or of one part: the md5 of its bytes, in hexadecimal."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
