"""Which keys does the Block-GZIP spelling have, and which ones do they become here? (SEMANTICS B1).

`ROWS` are the keys as users of the Block-GZIP sinks write them, `OURS` those that only a Block-GZIP sink has in the product's own
vocabulary. `dialect_block_gzip` says which becomes which.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final

from kafka_s3.connect.config.option import Option, OptionGroup, OptionStatus, Type
from kafka_s3.connect.config.valid_values import InvalidValue, KnownClass, OneOf, Range, Value

_LONG, _TEXT, _FLAG = Type.LONG, Type.STRING, Type.BOOLEAN
_GROUP: Final = OptionGroup.BLOCK_GZIP
_IDLE = OptionStatus.INFORMATIONAL
_SINKS = "com.spredfast.kafka.connect.s3."
BLOCK_SIZE: Final = "67108864"
FORMATS: Final = {
    "text": "text",
    "binary": "binary",
    f"{_SINKS}TrailingDelimiterFormat": "text",
    f"{_SINKS}ByteLengthFormat": "binary",
}
LAYOUTS: Final = {"grouped_by_date": "by_date", "grouped_by_topic": "by_topic"}
_METRICS = "The product's own measurements replace it."


@dataclass(frozen=True, slots=True)
class Charset:
    """The name of a character set, as Java writes them."""

    text: str = "a character set, for example UTF-8, UTF-16BE, ISO-8859-1"

    def accept(self, value: Value) -> Value:
        """The name, if there is such a set."""
        try:
            codecs.lookup(str(value))
            "".encode(str(value))  # codecs that are no character sets are found, too, and refuse this
        except (LookupError, ValueError):
            raise InvalidValue(
                "is not a known character set.", "Write UTF-8, UTF-16BE, UTF-16LE or ISO-8859-1."
            ) from None
        return value


ROWS: Final = (
    Option("s3.bucket", _TEXT, None, "The bucket.", _GROUP, required=True, example="lake"),
    Option("local.buffer.dir", _TEXT, None, "Directory of the original's local files. Required in this spelling, and not used.", _GROUP,
           required=True, example="/var/tmp/kafka-connect-s3",
           status=_IDLE, note="Files are buffered in memory, and in Spark's own local directories."),
    Option("s3.prefix", _TEXT, "", "First part of every object's key; `/` is added if missing.", _GROUP),
    Option("s3.endpoint", _TEXT, None, "Address of another endpoint.", _GROUP),
    Option("s3.path_style", _FLAG, "false", "Name the bucket in the path instead of the host name.", _GROUP),
    Option("s3.region", _TEXT, None, "The bucket's region.", _GROUP),
    Option("compressed_block_size", _LONG, BLOCK_SIZE, "Bytes of one block before compression.", _GROUP, valid=Range(1)),
    Option("format", Type.CLASS, "text", "Successor: how records are written.", _GROUP, valid=KnownClass(FORMATS)),
    Option("format.value.delimiter", _TEXT, "\n", "Successor, text: written after every value, taken exactly as given.", _GROUP,
           trimmed=False),
    Option("format.value.encoding", _TEXT, "UTF-8", "Successor, text: character set of that delimiter; values are not encoded anew.",
           _GROUP, valid=Charset()),
    Option("format.key.delimiter", _TEXT, None, "Successor, text: written after every key, taken exactly as given. Keys are written "
           "only if it is set.", _GROUP, trimmed=False),
    Option("format.key.encoding", _TEXT, "UTF-8", "Successor, text: character set of that delimiter.", _GROUP, valid=Charset()),
    Option("format.include.keys", _FLAG, "false", "Successor, binary: write keys in front of values.", _GROUP),
    Option("compressed_file_size", _LONG, "-1", "Later fork: upload a file when it has more encoded bytes than this; -1 is off.", _GROUP,
           valid=Range(-1)),
    Option("flush.interval.ms", _LONG, "-1", "Later fork: upload a file before a record whose timestamp is this much after that of the "
           "file's first; -1 is off.", _GROUP, valid=Range(-1)),
    Option("flush.grace.period.ms", _LONG, None, "Later fork: how much longer than that a quiet partition's file waits for the wall "
           "clock; by default half of the interval.", _GROUP, valid=Range(0)),
    Option("layout", _TEXT, "grouped_by_date", "Later fork: what the first directory of an object's key is.", _GROUP,
           valid=OneOf(tuple(LAYOUTS))),
    Option("metrics.reporter", _TEXT, None, "Successor: class that takes measurements.", _GROUP, status=_IDLE, note=_METRICS),
    Option("metrics.reporter.*", _TEXT, None, "Successor: its settings.", _GROUP, status=_IDLE, note=_METRICS),
    Option("metrics.tags", _TEXT, None, "Successor: tags of the measurements.", _GROUP, status=_IDLE, note=_METRICS),
)  # fmt: skip

OURS: Final = (
    Option("block.gzip.dialect", _TEXT, "successor", "Whose records are written: the original's are lines of text, and a null value "
           "fails; the successor's are what block.gzip.format says.", _GROUP, valid=OneOf(("original", "successor"))),
    Option("block.gzip.prefix", _TEXT, "", "First part of every object's key; `/` is added if missing.", _GROUP),
    Option("block.gzip.layout", _TEXT, "by_date", "What the first directory of an object's key is: the day of the upload, or the topic.",
           _GROUP, valid=OneOf(("by_date", "by_topic"))),
    Option("block.gzip.zone", _TEXT, "UTC", "Whose day that is: of UTC, or of the process's own time zone.", _GROUP,
           valid=OneOf(("UTC", "local"))),
    Option("block.gzip.block.size", _LONG, BLOCK_SIZE, "Bytes of one block before compression; in the original dialect UTF-16 units.",
           _GROUP, valid=Range(1)),
    Option("block.gzip.format", Type.CLASS, "text", "How the successor writes records: with delimiters, or behind their lengths.",
           _GROUP, valid=KnownClass(FORMATS)),
    Option("block.gzip.value.delimiter", _TEXT, "\n", "With text: written after every value, taken exactly as given.", _GROUP,
           trimmed=False),
    Option("block.gzip.value.encoding", _TEXT, "UTF-8", "Character set of that delimiter; values are not encoded anew.", _GROUP,
           valid=Charset()),
    Option("block.gzip.key.delimiter", _TEXT, None, "With text: written after every key, taken exactly as given. Keys are written only "
           "if it is set.", _GROUP, trimmed=False),
    Option("block.gzip.key.encoding", _TEXT, "UTF-8", "Character set of that delimiter.", _GROUP, valid=Charset()),
    Option("block.gzip.include.keys", _FLAG, "false", "With binary: write keys in front of values.", _GROUP),
    Option("block.gzip.file.interval.ms", _LONG, "-1", "Close a file before a record whose timestamp is this much after that of the "
           "file's first; -1 is off.", _GROUP, valid=Range(-1)),
    Option("block.gzip.file.grace.ms", _LONG, "-1", "How much longer than that a quiet partition's file waits for the wall clock; -1 is "
           "half of the interval.", _GROUP, valid=Range(-1)),
)  # fmt: skip
