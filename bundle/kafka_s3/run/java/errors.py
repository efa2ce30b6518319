"""What can go wrong with the services that the demo and the tests start themselves?"""

from __future__ import annotations

from kafka_s3.model.errors import SinkError


class LocalServiceError(SinkError):
    """Java, a download or a local server is missing or did not start; the text says what to install or where to look."""
