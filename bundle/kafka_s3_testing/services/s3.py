"""How do the demo and the tests get an S3? From moto's server; measurements take versitygw, which is no brake."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from kafka_s3.run.java.cache import LocalServiceError, announce, cache_folder, locked
from kafka_s3_testing.services.process import HOST, ServerProcess, free_ports, require_free

REGION = "us-east-1"
ACCESS_KEY = "kafka-s3-local"
SECRET_KEY = "kafka-s3-local-secret"
START_SECONDS = 60.0
BUILD_SECONDS = 900
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"


class ServerProgram(StrEnum):
    """Which program serves the objects."""

    MOTO = "moto"
    VERSITYGW = "versitygw"


class EmbeddedS3:
    """An S3 server on this machine; a context manager. Its objects are gone when it stops.

    The credentials are made up and the same every time. Raises LocalServiceError where the server cannot be had or does not start.
    versitygw notes every request in `access_log`, a line each, where one is named, and speaks TLS with a certificate and its key, which are
    PEM files.
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        engine: ServerProgram = ServerProgram.MOTO,
        access_log: Path | None = None,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        self.port = port or free_ports(1)[0]
        self.engine = engine
        self._access_log = access_log
        self._tls = tls
        self._folder: Path | None = None
        self._process: ServerProcess | None = None

    @property
    def endpoint_url(self) -> str:
        """`http://host:port`, or `https`; buckets are addressed by path."""
        return f"{'http' if self._tls is None else 'https'}://{HOST}:{self.port}"

    @property
    def folder(self) -> Path:
        """Where versitygw has each bucket as a folder of plain files, which may be read and written beside it; moto has none."""
        if self._folder is None or self.engine is not ServerProgram.VERSITYGW:
            raise LocalServiceError(f"The S3 server ({self.engine}) has no folder: start it, with versitygw.")
        return self._folder / "objects"

    @property
    def environment(self) -> dict[str, str]:
        """The variables from which AWS clients take region and credentials."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
        }

    def start(self) -> None:
        """Starts the server and returns once it listens; does nothing where it runs."""
        if self._process is None:
            require_free(self.port)
            command = _command(self.engine, self._access_log, self._tls)
            self._folder = Path(tempfile.mkdtemp(prefix="kafka-s3-objects-"))
            (self._folder / "objects").mkdir()
            self._process = ServerProcess(
                f"The S3 server ({self.engine})",
                [part.format(port=self.port, folder=self._folder / "objects") for part in command],
                log=self._folder / "server.log",
                environment=self.environment | {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
            )
            try:
                self._process.wait_for_port(self.port, START_SECONDS)
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Stops the server and deletes its objects; does nothing where it does not run."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def create_bucket(self, name: str) -> None:
        """Creates a bucket; one that exists already is left as it is."""
        if self._folder is None:
            raise LocalServiceError(f"Bucket {name} cannot be created: the S3 server is not started.")
        if self.engine is ServerProgram.VERSITYGW:
            (self._folder / "objects" / name).mkdir(
                exist_ok=True
            )  # it serves a folder; requests would have to be signed
            return
        request = urllib.request.Request(f"{self.endpoint_url}/{name}", method="PUT")
        without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            without_proxy.open(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            answer = error.read().decode(errors="replace")
            raise LocalServiceError(f"Bucket {name} could not be created at {self.endpoint_url}: {answer}") from error

    def __enter__(self) -> Self:
        """The started server."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the server."""
        self.stop()


def versitygw(progress: Callable[[str], None] = announce) -> Path:
    """The versitygw program: `KAFKA_S3_VERSITYGW`, else the one on PATH, else built by Go once, into the cache folder."""
    if given := os.environ.get("KAFKA_S3_VERSITYGW") or shutil.which("versitygw"):
        return Path(given)
    program = cache_folder() / "bin" / VERSITYGW.rpartition("@")[2] / "versitygw"
    with locked("versitygw"):
        if not program.is_file():
            progress(f"Building {VERSITYGW} (once, some minutes, into {program.parent})")
            _go_install(program.parent)
    return program


def _go_install(folder: Path) -> None:
    if shutil.which("go") is None:
        raise LocalServiceError(
            "versitygw was not found: put it on PATH, name it in KAFKA_S3_VERSITYGW, or install Go so that it can be built."
        )
    environment = {**os.environ, "GOBIN": str(folder)}
    ran = subprocess.run(
        ["go", "install", VERSITYGW],
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if ran.returncode:
        raise LocalServiceError(f"`go install {VERSITYGW}` failed:\n{ran.stderr[-2000:]}")


def _command(engine: ServerProgram, access_log: Path | None, tls: tuple[Path, Path] | None) -> list[str]:
    if engine is ServerProgram.VERSITYGW:
        noted = [] if access_log is None else ["--access-log", str(access_log)]
        noted += [] if tls is None else ["--cert", str(tls[0]), "--key", str(tls[1])]
        # as S3 does; a new connection for each request costs both sides more than the request
        return [str(versitygw()), "--quiet", "--keep-alive", *noted, "--port", f"{HOST}:{{port}}", "posix", "{folder}"]
    if find_spec("moto") is None:
        raise LocalServiceError("moto, the S3 server of this machine, is not installed: pip install 'kafka-s3[local]'")
    return [sys.executable, "-P", str(Path(__file__).with_name("moto_server.py")), HOST, "{port}"]
