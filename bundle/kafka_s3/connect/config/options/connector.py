"""Which keys decide when files close, what they are called and what is in them? (SEMANTICS A1.1, and A1.3 on formats and records)."""

from __future__ import annotations

from typing import Final

from kafka_s3.connect.config.classes import FORMATS, registered_formats
from kafka_s3.connect.config.option import Option, OptionGroup, OptionStatus, Type
from kafka_s3.connect.config.valid_values import KnownClass, OneOf, OneOfAnyCase, Range

_INT, _LONG, _TEXT, _FLAG = Type.INT, Type.LONG, Type.STRING, Type.BOOLEAN
_COMMIT_LOG = "The commit log replaces it: a replay can neither overwrite nor duplicate an object."
_IDLE = OptionStatus.INFORMATIONAL
AVRO_FORMAT: Final = "io.confluent.connect.s3.format.avro.AvroFormat"
PARQUET_CODECS: Final = ("none", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw", "zstd")

ROTATION: Final = (
    Option("flush.size", _INT, None, "Records per Kafka partition after which all its open files are closed; 0 and negatives act "
           "like 1. Required, unless another rotation rule is set.", OptionGroup.ROTATION, example="1000"),
    Option("rotate.interval.ms", _LONG, "-1", "Record time, from the first record since the last commit, after which the next "
           "record starts new files; 0 and less is off. Acts with time partitioners, and, of ours, with those by field, header or "
           "key where timestamp.extractor is set.", OptionGroup.ROTATION),
    Option("rotate.schedule.interval.ms", _LONG, "-1", "Wall-clock time, aligned to midnight in `timezone`, at which open files "
           "are closed; 0 and less is off.", OptionGroup.ROTATION),
    Option("rotate.file.on.partition.change", _FLAG, "true", "With rotate.interval.ms: close the open files when the directory "
           "of the records changes.", OptionGroup.ROTATION),
    Option("partitioner.max.open.files", _INT, "-1", "Close all open files of a Kafka partition when a record needs one more "
           "directory than this; 0 and less is off.", OptionGroup.ROTATION),
    Option("topics.dir", _TEXT, "topics", "First part of every object's key; blank leaves it out.", OptionGroup.ROTATION),
    Option("directory.delim", _TEXT, "/", "Text between directories.", OptionGroup.ROTATION),
    Option("file.delim", _TEXT, "+", "Text between topic, partition and offset in an object's name.", OptionGroup.ROTATION),
    Option("filename.offset.zero.pad.width", _INT, "10", "Least number of digits of the start offset in an object's name. The "
           "original also takes 0, and fails at its first file.", OptionGroup.ROTATION, valid=Range(1, 2**31 - 1)),
    Option("object.name.template", _TEXT, "", "Name of an object without its extension, of `${topic}`, `${partition}`, `${offset}` (of "
           "the first record), `${time}` (when its upload began, UTC, as 20240115T100000Z) and fixed text; blank is Connect's. "
           "Refused where two files could get one name. For example `${time}-${topic}-${partition}-${offset}`.", OptionGroup.ROTATION),
    Option("directory.template", _TEXT, "", "Folder of objects below topics.dir, of `${topic}`, `${directory}` (the partitioner's) and "
           "fixed text; blank is Connect's `${topic}/${directory}`. For example `raw/${directory}`: all topics in one folder.",
           OptionGroup.ROTATION),
    Option("schema.compatibility", _TEXT, "NONE", "What happens when the schema of the records changes: NONE closes the files; "
           "BACKWARD and FULL project older records to the file's schema, FORWARD newer ones. The original takes any other text as "
           "NONE; here that is an error, under compatibility.strict a warning.",
           OptionGroup.ROTATION),
    Option("enable.conditional.writes", _FLAG, "true", "Do not overwrite objects that exist.", OptionGroup.ROTATION,
           status=_IDLE, note=_COMMIT_LOG),
    Option("max.files.scan.limit", _INT, "100", "How many names conditional writes try.", OptionGroup.ROTATION,
           status=_IDLE, note=_COMMIT_LOG),
    Option("max.write.duration.ms", _LONG, str(2**63 - 1), "Time after which a delivery is left half-processed.", OptionGroup.ROTATION,
           status=_IDLE, note="There are no deliveries with a deadline: a consumer group's time limits do not apply."),
    Option("shutdown.timeout.ms", _LONG, "3000", "Time to stop.", OptionGroup.ROTATION,
           status=_IDLE, note="Without effect in the original, too."),
)  # fmt: skip

FORMAT: Final = (
    Option("format.class", Type.CLASS, None, "Format of the objects. Also the name of a format that an installed package registers "
           "under the entry point group `kafka_s3.formats`.", OptionGroup.FORMAT, required=True,
           valid=KnownClass(FORMATS, registered_formats)),
    Option("parquet.codec", _TEXT, "snappy", "Compression of Parquet objects; part of their extension.", OptionGroup.FORMAT,
           valid=OneOf(PARQUET_CODECS), not_yet=("lzo",), note="Use another codec, for example zstd."),
    Option("s3.compression.type", _TEXT, "none", "Compression of whole JSON objects.", OptionGroup.FORMAT, valid=OneOf(("none", "gzip"))),
    Option("s3.compression.level", _INT, "-1", "gzip: -1 to 6 fast (ISA-L; 0 stores), 7 to 9 small (zlib).", OptionGroup.FORMAT,
           valid=Range(-1, 9)),
    Option("json.decimal.format", _TEXT, "BASE64", "How JSON objects show decimals.", OptionGroup.FORMAT,
           valid=OneOfAnyCase(("BASE64", "NUMERIC"))),
    Option("format.bytearray.extension", _TEXT, ".bin", "Extension of byte-array objects.", OptionGroup.FORMAT),
    Option("format.bytearray.separator", _TEXT, "\n", "Written after every record of a byte-array object, taken exactly as given.",
           OptionGroup.FORMAT, trimmed=False),
    Option("avro.codec", _TEXT, "null", "Compression inside Avro objects.", OptionGroup.FORMAT,
           valid=OneOf(("null", "deflate", "snappy", "bzip2"))),
    Option("enhanced.avro.schema.support", _FLAG, "true", "Keep enum symbols and package names in the Avro schema.", OptionGroup.FORMAT),
    Option("connect.meta.data", _FLAG, "true", "Add Connect's properties to the Avro schema.", OptionGroup.FORMAT),
    Option("allow.optional.map.keys", _FLAG, "false", "Treat optional string keys of maps as plain ones.", OptionGroup.FORMAT),
    Option("schemas.cache.config", _INT, "1000", "Size of the schema cache.", OptionGroup.FORMAT,
           status=_IDLE, note="A tuning value of the original."),
    Option("schema.cache.size", _INT, "1000", "Older name of schemas.cache.config.", OptionGroup.FORMAT,
           status=_IDLE, note="A tuning value of the original."),
    Option("schema.generator.class", _TEXT, None, "Key of old releases.", OptionGroup.FORMAT,
           status=_IDLE, note="Later releases of the original dropped it."),
)  # fmt: skip

RECORDS: Final = (
    Option("behavior.on.null.values", _TEXT, "fail", "What happens to a record without a value: stop, leave it out, or write its "
           "key as tombstone.", OptionGroup.RECORDS, valid=OneOfAnyCase(("fail", "ignore", "write"))),
    Option("report.null.values.to.dlq", _FLAG, "true", "With ignore: report null values as dead letters.", OptionGroup.RECORDS),
    Option("tombstone.encoded.partition", _TEXT, "tombstone", "Directory of the keys of null values, with "
           "behavior.on.null.values=write.", OptionGroup.RECORDS),
    Option("store.kafka.keys", _FLAG, "false", "Store record keys in objects beside the values'.", OptionGroup.RECORDS),
    Option("store.kafka.headers", _FLAG, "false", "Store record headers in objects beside the values'.", OptionGroup.RECORDS),
    Option("keys.format.class", Type.CLASS, AVRO_FORMAT, "Format of key objects.", OptionGroup.RECORDS,
           valid=KnownClass(FORMATS)),
    Option("headers.format.class", Type.CLASS, AVRO_FORMAT, "Format of header objects.", OptionGroup.RECORDS,
           valid=KnownClass(FORMATS)),
)  # fmt: skip

ROWS: Final = (*ROTATION, *FORMAT, *RECORDS)
