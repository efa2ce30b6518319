"""What do the XML bodies of requests look like, and how is an answer's read?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree import ElementTree
from xml.sax.saxutils import escape

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"


def completion_document(parts: Sequence[str]) -> bytes:
    """The body that completes an upload of parts with these ETags, in order from 1."""
    listed = (
        f"<Part><ETag>{escape(etag)}</ETag><PartNumber>{number}</PartNumber></Part>"
        for number, etag in enumerate(parts, start=1)
    )
    return _document("CompleteMultipartUpload", "".join(listed))


def tagging_document(tags: Mapping[str, str]) -> bytes:
    """The body that sets an object's tags."""
    listed = (f"<Tag><Key>{escape(name)}</Key><Value>{escape(value)}</Value></Tag>" for name, value in tags.items())
    return _document("Tagging", f"<TagSet>{''.join(listed)}</TagSet>")


def hides_an_error(body: bytes) -> bool:
    """Whether the body of a 200 says that the request failed after all, or was cut off on the way."""
    if not body:
        return False
    try:
        return ElementTree.fromstring(body).tag == "Error"
    except ElementTree.ParseError:
        return True


def text_of(body: bytes, element: str) -> str:
    """The text of a child of the root, "" where there is none."""
    return (ElementTree.fromstring(body).findtext(f"{{*}}{element}") or "") if body else ""


def _document(root: str, content: str) -> bytes:
    return f'<{root} xmlns="{NAMESPACE}">{content}</{root}>'.encode()
