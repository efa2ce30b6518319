"""What freed memory does a process keep?"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_s3.connect.records import heap

KEEPER = """
import pyarrow as pa
from kafka_s3.connect.records import heap

MIB = 1 << 20

def given_back(blocks):
    # every other block stays, so that what is freed lies between
    held = [pa.allocate_buffer(MIB) for _ in range(blocks)]
    for one in held:
        memory = memoryview(one)
        for at in range(0, MIB, 4096):
            memory[at] = 1
        del memory
    del held[::2], one
    before = heap._held_bytes()
    heap.give_memory_back()
    return (before - heap._held_bytes()) // MIB

heap.keep_memory()
print(pa.default_memory_pool().backend_name, given_back(100), given_back(400))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the heap is not glibc's")
def test_what_arrow_frees_is_kept_with_the_rest_and_given_back_once_it_is_much() -> None:
    done = subprocess.run([sys.executable, "-c", KEEPER], capture_output=True, text=True, check=True)
    pool, few, many = done.stdout.split()
    assert pool == "system"
    assert int(few) == 0
    assert int(many) > 150


def test_where_the_system_does_not_say_what_a_process_holds_its_tasks_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap, "STATUS", tmp_path / "hidden")
    monkeypatch.setattr(heap, "_clean_bytes", heap._held_bytes())
    heap.give_memory_back()
    assert heap._clean_bytes == 0
