"""Who takes notifications under a configuration? A webhook, SNS, SQS, or what an entry point names."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Final

from kafka_s3.connect.config.classes import NOTIFICATION_GROUP
from kafka_s3.connect.config.settings import Settings
from kafka_s3.followers.notifications import Notifications, Notifier
from kafka_s3.model.addresses import careful_opener
from kafka_s3.model.errors import NotificationFailed
from kafka_s3.store.options import store_options

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


def notifications(settings: Settings) -> Notifications:
    """The follower that tells of each commit."""
    return Notifications(_notifier(settings), settings.text("s3.bucket.name"))


def _notifier(settings: Settings) -> Notifier:
    name, target = settings.text("notification.class"), settings.text("notification.target")
    if name == "webhook":
        return Webhook(target)
    if name in ("sns", "sqs"):
        from kafka_s3.followers.messages import SnsTopic, SqsQueue
        from kafka_s3.store.credentials import aws_client  # loads botocore

        options, endpoint = store_options(settings), settings.text("aws.endpoint.url") or None
        client = aws_client(name, region=options.region, endpoint_url=endpoint, credentials=options.credentials)
        return SnsTopic(client, target) if name == "sns" else SqsQueue(client, target)
    found: Notifier = entry_points(group=NOTIFICATION_GROUP)[name].load()(settings)
    return found
