"""Which keys decide the directory of a record? (SEMANTICS A1.2)."""

from __future__ import annotations

from typing import Final

from kafka_s3.connect.config.classes import EXTRACTORS, PARTITIONERS, registered_partitioners
from kafka_s3.connect.config.option import Option, OptionGroup, Type
from kafka_s3.connect.config.valid_values import KnownClass, OneOf

_GROUP = OptionGroup.PARTITIONER
SHORT_ZONES: Final = {
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "PT": "America/Los_Angeles", "CST": "America/Chicago",
    "CDT": "America/Chicago", "EDT": "America/New_York", "ET": "America/New_York", "MDT": "America/Denver",
    "BST": "Europe/London", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "AEST": "Australia/Sydney", "CEST": "Europe/Paris",
}  # fmt: skip
"""What is meant by abbreviations that are no zone ids."""

ROWS: Final = (
    Option("partitioner.class", Type.CLASS, "io.confluent.connect.storage.partitioner.DefaultPartitioner",
           "How records are put into directories; `header` and `key` are additions of kafka-s3. Also the name of a partitioner that an "
           "installed package registers under the entry point group `kafka_s3.partitioners`.", _GROUP,
           valid=KnownClass(PARTITIONERS, registered_partitioners)),
    Option("partition.field.name", Type.LIST, "", "Fields of FieldPartitioner and FieldAndTimeBasedPartitioner, in the order of the "
           "directories; `a.b` descends.", _GROUP),
    Option("partition.field.format.path", Type.BOOLEAN, "true", "FieldAndTimeBasedPartitioner: directories are `name=value`, or with false "
           "the bare value. For example `DE/2024/01` with false.", _GROUP),
    Option("partition.header.name", Type.LIST, "", "partitioner.class=header: headers whose texts make the directories `name=value`, in "
           "this order; `null` where a record has none. For example `tenant,region`.", _GROUP),
    Option("partition.key.field", Type.LIST, "", "partitioner.class=key: fields of the key that make the directories, `a.b` descends; "
           "blank makes `key=<the key's text>`. For example `id`.", _GROUP),
    Option("partition.duration.ms", Type.LONG, "-1", "Width of TimeBasedPartitioner's buckets; must be positive with it.", _GROUP),
    Option("path.format", Type.STRING, "", "Joda-Time pattern of TimeBasedPartitioner's directories.", _GROUP),
    Option("locale", Type.STRING, "", "Language of month and day names; required with time partitioners. The original takes the whole "
           "text as language: `en` works, `en-US` falls back to plain names.", _GROUP),
    Option("timezone", Type.STRING, "", "Zone id (`UTC`, `Europe/Paris`, `+05:30`); required with time partitioners and with "
           "rotate.schedule.interval.ms.", _GROUP),
    Option("timestamp.extractor", Type.STRING, "Wallclock", "Where a record's time comes from: the clock, the Kafka record, or a "
           "field of its value.", _GROUP, valid=KnownClass(EXTRACTORS)),
    Option("timestamp.field", Type.STRING, "timestamp", "Field of the RecordField extractor; `a.b` descends.", _GROUP),
    Option("timestamp.field.unit", Type.STRING, "ms", "What a number in timestamp.field counts since 1970: seconds, milliseconds (as in "
           "the original), micro- or nanoseconds. `auto` takes the unit in which it is a time from 1990 to 2100, and refuses a record "
           "where none is. For example `s` for 1705312800.", _GROUP, valid=OneOf(("s", "ms", "us", "ns", "auto"))),
    Option("timestamp.field.format", Type.STRING, "", "Pattern of Java's SimpleDateFormat by which texts in timestamp.field are read, in "
           "UTC unless they name a zone; blank reads ISO 8601 and digits, as the original. For example `yyyy-MM-dd HH:mm:ss`.", _GROUP),
    Option("behavior.on.implausible.timestamps", Type.STRING, "warn", "What happens to a record whose time lies outside of 1990 to 2100, "
           "mostly by a wrong unit: a warning for the first one, or each is rejected (errors.tolerance says whether it becomes a dead "
           "letter or stops the sink). For example `reject`.", _GROUP, valid=OneOf(("warn", "reject"))),
    Option("s3.schema.partition.affix.type", Type.STRING, "NONE", "Add the schema's name as a directory before or after the others.",
           _GROUP, valid=OneOf(("NONE", "PREFIX", "SUFFIX"))),
)  # fmt: skip
