"""How do loops over bytes become machine code? By numba, when their module is imported: once per process, and kept on disk where it can be.

The code lies beside its module or in the user's cache folder, where one of them can be written; a process that forks hands it on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb
from numba import types
from numba.extending import intrinsic


def compiled(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compiles a function of numbers and arrays at once, for these types; other threads of Python run while it does."""

    def compile_now(function: Callable[..., Any]) -> Any:
        try:
            return nb.njit(signature, nogil=True, cache=True)(function)
        except (RuntimeError, OSError):  # neither the code's folder nor the user's cache can be written
            return nb.njit(signature, nogil=True)(function)

    return compile_now


def _load(code: types.Integer, result: types.Integer) -> Any:
    def typed(_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(code)))
            loaded = builder.load(pointer)
            loaded.align = 1
            return context.cast(builder, loaded, code, result)

        return result(types.int64), generate

    return intrinsic(typed)


def _store(code: types.Integer) -> Any:
    def typed(_context: Any, _address: Any, _number: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(code)))
            builder.store(context.cast(builder, arguments[1], types.int64, code), pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return intrinsic(typed)


byte_at = _load(types.uint8, types.int64)
"""The byte at an address, for compiled functions. An array's element costs twice as much: its place might be counted from the end."""
word_at = _load(types.uint64, types.uint64)
"""The eight bytes from an address on as one number, in the machine's order, for compiled functions."""
long_at = _load(types.int64, types.int64)
"""The eight bytes from an address on as a signed number, for compiled functions."""
put_long = _store(types.int64)
"""Writes eight bytes to an address, for compiled functions."""
put_byte = _store(types.uint8)
"""Writes a byte to an address, for compiled functions."""
copy_bytes = types.ExternalFunction("memcpy", types.int64(types.int64, types.int64, types.int64))
"""C's memcpy for compiled functions: to an address, from an address, so many bytes."""
