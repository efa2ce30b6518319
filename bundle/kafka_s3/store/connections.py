"""How does an HTTP request reach S3, signed, and what comes back? By libcurl, which also signs it.

A request takes libcurl 0.1 ms of CPU; with botocore's signer, urllib3 and `http.client` it takes 0.7. Failures are raised as botocore's
errors, as for the requests of its client.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final

import pycurl
from botocore import exceptions as boto

from kafka_s3.model.addresses import is_metadata_service
from kafka_s3.model.errors import StorageError
from kafka_s3.store.store import Body, pieces_of

_UNTRUSTED: Final = frozenset(
    {
        pycurl.E_SSL_CONNECT_ERROR, pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CACERT_BADFILE, pycurl.E_SSL_CERTPROBLEM,
        pycurl.E_SSL_CIPHER, pycurl.E_SSL_ISSUER_ERROR, pycurl.E_SSL_INVALIDCERTSTATUS,
    }
)  # fmt: skip
_UNREACHED: Final = frozenset({pycurl.E_COULDNT_CONNECT, pycurl.E_COULDNT_RESOLVE_HOST})
_CLOSED: Final = frozenset(
    {
        pycurl.E_GOT_NOTHING, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR, pycurl.E_PARTIAL_FILE, pycurl.E_SEND_FAIL_REWIND,
    }
)  # fmt: skip
_NO_PROXY: Final = frozenset({pycurl.E_COULDNT_RESOLVE_PROXY, 97})
"""97 is libcurl's CURLE_PROXY, which pycurl has no name for."""
_LOGIN: Final = re.compile("//[^@/]*@")
OLDEST: Final = 0x080400
"""8.4 sorts and encodes a query as AWS does before it signs it."""
HALF_A_LOOK_S: Final = 0.5
"""libcurl lets look once a second whether something moves: so a time limit holds half a second early or late."""


@dataclass(frozen=True, slots=True)
class Signature:
    """By whose keys, for which region and service a request is signed (AWS Signature Version 4)."""

    region: str
    service: str
    access_key: str
    secret_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it goes out. Its headers are signed; `signature` is None for anonymous ones.

    `asks_first`: a body of more than 1 MiB waits for the answer to the headers (`Expect: 100-continue`).
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: Body
    user_agent: str
    signature: Signature | None
    asks_first: bool


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back; `headers` are found in any case of letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms connections are made: the file of trusted authorities, a proxy's URL by scheme, and how long is waited.

    `read_timeout_s` is how long nothing at all may move, half a second more or less.
    """

    authorities: str
    proxies: Mapping[str, str]
    connect_timeout_s: float
    read_timeout_s: float

    def proxy_of(self, url: str) -> str:
        """The proxy for a URL, blank for none."""
        return self.proxies.get(url.partition(":")[0], "")


@cache
def check_libcurl() -> None:
    """Raises StorageError where this process's libcurl does not sign requests as S3 wants them. Asked once."""
    found: Any = pycurl.version_info()
    version, number, protocols = found[1], found[2], found[8]
    if number < OLDEST or not hasattr(pycurl, "AWS_SIGV4") or "https" not in protocols:
        raise StorageError(
            f"pycurl uses libcurl {version}, which does not sign requests to S3 as they are made here: 8.4 or later with HTTPS is needed. "
            "Install pycurl from its wheel (pip install --force-reinstall --only-binary pycurl pycurl), which brings its own."
        )


