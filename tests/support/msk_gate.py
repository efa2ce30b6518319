"""Amazon MSK's door in front of a broker of ours: logs clients in by signed IAM tokens, then passes their bytes on.

It does what MSK does with the OAUTHBEARER of Amazon's signers: takes the signed URL out of the token and signs it again with the
secret key of the access key that it names. A wrong secret, region, action or an old token is refused, as by the real one. Requests
before the login other than for versions close the connection.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import socket
import struct
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Self
from urllib.parse import parse_qsl, quote, urlsplit

VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
REFUSED: Final = 58
"""`SASL_AUTHENTICATION_FAILED`"""
MECHANISM: Final = b"OAUTHBEARER"


class MskGate:
    """A listener on this machine in front of a plain one at `broker`; a context manager. `keys` are secret keys by access key.

    `logins` lists the access keys that got in, `refusals` why others did not.
    """

    def __init__(self, keys: Mapping[str, str], *, region: str, port: int, broker: tuple[str, int]) -> None:
        self.logins: list[str] = []
        self.refusals: list[str] = []
        self._keys = dict(keys)
        self._region = region
        self._broker = broker
        self._server = socket.create_server(("127.0.0.1", port))

    def __enter__(self) -> Self:
        """The open door."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it; connections that are open end with their clients."""
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), client, socket.create_connection(self._broker) as broker:
            if self._log_in(client, broker):
                threading.Thread(target=_pass_on, args=(broker, client), daemon=True).start()
                _pass_on(client, broker)

    def _log_in(self, client: socket.socket, broker: socket.socket) -> bool:
        while True:
            frame = _frame(client)
            kind, _version, number = struct.unpack(">hhi", frame[:8])
            body = frame[10 + max(0, struct.unpack(">h", frame[8:10])[0]) :]
            if kind == VERSIONS:
                broker.sendall(_packed(frame))
                client.sendall(_packed(_frame(broker)))
            elif kind == HANDSHAKE:
                client.sendall(_packed(struct.pack(">ihih", number, 0, 1, len(MECHANISM)) + MECHANISM))
            elif kind == AUTHENTICATE:
                return self._authenticate(client, number, body)
            else:
                return False

    def _authenticate(self, client: socket.socket, number: int, body: bytes) -> bool:
        text = body[4 : 4 + struct.unpack(">i", body[:4])[0]].decode()
        token = text.split("\x01")[1].removeprefix("auth=Bearer ")
        reason = refusal(token, keys=self._keys, region=self._region)
        if reason is None:
            key = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode().split("X-Amz-Credential=")[1]
            self.logins.append(key.split("%2F")[0])
            client.sendall(_packed(struct.pack(">ihhi", number, 0, -1, 0) + struct.pack(">q", 0)))
            return True
        self.refusals.append(reason)
        said = b"Access denied"
        client.sendall(_packed(struct.pack(">ihh", number, REFUSED, len(said)) + said + struct.pack(">iq", 0, 0)))
        return False


def refusal(token: str, *, keys: Mapping[str, str], region: str) -> str | None:
    """Why a token is refused in a region where these keys are known; None: it is good."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = dict(parse_qsl(url.query))
    key, day, signed_for, service, _ = query["X-Amz-Credential"].split("/")
    began = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if (url.hostname, signed_for, service) != (f"kafka.{region}.amazonaws.com", region, "kafka-cluster"):
        return f"signed for {service} in {signed_for}"
    if query["Action"] != "kafka-cluster:Connect" or not 0 < int(query["X-Amz-Expires"]) <= 900:
        return "another action, or too long a life"
    if time.time() > began.timestamp() + int(query["X-Amz-Expires"]):
        return "out of date"
    if key not in keys:
        return f"unknown access key {key}"
    signed = _signature(query, host=str(url.hostname), secret=keys[key], scope=(day, region, service))
    return None if hmac.compare_digest(signed, query["X-Amz-Signature"]) else "wrong signature"


def _signature(query: Mapping[str, str], *, host: str, secret: str, scope: tuple[str, str, str]) -> str:
    """Version 4 of AWS's signatures of a URL, written down from its specification."""
    covered = {name: value for name, value in query.items() if name not in ("X-Amz-Signature", "User-Agent")}
    canonical = "&".join(f"{quote(name, safe='')}={quote(covered[name], safe='')}" for name in sorted(covered))
    request = f"GET\n/\n{canonical}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    credential = "/".join((*scope, "aws4_request"))
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{covered['X-Amz-Date']}\n{credential}\n{hashed}"
    key = f"AWS4{secret}".encode()
    for part in (*scope, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _frame(source: socket.socket) -> bytes:
    return _exactly(source, struct.unpack(">i", _exactly(source, 4))[0])


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _packed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
