"""Which rights in AWS does a running sink need, and no more? A policy for exactly one configuration, by the calls that the code makes.

The rights of `doctor`, `verify`, `sweep` and of the dashboard are others (docs/security.md): this is what `kafka-s3 run` sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import routes
from kafka_s3.connect.naming.keys import topics_root
from kafka_s3.run.wiring.conversion import inflated_columns
from kafka_s3.run.wiring.pipeline import is_block_gzip, object_names, state_paths
from kafka_s3.store.options import store_options

OBJECTS: Final = ("s3:PutObject", "s3:GetObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
"""Objects are multipart uploads; GetObject is also for HEAD, which settles the lost answer of a completion."""

GLUE: Final = ("glue:GetTable", "glue:CreateTable", "glue:UpdateTable", "glue:BatchCreatePartition")


def data_prefixes(settings: Settings) -> tuple[str, ...]:
    """Below which prefixes the sink's data objects lie: a folder for each topic, or the one above where topics are not known beforehand."""
    keys = object_names(settings)
    if is_block_gzip(settings) or not (settings.optional_text("topics.regex") or routes(settings)):
        return keys.prefixes(settings.names("topics"))
    return (topics_root(settings.text("topics.dir"), settings.text("directory.delim")),)


def sink_policy(settings: Settings) -> dict[str, Any]:
    """The policy, as IAM takes it. Raises ConfigError where the settings cannot reach a bucket."""
    options, root, data = store_options(settings), state_paths(settings).root, data_prefixes(settings)
    bucket = f"arn:{_partition(options.region)}:s3:::{options.bucket}"
    acl = ("s3:PutObjectAcl",) if options.acl else ()
    tags = ("s3:PutObjectTagging",) if settings.flag("s3.object.tagging") else ()
    listed = [f"{prefix}*" for prefix in dict.fromkeys((root, *data))]
    statements = [
        {
            **_statement("List", ("s3:ListBucket",), [bucket]),
            "Condition": {"StringLike": {"s3:prefix": listed}},
        },
        _statement("Uploads", ("s3:ListBucketMultipartUploads",), [bucket]),  # AWS knows no prefix for it
        _statement("State", (*OBJECTS, *acl), [f"{bucket}/{root}*"]),
        _statement("Data", (*OBJECTS, *acl, *tags), [f"{bucket}/{prefix}*" for prefix in data]),
    ]
    if settings.flag("tail.state.enable"):
        statements.append(
            _statement("OpenFiles", ("s3:DeleteObject",), [f"{bucket}/{state_paths(settings).open_states()}*"])
        )
    if inflated_columns(settings):  # by a version's id, for which AWS knows no narrower resource
        statements.append(_statement("SchemaRegistry", ("glue:GetSchemaVersion",), ["*"]))
    database = settings.text("glue.database.name")
    if database:
        place = f"arn:{_partition(options.region)}:glue:{options.region}:*"
        resources = [f"{place}:catalog", f"{place}:database/{database}", f"{place}:table/{database}/*"]
        statements.append(_statement("Glue", GLUE, resources))
    sends = {"sns": "sns:Publish", "sqs": "sqs:SendMessage"}.get(settings.text("notification.class"))
    if sends:
        target = settings.text("notification.target")
        arn = (
            target
            if target.startswith("arn:")
            else f"arn:{_partition(options.region)}:sqs:{options.region}:*:{target.rpartition('/')[2]}"
        )
        statements.append(_statement("Notify", (sends,), [arn]))
    key = options.encryption.kms_key_id
    if key:
        arn = key if key.startswith("arn:") else f"arn:{_partition(options.region)}:kms:{options.region}:*:{_key(key)}"
        statements.append(_statement("Key", ("kms:GenerateDataKey", "kms:Decrypt"), [arn]))
    return {"Version": "2012-10-17", "Statement": statements}


def _statement(sid: str, actions: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}


def _partition(region: str) -> str:
    """AWS's partition of a region: `aws` but for China and the United States' government."""
    return next(
        (name for start, name in (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov")) if region.startswith(start)), "aws"
    )


def _key(text: str) -> str:
    return text if text.startswith("alias/") else f"key/{text}"
