"""How do threads know whose work they do? They begin with the context variables of the thread that made them, as tasks of asyncio do.

Python's own threads begin with none, and the log's lines of a process with several sinks are to name the sink.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from threading import Thread


class ThreadPool(ThreadPoolExecutor):
    """A pool of at most so many threads that begin with the context of the pool's maker."""

    def __init__(self, most: int) -> None:
        super().__init__(most, initializer=_take_over, initargs=(copy_context(),))


def beside(target: Callable[[], None], name: str) -> Thread:
    """A started thread, with the caller's context, that does not keep the process from ending."""
    thread = Thread(target=copy_context().run, args=(target,), name=name, daemon=True)
    thread.start()
    return thread


def _take_over(context: Context) -> None:
    for variable, value in context.items():
        variable.set(value)
