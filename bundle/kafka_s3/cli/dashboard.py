"""`kafka-s3 dashboard CONFIG|NAME`: how are the sinks of a bucket? Starts the dashboard's server, which only reads commit logs."""

from __future__ import annotations

import json
import os
import socket
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

import kafka_s3
from kafka_s3.cli.arguments import Overrides, Where, WorkerPath, composed, is_file, settings_of, usage_error

SHARED: Final = "share/kafka-s3"
APP: Final = "dashboard/app.py"
SERVER: Final = "serve.py"
PORTS: Final = range(8501, 8521)


@composed(where=Where)
def dashboard(
    where: Where,
    sink: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONFIG|NAME]",
            help="A sink's configuration file, or its name with --bucket; without it, all of --bucket.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, help="Where the server listens; default: 8501, or the next one that is free."
        ),
    ] = None,
    address: Annotated[
        str,
        typer.Option(
            "--address", help="The interface; 0.0.0.0 for all, which shows the sinks to whoever can reach it."
        ),
    ] = "127.0.0.1",
    login: Annotated[
        bool,
        typer.Option("--login", help="Ask for a login with the OpenID Connect provider of .streamlit/secrets.toml."),
    ] = False,
    masked: Annotated[
        list[str] | None,
        typer.Option("--mask-field", metavar="NAME", help="Mask this field of records; may be given more than once."),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = False,
    worker: WorkerPath = None,
    overrides: Overrides = None,
) -> None:
    """Serve the dashboard of a bucket's sinks until Ctrl-C. It only reads; anyone who can reach the port can see what it shows."""
    app = app_file()
    if sink is not None and is_file(sink):
        variables = _of_file(Path(sink), worker, overrides)
    elif where.bucket:
        variables = {
            "KAFKA_S3_BUCKET": where.bucket, "KAFKA_S3_REGION": where.region, "KAFKA_S3_STATE_PREFIX": where.prefix,
            "KAFKA_S3_STORE_URL": where.store_url or "", "KAFKA_S3_SERVICE_CREDENTIAL": where.service_credential or "",
            "KAFKA_S3_DASHBOARD_SINK": sink or "", "KAFKA_S3_DASHBOARD_CONFIG": "",
        }  # fmt: skip
    else:
        raise usage_error("--bucket", None, "is needed without a configuration file.", "Or name the file.")
    if login:
        variables["KAFKA_S3_DASHBOARD_LOGIN"] = "oidc"
    if masked:
        variables["KAFKA_S3_DASHBOARD_MASK_FIELDS"] = ",".join(masked)
    _serve(app.with_name(SERVER), [
        "run", str(app), "--server.port", str(port_of(port, address)), "--server.address", address,
        "--server.headless", "false" if browser else "true", "--browser.gatherUsageStats", "false",
    ], variables)  # fmt: skip


def app_file() -> Path:
    """The dashboard's entry: that of the source tree, else the one that the wheel brought along. Raises ConfigError without Streamlit."""
    if find_spec("streamlit") is None:
        raise usage_error(
            "streamlit", "not installed", "is needed for the dashboard.", "pip install 'kafka-s3[dashboard]'"
        )
    return shipped(APP)


def shipped(name: str) -> Path:
    """The file `name`, relative to the top of the source tree. Raises ConfigError where neither tree nor wheel has it."""
    tree, installed = Path(kafka_s3.__file__).parents[2], Path(sysconfig.get_path("data")) / SHARED
    found = next((folder / name for folder in (tree, installed) if (folder / name).is_file()), None)
    if found is None:
        remedy = "Reinstall kafka-s3, or run it from its source tree."
        raise usage_error(name, str(installed), "is not there.", remedy)
    return found


def port_of(wanted: int | None, address: str) -> int:
    """The port that was asked for, else the first free one from 8501 on. Raises ConfigError where it is taken."""
    ports = PORTS if wanted is None else (wanted,)
    free = next((port for port in ports if _is_free(port, address)), None)
    if free is None:
        taken = str(wanted or f"{PORTS.start} to {PORTS.stop - 1}")
        raise usage_error("--port", taken, f"is taken on {address}.", "Name another one, or leave it out.")
    return free


def _is_free(port: int, address: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _of_file(config: Path, worker: Path | None, overrides: list[str] | None) -> dict[str, str]:
    """The server's variables; a configuration with problems is reported here, not on a page."""
    settings_of(config, worker, overrides)
    return {
        "KAFKA_S3_DASHBOARD_CONFIG": str(config.resolve()),
        "KAFKA_S3_DASHBOARD_WORKER": str(worker.resolve()) if worker else "",
        "KAFKA_S3_DASHBOARD_SET": json.dumps(overrides or []),
    }


def _serve(server: Path, arguments: list[str], variables: dict[str, str]) -> NoReturn:
    """The server takes the place of this process, so that signals reach it."""
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, str(server), *arguments], {**os.environ, **variables})
