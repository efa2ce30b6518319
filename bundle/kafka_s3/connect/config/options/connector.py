"""Which keys does the original connector have, and the framework around it? (SEMANTICS A1.1 to A1.4; clients and converters beside it).

Files, their names and formats; directories; S3; errors and dead letters.
"""

from __future__ import annotations

from typing import Final

from kafka_s3.connect.config.classes import (
    CONNECTORS,
    CREDENTIALS,
    EXTRACTORS,
    FORMAT_GROUP,
    FORMATS,
    OWN_EXTRACTOR,
    PARTITIONER_GROUP,
    PARTITIONERS,
    STORAGES,
    registered_formats,
    registered_partitioners,
)
from kafka_s3.connect.config.option import (
    KnownClass,
    OneOf,
    OneOfAnyCase,
    Option,
    OptionGroup,
    OptionStatus,
    Range,
    Type,
    bucket_name,
    http_address,
    region_code,
    topic_names,
)

_PATH = OptionGroup.PARTITIONER
_S3 = OptionGroup.STORAGE
_INT, _LONG, _TEXT, _FLAG = Type.INT, Type.LONG, Type.STRING, Type.BOOLEAN
_IDLE = OptionStatus.INFORMATIONAL
_MAIN, _ERRORS = OptionGroup.FRAMEWORK, OptionGroup.ERRORS
_WORKER = "Progress is committed with the objects, not on a timer."
CONNECTOR: Final = (
    Option("name", _TEXT, None, "The connector's name; its commit log and consumer group carry it.", _MAIN, required=True,
           example="orders-to-s3"),
    Option("connector.class", Type.CLASS, None, "The connector.", _MAIN, valid=KnownClass(CONNECTORS), required=True),
    Option("tasks.max", _INT, "1", "Kafka partitions that are read at once, at most; 32 with fewer than 10,000 new records count as one.",
           _MAIN, valid=Range(1, 2147483647)),
    Option("topics", Type.LIST, "", "The topics. Exactly one of topics and topics.regex is set.", _MAIN, valid=topic_names,
           example="orders,payments"),
    Option("topics.regex", _TEXT, "", "Pattern of whole topic names.", _MAIN),
    Option("config.action.reload", _TEXT, "restart", "What a rotated secret does.", _MAIN, valid=OneOf(("restart", "none")),
           status=_IDLE, note="References are resolved when a run starts."),
    Option("offset.flush.interval.ms", _LONG, "60000", "Worker: how often offsets are committed, which is when Block-GZIP files are "
           "closed. Without effect on other formats: progress is committed with the objects.", _MAIN, valid=Range(1)),
    Option("offset.flush.timeout.ms", _LONG, "5000", "Worker: time for such a commit.", _MAIN, status=_IDLE, note=_WORKER),
)  # fmt: skip
ERRORS: Final = (
    Option("errors.tolerance", _TEXT, "none", "Whether bad records stop the sink.", _ERRORS, valid=OneOf(("none", "all"))),
    Option("errors.log.enable", _FLAG, "false", "Log each failed record, with stage and reason.", _ERRORS),
    Option("errors.log.include.messages", _FLAG, "false", "Log topic, partition, offset and timestamp, too; never contents.", _ERRORS),
    Option("errors.retry.timeout", _LONG, "0", "How long a schema registry that does not answer is waited for, beyond the client's own "
           "retries; -1 without limit. Then the sink stops, with nothing lost.", _ERRORS, valid=Range(-1)),
    Option("errors.retry.delay.max.ms", _LONG, "60000", "Longest pause where Kafka, the bucket or the schema registry does not answer: it "
           "begins with retry.backoff.ms and doubles, less a random part. 0 and less, and under compatibility.strict, it stays the same.",
           _ERRORS),
    Option("errors.deadletterqueue.topic.name", _TEXT, "", "Topic for dead letters; must not be one of the connector's own.", _ERRORS,
           valid=topic_names),
    Option("errors.deadletterqueue.topic.replication.factor", _INT, "3", "Replicas of that topic where it has to be created.", _ERRORS),
    Option("errors.deadletterqueue.context.headers.enable", _FLAG, "false", "Say in headers where and why a record failed.", _ERRORS),
)  # fmt: skip
FRAMEWORK: Final = (*CONNECTOR, *ERRORS)
_COMMIT_LOG = "The commit log replaces it: a replay can neither overwrite nor duplicate an object."
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
           valid=KnownClass(FORMATS, registered_formats, group=FORMAT_GROUP)),
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
SHORT_ZONES: Final = {
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "PT": "America/Los_Angeles", "CST": "America/Chicago",
    "CDT": "America/Chicago", "EDT": "America/New_York", "ET": "America/New_York", "MDT": "America/Denver",
    "BST": "Europe/London", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "AEST": "Australia/Sydney", "CEST": "Europe/Paris",
}  # fmt: skip
"""What is meant by abbreviations that are no zone ids."""
PARTITIONER: Final = (
    Option("partitioner.class", Type.CLASS, "io.confluent.connect.storage.partitioner.DefaultPartitioner",
           "How records are put into directories; `header` and `key` are additions of kafka-s3. Also the name of a partitioner that an "
           "installed package registers under the entry point group `kafka_s3.partitioners`.", _PATH,
           valid=KnownClass(PARTITIONERS, registered_partitioners, group=PARTITIONER_GROUP)),
    Option("partition.field.name", Type.LIST, "", "Fields of FieldPartitioner and FieldAndTimeBasedPartitioner, in the order of the "
           "directories; `a.b` descends.", _PATH),
    Option("partition.field.format.path", Type.BOOLEAN, "true", "FieldAndTimeBasedPartitioner: directories are `name=value`, or with false "
           "the bare value. For example `DE/2024/01` with false.", _PATH),
    Option("partition.header.name", Type.LIST, "", "partitioner.class=header: headers whose texts make the directories `name=value`, in "
           "this order; `null` where a record has none. For example `tenant,region`.", _PATH),
    Option("partition.key.field", Type.LIST, "", "partitioner.class=key: fields of the key that make the directories, `a.b` descends; "
           "blank makes `key=<the key's text>`. For example `id`.", _PATH),
    Option("partition.duration.ms", Type.LONG, "-1", "Width of TimeBasedPartitioner's buckets; must be positive with it.", _PATH),
    Option("path.format", Type.STRING, "", "Joda-Time pattern of TimeBasedPartitioner's directories.", _PATH),
    Option("locale", Type.STRING, "", "Language of month and day names; required with time partitioners. The original takes the whole "
           "text as language: `en` works, `en-US` falls back to plain names.", _PATH),
    Option("timezone", Type.STRING, "", "Zone id (`UTC`, `Europe/Paris`, `+05:30`); required with time partitioners and with "
           "rotate.schedule.interval.ms.", _PATH),
    Option("timestamp.extractor", Type.STRING, "Wallclock", "Where a record's time comes from: the clock, the Kafka record, or a "
           "field of its value.", _PATH, valid=KnownClass(EXTRACTORS, instead=OWN_EXTRACTOR)),
    Option("timestamp.field", Type.STRING, "timestamp", "Field of the RecordField extractor; `a.b` descends.", _PATH),
    Option("timestamp.field.unit", Type.STRING, "ms", "What a number in timestamp.field counts since 1970: seconds, milliseconds (as in "
           "the original), micro- or nanoseconds. `auto` takes the unit in which it is a time from 1990 to 2100, and refuses a record "
           "where none is. For example `s` for 1705312800.", _PATH, valid=OneOf(("s", "ms", "us", "ns", "auto"))),
    Option("timestamp.field.format", Type.STRING, "", "Pattern of Java's SimpleDateFormat by which texts in timestamp.field are read, in "
           "UTC unless they name a zone; blank reads ISO 8601 and digits, as the original. For example `yyyy-MM-dd HH:mm:ss`.", _PATH),
    Option("behavior.on.implausible.timestamps", Type.STRING, "warn", "What happens to a record whose time lies outside of 1990 to 2100, "
           "mostly by a wrong unit: a warning for the first one, or each is rejected (errors.tolerance says whether it becomes a dead "
           "letter or stops the sink). For example `reject`.", _PATH, valid=OneOf(("warn", "reject"))),
    Option("s3.schema.partition.affix.type", Type.STRING, "NONE", "Add the schema's name as a directory before or after the others.",
           _PATH, valid=OneOf(("NONE", "PREFIX", "SUFFIX"))),
)  # fmt: skip
_BUFFER = "Parts are buffered on demand within writer.memory.bytes."
CANNED_ACLS: Final = (
    "", "private", "public-read", "public-read-write", "authenticated-read", "aws-exec-read", "bucket-owner-read",
    "bucket-owner-full-control", "log-delivery-write",
)  # fmt: skip
ENCRYPTIONS: Final = ("", "AES256", "aws:kms", "aws:kms:dsse", "aws:fsx")
STORAGE: Final = (
    Option("storage.class", Type.CLASS, None, "The object store.", _S3, valid=KnownClass(STORAGES), required=True),
    Option("s3.bucket.name", _TEXT, None, "The bucket.", _S3, valid=bucket_name, required=True, example="lake"),
    Option("s3.region", _TEXT, "us-west-2", "The bucket's region.", _S3, valid=region_code),
    Option("store.url", _TEXT, None, "Address of another endpoint; `https://` is assumed without a scheme.", _S3, valid=http_address),
    Option("s3.part.size", _INT, "26214400", "Bytes of one part of an upload. It closes no object, except where no rotation rule is set "
           "at all: then, with a warning, it acts as flush.bytes.", _S3, valid=Range(5242880, 2147483647)),
    Option("s3.credentials.provider.class", Type.CLASS, "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
           "Where credentials come from.", _S3, valid=KnownClass(CREDENTIALS)),
    Option("s3.credentials.provider.sts.role.arn", _TEXT, None, "The role to assume.", _S3),
    Option("s3.credentials.provider.sts.role.session.name", _TEXT, None, "Session name of the assumed role.", _S3),
    Option("s3.credentials.provider.sts.role.external.id", Type.PASSWORD, None, "External id of the assumed role.", _S3),
    Option("s3.credentials.provider.sts.region", _TEXT, "", "Region of the token service; blank: the bucket's.", _S3),
    Option("s3.credentials.provider.service.credential.name", _TEXT, None, "With the provider `service_credential`: a "
           "service credential of Unity Catalog.", _S3),
    Option("s3.credentials.provider.*", _TEXT, None, "Any further setting of a configurable provider.", _S3,
           status=OptionStatus.INFORMATIONAL, note="None of the known providers reads further settings."),
    Option("aws.access.key.id", _TEXT, "", "Static credentials, used if both are set.", _S3),
    Option("aws.secret.access.key", Type.PASSWORD, None, "Static credentials, used if both are set.", _S3),
    Option("s3.ssea.name", _TEXT, "", "Server-side encryption.", _S3, valid=OneOf(ENCRYPTIONS)),
    Option("s3.sse.customer.key", Type.PASSWORD, None, "With AES256: the customer's own key, base64 of 32 bytes.", _S3),
    Option("s3.sse.kms.key.id", _TEXT, "", "With aws:kms: the key. Without it no encryption header is sent.", _S3),
    Option("s3.acl.canned", _TEXT, None, "Canned ACL of every object.", _S3, valid=OneOf(CANNED_ACLS)),
    Option("s3.wan.mode", _FLAG, "false", "Use the accelerated endpoint; excludes path style.", _S3),
    Option("s3.path.style.access.enabled", _FLAG, "true", "Name the bucket in the path instead of the host name.", _S3),
    Option("s3.part.retries", _INT, "3", "Attempts of one request, the first included. 0 switches tagging off.", _S3,
           valid=Range(0, 2147483647)),
    Option("s3.retry.backoff.ms", _LONG, "200", "Base of the growing, jittered pause between attempts.", _S3, valid=Range(0)),
    Option("retry.backoff.ms", _LONG, "5000", "First pause after a failure that is worth another try, before work goes on; "
           "see errors.retry.delay.max.ms.", _S3),
    Option("s3.send.digest", _FLAG, "false", "Send the MD5 digest of each part, as Object Lock demands; state always has one.", _S3),
    Option("s3.http.send.expect.continue", _FLAG, "true", "Ask before sending a body.", _S3),
    Option("s3.proxy.url", _TEXT, "", "HTTP proxy; may hold user and password.", _S3, valid=http_address),
    Option("s3.proxy.user", _TEXT, None, "User of the proxy.", _S3),
    Option("s3.proxy.password", Type.PASSWORD, None, "Password of the proxy.", _S3),
    Option("s3.elastic.buffer.enable", _FLAG, "false", "Grow part buffers on demand.", _S3,
           status=OptionStatus.INFORMATIONAL, note=_BUFFER),
    Option("s3.elastic.buffer.init.capacity", _INT, "131072", "First size of a part buffer.", _S3, valid=Range(4096, 2147483647),
           status=OptionStatus.INFORMATIONAL, note=_BUFFER),
    Option("s3.object.tagging", _FLAG, "false", "Tag objects with startOffset, endOffset and recordCount.", _S3),
    Option("s3.object.tagging.key.value.pairs", Type.LIST, "", "Further tags: `k:v,k:v`.", _S3),
    Option("s3.object.behavior.on.tagging.error", _TEXT, "ignore", "What a failed tagging does.", _S3, valid=OneOf(("ignore", "fail"))),
)  # fmt: skip
OBJECTS: Final = (*ROTATION, *FORMAT, *RECORDS, *PARTITIONER, *STORAGE)
