"""What leaves memory for local disk when open files hold more than the task may?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kafka_s3.engine.open_files.open_files import OpenFiles, Output
from kafka_s3.engine.open_files.small_files import ENTRY_BYTES
from kafka_s3.engine.open_files.spill import SpillFile
from kafka_s3.model.process import give_memory_back

LARGE: Final = 1 << 20
"""Bytes of a file that are worth a file on local disk of their own."""
FILE_BYTES: Final = 1 << 10
"""What Python takes for an open file beside its content."""


def held_at_most(memory: int) -> int:
    """Of so many bytes for a task those that may wait in memory; the rest is for the batch in work, its bad records, and room to grow."""
    return memory * 2 // 5


def release_largest(several: Collection[OpenFiles], output: Output) -> None:
    """Where files hold more than the task's budget, those that hold most are encoded and spilled first, down to half of it.

    Before them the small ones, also where they hold a quarter of it: their lines are written in one go.

    What holds much has a file of its own on local disk, for that is gone as soon as its part is sent; the others share one.
    """
    held = [(file.memory(), file) for one in several for file in one.files.values()]
    small, entries = sum(one.small.memory() for one in several), sum(len(one.small) for one in several)
    total = small + sum(size for size, _ in held)
    beside = len(held) * FILE_BYTES + entries * ENTRY_BYTES
    budget = max(held_at_most(output.memory) - beside, output.memory // 4)
    if total > budget or small > budget // 4:
        for one in several:
            one.small.release(output.folder)
        total -= small
    if len(held) < 2 or total <= budget:
        return
    shared = SpillFile(output.folder)
    for size, file in sorted(held, key=lambda one: -one[0]):
        file.release(SpillFile(output.folder) if size >= LARGE else shared)
        total -= size
        if total <= budget // 2:
            break
    give_memory_back()
