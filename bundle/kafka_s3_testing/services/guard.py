"""How does a server never outlive the process that started it, even one killed with -9? This script runs it, and watches a pipe.

It runs as a process of its own: `guard.py SECONDS COMMAND...`, started with the starter's pipe as standard input. It ends the command as
soon as that pipe closes, which the operating system does when the starter is gone, kills it if it then takes longer than so many seconds,
and exits with the command's exit code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

GRACE_SECONDS = 15.0


def main(grace_s: float, command: list[str]) -> int:
    """Runs the command until it ends or standard input closes; returns its exit code."""
    # The starter decides when to stop: a Ctrl-C in its terminal is not for us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=_stop_at_end_of_input, args=(child, grace_s), daemon=True).start()
    return child.wait()


def _stop_at_end_of_input(child: subprocess.Popen[bytes], grace_s: float) -> None:
    # Not through sys.stdin, whose lock this thread would still hold when the interpreter shuts down.
    while os.read(0, 1):
        pass
    child.terminate()
    try:
        child.wait(grace_s)
    except subprocess.TimeoutExpired:
        child.kill()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
