"""How does a process use its threads?

Threads begin with the context variables of the thread that made them, as tasks of asyncio do: Python's own begin with none, and the log's
lines of a process with several sinks are to name the sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class ThreadPool(ThreadPoolExecutor):
    """A pool of at most so many threads that begin with the context of the pool's maker."""

    def __init__(self, most: int) -> None:
        super().__init__(most, initializer=_take_over, initargs=(copy_context(),))
        self._alone = most == 1

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """What `work` makes of each item, in order, side by side. One alone is done by the caller: a thread would cost as much.

        So are all where there is but one thread, each as it is asked for.
        """
        given = list(items)
        return map(work, given) if self._alone or len(given) == 1 else self.map(work, given)


def run_in_thread(work: Callable[[], R]) -> Future[R]:
    """What `work`, which is done by a thread with the caller's context, will come to. The process does not end before it has."""
    pool = ThreadPool(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future


def start_daemon(target: Callable[[], None], name: str) -> Thread:
    """A started thread, with the caller's context, that does not keep the process from ending."""
    thread = Thread(target=copy_context().run, args=(target,), name=name, daemon=True)
    thread.start()
    return thread


def run_in_daemon(work: Callable[[], R], name: str) -> Future[R]:
    """The same by a thread that does not keep the process from ending."""
    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # whoever asks for the result raises it
            future.set_exception(error)

    start_daemon(run, name)
    return future


def _take_over(context: Context) -> None:
    for variable, value in context.items():
        variable.set(value)
