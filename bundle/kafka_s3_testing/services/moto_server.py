"""moto's server, whose conditional puts are atomic as those of S3 are. Run as a program: `python -P moto_server.py HOST PORT`.

moto looks for the object and writes it in two steps, and several threads serve it: of two drivers that claim one entry of the log at the
same moment, both would get the answer that the entry is theirs.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class AtomicConditions:
    """A WSGI application that serves conditional requests one after the other, all others as they come."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """The application's answer. moto has done all of its work when it returns one."""
        if "HTTP_IF_NONE_MATCH" not in environ and "HTTP_IF_MATCH" not in environ:
            return self._application(environ, start_response)
        with self._lock:
            return self._application(environ, start_response)


def server(host: str, port: int) -> BaseWSGIServer:
    """A server that listens already, by a thread for each connection; port 0 takes a free one."""
    application = AtomicConditions(DomainDispatcherApplication(create_backend_app))
    return make_server(host, port, application, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server(sys.argv[1], int(sys.argv[2])).serve_forever()
