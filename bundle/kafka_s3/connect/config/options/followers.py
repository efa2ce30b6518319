"""Which keys tell others what a sink has written, after each commit?"""

from __future__ import annotations

from typing import Final

from kafka_s3.connect.config.option import Option, OptionGroup, Type

_GROUP: Final = OptionGroup.OURS

ROWS: Final = (
    Option("glue.database.name", Type.STRING, "", "A database of the AWS Glue Data Catalog in which each topic is kept as a table: its "
           "columns, and each directory as a partition, after each commit. It has to be there. May be set at any time: the log tells what "
           "came before. Blank: none.", _GROUP),
    Option("done.marker.name", Type.STRING, "", "An object of that name is written into each directory of a time when it is complete, for "
           "example `_SUCCESS`: its time is over, and every topic-partition has committed a later record, or has none that is not "
           "committed. Needs a time partitioner and `timestamp.extractor=Record`. Blank: none.", _GROUP),
    Option("notification.class", Type.STRING, "", "Who gets a message for each commit: `webhook`, `sns`, `sqs`, or the name of "
           "an entry point of the group `kafka_s3.notifications`: a callable taking the settings and returning an object with "
           "`send(message)`. Blank: nobody.", _GROUP),
    Option("notification.target", Type.STRING, "", "The webhook's address, the ARN of SNS's topic, or the URL of SQS's queue.", _GROUP),
    Option("aws.endpoint.url", Type.STRING, "", "Address of a service that speaks the language of Glue, SNS and SQS. Blank: AWS in "
           "`s3.region`. The credentials are those of S3.", _GROUP),
)  # fmt: skip
