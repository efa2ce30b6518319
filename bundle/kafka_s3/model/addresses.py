"""To which hosts does the product never speak, whatever a configuration says?

Whoever answers at a cloud's metadata service hands out the machine's own credentials. A configuration may be written by somebody who must
not have them, and no bucket, proxy, registry, webhook or service is reached by such an address: not as it is written, not by a name that
leads to one, and not by a redirect.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import unicodedata
import urllib.request
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

IpAddress: TypeAlias = IPv4Address | IPv6Address

METADATA_HOSTS: Final = frozenset(
    {"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"}
)
METADATA_ADDRESSES: Final = frozenset(
    map(
        ip_address,
        ("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
    )
)
"""What is not link-local: AWS (machines, pods), Google, Alibaba, Oracle, Azure."""
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = IPv6Network("::/96")


class ForbiddenAddress(OSError):
    """A name leads to a link-local address or a cloud's metadata service."""


def is_metadata_service(host: str) -> bool:
    """Whether a URL's host is a link-local address or a cloud's metadata service, however it is spelt."""
    name = _plain(host)
    found = address_of(name)
    if found is None:
        return name in METADATA_HOSTS
    return any(address.is_link_local or address in METADATA_ADDRESSES for address in (found, *_inner(found)))


def check_host(host: str) -> None:
    """Raises ForbiddenAddress where a host is, or its name leads to, what is never spoken to. A name that nobody knows leads nowhere."""
    try:
        found = {str(answer[4][0]) for answer in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        found = set()
    wrong = next((one for one in (host, *sorted(found)) if is_metadata_service(one)), None)
    if wrong is not None:
        raise ForbiddenAddress(f"{host} leads to {wrong}, a link-local address or a cloud's metadata service")


def check_url(url: str) -> None:
    """The same for the host of a URL."""
    check_host(urlsplit(url).hostname or "")


class _Connection(http.client.HTTPConnection):
    def connect(self) -> None:
        check_host(self.host)
        super().connect()
        _check_peer(self.sock)


class _SecureConnection(http.client.HTTPSConnection):
    def connect(self) -> None:
        check_host(self.host)
        super().connect()
        _check_peer(self.sock)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req, context=ssl.create_default_context())


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def careful_opener() -> urllib.request.OpenerDirector:
    """What asks addresses that a configuration names: it follows no redirect, and speaks to no metadata service."""
    return urllib.request.build_opener(_Http, _Https, _NoRedirects)


def _check_peer(connection: socket.socket) -> None:
    """Before anything is sent: the name may have led elsewhere a moment ago."""
    peer = str(connection.getpeername()[0])
    if is_metadata_service(peer):
        connection.close()
        raise ForbiddenAddress(f"{peer} is a link-local address or a cloud's metadata service")


def address_of(host: str) -> IpAddress | None:
    """The address that a host is, in any spelling that the system takes (`0xa9fea9fe` is one); None for a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host)) if host[:1].isdigit() else None
    except (OSError, UnicodeError):
        return None


def _plain(host: str) -> str:
    """The host as a resolver sees it: percent-encoding, wide letters and dots of other scripts undone."""
    return unicodedata.normalize("NFKC", unquote(host)).replace("。", ".").rstrip(".").lower()


def _inner(address: IpAddress) -> tuple[IpAddress, ...]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv4Address):
        return ()
    last = (IPv4Address(int(address) & 0xFFFFFFFF),) if address in _TRANSLATED or address in _COMPATIBLE else ()
    return (*last, *(inner for inner in (address.ipv4_mapped, address.sixtofour) if inner is not None))
