"""How do Arrow tables travel between processes? As streams of Arrow's own, compressed."""

from __future__ import annotations

import pyarrow as pa


def stream_of(table: pa.Table) -> bytes:
    """The table with its types, nulls and number of rows, as a stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    content: bytes = sink.getvalue().to_pybytes()
    return content


def table_of(content: bytes) -> pa.Table:
    """The table of a stream. Raises ArrowInvalid where it is none."""
    return pa.ipc.open_stream(content).read_all()
