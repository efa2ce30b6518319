"""What libcurl's connections do that a store's requests do not show: time limits, signals, and what is kept."""

from __future__ import annotations

import signal
import threading

import pytest
from botocore import exceptions as boto

from kafka_s3.store.connections import Connections, HttpRequest, Terms

TERMS = Terms("", {}, 5, 1)


def asked(url: str, body: bytes = b"") -> HttpRequest:
    return HttpRequest("PUT", f"{url}/a", {}, body, "test", None, asks_first=False)


def test_an_answer_that_never_comes_is_waited_for_as_long_as_is_configured(relay) -> None:
    over = threading.Event()
    relay.script.append(lambda handler, seen: over.wait(60))
    connections = Connections(TERMS, most=1)
    with pytest.raises(boto.ReadTimeoutError, match=relay.url):
        connections.send(asked(relay.url, b"x" * 100_000))
    over.set()
    relay.answer(200)
    assert connections.send(asked(relay.url)).status == 200, "over another connection"
    connections.close()


def test_a_signal_ends_the_wait_for_an_answer(relay) -> None:
    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    over, before = threading.Event(), signal.signal(signal.SIGUSR1, stop)
    main = threading.main_thread().ident
    relay.script.append(lambda handler, seen: (signal.pthread_kill(main, signal.SIGUSR1), over.wait(60)))
    try:
        with pytest.raises(Stopped):
            Connections(Terms("", {}, 5, 60), most=1).send(asked(relay.url))
    finally:
        over.set()
        signal.signal(signal.SIGUSR1, before)


def test_connections_are_used_again_and_no_more_are_kept_than_was_configured(relay) -> None:
    connections = Connections(TERMS, most=1)
    both = threading.Barrier(2)
    relay.script.extend([lambda handler, seen: (both.wait(30), handler.reply(200, b"", {}))] * 2)
    threads = [threading.Thread(target=connections.send, args=(asked(relay.url),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(connections._idle) == 1

    peers = set()
    relay.script.extend([lambda handler, seen: (peers.add(handler.client_address), handler.reply(200, b"", {}))] * 3)
    for _ in range(3):
        connections.send(asked(relay.url))
    assert len(peers) == 1
    connections.close()
