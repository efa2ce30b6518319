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

DAEMON = """
import ctypes, io, sys, threading, types
from kafka_s3.run.spark import daemon

def serve():
    import pyarrow as pa, pyarrow.parquet as pq

    rows = pa.table({"text": [str(n) for n in range(100_000)]})
    threads = [threading.Thread(target=pq.write_table, args=(rows, io.BytesIO())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    libc = ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
    libc.fflush(None)
    others = [getattr(pa, f"{name}_memory_pool")() for name in pa.supported_memory_backends() if name != "system"]
    print("others", sum(pool.max_memory() for pool in others))

sys.modules["pyspark.daemon"] = types.SimpleNamespace(manager=serve)
daemon.main()
"""


of_glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the heap is not glibc's")


@of_glibc
def test_workers_of_a_daemon_have_one_arena_and_arrow_no_heap_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", DAEMON], capture_output=True, text=True, check=True)
    assert done.stdout.count("<heap nr=") == 1
    assert done.stdout.endswith("others 0\n")


@of_glibc
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
