"""Test of the one heap of a worker."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

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
