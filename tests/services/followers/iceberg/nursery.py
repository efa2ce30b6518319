"""Starts drivers of one sink as processes that can be killed: `python -m tests.services.followers.iceberg.nursery BUCKET ENDPOINT FOLDER`.

What they need is loaded once; each line of standard input makes one, and its process id comes back. `run` goes on until it is killed, or
another driver has taken over; `drain` works all off, then writes FOLDER/<process id>.done. The records that there are is a number in
FOLDER/sent: all drivers see the same ones.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from pathlib import Path

from kafka_s3.model.errors import Fenced
from kafka_s3.model.files import Reason
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store
from tests.support.iceberg_world import IcebergWorld, bucket_settings

PAUSE_S = 0.02


def killed_world(bucket: str, endpoint: str, folder: Path) -> IcebergWorld:
    """The sink as one process sees it, by the clock of this machine."""
    world = IcebergWorld(folder, **bucket_settings(endpoint, bucket), **{"flush.size": "3"})
    world.now = now_ms()
    world.store = world.kafka.store = S3Store(store_options(world.settings))
    return world


def more_records(world: IcebergWorld, sent: Path) -> None:
    """The records that are there by now; later ones have a column more."""
    known = sum(len(records) for records in world.kafka.records.values())
    for n in range(known, int(sent.read_text())):
        world.add({"n": n, **({f"later_{n // 20}": n} if n >= 20 else {})})


def drive(world: IcebergWorld, folder: Path, *, drains: bool) -> None:
    """One driver, to its end."""
    more_records(world, folder / "sent")
    sink = world.start()
    while not drains:
        more_records(world, folder / "sent")
        sink.poll_and_commit()
        time.sleep(PAUSE_S)
    sink.poll()
    sink.drain(close=Reason.FLUSH_NOW)


def main(bucket: str, endpoint: str, folder: Path) -> None:
    """Makes a child of this process for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if child:
            print(child, flush=True)
            continue
        code = 0
        try:
            world = killed_world(bucket, endpoint, folder)
            drive(world, folder, drains=line.strip() == "drain")
            (folder / f"{os.getpid()}.done").write_text(str(now_ms()))
        except Fenced:
            (folder / f"{os.getpid()}.fenced").touch()
        except BaseException:
            (folder / f"{os.getpid()}.failed").write_text(traceback.format_exc())
            code = 1
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
