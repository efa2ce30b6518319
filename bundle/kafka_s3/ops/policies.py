"""What has to be set in AWS for one configuration: which rights does a running sink need, and which lifecycle rules go with its objects?

The rights are those of the calls that `kafka-s3 run` makes, and no more; those of `doctor`, `verify`, `sweep` and of the dashboard are
others (docs/security.md). The lifecycle rules archive data and clean up after crashes, and leave the commit log alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import routes
from kafka_s3.connect.naming.keys import BlockNames
from kafka_s3.connect.naming.table_names import TOPIC
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.conversion import inflated_columns
from kafka_s3.run.wiring.iceberg import warehouse_of
from kafka_s3.run.wiring.pipeline import object_names, resumes_at_pointer, state_paths

OBJECTS: Final = ("s3:PutObject", "s3:GetObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
"""Objects are multipart uploads; GetObject is also for HEAD, which settles the lost answer of a completion."""
GLUE: Final = ("glue:GetTable", "glue:CreateTable", "glue:UpdateTable", "glue:BatchCreatePartition")
ICEBERG_METADATA: Final = ("s3:PutObject", "s3:GetObject", "s3:DeleteObject")
"""Deleted are files of metadata that newer ones have replaced, never an object."""
ICEBERG_GLUE: Final = (
    "glue:GetDatabase",
    "glue:CreateDatabase",
    "glue:GetTable",
    "glue:CreateTable",
    "glue:UpdateTable",
)
ABORT_DAYS: Final = 7
"""A committed file may wait for its completion as long as the sink is down."""
CLASSES: Final = ("STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE")
ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})
"""Classes whose objects cannot be read before they are restored."""


def data_prefixes(settings: Settings) -> tuple[str, ...]:
    """Below which prefixes the sink's data objects lie: a folder for each topic, or the one above where topics are not known beforehand."""
    names = object_names(settings)
    if isinstance(names, BlockNames) or not (settings.optional_text("topics.regex") or routes(settings)):
        return names.prefixes(settings.names("topics"))
    return (names.root,)


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
        catalog = f"arn:{_partition(options.region)}:glue:{options.region}:*"
        resources = [f"{catalog}:catalog", f"{catalog}:database/{database}", f"{catalog}:table/{database}/*"]
        statements.append(_statement("Glue", GLUE, resources))
    if settings.flag("iceberg.enable"):
        statements += _iceberg(settings, options.region)
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


def rewriting_policy(settings: Settings) -> dict[str, Any]:
    """The policy of a sink whose objects are compacted or erased from. Raises ConfigError as `sink_policy`."""
    policy, options, paths = sink_policy(settings), store_options(settings), state_paths(settings)
    folders = (*data_prefixes(settings), paths.rewrite_requests(), f"{paths.root}dead-letters/")
    bucket = f"arn:{_partition(options.region)}:s3:::{options.bucket}"
    rewrites = _statement("Rewrites", ("s3:DeleteObject",), [f"{bucket}/{folder}*" for folder in folders])
    return {**policy, "Statement": [*policy["Statement"], rewrites]}


def _iceberg(settings: Settings, region: str) -> Iterator[dict[str, Any]]:
    """The rights on the tables' own metadata, and on their catalog where it is AWS Glue."""
    where, partition = warehouse_of(settings), _partition(region)
    if where:
        location = where.partition("://")[2].rstrip("/")
        yield _statement("IcebergMetadata", ICEBERG_METADATA, [f"arn:{partition}:s3:::{location}/*"])
    if settings.text("iceberg.catalog.type") == "glue":
        database = settings.text("iceberg.table.name").rpartition(".")[0].replace(TOPIC, "*")
        catalog = f"arn:{partition}:glue:{region}:*"
        resources = [f"{catalog}:catalog", f"{catalog}:database/{database}", f"{catalog}:table/{database}/*"]
        yield _statement("IcebergCatalog", ICEBERG_GLUE, resources)


def _statement(sid: str, actions: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}


def _partition(region: str) -> str:
    """AWS's partition of a region: `aws` but for China and the United States' government."""
    return next(
        (name for start, name in (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov")) if region.startswith(start)), "aws"
    )


def _key(text: str) -> str:
    return text if text.startswith("alias/") else f"key/{text}"


@dataclass(frozen=True, slots=True)
class Transition:
    """After so many days objects go into a storage class."""

    days: int
    storage_class: str


def transition_of(text: str) -> Transition:
    """`90:GLACIER`. Raises ConfigError."""
    found = re.fullmatch(r"([1-9]\d{0,4}):([A-Z_]+)", text.strip(), re.ASCII)
    if found is None or found[2] not in CLASSES:
        remedy = f"Write DAYS:CLASS, as 90:GLACIER; the classes are {', '.join(CLASSES)}."
        raise ConfigError([Problem("--transition", text, "is not a transition.", remedy)])
    return Transition(int(found[1]), found[2])


def lifecycle_rules(settings: Settings, transitions: Sequence[Transition] = ()) -> dict[str, Any]:
    """The rules, as `aws s3api put-bucket-lifecycle-configuration` takes them; a transition acts on data alone.

    Raises ConfigError for one that would break the sink or its readers.
    """
    root, data = state_paths(settings).root, data_prefixes(settings)
    if transitions:
        _check(settings, transitions, root, data)
    moves = [{"Days": one.days, "StorageClass": one.storage_class} for one in sorted(transitions, key=lambda t: t.days)]
    rules = [{**_rule(settings, "archive", prefix), "Transitions": moves} for prefix in data if moves]
    abort = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": ABORT_DAYS}}
    rules += [{**_rule(settings, "uploads", prefix), **abort} for prefix in dict.fromkeys((*data, root))]
    return {"Rules": rules}


def _rule(settings: Settings, what: str, prefix: str) -> dict[str, Any]:
    name = f"kafka-s3 {settings.name} {what} {prefix}".strip()
    return {"ID": name[:255], "Status": "Enabled", "Filter": {"Prefix": prefix}}


def _check(settings: Settings, transitions: Sequence[Transition], root: str, data: Sequence[str]) -> None:
    shown = ", ".join(f"{one.days}:{one.storage_class}" for one in transitions)
    archived = any(one.storage_class in ARCHIVES for one in transitions)
    problems = [
        Problem(
            "--transition", shown, f"would move the commit log, which lies below {prefix!r}, too.", "Set topics.dir."
        )
        for prefix in data
        if root.startswith(prefix)
    ]
    if archived and settings.flag("iceberg.enable"):
        rule = "would archive the files of Iceberg tables, which could not be read any more."
        problems.append(Problem("--transition", shown, rule, "Use GLACIER_IR, or iceberg.enable=false."))
    if archived and settings.flag("delta.enable"):
        rule = "would archive the files and the log of Delta tables, which could not be read any more."
        problems.append(Problem("--transition", shown, rule, "Use GLACIER_IR, or delta.enable=false."))
    if archived and resumes_at_pointer(settings):
        rule = "would archive the objects that say where the sink resumes."
        problems.append(Problem("--transition", shown, rule, "Use GLACIER_IR."))
    if problems:
        raise ConfigError(problems)