class Connections:
    """Connections that are kept for the next requests, `most` of them at a time. Thread-safe; belongs to one process.

    Raises StorageError where libcurl is too old.
    """

    def __init__(self, terms: Terms, *, most: int) -> None:
        check_libcurl()
        self._terms = terms
        self._most = most
        self._idle: deque[_Connection] = deque()

    def send(self, asked: HttpRequest) -> HttpAnswer:
        """The answer, whatever its status. Raises botocore's errors of connections, time and certificates."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = _Connection(self._terms)
        try:
            answer = connection.send(asked)
        except BaseException:
            connection.close()
            raise
        if len(self._idle) < self._most:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


class _Connection:
    """One of libcurl's handles, which keeps its connection."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._lines: list[bytes] = []
        self._body: list[bytes] = []
        self._moved, self._since = 0, 0.0
        self._curl: Any = pycurl.Curl()
        for option, value in self._lasting().items():
            self._curl.setopt(option, value)

    def send(self, asked: HttpRequest) -> HttpAnswer:
        """The answer. Raises botocore's errors; the connection is not to be used again then."""
        self._lines.clear()
        self._body.clear()
        self._moved, self._since = 0, time.monotonic()
        self._prepare(asked)
        try:
            self._curl.perform()
        except pycurl.error as error:
            raised = getattr(sys, "last_value", None)  # where pycurl leaves what a signal's handler raised
            if error.args[0] == pycurl.E_ABORTED_BY_CALLBACK and raised is not None and not self._late():
                raise raised from None
            raise self._failure(asked.url, *error.args) from None
        self._curl.setopt(pycurl.READFUNCTION, bytes)  # a part of many megabytes would be held until the next request
        return HttpAnswer(self._curl.getinfo(pycurl.RESPONSE_CODE), _Headers(self._lines), b"".join(self._body))

    def close(self) -> None:
        self._curl.close()

    def _lasting(self) -> dict[int, Any]:
        """What holds for all requests."""
        terms = self._terms
        return {
            pycurl.NOSIGNAL: 1,
            pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
            pycurl.TCP_KEEPALIVE: 1,
            pycurl.CONNECTTIMEOUT_MS: int(terms.connect_timeout_s * 1000),
            pycurl.NOPROGRESS: 0,
            pycurl.XFERINFOFUNCTION: self._watch,
            pycurl.NOPROXY: "",
            pycurl.CAINFO: terms.authorities,
            pycurl.PROXY_CAINFO: terms.authorities,
            pycurl.SSLVERSION: pycurl.SSLVERSION_TLSv1_2,
            pycurl.ACCEPT_ENCODING: "identity",
            pycurl.HTTP_CONTENT_DECODING: 0,  # an object is its bytes, whatever its writer said of their encoding
            pycurl.UPLOAD_BUFFERSIZE: 1 << 19,
            pycurl.OPENSOCKETFUNCTION: _opened,
            pycurl.HEADERFUNCTION: self._lines.append,
            pycurl.WRITEFUNCTION: self._body.append,
        }

    def _prepare(self, asked: HttpRequest) -> None:
        curl, signature = self._curl, asked.signature
        curl.setopt(pycurl.URL, asked.url)
        curl.setopt(pycurl.PROXY, self._terms.proxy_of(asked.url))
        curl.setopt(pycurl.USERAGENT, asked.user_agent)
        unwanted = ["Accept:", "Content-Type:", *([] if asked.asks_first else ["Expect:"])]
        curl.setopt(pycurl.HTTPHEADER, [*(f"{name}: {text}" for name, text in asked.headers.items()), *unwanted])
        curl.setopt(pycurl.HTTPGET, 1)
        if asked.method == "HEAD":
            curl.setopt(pycurl.NOBODY, 1)
        elif asked.method != "GET":
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(asked.body))
            # not as POSTFIELDS: libcurl would send them again by itself where a kept connection breaks, a completion twice
            curl.setopt(pycurl.READFUNCTION, _Pieces(asked.body).read)
        curl.setopt(pycurl.CUSTOMREQUEST, asked.method)
        if signature is not None:
            curl.setopt(pycurl.AWS_SIGV4, f"aws:amz:{signature.region}:{signature.service}")
            curl.setopt(pycurl.USERNAME, signature.access_key)
            curl.setopt(pycurl.PASSWORD, signature.secret_key)

    def _watch(self, _to_receive: int, received: int, _to_send: int, sent: int) -> int:
        """Asked by libcurl whenever something moved, and each second: ends what does not move. Python handles signals here, too."""
        if received + sent != self._moved:
            self._moved, self._since = received + sent, time.monotonic()
            return 0
        return int(self._late())

    def _late(self) -> bool:
        return time.monotonic() - self._since + HALF_A_LOOK_S > self._terms.read_timeout_s

    def _failure(self, url: str, code: int, text: str) -> Exception:
        """Botocore's error for one of libcurl's."""
        proxy = self._terms.proxy_of(url)
        if code in _NO_PROXY or (proxy and (code == pycurl.E_COULDNT_CONNECT or "CONNECT" in text)):
            return boto.ProxyConnectionError(proxy_url=_LOGIN.sub("//***:***@", proxy), error=text)
        kinds: list[tuple[bool, Callable[..., Exception]]] = [
            (code in _UNREACHED, boto.EndpointConnectionError),
            (code == pycurl.E_OPERATION_TIMEDOUT, boto.ConnectTimeoutError),
            (code == pycurl.E_ABORTED_BY_CALLBACK, boto.ReadTimeoutError),
            (code in _UNTRUSTED, boto.SSLError),
            (code in _CLOSED, boto.ConnectionClosedError),
        ]
        kind = next((kind for holds, kind in kinds if holds), None)
        return kind(endpoint_url=url, error=text) if kind else boto.HTTPClientError(error=f"{text} ({url})")


class _Pieces:
    """Content that is read while it is sent."""

    def __init__(self, body: Body) -> None:
        self._pieces = pieces_of(body)
        self._rest = memoryview(b"")

    def read(self, most: int) -> bytes:
        """What libcurl asks for: the next bytes, at most so many; none at the end. Small pieces come together."""
        found, size = list[memoryview](), 0
        while size < most:
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._rest = memoryview(piece)
            found.append(self._rest[: most - size])
            self._rest = self._rest[len(found[-1]) :]
            size += len(found[-1])
        return bytes(found[0]) if len(found) == 1 else b"".join(found)


class _Headers(Mapping[str, str]):
    """Headers by their names, in any case of letters; taken apart when somebody asks for one.

    They are those of the last answer: one that asks for the body, or a proxy's own, comes before it.
    """

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._text = b"".join(lines)

    @cached_property
    def _found(self) -> dict[str, str]:
        text = self._text.decode("latin-1")
        lines = (line.partition(":") for line in text[text.rfind("\nHTTP/") + 1 :].split("\n"))
        return {name.lower(): value.strip() for name, colon, value in lines if colon}

    def __getitem__(self, name: str) -> str:
        return self._found[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class _Socket(socket.socket):
    """libcurl takes a copy of its descriptor; this one is closed as soon as nobody holds it, and Python has nothing to warn of."""

    def __del__(self) -> None:
        self.close()


def _opened(_purpose: int, address: Any) -> Any:
    """A socket for an address that a name has led to; none for a cloud's metadata service."""
    if is_metadata_service(str(address.addr[0])):
        return pycurl.SOCKET_BAD
    return _Socket(address.family, address.socktype, address.protocol)
