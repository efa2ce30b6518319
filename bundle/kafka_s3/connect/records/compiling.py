"""How do loops over bytes become machine code? By numba, when their module is imported: once per process, and kept on disk where it can be.

The code lies beside its module or in the user's cache folder, where one of them can be written; a process that forks hands it on. Numba
takes kept code for fresh while the function's own file is the same. But it inlines functions and constants of other modules, so the
sources of those count, too.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numba as nb
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

PACKAGE: Final = "kafka_s3"
BYTE_ARRAY: Final = "Array(uint8, 1, 'C', True)"
BOUND_ARRAY: Final = "Array(int32, 1, 'C', True)"
"""In signatures: arrays that may be of Arrow, which nobody may write into."""


def compiled(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compiles a function of numbers and arrays at once, for these types; other threads of Python run while it does."""
    return partial(_compiled, signature, inline=False)


def inlined(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compiles a function into each one that calls it: a call takes as long as a few bytes, and counts references to every array.

    Python cannot call it.
    """
    return partial(_compiled, signature, inline=True)


def _compiled(signature: str, function: Callable[..., Any], *, inline: bool) -> Any:
    options = {"nogil": True, "forceinline": inline, "no_cpython_wrapper": inline, "no_cfunc_wrapper": True}
    try:
        dispatcher = nb.njit(cache=True, **options)(function)
        _stamp_with_imports(dispatcher, function.__module__)
    except (
        RuntimeError,
        OSError,
        AttributeError,
    ):  # nothing can be written, or this numba keeps its code in another way
        return nb.njit(signature, **options)(function)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher


def compiled_callback(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compiles a function that C calls, on any thread and without Python's lock; it inlines no other module. It begins at `.address`."""

    def compile_now(function: Callable[..., Any]) -> Any:
        try:
            return nb.cfunc(signature, cache=True)(function)
        except (RuntimeError, OSError):
            return nb.cfunc(signature)(function)

    return compile_now


def _stamp_with_imports(dispatcher: Any, module: str) -> None:
    """Makes the sources of all modules that a loop's module imports part of what its kept code has to agree with."""
    kept = dispatcher._cache._cache_file  # numba has no public name for it
    kept._source_stamp = (kept._source_stamp, source_digest(module))


@cache
def source_digest(module: str) -> str:
    """A hash over the sources of a module and of all modules of this package that it imports, directly or not."""
    digest = hashlib.sha256()
    for name, path in sorted(_sources(module, {}).items()):
        digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _sources(module: str, found: dict[str, Path]) -> dict[str, Path]:
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is not None and module not in found:
        found[module] = Path(path)
        for name in _imported(Path(path)):
            _sources(name, found)
    return found


def _imported(path: Path) -> Iterator[str]:
    """Names that may be modules of this package which a source imports."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)


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


SPAN: Final = 32
"""The bytes that are looked at in one instruction where the processor has it, in a few where it has not."""


def bytes_before(*ranges: tuple[int, int]) -> Any:
    """How many of the `SPAN` bytes from an address on come before one that is in a range, for compiled functions; `SPAN` where none is.

    C's strcspn without a loop, so that no branch is guessed wrongly. All of these bytes have to be readable. A range includes both ends,
    and may go from a high byte beyond 0xFF to a low one.
    """

    def typed(_context: Any, _address: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            byte, mask = ir.IntType(8), ir.IntType(SPAN)
            vector = ir.VectorType(byte, SPAN)

            def everywhere(number: int) -> Any:
                return ir.Constant(vector, [ir.Constant(byte, number & 0xFF)] * SPAN)

            loaded = builder.load(builder.inttoptr(arguments[0], vector.as_pointer()))
            loaded.align = 1
            found = ir.Constant(mask, 0)
            for first, last in ranges:
                within = builder.icmp_unsigned("<=", builder.sub(loaded, everywhere(first)), everywhere(last - first))
                found = builder.or_(found, builder.bitcast(within, mask))
            return builder.zext(builder.cttz(found, ir.Constant(ir.IntType(1), 0)), ir.IntType(64))

        return types.int64(types.int64), generate

    return intrinsic(typed)


byte_at = _load(types.uint8, types.int64)
"""The byte at an address, for compiled functions. An array's element costs twice as much: its place might be counted from the end."""
word_at = _load(types.uint64, types.uint64)
"""The eight bytes from an address on as one number, in the machine's order, for compiled functions."""
long_at = _load(types.int64, types.int64)
"""The eight bytes from an address on as a signed number, for compiled functions."""
put_long = _store(types.int64)
"""Writes eight bytes to an address, for compiled functions."""
put_int = _store(types.int32)
"""Writes four bytes to an address, for compiled functions."""
put_byte = _store(types.uint8)
"""Writes a byte to an address, for compiled functions."""
copy_bytes = types.ExternalFunction("memcpy", types.int64(types.int64, types.int64, types.int64))
"""C's memcpy for compiled functions: to an address, from an address, so many bytes."""
