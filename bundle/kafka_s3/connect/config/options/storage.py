"""Which keys decide how S3 is reached? (SEMANTICS A1.3)."""

from __future__ import annotations

from typing import Final

from kafka_s3.connect.config.classes import CREDENTIALS, STORAGES
from kafka_s3.connect.config.option import Option, OptionGroup, OptionStatus, Type
from kafka_s3.connect.config.options.forms import BucketName, HttpAddress, Region
from kafka_s3.connect.config.valid_values import KnownClass, OneOf, Range

_INT, _LONG, _TEXT, _FLAG, _PASSWORD = Type.INT, Type.LONG, Type.STRING, Type.BOOLEAN, Type.PASSWORD
_GROUP = OptionGroup.STORAGE
_BUFFER = "Parts are buffered on demand within writer.memory.bytes."
CANNED_ACLS: Final = (
    "", "private", "public-read", "public-read-write", "authenticated-read", "aws-exec-read", "bucket-owner-read",
    "bucket-owner-full-control", "log-delivery-write",
)  # fmt: skip
ENCRYPTIONS: Final = ("", "AES256", "aws:kms", "aws:kms:dsse", "aws:fsx")

ROWS: Final = (
    Option("storage.class", Type.CLASS, None, "The object store.", _GROUP, valid=KnownClass(STORAGES), required=True),
    Option("s3.bucket.name", _TEXT, None, "The bucket.", _GROUP, valid=BucketName(), required=True, example="lake"),
    Option("s3.region", _TEXT, "us-west-2", "The bucket's region.", _GROUP, valid=Region()),
    Option("store.url", _TEXT, None, "Address of another endpoint; `https://` is assumed without a scheme.", _GROUP, valid=HttpAddress()),
    Option("s3.part.size", _INT, "26214400", "Bytes of one part of an upload. It closes no object, except where no rotation rule is set "
           "at all: then, with a warning, it acts as flush.bytes.", _GROUP, valid=Range(5242880, 2147483647)),
    Option("s3.credentials.provider.class", Type.CLASS, "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
           "Where credentials come from.", _GROUP, valid=KnownClass(CREDENTIALS)),
    Option("s3.credentials.provider.sts.role.arn", _TEXT, None, "The role to assume.", _GROUP),
    Option("s3.credentials.provider.sts.role.session.name", _TEXT, None, "Session name of the assumed role.", _GROUP),
    Option("s3.credentials.provider.sts.role.external.id", _PASSWORD, None, "External id of the assumed role.", _GROUP),
    Option("s3.credentials.provider.sts.region", _TEXT, "", "Region of the token service; blank: the bucket's.", _GROUP),
    Option("s3.credentials.provider.service.credential.name", _TEXT, None, "With the provider `service_credential`: a "
           "service credential of Unity Catalog.", _GROUP),
    Option("s3.credentials.provider.*", _TEXT, None, "Any further setting of a configurable provider.", _GROUP,
           status=OptionStatus.INFORMATIONAL, note="None of the known providers reads further settings."),
    Option("aws.access.key.id", _TEXT, "", "Static credentials, used if both are set.", _GROUP),
    Option("aws.secret.access.key", _PASSWORD, None, "Static credentials, used if both are set.", _GROUP),
    Option("s3.ssea.name", _TEXT, "", "Server-side encryption.", _GROUP, valid=OneOf(ENCRYPTIONS)),
    Option("s3.sse.customer.key", _PASSWORD, None, "With AES256: the customer's own key, base64 of 32 bytes.", _GROUP),
    Option("s3.sse.kms.key.id", _TEXT, "", "With aws:kms: the key. Without it no encryption header is sent.", _GROUP),
    Option("s3.acl.canned", _TEXT, None, "Canned ACL of every object.", _GROUP, valid=OneOf(CANNED_ACLS)),
    Option("s3.wan.mode", _FLAG, "false", "Use the accelerated endpoint; excludes path style.", _GROUP),
    Option("s3.path.style.access.enabled", _FLAG, "true", "Name the bucket in the path instead of the host name.", _GROUP),
    Option("s3.part.retries", _INT, "3", "Attempts of one request, the first included. 0 switches tagging off.", _GROUP,
           valid=Range(0, 2147483647)),
    Option("s3.retry.backoff.ms", _LONG, "200", "Base of the growing, jittered pause between attempts.", _GROUP, valid=Range(0)),
    Option("retry.backoff.ms", _LONG, "5000", "First pause after a failure that is worth another try, before work goes on; "
           "see errors.retry.delay.max.ms.", _GROUP),
    Option("s3.send.digest", _FLAG, "false", "Send the MD5 digest of each part, as Object Lock demands; state always has one.", _GROUP),
    Option("s3.http.send.expect.continue", _FLAG, "true", "Ask before sending a body.", _GROUP),
    Option("s3.proxy.url", _TEXT, "", "HTTP proxy; may hold user and password.", _GROUP, valid=HttpAddress()),
    Option("s3.proxy.user", _TEXT, None, "User of the proxy.", _GROUP),
    Option("s3.proxy.password", _PASSWORD, None, "Password of the proxy.", _GROUP),
    Option("s3.elastic.buffer.enable", _FLAG, "false", "Grow part buffers on demand.", _GROUP,
           status=OptionStatus.INFORMATIONAL, note=_BUFFER),
    Option("s3.elastic.buffer.init.capacity", _INT, "131072", "First size of a part buffer.", _GROUP, valid=Range(4096, 2147483647),
           status=OptionStatus.INFORMATIONAL, note=_BUFFER),
    Option("s3.object.tagging", _FLAG, "false", "Tag objects with startOffset, endOffset and recordCount.", _GROUP),
    Option("s3.object.tagging.key.value.pairs", Type.LIST, "", "Further tags: `k:v,k:v`.", _GROUP),
    Option("s3.object.behavior.on.tagging.error", _TEXT, "ignore", "What a failed tagging does.", _GROUP, valid=OneOf(("ignore", "fail"))),
)  # fmt: skip
