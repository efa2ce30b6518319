"""Amazon MSK's door in front of a broker of ours: logs clients in by signed IAM tokens, then passes their bytes on.

It does what MSK does with the OAUTHBEARER of Amazon's signers, and with the AWS_MSK_IAM of its Java module: takes the signed request out of
what it is sent and signs it again with the secret key of the access key that it names. A wrong secret, region, action or an old request is
refused, as by the real one. Requests before the login other than for versions close the connection.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
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
OAUTHBEARER, IAM = b"OAUTHBEARER", b"AWS_MSK_IAM"
PAYLOAD_VERSION: Final = "2020_10_22"
"""Of what Amazon's Java module sends and is answered."""
FLEXIBLE: Final = 2
"""The first version of SaslAuthenticate with compact forms."""


class MskGate:
    """A listener on this machine in front of a plain one at `broker`; a context manager. `keys` are secret keys by access key.

    `logins` lists the access keys that got in, `by_java` those of them by AWS_MSK_IAM, `refusals` why others did not.
    """

    def __init__(self, keys: Mapping[str, str], *, region: str, port: int, broker: tuple[str, int]) -> None:
        self.logins: list[str] = []
        self.by_java: list[str] = []
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
        mechanism = b""
        while True:
            frame = _frame(client)
            kind, version, number = struct.unpack(">hhi", frame[:8])
            body = frame[10 + max(0, struct.unpack(">h", frame[8:10])[0]) :]
            if kind == VERSIONS:
                broker.sendall(_packed(frame))
                client.sendall(_packed(_frame(broker)))
            elif kind == HANDSHAKE:
                mechanism = body[2:]
                known = b"".join(struct.pack(">h", len(name)) + name for name in (OAUTHBEARER, IAM))
                client.sendall(_packed(struct.pack(">ihi", number, 0, 2) + known))
            elif kind == AUTHENTICATE:
                sent = _compact(body[1:]) if version >= FLEXIBLE else body[4 : 4 + struct.unpack(">i", body[:4])[0]]
                answer = self._judged(sent, mechanism)
                client.sendall(_packed(_answered(number, answer, flexible=version >= FLEXIBLE)))
                return answer is not None
            else:
                return False

    def _judged(self, sent: bytes, mechanism: bytes) -> bytes | None:
        """What a client that gets in is sent, None where it does not."""
        if mechanism == IAM:
            query = {_titled(name): value for name, value in json.loads(sent).items()}
            host, answer = query["Host"], json.dumps({"version": PAYLOAD_VERSION, "request-id": "1"}).encode()
        else:
            query, host = signed_request(sent.decode().split("\x01")[1].removeprefix("auth=Bearer "))
            answer = b""
            if host != f"kafka.{self._region}.amazonaws.com":
                self.refusals.append(f"signed for {host}")
                return None
        reason = refusal(query, host=host, keys=self._keys, region=self._region)
        if reason is not None:
            self.refusals.append(reason)
            return None
        key = query["X-Amz-Credential"].split("/")[0]
        self.logins.append(key)
        self.by_java += [key] if mechanism == IAM else []
        return answer


def signed_request(token: str) -> tuple[dict[str, str], str]:
    """The query of the signed URL in a token, and its host."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return dict(parse_qsl(url.query)), str(url.hostname)


def refusal(query: Mapping[str, str], *, host: str, keys: Mapping[str, str], region: str) -> str | None:
    """Why a signed request to this host is refused in a region where these keys are known; None: it is good."""
    key, day, signed_for, service, _ = query["X-Amz-Credential"].split("/")
    began = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if (signed_for, service) != (region, "kafka-cluster"):
        return f"signed for {service} in {signed_for}"
    if query["Action"] != "kafka-cluster:Connect" or not 0 < int(query["X-Amz-Expires"]) <= 900:
        return "another action, or too long a life"
    if time.time() > began.timestamp() + int(query["X-Amz-Expires"]):
        return "out of date"
    if key not in keys:
        return f"unknown access key {key}"
    signed = _signature(query, host=host, secret=keys[key], scope=(day, region, service))
    return None if hmac.compare_digest(signed, query["X-Amz-Signature"]) else "wrong signature"


def _signature(query: Mapping[str, str], *, host: str, secret: str, scope: tuple[str, str, str]) -> str:
    """Version 4 of AWS's signatures of a URL, written down from its specification."""
    covered = {name: value for name, value in query.items() if name == "Action" or name.startswith("X-Amz-")}
    covered.pop("X-Amz-Signature")
    canonical = "&".join(f"{quote(name, safe='')}={quote(covered[name], safe='')}" for name in sorted(covered))
    request = f"GET\n/\n{canonical}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    credential = "/".join((*scope, "aws4_request"))
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{covered['X-Amz-Date']}\n{credential}\n{hashed}"
    key = f"AWS4{secret}".encode()
    for part in (*scope, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _titled(name: str) -> str:
    """A name of a signed URL: Amazon's Java module writes them in small letters, and those of the signature without hyphens."""
    title = "-".join(part.capitalize() for part in name.split("-"))
    return title.replace("Signedheaders", "SignedHeaders")


def _compact(field: bytes) -> bytes:
    """Compact bytes: a varint of their number and one, then themselves."""
    size, shift, at = 0, 0, 0
    while True:
        size |= (field[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if field[at - 1] < 0x80:
            return field[at : at + size - 1]


def _answered(number: int, answer: bytes | None, *, flexible: bool) -> bytes:
    """The answer to a login, which lives for ever; None is a refusal."""
    code, text, shown = (REFUSED, b"Access denied", b"") if answer is None else (0, None, answer)
    if flexible:  # lengths and one, of texts that are short; and no tagged fields
        message = b"\0" if text is None else bytes([len(text) + 1]) + text
        return (
            struct.pack(">iBh", number, 0, code) + message + bytes([len(shown) + 1]) + shown + struct.pack(">qB", 0, 0)
        )
    message = struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text
    return struct.pack(">ih", number, code) + message + struct.pack(">i", len(shown)) + shown + struct.pack(">q", 0)


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
