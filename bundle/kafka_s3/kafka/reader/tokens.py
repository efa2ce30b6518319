"""How does librdkafka's consumer get tokens that are signed here? It asks, on a thread of its own, when it begins and before one ends."""

from __future__ import annotations

import ctypes
from typing import Any

from kafka_s3.kafka.iam import IamLogin
from kafka_s3.kafka.reader import library
from kafka_s3.model.errors import SourceError

PRINCIPAL = b"kafka-s3"
"""For librdkafka's own book-keeping: the broker takes the caller's name from the signature."""


def token_callback(login: IamLogin) -> Any:
    """What librdkafka calls for a token; whoever hands it over keeps it. Raises SourceError where no token can be signed now."""
    login.token()

    def wanted(client: int, _config: bytes, _unused: int) -> None:
        try:
            token = login.token()
        except SourceError as error:
            library.set_token_failure(client, str(error).encode())
            return
        text = ctypes.create_string_buffer(library.TEXT_BYTES)
        signed = token.text.reveal().encode()
        if library.set_token(client, signed, token.ends_ms, PRINCIPAL, None, 0, text, library.TEXT_BYTES):
            library.set_token_failure(client, text.value)

    return library.TOKEN_WANTED(wanted)
