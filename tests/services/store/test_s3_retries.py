"""How S3Store retries, and how it settles lost answers; a relay fails requests and cuts connections on demand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from moto.s3.models import s3_backends

from kafka_s3.engine.open_files.spill import SpillFile
from kafka_s3.engine.open_files.uploads import FileUpload
from kafka_s3.model.errors import PreconditionFailed, StorageError, StorageUnavailable, UploadMissing
from kafka_s3.model.files import Upload
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.s3_errors import Retrier
from kafka_s3.store.store import begin_upload


def uploaded(store: S3Store, data: bytes = b"body") -> Upload:
    upload = begin_upload(store, "data")
    return replace(upload, parts=(store.upload_part("data", upload.id, 1, data),), size=len(data))


KMS = {"x-amz-server-side-encryption": "aws:kms"}


def hide_etag(relay) -> None:
    """Forward the next request, and answer it as a bucket under SSE-KMS does: with an ETag that follows no rule."""

    def forward(handler, seen) -> None:
        status, body, headers = handler.forward(seen)
        shown = {name: value for name, value in headers.items() if name.lower() != "etag"}
        handler.reply(status, body, {**shown, **KMS, "ETag": '"0123456789abcdef0123456789abcdef-1"'})

    relay.script.append(forward)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (503, "SlowDown"),
        (500, "InternalError"),
        (429, ""),
        (502, ""),
        (400, "RequestTimeout"),
        (403, "Throttling"),
        (409, "OperationAborted"),
    ],
)
def test_a_passing_failure_is_tried_again(s3: S3Store, relay, status: int, code: str) -> None:
    relay.answer(status, code, times=2)
    s3.put("a", b"body")

    assert s3.get("a") == b"body"
    assert [seen.method for seen in relay.seen] == ["PUT", "PUT", "PUT", "GET"]
    assert s3.head("b") is None
    assert s3.requests.taken().failed == {"put_object": 2}, "that there is nothing is an answer"


def test_waits_double_and_attempts_end(open_store, bucket: str, relay) -> None:
    waits: list[float] = []
    store = open_store(bucket, relay.url, sleep=waits.append, part_retries=4, retry_backoff_ms=200)
    relay.answer(503, "SlowDown", message="Please reduce your request rate.", times=9)

    with pytest.raises(
        StorageUnavailable,
        match=r"PutObject on s3://.*/a failed with SlowDown \(503\).*s3\.part\.retries.*Tried 4 times",
    ):
        store.put("a", b"")
    assert waits == [0.2, 0.4, 0.8]
    assert len(relay.seen) == 4
    counted = store.requests.taken()
    assert (counted.durations["put_object"].count, counted.failed, counted.again) == (4, {"put_object": 4}, 3)


def test_waits_are_a_random_share_of_at_most_twenty_seconds() -> None:
    assert Retrier(3, 200, jitter=lambda: 0.25).wait_s(2) == pytest.approx(0.1)
    assert Retrier(3, 200, jitter=lambda: 1.0).wait_s(9) == 20.0
    assert Retrier(3, 200, jitter=lambda: 1.0).wait_s(100_000) == 20.0
    assert Retrier(3, 0).wait_s(5) == 0


def test_a_single_attempt_is_not_repeated(open_store, bucket: str, relay) -> None:
    relay.answer(503, "SlowDown")
    with pytest.raises(StorageUnavailable):
        open_store(bucket, relay.url, part_retries=1).put("a", b"")

    assert len(relay.seen) == 1


def test_a_cut_connection_is_tried_again(s3: S3Store, relay) -> None:
    relay.cut()
    s3.put("a", b"body")

    assert s3.get("a") == b"body"


def test_a_body_that_ends_too_soon_is_read_again(s3: S3Store, relay) -> None:
    s3.put("a", b"body")

    def short(handler, seen) -> None:
        handler.reply(200, b"bo", {"Content-Length": "4"})
        handler.close_connection = True

    relay.script.append(short)
    assert s3.get("a") == b"body"


def test_an_unreachable_service_is_named_with_the_ways_out(open_store, bucket: str) -> None:
    with pytest.raises(
        StorageUnavailable, match=r"HeadObject on s3://.*/a .*127\.0\.0\.1:1/.*store\.url.*Tried 3 times"
    ):
        open_store(bucket, "http://127.0.0.1:1").head("a")


def test_a_refusal_is_not_tried_again(s3: S3Store, relay) -> None:
    relay.answer(403, "AccessDenied")
    with pytest.raises(StorageError):
        s3.put("a", b"")

    assert len(relay.seen) == 1


def test_a_conflict_of_conditional_puts_is_tried_again_even_with_one_attempt(open_store, bucket: str, relay) -> None:
    store = open_store(bucket, relay.url, part_retries=1)
    relay.answer(409, "ConditionalRequestConflict", times=2)
    store.put_new("log/1", b"mine")

    assert store.get("log/1") == b"mine"
    assert all(seen.headers["If-None-Match"] == "*" for seen in relay.seen if seen.method == "PUT")


def test_after_a_lost_answer_the_own_object_is_met(s3: S3Store, relay) -> None:
    relay.lose_answer()

    with pytest.raises(PreconditionFailed, match="log/1"):
        s3.put_new("log/1", b"mine")
    assert s3.get("log/1") == b"mine"


def test_a_service_that_overwrites_what_it_must_not_is_refused_at_the_first_conditional_put(s3: S3Store, relay) -> None:
    def ignore_the_condition(handler, seen) -> None:
        del seen.headers["If-None-Match"]
        handler.reply(*handler.forward(seen))

    relay.script.extend([ignore_the_condition] * 2)
    with pytest.raises(StorageError, match=r"wrote s3://.*/log/0 a second time.*If-None-Match.*store\.url") as refused:
        s3.put_new("log/0", b"claim")
    assert not isinstance(refused.value, PreconditionFailed)
    assert s3.get("log/0") == b"claim"


def test_the_condition_is_tried_once_a_process(s3: S3Store, relay) -> None:
    s3.put_new("log/0", b"claim")
    s3.put_new("log/1", b"entry")

    assert [seen.path.rpartition("/")[2] for seen in relay.seen] == ["0", "0", "1"]


def test_an_object_that_was_refused_proves_the_condition(s3: S3Store, relay) -> None:
    s3.put("log/0", b"another's")
    with pytest.raises(PreconditionFailed):
        s3.put_new("log/0", b"mine")
    s3.put_new("log/1", b"mine")

    assert len(relay.seen) == 3


def requests(relay) -> list[str]:
    """What was asked after the parts were sent."""
    return [seen.method for seen in relay.seen[2:]]


def test_a_lost_completion_is_settled_without_completing_again(s3: S3Store, relay) -> None:
    upload = uploaded(s3)
    relay.lose_answer()
    s3.complete_upload(upload)

    assert requests(relay) == ["POST", "GET", "HEAD"]  # complete, list parts, head
    assert s3.get("data") == b"body"


def test_a_failed_completion_is_tried_again_while_the_upload_is_pending(s3: S3Store, relay) -> None:
    upload = uploaded(s3)
    relay.cut()
    s3.complete_upload(upload)

    assert requests(relay) == ["POST", "GET", "HEAD", "POST"]
    assert s3.get("data") == b"body"


def test_an_error_inside_a_200_answer_counts_as_an_error(s3: S3Store, relay) -> None:
    upload = uploaded(s3)
    relay.answer(200, "InternalError")
    s3.complete_upload(upload)

    assert requests(relay) == ["POST", "GET", "HEAD", "POST"]
    assert s3.get("data") == b"body"


def test_no_such_upload_is_fine_where_the_object_has_the_uploads_etag(s3: S3Store, relay) -> None:
    upload = uploaded(s3)
    s3.complete_upload(upload)
    relay.answer(404, "NoSuchUpload")
    s3.complete_upload(upload)

    assert s3.get("data") == b"body"


def test_no_such_upload_and_another_object_is_a_missing_upload(s3: S3Store, relay) -> None:
    upload = uploaded(s3)
    s3.abort_upload("data", upload.id)
    s3.put("data", b"body")
    relay.answer(404, "NoSuchUpload")

    with pytest.raises(UploadMissing, match=rf"The upload {upload.id} of s3://.*/data is gone.*written again"):
        s3.complete_upload(upload)


def test_a_completion_that_ends_while_it_is_being_settled_is_seen(s3: S3Store, relay) -> None:
    upload = uploaded(s3)
    relay.cut()
    relay.let_pass()  # list parts: pending
    relay.run(lambda: s3_backends["123456789012"]["aws"].complete_multipart_upload(
        s3.options.bucket, upload.id, [(1, upload.parts[0])]
    ))  # fmt: skip
    s3.complete_upload(upload)

    assert requests(relay) == ["POST", "GET", "HEAD"]


def test_failures_while_settling_are_tried_again(s3: S3Store, relay) -> None:
    upload = uploaded(s3)
    relay.lose_answer()
    relay.answer(503, "SlowDown")  # list parts
    s3.complete_upload(upload)

    assert requests(relay) == ["POST", "GET", "POST"]


def test_a_completion_in_constant_conflict_asks_for_the_upload_again(s3: S3Store, relay) -> None:
    upload = uploaded(s3)
    for _ in range(3):
        relay.answer(409, "ConditionalRequestConflict")
        relay.let_pass()
        relay.let_pass()

    with pytest.raises(UploadMissing, match=r"ConditionalRequestConflict.*uploaded again"):
        s3.complete_upload(upload)


def test_an_outage_during_completion_is_an_outage(s3: S3Store, relay) -> None:
    upload = uploaded(s3)
    relay.answer(503, "SlowDown", times=20)

    with pytest.raises(StorageUnavailable) as failed:
        s3.complete_upload(upload)
    assert not isinstance(failed.value, UploadMissing)


@pytest.mark.parametrize(
    ("header", "value", "size", "settled"),
    [
        ("x-amz-server-side-encryption", "aws:kms", "4", True),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256", "4", True),
        ("x-amz-server-side-encryption", "aws:kms", "5", False),
        ("x-amz-server-side-encryption", "AES256", "4", False),
    ],
)
def test_where_etags_follow_no_rule_parts_and_bytes_are_compared(
    s3: S3Store, relay, header: str, value: str, size: str, settled: bool
) -> None:
    upload = replace(uploaded(s3), token="")  # an earlier version began it
    relay.answer(404, "NoSuchUpload", times=2)
    known = {"ETag": '"0123456789abcdef0123456789abcdef-1"', "Last_Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}
    relay.answer(200, **known, Content_Length=size, **{header.replace("-", "_"): value})

    if settled:
        s3.complete_upload(upload)
    else:
        with pytest.raises(UploadMissing):
            s3.complete_upload(upload)


def test_pending_upload_is_not_taken_for_an_older_object_of_its_size(s3: S3Store, relay) -> None:
    s3.complete_upload(uploaded(s3, b"late"))
    upload = uploaded(s3)
    relay.answer(500, "InternalError")
    relay.let_pass()  # list parts: pending
    hide_etag(relay)
    s3.complete_upload(upload)

    assert s3.get("data") == b"body"
    assert not s3.upload_exists("data", upload.id)


def test_upload_that_is_gone_is_not_taken_for_an_older_object_of_its_size(s3: S3Store, relay) -> None:
    s3.complete_upload(uploaded(s3, b"late"))
    upload = uploaded(s3)
    s3.abort_upload("data", upload.id)
    relay.let_pass()
    relay.let_pass()
    hide_etag(relay)

    with pytest.raises(UploadMissing):
        s3.complete_upload(upload)
    relay.let_pass()
    relay.let_pass()
    hide_etag(relay)
    with pytest.raises(UploadMissing):  # begun by an earlier version, and the object by this one
        s3.complete_upload(replace(upload, token=""))


def test_lost_completion_is_settled_by_the_token_if_etags_follow_no_rule(s3: S3Store, relay) -> None:
    upload = uploaded(s3)
    relay.lose_answer()
    relay.let_pass()
    hide_etag(relay)
    s3.complete_upload(upload)

    assert [seen.method for seen in relay.seen[2:]] == ["POST", "GET", "HEAD"]


def test_conditional_deletion_leaves_an_object_with_another_etag(s3: S3Store, relay) -> None:
    etag = s3.put("a", b"old")
    relay.answer(412, "PreconditionFailed")
    with pytest.raises(PreconditionFailed):
        s3.delete("a", etag)
    assert relay.seen[-1].headers["If-Match"] == f'"{etag}"'

    relay.answer(404, "NoSuchKey")
    s3.delete("a", etag)
    assert s3.head("a") is not None


def test_service_without_conditional_deletions_is_asked_for_the_etag_first(s3: S3Store, relay) -> None:
    etag = s3.put("a", b"old")
    s3.put("a", b"new")
    relay.answer(501, "NotImplemented")
    with pytest.raises(PreconditionFailed, match="another object"):
        s3.delete("a", etag)
    assert s3.get("a") == b"new"

    s3.put("a", b"old")
    relay.answer(501, "NotImplemented")
    s3.delete("a", etag)
    assert s3.head("a") is None


def test_answer_without_an_etag_is_a_refusal_that_says_so(s3: S3Store, relay) -> None:
    upload_id = s3.create_upload("data")
    relay.answer(200)
    with pytest.raises(
        StorageError, match=r"UploadPart on s3://.*/data was answered without an ETag: check .*store\.url"
    ):
        s3.upload_part("data", upload_id, 1, b"x")


def test_a_part_for_an_upload_that_is_gone_says_so(s3: S3Store, relay) -> None:
    relay.answer(404, "NoSuchUpload", message="The specified upload does not exist.")

    with pytest.raises(UploadMissing, match=r"UploadPart on s3://.*/data failed with NoSuchUpload"):
        s3.upload_part("data", "gone", 1, b"")


def test_parts_are_listed_in_order_at_completion(s3: S3Store, relay) -> None:
    upload_id = s3.create_upload("data")
    second = s3.upload_part("data", upload_id, 2, b"b")
    first = s3.upload_part("data", upload_id, 1, b"a" * (5 << 20))
    s3.complete_upload(Upload("data", upload_id, (first, second), (5 << 20) + 1))

    sent = ElementTree.fromstring(relay.seen[-1].body)
    assert [[child.text for child in part] for part in sent] in (
        [["1", first], ["2", second]],
        [[first, "1"], [second, "2"]],
    )


def test_streamed_content_is_sent_from_its_beginning_at_each_try(s3: S3Store, relay, content) -> None:
    relay.answer(503, "SlowDown")
    relay.cut()
    body = content([b"begin", b"x" * 200_000, b"end"])
    s3.put("state", body)

    assert s3.get("state") == b"".join(body.parts)
    assert {seen.body for seen in relay.seen if seen.method == "PUT"} == {b"".join(body.parts)}
    assert len([seen for seen in relay.seen if seen.method == "PUT"]) == 3


def test_streamed_content_that_cannot_be_read_is_not_sent_in_part(s3: S3Store, relay, content, capfd) -> None:
    with pytest.raises(OSError, match="Input/output error"):
        s3.put("state", content([b"x" * 200_000], fails_at=3))  # behind both digests, while it is sent
    assert s3.head("state") is None


def test_a_part_that_waits_in_memory_and_on_disk_is_sent_whole_again_and_is_let_go_of_then(
    s3: S3Store, relay, tmp_path: Path
) -> None:
    upload = FileUpload(s3, "data", part_size=1 << 30)
    for piece in (b"begin", b"x" * 700_000, b"end"):
        upload.add(piece)
        upload.spill(SpillFile(tmp_path))
        upload.add(piece.upper())
    upload.id = s3.create_upload("data")
    relay.answer(500, "InternalError")
    s3.complete_upload(upload.finish())

    assert [len(seen.body) for seen in relay.seen if "partNumber=1" in seen.path] == [2 * 700_008] * 2
    assert s3.get("data") == b"beginBEGIN" + b"x" * 700_000 + b"X" * 700_000 + b"endEND"
    assert [*tmp_path.iterdir()] == []
