"""How does a message reach AWS's SNS or SQS? As JSON text, one request for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from kafka_s3.model.errors import NotificationFailed


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
    try:
        request()
    except (BotoCoreError, ClientError) as error:
        reason = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
        raise NotificationFailed(
            f"{service} did not take a notification ({reason}). Check notification.target, and the right to send to it."
        ) from error
