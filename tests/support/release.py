"""Release check: build sdist and wheel of both distributions twice, compare them byte by byte, and look at what is in them.

    python -m tests.support.release [FOLDER]        # as `make release` does; FOLDER is dist/ by default

Only what is committed is built: an export of HEAD, with the time of its commit. Setuptools takes that time for the wheel
(SOURCE_DATE_EPOCH), but not for the sdist, whose archive is therefore written again in one order, with one owner and one time.
The wheel is built from that sdist, so the sdist is known to be complete.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

SHARED: Final = "share/kafka-s3/"
"""Where the wheel puts the dashboard and the examples."""
PROJECTS: Final = {"kafka_s3": ".", "kafka_s3_testing": "bundle"}
"""Package of each distribution, and the folder of its pyproject.toml."""
GENERATED: Final = {"PKG-INFO", "setup.cfg"}
"""What the build adds to an sdist, beside the egg-info."""


def main(words: Sequence[str]) -> int:
    """Builds, checks, and leaves both files in the folder; 1 and the reason where something is not right."""
    target = Path(words[0] if words else ROOT / "dist").resolve()
    with tempfile.TemporaryDirectory() as scratch:
        first, second = (build(Path(scratch) / name) for name in ("first", "a-second-and-longer-name"))
        found = differences(first, second) + wrong_content(first)
        run([sys.executable, "-m", "twine", "check", "--strict", *first])
        if found:
            print("\n".join(found), file=sys.stderr)
            return 1
        target.mkdir(exist_ok=True)
        for file in first:
            shutil.copy(file, target)
            print(f"{target / file.name}: {file.stat().st_size:,} bytes, the same twice")
    return 0


def build(folder: Path) -> list[Path]:
    """Build sdist and wheel of each distribution from what is committed, in `folder`; return the files, sorted."""
    sources, epoch = export(folder / "sources")
    target = folder / "dist"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "TZ": "UTC"}
    builder = [sys.executable, "-m", "build", "--no-isolation", "--outdir", target]
    for package, project in PROJECTS.items():
        run([*builder, "--sdist", sources / project], environment)
        (sdist,) = target.glob(f"{package}-*.tar.gz")
        rewrite(sdist, epoch)
        unpacked = folder / "unpacked" / package
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        (root,) = unpacked.iterdir()
        run([*builder, "--wheel", root], environment)
    return sorted(target.iterdir())


def export(folder: Path) -> tuple[Path, int]:
    """The files of HEAD, and the second of its commit."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    committed = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True)
    return folder, int(committed.stdout)


def rewrite(sdist: Path, epoch: int) -> None:
    """Writes an sdist again as everybody's machine would: by name, of nobody, of one time, with the customary rights."""
    with tarfile.open(sdist) as archive:
        members = sorted(
            ((member, archive.extractfile(member)) for member in archive.getmembers() if member.isfile()),
            key=lambda pair: pair[0].name,
        )
        contents = [(member.name, content.read() if content else b"") for member, content in members]
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in contents:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), epoch, 0o644
            archive.addfile(member, io.BytesIO(content))
    sdist.write_bytes(gzip.compress(plain.getvalue(), mtime=epoch))


def differences(first: Sequence[Path], second: Sequence[Path]) -> list[str]:
    """The files that are not the same, byte by byte."""
    if [file.name for file in first] != [file.name for file in second]:
        return [f"two builds gave files of other names: {first}, {second}"]
    return [
        f"{one.name}: two builds differ in their bytes; a build of one commit must always give the same file"
        for one, other in zip(first, second, strict=True)
        if one.read_bytes() != other.read_bytes()
    ]


def wrong_content(files: Sequence[Path]) -> list[str]:
    """What is in the files and should not be, or is not and should: a wheel is the package, the dashboard and the examples, no test."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    found = []
    for file in files:
        names, package = contents(file), file.name.partition("-")[0]
        modules = {path for path in tracked if path.startswith(f"bundle/{package}/")}
        if file.suffix == ".whl":
            wanted = {path.removeprefix("bundle/") for path in modules}
            strange = {name for name in names - wanted if SHARED not in name and ".dist-info/" not in name}
        else:
            prefix = "" if PROJECTS[package] == "." else f"{PROJECTS[package]}/"
            names = {name.partition("/")[2] for name in names}
            wanted = {path.removeprefix(prefix) for path in modules}
            own = {path.removeprefix(prefix) for path in tracked if path.startswith(prefix)}
            strange = {name for name in names - own - GENERATED if ".egg-info/" not in name}
        strange |= {name for name in names if name.startswith("tests/") or "/tests/" in name or "/test_" in name}
        found += [f"{file.name}: {name} should not be in it" for name in sorted(strange)]
        found += [f"{file.name}: {name} is missing" for name in sorted(wanted - names)]
    return found


def contents(file: Path) -> set[str]:
    """The names of the files in a wheel or an sdist."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            return {*wheel.namelist()}
    with tarfile.open(file) as sdist:
        return {member.name for member in sdist.getmembers() if member.isfile()}


def run(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> None:
    """Runs a program of the release; what it says is shown where it fails."""
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    if ran.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{ran.stdout}{ran.stderr}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
