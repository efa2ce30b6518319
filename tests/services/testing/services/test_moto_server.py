"""Does one of several clients win, that put an object at the same moment on condition that it is not there yet?"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from kafka_s3_testing.services.moto_server import AtomicConditions


class LooksThenWrites:
    """A WSGI application as moto is one: between its look and its write is time for another request."""

    def __init__(self) -> None:
        self.written = 0
        self.together = threading.Barrier(2)

    def __call__(self, environ, start_response) -> Iterable[bytes]:
        if "HTTP_IF_NONE_MATCH" not in environ:
            self.together.wait(timeout=30)
            return [b"201"]
        free = not self.written
        time.sleep(0.01)
        self.written += free
        return [b"201" if free else b"412"]


def test_conditional_requests_come_one_after_the_other() -> None:
    moto = LooksThenWrites()
    application = AtomicConditions(moto)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: application({"HTTP_IF_NONE_MATCH": "*"}, None), range(8)))

    assert moto.written == 1
    assert sorted(answers) == [[b"201"], *[[b"412"]] * 7]


def test_other_requests_are_served_side_by_side() -> None:
    application = AtomicConditions(LooksThenWrites())
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: application({}, None), range(2)))

    assert answers == [[b"201"], [b"201"]]
