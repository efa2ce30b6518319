"""What does the app platform do with an app? It settles its variables, starts its command beside its files, and asks after its health."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from kafka_s3_testing.services.process import free_ports
from kafka_s3_testing.services.s3 import ACCESS_KEY, SECRET_KEY
from tests.services.bundle.fresh_environment import LEFT_OUT, install_requirements
from tests.support.repository import ROOT
from tests.support.waiting import eventually

SCOPE = {"access-key-id": ACCESS_KEY, "secret-access-key": SECRET_KEY}
"""What docs/databricks.md has put into the scope."""


@dataclass(frozen=True)
class UploadedApp:
    """An app's folder as a deployment uploads it, and the Python that its requirements are installed for."""

    source: Path
    python: Path


def uploaded(wheel: Path, python: Path, folder: Path) -> UploadedApp:
    """The dashboard's folder alone, with the wheel beside it as `make wheel` leaves it; `python` has that wheel already."""
    source = folder / "source"
    shutil.copytree(ROOT / "dashboard", source, ignore=LEFT_OUT)
    (source / "wheels").mkdir()
    shutil.copy(wheel, source / "wheels")
    install_requirements(python, source)
    return UploadedApp(source, python)


def settled(env: list[Mapping[str, str]], resources: list[Mapping[str, Any]]) -> dict[str, str]:
    """The variables as the platform passes them: texts, and secrets through the app's resources."""
    keys = {resource["name"]: resource["secret"]["key"] for resource in resources}
    texts = {entry["name"]: entry["value"] for entry in env if "value" in entry}
    wanted = {
        entry["name"]: entry.get("value_from", entry.get("valueFrom", "")) for entry in env if "value" not in entry
    }
    return texts | {name: SCOPE[keys[resource]] for name, resource in wanted.items()}


@contextmanager
def started(app: UploadedApp, command: list[str], variables: Mapping[str, str], folder: Path) -> Iterator[int]:
    """The app's process with the variables that the platform sets for Streamlit; gives its port once it is healthy."""
    (port,) = free_ports(1)
    platform = {
        "DATABRICKS_APP_NAME": "kafka-s3-prod", "DATABRICKS_APP_PORT": str(port), "STREAMLIT_SERVER_ADDRESS": "0.0.0.0",
        "STREAMLIT_SERVER_PORT": str(port), "STREAMLIT_SERVER_HEADLESS": "true", "STREAMLIT_SERVER_ENABLE_CORS": "false",
        "STREAMLIT_SERVER_ENABLE_XSRF_PROTECTION": "false", "HOME": str(folder),
    }  # fmt: skip
    environment = {
        "PATH": f"{app.python.parent}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        **platform,
        **variables,
    }
    log = folder / "app.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=app.source, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: process.poll() is not None or _healthy(port), what=log.read_text)
        assert process.poll() is None, log.read_text()
        yield port
    finally:
        process.terminate()
        process.wait(30)
    assert "Traceback" not in log.read_text()


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def page_of(port: int) -> str:
    """What the overview says to a browser: every element of one run, over Streamlit's own protocol."""
    from streamlit.proto.BackMsg_pb2 import BackMsg
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

    heard = []
    with connect(f"ws://127.0.0.1:{port}/_stcore/stream", subprotocols=["streamlit"], max_size=None) as socket:  # type: ignore[list-item]
        asked = BackMsg()
        asked.rerun_script.query_string = ""
        asked.rerun_script.page_name = "overview"
        socket.send(asked.SerializeToString())
        while True:
            message = ForwardMsg()
            message.ParseFromString(socket.recv(timeout=30))
            if message.WhichOneof("type") == "script_finished":
                return "\n".join(heard)
            heard.append(str(message))
