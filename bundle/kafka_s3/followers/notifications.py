"""Who is notified which objects each commit has made visible? One message for each entry, or several where it has very many objects.

A message is sent at least once: how far it has come is noted beside the log behind each entry. `entry` and `part` are the same when it is
sent again. It begins with the first entry after it was switched on; from then on none is left out, however long nobody took them.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.progress import FollowerPosition
from kafka_s3.model.addresses import careful_opener
from kafka_s3.model.errors import NotificationFailed, SinkError
from kafka_s3.model.files import Role

AT_ONCE: Final = 100
"""Objects of one message: with keys of 1 KiB it is below the 256 KiB of SNS and SQS."""


class Notifier(Protocol):
    """What takes messages: webhook, SNS, SQS, or one of an entry point of the group `kafka_s3.notifications`."""

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends one message, which is JSON's; returns when it is taken. Whatever it raises lets it be sent again."""
        ...


@dataclass(frozen=True, slots=True)
class Notifications:
    """The follower. `bucket` is named in each message."""

    notifier: Notifier
    bucket: str
    name: str = "notifications"

    def catch_up(self, log: CommitLog) -> None:
        """Sends what every entry since the last one noted has made visible. Raises NotificationFailed, StorageError."""
        position = FollowerPosition(log.store, log.paths, "notifications")
        for entry in position.new_entries(log):
            for message in messages(entry, self.bucket):
                self._send(message)
            position.note(entry.version)

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self.notifier.send(message)
        except SinkError:
            raise
        except Exception as error:  # somebody else's code
            raise NotificationFailed(
                f"Entry {message['entry']} could not be notified ({type(error).__name__})."
            ) from error


def messages(entry: CommitEntry, bucket: str) -> Iterator[dict[str, Any]]:
    """The messages of an entry: none without objects, nor where objects take the place of others, whose records would be loaded twice.

    Dead letter files are among them, by their role.
    """
    files = [file for file in entry.files if file.role is not Role.POINTER and entry.kind is not EntryKind.REWRITE]
    parts = -(-len(files) // AT_ONCE)
    for part in range(parts):
        yield {
            "sink": entry.sink, "entry": entry.version, "commit_id": entry.commit_id, "committed_at": entry.committed_at,
            "bucket": bucket, "part": part + 1, "parts": parts,
            "objects": [
                {
                    "key": file.key, "role": file.role.value, "topic": file.topic, "partition": file.partition,
                    "first_offset": file.first_offset, "last_offset": file.last_offset, "records": file.records, "bytes": file.bytes,
                    "encoded_partition": file.encoded_partition, "format": file.format,
                }
                for file in files[part * AT_ONCE : (part + 1) * AT_ONCE]
            ],
        }  # fmt: skip


TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that takes JSON by POST; any status below 300 is an answer, and no redirect is followed.

    The address may hold a token, and is shown nowhere.
    """

    url: str

    def send(self, message: Mapping[str, Any]) -> None:
        """Posts one message. Raises NotificationFailed."""
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url, json.dumps(message).encode(), head)  # a rule allows http only
        try:
            with careful_opener().open(request, timeout=TIMEOUT_S):
                return
        except urllib.error.HTTPError as error:
            reason = f"HTTP {error.code}"
        except (OSError, ValueError) as error:
            reason = type(error).__name__
        raise NotificationFailed(f"The webhook did not take a notification ({reason}). Check notification.target.")


@dataclass(frozen=True, slots=True)
class SnsTopic:
    """A topic of SNS, by its ARN."""

    client: Any
    arn: str

    def send(self, message: Mapping[str, Any]) -> None:
        """Publishes one message. Raises NotificationFailed."""
        _asked("SNS", lambda: self.client.publish(TopicArn=self.arn, Message=json.dumps(message)))


@dataclass(frozen=True, slots=True)
class SqsQueue:
    """A queue of SQS, by its URL."""

    client: Any
    url: str

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends one message. Raises NotificationFailed."""
        _asked("SQS", lambda: self.client.send_message(QueueUrl=self.url, MessageBody=json.dumps(message)))


def _asked(service: str, request: Callable[[], Any]) -> None:
    from botocore.exceptions import BotoCoreError, ClientError  # few need it

    try:
        request()
    except (BotoCoreError, ClientError) as error:
        reason = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
        raise NotificationFailed(
            f"{service} did not take a notification ({reason}). Check notification.target, and the right to send to it."
        ) from error
